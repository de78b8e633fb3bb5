// Kubelet's side of the registration of the plugin: calls with any content, and other processes in its directory. The
// invariants:
//
//   GetInfo always gives the driver and its endpoint; each line of the log is a JSON object
//   the socket comes again after kubelet has refused the plugin, and after somebody has deleted the file
//   a file that another process has put there stays, also at the end; the plugin's own file goes
#include <fcntl.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/socket_path.h"
#include "base/text/quote.h"
#include "plugin/kubelet/kubelet_registration.h"
#include "pluginregistration.grpc.pb.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

extern "C" void __sanitizer_set_report_fd(void* fd);

namespace mooring::fuzz {
namespace {

namespace fs = std::filesystem;
using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr char kDriver[] = "disk.example", kEndpoint[] = "/csi/csi.sock";

// Collects what the log writes, while it lives.
class Log {
 public:
  Log() {
    ::dup2(file_, STDERR_FILENO);
    Require(log::Setup("info", "json").ok(), "the log can be set up");
  }
  ~Log() { ::dup2(kStderr, STDERR_FILENO); }

  void Check() {
    const off_t size = ::lseek(file_, 0, SEEK_END);
    std::string text(static_cast<std::size_t>(size), '\0');
    Require(::pread(file_, text.data(), text.size(), 0) == size, "the log can be read");
    if (::ftruncate(file_, 0) != 0 || ::lseek(file_, 0, SEEK_SET) != 0) std::abort();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, end - at);
      at = end + 1;
      const bool is_object = nlohmann::json::parse(line, nullptr, false).is_object();
      Require(is_object, "a line of the log is a JSON object", line);
    }
  }

 private:
  static inline const int kStderr = [] {
    const int fd = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    __sanitizer_set_report_fd(reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
    error_fd = fd;
    return fd;
  }();
  static inline const int file_ = ::memfd_create("log", MFD_CLOEXEC);
};

class Registry {
 public:
  explicit Registry(Milliseconds wait) : wait_(wait) {
    fs::create_directory(directory_);
    Start();
  }

  void Call(const std::string& method, const std::string& bytes) {
    grpc::ByteBuffer answer;
    const grpc::Status status = Send(method, bytes, answer);
    Show(method + ": " + status.error_message());
    if (method == "GetInfo" && status.ok()) CheckInfo(answer);
    const auto code = status.error_code();
    Require(code == grpc::OK || code == grpc::INTERNAL || code == grpc::UNIMPLEMENTED || is_disturbed_,
            "a call is answered", std::to_string(code) + " " + status.error_message());
  }

  // Whether kubelet can ask for the plugin's name.
  void CheckAnswers() {
    grpc::ByteBuffer answer;
    const grpc::Status status = Send("GetInfo", "", answer);
    Require(status.ok(), "the plugin answers kubelet", status.error_message());
    CheckInfo(answer);
  }

  void Refuse(const std::string& error) {
    const auto old = FileNow();
    Notify(false, error);
    if (wait_ > Milliseconds(1000) || foreign_) return;
    Await([&] { return FileNow() != old; }, "the socket comes again after a refusal");
  }
  void Accept() { Notify(true, ""); }

  void DeleteFile() {
    fs::remove(path_);
    foreign_.reset();
    Await([&] { return fs::exists(path_); }, "the socket comes again after it was deleted");
  }

  // Something else is put in place of the socket.
  void Replace(int kind) {
    fs::remove(path_);
    is_disturbed_ = true;
    const std::string made = directory_ + "/made";
    if (kind == 0) std::ofstream(made) << "text";
    if (kind == 1) fs::create_directory(made);
    if (kind == 2) fs::create_symlink("/etc/passwd", made);
    if (kind == 3) ::mknod(made.c_str(), S_IFSOCK | 0600, 0);
    std::error_code taken;  // the plugin was quicker
    fs::rename(made, path_, taken);
    foreign_ = taken ? std::nullopt : FileNow();
  }

  void Stop() {
    const bool is_theirs = foreign_ && FileNow() == foreign_;
    channel_.reset();
    registration_->Withdraw();
    if (is_theirs) Require(FileNow() == foreign_, "a file of another process stays");
    if (!foreign_) Require(!FileNow(), "the plugin's file goes");
    Require(!fs::exists(fs::symlink_status(hidden_)), "the hidden socket goes");
    registration_.reset();
  }

 private:
  void Start() {
    registration_ = std::make_unique<KubeletRegistration>(KubeletRegistration::Settings{.directory = directory_,
                                                                                        .driver_name = kDriver,
                                                                                        .endpoint = kEndpoint,
                                                                                        .first_wait = wait_,
                                                                                        .longest_wait = wait_ * 4,
                                                                                        .check_every = wait_});
    Require(registration_->CheckSockets().ok() && registration_->Start().ok(), "the registration starts");
    registration_->Announce();
    Await([&] { return fs::exists(path_); }, "the socket comes");
  }

  void Notify(bool registered, const std::string& error) {
    pluginregistration::RegistrationStatus status;
    status.set_plugin_registered(registered);
    status.set_error(error);
    Call("NotifyRegistrationStatus", status.SerializeAsString());
  }

  grpc::Status Send(const std::string& method, const std::string& bytes, grpc::ByteBuffer& answer) {
    // A new server needs a new connection.
    if (const auto now = FileNow(); channel_ == nullptr || now != connected_) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      channel_ = grpc::CreateCustomChannel(GrpcTarget(path_), grpc::InsecureChannelCredentials(), arguments);
      connected_ = now;
    }
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(is_disturbed_ ? 1 : 30));
    context.set_wait_for_ready(!is_disturbed_);  // between the end of a server and its successor nobody answers
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::CompletionQueue queue;
    grpc::Status status;
    const auto call = grpc::GenericStub(channel_).PrepareUnaryCall(
        &context, "/pluginregistration.Registration/" + method, request, &queue);
    call->StartCall();
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }

  static void CheckInfo(grpc::ByteBuffer& answer) {
    pluginregistration::PluginInfo info;
    grpc::Slice slice;
    Require(answer.DumpToSingleSlice(&slice).ok() && info.ParseFromArray(slice.begin(), static_cast<int>(slice.size())),
            "GetInfo gives a message");
    Require(info.name() == kDriver && info.endpoint() == kEndpoint && info.type() == "CSIPlugin" &&
                info.supported_versions_size() == 1,
            "GetInfo gives the driver and its endpoint", info.DebugString());
  }

  using File = std::pair<ino_t, std::int64_t>;
  std::optional<File> FileNow() const {
    struct stat found = {};
    if (::lstat(path_.c_str(), &found) != 0) return std::nullopt;
    return File(found.st_ino, found.st_ctim.tv_nsec);
  }

  template <typename Holds>
  static void Await(Holds holds, const char* invariant) {
    const auto until = Clock::now() + std::chrono::seconds(30);
    while (!holds()) {
      Require(Clock::now() < until, invariant);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  const Milliseconds wait_;
  const testing::TempDir scratch_;
  const std::string directory_ = scratch_ / "plugins_registry";
  const std::string path_ = KubeletRegistration::SocketPath(directory_, kDriver);
  const std::string hidden_ = KubeletRegistration::HiddenPath(directory_, kDriver);
  std::unique_ptr<KubeletRegistration> registration_;
  std::shared_ptr<grpc::Channel> channel_;
  std::optional<File> connected_, foreign_;
  bool is_disturbed_ = false;
};

enum class Kind { kInfo, kStatus, kOther, kAccept, kRefuse, kDelete, kReplace };
struct Action {
  Kind kind;
  std::string text;
  int number = 0;
};

std::vector<Action> ActionsIn(FuzzedDataProvider& input) {
  constexpr std::size_t kMost = 8;
  constexpr Kind kKinds[] = {Kind::kInfo,   Kind::kStatus, Kind::kStatus, Kind::kOther,
                             Kind::kAccept, Kind::kRefuse, Kind::kDelete, Kind::kReplace};
  std::vector<Action> actions;
  while (input.remaining_bytes() > 0 && actions.size() < kMost) {
    Action action = {.kind = input.PickValueInArray(kKinds), .text = {}, .number = input.ConsumeIntegralInRange(0, 3)};
    action.text = input.ConsumeRandomLengthString(500);
    actions.push_back(std::move(action));
  }
  return actions;
}

// proto3: the text of a field is UTF-8.
std::string Ascii(std::string text) {
  for (char& byte : text) byte = static_cast<char>(byte & 0x7F);
  return text;
}

void Do(const Action& action, Registry& registry) {
  switch (action.kind) {
    case Kind::kInfo:
      return registry.Call("GetInfo", action.text);
    case Kind::kStatus:
      return registry.Call("NotifyRegistrationStatus", action.text);
    case Kind::kOther:
      return registry.Call(action.number == 0 ? "Other" : "GetInfo/" + Ascii(action.text).substr(0, 20), action.text);
    case Kind::kAccept:
      return registry.Accept();
    case Kind::kRefuse:
      return registry.Refuse(Ascii(action.text));
    case Kind::kDelete:
      return registry.DeleteFile();
    case Kind::kReplace:
      return registry.Replace(action.number);
  }
}

}  // namespace

void TryOne(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  const std::vector<Action> actions = ActionsIn(input);
  Log log;
  // Making a server takes as long as many calls, so inputs with calls alone share one. It never offers itself again.
  const bool calls_alone =
      std::none_of(actions.begin(), actions.end(), [](const Action& action) { return action.kind > Kind::kRefuse; });
  if (calls_alone) {
    static Registry& shared = *new Registry(std::chrono::hours(1));
    for (const Action& action : actions) Do(action, shared);
    shared.Accept();
    shared.CheckAnswers();
    return log.Check();
  }
  Registry registry(Milliseconds(1));
  for (const Action& action : actions) Do(action, registry);
  registry.Stop();
  log.Check();
}

}  // namespace mooring::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mooring::fuzz::TryOne(data, size);
  return 0;
}

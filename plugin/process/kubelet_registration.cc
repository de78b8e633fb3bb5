#include "plugin/process/kubelet_registration.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <system_error>
#include <utility>

#include "base/endpoint.h"
#include "base/file/unique_fd.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "pluginregistration.grpc.pb.h"
#include "rpc/server_limits.h"

namespace mooring {
namespace {

constexpr int kMostKubeletCalls = 16;  // at a time, of kubelet
constexpr char kType[] = "CSIPlugin";
constexpr char kVersion[] = "1.0.0";  // of CSI; kubelet looks at the 1
constexpr std::string_view kAnother =
    "another registrar serves this driver: end that, or start the plugin without --kubelet-registration-dir";
constexpr std::chrono::milliseconds kLastAnswers{100};

// Whether kubelet found nothing at the endpoint, in the words of gRPC for Go, or for C++.
bool CouldNotDial(const std::string& error) {
  constexpr std::array<std::string_view, 4> kWords = {"dial", "failed to connect", "connection refused",
                                                      "o such file or directory"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&error](std::string_view word) { return error.find(word) != std::string::npos; });
}

// 0, or the errno of bind(2), which gRPC would not tell.
int TryBind(const std::string& path) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return errno;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return errno;
  return ::unlink(path.c_str()) == 0 ? 0 : errno;
}

}  // namespace

class KubeletRegistration::Service final : public pluginregistration::Registration::CallbackService {
 public:
  using Heard = std::function<void(bool registered, const std::string& error)>;
  Service(const Settings& settings, Heard heard) : heard_(std::move(heard)) {
    info_.set_type(kType);
    info_.set_name(settings.driver_name);
    info_.set_endpoint(settings.endpoint);
    info_.add_supported_versions(kVersion);
  }

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context, const pluginregistration::InfoRequest*,
                                    pluginregistration::PluginInfo* response) override {
    *response = info_;
    return Done(context);
  }

  grpc::ServerUnaryReactor* NotifyRegistrationStatus(grpc::CallbackServerContext* context,
                                                     const pluginregistration::RegistrationStatus* request,
                                                     pluginregistration::RegistrationStatusResponse*) override {
    heard_(request->plugin_registered(), request->error());
    return Done(context);
  }

 private:
  static grpc::ServerUnaryReactor* Done(grpc::CallbackServerContext* context) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  pluginregistration::PluginInfo info_;
  const Heard heard_;
};

std::string KubeletRegistration::SocketPath(std::string_view directory, std::string_view driver_name) {
  return fmt::format("{}/{}-reg.sock", directory, driver_name);
}

std::string KubeletRegistration::HiddenPath(std::string_view directory, std::string_view driver_name) {
  return fmt::format("{}/.{}-reg.sock", directory, driver_name);
}

KubeletRegistration::KubeletRegistration(Settings settings)
    : settings_(std::move(settings)),
      path_(SocketPath(settings_.directory, settings_.driver_name)),
      hidden_path_(HiddenPath(settings_.directory, settings_.driver_name)),
      service_(std::make_unique<Service>(
          settings_, [this](bool registered, const std::string& error) { Hear(registered, error); })),
      wait_(settings_.first_wait) {}

KubeletRegistration::~KubeletRegistration() { Withdraw(); }

std::optional<KubeletRegistration::File> KubeletRegistration::Look(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return File{status.st_dev, status.st_ino, status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec};
}

absl::Status KubeletRegistration::CheckSockets() {
  for (const std::string& path : {path_, hidden_path_}) {
    const absl::StatusOr<bool> stale = IsStaleSocket(path, kAnother);
    if (!stale.ok()) return Annotate(stale.status(), "register with kubelet");
    if (*stale && path == path_) stale_ = Look(path);
  }
  directory_ = Look(settings_.directory);
  return CheckMayBind();
}

// Landlock knows directories by what they were, not by their names.
absl::Status KubeletRegistration::CheckMayBind() const {
  ::unlink(hidden_path_.c_str());  // a predecessor's, whom somebody killed in the middle
  const int error = TryBind(hidden_path_);
  if (error == 0) return absl::OkStatus();
  const absl::Status failed = ErrnoStatus(error, "make a socket for kubelet in", settings_.directory);
  const std::optional<File> now = Look(settings_.directory);
  const bool replaced = now && directory_ && (now->device != directory_->device || now->inode != directory_->inode);
  if (error == EACCES && replaced) {
    return FailedPrecondition(Message(failed) +
                              ": it is another directory than at the start, to which the plugin has confined itself: "
                              "restart the plugin");
  }
  if (error == EROFS) return FailedPrecondition(Message(failed) + ": bind it writable into the plugin's container");
  if (error != EACCES && error != EPERM) return failed;
  return FailedPrecondition(fmt::format(
      "{}: the plugin works as user {}:{}: let that user write there, or leave the registration to a registrar beside "
      "it, without --kubelet-registration-dir",
      Message(failed), ::geteuid(), ::getegid()));
}

absl::Status KubeletRegistration::Start() {
  try {
    thread_ = std::thread(&KubeletRegistration::Run, this);
  } catch (const std::system_error& error) {
    return ErrnoStatus(error.code().value(), "start the thread that registers with kubelet");
  }
  return absl::OkStatus();
}

void KubeletRegistration::Announce() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (announced_) return;
  announced_ = true;
  offer_at_ = Clock::now();
  changed_.notify_all();
}

// What others have put there meanwhile is theirs to remove. Called again it finds nothing of its own: once ours is gone
// a successor's may have its number.
void KubeletRegistration::Withdraw() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    withdrawn_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (const std::optional<File> now = LookAtPlace(); now && now == ours_) ::unlink(path_.c_str());
  ours_.reset();
  EndServer();
}

void KubeletRegistration::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return announced_ || withdrawn_; });
  while (!withdrawn_) {
    if (offer_at_ == kNever) LookAfterSocket();
    if (offer_at_ <= Clock::now()) {
      offer_at_ = kNever;
      lock.unlock();  // an answer to kubelet needs the lock, and the end of a server awaits that answer
      const absl::Status offered = Offer();
      lock.lock();
      if (!offered.ok()) PutOff("the plugin is not offered to kubelet", Message(offered));
    }
    changed_.wait_until(lock, std::min(offer_at_, Clock::now() + settings_.look_after));
  }
}

void KubeletRegistration::LookAfterSocket() {
  const std::optional<File> now = LookAtPlace();
  if (!now) {
    log::Warning("the registration socket is gone, though not by us: it is made again", {{"socket", path_}});
    offer_at_ = Clock::now();
  }
  const bool theirs = now && now != ours_;
  if (theirs && !disputed_) {
    log::Error("the registration socket was replaced by another process",
               {{"socket", path_}, {"cause", std::string(kAnother)}});
  }
  disputed_ = theirs;
}

// What is bound keeps its number to itself, whoever changes its mode or label.
std::optional<KubeletRegistration::File> KubeletRegistration::LookAtPlace() {
  const std::optional<File> now = Look(path_);
  const bool is_ours = server_ != nullptr && now && ours_ && now->device == ours_->device && now->inode == ours_->inode;
  if (is_ours) ours_ = now;
  return now;
}

// Nobody can be asked any more whether it is served (see ConfineServer): so what was not stale at the start, nor is
// ours, is left alone.
absl::Status KubeletRegistration::CheckPlace() const {
  const std::optional<File> now = Look(path_);
  if (!now || now == stale_ || now == ours_) return absl::OkStatus();
  return FailedPrecondition(fmt::format("{} was put there by another process: {}", Quote(path_), kAnother));
}

absl::Status KubeletRegistration::Offer() {
  LookAtPlace();
  MOORING_RETURN_IF_ERROR(CheckPlace());
  EndServer();
  MOORING_RETURN_IF_ERROR(CheckMayBind());
  grpc::ServerBuilder builder;
  int bound = 0;
  builder.AddListeningPort(GrpcTarget(hidden_path_), grpc::InsecureServerCredentials(), &bound);
  builder.RegisterService(service_.get());
  LimitServer(builder, "kubelet-registration", kMostKubeletCalls);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || bound == 0) return Internal(fmt::format("cannot listen on {}", Quote(hidden_path_)));
  const absl::Status placed = Place();
  if (!placed.ok()) EndServer();
  return placed;
}

absl::Status KubeletRegistration::Place() {
  const std::optional<File> made = Look(hidden_path_);
  MOORING_RETURN_IF_ERROR(CheckPlace());
  if (std::rename(hidden_path_.c_str(), path_.c_str()) != 0) return ErrnoStatus(errno, "rename to", path_);
  ours_ = made;
  LookAtPlace();  // the rename was a change of it
  stale_.reset();
  log::Info("offered to kubelet", {{"socket", path_}, {"endpoint", settings_.endpoint}});
  return absl::OkStatus();
}

void KubeletRegistration::Hear(bool registered, const std::string& error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!registered) {
    std::string cause = error.empty() ? "it did not say why" : error;
    if (CouldNotDial(error)) {
      cause +=
          fmt::format("; the endpoint that it was told, {}, is to it a path of the host: --kubelet-endpoint names it",
                      Quote(settings_.endpoint));
    }
    PutOff("kubelet did not register the plugin", cause);
    return;
  }
  offer_at_ = kNever;
  wait_ = settings_.first_wait;
  log::Info("registered with kubelet", {{"driver", settings_.driver_name}, {"endpoint", settings_.endpoint}});
  ReleaseWhatTheStartUsed();  // which ends here
}

void KubeletRegistration::PutOff(std::string_view what, const std::string& cause) {
  log::Error(what, {{"cause", cause}, {"again_in_ms", static_cast<double>(wait_.count())}});
  offer_at_ = Clock::now() + wait_;
  wait_ = std::min(2 * wait_, settings_.longest_wait);
  changed_.notify_all();
}

void KubeletRegistration::EndServer() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() + kLastAnswers);
  server_->Wait();
  server_.reset();
}

}  // namespace mooring

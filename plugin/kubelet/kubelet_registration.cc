#include "plugin/kubelet/kubelet_registration.h"

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

constexpr int kMostKubeletCalls = 16;  // at a time
constexpr char kType[] = "CSIPlugin";
constexpr char kVersion[] = "1.0.0";  // of CSI; kubelet reads only the major version
constexpr std::string_view kAnother =
    "another registrar serves this driver: end that, or start the plugin without --kubelet-registration-dir";
constexpr std::chrono::milliseconds kLastAnswers{100};

// Whether kubelet did not reach the endpoint: the error texts of gRPC for Go and for C++.
bool CouldNotDial(const std::string& error) {
  constexpr std::array<std::string_view, 4> kWords = {"dial", "failed to connect", "connection refused",
                                                      "o such file or directory"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&error](std::string_view word) { return error.find(word) != std::string::npos; });
}

// 0, or the errno of bind(2), which gRPC does not report.
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
  using StatusHandler = std::function<void(bool registered, const std::string& error)>;
  Service(const Settings& settings, StatusHandler on_status) : on_status_(std::move(on_status)) {
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
    on_status_(request->plugin_registered(), request->error());
    return Done(context);
  }

 private:
  static grpc::ServerUnaryReactor* Done(grpc::CallbackServerContext* context) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  pluginregistration::PluginInfo info_;
  const StatusHandler on_status_;
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
          settings_, [this](bool registered, const std::string& error) { OnStatus(registered, error); })),
      wait_(settings_.first_wait) {}

KubeletRegistration::~KubeletRegistration() { Withdraw(); }

std::optional<KubeletRegistration::File> KubeletRegistration::FileAt(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return File{status.st_dev, status.st_ino, status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec};
}

absl::Status KubeletRegistration::CheckSockets() {
  for (const std::string& path : {path_, hidden_path_}) {
    const absl::StatusOr<bool> stale = IsStaleSocket(path, kAnother);
    if (!stale.ok()) return Annotate(stale.status(), "register with kubelet");
    if (*stale && path == path_) stale_ = FileAt(path);
  }
  directory_ = FileAt(settings_.directory);
  return CheckMayBind();
}

// Landlock allows the directory that existed at the start. A new one of the same name is not allowed.
absl::Status KubeletRegistration::CheckMayBind() const {
  ::unlink(hidden_path_.c_str());  // of a predecessor that was killed between bind and rename
  const int error = TryBind(hidden_path_);
  if (error == 0) return absl::OkStatus();
  const absl::Status failed = ErrnoStatus(error, "make a socket for kubelet in", settings_.directory);
  const std::optional<File> now = FileAt(settings_.directory);
  const bool replaced = now && directory_ && (now->device != directory_->device || now->inode != directory_->inode);
  if (error == EACCES && replaced) {
    return FailedPrecondition(
        Message(failed) +
        ": it is another directory than at the start, to which the plugin has confined itself: restart the plugin");
  }
  if (error == EROFS) return FailedPrecondition(Message(failed) + ": bind it writable into the plugin's container");
  if (error != EACCES && error != EPERM) return failed;
  return FailedPrecondition(
      "{}: the plugin works as user {}:{}: let that user write there, or leave the registration to a registrar beside "
      "it, without --kubelet-registration-dir",
      Message(failed), ::geteuid(), ::getegid());
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

// Another process's socket stays. A second call deletes nothing: the socket of a successor may have the same inode
// number.
void KubeletRegistration::Withdraw() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    withdrawn_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (const std::optional<File> now = InspectSocket(); now && now == ours_) ::unlink(path_.c_str());
  ours_.reset();
  EndServer();
}

void KubeletRegistration::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return announced_ || withdrawn_; });
  while (!withdrawn_) {
    if (offer_at_ == kNever) CheckStillThere();
    if (offer_at_ <= Clock::now()) {
      offer_at_ = kNever;
      lock.unlock();  // the old server ends only after its last answer to kubelet, and that answer needs the lock
      const absl::Status offered = OfferSocket();
      lock.lock();
      if (!offered.ok()) RetryLater("the plugin is not offered to kubelet", Message(offered));
    }
    changed_.wait_until(lock, std::min(offer_at_, Clock::now() + settings_.check_every));
  }
}

void KubeletRegistration::CheckStillThere() {
  const std::optional<File> now = InspectSocket();
  if (!now) {
    log::Warning("another process deleted the registration socket: it is made again", {{"socket", path_}});
    offer_at_ = Clock::now();
  }
  const bool theirs = now && now != ours_;
  if (theirs && !disputed_) {
    log::Error("the registration socket was replaced by another process",
               {{"socket", path_}, {"cause", std::string(kAnother)}});
  }
  disputed_ = theirs;
}

// While a socket is bound, no other file gets its inode number. Its mode or label may change.
std::optional<KubeletRegistration::File> KubeletRegistration::InspectSocket() {
  const std::optional<File> now = FileAt(path_);
  const bool is_ours = server_ != nullptr && now && ours_ && now->device == ours_->device && now->inode == ours_->inode;
  if (is_ours) ours_ = now;
  return now;
}

// This process can no longer check by connect(2) whether a socket is served (ConfineServer). So it replaces only its
// own socket, and one that was stale at the start.
absl::Status KubeletRegistration::CheckMayReplace() const {
  const std::optional<File> now = FileAt(path_);
  if (!now || now == stale_ || now == ours_) return absl::OkStatus();
  return FailedPrecondition("{} was put there by another process: {}", Quote(path_), kAnother);
}

absl::Status KubeletRegistration::OfferSocket() {
  InspectSocket();
  MOORING_RETURN_IF_ERROR(CheckMayReplace());
  EndServer();
  MOORING_RETURN_IF_ERROR(CheckMayBind());
  MOORING_RETURN_IF_ERROR(CheckThreadsForGrpc());
  grpc::ServerBuilder builder;
  int bound = 0;
  builder.AddListeningPort(GrpcTarget(hidden_path_), grpc::InsecureServerCredentials(), &bound);
  builder.RegisterService(service_.get());
  LimitServer(builder, "kubelet-registration", kMostKubeletCalls);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || bound == 0) return Internal("cannot listen on {}", Quote(hidden_path_));
  const absl::Status placed = MoveIntoPlace();
  if (!placed.ok()) EndServer();
  return placed;
}

absl::Status KubeletRegistration::MoveIntoPlace() {
  const std::optional<File> made = FileAt(hidden_path_);
  MOORING_RETURN_IF_ERROR(CheckMayReplace());
  if (std::rename(hidden_path_.c_str(), path_.c_str()) != 0) return ErrnoStatus(errno, "rename to", path_);
  ours_ = made;
  InspectSocket();  // because the rename changed its ctime
  stale_.reset();
  log::Info("offered to kubelet", {{"socket", path_}, {"endpoint", settings_.endpoint}});
  return absl::OkStatus();
}

void KubeletRegistration::OnStatus(bool registered, const std::string& error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!registered) {
    std::string cause = error.empty() ? "kubelet gave no reason" : error;
    if (CouldNotDial(error)) {
      cause +=
          fmt::format("; kubelet reads the endpoint {} as a path of the host: set --kubelet-endpoint to the path there",
                      Quote(settings_.endpoint));
    }
    RetryLater("kubelet did not register the plugin", cause);
    return;
  }
  offer_at_ = kNever;
  wait_ = settings_.first_wait;
  log::Info("registered with kubelet", {{"driver", settings_.driver_name}, {"endpoint", settings_.endpoint}});
  ReleaseWhatTheStartUsed();
}

void KubeletRegistration::RetryLater(std::string_view what, const std::string& cause) {
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

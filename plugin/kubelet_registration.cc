#include "plugin/kubelet_registration.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <utility>

#include "base/endpoint.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/quote.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "pluginregistration.grpc.pb.h"

namespace mooring {
namespace {

constexpr char kType[] = "CSIPlugin";
constexpr char kVersion[] = "1.0.0";  // of CSI; kubelet looks at the 1
constexpr std::string_view kFlag = "--kubelet-registration-dir";
constexpr std::chrono::milliseconds kLastAnswers{100};

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

absl::Status KubeletRegistration::CheckSockets() const {
  for (const std::string& path : {path_, hidden_path_}) {
    const absl::StatusOr<bool> stale = IsStaleSocket(path, kFlag);
    if (!stale.ok()) return Annotate(stale.status(), "register with kubelet");
  }
  return absl::OkStatus();
}

void KubeletRegistration::Announce() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (withdrawn_ || thread_.joinable()) return;
  offer_at_ = Clock::now();
  thread_ = std::thread(&KubeletRegistration::Run, this);
}

// What others have put there meanwhile is theirs to remove.
void KubeletRegistration::Withdraw() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    withdrawn_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (IsThere()) ::unlink(path_.c_str());
  EndServer();
}

void KubeletRegistration::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!withdrawn_) {
    if (offer_at_ == kNever && IsGone()) {
      log::Warning("the registration socket is gone, though not by us: it is made again", {{"socket", path_}});
      offer_at_ = Clock::now();
    }
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

absl::Status KubeletRegistration::Offer() {
  EndServer();
  struct stat status = {};
  if (::stat(settings_.directory.c_str(), &status) != 0) return ErrnoStatus(errno, "use", settings_.directory);
  grpc::ServerBuilder builder;
  int bound = 0;
  builder.AddListeningPort(GrpcTarget(hidden_path_), grpc::InsecureServerCredentials(), &bound);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || bound == 0) {
    return Internal(fmt::format("cannot listen on {}: may this process write in that directory?", Quote(hidden_path_)));
  }
  if (::lstat(hidden_path_.c_str(), &status) != 0) return ErrnoStatus(errno, "look at", hidden_path_);
  if (std::rename(hidden_path_.c_str(), path_.c_str()) != 0) return ErrnoStatus(errno, "rename to", path_);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  log::Info("offered to kubelet", {{"socket", path_}, {"endpoint", settings_.endpoint}});
  return absl::OkStatus();
}

void KubeletRegistration::Hear(bool registered, const std::string& error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!registered) {
    PutOff(
        "kubelet did not register the plugin",
        fmt::format("{}; the endpoint that it was told, {}, is to it a path of the host: --kubelet-endpoint names it",
                    error.empty() ? "it did not say why" : error, Quote(settings_.endpoint)));
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

bool KubeletRegistration::IsThere() const {
  struct stat status = {};
  return inode_ != 0 && ::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

bool KubeletRegistration::IsGone() const {
  struct stat status = {};
  return ::lstat(path_.c_str(), &status) != 0 && errno == ENOENT;
}

void KubeletRegistration::EndServer() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() + kLastAnswers);
  server_->Wait();
  server_.reset();
}

}  // namespace mooring

#include "tests/fakes/fake_plugin_manager.h"

#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/socket_path.h"
#include "csi.grpc.pb.h"
#include "pluginregistration.grpc.pb.h"

namespace mooring::testing {
namespace {

constexpr int kRoundMs = 10;
constexpr std::chrono::milliseconds kTryAgain{50};  // kubelet: 0.5 s, doubling

std::chrono::system_clock::time_point In(std::chrono::seconds time) { return std::chrono::system_clock::now() + time; }

// A new connection for each call.
std::shared_ptr<grpc::Channel> Dial(const std::string& path) {
  grpc::ChannelArguments arguments;
  arguments.SetInt("grpc.use_local_subchannel_pool", 1);
  return grpc::CreateCustomChannel(GrpcTarget(path), grpc::InsecureChannelCredentials(), arguments);
}

bool IsSocket(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

// The highest version below 2 must be 1.x.
bool HasSupportedVersion(const pluginregistration::PluginInfo& info) {
  for (const std::string& version : info.supported_versions()) {
    if (std::atoi(version.c_str()) == 1 && version.find('.') != std::string::npos) return true;
  }
  return false;
}

std::string WhyInvalid(const pluginregistration::PluginInfo& info) {
  if (info.type() != "CSIPlugin") return "no handler registered for plugin type: " + info.type();
  return HasSupportedVersion(info) ? "" : "plugin validation failed: no supported version";
}

void Notify(pluginregistration::Registration::Stub& plugin, bool registered, const std::string& error) {
  grpc::ClientContext context;
  context.set_deadline(In(std::chrono::seconds(5)));
  pluginregistration::RegistrationStatus request;
  request.set_plugin_registered(registered);
  request.set_error(error);
  pluginregistration::RegistrationStatusResponse response;
  plugin.NotifyRegistrationStatus(&context, request, &response);
}

}  // namespace

FakePluginManager::FakePluginManager(std::string directory) : directory_(std::move(directory)) {}

FakePluginManager::~FakePluginManager() { Stop(); }

void FakePluginManager::Start() {
  std::filesystem::create_directories(directory_);
  events_.reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ::inotify_add_watch(events_.get(), directory_.c_str(), IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM);
  end_.reset(::eventfd(0, EFD_CLOEXEC));
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) Want(entry.path().filename());
  thread_ = std::thread(&FakePluginManager::Run, this);
}

void FakePluginManager::Stop() {
  if (!thread_.joinable()) return;
  ::eventfd_write(end_.get(), 1);
  thread_.join();
  wanted_.clear();
  known_.clear();
  not_before_.clear();
  const std::lock_guard<std::mutex> lock(mutex_);
  drivers_.clear();
}

std::optional<FakePluginManager::Driver> FakePluginManager::Find(const std::string& driver) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = drivers_.find(driver);
  return found == drivers_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> FakePluginManager::History() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return history_;
}

void FakePluginManager::Note(std::string what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  history_.push_back(std::move(what));
}

void FakePluginManager::Run() {
  std::array<pollfd, 2> fds = {pollfd{end_.get(), POLLIN, 0}, pollfd{events_.get(), POLLIN, 0}};
  while (fds[0].revents == 0) {
    ReadEvents();
    Reconcile();
    ::poll(fds.data(), fds.size(), kRoundMs);
  }
}

void FakePluginManager::ReadEvents() {
  alignas(inotify_event) std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t bytes = ::read(events_.get(), buffer.data(), buffer.size());
    if (bytes <= 0) return;
    for (ssize_t at = 0; at < bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      if ((event->mask & (IN_CREATE | IN_MOVED_TO)) != 0) Want(event->name);
      if ((event->mask & IN_DELETE) != 0) wanted_.erase(directory_ + "/" + event->name);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
}

void FakePluginManager::Want(const std::string& name) {
  const std::string path = directory_ + "/" + name;
  if (!name.starts_with(".") && IsSocket(path)) wanted_[path] = ++now_;
}

void FakePluginManager::Reconcile() {
  const std::map<std::string, Known> known = known_;
  for (const auto& [path, plugin] : known) {
    const auto wanted = wanted_.find(path);
    if (wanted == wanted_.end() || wanted->second != plugin.as_of) Forget(path);
  }
  for (const auto& [path, as_of] : wanted_) {
    if (!known_.contains(path) && not_before_[path] <= Clock::now()) Register(path, as_of);
  }
}

void FakePluginManager::Forget(const std::string& path) {
  const std::string driver = known_.at(path).driver;
  known_.erase(path);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    drivers_.erase(driver);
  }
  Note("forgot " + driver);
}

void FakePluginManager::Register(const std::string& path, int as_of) {
  const auto plugin = pluginregistration::Registration::NewStub(Dial(path));
  not_before_[path] = Clock::now() + kTryAgain;
  pluginregistration::PluginInfo info;
  grpc::ClientContext asked;
  asked.set_deadline(In(std::chrono::seconds(1)));
  if (const auto status = plugin->GetInfo(&asked, {}, &info); !status.ok())
    return Note("GetInfo: " + status.error_message());
  if (const std::string why = WhyInvalid(info); !why.empty()) {
    Notify(*plugin, false, "RegisterPlugin error -- " + why);
    return Note("refused " + info.name() + ": " + why);
  }
  known_[path] = {as_of, info.name()};
  csi::v1::NodeGetInfoResponse node;
  grpc::ClientContext context;
  context.set_deadline(In(std::chrono::seconds(120)));
  const std::string endpoint = info.endpoint().empty() ? path : info.endpoint();
  if (const auto status = csi::v1::Node::NewStub(Dial(endpoint))->NodeGetInfo(&context, {}, &node); !status.ok()) {
    Notify(*plugin, false, "RegisterPlugin error -- plugin registration failed with err: " + status.error_message());
    return Note("refused " + info.name() + ": " + status.error_message());
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto& segments = node.accessible_topology().segments();
    drivers_[info.name()] = {endpoint, node.node_id(), {segments.begin(), segments.end()}, node.max_volumes_per_node()};
  }
  Notify(*plugin, true, "");
  Note("registered " + info.name());
}

}  // namespace mooring::testing

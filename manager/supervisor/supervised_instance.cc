#include "manager/supervisor/supervised_instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "manager/launch/launcher.h"

namespace mooring::manager {
namespace {

bool HasControllerService(const csi::v1::GetPluginCapabilitiesResponse& response) {
  return std::any_of(response.capabilities().begin(), response.capabilities().end(), [](const auto& capability) {
    return capability.service().type() == csi::v1::PluginCapability::Service::CONTROLLER_SERVICE;
  });
}

// Whether this socket serves the service. The plugin's capabilities do not say: each of a driver's processes may report
// a controller that only one of them serves.
template <typename Request>
absl::StatusOr<bool> Serves(CsiChannel& channel, Clock::time_point until) {
  const absl::Status status = Call(channel, Request(), until).status();
  if (absl::IsUnimplemented(status)) return false;
  MOORING_RETURN_IF_ERROR(status);
  return true;
}

const char* ProviderOf(PluginRecord::Run::Kind kind) {
  switch (kind) {
    case PluginRecord::Run::Kind::kExec:
      return "exec";
    case PluginRecord::Run::Kind::kContainer:
      return "container";
  }
  return "";
}

InstanceOwner NextOwner() {
  static std::atomic<InstanceOwner> last = kEarlierManager;
  return ++last;
}

Launcher& LauncherOf(const SupervisorDependencies& deps, PluginRecord::Run::Kind kind) {
  return kind == PluginRecord::Run::Kind::kContainer ? deps.container : deps.exec;
}

LaunchSpec SpecOf(const SupervisorSettings& settings, const InstanceDirectory& directory, const PluginRecord::Run& run,
                  std::stop_token stop) {
  return {.plugin = directory.plugin,
          .instance_id = directory.id,
          .run = FillPlaceholders(run, {.socket = directory.SocketPath(), .node = settings.host}),
          .socket_directory = directory.path,
          .root = settings.root,
          .stop = std::move(stop)};
}

LaunchedInstance LaunchInstance(const SupervisorDependencies& deps, const PluginRecord& wanted,
                                const std::stop_token& stop) {
  const SupervisorSettings& settings = deps.settings;
  MOORING_ASSIGN_OR_RETURN(InstanceDirectory directory,
                           MakeInstanceDirectory(settings.socket_root, wanted.name, *wanted.run));
  auto process = LauncherOf(deps, directory.kind)
                     .Launch(SpecOf(settings, directory, *wanted.run, stop), Clock::now() + wanted.run->start_deadline);
  if (!process.ok()) {
    RemoveInstanceDirectory(directory.path);
    return process.status();
  }
  return std::make_unique<SupervisedInstance>(std::move(directory), *std::move(process));
}

}  // namespace

absl::StatusOr<Handshake> DoHandshake(CsiChannel& channel, Clock::time_point until) {
  Handshake handshake;
  MOORING_ASSIGN_OR_RETURN(const auto info, Call(channel, csi::v1::GetPluginInfoRequest(), until));
  handshake.name = info.name();
  handshake.version = info.vendor_version();

  MOORING_ASSIGN_OR_RETURN(const auto capabilities, Call(channel, csi::v1::GetPluginCapabilitiesRequest(), until));
  MOORING_ASSIGN_OR_RETURN(const bool node, Serves<csi::v1::NodeGetCapabilitiesRequest>(channel, until));
  if (node) handshake.types.push_back(PluginType::kNode);
  if (HasControllerService(capabilities)) {
    MOORING_ASSIGN_OR_RETURN(const bool controller, Serves<csi::v1::ControllerGetCapabilitiesRequest>(channel, until));
    if (controller) handshake.types.push_back(PluginType::kController);
  }
  if (handshake.types.empty()) {
    return FailedPrecondition("the plugin serves neither the Node nor the Controller service of CSI");
  }
  return handshake;
}

std::string VersionOf(const PluginRecord& plugin) {
  return plugin.run ? fmt::format("generation {}", plugin.run->generation) : "endpoint " + plugin.endpoint;
}

std::string VersionOf(const InstanceDirectory& directory) { return fmt::format("generation {}", directory.generation); }

std::string EndpointInstanceId(const PluginRecord& plugin) {
  return fmt::format("{}@{}", plugin.name, plugin.endpoint);
}

void AddEvent(Events& events, const std::string& plugin, const char* kind, bool bad, const SupervisedInstance* instance,
              std::string text) {
  events.Add({.bad = bad,
              .kind = kind,
              .plugin = plugin,
              .instance = instance == nullptr ? "" : instance->id(),
              .text = std::move(text)});
}

SupervisedInstance::SupervisedInstance(InstanceDirectory directory, std::unique_ptr<Launched> process)
    : owner_(NextOwner()),
      plugin_(directory.plugin),
      id_(directory.id),
      version_(VersionOf(directory)),
      socket_path_(directory.SocketPath()),
      provider_(ProviderOf(directory.kind)),
      directory_(directory.path),
      process_(std::move(process)) {}

SupervisedInstance::SupervisedInstance(const PluginRecord& plugin)
    : owner_(NextOwner()),
      plugin_(plugin.name),
      id_(EndpointInstanceId(plugin)),
      version_(VersionOf(plugin)),
      socket_path_(plugin.endpoint),
      provider_("endpoint") {}

std::string SupervisedInstance::Handle() const {
  return process_ ? process_->Handle() : fmt::format("endpoint unix://{}", socket_path_);
}

absl::Status SupervisedInstance::Register(PluginSet& plugins, const Handshake& handshake,
                                          const std::string& root) const {
  InstanceInfo info;
  info.name = plugin_;
  info.version = handshake.version;
  info.socket_path = socket_path_;
  info.instance_id = id_;
  info.provider = provider_;
  info.mount_point = root;
  return plugins.Serve(info, handshake.types, owner_);
}

absl::Status SupervisedInstance::End(Clock::time_point until, const std::stop_token& stop) {
  if (!process_) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(process_->End(until, stop));
  RemoveInstanceDirectory(directory_);
  return absl::OkStatus();
}

LaunchedInstance AdoptInstance(const SupervisorDependencies& deps, const InstanceDirectory& directory) {
  PluginRecord::Run run;
  run.engine = directory.engine;
  MOORING_ASSIGN_OR_RETURN(auto process,
                           LauncherOf(deps, directory.kind).Adopt(SpecOf(deps.settings, directory, run, {})));
  return std::make_unique<SupervisedInstance>(directory, std::move(process));
}

void PendingLaunch::Begin(const PluginRecord& wanted, const std::stop_token& stop) {
  wanted_ = wanted;
  over_ = false;
  try {
    launch_ = std::async(std::launch::async, [this, stop] {
      LaunchedInstance launched = LaunchInstance(deps_, wanted_, stop);
      over_ = true;
      wake_.Wake();
      return launched;
    });
  } catch (const std::system_error& error) {
    std::promise<LaunchedInstance> failed;
    failed.set_value(Unavailable("cannot start a thread: {}", error.what()));
    launch_ = failed.get_future();
    over_ = true;
    wake_.Wake();
  }
}

}  // namespace mooring::manager

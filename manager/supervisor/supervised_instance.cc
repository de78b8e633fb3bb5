#include "manager/supervisor/supervised_instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace mooring::manager {
namespace {

const char* ProviderOf(PluginRecord::Run::Kind kind) {
  switch (kind) {
    case PluginRecord::Run::Kind::kExec:
      return "exec";
    case PluginRecord::Run::Kind::kContainer:
      return "container";
  }
  return "";
}

}  // namespace

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

absl::Status DeregisterInstance(Registry& registry, const std::string& plugin, const std::string& id) {
  absl::Status first;
  for (const PluginType type : kPluginTypes) {
    if (registry.FindInstance(id, type)) first.Update(registry.Deregister(type, plugin, id));
  }
  return first;
}

SupervisedInstance::SupervisedInstance(InstanceDirectory directory, std::unique_ptr<Launched> process)
    : plugin_(directory.plugin),
      id_(directory.id),
      version_(VersionOf(directory)),
      socket_path_(directory.SocketPath()),
      provider_(ProviderOf(directory.kind)),
      directory_(directory.path),
      process_(std::move(process)) {}

SupervisedInstance::SupervisedInstance(const PluginRecord& plugin)
    : plugin_(plugin.name),
      id_(EndpointInstanceId(plugin)),
      version_(VersionOf(plugin)),
      socket_path_(plugin.endpoint),
      provider_("endpoint") {}

std::string SupervisedInstance::Handle() const {
  return process_ ? process_->Handle() : fmt::format("endpoint unix://{}", socket_path_);
}

absl::Status SupervisedInstance::Register(Registry& registry, const Handshake& handshake, const std::string& root) {
  for (const PluginType type : kPluginTypes) {
    const auto& types = handshake.types;
    if (std::find(types.begin(), types.end(), type) != types.end()) {
      MOORING_RETURN_IF_ERROR(registry.Register({.type = type,
                                                 .name = plugin_,
                                                 .version = handshake.version,
                                                 .socket_path = socket_path_,
                                                 .instance_id = id_,
                                                 .provider = provider_,
                                                 .mount_point = root,
                                                 .container_mount_point = ""}));
    } else if (registry.FindInstance(id_, type)) {  // it had this service when it was registered before
      MOORING_RETURN_IF_ERROR(registry.Deregister(type, plugin_, id_));
    }
  }
  return absl::OkStatus();
}

bool SupervisedInstance::IsRegistered(const Registry& registry) const {
  return std::any_of(kPluginTypes.begin(), kPluginTypes.end(),
                     [&](PluginType type) { return registry.FindInstance(id_, type).has_value(); });
}

absl::Status SupervisedInstance::Deregister(Registry& registry) const {
  return DeregisterInstance(registry, plugin_, id_);
}

absl::Status SupervisedInstance::End(Clock::time_point until, const std::stop_token& stop) {
  if (!process_) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(process_->End(until, stop));
  RemoveInstanceDirectory(directory_);
  return absl::OkStatus();
}

}  // namespace mooring::manager

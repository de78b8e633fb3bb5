#include "manager/supervisor/supervised_instance.h"

#include <fmt/format.h>

#include <atomic>
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

InstanceOwner NextOwner() {
  static std::atomic<InstanceOwner> last = kEarlierManager;
  return ++last;
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

}  // namespace mooring::manager

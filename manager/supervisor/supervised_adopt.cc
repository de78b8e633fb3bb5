// What a manager that is started anew does with instances that the one before has left.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "manager/supervisor/supervised_plugin.h"

namespace mooring::manager {

void SupervisedPlugin::Adopt() {
  const PluginRecord wanted = TakeWanted();
  const std::string version = VersionOf(wanted);
  attended_ = version;
  // Of the wanted version first: one of another version stays only where that one does not serve yet.
  std::stable_partition(left_.begin(), left_.end(), [&](const auto& left) { return VersionOf(left) == version; });
  for (const InstanceDirectory& directory : left_) AdoptOne(directory, wanted);
  left_.clear();
  if (!wanted.run && !wanted.endpoint.empty()) AdoptEndpoint(wanted);
  Show();
}

void SupervisedPlugin::AdoptOne(const InstanceDirectory& directory, const PluginRecord& wanted) {
  PluginRecord::Run run;
  run.engine = directory.engine;
  auto process = LauncherOf(directory.kind).Adopt(SpecOf(directory, run));
  if (!process.ok() && !absl::IsNotFound(process.status())) {
    Tell("failed", true, nullptr, "An instance from before cannot be looked at: " + Message(process.status()));
    return;
  }
  if (!process.ok()) {  // it ended while no manager ran
    const absl::Status cleared = DeregisterInstance(around_.registry, name_, directory.id);
    if (cleared.ok()) RemoveInstanceDirectory(directory.path);
    if (!cleared.ok()) Tell("failed", true, nullptr, "What an ended instance left stays: " + Message(cleared));
    return;
  }
  auto instance = std::make_unique<SupervisedInstance>(directory, *std::move(process), Connect(directory.SocketPath()));
  const bool registered = instance->IsRegistered(around_.registry);
  const bool is_wanted = instance->version() == VersionOf(wanted);
  if (registered && !serving_) {
    Tell("adopted", false, instance.get(), instance->Handle() + " runs since before the manager was started.");
    serving_ = std::move(instance);
  } else if (!registered && is_wanted && !starting_ && !serving_) {
    instance->ready_by = Clock::now() + wanted.run->start_deadline;
    instance->tell_at = Clock::now() + settings_.tell_interval;
    starting_ = std::move(instance);
  } else {
    (void)Retire(std::move(instance));
  }
}

void SupervisedPlugin::AdoptEndpoint(const PluginRecord& wanted) {
  auto instance = std::make_unique<SupervisedInstance>(wanted, Connect(wanted.endpoint));
  if (instance->IsRegistered(around_.registry)) serving_ = std::move(instance);
}

}  // namespace mooring::manager

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
  AdoptLeft(wanted);
  if (!wanted.run && !wanted.endpoint.empty()) AdoptEndpoint(wanted);
  Show();
}

void SupervisedPlugin::AdoptLeft(const PluginRecord& wanted) {
  if (left_.empty()) return;
  const absl::Status before = std::exchange(left_problem_, absl::OkStatus());
  std::erase_if(left_, [&](const InstanceDirectory& directory) { return AdoptOne(directory, wanted); });
  look_again_at_ = left_.empty() ? Clock::time_point::max() : Clock::now() + settings_.end_again;
  if (left_.empty()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!before.ok()) status_.words.clear();
    return;
  }
  if (left_problem_ == before) return;
  Tell(around_.events, name_, "failed", true, nullptr,
       "An instance from before cannot be looked at, which is tried again: " + Message(left_problem_));
}

// It may run: so it is neither forgotten nor replaced.
bool SupervisedPlugin::LeaveForLater(const absl::Status& why) {
  left_problem_.Update(why);
  return false;
}

bool SupervisedPlugin::AdoptOne(const InstanceDirectory& directory, const PluginRecord& wanted) {
  PluginRecord::Run run;
  run.engine = directory.engine;
  auto process = LauncherOf(directory.kind).Adopt(SpecOf(directory, run));
  if (!process.ok() && !absl::IsNotFound(process.status())) return LeaveForLater(process.status());
  if (!process.ok()) {  // it ended while no manager ran
    const absl::Status cleared = DeregisterInstance(around_.registry, name_, directory.id);
    if (!cleared.ok()) return LeaveForLater(cleared);
    RemoveInstanceDirectory(directory.path);
    return true;
  }
  auto instance = std::make_unique<SupervisedInstance>(directory, *std::move(process), Connect(directory.SocketPath()));
  const bool registered = instance->IsRegistered(around_.registry);
  const bool is_wanted = instance->version() == VersionOf(wanted);
  if (goal() == Goal::kEnd) {
    endings_.Begin(std::move(instance));
  } else if (registered && !serving_) {
    Tell(around_.events, name_, "adopted", false, instance.get(),
         instance->Handle() + " runs since before the manager was started.");
    serving_ = std::move(instance);
  } else if (!registered && is_wanted && !starting_ && !serving_) {
    instance->ready_by = Clock::now() + wanted.run->start_deadline;
    instance->tell_at = Clock::now() + settings_.tell_interval;
    starting_ = std::move(instance);
  } else {
    endings_.Begin(std::move(instance));
  }
  return true;
}

void SupervisedPlugin::AdoptEndpoint(const PluginRecord& wanted) {
  auto instance = std::make_unique<SupervisedInstance>(wanted, Connect(wanted.endpoint));
  if (instance->IsRegistered(around_.registry)) serving_ = std::move(instance);
}

}  // namespace mooring::manager

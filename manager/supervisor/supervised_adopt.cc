// After a start of the manager: takes over or ends the instances that an earlier manager left.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "manager/supervisor/supervised_plugin.h"

namespace mooring::manager {

void SupervisedPlugin::Adopt() {
  const PluginRecord wanted = ReadWanted();
  const std::string version = VersionOf(wanted);
  tried_version_ = version;
  // The wanted version comes first: an instance of another version is kept only until that one serves.
  std::stable_partition(left_.begin(), left_.end(), [&](const auto& left) { return VersionOf(left) == version; });
  AdoptLeft(wanted);
  if (!wanted.run && !wanted.endpoint.empty()) AdoptEndpoint(wanted);
  UpdateStatus();
}

void SupervisedPlugin::AdoptLeft(const PluginRecord& wanted) {
  if (left_.empty()) return;
  const absl::Status before = std::exchange(left_problem_, absl::OkStatus());
  std::erase_if(left_, [&](const InstanceDirectory& directory) { return AdoptOne(directory, wanted); });
  adopt_again_at_ = left_.empty() ? Clock::time_point::max() : Clock::now() + settings_.end_again;
  if (left_.empty()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!before.ok()) status_.problem.clear();
    return;
  }
  if (left_problem_ == before) return;
  AddEvent(deps_.events, name_, "failed", true, nullptr,
           "The state of an instance that an earlier manager left cannot be read; the manager tries again: " +
               Message(left_problem_));
}

// The instance may still run, so it is neither forgotten nor replaced.
bool SupervisedPlugin::LeaveForLater(const absl::Status& why) {
  left_problem_.Update(why);
  return false;
}

bool SupervisedPlugin::AdoptOne(const InstanceDirectory& directory, const PluginRecord& wanted) {
  PluginRecord::Run run;
  run.engine = directory.engine;
  auto process = LauncherOf(directory.kind).Adopt(SpecOf(directory, run));
  if (!process.ok() && !absl::IsNotFound(process.status())) return LeaveForLater(process.status());
  if (!process.ok()) {  // the process ended while no manager ran
    const absl::Status cleared = DeregisterInstance(deps_.registry, name_, directory.id);
    if (!cleared.ok()) return LeaveForLater(cleared);
    RemoveInstanceDirectory(directory.path);
    return true;
  }
  auto instance = std::make_unique<SupervisedInstance>(directory, *std::move(process), Connect(directory.SocketPath()));
  const bool registered = instance->IsRegistered(deps_.registry);
  const bool is_wanted = instance->version() == VersionOf(wanted);
  if (goal() == Goal::kTerminate) {
    terminator_.Begin(std::move(instance));
  } else if (registered && !serving_) {
    AddEvent(deps_.events, name_, "adopted", false, instance.get(),
             instance->Handle() + " was started by an earlier manager, and still runs.");
    serving_ = std::move(instance);
  } else if (!registered && is_wanted && !starting_ && !serving_) {
    instance->ready_by = Clock::now() + wanted.run->start_deadline;
    instance->report_at = Clock::now() + settings_.report_interval;
    starting_ = std::move(instance);
  } else {
    terminator_.Begin(std::move(instance));
  }
  return true;
}

void SupervisedPlugin::AdoptEndpoint(const PluginRecord& wanted) {
  auto instance = std::make_unique<SupervisedInstance>(wanted, Connect(wanted.endpoint));
  if (instance->IsRegistered(deps_.registry)) serving_ = std::move(instance);
}

}  // namespace mooring::manager

#include "manager/supervisor/left_instances.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "manager/supervisor/instance_launch.h"

namespace mooring::manager {

std::vector<std::unique_ptr<SupervisedInstance>> LeftInstances::Adopt(const std::string& version) {
  std::vector<std::unique_ptr<SupervisedInstance>> adopted;
  const absl::Status before = std::exchange(problem_, absl::OkStatus());
  std::stable_partition(directories_.begin(), directories_.end(),
                        [&](const auto& directory) { return VersionOf(directory) == version; });
  std::erase_if(directories_, [&](const InstanceDirectory& directory) {
    auto instance = AdoptOne(directory);
    problem_.Update(instance.status());
    if (instance.ok() && *instance != nullptr) adopted.push_back(*std::move(instance));
    return instance.ok();
  });
  again_at_ = directories_.empty() ? Clock::time_point::max() : Clock::now() + deps_.settings.end_again;
  if (!problem_.ok() && problem_ != before) {
    AddEvent(deps_.events, plugin_, "failed", true, nullptr,
             "The state of an instance that an earlier manager left cannot be read; the manager tries again: " +
                 Message(problem_));
  }
  return adopted;
}

// Gives null for an instance that ended while no manager ran.
absl::StatusOr<std::unique_ptr<SupervisedInstance>> LeftInstances::AdoptOne(const InstanceDirectory& directory) {
  auto instance = AdoptInstance(deps_, directory);
  if (!absl::IsNotFound(instance.status())) return instance;
  MOORING_RETURN_IF_ERROR(deps_.plugins.Retire(plugin_, directory.id, kEarlierManager));
  RemoveInstanceDirectory(directory.path);
  return nullptr;
}

}  // namespace mooring::manager

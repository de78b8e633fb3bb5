// The instances of a plugin that an earlier manager launched, until this one has adopted them or knows that they ended.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "manager/launch/instance_directory.h"
#include "manager/supervisor/dependencies.h"
#include "manager/supervisor/supervised_instance.h"

namespace mooring::manager {

// Used by the thread of the plugin.
class LeftInstances {
 public:
  LeftInstances(const SupervisorDependencies& deps, std::string plugin, std::vector<InstanceDirectory> directories)
      : deps_(deps), plugin_(std::move(plugin)), directories_(std::move(directories)) {}

  // Gives the instances that run, those of `version` first, and forgets those that have ended. An instance whose state
  // cannot be read may run, so it is neither forgotten nor replaced. It stays for the next call.
  std::vector<std::unique_ptr<SupervisedInstance>> Adopt(const std::string& version);

  bool IsEmpty() const { return directories_.empty(); }
  const absl::Status& problem() const { return problem_; }  // why the last Adopt left an instance
  Clock::time_point again_at() const { return again_at_; }  // the time of the next Adopt

 private:
  absl::StatusOr<std::unique_ptr<SupervisedInstance>> AdoptOne(const InstanceDirectory& directory);

  const SupervisorDependencies& deps_;
  const std::string plugin_;
  std::vector<InstanceDirectory> directories_;
  absl::Status problem_;
  Clock::time_point again_at_ = Clock::time_point::max();
};

}  // namespace mooring::manager

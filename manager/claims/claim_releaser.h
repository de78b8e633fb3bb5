// Releases claims step by step. Each step is stored before the next one, so a restarted manager continues there:
//
//   taken ─▶ unpublishing (at the node) ─▶ node-detached ─▶ controller-detached ─▶ freed (the record is deleted)
//
// A claim that no controller knows is freed at once. A step that fails stays in ClaimRecord::problem and is repeated by
// Resume.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "manager/claims/claim_records.h"
#include "manager/claims/controller_publisher.h"
#include "manager/hosts/host_directory.h"

namespace mooring::manager {

bool IsBeforeNodeStep(const ClaimRecord& claim);  // the node may still have the volume

// The node step is done; the controller step is next. False: it was done before.
bool MarkNodeDetached(ClaimRecord& claim);

class ClaimReleaser {
 public:
  using IsMounted = std::function<bool(const ClaimRecord& claim)>;  // whether the claim's node still mounts the volume

  // All outlive it. `past_age`: how long a claim stays after its allocation is gone.
  ClaimReleaser(ClaimRecords& records, ControllerPublisher& controller, HostDirectory& hosts,
                std::chrono::seconds past_age, std::function<Time()> now)
      : records_(records), controller_(controller), hosts_(hosts), past_age_(past_age), now_(std::move(now)) {}

  // See ClaimBroker.
  absl::Status Release(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                       const absl::Status& node_outcome, Clock::time_point until);
  absl::Status ReleaseKept(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                           Clock::time_point until);

  // See Claims.
  absl::Status AllocationGone(const std::string& allocation);
  void Collect(const std::vector<ClaimRecord>& claims, const IsMounted& is_mounted, Clock::time_point until);
  absl::Status Force(const VolumeKey& volume, const IsMounted& is_mounted, Clock::time_point until);

  // Continues those of these releases whose node step is done; of `plugin`, or of all plugins if it is empty.
  void Resume(std::vector<ClaimRecord> claims, const std::string& plugin, Clock::time_point until);

  // Continues one such release under the controller lock of its volume. UNAVAILABLE: the controller is owed its call.
  absl::Status FinishLocked(const ClaimRecord& claim, Durability durability, Clock::time_point until);

  // Continues these releases, of `only_plugin` or, if it is empty, of all plugins, until they are done or stuck.
  void FinishAll(std::vector<ClaimRecord> claims, const std::string& only_plugin, Clock::time_point until);

 private:
  absl::Status CheckOurs(const ClaimRecord& claim) const;
  bool IsOver(const ClaimRecord& claim) const;
  absl::Status Finish(const ClaimRecord& claim, Durability durability, Clock::time_point until);
  absl::Status FinishByForce(const ClaimRecord& claim, Clock::time_point until);
  absl::Status FinishOrOwe(const ClaimRecord& claim, Durability durability, Clock::time_point until);
  absl::Status Unpublish(const ClaimRecord& claim, Clock::time_point until);
  absl::Status StoreProblem(const ClaimRecord& claim, const std::string& problem);
  absl::Status Free(const ClaimRecord& claim, Durability durability);
  // Gives the record if it stays; nullopt: there is none any more.
  absl::StatusOr<std::optional<ClaimRecord>> FreeIf(const ClaimRecord& claim,
                                                    const std::function<bool(const ClaimRecord&)>& may_free,
                                                    Durability durability);
  absl::StatusOr<std::optional<ClaimRecord>> FreeUnpublished(const ClaimRecord& claim,
                                                             const std::function<bool(const ClaimRecord&)>& may_release,
                                                             Durability durability);
  void FinishEach(const std::string& plugin, std::vector<ClaimRecord> claims, Clock::time_point until);
  void RotateBehindLastFailure(const std::string& plugin, std::vector<ClaimRecord>& claims);

  ClaimRecords& records_;
  ControllerPublisher& controller_;
  HostDirectory& hosts_;
  const std::chrono::seconds past_age_;
  const std::function<Time()> now_;

  std::mutex mutex_;
  std::map<std::string, ClaimRecord> last_failed_;  // by plugin: the claim that FinishEach last failed to finish
};

}  // namespace mooring::manager

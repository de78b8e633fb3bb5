// Releases claims step by step. Each step is stored before the next one, so a restarted manager continues there:
//
//   taken ─▶ node-detached ─▶ controller-detached ─▶ freed (the record is deleted)
//     └─▶ unmount-failed ─▶ ▲
//
// A release frees a claim that no controller knows at once. A step that fails stays in Claim::problem, and is repeated
// in the background.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "manager/claims/claim_records.h"
#include "manager/claims/controller_publisher.h"
#include "manager/claims/publish_undo.h"
#include "manager/hosts/host_directory.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

struct ClaimSettings {
  std::chrono::seconds past_age{300};                     // how long claims stay after their allocation is gone
  Clock::duration first_retry = std::chrono::seconds(1);  // of work in the background
  RetryPolicy retry;
  // Whether the node of the claim, which is this host, still mounts the volume, or has an attachment that will release
  // the claim.
  std::function<bool(const Claim& claim)> is_mounted = [](const Claim&) { return false; };
  // The same, but an attachment that is unmounted, and about to release the claim, does not count.
  std::function<bool(const Claim& claim)> is_still_mounted = [](const Claim&) { return false; };
  // An error: this host still mounts the volume for a claim that others have freed. A new claim would let that mount
  // write again, because its controller publishes the volume to the host and not to a mount.
  std::function<absl::Status(const VolumeKey& volume)> check_mounts = [](const VolumeKey&) { return absl::OkStatus(); };
  std::function<Time()> now = [] { return std::chrono::system_clock::now(); };
};

class ClaimReleaser {
 public:
  using IsMounted = std::function<bool(const Claim& claim)>;  // whether the claim's node still mounts the volume

  // All outlive it.
  ClaimReleaser(ClaimRecords& records, ControllerPublisher& controller, HostDirectory& hosts, WorkQueue& queue,
                ClaimSettings settings);

  // See ClaimBroker.
  absl::Status Release(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                       const absl::Status& node_outcome, Clock::time_point until);
  absl::Status ReleaseKept(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                           Clock::time_point until);

  // See Claims.
  absl::Status AllocationGone(const std::string& allocation);
  absl::Status Force(const VolumeKey& volume, const IsMounted& is_mounted, Clock::time_point until);

  // Undoes a claim whose publish at the controller failed; the call may have happened all the same. Steps that fail are
  // stored in Claim::problem and retried; without the controller lock (`locked`), all steps are. A publish that
  // was refused did not happen, so a refused unpublish keeps no claim. A rollback that the store refuses is kept in
  // memory, and repeated in the background. Returns `why`, with a note if the rollback failed.
  absl::Status RollBack(const ClaimAnswer& answer, const absl::Status& why, bool locked, Clock::time_point until);

  // Undoes a publish (PublishUndo) for a claim that another host has freed meanwhile. RollBack does the same. False:
  // the claim was not freed. The caller holds the controller lock.
  bool UndoIfFreed(const ClaimAnswer& answer, const absl::Status& why, Clock::time_point until);

  // Whether a rollback of this claim could not be stored yet.
  bool IsRollbackOwed(const VolumeKey& volume, ClaimMode mode, const std::string& allocation);

  // Works on these claims in the background. Frees those whose node step is done. Frees past ones of this host when
  // they are old enough and not mounted. Others are left alone.
  absl::Status Resume(const std::vector<Claim>& claims);
  bool WaitUntilTried(Clock::time_point until) { return work_.WaitUntilTried(until); }  // what was resumed

 private:
  absl::Status CheckOurs(const Claim& claim) const;
  void Owe(const Claim& claim, const std::string& plugin, Clock::duration delay);
  void OweIfFailed(const Claim& claim, const absl::Status& status);
  absl::Status Attempt(const Claim& claim, const std::string& plugin);
  absl::StatusOr<std::optional<Claim>> EndPast(const Claim& claim);
  absl::StatusOr<std::optional<Claim>> MarkFailed(const Claim& claim, const absl::Status& why);
  absl::Status TryToFinish(const Claim& claim, Durability durability, Clock::time_point until);
  absl::Status Finish(const Claim& claim, Durability durability, Clock::time_point until);
  // Under the controller lock of its volume. UNAVAILABLE: the controller is owed its call.
  absl::Status FinishLocked(const Claim& claim, Durability durability, Clock::time_point until);
  bool HasLostItsController(const Claim& claim, const Volume& volume) const;
  absl::Status FinishByForce(const Claim& claim, Clock::time_point until);
  absl::Status FinishOrOwe(const Claim& claim, Durability durability, Clock::time_point until);
  absl::Status Unpublish(const VolumeUse& use, const Claim& claim, Clock::time_point until);
  absl::Status OutcomeOf(const Claim& claim, absl::Status unpublished);
  absl::Status StoreProblem(const Claim& claim, const std::string& problem);
  absl::Status Free(const Claim& claim, Durability durability);
  // Gives the record if it stays; nullopt: there is none any more.
  absl::StatusOr<std::optional<Claim>> FreeIf(const Claim& claim, const std::function<bool(const Claim&)>& may_free,
                                              Durability durability);
  absl::StatusOr<std::optional<Claim>> FreeUnpublished(const Claim& claim,
                                                       const std::function<bool(const Claim&)>& may_release,
                                                       Durability durability);
  ClaimRecords& records_;
  ControllerPublisher& controller_;
  HostDirectory& hosts_;
  const ClaimSettings settings_;
  PublishUndo undo_;
  WorkKind work_, rollbacks_;  // last: their attempts use all of the above
};

}  // namespace mooring::manager

// Who may claim what: (f) 2 to 4, 7, 8. Pure functions of the records that were read.
#ifndef MOORING_MANAGER_CLAIMS_CLAIM_RULES_H_
#define MOORING_MANAGER_CLAIMS_CLAIM_RULES_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "manager/records/records.h"

namespace mooring::manager {

struct ClaimRequest {
  VolumeKey volume;
  std::string allocation;
  std::string node;              // the host
  std::string external_node_id;  // empty: any claim's on that node, else the fingerprint's, (i)
  ClaimMode mode = ClaimMode::kRead;
  Capability capability;
  bool keep = false;  // asked for by a user, see Claim::kept. Otherwise the caller stores what comes of it behind it,
                      // synced: what only this host has of it is not synced before
};

// What is claimed already, and what the answer depends on.
struct ClaimState {
  Volume volume;
  std::vector<Claim> claims;  // of this volume
  bool schedulable = false;   // PluginStatus::schedulable of its plugin
  std::string unschedulable;  // why not, in words
  bool exhausted = false;     // IsExhausted
  bool publishes = false;     // its plugin's controllers do, as they were at that same moment
};

enum class ClaimDecision { kHeldAlready, kGrant };

// A claim occupies its place until its record goes: past ones and those that are being released, too. What is asked for
// has to be free by the mode in use and by the mode asked for: who asks to be the only writer is told where there is
// another.
//
// kHeldAlready: by this allocation in this mode; also a past one, whose allocation is alive after all. ABORTED: it is
// being released still. FAILED_PRECONDITION: not free, with who holds it and in which mode; held otherwise than asked;
// being deleted. UNAVAILABLE: its plugin is not healthy, or it is being created. RESOURCE_EXHAUSTED: it is exhausted.
// INVALID_ARGUMENT: the volume has no such capability, or the request contradicts itself (a reader mode that is to
// write).
absl::StatusOr<ClaimDecision> Decide(const ClaimRequest& request, const ClaimState& state);

// Who is in the way, as "writer 'web-1' on 'host' (unpublishing: the target is busy)"; the first few.
std::string Holders(const std::vector<Claim>& claims);

// (f) 1. All that is wrong at once, one line each, as INVALID_ARGUMENT.
absl::Status CheckVolume(const Volume& volume);

// Of a size that is asked for; 0: none.
absl::Status CheckSizes(std::uint64_t min_bytes, std::uint64_t max_bytes);

// (f) 8: of a request as a task makes it, before anything is looked up. All that is wrong at once.
struct TaskRequest {
  ClaimMode mode = ClaimMode::kRead;
  Capability capability;
  bool read_only = false;
  bool has_mount_options = false;
  bool per_alloc = false;
  bool system_job = false;  // one task on every host
  int tasks = 1;            // that ask for this same volume
};
absl::Status CheckTaskRequest(const TaskRequest& request);

// (f) 9: whether `next` may take the place of `now`. What only the plugin or the manager can know may be left empty in
// `next`, and so may parameters: that changes nothing. All that is wrong at once, as FAILED_PRECONDITION.
absl::Status CheckUpdate(const Volume& now, const Volume& next, const std::vector<Claim>& claims);

// RESOURCE_EXHAUSTED holds for an hour, or until the plugin's health changes, (k) 4.
bool IsExhausted(const Volume& volume, Time now, std::chrono::seconds age = std::chrono::hours(1));

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_CLAIMS_CLAIM_RULES_H_

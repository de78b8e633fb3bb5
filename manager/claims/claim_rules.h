// The rules for claims, volumes and their updates, as pure functions of records (docs/manager.md, "What holds").
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "manager/records/records.h"

namespace mooring::manager {

struct ClaimRequest {
  VolumeKey volume;
  std::string allocation;
  std::string node;              // the host
  std::string external_node_id;  // empty: from another claim of that node, else from the plugin on this host
  ClaimMode mode = ClaimMode::kRead;
  Capability capability;
  bool keep = false;  // Claim::kept. Otherwise the claim is durable only with the next synced commit of the caller
  // The volume is mounted here for this allocation, and nobody has freed its claim: the state has lost it.
  bool for_present_mount = false;
  // The volume and its claims, as the caller has read them, perhaps with Freshness::kMayBeOld. Null: they are read.
  std::shared_ptr<const VolumeUse> seen = nullptr;
};

// The records and the plugin state that a decision depends on.
struct ClaimState {
  Volume volume;
  std::vector<Claim> claims;  // all claims of the volume
  bool schedulable = false;   // PluginStatus::schedulable of the plugin
  std::string unschedulable;  // why not
  bool exhausted = false;     // IsExhausted
  bool publishes = false;     // the plugin has PUBLISH_UNPUBLISH_VOLUME at the time of the read
  // The hosts that share the state; empty: it belongs to one host, and a node may have any name.
  std::vector<HostStatus> hosts = {};
  // The plugin's topology of the node that asks; empty: it has none, or it is not known here.
  StringMap node_topology = {};
};

enum class ClaimDecision { kHeldAlready, kGrant };

// Decides over a claim. A claim counts until its record is deleted, also while it is past or being released; only one
// that is lost does not count. The new claim has to be allowed by three modes: the one in use, the requested one, and
// that of each writer. So a single writer is refused beside another, and stays alone.
//
// kHeldAlready: this allocation holds the claim in this mode, perhaps as a past one.
// ABORTED: the held claim is being released.
// FAILED_PRECONDITION: other claims exclude it (named in the message), or it is held with another node or capability.
// Or the volume is being deleted, or cannot be reached from the node. Or the host is being drained. UNAVAILABLE: its
// plugin is not healthy, the volume is being created, or the host of the node is unreachable, or has just come back.
// RESOURCE_EXHAUSTED: the volume is exhausted. INVALID_ARGUMENT: the volume has no such capability, or the request
// contradicts itself (a reader mode for writing).
absl::StatusOr<ClaimDecision> Decide(const ClaimRequest& request, const ClaimState& state);

// The first few holders, as "writer 'web-1' on 'host' since 2026-11-24T01:02:03Z (unmount-failed: the target is busy)".
std::string Holders(const std::vector<Claim>& claims, const std::vector<HostStatus>& hosts = {});

// FAILED_PRECONDITION: its secrets or mount flags cannot be read, so no call to its plugin can be made with them.
absl::Status CheckSecrets(const Volume& volume);

// INVALID_ARGUMENT: one line for each fault of the record.
absl::Status CheckVolume(const Volume& volume);

// Checks a requested size in bytes; 0: no limit.
absl::Status CheckSizes(std::uint64_t min_bytes, std::uint64_t max_bytes);

// The parts of a task's request that can contradict each other. CheckTaskRequest: INVALID_ARGUMENT, a line per fault.
struct TaskRequest {
  ClaimMode mode = ClaimMode::kRead;
  Capability capability;
  bool read_only = false;
  bool has_mount_options = false;
  bool per_alloc = false;
  bool system_job = false;  // one task on every host
  int tasks = 1;            // tasks that share this volume
};
absl::Status CheckTaskRequest(const TaskRequest& request);

// Whether `next` may replace `now`. `next` may leave out parameters, and fields that the plugin or the manager sets:
// the old values stay. FAILED_PRECONDITION: one line for each fault.
absl::Status CheckUpdate(const Volume& now, const Volume& next, const std::vector<Claim>& claims);

// Whether the mark of ExhaustedMarks is younger than an hour.
bool IsExhausted(const Volume& volume, Time now);

}  // namespace mooring::manager

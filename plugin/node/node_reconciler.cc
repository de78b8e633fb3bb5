#include "plugin/node/node_reconciler.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "base/deadline.h"
#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "mounter/propagation.h"
#include "plugin/model/volume_mount.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

// A healthy filesystem answers in microseconds. A hanging one must not delay the others.
constexpr std::chrono::seconds kReconcilePatience{2};
constexpr std::chrono::seconds kReconcilePatienceWithAll{6};

// The loop device of the volume at `info`: the device of the superblock, or the device node that is bound there.
const LoopInfo* LoopBehind(const MountInfo& info, const std::vector<LoopInfo>& loops) {
  const auto found = std::find_if(loops.begin(), loops.end(), [&info](const LoopInfo& loop) {
    return loop.device_number == info.device || (info.root != "/" && NameOf(info.root) == NameOf(loop.device));
  });
  return found == loops.end() || OwnerOf(*found).empty() ? nullptr : &*found;
}

std::string OwnerBehind(const MountInfo& info, const std::vector<LoopInfo>& loops,
                        const std::vector<KnownDevice>& devices) {
  if (const LoopInfo* const loop = LoopBehind(info, loops)) return OwnerOf(*loop);
  const KnownDevice* const device = DeviceBehind(info, devices);
  return device != nullptr ? device->volume_id : OwnerOf(info);
}

VolumeUse FoundMounted(const MountInfo& info, const std::vector<LoopInfo>& loops,
                       const std::vector<KnownDevice>& devices) {
  const LoopInfo* const loop = LoopBehind(info, loops);
  const KnownDevice* const device = DeviceBehind(info, devices);
  VolumeUse use;
  use.path = info.target;
  use.volume_id = OwnerBehind(info, loops, devices);
  use.done = true;
  const dev_t number = loop != nullptr ? loop->device_number : device != nullptr ? device->number : info.device;
  const bool is_block = number != info.device;
  use.access_type = is_block ? AccessType::kBlock : AccessType::kMount;
  use.read_only = info.flags.read_only;
  return use;
}

bool IsStagedBlock(const VolumeUse& use) {
  return use.access_type == AccessType::kBlock && use.role == VolumeUse::Role::kStage;
}

constexpr char kUnknownOwner[] = "?";  // no id of a volume

bool Hangs(const MountInfo& info, const std::vector<LoopInfo>& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [&info](const LoopInfo& loop) { return loop.hangs() && loop.device_number == info.device; });
}

// The owners by path and by loop device. The topmost mount of a stack counts.
std::map<std::string, std::string> OwnersBy(const std::vector<ListedMount>& mounts, const std::vector<LoopInfo>& loops,
                                            const std::vector<KnownDevice>& devices) {
  std::map<std::string, std::string> owners;
  for (const LoopInfo& loop : loops) owners[loop.device] = loop.hangs() ? kUnknownOwner : OwnerOf(loop);
  for (const MountInfo& info : mounts) {
    owners[info.target] = Hangs(info, loops) ? kUnknownOwner : OwnerBehind(info, loops, devices);
  }
  return owners;
}

}  // namespace

absl::Status NodeReconciler::Reconcile() {
  MOORING_RETURN_IF_ERROR(HoldBlockDevices());  // a device that is not held does not tell its volume
  Listing listing;
  MOORING_ASSIGN_OR_RETURN(listing.mounts, mounter_.List("/"));
  MOORING_ASSIGN_OR_RETURN(listing.loops, mounter_.FindLoops(""));
  listing.devices = source_.KnownDevices();
  MOORING_RETURN_IF_ERROR(DropStale(listing));
  ReconcileVolumes(listing);
  MOORING_RETURN_IF_ERROR(HoldBlockDevices());  // also of adopted volumes
  return staging_by_ == StagingBy::kPlugin ? UnstageAllUnused() : absl::OkStatus();
}

void NodeReconciler::ReconcileVolumes(const Listing& listing) {
  std::map<std::string, Found> volumes;
  for (const LoopInfo& loop : listing.loops) {
    const std::string owner = OwnerOf(loop);
    if (owner.empty()) continue;
    const bool below_mapping = MappingOf(owner, {loop}, listing.devices) != nullptr;
    const bool is_mounted = GoesByItself(loop) && loop.mounted;
    if (below_mapping || !is_mounted) volumes[owner].has_block_device = true;
  }
  for (const ListedMount& info : listing.mounts) {
    VolumeUse use = FoundMounted(info, listing.loops, listing.devices);
    if (!use.volume_id.empty()) volumes[use.volume_id].mounted.push_back(std::move(use));
  }
  for (const auto& [volume_id, found] : volumes) {
    const DeadlineScope patience(Clock::now() + kReconcilePatience);
    log::WarningIfFailed(ReconcileVolume(volume_id, found), "the records and mounts of a volume could not be compared",
                         {{"volume", volume_id}});
  }
}

absl::Status NodeReconciler::HoldBlockDevices() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, mounter_.FindLoops(""));
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.All());
  std::set<std::string> volumes;
  for (const VolumeUse& use : uses) {
    if (use.access_type == AccessType::kBlock) volumes.insert(use.volume_id);
  }
  for (const std::string& volume_id : volumes) {
    const DeadlineScope patience(Clock::now() + kReconcilePatience);
    WarnIfNotHeld(volume_id, HoldDevicesOf(volume_id, loops));
  }
  return absl::OkStatus();
}

absl::Status NodeReconciler::HoldDevicesOf(const std::string& volume_id, const std::vector<LoopInfo>& loops) {
  const auto hold = locks_.AcquireVolume(volume_id, {Clock::now()});
  if (!hold.ok()) return absl::OkStatus();  // another process has locked it
  return devices_.HoldAll(volume_id, loops);
}

absl::Status NodeReconciler::UnstageAllUnused() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.All());
  std::set<std::string> staged;
  for (const VolumeUse& use : uses) {
    if (use.role == VolumeUse::Role::kStage) staged.insert(use.volume_id);
  }
  const auto end = Clock::now() + kReconcilePatienceWithAll;
  for (const std::string& volume_id : staged) {
    if (Clock::now() >= end) break;  // the next Unpublish unstages the others
    const DeadlineScope patience(Clock::now() + kReconcilePatience);
    log::WarningIfFailed(teardown_.UnstageUnused(volume_id, {Clock::now()}),
                         "a volume without targets could not be unstaged", {{"volume", volume_id}});
  }
  return absl::OkStatus();
}

// Mounts in the listing are not looked up by path, because a path may hang.
absl::Status NodeReconciler::DropStale(const Listing& listing) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.All());
  const std::map<std::string, std::string> owners = OwnersBy(listing.mounts, listing.loops, listing.devices);
  const auto end = Clock::now() + kReconcilePatienceWithAll;
  for (const VolumeUse& use : uses) {
    const auto found = owners.find(IsStagedBlock(use) ? use.device : use.path);
    const std::string owner = found == owners.end() ? "" : found->second;
    if (owner == use.volume_id || owner == kUnknownOwner) continue;
    if (Clock::now() >= end) {
      log::Warning("the other records are not compared with the mounts: it takes too long", {{"from", use.path}});
      return absl::OkStatus();
    }
    const DeadlineScope patience(Clock::now() + kReconcilePatience);
    log::WarningIfFailed(DropIfStale(use), "a record could not be compared with the mounts",
                         {{"volume", use.volume_id}, {"path", use.path}});
  }
  return absl::OkStatus();
}

absl::Status NodeReconciler::DropIfStale(const VolumeUse& use) {
  const auto hold = locks_.Acquire(use.volume_id, use.path, {Clock::now()});
  if (!hold.ok()) return absl::OkStatus();  // another process has locked the volume
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> now, store_.Get(use.path));
  if (now != use) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool live, finder_.IsLive(use));
  if (live) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::string stray, finder_.BlockTargetProblem(use));
  if (!stray.empty()) {
    log::Error("a task has a device that is not its volume's", {{"volume", use.volume_id}, {"cause", stray}});
    return absl::OkStatus();
  }
  log::Info("deleted the record of a use without a mount", {{"volume", use.volume_id}, {"path", use.path}});
  MOORING_RETURN_IF_ERROR(store_.DeleteEnded(use.path));
  return use.access_type == AccessType::kBlock ? devices_.Release(use.volume_id) : absl::OkStatus();
}

absl::Status NodeReconciler::ReconcileVolume(const std::string& volume_id, const Found& found) {
  // Another plugin of this host may have made the volume, also in a shared pool that this one was not started with. A
  // known volume without its image belongs to this one.
  const absl::Status ours = source_.Knows(volume_id);
  if (absl::IsNotFound(ours) || absl::IsFailedPrecondition(ours)) return absl::OkStatus();
  const auto hold = locks_.AcquireVolume(volume_id, {Clock::now()});
  if (!hold.ok()) return absl::OkStatus();  // another process has locked it
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> known, store_.OfVolume(volume_id));
  // If the volume has records, a mount without a record is a copy: of a shared mount, or a bind of a target.
  if (known.empty()) MOORING_RETURN_IF_ERROR(Adopt(found.mounted));
  return found.has_block_device ? devices_.Release(volume_id) : absl::OkStatus();
}

absl::Status NodeReconciler::Adopt(const std::vector<VolumeUse>& found) {
  for (const VolumeUse& use : found) {
    MOORING_ASSIGN_OR_RETURN(const bool live, finder_.IsLive(use));
    if (!live) continue;
    MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(use.path));
    if (known) continue;  // the path is a target of another volume, whose device now belongs to this one
    log::Info("adopting a mount without a record", {{"volume", use.volume_id}, {"path", use.path}});
    store_.PutDone(use);
  }
  return absl::OkStatus();
}

}  // namespace mooring

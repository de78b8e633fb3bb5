#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "base/deadline.h"
#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/propagation.h"
#include "plugin/node/node_volumes.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

// What answers does so in microseconds; what hangs must not keep the others from being served.
constexpr std::chrono::seconds kReconcilePatience{2};
constexpr std::chrono::seconds kReconcilePatienceWithAll{6};

// The volume that is mounted or bound by `info`: through the superblock's device, or the device node that is its root.
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

constexpr char kCannotBeTold[] = "?";  // no volume's id

bool Hangs(const MountInfo& info, const std::vector<LoopInfo>& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [&info](const LoopInfo& loop) { return loop.hangs() && loop.device_number == info.device; });
}

struct Listed {
  std::string owner;
  const MountInfo* mount = nullptr;  // none of a device
};

// The volumes by where they are mounted, and by the devices they are on. Of a stack of mounts the last made counts.
std::map<std::string, Listed> ListedBy(const std::vector<MountInfo>& mounts, const std::vector<LoopInfo>& loops,
                                       const std::vector<KnownDevice>& devices) {
  std::map<std::string, Listed> listed;
  for (const LoopInfo& loop : loops) listed[loop.device] = {loop.hangs() ? kCannotBeTold : OwnerOf(loop), nullptr};
  for (const MountInfo& info : mounts) {
    listed[info.target] = {Hangs(info, loops) ? kCannotBeTold : OwnerBehind(info, loops, devices), &info};
  }
  return listed;
}

}  // namespace

// Whatever of one volume cannot be put right now is told, and left: no volume keeps the others from being served, not
// even one whose filesystem hangs.
absl::Status NodeVolumes::Reconcile() {
  Listing listing;
  MOORING_ASSIGN_OR_RETURN(listing.mounts, mounter_.List("/"));
  MOORING_ASSIGN_OR_RETURN(listing.loops, mounter_.FindLoops(""));
  listing.devices = source_.KnownDevices();
  MOORING_RETURN_IF_ERROR(DropStale(listing));
  const auto& [mounts, loops, devices] = listing;
  std::map<std::string, Found> volumes;
  for (const LoopInfo& loop : loops) {
    if (!OwnerOf(loop).empty() && !(loop.auto_clear && loop.mounted)) volumes[OwnerOf(loop)].has_block_device = true;
  }
  for (const MountInfo& info : mounts) {
    VolumeUse use = FoundMounted(info, loops, devices);
    if (!use.volume_id.empty()) volumes[use.volume_id].mounted.push_back(std::move(use));
  }
  for (const auto& [volume_id, found] : volumes) {
    const DeadlineScope patience(Clock::now() + kReconcilePatience);
    if (const absl::Status status = ReconcileVolume(volume_id, found); !status.ok()) {
      log::Warning("a volume's records and mounts could not be put together",
                   {{"volume", volume_id}, {"cause", Message(status)}});
    }
  }
  MOORING_RETURN_IF_ERROR(HoldBlockDevices());  // those of the volumes that were adopted, too
  return makes_staging_ ? UnstageAllUnused() : absl::OkStatus();
}

void WarnIfNotHeld(const std::string& volume_id, const absl::Status& held) {
  if (held.ok()) return;
  log::Warning("the loop device of a block volume is not held open: do not detach it, not even with losetup -D",
               {{"volume", volume_id}, {"cause", Message(held)}});
}

// The processes that hold block volumes' devices open may have ended since, as all of a container do.
absl::Status NodeVolumes::HoldBlockDevices() {
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

// AttachLoop finds the device that there is.
absl::Status NodeVolumes::HoldDevicesOf(const std::string& volume_id, const std::vector<LoopInfo>& loops) {
  const auto hold = volume_locks_.Acquire(volume_id, "volume", Clock::now());
  if (!hold.ok()) return absl::OkStatus();  // another process is at work on it
  for (const LoopInfo& loop : loops) {
    if (loop.label != LabelFor(volume_id) || loop.mounted) continue;
    MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(volume_id));
    const AttachLoopRequest request = {.backing_file = volume.path, .label = loop.label, .held = true};
    MOORING_RETURN_IF_ERROR(mounter_.AttachLoop(request).status());
  }
  return HoldStacked(volume_id);
}

absl::Status NodeVolumes::UnstageAllUnused() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.All());
  std::set<std::string> staged;
  for (const VolumeUse& use : uses) {
    if (use.role == VolumeUse::Role::kStage) staged.insert(use.volume_id);
  }
  const auto end = Clock::now() + kReconcilePatienceWithAll;
  for (const std::string& volume_id : staged) {
    if (Clock::now() >= end) break;  // their next unpublish does it
    const DeadlineScope patience(Clock::now() + kReconcilePatience);
    if (const absl::Status status = UnstageUnused(volume_id, {Clock::now()}); !status.ok()) {
      log::Warning("a volume stays staged though nothing is published",
                   {{"volume", volume_id}, {"cause", Message(status)}});
    }
  }
  return absl::OkStatus();
}

// What the listing shows needs no second look: that would be a walk along its path, which may hang.
absl::Status NodeVolumes::DropStale(const Listing& listing) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.All());
  const std::map<std::string, Listed> all = ListedBy(listing.mounts, listing.loops, listing.devices);
  const auto end = Clock::now() + kReconcilePatienceWithAll;
  for (const VolumeUse& use : uses) {
    const auto found = all.find(IsStagedBlock(use) ? use.device : use.path);
    const Listed listed = found == all.end() ? Listed() : found->second;
    if (listed.owner == use.volume_id && listed.mount != nullptr) MOORING_RETURN_IF_ERROR(Follow(use, *listed.mount));
    if (listed.owner == use.volume_id || listed.owner == kCannotBeTold) continue;
    if (Clock::now() >= end) {
      log::Warning("records are not compared with what is mounted: looking takes too long", {{"from", use.path}});
      return absl::OkStatus();
    }
    const DeadlineScope patience(Clock::now() + kReconcilePatience);
    if (const absl::Status status = DropIfStale(use); !status.ok()) {
      log::Warning("a record could not be compared with what is mounted",
                   {{"volume", use.volume_id}, {"path", use.path}, {"cause", Message(status)}});
    }
  }
  return absl::OkStatus();
}

absl::Status NodeVolumes::DropIfStale(const VolumeUse& use) {
  const auto hold = Acquire(use.volume_id, use.path, {Clock::now()});
  if (!hold.ok()) return absl::OkStatus();  // another process is at work on the volume
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> now, store_.Get(use.path));
  if (now != use) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool live, IsLive(use));
  if (live) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::string stray, BlockTargetAilment(use));
  if (!stray.empty()) {
    log::Error("a task has a device that is not its volume's", {{"volume", use.volume_id}, {"cause", stray}});
    return absl::OkStatus();
  }
  log::Info("forgetting a use whose mount is gone", {{"volume", use.volume_id}, {"path", use.path}});
  return Forget(use.path);
}

// A plugin in a container that was started anew sees the host's copies of its mounts, peers of those it made, whatever
// it had made of its own. What they are now is what they are held to: the volume stays published. A default that was
// taken is no word that was asked for: the next call takes the default of its time, and compares with none.
absl::Status NodeVolumes::Follow(VolumeUse use, const MountInfo& mount) {
  if (use.propagation == Propagation::kInherit || HasPropagation(mount, use.propagation)) return absl::OkStatus();
  const auto hold = Acquire(use.volume_id, use.path, {Clock::now()});
  if (!hold.ok()) return absl::OkStatus();  // another process is at work on the volume
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> now, store_.Get(use.path));
  if (now != use) return absl::OkStatus();
  log::Info("a mount has another propagation than it was made with: is this a new mount namespace?",
            {{"volume", use.volume_id}, {"path", use.path}, {"made", std::string(ToString(use.propagation))}});
  use.propagation = Propagation::kInherit;
  return Record(use);
}

absl::Status NodeVolumes::ReconcileVolume(const std::string& volume_id, const Found& found) {
  // Of a plugin with another state directory? One that is known, and has lost its image, is ours all the same.
  if (absl::IsNotFound(source_.Find(volume_id).status())) return absl::OkStatus();
  const auto hold = volume_locks_.Acquire(volume_id, "volume", Clock::now());
  if (!hold.ok()) return absl::OkStatus();  // another process is at work on it
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> known, store_.OfVolume(volume_id));
  // Where there are records, what has none is a copy: of a shared mount, or somebody's bind of a target.
  if (known.empty()) MOORING_RETURN_IF_ERROR(Adopt(found.mounted));
  return found.has_block_device ? ReleaseDevices(volume_id) : absl::OkStatus();
}

absl::Status NodeVolumes::Adopt(const std::vector<VolumeUse>& found) {
  for (const VolumeUse& use : found) {
    MOORING_ASSIGN_OR_RETURN(const bool live, IsLive(use));
    if (!live) continue;
    MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(use.path));
    if (known) continue;  // another volume's target, of which the device is this one's by now
    log::Info("adopting a mount without a record", {{"volume", use.volume_id}, {"path", use.path}});
    MOORING_RETURN_IF_ERROR(Record(use));
  }
  return absl::OkStatus();
}

}  // namespace mooring

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/log.h"
#include "base/path.h"
#include "base/quote.h"
#include "base/status.h"
#include "plugin/node_volumes.h"

namespace mooring {
namespace {

// The volume that is mounted or bound by `info`: through the superblock's device, or the device node that is its root.
const LoopInfo* LoopBehind(const MountInfo& info, const std::vector<LoopInfo>& loops) {
  const auto found = std::find_if(loops.begin(), loops.end(), [&info](const LoopInfo& loop) {
    return loop.device_number == info.device || (info.root != "/" && NameOf(info.root) == NameOf(loop.device));
  });
  return found == loops.end() || OwnerOf(*found).empty() ? nullptr : &*found;
}

}  // namespace

absl::Status NodeVolumes::DropStale(const std::vector<MountInfo>& mounts, const std::vector<LoopInfo>& loops) {
  std::map<std::string, std::string> mounted;  // path -> volume
  for (const MountInfo& info : mounts) {
    const LoopInfo* loop = LoopBehind(info, loops);
    mounted[info.target] = loop == nullptr ? "" : OwnerOf(*loop);
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.All());
  for (const VolumeUse& use : uses) {
    const bool needs_device_only = use.access_type == AccessType::kBlock && use.role == VolumeUse::Role::kStage;
    const bool live = needs_device_only
                          ? std::any_of(loops.begin(), loops.end(),
                                        [&use](const LoopInfo& loop) { return OwnerOf(loop) == use.volume_id; })
                          : mounted.contains(use.path) && mounted[use.path] == use.volume_id;
    if (live) continue;
    log::Info("forgetting a use whose mount is gone", {{"volume", use.volume_id}, {"path", use.path}});
    MOORING_RETURN_IF_ERROR(store_.Remove(use.path));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> NodeVolumes::IsKnown(const std::string& volume_id) {
  const absl::Status found = source_.Find(volume_id).status();
  if (!found.ok() && !absl::IsNotFound(found)) return found;
  return found.ok();
}

absl::Status NodeVolumes::Adopt(const std::vector<MountInfo>& mounts, const std::vector<LoopInfo>& loops) {
  for (const MountInfo& info : mounts) {
    const LoopInfo* loop = LoopBehind(info, loops);
    if (loop == nullptr) continue;
    const std::string owner = OwnerOf(*loop);
    MOORING_ASSIGN_OR_RETURN(const bool known_volume, IsKnown(owner));
    if (!known_volume) continue;  // of a plugin with another state directory
    MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(info.target));
    if (known) continue;
    VolumeUse use;
    use.path = info.target;
    use.volume_id = owner;
    use.done = true;
    use.access_type = loop->device_number == info.device ? AccessType::kMount : AccessType::kBlock;
    use.read_only = info.flags.read_only;
    log::Info("adopting a mount without a record", {{"volume", owner}, {"path", info.target}});
    MOORING_RETURN_IF_ERROR(store_.Put(use));
  }
  return absl::OkStatus();
}

absl::Status NodeVolumes::Reconcile() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, mounter_.List("/"));
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, mounter_.FindLoops(""));
  MOORING_RETURN_IF_ERROR(DropStale(mounts, loops));
  MOORING_RETURN_IF_ERROR(Adopt(mounts, loops));
  std::set<std::string> owners;
  for (const LoopInfo& loop : loops) {
    const std::string owner = OwnerOf(loop);
    if (!owner.empty() && !loop.auto_clear) owners.insert(owner);
  }
  for (const std::string& owner : owners) {
    MOORING_ASSIGN_OR_RETURN(const bool known_volume, IsKnown(owner));
    if (known_volume) MOORING_RETURN_IF_ERROR(ReleaseDevices(owner));
  }
  return absl::OkStatus();
}

}  // namespace mooring

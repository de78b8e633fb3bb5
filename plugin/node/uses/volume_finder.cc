#include "plugin/node/uses/volume_finder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "plugin/model/volume_id.h"
#include "plugin/model/volume_mount.h"

namespace mooring {
namespace {

absl::Status CheckCanBeOurs(const std::string& id, const std::string& path) {
  if (IsVolumeId(id) || IsEphemeralId(id)) return absl::OkStatus();
  return NotFound(
      "volume {} does not exist, and no id of this driver is like that ({} and 32 hexadecimal digits, or {} of an "
      "ephemeral volume); another volume is at {}: nothing was taken down",
      Quote(id), kVolumeIdPrefix, kEphemeralIdPrefix, Quote(path));
}

}  // namespace

bool IsStrayNode(const VolumeUse& use, const PathInfo& place, const std::string& owner) {
  return use.role == VolumeUse::Role::kTarget && use.access_type == AccessType::kBlock && place.mount &&
         place.kind == PathInfo::Kind::kBlockDevice && owner != use.volume_id;
}

std::string VolumeFinder::Owner(const PathInfo& info) {
  std::string owner = OwnerOf(info);
  if (!owner.empty()) return owner;
  const std::vector<KnownDevice> devices = source_.KnownDevices();
  const KnownDevice* const device = DeviceBehind(info, devices);
  return device != nullptr ? device->volume_id : "";
}

std::string VolumeFinder::OwnerText(const PathInfo& mounted) {
  const std::string owner = Owner(mounted);
  return owner.empty() ? mounted.mount->fs_type + ", not of this driver" : "volume " + owner;
}

absl::Status VolumeFinder::CheckMayEnd(const std::string& volume_id, const std::string& path,
                                       const std::string& owner) {
  if (owner == volume_id) return absl::OkStatus();
  const absl::StatusOr<NodeVolume> asked = source_.Find(volume_id);
  if (absl::IsNotFound(asked.status())) return CheckCanBeOurs(volume_id, path);
  if (!asked.ok()) return asked.status();
  return FailedPrecondition("{} is in use for volume {}, not {}: it is left alone", Quote(path), owner,
                            Quote(volume_id));
}

// A block volume is not mounted at its staging path, so the record decides there.
absl::StatusOr<VolumeFinder::Place> VolumeFinder::FindVolumeAt(const std::string& volume_id, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(PathInfo info, mounts_.Find(path));
  if (info.mount && Owner(info) == volume_id) return Place{path, std::move(info)};
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(path));
  if (known && known->volume_id == volume_id && !known->device.empty()) {
    MOORING_ASSIGN_OR_RETURN(PathInfo device, mounts_.Find(known->device));
    if (Owner(device) == volume_id) return Place{known->device, std::move(device)};
  }
  return NotFound("volume {} is not at {}", Quote(volume_id), Quote(path));
}

absl::StatusOr<bool> VolumeFinder::IsLive(const VolumeUse& use) {
  if (use.access_type == AccessType::kBlock && use.role == VolumeUse::Role::kStage) {
    if (use.device.empty()) return false;
    MOORING_ASSIGN_OR_RETURN(const PathInfo device, mounts_.Find(use.device));
    return Owner(device) == use.volume_id;
  }
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, mounts_.Find(use.path));
  return info.mount && Owner(info) == use.volume_id;
}

absl::StatusOr<bool> VolumeFinder::HasMappedIds(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, mounts_.List(path));
  const auto top =
      std::find_if(mounts.rbegin(), mounts.rend(), [&path](const ListedMount& mount) { return mount.target == path; });
  return top != mounts.rend() && top->ids_mapped;
}

absl::StatusOr<std::string> VolumeFinder::BlockTargetProblem(const VolumeUse& use) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounts_.Find(use.path));
  const std::string owner = Owner(place);
  if (!IsStrayNode(use, place, owner)) return "";
  return fmt::format(
      "the device at {} is {} and not this volume's any more, since its loop device was freed by somebody else: end "
      "the task that has it, unpublish it there, and publish it again",
      Quote(use.path), owner.empty() ? "no volume's" : "volume " + owner + "'s");
}

absl::StatusOr<std::optional<VolumeUse>> VolumeFinder::FindLive(const std::string& volume_id, const Filter& counts) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  for (const VolumeUse& use : uses) {
    if (!counts(use)) continue;
    MOORING_ASSIGN_OR_RETURN(const bool live, IsLive(use));
    if (live) return use;
  }
  return std::nullopt;
}

absl::StatusOr<bool> VolumeFinder::HasStagedDevice(const std::string& volume_id) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> found, FindLive(volume_id, [](const VolumeUse& use) {
                             return use.access_type == AccessType::kBlock && use.role == VolumeUse::Role::kStage;
                           }));
  return found.has_value();
}

absl::StatusOr<std::vector<std::string>> VolumeFinder::LivePaths(const std::string& volume_id) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  std::vector<std::string> paths;
  for (const VolumeUse& use : uses) {
    MOORING_ASSIGN_OR_RETURN(const bool live, IsLive(use));
    if (live) paths.push_back(use.path);
  }
  return paths;
}

std::string VolumeFinder::CommandsToFree(const std::string& volume_id) {
  const absl::StatusOr<std::vector<VolumeUse>> uses = store_.OfVolume(volume_id);
  if (!uses.ok()) return "";
  std::string commands;
  for (const VolumeUse::Role role : {VolumeUse::Role::kTarget, VolumeUse::Role::kStage}) {
    for (const VolumeUse& use : *uses) {
      if (use.role != role || !IsLive(use).value_or(false)) continue;
      const bool target = role == VolumeUse::Role::kTarget;
      commands +=
          fmt::format("{}mooring csi {} {} --{}-path {}", commands.empty() ? "" : " && ",
                      target ? "unpublish" : "unstage", volume_id, target ? "target" : "staging", ShellQuote(use.path));
    }
  }
  return commands;
}

}  // namespace mooring

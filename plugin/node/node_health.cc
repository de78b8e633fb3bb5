// What ails volumes in use here: their images, their filesystems, and how full these are.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/deadline.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_size.h"
#include "plugin/node/node_volumes.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kNearlyFullPercent = 95;

// For a whole list. A filesystem that answers does so in microseconds.
constexpr std::chrono::milliseconds kPatience{250};
constexpr std::chrono::milliseconds kPatienceWithAll{2000};

// As df(1) counts: what is kept for root is nobody's.
bool IsNearlyFull(const Usage& usage) {
  const std::uint64_t usable = usage.used + usage.available;
  return usable != 0 && usage.used >= usable / 100 * kNearlyFullPercent + usable % 100 * kNearlyFullPercent / 100;
}

}  // namespace

std::string FullnessOf(const StatsInfo& usage) {
  if (IsNearlyFull(usage.bytes)) {
    return fmt::format(
        "its filesystem is nearly full, with {} MiB of {} MiB left: make room in it, or expand the volume",
        usage.bytes.available / kMiB, (usage.bytes.used + usage.bytes.available) / kMiB);
  }
  if (!IsNearlyFull(usage.inodes)) return "";
  return fmt::format("its filesystem is nearly out of inodes, with {} of {} left: remove files, or expand the volume",
                     usage.inodes.available, usage.inodes.used + usage.inodes.available);
}

// Of the volume behind whatever uses it here; a device that is larger was made before it was cut short.
std::string NodeVolumes::ImageAilment(const std::string& volume_id, std::uint64_t device_bytes) {
  const absl::StatusOr<NodeVolume> volume = source_.Find(volume_id);
  if (!volume.ok()) return Message(volume.status());
  const std::uint64_t whole = std::max(device_bytes, volume->made_bytes);
  if (volume->path.empty() || !TraitsOf(volume->kind).enforces_size || volume->bytes >= whole) return "";
  return fmt::format("its {} {} is cut short: {} bytes of {}",
                     volume->kind == BackendKind::kDevice ? "device" : "image", Quote(volume->path), volume->bytes,
                     whole);
}

// NOT_FOUND: it is no mount any more.
absl::StatusOr<std::string> NodeVolumes::MountAilment(const VolumeUse& use) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounter_.Find(use.path));
  if (!place.mount || Owner(place) != use.volume_id) return NotFound(use.path);
  MOORING_ASSIGN_OR_RETURN(std::string ailment, mounter_.HealthProblem(use.path));
  if (!ailment.empty() || !place.failure.empty()) return ailment;
  MOORING_ASSIGN_OR_RETURN(const StatsInfo usage, mounter_.Stats(use.path));
  return RoomAilment(use.volume_id, place.mount->fs_type, usage);
}

absl::StatusOr<std::string> NodeVolumes::BlockTargetAilment(const VolumeUse& use) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounter_.Find(use.path));
  const std::string owner = Owner(place);
  if (!IsStrayNode(use, place, owner)) return "";
  return fmt::format(
      "the device at {} is {} and not this volume's any more, since its loop device was freed by somebody else: end "
      "the task that has it, unpublish it there, and publish it again",
      Quote(use.path), owner.empty() ? "no volume's" : "volume " + owner + "'s");
}

// One mount of each volume tells for all of them: they share the filesystem. No locks: a call that hangs must not keep
// a list from being made, nor the other way round.
NodeVolumes::Ailments NodeVolumes::AilmentsOf(const std::vector<VolumeUse>& uses) {
  Ailments ailments;
  std::set<std::string> asked;
  const auto end = Clock::now() + kPatienceWithAll;
  for (const VolumeUse& use : uses) {
    const bool is_mount = use.access_type == AccessType::kMount;
    if (is_mount ? asked.contains(use.volume_id) : use.role != VolumeUse::Role::kTarget) continue;
    if (Clock::now() >= end) {
      ailments.try_emplace(use.volume_id, "its filesystem was not asked: others took too long to answer");
      continue;
    }
    const DeadlineScope patience(Clock::now() + kPatience);
    const absl::StatusOr<std::string> ailment = is_mount ? MountAilment(use) : BlockTargetAilment(use);
    if (absl::IsNotFound(ailment.status())) continue;
    if (is_mount) asked.insert(use.volume_id);
    const std::string text = ailment.ok() ? *ailment : Message(ailment.status());
    if (!text.empty()) ailments[use.volume_id] = text;
  }
  return ailments;
}

absl::StatusOr<NodeVolumes::Ailments> NodeVolumes::FindAilments(const std::set<std::string>& volume_ids) {
  MOORING_ASSIGN_OR_RETURN(std::vector<VolumeUse> uses,
                           volume_ids.size() == 1 ? store_.OfVolume(*volume_ids.begin()) : store_.All());
  std::erase_if(uses, [&volume_ids](const VolumeUse& use) { return !volume_ids.contains(use.volume_id); });
  // Staging paths before targets, which may lie below what hangs and is not the volume's.
  std::stable_sort(uses.begin(), uses.end(), [](const VolumeUse& a, const VolumeUse& b) {
    return a.role == VolumeUse::Role::kStage && b.role != VolumeUse::Role::kStage;
  });
  return AilmentsOf(uses);
}

}  // namespace mooring

// Finds the problems of volumes in use here: of their images and filesystems, and full filesystems.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/deadline.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/backends/registry.h"
#include "plugin/model/volume_size.h"
#include "plugin/node/node_volumes.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kNearlyFullPercent = 95;

// The time for a whole list. A healthy filesystem answers in microseconds.
constexpr std::chrono::milliseconds kPatience{250};
constexpr std::chrono::milliseconds kPatienceWithAll{2000};

// It counts as df(1) does, without the blocks that are reserved for root.
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

// A loop device that is larger than the image was created before the image was cut short.
std::string NodeVolumes::ImageProblem(const std::string& volume_id, std::uint64_t device_bytes) {
  const absl::StatusOr<NodeVolume> volume = source_.Find(volume_id);
  if (!volume.ok()) return Message(volume.status());
  const std::uint64_t whole = std::max(device_bytes, volume->made_bytes);
  if (volume->path.empty() || !TraitsOf(volume->kind).enforces_size || volume->bytes >= whole) return "";
  return fmt::format("its {} {} is cut short: {} bytes of {}",
                     StagingOf(*volume) == Staging::kBlockDevice ? "device" : "image", Quote(volume->path),
                     volume->bytes, whole);
}

// NOT_FOUND: it is no longer mounted.
absl::StatusOr<std::string> NodeVolumes::MountProblem(const VolumeUse& use) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounter_.Find(use.path));
  if (!place.mount || Owner(place) != use.volume_id) return NotFound(use.path);
  MOORING_ASSIGN_OR_RETURN(std::string problem, mounter_.HealthProblem(use.path));
  if (!problem.empty() || !place.failure.empty()) return problem;
  MOORING_ASSIGN_OR_RETURN(const StatsInfo usage, mounter_.Stats(use.path));
  return RoomProblem(use.volume_id, place.mount->fs_type, usage);
}

absl::StatusOr<std::string> NodeVolumes::BlockTargetProblem(const VolumeUse& use) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounter_.Find(use.path));
  const std::string owner = Owner(place);
  if (!IsStrayNode(use, place, owner)) return "";
  return fmt::format(
      "the device at {} is {} and not this volume's any more, since its loop device was freed by somebody else: end "
      "the task that has it, unpublish it there, and publish it again",
      Quote(use.path), owner.empty() ? "no volume's" : "volume " + owner + "'s");
}

// It asks one mount of each volume, because all mounts share the filesystem. It takes no locks, so that a hanging call
// does not block a list, and a list blocks no call.
NodeVolumes::Problems NodeVolumes::ProblemsOf(const std::vector<VolumeUse>& uses) {
  Problems problems;
  std::set<std::string> asked;
  const auto end = Clock::now() + kPatienceWithAll;
  for (const VolumeUse& use : uses) {
    const bool is_mount = use.access_type == AccessType::kMount;
    if (is_mount ? asked.contains(use.volume_id) : use.role != VolumeUse::Role::kTarget) continue;
    if (Clock::now() >= end) {
      problems.try_emplace(use.volume_id, "its filesystem was not asked: others took too long to answer");
      continue;
    }
    const DeadlineScope patience(Clock::now() + kPatience);
    const absl::StatusOr<std::string> problem = is_mount ? MountProblem(use) : BlockTargetProblem(use);
    if (absl::IsNotFound(problem.status())) continue;
    if (is_mount) asked.insert(use.volume_id);
    const std::string text = problem.ok() ? *problem : Message(problem.status());
    if (!text.empty()) problems[use.volume_id] = text;
  }
  return problems;
}

absl::StatusOr<NodeVolumes::Problems> NodeVolumes::FindProblems(const std::set<std::string>& volume_ids) {
  MOORING_ASSIGN_OR_RETURN(std::vector<VolumeUse> uses,
                           volume_ids.size() == 1 ? store_.OfVolume(*volume_ids.begin()) : store_.All());
  std::erase_if(uses, [&volume_ids](const VolumeUse& use) { return !volume_ids.contains(use.volume_id); });
  // Staging paths come before targets, because a target may be below another filesystem that hangs.
  std::stable_sort(uses.begin(), uses.end(), [](const VolumeUse& a, const VolumeUse& b) {
    return a.role == VolumeUse::Role::kStage && b.role != VolumeUse::Role::kStage;
  });
  return ProblemsOf(uses);
}

}  // namespace mooring

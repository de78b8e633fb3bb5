#include "plugin/node/volume_health.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/deadline.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/backends/registry.h"
#include "plugin/model/volume_mount.h"
#include "plugin/model/volume_size.h"
#include "plugin/node/uses/volume_kind.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kNearlyFullPercent = 95;

// A filesystem may leave this much of its device unused, because another block or allocation group would not fit.
constexpr std::uint64_t kLittle = 8 * kMiB;

// The time for a whole list. A healthy filesystem answers in microseconds.
constexpr std::chrono::milliseconds kHealthPatience{250};
constexpr std::chrono::milliseconds kHealthPatienceWithAll{2000};

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
std::string VolumeHealth::ImageProblem(const std::string& volume_id, std::uint64_t device_bytes) {
  const absl::StatusOr<NodeVolume> volume = source_.Find(volume_id);
  if (!volume.ok()) return Message(volume.status());
  if (!volume->problem.empty()) return volume->problem;
  const std::uint64_t whole = std::max(device_bytes, volume->made_bytes);
  if (volume->path.empty() || !TraitsOf(volume->kind).enforces_size || volume->bytes >= whole) return "";
  const bool is_device = StagingOf(*volume) == Staging::kBlockDevice && volume->carrier.empty();
  return fmt::format("its {} {} is cut short: {} bytes of {}", is_device ? "device" : "image",
                     Quote(StorageOf(*volume)), volume->bytes, whole);
}

// A sentence for the condition of the volume. The owner of a whole device chose the size of its filesystem.
std::string VolumeHealth::RoomUnused(const std::string& volume_id, const std::string& fs_type, const StatsInfo& usage) {
  if (usage.unused_bytes < kLittle) return "";
  const absl::StatusOr<NodeVolume> volume = source_.Find(volume_id);
  if (!volume.ok() || !IsSizedHere(*volume)) return "";
  const bool too_small = fs_type == "btrfs" && volume->bytes < kSmallestGrownBtrfs;
  return fmt::format(
      "its {} filesystem is {} MiB smaller than the volume and could not be grown: {}", fs_type,
      usage.unused_bytes / kMiB,
      too_small
          ? fmt::format("Linux gives no btrfs a size below {}: expand the volume to that",
                        SizeText(kSmallestGrownBtrfs))
          : "unpublish and unstage the volume, so that the next stage tries again; the plugin's log has the cause");
}

std::string VolumeHealth::RoomProblem(const std::string& volume_id, const std::string& fs_type,
                                      const StatsInfo& usage) {
  const std::string unused = RoomUnused(volume_id, fs_type, usage), full = FullnessOf(usage);
  return unused + (unused.empty() || full.empty() ? "" : "; ") + full;
}

// Measures what Examine left out, because the mount is not the usual one of such a volume, or does not answer.
absl::Status VolumeHealth::Measure(const std::string& path, Examination& seen) {
  if (seen.measured) return absl::OkStatus();
  if (seen.info.failure.empty()) {  // a filesystem that does not answer has no statistics
    MOORING_ASSIGN_OR_RETURN(seen.usage, mounter_.Stats(path));
  }
  if (seen.info.kind != PathInfo::Kind::kBlockDevice) {
    MOORING_ASSIGN_OR_RETURN(seen.problem, mounter_.HealthProblem(path));
  }
  return absl::OkStatus();
}

// NOT_FOUND: it is no longer mounted.
absl::StatusOr<std::string> VolumeHealth::MountProblem(const VolumeUse& use) {
  MOORING_ASSIGN_OR_RETURN(Examination seen, mounter_.Examine({use.path, ExpectedMountOf(use.volume_id)}));
  if (!seen.info.mount || finder_.Owner(seen.info) != use.volume_id) return NotFound(use.path);
  MOORING_RETURN_IF_ERROR(Measure(use.path, seen));
  if (!seen.problem.empty() || !seen.info.failure.empty()) return seen.problem;
  return RoomProblem(use.volume_id, seen.info.mount->fs_type, seen.usage);
}

// It asks one mount of each volume, because all mounts share the filesystem.
VolumeHealth::Problems VolumeHealth::ProblemsOf(const std::vector<VolumeUse>& uses) {
  Problems problems;
  std::set<std::string> asked;
  const auto end = Clock::now() + kHealthPatienceWithAll;
  for (const VolumeUse& use : uses) {
    const bool is_mount = use.access_type == AccessType::kMount;
    if (is_mount ? asked.contains(use.volume_id) : use.role != VolumeUse::Role::kTarget) continue;
    if (Clock::now() >= end) {
      problems.try_emplace(use.volume_id, "its filesystem was not asked: others took too long to answer");
      continue;
    }
    const DeadlineScope patience(Clock::now() + kHealthPatience);
    const absl::StatusOr<std::string> problem = is_mount ? MountProblem(use) : finder_.BlockTargetProblem(use);
    if (absl::IsNotFound(problem.status())) continue;
    if (is_mount) asked.insert(use.volume_id);
    const std::string text = problem.ok() ? *problem : Message(problem.status());
    if (!text.empty()) problems[use.volume_id] = text;
  }
  return problems;
}

absl::StatusOr<VolumeHealth::Problems> VolumeHealth::FindProblems(const std::set<std::string>& volume_ids) {
  MOORING_ASSIGN_OR_RETURN(std::vector<VolumeUse> uses,
                           volume_ids.size() == 1 ? store_.OfVolume(*volume_ids.begin()) : store_.All());
  std::erase_if(uses, [&volume_ids](const VolumeUse& use) { return !volume_ids.contains(use.volume_id); });
  // Staging paths come before targets, because a target may be below another filesystem that hangs.
  std::stable_sort(uses.begin(), uses.end(), [](const VolumeUse& a, const VolumeUse& b) {
    return a.role == VolumeUse::Role::kStage && b.role != VolumeUse::Role::kStage;
  });
  return ProblemsOf(uses);
}

// A question to the filesystem of a server that is known to be dead would hang.
absl::StatusOr<VolumeStats> VolumeHealth::WithoutServer(const std::string& volume_id, const std::string& volume_path,
                                                        const absl::Status& why) {
  MOORING_RETURN_IF_ERROR(finder_.FindVolumeAt(volume_id, volume_path).status());
  VolumeStats stats;
  stats.problem = Message(why);
  return stats;
}

absl::StatusOr<VolumeStats> VolumeHealth::Stats(const std::string& volume_id, const std::string& volume_path) {
  const absl::Status answers = source_.CheckAnswers(volume_id);
  if (!answers.ok()) return WithoutServer(volume_id, volume_path, answers);
  MOORING_ASSIGN_OR_RETURN(Examination seen, mounter_.Examine({volume_path, ExpectedMountOf(volume_id)}));
  std::string path = volume_path;
  if (!seen.measured || finder_.Owner(seen.info) != volume_id) {
    seen.measured = false;
    MOORING_ASSIGN_OR_RETURN(VolumeFinder::Place place, finder_.FindVolumeAt(volume_id, volume_path));
    path = place.path;
    seen.info = std::move(place.info);
  }
  MOORING_RETURN_IF_ERROR(Measure(path, seen));
  VolumeStats stats;
  stats.is_block = seen.info.kind == PathInfo::Kind::kBlockDevice;
  stats.usage = seen.usage;
  stats.problem = seen.problem;
  if (stats.problem.empty()) stats.problem = ImageProblem(volume_id, stats.is_block ? stats.usage.bytes.total : 0);
  if (stats.problem.empty() && !stats.is_block && seen.info.mount) {
    stats.problem = RoomProblem(volume_id, seen.info.mount->fs_type, stats.usage);
  }
  return stats;
}

}  // namespace mooring

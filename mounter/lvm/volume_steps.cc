#include "mounter/lvm/volume_steps.h"

#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <thread>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/size.h"
#include "mounter/lvm/lvm_words.h"

namespace mooring {
namespace {

// udev opens a device after each change, and reads it. Meanwhile the device looks used.
constexpr std::chrono::milliseconds kUdevPatience{3000}, kUdevPause{200};

}  // namespace

absl::StatusOr<LvmVolume> ParseLvmVolume(const std::string& pool, const std::string& name) {
  MOORING_ASSIGN_OR_RETURN(const LvmPool parsed, ParseLvmPool(pool));
  if (IsLvmVolumeName(name)) return LvmVolume{parsed, name};
  return InvalidArgument("{} is no name of a logical volume of Mooring", Quote(name));
}

absl::Status CheckDisks(const LvmState& state, const LvmPool& pool) {
  if (state.missing_disks == 0) return absl::OkStatus();
  return Unavailable("volume group {} cannot be changed: {}", Quote(pool.group), state.report.problem);
}

absl::Status CheckRoom(const LvmState& state, const LvmPool& pool, std::uint64_t more) {
  if (more <= state.report.free_bytes) return absl::OkStatus();
  return ResourceExhausted("volume group {} has {} left, but {} are asked for: add a disk (vgextend)",
                           Quote(pool.group), SizeText(state.report.free_bytes), SizeText(more));
}

absl::StatusOr<std::uint64_t> RoundUpToExtents(std::uint64_t bytes, const LvmState& state) {
  const std::uint64_t extent = state.report.extent_bytes;
  const std::uint64_t rest = bytes % extent;
  if (rest == 0 && bytes != 0) return bytes;
  if (bytes > std::numeric_limits<std::uint64_t>::max() - extent) return OutOfRange("{} bytes are too many", bytes);
  return bytes - rest + extent;
}

absl::Status GiveDevice(const Lvm& lvm, const LvmVolume& volume) {
  return lvm.Change(fmt::format("activate the logical volume {}", volume.path()),
                    {"lvchange", "-y", "-ay", "-K", volume.path()});
}

// lvm itself would say "in use" at once.
absl::Status TakeDevice(const Lvm& lvm, const LvmVolume& volume) {
  const std::string doing = fmt::format("deactivate the logical volume {}", volume.path());
  for (const auto until = std::chrono::steady_clock::now() + kUdevPatience;;) {
    const absl::StatusOr<CommandResult> result = lvm.Run({"lvchange", "-y", "-an", volume.path()});
    if (!result.ok()) return Annotate(result.status(), doing);
    if (result->exit_code == 0) return absl::OkStatus();
    const bool again = MeansInUse(result->output) && std::chrono::steady_clock::now() < until;
    if (!again) return LvmFailure(doing, *result);
    std::this_thread::sleep_for(kUdevPause);
  }
}

absl::Status Refresh(const Lvm& lvm, const std::string& path) {
  return lvm.Change(fmt::format("refresh the logical volume {}", path), {"lvchange", "-y", "--refresh", path});
}

absl::Status ChangeMetadata(const Lvm& lvm, const LvmVolume& volume, const std::vector<std::string>& changes) {
  LvmCommand command = {"lvchange", "-y"};
  command.insert(command.end(), changes.begin(), changes.end());
  command.push_back(volume.path());
  return lvm.Change(fmt::format("change the tags of the logical volume {}", volume.path()), command);
}

std::string ClearedTag(std::uint64_t bytes) { return fmt::format("{}{}", kLvmClearedTag, bytes); }

absl::Status Extend(const Lvm& lvm, const LvmVolume& volume, std::uint64_t bytes) {
  return lvm.Change(fmt::format("grow the logical volume {} to {}", volume.path(), SizeText(bytes)),
                    {"lvextend", "-y", "-L", fmt::format("{}b", bytes), volume.path()});
}

}  // namespace mooring

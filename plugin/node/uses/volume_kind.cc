#include "plugin/node/uses/volume_kind.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/backends/registry.h"
#include "plugin/model/fs_types.h"

namespace mooring {
namespace {

// ext4: metadata may reach the disk before the data that it leads to.
bool ShowsOldBlocks(const FilesystemOption& option) {
  return (option.key == "data" && option.value == "writeback") || option.key == "nobarrier" ||
         (option.key == "barrier" && option.value == "0");
}

}  // namespace

Staging StagingOf(const NodeVolume& volume) { return TraitsOf(volume.kind).staging; }

bool IsSizedHere(const NodeVolume& volume) {
  const BackendTraits& traits = TraitsOf(volume.kind);
  return traits.staging == Staging::kLoopDevice || (traits.staging == Staging::kBlockDevice && !traits.whole_devices);
}

bool ReusesSpace(const NodeVolume& volume) { return TraitsOf(volume.kind).reuses_space; }

bool IsClosed(const NodeVolume& volume) { return !volume.carrier.empty() && volume.device == 0; }

absl::Status CheckFlagsSuit(const NodeVolume& volume, const Capability& capability, std::string_view fs_type) {
  for (const FilesystemOption& option : capability.options.options) {
    if (ReusesSpace(volume) && ShowsOldBlocks(option)) {
      return InvalidArgument(
          "volume {}: mount flag {} is refused for the backend {}: after a crash, files would show what deleted "
          "volumes held",
          volume.id, Quote(ToString({option})), ToString(volume.kind));
    }
    if (fs_type.empty() || IsAllowed(fs_type, option)) continue;
    return InvalidArgument("volume {} has an {} filesystem, where mount flag {} is not allowed, or not with this value",
                           volume.id, fs_type, Quote(option.key));
  }
  return absl::OkStatus();
}

absl::Status CheckOwnerSuits(const NodeVolume& volume, const Capability& capability, std::string_view fs_type) {
  if (StagingOf(volume) != Staging::kBlockDevice || IsMadeHere(fs_type)) return absl::OkStatus();
  const bool has_owner = volume.tuning.making.root != NewRoot();
  if (!has_owner && !capability.mount_group) return absl::OkStatus();
  return FailedPrecondition("volume {} holds a {}, whose root directory stays as it is: ask for no {}", volume.id,
                            fs_type, has_owner ? "uid, gid or mode" : "volume_mount_group");
}

absl::Status CheckSuits(const NodeVolume& volume, const Capability& capability) {
  MOORING_RETURN_IF_ERROR(CheckMode(volume.id, volume.block_only, capability));
  const BackendTraits& traits = TraitsOf(volume.kind);
  const auto refuse = [&](const std::string& why) { return InvalidArgument("volume {}: {}", volume.id, why); };
  if (capability.access_type == AccessType::kBlock) {
    if (traits.block) return absl::OkStatus();
    return refuse(fmt::format("block access: a volume of the backend {} is no block device", ToString(volume.kind)));
  }
  if (!traits.fs_types.empty()) {
    return capability.fs_type.empty() ? CheckFlagsSuit(volume, capability, volume.fs_type) : absl::OkStatus();
  }
  if (!capability.fs_type.empty()) {
    return refuse(fmt::format("fs_type {}: the backend {} leaves no choice, name none", Quote(capability.fs_type),
                              ToString(volume.kind)));
  }
  if (capability.options.options.empty()) return absl::OkStatus();
  return refuse(
      fmt::format("mount flag {}: the backend {} accepts only flags of the mount, such as ro, noexec and noatime",
                  Quote(capability.options.options.front().key), ToString(volume.kind)));
}

// It has an inode for each page: empty files take kernel memory that the size does not limit.
std::vector<FilesystemOption> MemoryOptions(std::uint64_t bytes) {
  constexpr std::uint64_t kPage = 4096, kFewestInodes = 64;
  return {{"size", fmt::format("{}", bytes)}, {"nr_inodes", fmt::format("{}", std::max(bytes / kPage, kFewestInodes))}};
}

}  // namespace mooring

#include "base/status.h"
#include "mounter/image/image.h"
#include "plugin/backends/image/image_backend.h"

namespace mooring {
namespace {

absl::Status CompleteImagePool(PoolConfig& pool) {
  const bool lies_in_state_dir = pool.name == kDefaultPool;
  return pool.path.empty() && !lies_in_state_dir ? InvalidArgument("path is missing") : absl::OkStatus();
}

std::unique_ptr<Backend> MakeImageBackend(const PoolConfig&, const std::string& directory, const BackendParts& parts) {
  return std::make_unique<ImageBackend>(directory, parts.mounter, parts.mounter, parts.if_missing);
}

}  // namespace

const BackendType& ImageBackendType() {
  static const BackendType kType = {
      .traits = {.name = "image",
                 .staging = Staging::kLoopDevice,
                 .block = true,
                 .snapshots = true,
                 .clones = true,
                 .grows = true,
                 .enforces_size = true,
                 .keeps_data = true,
                 .tunes = true,
                 .fs_types = {"ext4", "xfs", "btrfs"}},
      .pool_keys = {"path", "overcommit"},
      .complete = CompleteImagePool,
      .owns_path = true,
      .check_host = [](const PoolConfig&) { return absl::OkStatus(); },
      .directory = [](const PoolConfig& pool, const std::string&) { return pool.path; },
      .entry_suffix = kImageSuffix,
      .make = MakeImageBackend,
      .allow = [](const PoolConfig& pool, PoolAccess& access) { access.image_directories.push_back(pool.path); }};
  return kType;
}

}  // namespace mooring

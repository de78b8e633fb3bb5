// Pools of devices: their keys, their directory of links, and the access that they need.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/device_links.h"
#include "plugin/backends/device/device_backend.h"

namespace mooring {
namespace {

constexpr char kLinksOfDevices[] = "/dev/disk/by-id";
constexpr char kMatch[] = "match";  // a pattern for the names of links, fnmatch(3)

// `match` has no default: all disks of the host would include the disk that the host runs from.
absl::Status CompleteDevicePool(PoolConfig& pool) {
  if (pool.path.empty()) pool.path = kLinksOfDevices;
  const auto match = pool.own_keys.find(kMatch);
  if (match == pool.own_keys.end()) return InvalidArgument("match is missing: say which devices the pool may take");
  if (!match->second.empty() && match->second.find('/') == std::string::npos) return absl::OkStatus();
  return InvalidArgument("match must be a pattern of names, without '/': glob(7)");
}

// A user who may write in the directory decides which devices become volumes. udev makes it with the first link.
absl::Status CheckLinks(const PoolConfig& pool, bool /*is_first_start*/) {
  struct stat status = {};
  if (::stat(pool.path.c_str(), &status) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "look at the links of devices in", pool.path);
  }
  const bool trusted = status.st_uid == 0 || status.st_uid == ::geteuid();
  if (S_ISDIR(status.st_mode) && trusted && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return absl::OkStatus();
  return FailedPrecondition(
      "pool {}: {} is no directory, or others may write in it: links to devices are root's to make", pool.name,
      Quote(pool.path));
}

std::unique_ptr<Backend> MakeDeviceBackend(const PoolConfig& pool, const std::string& directory,
                                           const BackendParts& parts) {
  auto disks = std::make_unique<SystemDisks>(pool.path, pool.own_keys.at(kMatch));
  return std::make_unique<DeviceBackend>(directory, std::move(disks), parts.mounter);
}

void AllowDevices(const PoolConfig& pool, PoolAccess& access) {
  access.link_directories.push_back(pool.path);
  access.device_links.push_back(LinksText(pool.path, pool.own_keys.at(kMatch)));
}

}  // namespace

const BackendType& DeviceBackendType() {
  static const BackendType kType = {
      .traits = {.name = "device",
                 .staging = Staging::kBlockDevice,
                 .block = true,
                 .enforces_size = true,
                 .fs_types = {"ext4", "xfs", "btrfs"},
                 .whole_devices = true},
      .pool_keys = {"path", kMatch},
      .complete = CompleteDevicePool,
      .check_host = CheckLinks,
      .directory = [](const PoolConfig& pool,
                      const std::string& state_dir) { return fmt::format("{}/devices/{}", state_dir, pool.name); },
      .make = MakeDeviceBackend,
      .allow = AllowDevices};
  return kType;
}

}  // namespace mooring

// Filesystems on unmounted devices and image files, and the growing of mounted ones.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"
#include "mounter/path/source_policy.h"
#include "mounter/superblock/ext4_super.h"

namespace mooring {

// The block device below a mounted filesystem, for several questions at once: its node is opened once, at the first
// one. Opening and closing a device, or a file of sysfs, costs more than all the answers. Not safe from several
// threads.
class MountedDevice {
 public:
  explicit MountedDevice(dev_t number) : number_(number) {}

  // The size of the device; 0: it is not known. Sysfs tells it where a container lacks the node.
  std::uint64_t Bytes();

  // The size of its ext4. 0: the device cannot be read.
  std::uint64_t Ext4Bytes();

  // Whether its ext4 can be made larger on a device of this size. True also if the device cannot be read.
  bool CanGrowExt4To(std::uint64_t device_bytes);

  // How many errors its mounted ext4 has met since it was last checked. Sysfs tells it where a container lacks the
  // node.
  std::uint64_t Ext4Errors();

 private:
  // From the superblock: the kernel keeps that of a mounted ext4 up to date in the device's page cache.
  const std::optional<Ext4Super>& ReadExt4();
  const UniqueFd& Node();

  dev_t number_;
  bool opened_ = false, read_ = false;
  std::string path_;
  UniqueFd node_;
  std::optional<std::uint64_t> bytes_;
  std::optional<Ext4Super> ext4_;
};

absl::StatusOr<FilesystemInfo> ProbeFilesystem(const std::string& path);
absl::Status FormatFilesystem(const FormatRequest& request);
absl::Status CheckFilesystem(const std::string& path, const std::string& fs_type);
absl::Status GrowUnmounted(const std::string& path, const std::string& fs_type, const SourcePolicy& policy);

// `root`: the open root directory of a writable mount; `bytes`: the size of its device.
absl::Status GrowMounted(const UniqueFd& root, const std::string& path, const std::string& fs_type,
                         std::uint64_t bytes);

// The usage of the filesystem that is mounted at `root`, with StatsInfo::unused_bytes. `device` is below it.
absl::StatusOr<StatsInfo> UsageOf(const UniqueFd& root, const std::string& path, MountedDevice& device);

// Describes the problem of a mounted filesystem, or is empty. `info` is one of its mounts, and `device` is below it.
absl::StatusOr<std::string> FindHealthProblem(const MountInfo& info, MountedDevice& device);

// The error of a failed growth. DATA_LOSS: the kernel met damage.
absl::Status GrowFailure(int error, std::string_view operation, const std::string& path);

}  // namespace mooring

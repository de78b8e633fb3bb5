// Filesystems on unmounted devices and image files, and the growing of mounted ones.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/filesystem/mounted_device.h"
#include "mounter/mounter.h"
#include "mounter/path/source_policy.h"

namespace mooring {

absl::StatusOr<FilesystemInfo> ProbeFilesystem(const std::string& path);
absl::Status FormatFilesystem(const FormatRequest& request);
absl::Status CheckFilesystem(const std::string& path, const std::string& fs_type);
absl::Status GrowUnmounted(const std::string& path, const std::string& fs_type, const SourcePolicy& policy);

// `root`: the open root directory of a writable mount; `bytes`: the size of its device.
absl::Status GrowMounted(const UniqueFd& root, const std::string& path, const std::string& fs_type,
                         std::uint64_t bytes);

// The usage of the filesystem that is mounted at `root`, with StatsInfo::unused_bytes. `device` is below it.
absl::StatusOr<StatsInfo> UsageOf(const UniqueFd& root, const std::string& path, MountedDevice& device);

absl::StatusOr<std::uint64_t> BlockDeviceBytes(dev_t device);  // from sysfs, nothing is opened

// Describes the problem of a mounted filesystem, or is empty. `info` is one of its mounts, and `device` is below it.
absl::StatusOr<std::string> FindHealthProblem(const MountInfo& info, MountedDevice& device);

// The error of a failed growth. DATA_LOSS: the kernel met damage.
absl::Status GrowFailure(int error, std::string_view operation, const std::string& path);

}  // namespace mooring

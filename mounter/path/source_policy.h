// Decides whether an opened source may be used. The check and the use share one descriptor, so exchanging the path
// before or after the check has no effect.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"
#include "mounter/path/target.h"

namespace mooring {

class SourcePolicy {
 public:
  virtual ~SourcePolicy() = default;

  // All take a descriptor, which may be O_PATH, and a path for the message. FAILED_PRECONDITION: refused.
  virtual absl::Status CheckBindSource(const UniqueFd& source, const std::string& path) const = 0;

  // The same for a source that this process has just inspected through the same descriptor: `info` is not the caller's.
  virtual absl::Status CheckInspectedSource(const UniqueFd& source, const std::string& path,
                                            const PathInfo& /*info*/) const {
    return CheckBindSource(source, path);
  }

  virtual absl::Status CheckBackingFile(const UniqueFd& file, const std::string& path) const = 0;
  virtual absl::Status CheckDirectory(const UniqueFd& directory,
                                      const std::string& path) const = 0;  // for new image files

  // After CheckBindSource: a new directory volume of an unprivileged plugin becomes root's before its first use.
  virtual absl::Status HandToTasks(const UniqueFd& /*source*/, const std::string& /*path*/) const {
    return absl::OkStatus();
  }

  // Whether the mount at `target`, which `info` describes, may be unmounted.
  virtual absl::Status CheckUnmount(const Target& /*target*/, const PathInfo& /*info*/) const {
    return absl::OkStatus();
  }

  // Whether all mounts of this block device belong to a volume. Then the device says which one. Before Linux 6.8
  // only the mount table tells MountInfo::root.
  virtual bool IsVolumeDevice(dev_t /*device*/) const { return false; }

  // The name of this open directory, if it is a directory volume. Empty: it is none. A mount of a directory volume has
  // it as its root.
  virtual std::string VolumeDirectoryName(const UniqueFd& /*directory*/) const { return ""; }

  // Like CheckBindSource, for a change that affects the whole filesystem of `mount`.
  virtual absl::Status CheckFilesystem(const UniqueFd& mount, const std::string& path) const = 0;
};

class EverySource final : public SourcePolicy {
 public:
  absl::Status CheckBindSource(const UniqueFd&, const std::string&) const override { return absl::OkStatus(); }
  absl::Status CheckBackingFile(const UniqueFd&, const std::string&) const override { return absl::OkStatus(); }
  absl::Status CheckDirectory(const UniqueFd&, const std::string&) const override { return absl::OkStatus(); }
  absl::Status CheckFilesystem(const UniqueFd&, const std::string&) const override { return absl::OkStatus(); }
};

inline const EverySource kEverySource{};

}  // namespace mooring

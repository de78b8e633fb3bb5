// Allows the sources that the helper was started with, and no others. mounter/guard/guarded_mounter.h has the table.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/file/unique_fd.h"
#include "mounter/path/source_policy.h"

namespace mooring {

// Finds directory volumes by their inode.
class VolumeDirectories {
 public:
  // The directories that have a directory volume in each of their entries.
  explicit VolumeDirectories(std::vector<std::string> pools) : pools_(std::move(pools)) {}

  const std::vector<std::string>& pools() const { return pools_; }

  // The name of the directory `place`, which may be O_PATH, in the pool where it lies now. Empty: it lies in none. An
  // error: some pool cannot be read, and no readable pool has it. The path of `place`, the name of a btrfs subvolume
  // and earlier answers only suggest a name, and the entry of that name decides. If no name fits, all names of the
  // pools on the same device are read: about 1 ms for each 2,000.
  absl::StatusOr<std::string> NameOf(const UniqueFd& place) const;

 private:
  struct Entry {
    std::string pool, name;
  };
  using Inode = std::pair<dev_t, ino_t>;

  absl::StatusOr<std::string> FindKnown(const Inode& inode) const;
  absl::StatusOr<std::string> FindByName(const Inode& inode, const std::string& name) const;
  absl::Status ReadNames(const Inode& inode) const;

  const std::vector<std::string> pools_;
  mutable absl::Mutex mutex_;
  mutable std::map<Inode, Entry> known_ ABSL_GUARDED_BY(mutex_);
};

// Marks a new directory volume of an unprivileged plugin by its mode. The plugin cannot give the directory to root, so
// the helper does that before the first use (HandToTasks). Such a mode lets nobody in, so no task has set it.
inline constexpr mode_t kNeverStaged = S_ISVTX;

class SourceGuard final : public SourcePolicy {
 public:
  // As in HelperPolicy. `label_prefix` is also the prefix of the source of a tmpfs.
  SourceGuard(std::vector<std::string> directories, std::string label_prefix,
              std::vector<std::string> volume_directories = {}, std::vector<std::string> device_links = {})
      : directories_(std::move(directories)),
        label_prefix_(std::move(label_prefix)),
        volume_directories_(std::move(volume_directories)),
        device_links_(std::move(device_links)) {}

  // Allows a loop device with our label, a device behind one of the links, and a directory volume. Allows the root of a
  // mount of these, and of a tmpfs with our label.
  absl::Status CheckBindSource(const UniqueFd& source, const std::string& path) const override;

  // A mounted loop device keeps its file, so it is not asked for its label again.
  absl::Status CheckInspectedSource(const UniqueFd& source, const std::string& path,
                                    const PathInfo& info) const override;

  // Gives a directory volume with the mode kNeverStaged to root, with mode 0755. After that its tasks choose owner and
  // mode.
  absl::Status HandToTasks(const UniqueFd& source, const std::string& path) const override;

  // Allows a regular file below a source directory, and a device as in CheckBindSource.
  absl::Status CheckBackingFile(const UniqueFd& file, const std::string& path) const override;

  // Allows a source directory, and directories below one.
  absl::Status CheckDirectory(const UniqueFd& directory, const std::string& path) const override;

  // Allows a mount as in CheckBindSource, and a mount that a task made inside such a mount. Allows a mount whose loop
  // device, disk or directory is gone. Allows every mount on a marked target (MarkTarget). Its volume
  // may be unknown by now, because its loop device was reused or its directory left the configuration.
  absl::Status CheckUnmount(const Target& target, const PathInfo& info) const override;

  // Whether it is a loop device with our label, or a device behind one of the links.
  bool IsVolumeDevice(dev_t device) const override { return IsOurDevice(device).value_or(false); }

  std::string VolumeDirectoryName(const UniqueFd& directory) const override {
    return volume_directories_.NameOf(directory).value_or("");
  }

  // Like CheckBindSource without directory volumes, which lie on a filesystem of the host.
  absl::Status CheckFilesystem(const UniqueFd& mount, const std::string& path) const override;

 private:
  absl::StatusOr<bool> IsOurDevice(dev_t device) const;
  absl::StatusOr<bool> IsOurMount(const UniqueFd& place, const struct statx& status, const std::string& path) const;
  bool IsOurs(const Target& target, const PathInfo& info) const;
  bool LiesInOurMount(const Target& target) const;
  bool IsNamedAsVolumeDirectory(const MountInfo& mount) const;

  const std::vector<std::string> directories_;
  const std::string label_prefix_;
  const VolumeDirectories volume_directories_;
  const std::vector<std::string> device_links_;
};

}  // namespace mooring

// The sources that the helper was started with, and no others; see mounter/guard/guarded_mounter.h for the table.
#ifndef MOORING_MOUNTER_GUARD_SOURCE_GUARD_H_
#define MOORING_MOUNTER_GUARD_SOURCE_GUARD_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/path/source_policy.h"

namespace mooring {

// The mode of a directory volume that a plugin made which is not root: it can change neither mode nor owner, and with
// these bits alone no task would leave its directory.
inline constexpr mode_t kNeverStaged = S_ISVTX;

class SourceGuard final : public SourcePolicy {
 public:
  // As in Allowance: directories of backing files, what the labels of our loop devices and the sources of our tmpfs
  // begin with, the directories whose subdirectories are volumes, and the links to devices that are.
  SourceGuard(std::vector<std::string> directories, std::string label_prefix,
              std::vector<std::string> volume_directories = {}, std::vector<std::string> device_links = {})
      : directories_(std::move(directories)),
        label_prefix_(std::move(label_prefix)),
        volume_directories_(std::move(volume_directories)),
        device_links_(std::move(device_links)) {}

  // A loop device of ours or a device behind one of the links, the root of a mount of one, of a tmpfs of ours, or of a
  // directory volume; or such a directory itself.
  absl::Status CheckBindSource(const UniqueFd& source, const std::string& path) const override;

  // A directory volume that is kNeverStaged becomes root's, 0755. Later it is its tasks' to give to whom they like,
  // with whatever mode.
  absl::Status MakeTasks(const UniqueFd& source, const std::string& path) const override;

  // A regular file below a directory of sources, or such a device.
  absl::Status CheckBackingFile(const UniqueFd& file, const std::string& path) const override;

  // A directory of sources, or one below.
  absl::Status CheckDirectory(const UniqueFd& directory, const std::string& path) const override;

  // A mount as in CheckBindSource; one that a task made inside of such a mount; one whose loop device, disk or
  // directory is gone; and every mount on a target that carries our mark (mounter/path/target_mark.h): a loop device's
  // number may be another file's by now, a directory taken out of the configuration.
  absl::Status CheckUnmount(const Target& target, const PathInfo& info) const override;

  // As CheckBindSource, without the directories: what they lie on is the host's.
  absl::Status CheckFilesystem(const UniqueFd& mount, const std::string& path) const override;

 private:
  absl::StatusOr<bool> IsOurDevice(dev_t device) const;
  absl::StatusOr<bool> IsOurMount(const UniqueFd& place, const struct statx& status, const std::string& path) const;
  bool IsOurs(const Target& target, const PathInfo& info) const;
  bool LiesInOurMount(const Target& target) const;
  bool IsVolumeDirectory(const UniqueFd& place, const struct statx& status) const;
  bool IsNamedAsVolumeDirectory(const MountInfo& mount) const;

  const std::vector<std::string> directories_;
  const std::string label_prefix_;
  const std::vector<std::string> volume_directories_;
  const std::vector<std::string> device_links_;
};

}  // namespace mooring

#endif  // MOORING_MOUNTER_GUARD_SOURCE_GUARD_H_

// The Mounter that does it, in this process, with this process's privileges and mount namespace.
//
//   mount_options  text -> typed options          target       path -> open parent + name, stat, unmount
//   device_mount   a filesystem, or                mount_table  statmount, or libmount's table
//   bind_mount     a copy, as a new_mount          loop_device  LOOP_CONFIGURE and back
//   attach         the target and its lock         command      runs the few programs
//   filesystem_*   libblkid, mkfs, e2fsck, grow
//
// Mounts are built where nobody sees them and attached when they are complete: there is no moment at which a mount
// stands without its flags, and a failure before the last step leaves nothing to undo. libmount 2.38 cannot do that, so
// it serves the table look-ups of kernels without statmount(2), and the kernel is asked directly for the rest.
//
// Where the kernel, or a seccomp profile, lacks statmount(2), the mount table is read, which is slower: mount_table.h.
#ifndef MOORING_MOUNTER_KERNEL_KERNEL_MOUNTER_H_
#define MOORING_MOUNTER_KERNEL_KERNEL_MOUNTER_H_

#include <string>
#include <utility>
#include <vector>

#include "mounter/mounter.h"
#include "mounter/path/source_policy.h"
#include "mounter/path/target_policy.h"

namespace mooring {

class KernelMounter final : public Mounter {
 public:
  // Nothing is mounted or unmounted outside `roots`: normalised paths; "/" for everything. Looking and growing is not
  // held to them: devices, images and what the host has mounted lie elsewhere. `sources` is asked of what Bind, Mount,
  // AttachLoop and Grow open, `targets` of what Mount, Bind and Unmount are to change; both outlive this.
  explicit KernelMounter(std::vector<std::string> roots = {"/"}, const SourcePolicy& sources = kEverySource,
                         const TargetPolicy& targets = kEveryTarget)
      : roots_(std::move(roots)), sources_(sources), targets_(targets) {}

  absl::Status Mount(const MountRequest& request) override;
  absl::Status Bind(const BindRequest& request) override;
  absl::Status Change(const ChangeRequest& request) override;
  absl::Status Unmount(const UnmountRequest& request) override;
  absl::StatusOr<PathInfo> Find(const std::string& path) override;
  absl::StatusOr<std::vector<MountInfo>> List(const std::string& path) override;
  absl::StatusOr<StatsInfo> Stats(const std::string& path) override;

  absl::StatusOr<LoopInfo> AttachLoop(const AttachLoopRequest& request) override;
  absl::Status DetachLoop(const LoopInfo& loop) override;
  absl::Status ResizeLoop(const LoopInfo& loop) override;
  absl::Status TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) override;
  absl::StatusOr<std::vector<LoopInfo>> FindLoops(const std::string& backing_file) override;

  absl::StatusOr<FilesystemInfo> Probe(const std::string& path) override;
  absl::Status Format(const std::string& path, const std::string& fs_type) override;
  absl::Status Check(const std::string& path, const std::string& fs_type) override;
  absl::Status Grow(const std::string& path, const std::string& fs_type) override;
  absl::StatusOr<std::string> Ailment(const std::string& mount_path) override;

  absl::Status Copy(const std::vector<ImageCopy>& copies) override;
  absl::Status Thaw(const std::string& image) override;
  absl::Status RemoveTree(const std::string& directory) override;
  absl::Status CheckNeeds(const Needs& needs) override;

 private:
  std::vector<std::string> roots_;
  const SourcePolicy& sources_;
  const TargetPolicy& targets_;
};

}  // namespace mooring

#endif  // MOORING_MOUNTER_KERNEL_KERNEL_MOUNTER_H_

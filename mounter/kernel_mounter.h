// The Mounter that does it, in this process, with this process's privileges and mount namespace.
//
//   mount_options  text -> typed options          target       path -> open parent + name, stat, unmount
//   device_mount   fsopen … move_mount            mount_table  statmount, or libmount's table
//   bind_mount     open_tree … move_mount         loop_device  LOOP_CONFIGURE and back
//   filesystem_*   libblkid, mkfs, e2fsck, grow   command      runs the few programs
//
// Mounts are built detached and attached when they are complete: there is no moment at which a mount stands without its
// flags, and a failure before the last step leaves nothing to undo. libmount 2.38 cannot do that (it uses mount(2)), so
// it serves the table look-ups of kernels without statmount(2), and the kernel is asked directly for the rest.
#ifndef MOORING_MOUNTER_KERNEL_MOUNTER_H_
#define MOORING_MOUNTER_KERNEL_MOUNTER_H_

#include <string>
#include <utility>
#include <vector>

#include "mounter/mounter.h"
#include "mounter/source_policy.h"

namespace mooring {

class KernelMounter final : public Mounter {
 public:
  // Nothing is mounted or unmounted outside `roots`. Normalised paths; "/" for everything. `sources` is asked of what
  // Bind, Mount, AttachLoop and Grow open, and outlives this.
  explicit KernelMounter(std::vector<std::string> roots = {"/"}, const SourcePolicy& sources = kEverySource)
      : roots_(std::move(roots)), sources_(sources) {}

  absl::Status Mount(const MountRequest& request) override;
  absl::Status Bind(const BindRequest& request) override;
  absl::Status Unmount(const UnmountRequest& request) override;
  absl::StatusOr<PathInfo> Find(const std::string& path) override;
  absl::StatusOr<std::vector<MountInfo>> List(const std::string& path) override;
  absl::StatusOr<StatsInfo> Stats(const std::string& path) override;

  absl::StatusOr<LoopInfo> AttachLoop(const AttachLoopRequest& request) override;
  absl::Status DetachLoop(const LoopInfo& loop) override;
  absl::Status ResizeLoop(const LoopInfo& loop) override;
  absl::StatusOr<std::vector<LoopInfo>> FindLoops(const std::string& backing_file) override;

  absl::StatusOr<FilesystemInfo> Probe(const std::string& path) override;
  absl::Status Format(const std::string& path, const std::string& fs_type) override;
  absl::Status Check(const std::string& path, const std::string& fs_type) override;
  absl::Status Grow(const std::string& path, const std::string& fs_type) override;
  absl::StatusOr<std::string> Ailment(const std::string& mount_path) override;

 private:
  std::vector<std::string> roots_;
  const SourcePolicy& sources_;
};

}  // namespace mooring

#endif  // MOORING_MOUNTER_KERNEL_MOUNTER_H_

// A Mounter that does what it was started for and no more: the helper trusts nothing that the plugin says.
//
//   target        below a root, in no directory of the system's
//                 or the plugin's own: by its path here, and by
//                 what it is once it is open (target_guard.h)
//   source        a backing file below a directory of sources; a loop device, or a mount of one, that carries our
//                 label; a device behind one of the links that it was started with, or a mount of one; a subdirectory
//                 of a directory of volumes, or a mount of one; a tmpfs with our label
//   filesystem    ext4, xfs, btrfs: of others the kernel's code is not tried on what a plugin wrote, and some have no
//                 source; and tmpfs with our label and a size, as large as it may be
//   unmounting    mounts of such sources, and what lies in them (source_guard.h)
//   removing      what lies directly below a directory of volumes; empty targets of mounts (target_mark.h)
//   loop device   one that carries our label
//   looking       Find, List, Stats, Ailment, FindLoops: everywhere
//
// What is refused is logged once for each reason, and FAILED_PRECONDITION.
#ifndef MOORING_MOUNTER_GUARD_GUARDED_MOUNTER_H_
#define MOORING_MOUNTER_GUARD_GUARDED_MOUNTER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mounter/mounter.h"

namespace mooring {

struct Allowance {
  std::vector<std::string> roots;    // of targets; normalised, or "/"
  std::vector<std::string> sources;  // directories of backing files; normalised and real
  std::string label_prefix;          // of loop devices: "mooring" allows "mooring:vol-1"

  // No target is one of these or lies below: normalised and real. What the plugin may open must not become a mount.
  std::vector<std::string> forbidden = {};
  std::vector<std::string> kept_free = {};  // no target is one of these; it may lie below

  std::vector<std::string> volume_directories = {};  // what is directly below is a volume; normalised and real
  std::vector<std::string> device_links = {};        // mounter/path/device_links.h: what is behind them is a volume
  std::uint64_t most_memory = 0;                     // bytes of a tmpfs; 0: none may be mounted
};

// With the system's: for mounter/guard/target_guard.h.
std::vector<std::string> ForbiddenTrees(const Allowance& allowance);

class GuardedMounter final : public Mounter {
 public:
  // Who looks whether the source of a bind is one: this, by its path, which may be swapped before it is opened; or the
  // mounter, once it is open (mounter/guard/source_guard.h).
  enum class Sources { kCheckedByPath, kCheckedByMounter };

  // `mounter` outlives it.
  GuardedMounter(Allowance allowance, Mounter& mounter, Sources sources = Sources::kCheckedByPath)
      : allowance_(std::move(allowance)), mounter_(mounter), sources_(sources) {}

  absl::Status Mount(const MountRequest& request) override;
  absl::Status Bind(const BindRequest& request) override;
  absl::Status Change(const ChangeRequest& request) override;
  absl::Status Unmount(const UnmountRequest& request) override;
  absl::StatusOr<PathInfo> Find(const std::string& path) override { return mounter_.Find(path); }
  absl::StatusOr<std::vector<MountInfo>> List(const std::string& path) override { return mounter_.List(path); }
  absl::StatusOr<StatsInfo> Stats(const std::string& path) override { return mounter_.Stats(path); }

  absl::StatusOr<LoopInfo> AttachLoop(const AttachLoopRequest& request) override;
  absl::Status DetachLoop(const LoopInfo& loop) override;
  absl::Status ResizeLoop(const LoopInfo& loop) override;
  absl::Status TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) override;
  absl::StatusOr<std::vector<LoopInfo>> FindLoops(const std::string& backing_file) override {
    return mounter_.FindLoops(backing_file);
  }

  absl::StatusOr<FilesystemInfo> Probe(const std::string& path) override;
  absl::Status Format(const std::string& path, const std::string& fs_type) override;
  absl::Status Check(const std::string& path, const std::string& fs_type) override;
  absl::Status Grow(const std::string& path, const std::string& fs_type) override;
  absl::StatusOr<std::string> Ailment(const std::string& mount_path) override { return mounter_.Ailment(mount_path); }

  absl::Status Copy(const std::vector<ImageCopy>& copies) override;
  absl::Status Thaw(const std::string& image) override;
  absl::Status RemoveTree(const std::string& directory) override;
  absl::Status CheckNeeds(const Needs& needs) override { return mounter_.CheckNeeds(needs); }

 private:
  absl::Status CheckTarget(const std::string& path) const;
  absl::Status CheckBackingFile(const std::string& path) const;
  absl::Status CheckLabel(const std::string& label) const;
  absl::Status CheckOurs(const std::string& path) const;       // a loop device of ours, a mount of one, or a tmpfs
  absl::StatusOr<bool> IsAsFound(const LoopInfo& loop) const;  // false: not attached, or to another file
  absl::Status CheckBindSource(const std::string& path) const;
  absl::Status CheckMemory(const MountRequest& request) const;
  absl::Status CheckMemorySize(const std::vector<FilesystemOption>& options) const;
  bool IsVolumeDirectory(const std::string& path) const;
  bool IsVolumeDevice(const PathInfo& info) const;

  const Allowance allowance_;
  Mounter& mounter_;
  const Sources sources_;
};

}  // namespace mooring

#endif  // MOORING_MOUNTER_GUARD_GUARDED_MOUNTER_H_

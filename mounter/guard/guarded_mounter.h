// A Mounter that does only what its policy allows, because the mount helper does not trust the plugin.
//
//   target        lies below a mount root, and not in a directory of the system or of the plugin. Checked by path
//                 here, and by identity after it was opened (target_guard.h)
//   source        a backing file below a source directory; a loop device with our label, or a mount of one; a device
//                 behind one of the device links, or a mount of one; a subdirectory of a volume directory, or a mount
//                 of one; a tmpfs with our label
//   filesystem    ext4, xfs, btrfs: a plugin cannot try other kernel code on a crafted image. A tmpfs needs our
//                 label and a size up to the limit
//   unmounting    mounts of such sources, and mounts inside them (source_guard.h)
//   removing      subdirectories of a volume directory; empty targets of mounts (target_mark.h)
//   loop device   has our label
//   reading       Find, List, Stats, HealthProblem, FindLoops: everything
//
// A refusal is FAILED_PRECONDITION. Each reason is logged once.
#ifndef MOORING_MOUNTER_GUARD_GUARDED_MOUNTER_H_
#define MOORING_MOUNTER_GUARD_GUARDED_MOUNTER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mounter/mounter.h"

namespace mooring {

// The limits of a mount helper, fixed when it starts. Paths are normalised and without symbolic links.
struct HelperPolicy {
  std::vector<std::string> roots;    // targets lie below one of these; "/" allows every path
  std::vector<std::string> sources;  // backing files lie below one of these
  std::string label_prefix;          // of loop devices: "mooring" allows "mooring:vol-1"

  // No target is one of these or lies below. A mount there would redirect files that the plugin opens.
  std::vector<std::string> forbidden_trees = {};
  std::vector<std::string> forbidden_places = {};  // no target is one of these; it may lie below

  std::vector<std::string> volume_directories = {};  // each subdirectory of one of these is a volume
  std::vector<std::string> device_links = {};        // a device behind one is a volume: mounter/path/device_links.h
  std::uint64_t most_memory = 0;                     // largest tmpfs, in bytes; 0: no tmpfs
};

// The forbidden trees of the policy, its sources and volume directories, and the directories of the system.
std::vector<std::string> ForbiddenTrees(const HelperPolicy& policy);

class GuardedMounter final : public Mounter {
 public:
  // Decides where the source of a bind is checked: in this class, by its path, which may be exchanged before it is
  // opened; or in `mounter`, after it was opened (mounter/guard/source_guard.h).
  enum class Sources { kCheckedByPath, kCheckedByMounter };

  // `mounter` outlives this object.
  GuardedMounter(HelperPolicy policy, Mounter& mounter, Sources sources = Sources::kCheckedByPath)
      : policy_(std::move(policy)), mounter_(mounter), sources_(sources) {}

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
  absl::StatusOr<std::string> HealthProblem(const std::string& mount_path) override {
    return mounter_.HealthProblem(mount_path);
  }

  absl::Status Copy(const std::vector<ImageCopy>& copies) override;
  absl::Status Thaw(const std::string& image) override;
  absl::Status RemoveTree(const std::string& directory) override;
  absl::Status CheckNeeds(const Needs& needs) override { return mounter_.CheckNeeds(needs); }

 private:
  absl::Status CheckTarget(const std::string& path) const;
  absl::Status CheckBackingFile(const std::string& path) const;
  absl::Status CheckLabel(const std::string& label) const;
  absl::Status CheckOurs(const std::string& path) const;  // a loop device with our label, a mount of one, or a tmpfs
  absl::StatusOr<bool> IsAsFound(const LoopInfo& loop) const;  // false: not attached, or to another file
  absl::Status CheckBindSource(const std::string& path) const;
  absl::Status CheckMemory(const MountRequest& request) const;
  absl::Status CheckMemorySize(const std::vector<FilesystemOption>& options) const;
  bool IsVolumeDirectory(const std::string& path) const;
  bool IsVolumeDevice(const PathInfo& info) const;

  const HelperPolicy policy_;
  Mounter& mounter_;
  const Sources sources_;
};

}  // namespace mooring

#endif  // MOORING_MOUNTER_GUARD_GUARDED_MOUNTER_H_

// A Mounter that refuses names, options and paths outside of its policy, because the mount helper does not trust the
// plugin. A path may be exchanged before it is opened, so the KernelMounter below has to check the opened files with
// a SourceGuard and a TargetGuard. Probe, Format and Check are checked by path alone (docs/security.md).
//
//   target        lies below a mount root, and not in a directory of the system or of the plugin. Checked by path
//                 here, also against directories that do not exist yet, and by identity after it was opened
//                 (target_guard.h)
//   source        of a bind: a loop device with our label, or a mount of one; a device behind one of the device links,
//                 or a mount of one; a subdirectory of a volume directory, or a mount of one; a tmpfs with our label.
//                 Checked after it was opened (source_guard.h)
//   backing file  a file below a source directory, a device behind one of the device links, or a loop device with our
//                 label. Checked by path here,
//                 because opening a foreign device can have effects, and after it was opened (source_guard.h)
//   filesystem    ext4, xfs, btrfs: a plugin cannot try other kernel code on a crafted image. On a device that is not
//                 our loop device, those of the policy as well, without options, if they are on one device
//                 (mounter/other_filesystems.h). A tmpfs needs our label and a size up to the limit. An export of an
//                 NFS server has to be one of the policy, with its options and its target; only the address of the
//                 server is free
//   mapped ids    from 65536 on: the lower ones are users of the host (mounter/id_mappings.h)
//   unmounting    mounts of such sources, and mounts inside them (source_guard.h)
//   subvolumes    directly below a pool of subvolumes
//   limits        of directories directly below a pool of sized directories
//   lvm           changes only in its pools, and of volumes that have Mooring's tag (mounter/logical_volumes.h). Their
//                 devices are known by their names alone
//   removing      subdirectories of a volume directory; empty targets of mounts (IsMarkedTarget)
//   loop device   has our label
//   reading       Find, List, Stats, HealthProblem, FindLoops: everything
//
// A refusal is FAILED_PRECONDITION. Each reason is logged once.
#pragma once

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
  std::vector<std::string> exports = {};             // ExportText of each export that may be mounted
  std::vector<std::string> fs_types = {};            // of devices, beside ext4, xfs and btrfs
  std::vector<std::string> subvolume_pools = {};     // each subvolume directly below one of these is a volume
  std::vector<std::string> sized_pools = {};         // each directory directly below one of these may get a limit
  std::vector<std::string> lvm_pools = {};           // "GROUP" or "GROUP/THINPOOL"
  std::vector<std::string> encrypted_pools = {};     // the images directly in one of these may be encrypted volumes
  std::uint64_t most_memory = 0;                     // largest tmpfs, in bytes; 0: no tmpfs
};

// Target, source and options of a mount of an export, without the address of the server.
std::string ExportText(const MountRequest& request);

// The forbidden trees of the policy, its sources and volume directories, and the directories of the system.
std::vector<std::string> ForbiddenTrees(const HelperPolicy& policy);

class GuardedMounter final : public Mounter {
 public:
  // `mounter` outlives this object. It has to check what it opens, with a SourceGuard and a TargetGuard.
  GuardedMounter(HelperPolicy policy, Mounter& mounter) : policy_(std::move(policy)), mounter_(mounter) {}

  absl::Status Mount(const MountRequest& request) override;
  absl::Status Bind(const BindRequest& request) override;
  absl::Status Change(const ChangeRequest& request) override;
  absl::Status Unmount(const UnmountRequest& request) override;
  absl::StatusOr<PathInfo> Find(const std::string& path) override { return mounter_.Find(path); }
  absl::StatusOr<std::vector<ListedMount>> List(const std::string& path) override { return mounter_.List(path); }
  absl::StatusOr<StatsInfo> Stats(const std::string& path) override { return mounter_.Stats(path); }

  absl::StatusOr<LoopInfo> AttachLoop(const AttachLoopRequest& request) override;
  absl::Status HoldLoop(const LoopInfo& loop) override;
  absl::Status DetachLoop(const LoopInfo& loop) override;
  absl::Status Flush(const std::string& device) override;
  absl::Status HoldDevice(const std::string& device) override;
  absl::Status ReleaseDevice(const std::string& device) override;
  absl::Status ResizeLoop(const LoopInfo& loop) override;
  absl::Status TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) override;
  absl::StatusOr<std::vector<LoopInfo>> FindLoops(const std::string& backing_file) override {
    return mounter_.FindLoops(backing_file);
  }

  absl::StatusOr<FilesystemInfo> Probe(const std::string& path) override;
  absl::Status Format(const FormatRequest& request) override;
  absl::Status Check(const std::string& path, const std::string& fs_type) override;
  absl::Status Grow(const std::string& path, const std::string& fs_type) override;
  absl::StatusOr<bool> IsInUse(const std::string& device) override;
  absl::StatusOr<std::string> HealthProblem(const std::string& mount_path) override {
    return mounter_.HealthProblem(mount_path);
  }

  absl::Status Copy(const std::vector<ImageCopy>& copies) override;
  absl::Status Thaw(const std::string& image) override;
  absl::Status CopyTree(const std::string& source, const std::string& destination) override;
  absl::Status RemoveTree(const std::string& directory) override;
  absl::Status LimitDirectory(const std::string& directory, std::uint64_t bytes) override;
  absl::Status PrepareSubvolumes(const std::string& pool) override;
  absl::Status MakeSubvolumes(const std::vector<NewSubvolume>& subvolumes) override;
  absl::Status LimitSubvolume(const std::string& path, std::uint64_t bytes) override;
  absl::Status RemoveSubvolume(const std::string& path) override;
  absl::StatusOr<LvmReport> ReportLvm(const std::string& pool) override;
  absl::Status MakeLogicalVolume(const NewLogicalVolume& volume) override;
  absl::Status GrowLogicalVolume(const LogicalVolumeName& volume, std::uint64_t bytes) override;
  absl::Status ActivateLogicalVolume(const LogicalVolumeName& volume) override;
  absl::Status RemoveLogicalVolume(const LogicalVolumeName& volume) override;
  absl::Status NoteRawLogicalVolume(const LogicalVolumeName& volume) override;
  absl::Status MakeEncrypted(const NewEncryptedVolume& volume) override;
  absl::StatusOr<EncryptedState> ReportEncrypted(const EncryptedVolume& volume) override;
  absl::StatusOr<EncryptedState> OpenEncrypted(const OpenRequest& request) override;
  absl::Status CloseEncrypted(const std::string& id) override;
  absl::Status ResizeEncrypted(const std::string& id) override;
  absl::Status NoteRawEncrypted(const EncryptedVolume& volume) override;
  absl::Status CheckNeeds(const Needs& needs) override { return mounter_.CheckNeeds(needs); }

  absl::StatusOr<bool> BindIf(const ConditionalBind& request) override;
  absl::StatusOr<bool> UnmountIf(const ConditionalUnmount& request) override;
  absl::StatusOr<Examination> Examine(const ExamineRequest& request) override { return mounter_.Examine(request); }

 private:
  absl::Status CheckTarget(const std::string& path) const;
  absl::Status CheckBackingFile(const std::string& path) const;
  absl::Status CheckLabel(const std::string& label) const;
  absl::Status CheckDevice(const std::string& node) const;                     // a volume, or a loop device of one
  absl::StatusOr<std::string> CheckedDevice(const std::string& device) const;  // its normalised path
  absl::StatusOr<bool> IsAsFound(const LoopInfo& loop) const;  // false: not attached, or to another file
  absl::Status CheckMountType(const MountRequest& request) const;
  absl::Status CheckMemory(const MountRequest& request) const;
  absl::Status CheckMemorySize(const std::vector<FilesystemOption>& options) const;
  absl::Status CheckExport(const MountRequest& request) const;
  bool IsVolumeDirectory(const std::string& path) const;
  absl::StatusOr<std::string> CheckVolume(const std::string& directory) const;  // its path, normalised
  absl::Status CheckSubvolume(const std::string& path) const;
  absl::Status CheckSubvolumePool(std::string_view pool) const;
  absl::Status CheckLvmPool(const std::string& pool) const;
  absl::Status CheckEncrypts() const;
  absl::Status CheckCarrier(const EncryptedVolume& volume) const;
  absl::StatusOr<bool> IsVolumeDevice(const PathInfo& info) const;

  const HelperPolicy policy_;
  Mounter& mounter_;
};

}  // namespace mooring

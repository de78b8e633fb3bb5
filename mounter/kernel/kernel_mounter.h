// The Mounter that acts in this process, with its privileges and its mount namespace. It checks a request, resolves its
// paths to descriptors, and calls the other folders of mounter/ (mounter/README.md).
//
// libmount makes a mount in the scratch of this process (mounter/mount/scratch.h), which nobody else uses. The mount is
// attached when it is complete. So no mount is ever visible at a target without its flags, and a failure before the
// last step leaves nothing there to undo. Unmounting is umount2(2): libmount 2.38.1 and 2.41 read the whole mount table
// for it, which takes 60 ms with 30,000 mounts.
//
// The kernel or a seccomp profile may lack statmount(2). Then Find asks in other ways for the mount of a block device
// that is a volume's (inspect.cc). For other mounts it reads the mount table, which takes
// longer with each mount of the host.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mounter/mounter.h"
#include "mounter/path/source_policy.h"
#include "mounter/path/target_policy.h"

namespace mooring {

class KernelMounter final : public Mounter {
 public:
  // Mounts and unmounts only below `roots`: normalised paths, or "/" for everything. Calls that read or grow may use
  // other paths, because devices, images and mounts of the host lie elsewhere. `sources` checks the files that Bind,
  // Mount, Change, Unmount, AttachLoop, Copy, Thaw and Grow open. `targets` checks the targets of Mount, Bind, Change
  // and Unmount. Both outlive this object.
  explicit KernelMounter(std::vector<std::string> roots = {"/"}, const SourcePolicy& sources = kEverySource,
                         const TargetPolicy& targets = kEveryTarget)
      : roots_(std::move(roots)), sources_(sources), targets_(targets) {}

  absl::Status Mount(const MountRequest& request) override;
  absl::Status Bind(const BindRequest& request) override;
  absl::Status Change(const ChangeRequest& request) override;
  absl::Status Unmount(const UnmountRequest& request) override;
  absl::StatusOr<PathInfo> Find(const std::string& path) override;
  absl::StatusOr<std::vector<ListedMount>> List(const std::string& path) override;
  absl::StatusOr<StatsInfo> Stats(const std::string& path) override;

  absl::StatusOr<LoopInfo> AttachLoop(const AttachLoopRequest& request) override;
  absl::Status HoldLoop(const LoopInfo& loop) override;
  absl::Status DetachLoop(const LoopInfo& loop) override;
  absl::Status Flush(const std::string& device) override;
  absl::Status HoldDevice(const std::string& device) override;
  absl::Status ReleaseDevice(const std::string& device) override;
  absl::Status ResizeLoop(const LoopInfo& loop) override;
  absl::Status TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) override;
  absl::StatusOr<std::vector<LoopInfo>> FindLoops(const std::string& backing_file) override;

  absl::StatusOr<FilesystemInfo> Probe(const std::string& path) override;
  absl::Status Format(const FormatRequest& request) override;
  absl::Status Check(const std::string& path, const std::string& fs_type) override;
  absl::Status Grow(const std::string& path, const std::string& fs_type) override;
  absl::StatusOr<bool> IsInUse(const std::string& device) override;
  absl::StatusOr<std::string> HealthProblem(const std::string& mount_path) override;

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
  absl::Status CheckNeeds(const Needs& needs) override;

  // Each resolves its paths once, and looks once.
  absl::StatusOr<bool> BindIf(const ConditionalBind& request) override;
  absl::StatusOr<bool> UnmountIf(const ConditionalUnmount& request) override;
  absl::StatusOr<Examination> Examine(const ExamineRequest& request) override;

 private:
  // `info` was found at `target`, whose policy allows it.
  absl::Status UnmountInspected(const Target& target, const PathInfo& info, bool was_mounted, bool remove) const;

  std::vector<std::string> roots_;
  const SourcePolicy& sources_;
  const TargetPolicy& targets_;
};

}  // namespace mooring

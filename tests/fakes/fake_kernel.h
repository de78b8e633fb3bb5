// A kernel in memory: paths, mounts, loop devices and the filesystems in image files. It behaves like Linux where the
// plugin could notice a difference. It is not thread-safe and injects no errors: FakeMounter adds both.
//
// It has no mount namespaces, and does not keep the content of directories that are mounted over. A path below a mount
// exists as soon as something is mounted there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mounter/mounter.h"

namespace mooring::testing {

struct FakeFilesystem {
  FilesystemInfo::Content content = FilesystemInfo::Content::kEmpty;
  std::string type;
  std::uint64_t size_bytes = 0;
  bool needs_check = false;
  std::string health_problem = {};
  bool whole = false;
};

struct FakeNode {
  PathInfo::Kind kind = PathInfo::Kind::kDirectory;
  std::uint64_t bytes = 0;
  ino_t inode = 0;
  FakeFilesystem filesystem;  // of an image file
  bool in_use = false;        // mounted in a mount namespace that the fake does not have
};

struct FakeLoop {
  LoopInfo info;
  std::uint64_t bytes = 0;  // as of the last look at the backing file
  std::uint64_t read_ahead_bytes = 0;
};

struct FakeMount {
  ListedMount info;
  bool is_device = false;                      // a bound device node; info.root names it
  bool busy = false;                           // a process has a file open there
  std::string failure;                         // its filesystem does not answer any more
  ino_t inode = 0;                             // of its root, where that is a directory that was bound
  std::vector<FilesystemOption> options = {};  // of a tmpfs
  std::string idmap = {};
};

// An open one has no device.
struct FakeEncrypted {
  std::string passphrase;
  EncryptedState state;
  bool is_open = false;
};

class FakeKernel {
 public:
  FakeKernel();

  // Changes by the test.
  void AddDirectory(const std::string& path);  // and its parents
  void AddFile(const std::string& path, std::uint64_t bytes);
  void AddBlockDevice(const std::string& path);
  void RemovePath(const std::string& path);
  void AddMount(ListedMount info);  // also on top of another mount
  void AddForeignMount(const std::string& target, const std::string& fs_type, std::uint64_t peer_group = 0,
                       std::uint64_t master = 0);
  void AddForeignLoop(const std::string& backing_file, const std::string& label, bool auto_clear = false);
  void EndHolds();                           // of the raw devices, so that these have no label
  void DropMounts(const std::string& path);  // umount -l behind the plugin's back, all layers
  void SetBusy(const std::string& path, bool busy);
  void SetFailure(const std::string& path, const std::string& failure);
  FakeNode& Node(const std::string& path) { return nodes_.at(path); }
  void Reboot();  // no mounts, no loop devices; the files stay

  std::map<std::string, LvmReport> lvm_pools;      // "GROUP" or "GROUP/THINPOOL"
  std::map<std::string, FakeEncrypted> encrypted;  // by the id of the volume or snapshot

  // State for the test.
  const std::vector<FakeMount>& mounts() const { return mounts_; }
  std::vector<FakeMount> MountsAt(const std::string& path) const;
  std::vector<LoopInfo> Loops() const;
  bool Exists(const std::string& path) const { return nodes_.contains(path); }
  std::string Describe() const;  // paths, mounts, loop devices, a line each; not what filesystems hold

  // The Mounter's calls.
  absl::Status Mount(const MountRequest& request);
  absl::Status Bind(const BindRequest& request);
  absl::Status Change(const ChangeRequest& request);
  absl::Status Unmount(const UnmountRequest& request);
  absl::StatusOr<PathInfo> Find(const std::string& path) const;
  std::vector<ListedMount> List(const std::string& path) const;
  absl::StatusOr<StatsInfo> Stats(const std::string& path);
  absl::StatusOr<LoopInfo> AttachLoop(const AttachLoopRequest& request);
  absl::Status HoldLoop(const LoopInfo& loop);
  absl::Status DetachLoop(const LoopInfo& loop);
  absl::Status ResizeLoop(const LoopInfo& loop);
  absl::Status TuneLoop(const LoopInfo& loop, const LoopTuning& tuning);
  absl::StatusOr<std::vector<LoopInfo>> FindLoops(const std::string& backing_file) const;
  absl::StatusOr<FilesystemInfo> Probe(const std::string& path);
  absl::Status Format(const std::string& path, const std::string& fs_type);
  absl::Status Check(const std::string& path, const std::string& fs_type);
  absl::Status Grow(const std::string& path, const std::string& fs_type);
  absl::StatusOr<std::string> HealthProblem(const std::string& mount_path);
  absl::Status Copy(const std::vector<ImageCopy>& copies);
  absl::Status RemoveTree(const std::string& directory);
  absl::StatusOr<LvmReport> ReportLvm(const std::string& pool) const;
  absl::Status MakeLogicalVolume(const NewLogicalVolume& volume);
  absl::Status GrowLogicalVolume(const LogicalVolumeName& volume, std::uint64_t bytes);
  absl::Status RemoveLogicalVolume(const LogicalVolumeName& volume);
  absl::Status NoteRawLogicalVolume(const LogicalVolumeName& volume);
  absl::Status MakeEncrypted(const NewEncryptedVolume& volume);
  absl::StatusOr<EncryptedState> ReportEncrypted(const EncryptedVolume& volume) const;
  absl::StatusOr<EncryptedState> OpenEncrypted(const OpenRequest& request);
  absl::Status CloseEncrypted(const std::string& id);
  absl::Status NoteRawEncrypted(const EncryptedVolume& volume);

 private:
  LogicalVolume* FindLogicalVolume(const LogicalVolumeName& volume);

  const FakeMount* TopMount(const std::string& path) const;
  const FakeMount* MountAround(const std::string& path) const;  // the innermost one that `path` lies on
  absl::Status CheckParents(const std::string& path) const;
  bool IsEmpty(const std::string& path) const;
  absl::Status CheckParentsForMount(const std::string& path) const;
  absl::Status CheckAttachPath(const std::string& path, TargetKind kind) const;
  void Make(const std::string& path, TargetKind kind);
  absl::Status Remove(const std::string& path);
  absl::Status MountMemory(const MountRequest& request);
  void SetPropagation(ListedMount& info, Propagation propagation);

  FakeLoop* LoopOf(dev_t device);
  std::optional<LoopInfo> LoopInfoOf(dev_t device) const;
  LoopInfo InfoOf(const FakeLoop& loop) const;
  FakeLoop* LoopAsFound(const LoopInfo& info);
  FakeLoop* LoopOver(const std::string& image);
  FakeLoop& NewLoop(const std::string& backing_file, const std::string& label, bool auto_clear, bool raw = false);
  std::uint64_t BytesOf(const FakeLoop& loop);
  bool HasUsers(const LoopInfo& loop) const;
  void DropUnusedLoops();
  absl::StatusOr<FakeNode*> ImageAt(const std::string& path);
  absl::StatusOr<FakeNode*> ImageBehind(dev_t device);

  std::map<std::string, FakeNode> nodes_;
  std::vector<FakeMount> mounts_;  // in the order they were made
  std::map<unsigned, FakeLoop> loops_;
  unsigned next_raw_ = 65536;  // used once, as by the mounter
  std::uint64_t next_mount_ = 1;
  std::uint64_t next_peer_group_ = 100;
  ino_t next_inode_ = 1000;
};

}  // namespace mooring::testing

// The interface of mounter/: mounts, loop devices, filesystems, image files, subvolumes, logical volumes, encryption,
// and checks of the host. There is one small interface for each, and Mounter combines them.
//
// Every argument and result can cross a socket: plain structs of strings, numbers and flags, without pointers, open
// files or callbacks. Paths are absolute and normalised (base/file/path.h), and belong to the mount namespace of the
// implementation. All calls may be made from several threads. A failed call undoes what it did.
//
// base/status.h maps errors to absl::Status. Unless a comment says otherwise:
//   NOT_FOUND            the path does not exist
//   FAILED_PRECONDITION  the path is of the wrong kind, or busy
//   INVALID_ARGUMENT     the request can never work
//
// Implementations: KernelMounter (mounter/kernel/kernel_mounter.h) acts in this process, HelperMounter
// (mounter/helper/helper_mounter.h) asks the mount helper, FakeMounter (tests/fakes) keeps everything in memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/encrypted_volumes.h"
#include "mounter/format_options.h"
#include "mounter/logical_volumes.h"
#include "mounter/mount_options.h"
#include "mounter/subvolumes.h"

namespace mooring {

// The propagation type of a new mount, mount_namespaces(7). It decides about mounts made below the new mount later: do
// they come in from other mount namespaces, and go out to them? It does not decide where the new mount itself is seen:
// the directory it is attached in does (docs/propagation.md).
//   kInherit: the kernel's choice. Below a shared mount the new mount is shared, else private. A copy of a shared mount
//     stays in its peer group even below a private mount.
//   kPrivate: mounts neither come in nor go out.
//   kSlave: mounts come in from its copies in other namespaces, or from a shared source. None go out. Without such
//     a copy or source the mount is private.
//   kShared: both directions.
enum class Propagation { kInherit, kPrivate, kSlave, kShared };

// Selects what is created for a missing target. Its parent directory has to exist.
enum class TargetKind { kDirectory, kFile };

// An attached loop device, loop(4).
struct LoopInfo {
  std::string device;        // "/dev/loop3"
  dev_t device_number = 0;   // of the loop device
  dev_t backing_device = 0;  // st_dev and st_ino identify the backing file
  ino_t backing_inode = 0;
  dev_t backing_rdev = 0;  // st_rdev if the backing file is a device node, else 0
  // The label given to AttachLoop or Mount, or losetup's file name. Empty for a raw device that is not held any more.
  std::string label;
  std::uint64_t offset = 0;      // first byte of the file that is used; 0 for devices attached by Mooring
  std::uint64_t size_limit = 0;  // bytes of the file that are used; 0: no limit, as for devices attached by Mooring
  bool read_only = false;
  bool auto_clear = false;  // the kernel detaches it after its last user; without a mount, at any moment
  bool mounted = false;     // an ext4, xfs or btrfs on it is mounted, in any mount namespace, or a volume is open on it
  bool raw = false;         // attached by AttachLoop: tasks get it, and change what they can

  // Whether `other`, which was found earlier, is this device. The number of a raw device is used once. Any other number
  // may belong to another file by now.
  bool IsSameDevice(const LoopInfo& other) const {
    if (device_number != other.device_number) return false;
    return raw || (backing_device == other.backing_device && backing_inode == other.backing_inode &&
                   backing_rdev == other.backing_rdev);
  }

  // The kernel detaches it within milliseconds, unless a process has it open. A raw device that is held stays.
  bool is_going() const { return auto_clear && !mounted && (!raw || label.empty()); }

  // Only in results of FindLoops: the server of the backing file does not answer. Then `label` is the path of that
  // file, and only the device and its number are known besides.
  bool hangs() const { return backing_inode == 0 && backing_rdev == 0; }
};

struct MountInfo {
  std::uint64_t id = 0;  // statmount(2)'s unique id; on kernels without one, mountinfo's
  std::string target;    // as seen from this process's root
  // The mounted part of the filesystem: "/" for all of it. Before Linux 6.8 Find leaves it empty if the device says
  // which volume this is (SourcePolicy::IsVolumeDevice). For a directory volume it is only the last name then
  // (SourcePolicy::VolumeDirectoryName).
  std::string root;
  std::string fs_type;      // "ext4", "devtmpfs"
  std::string source = {};  // as given to mount(2). Always set for tmpfs, else only if it costs no extra call
  dev_t device = 0;         // the block device below; without one, the superblock's number, as in st_dev
  MountFlags flags;         // of this mount alone
  bool superblock_read_only = false;
};

// A mount as the mount table has it. Only the table tells the propagation of a mount before Linux 6.8.
struct ListedMount : MountInfo {
  std::uint64_t peer_group = 0;  // 0: not shared
  std::uint64_t master = 0;      // the peer group from which it receives mounts; 0: it is no slave
  bool ids_mapped = false;       // it shows other owners than the filesystem has: BindRequest::idmap
  bool lazytime = false;         // of the superblock; not sent by the mount helper
  bool shared() const { return peer_group != 0; }
};

// The state of a path. The last component is never followed. A symbolic link on the way is FAILED_PRECONDITION.
struct PathInfo {
  enum class Kind { kMissing, kDirectory, kRegular, kBlockDevice, kSymlink, kOther };
  Kind kind = Kind::kMissing;
  bool empty = true;               // a directory without entries, or a file without bytes
  dev_t device = 0;                // st_dev, or the device of `mount`; st_rdev for a block device node
  ino_t inode = 0;                 // st_ino
  dev_t inode_device = 0;          // st_dev, which a btrfs has for each subvolume: their inodes are alike
  std::optional<MountInfo> mount;  // set if the path is the root of a mount
  std::optional<LoopInfo> loop;    // set if `device` is an attached loop device

  // Set if the mounted filesystem does not answer any more, because it was shut down or its server is dead: the
  // kernel's error text. Then `mount`, `device` and `loop` are known, and `kind` is assumed to be a directory.
  std::string failure;
};

// The first owner and mode of a volume's root directory; what is not set stays as it is. They are set while the
// directory is as it was made: empty, and root's with the mode 0755. So a user's own owner and mode stay.
//
// A directory with nothing but an untouched lost+found counts as empty, and loses it. Container engines copy an image's
// content only into an empty volume, and databases begin only there. e2fsck makes lost+found again when it needs it.
struct NewRoot {
  std::optional<uid_t> uid = std::nullopt;
  std::optional<gid_t> gid = std::nullopt;
  std::optional<mode_t> mode = std::nullopt;

  bool operator==(const NewRoot&) const = default;
};

// Mounts a block device, an image file or memory. The image gets a loop device, and the kernel detaches it after the
// last unmount. Memory has the fs_type "tmpfs" and the options size, nr_inodes, mode and huge.
struct MountRequest {
  std::string source;  // a block device or a regular file; for tmpfs a name, which MountInfo::source repeats
  std::string label;   // of the loop device, at most 63 bytes; ignored for a block device
  std::string fs_type;
  std::string target;  // a directory; created if it is missing
  MountFlags flags;
  std::vector<FilesystemOption> options;
  Propagation propagation = Propagation::kInherit;
  std::optional<gid_t> group;       // gets the root directory, group-writable and setgid: CSI 1.12, volume_mount_group
  std::optional<NewRoot> new_root;  // before `group`; none: the root directory stays as it is
  std::string idmap = {};           // for tasks in a user namespace: mounter/mount/id_map.h

  // A person at the command line asks. If the type has no table of options, `options` go to the kernel as they are.
  // Then a read-only mount also makes the filesystem read-only: else the kernel would write to it. The mount helper
  // gets neither this field nor the next ones.
  bool by_hand = false;
  bool may_run_program = false;   // of a type that the kernel does not know: mounter/mount/mount_program.h
  std::string subdirectory = {};  // relative: only this directory of the filesystem is mounted
};

struct BindRequest {
  std::string source;  // a directory, or a block device node
  std::string target;  // created if it is missing; else empty, or the source itself
  TargetKind target_kind = TargetKind::kDirectory;
  MountFlags flags;        // exactly these; mounts below the source keep theirs and get these in addition
  bool recursive = false;  // also binds the mounts below the source; `propagation` then applies to all of them
  Propagation propagation = Propagation::kInherit;
  std::optional<gid_t> group;  // as in MountRequest
  std::optional<NewRoot> new_root;
  std::string idmap = {};  // as in MountRequest
};

// Changes the topmost mount at a target.
struct ChangeRequest {
  std::string target;
  std::optional<MountFlags> flags = std::nullopt;   // replaces the flags of this mount alone
  Propagation propagation = Propagation::kInherit;  // of this mount alone; kInherit: it stays as it is
  std::vector<FilesystemOption> options = {};       // changes the filesystem, for all its mounts: the size of a tmpfs
};

struct UnmountRequest {
  std::string target;
  // Removes the target afterwards, even if nothing was mounted: rmdir(2) of an empty directory, unlink(2) of an empty
  // file. Nothing else is ever removed. The mount helper keeps an unmounted target that no helper ever mounted on
  // (mounter/path/target.h), and answers OK.
  bool remove_target = false;
};

struct Usage {
  std::uint64_t total = 0, used = 0, available = 0;  // in bytes, or in inodes
};

struct StatsInfo {
  Usage bytes;
  Usage inodes;                    // all 0 for a block device
  std::uint64_t unused_bytes = 0;  // of the device, behind the end of its ext4, xfs or btrfs; 0 if unknown
};

class Mounts {
 public:
  virtual ~Mounts() = default;

  // The mount appears in one step, with its flags. FAILED_PRECONDITION: something is mounted at the target already.
  virtual absl::Status Mount(const MountRequest& request) = 0;
  virtual absl::Status Bind(const BindRequest& request) = 0;

  // FAILED_PRECONDITION: nothing is mounted there. The kernel's error: the filesystem does not take an option while it
  // is mounted.
  virtual absl::Status Change(const ChangeRequest& request) = 0;

  // Unmounts the topmost mount at the target. OK if nothing is mounted, or nothing exists there. FAILED_PRECONDITION:
  // busy.
  virtual absl::Status Unmount(const UnmountRequest& request) = 0;

  virtual absl::StatusOr<PathInfo> Find(const std::string& path) = 0;

  // Lists the mounts at and below `path`, parents before children. The cost grows with the number of all mounts.
  virtual absl::StatusOr<std::vector<ListedMount>> List(const std::string& path) = 0;

  // Usage of the filesystem mounted at `path`, or of the block device at `path`.
  virtual absl::StatusOr<StatsInfo> Stats(const std::string& path) = 0;
};

struct AttachLoopRequest {
  std::string backing_file;  // a regular file, or a block device
  std::string label;         // at most 63 bytes
  bool read_only = false;
};

struct LoopTuning {                    // valid until the device is detached
  std::uint64_t read_ahead_bytes = 0;  // 0: the kernel's default for new devices
};

class LoopDevices {
 public:
  virtual ~LoopDevices() = default;

  // Attaches a raw device: the loop device of a block volume, which tasks get. A regular file never has a second one:
  // the call finds the device that is there, and holds it again (HoldLoop). Over a block device, each call attaches a
  // new one. The device stays until DetachLoop, whatever its tasks do, and its number is not used again
  // (mounter/loop/raw_device.h). FAILED_PRECONDITION: the file has a loop device of another kind.
  virtual absl::StatusOr<LoopInfo> AttachLoop(const AttachLoopRequest& request) = 0;

  // The next calls take a device as it was found, because its number may belong to another file by now.

  // Holds a raw device again, with `loop.label`, after its holders were ended. Undoes what a task can change about the
  // device: its offset, its size limit, and that it goes with its last user. ABORTED: it is not attached any more.
  virtual absl::Status HoldLoop(const LoopInfo& loop) = 0;

  // Writes the data that tasks wrote to the file, then detaches the device. A device that is open or mounted goes with
  // its last user. If the data cannot be written, the device stays attached. OK if it is not attached, or attached to
  // another file.
  virtual absl::Status DetachLoop(const LoopInfo& loop) = 0;

  // Writes the data that tasks wrote to a block device to its file or disk.
  virtual absl::Status Flush(const std::string& device) = 0;

  // Keeps a disk, logical volume or mapping open until ReleaseDevice. With its last user, the kernel would drop the
  // data that it could not write. Another program could remove the device, whose number is used again. OK if it is
  // held. A loop device is held by AttachLoop and HoldLoop.
  virtual absl::Status HoldDevice(const std::string& device) = 0;

  // Ends each hold of the device. OK if there is none. UNAVAILABLE: one does not end.
  virtual absl::Status ReleaseDevice(const std::string& device) = 0;

  // Adopts the size of the backing file. FAILED_PRECONDITION: not attached, or to another file.
  virtual absl::Status ResizeLoop(const LoopInfo& loop) = 0;

  // NOT_FOUND: not attached, or to another file. INVALID_ARGUMENT: the kernel refuses the value.
  virtual absl::Status TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) = 0;

  // Lists the loop devices over `backing_file`, compared by inode. An empty path lists all of this host.
  // DEADLINE_EXCEEDED: a device hangs that may be one of them, according to the file's name.
  virtual absl::StatusOr<std::vector<LoopInfo>> FindLoops(const std::string& backing_file) = 0;
};

struct FilesystemInfo {
  enum class Content {
    kEmpty,       // everything that was read is zero: see `whole`
    kFilesystem,  // `type` is set
    kForeign,     // something else; `type` is set if libblkid knows it
  };
  Content content = Content::kForeign;
  std::string type;                // "ext4", "xfs", "btrfs", "dos", …
  std::uint64_t size_bytes = 0;    // of the filesystem; 0 if unknown
  std::uint64_t device_bytes = 0;  // of the device or file
  // Set for an ext4 that was not unmounted cleanly, has recorded errors, or whose check or growth was interrupted. Then
  // only `type` is reliable until Check has succeeded.
  bool needs_check = false;
  bool whole = false;  // each byte was read, and not only the begin and the end of a large device
};

struct FormatRequest {
  std::string path;  // a block device or an image file
  std::string fs_type;
  FormatOptions options = {};
};

class Filesystems {
 public:
  virtual ~Filesystems() = default;

  // Identifies the content of a block device or image file. An unreadable one is an error, never "empty".
  virtual absl::StatusOr<FilesystemInfo> Probe(const std::string& path) = 0;

  // Formats a device or image that Probe finds empty. An image file is formatted under another name and then renamed,
  // so it is either empty or formatted, whenever the process ends. INVALID_ARGUMENT: unknown type, or an
  // option that the type does not have. FAILED_PRECONDITION with the package's name: mkfs is not installed.
  virtual absl::Status Format(const FormatRequest& request) = 0;

  // Undoes an interrupted check or growth, then repairs what is safe to repair (e2fsck -p). FAILED_PRECONDITION: errors
  // remain.
  virtual absl::Status Check(const std::string& path, const std::string& fs_type) = 0;

  // Grows a filesystem to the size of its device. `path` is its mount point, or an unmounted image file (ext4 only). If
  // the process or its resize2fs is killed, the image is usable again after a Check.
  virtual absl::Status Grow(const std::string& path, const std::string& fs_type) = 0;

  // Whether a block device has an exclusive user: a mount of any type in any mount namespace, swap, or a device on top.
  // Users of its partitions count, too, and those of the disk that it is a partition of. The call claims the device for
  // a moment, so no other call may mount it meanwhile.
  virtual absl::StatusOr<bool> IsInUse(const std::string& device) = 0;

  // The health of a mounted filesystem: empty if it is healthy, else a sentence that names the problem.
  virtual absl::StatusOr<std::string> HealthProblem(const std::string& mount_path) = 0;
};

struct ImageCopy {
  std::string source;       // an image file: mounted, in use as a block device, or unused
  std::string destination;  // does not exist yet; lies in the directory of its pool
  std::uint64_t bytes = 0;  // size of the copy: at least the source's size

  // If set, the copy's filesystem of this type gets a new UUID, so that both can be mounted at the same time. Empty:
  // the copy is identical.
  std::string renew_fs_type = {};
};

class Contents {
 public:
  virtual ~Contents() = default;

  // Makes all copies or none, all of the same instant. Mounted filesystems of the sources are frozen together,
  // fsfreeze(8), through whichever device they use, and never for longer than kLongestFreeze
  // (mounter/copy/copy_instant.h). A source in use as a block device is copied while nobody writes to it. Extents are
  // shared if the filesystem below can (FICLONE), else only data is copied, not holes.
  //
  // Each copy is written to <destination>.copying-<8 hex digits>, synced and renamed: a destination is whole or
  // missing, whenever the process ends. If the process is killed, some of several destinations may exist: the caller
  // removes them. If the process that guards the freeze (mounter/copy/freeze.h) is killed too, a filesystem may
  // stay frozen: the caller calls Thaw.
  //
  // NOT_FOUND: a source or a directory is missing.
  // ALREADY_EXISTS: a destination exists.
  // RESOURCE_EXHAUSTED: no room.
  // ABORTED: another call works on a source, or somebody else thawed it meanwhile.
  // FAILED_PRECONDITION: a block device is written to without a pause; a filesystem would be frozen for too long;
  //   a source is frozen already, or has hard links.
  // INVALID_ARGUMENT: a source is named twice, or `bytes` is less than its size.
  // UNAVAILABLE: a filesystem may still be frozen, so call Thaw. After any other answer none is frozen by this call.
  virtual absl::Status Copy(const std::vector<ImageCopy>& copies) = 0;

  // Thaws the mounted filesystems on this image, whoever froze them: for use after a Copy that was killed. OK if none
  // is frozen. ABORTED: a Copy is still running.
  virtual absl::Status Thaw(const std::string& image) = 0;

  // Copies what is in the directory of one volume to that of another, which is empty or made here. Keeps owners, modes,
  // times, links, holes, extended attributes, sockets and pipes. Extents are shared, or copied by the file server,
  // where the filesystem can. Crosses no mount and follows no link. All is synced. The caller sees that nobody uses the
  // source, because the copy could have a part of what is written meanwhile. After an error, or if the process is
  // killed, the caller removes the destination.
  //
  // NOT_FOUND: the source is missing. ALREADY_EXISTS: the destination is not empty. RESOURCE_EXHAUSTED: no room.
  // FAILED_PRECONDITION names a mount below the source, or what could not be copied, such as a device node.
  virtual absl::Status CopyTree(const std::string& source, const std::string& destination) = 0;

  // Removes the directory of a directory volume with its contents. Crosses no mount and follows no link. OK if it is
  // gone already. FAILED_PRECONDITION names a mount below it.
  virtual absl::Status RemoveTree(const std::string& directory) = 0;

  // Holds a directory, with everything in it, to this size (mounter/quota/project_quota.h). Its name has the random
  // digits of its volume. A name with kMakingEnd: it is new and empty. Any other may be in use, and gets back
  // what it has lost; a limit that is larger stays. RemoveTree takes the limit away. FAILED_PRECONDITION: the
  // filesystem enforces no limits. ABORTED: a new one needs another name, because its project is in use.
  virtual absl::Status LimitDirectory(const std::string& directory, std::uint64_t bytes) = 0;
};

// Requirements that only the host, or the configuration of the container, can meet.
struct Needs {
  bool loop_devices = false;
  std::vector<std::string> seen_outside = {};  // directories: mounts below them have to reach other mount namespaces
};

class Preflight {
 public:
  virtual ~Preflight() = default;

  // FAILED_PRECONDITION says what is missing and how to provide it. A directory that does not exist yet is ignored.
  virtual absl::Status CheckNeeds(const Needs& needs) = 0;
};

// The mount of a volume, for conditional calls. An identity of each kind of volume; one of them has to fit.
struct ExpectedMount {
  std::string label = {};      // of the loop device, or the source of a tmpfs
  std::string root_name = {};  // the last name of MountInfo::root, on a filesystem without a loop device
  ino_t root_inode = 0;        // of the directory with that name; 0: any
  dev_t root_device = 0;       // PathInfo::inode_device of it; 0: any
  dev_t device = 0;            // PathInfo::device; 0: none
};

// A bind whose source has to be a certain mount of a directory, and whose target may be no mount. The source may be
// read-only only if the bind is.
struct ConditionalBind {
  BindRequest bind;  // the flags of the source are added (Stricter, mounter/mount_flags.h)
  ExpectedMount source;
  std::string source_fs_type = {};  // empty: any
};

struct ConditionalUnmount {
  UnmountRequest unmount;
  ExpectedMount target;
};

struct ExamineRequest {
  std::string path;
  ExpectedMount expected;  // another mount is not measured: its server may hang
};

// The state of a path. If it is the expected mount and answers, also its usage and its health.
struct Examination {
  PathInfo info;
  bool measured = false;
  StatsInfo usage;      // all 0 if it could not be read, and there is a problem
  std::string problem;  // HealthProblem; empty for a block device
};

class Mounter : public Mounts,
                public LoopDevices,
                public Filesystems,
                public Contents,
                public Subvolumes,
                public LogicalVolumes,
                public EncryptedVolumes,
                public Preflight {
 public:
  // Some of the calls above as one, because each call to the mount helper takes a round trip. Their errors are those of
  // the single calls. DEADLINE_EXCEEDED: looking took longer than the deadline of the thread (base/deadline.h), and
  // nothing was changed. False: the condition is not met, and nothing was changed. UnmountIf: true as well if nothing
  // is mounted there.
  virtual absl::StatusOr<bool> BindIf(const ConditionalBind& request) = 0;
  virtual absl::StatusOr<bool> UnmountIf(const ConditionalUnmount& request) = 0;
  virtual absl::StatusOr<Examination> Examine(const ExamineRequest& request) = 0;
};

}  // namespace mooring

// What Mooring asks of the kernel: mounts, loop devices, filesystems, and what lies in files and directories that are
// not mounted. Five small interfaces, and Mounter, which is all of them.
//
// Everything that passes through here can cross a socket: plain structs of strings, numbers and flags; no pointer, no
// open file, no callback. Paths are absolute and normalised (base/file/path.h), in the mount namespace of the
// implementation. All calls are safe from several threads. Errors are absl::Status as base/status.h maps them:
// NOT_FOUND for a path that is not there, FAILED_PRECONDITION for a path that is not what it should be or busy,
// INVALID_ARGUMENT for a request that can never work. A call that fails leaves nothing mounted, attached or made that
// was not there before.
//
// Implementations: KernelMounter (mounter/kernel/kernel_mounter.h) does it in this process; FakeMounter (tests/fakes)
// remembers it.
#ifndef MOORING_MOUNTER_MOUNTER_H_
#define MOORING_MOUNTER_MOUNTER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mount_options.h"

namespace mooring {

// mount_namespaces(7), of the new mount in this namespace. It is itself seen in every namespace that shares or receives
// from the directory it is in; this is about what is mounted below it later (docs/propagation.md).
//   kInherit: what attaching gives: shared below a shared mount, else private; but a shared source stays in its peer
//     group below a private mount, too.
//   kPrivate: nothing comes in, nothing goes out.
//   kSlave: what is mounted below its copies in other namespaces, or below a shared source, comes in; nothing goes out.
//     Where there is neither, there is nobody to receive from, and the mount is private.
//   kShared: both ways.
enum class Propagation { kInherit, kPrivate, kSlave, kShared };

// What is made at a target that does not exist yet, in a parent directory that does.
enum class TargetKind { kDirectory, kFile };

// A loop device, loop(4), that is bound to a file.
struct LoopInfo {
  std::string device;        // "/dev/loop3"
  dev_t device_number = 0;   // its own
  dev_t backing_device = 0;  // st_dev and st_ino of the backing file: its identity
  ino_t backing_inode = 0;
  dev_t backing_rdev = 0;        // st_rdev where the backing file is itself a device node, else 0
  std::string label;             // lo_file_name: what AttachLoop was given, or losetup's file name
  std::uint64_t offset = 0;      // bytes of the file left out at the front and,
  std::uint64_t size_limit = 0;  // where not 0, the most that is used of it; both 0 for devices made here
  bool read_only = false;
  bool auto_clear = false;  // goes with its last user; where nobody mounted it, at any moment
  bool mounted = false;     // an ext4, xfs or btrfs is on it, in whatever mount namespace

  bool HasFileOf(const LoopInfo& other) const {
    return backing_device == other.backing_device && backing_inode == other.backing_inode &&
           backing_rdev == other.backing_rdev;
  }

  // Only where many are listed: what serves the backing file does not answer. Then `label` is the path of that file,
  // and nothing is known but the device and its number.
  bool hangs() const { return backing_inode == 0 && backing_rdev == 0; }
};

struct MountInfo {
  std::uint64_t id = 0;     // statmount(2)'s unique id, or mountinfo's where the kernel has no better
  std::string target;       // as seen from this process's root
  std::string root;         // what of the filesystem is mounted: "/" for all of it
  std::string fs_type;      // "ext4", "devtmpfs"
  std::string source = {};  // as it was given to mount(2); always of a tmpfs, of others where it costs nothing
  dev_t device = 0;         // the block device it is on; of others the superblock's, as st_dev shows it
  MountFlags flags;         // of this mount alone
  bool superblock_read_only = false;
  std::uint64_t peer_group = 0;  // 0: not shared
  std::uint64_t master = 0;      // the peer group it receives from; 0: no slave
  bool shared() const { return peer_group != 0; }
};

// What is at a path. The last component is never followed; a symbolic link on the way is FAILED_PRECONDITION.
struct PathInfo {
  enum class Kind { kMissing, kDirectory, kRegular, kBlockDevice, kSymlink, kOther };
  Kind kind = Kind::kMissing;
  bool empty = true;               // a directory without entries, or a file without bytes
  dev_t device = 0;                // st_dev, or that of `mount`; for a block device node st_rdev
  ino_t inode = 0;                 // st_ino
  std::optional<MountInfo> mount;  // of the mount whose root this path is
  std::optional<LoopInfo> loop;    // behind `device`, where that is a loop device in use

  // Of a mount whose filesystem answers nothing any more (it was shut down, its server is dead): why, in words. Then
  // `mount`, `device` and `loop` are known, and `kind` is taken to be a directory.
  std::string failure;
};

// A filesystem on a device, or on an image file through a loop device that goes with its last mount; or memory: with
// fs_type "tmpfs" and the options size, nr_inodes, mode and huge.
struct MountRequest {
  std::string source;  // a block device, or a regular file; of memory a name, by which MountInfo knows it
  std::string label;   // for the loop device, at most 63 bytes; ignored for a device
  std::string fs_type;
  std::string target;  // a directory; made where it is missing
  MountFlags flags;
  std::vector<FilesystemOption> options;
  Propagation propagation = Propagation::kInherit;
  std::optional<gid_t> group;  // owns the root, which becomes group-writable and setgid: VOLUME_MOUNT_GROUP
};

struct BindRequest {
  std::string source;  // a directory, or a block device node
  std::string target;  // made where it is missing; empty, or the source itself
  TargetKind target_kind = TargetKind::kDirectory;
  MountFlags flags;        // exactly these; the mounts below, if recursive, keep theirs and get these in addition
  bool recursive = false;  // with the mounts below the source; propagation, too, is then all of theirs
  Propagation propagation = Propagation::kInherit;
  std::optional<gid_t> group;  // as in MountRequest
};

// Of the topmost mount at a target that stands.
struct ChangeRequest {
  std::string target;
  std::optional<MountFlags> flags = std::nullopt;  // of this mount alone: exactly these from now on
  std::vector<FilesystemOption> options = {};      // of its filesystem, for all its mounts: tmpfs's size
};

struct UnmountRequest {
  std::string target;
  // Remove the target afterwards, mounted or not: rmdir(2) of an empty directory, unlink(2) of an empty file. Nothing
  // else is ever removed. The mount helper leaves a target on which nothing is mounted, and never was by a helper
  // (mounter/path/target_mark.h), and the answer is OK.
  bool remove_target = false;
};

struct Usage {
  std::uint64_t total = 0, used = 0, available = 0;  // bytes, or inodes
};

struct StatsInfo {
  Usage bytes;
  Usage inodes;                    // all 0 for a block device
  std::uint64_t unused_bytes = 0;  // of the device, behind the end of its ext4, xfs or btrfs; 0 where it cannot be told
};

class Mounts {
 public:
  virtual ~Mounts() = default;

  // Attaches the mount in one step, flags and all; FAILED_PRECONDITION where something is mounted at the target
  // already.
  virtual absl::Status Mount(const MountRequest& request) = 0;
  virtual absl::Status Bind(const BindRequest& request) = 0;

  // FAILED_PRECONDITION: nothing is mounted there. Options that the filesystem does not take while it is in use: the
  // kernel's words.
  virtual absl::Status Change(const ChangeRequest& request) = 0;

  // The topmost mount at the target. Nothing mounted there, or nothing there, is OK. Busy is FAILED_PRECONDITION.
  virtual absl::Status Unmount(const UnmountRequest& request) = 0;

  virtual absl::StatusOr<PathInfo> Find(const std::string& path) = 0;

  // The mounts at and below `path`, parents before children. Its cost grows with what is below, for "/" with all there
  // is.
  virtual absl::StatusOr<std::vector<MountInfo>> List(const std::string& path) = 0;

  // Of the filesystem mounted at `path`, or of the block device that `path` is.
  virtual absl::StatusOr<StatsInfo> Stats(const std::string& path) = 0;
};

struct AttachLoopRequest {
  std::string backing_file;  // a regular file, or a block device
  std::string label;         // at most 63 bytes
  bool read_only = false;
  bool held =
      false;  // open until DetachLoop, whatever becomes of this process: mounter/loop/device_holder.h. False ends it
};

// How a loop device is to work, for as long as it stands.
struct LoopTuning {
  std::uint64_t read_ahead_bytes = 0;  // what the kernel reads ahead of a reader; 0: as new devices have it
};

class LoopDevices {
 public:
  virtual ~LoopDevices() = default;

  // The loop device of a backing file, made where there is none: never a second one over the same inode, whichever
  // process made the first. Over a block device, on which others may stack theirs, it is the one with this label. It
  // stays until DetachLoop. FAILED_PRECONDITION where it is in use as a filesystem, or bound in another way (read-only,
  // offset, size limit).
  virtual absl::StatusOr<LoopInfo> AttachLoop(const AttachLoopRequest& request) = 0;

  // Both take a device as it was found: its number may have become another file's since.

  // Gone at once, or with its last user where it is open or mounted. Not attached, or to another file, is OK.
  virtual absl::Status DetachLoop(const LoopInfo& loop) = 0;

  // Takes the size of the backing file over. FAILED_PRECONDITION: not attached, or to another file.
  virtual absl::Status ResizeLoop(const LoopInfo& loop) = 0;

  // FAILED_PRECONDITION: not attached, or to another file. INVALID_ARGUMENT: the kernel does not take the value.
  virtual absl::Status TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) = 0;

  // The loop devices over `backing_file` (by inode; none: empty), or all of this host where that is empty. One that
  // hangs is DEADLINE_EXCEEDED where it may be one of them, by the file's name.
  virtual absl::StatusOr<std::vector<LoopInfo>> FindLoops(const std::string& backing_file) = 0;
};

struct FilesystemInfo {
  enum class Content {
    kEmpty,       // read in full where it matters, and nothing there: may be formatted
    kFilesystem,  // `type` is set
    kForeign,     // something else, named in `type` where libblkid knows it
  };
  Content content = Content::kForeign;
  std::string type;                // "ext4", "xfs", "btrfs", "dos", …
  std::uint64_t size_bytes = 0;    // of the filesystem, where known
  std::uint64_t device_bytes = 0;  // of the device or file
  // An ext4 that was not unmounted cleanly, has met errors, or whose check or growth was cut short: then nothing else
  // is known of it before Check.
  bool needs_check = false;
};

class Filesystems {
 public:
  virtual ~Filesystems() = default;

  // What a block device or image file holds. An unreadable one is an error, never "empty".
  virtual absl::StatusOr<FilesystemInfo> Probe(const std::string& path) = 0;

  // Only what Probe finds empty. An image file is formatted aside and swapped in whole: it is either empty or
  // formatted, whenever the process ends. Unknown types: INVALID_ARGUMENT. A missing mkfs: FAILED_PRECONDITION with the
  // package's name.
  virtual absl::Status Format(const std::string& path, const std::string& fs_type) = 0;

  // Repairs what can be repaired safely (e2fsck -p), after taking back what was cut short; FAILED_PRECONDITION
  // where errors remain.
  virtual absl::Status Check(const std::string& path, const std::string& fs_type) = 0;

  // Grows a filesystem to its device: `path` is where it is mounted, or an unmounted image file (ext4 only). Whenever
  // the process or its resize2fs ends, the image can be used again, after a Check.
  virtual absl::Status Grow(const std::string& path, const std::string& fs_type) = 0;

  // What a mounted filesystem says of its health: empty when well, else a sentence.
  virtual absl::StatusOr<std::string> Ailment(const std::string& mount_path) = 0;
};

// One image file that is to become the contents of another.
struct ImageCopy {
  std::string source;       // an image file: in use as a filesystem, as a block device, or not at all
  std::string destination;  // not there yet; in the directory of its pool
  std::uint64_t bytes = 0;  // what the copy is to have: the source's size or more

  // The filesystem that gets a new UUID, so that both can be mounted at a time; empty: every byte stays as it is.
  std::string renew_fs_type = {};
};

class Contents {
 public:
  virtual ~Contents() = default;

  // Copies all of one instant, all or none. Filesystems of theirs that are mounted are frozen together for it,
  // fsfreeze(8), by whichever device over the image, and never for longer than kLongestFreeze
  // (mounter/copy/copy_instant.h). A block device in use is copied in a pause of its writer. What the filesystem below
  // can share is shared (FICLONE), else only the data of the sources is copied, no hole. Each copy is populated under a
  // name of its own (<destination>.copying-<8 hex digits>), synced, and renamed: whenever the process ends, a
  // destination is whole or not there. Killed in between, some of several are there and others not: the caller removes
  // those. A filesystem may be left frozen where the guard (mounter/copy/thaw_guard.h) was killed, too: for Thaw.
  //
  // NOT_FOUND: no source, or no directory. ALREADY_EXISTS: a destination is there. RESOURCE_EXHAUSTED: no room.
  // ABORTED: a source is being worked on, or was thawed by somebody else meanwhile. FAILED_PRECONDITION: no copy is of
  // one instant, since a block device is written to without a pause; a filesystem would stand still for too long; a
  // source is frozen already, or has hard links. INVALID_ARGUMENT: one source twice; fewer bytes than it has.
  // UNAVAILABLE: it may have left some frozen, for Thaw; with any other answer nothing is frozen by it any more.
  virtual absl::Status Copy(const std::vector<ImageCopy>& copies) = 0;

  // For after a Copy that was killed: the filesystems on this image that are mounted and frozen, by whomever, go on.
  // Not frozen is OK. ABORTED: a Copy is under way still.
  virtual absl::Status Thaw(const std::string& image) = 0;

  // Removes what a directory volume holds, and the directory. Crosses no mount and follows no link: FAILED_PRECONDITION
  // names what is mounted below. Gone already is OK.
  virtual absl::Status RemoveTree(const std::string& directory) = 0;
};

// What the calls above need, and only the host, or whoever started the container, can give.
struct Needs {
  bool loop_devices = false;
  std::vector<std::string> seen_outside = {};  // what is mounted below these is for other mount namespaces, too
};

class Surroundings {
 public:
  virtual ~Surroundings() = default;

  // FAILED_PRECONDITION: what is missing, and what to do about it. A directory that is not there yet is not missed.
  virtual absl::Status CheckNeeds(const Needs& needs) = 0;
};

class Mounter : public Mounts, public LoopDevices, public Filesystems, public Contents, public Surroundings {};

}  // namespace mooring

#endif  // MOORING_MOUNTER_MOUNTER_H_

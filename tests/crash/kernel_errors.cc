#include "tests/crash/kernel_errors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>

namespace mooring::testing {
namespace {

struct Row {
  std::vector<std::string_view> calls;
  std::vector<int> errors;
};

// The manual pages of section 2, and ioctl_ficlone(2), loop(4). Filesystems also return EDQUOT, ENOMEM and EROFS where
// the page does not name them. ESTALE is an error of NFS.
const std::vector<Row>& Table() {
  static const std::vector<Row> table = {
      {{"write", "writev", "pwrite64", "pwritev", "pwritev2", "sendfile", "copy_file_range"},
       {ENOSPC, EIO, EDQUOT, EFBIG, ENOMEM, EINTR}},
      {{"fallocate", "ftruncate", "truncate"}, {ENOSPC, EDQUOT, EIO, EFBIG, EINTR, EPERM, EROFS}},
      {{"fsync", "fdatasync", "sync_file_range", "syncfs"}, {EIO, ENOSPC, EDQUOT, EROFS}},
      {{"close"}, {EIO, ENOSPC, EDQUOT, EINTR}},
      {{"openat", "open", "creat"}, {ENOSPC, EMFILE, EACCES, EROFS, EDQUOT, ENFILE, EIO, ENOMEM, EPERM, ESTALE}},
      {{kOpenExisting, "openat2"}, {EMFILE, EACCES, EIO, ENFILE, ENOMEM, EPERM, ESTALE}},
      {{"mkdirat", "mkdir", "mknodat", "mknod", "symlinkat", "symlink", "linkat", "link"},
       {ENOSPC, EROFS, EDQUOT, EACCES, EIO, EMLINK, ENOMEM, EPERM}},
      {{"renameat", "renameat2", "rename"}, {ENOSPC, EIO, EDQUOT, EROFS, EACCES, EBUSY, ENOMEM, EPERM}},
      {{"unlinkat", "unlink", "rmdir"}, {EIO, EBUSY, EROFS, EACCES, ENOMEM, EPERM, ENOSPC}},
      {{"fchown", "fchownat", "chown", "lchown", "fchmod", "fchmodat", "chmod"},
       {EPERM, EIO, EROFS, EDQUOT, ENOSPC, ENOMEM}},
      {{"setxattr", "fsetxattr"}, {ENOSPC, EDQUOT, EPERM, EIO, EROFS}},
      {{"fcntl lock", "flock"}, {ENOLCK, ENOMEM}},
      {{"umount2"}, {EBUSY, ENOMEM, EPERM}},
      {{"mount", "move_mount"}, {EBUSY, ENOMEM, EPERM, ENOSPC, EACCES}},
      {{"open_tree", "fsmount", "fspick"}, {EMFILE, ENOMEM, EPERM, ENFILE, ENOSPC, EBUSY}},
      {{"fsopen"}, {EMFILE, ENOMEM, EPERM, ENFILE}},
      {{"fsconfig"}, {EIO, EBUSY, ENOMEM, EROFS, EACCES, EPERM, ENOSPC}},
      {{"mount_setattr"}, {EBUSY, EPERM, ENOMEM}},
      {{"LOOP_CTL_GET_FREE"}, {ENOMEM, ENOSPC, EPERM, EIO}},
      {{"LOOP_CONFIGURE", "LOOP_SET_STATUS64"}, {EBUSY, ENOMEM, EPERM, EIO, EAGAIN}},
      {{"LOOP_CLR_FD", "LOOP_SET_CAPACITY"}, {EBUSY, EPERM}},
      {{"LOOP_GET_STATUS64"}, {ENOMEM, EIO}},
      {{"BLKROSET"}, {EACCES, EPERM}},
      {{"FICLONE", "FICLONERANGE"}, {EOPNOTSUPP, ENOSPC, EIO, EDQUOT, EPERM, EXDEV}},
      {{"FIFREEZE"}, {EBUSY, EIO, EPERM, ENOMEM, ENOSPC}},
      {{"FS_IOC_FIEMAP"}, {EIO, ENOMEM, EOPNOTSUPP}},
      {{"read", "pread64"}, {EIO, EINTR, ENOMEM, ESTALE}},
      {{"newfstatat", "statx", "fstatfs"}, {EIO, ENOMEM, EACCES, ESTALE}},
  };
  return table;
}

// Errors of a full disk or of a limit. CSI has no code of its own for NodeExpandVolume: it is FAILED_PRECONDITION
// there.
const std::set<int> kScarce = {ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM, ENOLCK, EMLINK};
// The administrator has to change something on the host.
const std::set<int> kRefused = {EROFS, EPERM, EACCES, EBUSY, EFBIG};

bool MayBeInternal(int error) { return !kScarce.contains(error) && !kRefused.contains(error); }

// Codes that say something false about the request or its object.
bool Misleads(const absl::Status& status) {
  static const std::set<absl::StatusCode> kWrong = {
      absl::StatusCode::kNotFound,      absl::StatusCode::kInvalidArgument, absl::StatusCode::kAlreadyExists,
      absl::StatusCode::kUnimplemented, absl::StatusCode::kUnknown,         absl::StatusCode::kPermissionDenied,
      absl::StatusCode::kDataLoss,      absl::StatusCode::kUnauthenticated};
  return kWrong.contains(status.code());
}

bool SaysScarce(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsOutOfRange(status) || absl::IsFailedPrecondition(status) ||
         absl::IsUnavailable(status);
}

}  // namespace

std::vector<int> ErrorsOf(const Step& step) {
  if (step.by_tool()) return {EIO, ENOSPC};
  const bool of_kernel = step.object.starts_with("/sys/") || step.object.starts_with("/proc/");
  if (of_kernel && step.call.starts_with("write")) return {EIO, ENOMEM, EPERM};
  // A search through /proc passes over processes that are hidden from it, so EACCES says nothing there.
  if (of_kernel) return step.call == kOpenExisting ? std::vector{EMFILE, ENFILE, ENOMEM} : std::vector{ENOMEM};
  for (const Row& row : Table()) {
    if (std::find(row.calls.begin(), row.calls.end(), step.call) != row.calls.end()) return row.errors;
  }
  return {EIO, ENOMEM, EPERM};
}

std::string NameOfError(int error) { return ::strerrorname_np(error); }

// A checkpoint of SQLite may fail, because its log is on disk. The records of a node are made again from its mounts.
// SQLite ignores a directory that cannot be synced, with fdatasync(2). Mooring syncs directories with fsync(2).
void ExpectWrittenAgain(const Step& step, const std::vector<Step>& after) {
  static const std::set<std::string_view> kOfData = {"write", "pwrite64", "ftruncate", "fsync", "fdatasync", "syncfs"};
  const bool of_node = step.object.find("/node.db") != std::string::npos;
  const bool of_kernel = step.object.starts_with("/sys/") || step.object.ends_with(".db") || of_node;
  const bool of_directory = step.call == "fdatasync" && std::filesystem::is_directory(step.object);
  // A stage warns of it. The next one looks whether the copies of the superblock are on the disk (filesystem_grow.cc).
  const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const bool of_growth = test.ends_with("NodeStageVolumeGrownXfs") && step.object.starts_with("/dev/");
  if (step.by_tool() || of_kernel || of_directory || of_growth || !kOfData.contains(step.call)) return;
  EXPECT_TRUE(
      std::any_of(after.begin(), after.end(),
                  [&](const Step& later) { return kOfData.contains(later.call) && later.object == step.object; }))
      << "a failed " << ToString(step) << " was ignored";
}

void ExpectClearError(const Step& step, int error, const absl::Status& status) {
  EXPECT_FALSE(Misleads(status)) << status;
  if (step.by_tool()) return;  // it tells what it wants of its error
  EXPECT_TRUE(MayBeInternal(error) || !absl::IsInternal(status))
      << NameOfError(error) << " is no internal error: " << status;
  EXPECT_TRUE(!kScarce.contains(error) || SaysScarce(status)) << status;
  // The mount at a path that cannot be looked at is taken for another one, and left alone.
  const bool of_target = step.object.find("/tasks/") != std::string::npos;
  const bool of_mounter = step.program == "mooring-mounter" && of_target;
  if (step.call == "statx" && (step.program == "mooring-manager" || of_mounter)) return;
  // A device pool counts only the disks and records that it can look at, and says so of none.
  const bool records = step.object.find("/state/devices") != std::string::npos;
  const bool disk = step.object.starts_with("/dev/loop") || step.object.starts_with("/sys/");
  if (IsOnlyForErrors(step) && (records || disk)) return;
  const std::string message(status.message());
  EXPECT_NE(message.find_first_of("/'"), std::string::npos) << "no path and no name: " << status;
  // These are said in other words: a device whose file server is dead, and a directory that something is mounted on.
  if (step.call == "LOOP_GET_STATUS64" && error == EIO) return;
  if (step.call == "unlinkat" && error == EBUSY) return;
  EXPECT_NE(message.find(::strerrordesc_np(error)), std::string::npos) << "no word of the kernel's error: " << status;
}

}  // namespace mooring::testing

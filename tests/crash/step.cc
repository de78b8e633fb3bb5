#include "tests/crash/step.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string_view>

#include "base/file/unique_fd.h"
#include "tests/rpc/support/helper_processes.h"
#include "tests/support/kernel.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;

enum class Announce {
  kAlways,
  kAboveStderr,  // on a file descriptor above 2, because logs and the output of tools are no steps
  kLocking,      // fcntl(2) with the command for a lock of a file
};

// The arguments of a system call that name its object: a file descriptor, a path, or both.
struct Call {
  std::string_view name;
  long number;
  int fd = -1, path = -1;
  Announce announce = Announce::kAlways;
  int flags = -1;  // the argument with O_CREAT, of open(2)
};

constexpr std::array kCalls = {
    Call{"write", SYS_write, 0, -1, Announce::kAboveStderr},
    Call{"writev", SYS_writev, 0, -1, Announce::kAboveStderr},
    Call{"pwrite64", SYS_pwrite64, 0, -1},
    Call{"pwritev", SYS_pwritev, 0, -1},
    Call{"pwritev2", SYS_pwritev2, 0, -1},
    Call{"sendfile", SYS_sendfile, 0, -1},
    Call{"copy_file_range", SYS_copy_file_range, 2, -1},
    Call{"fallocate", SYS_fallocate, 0, -1},
    Call{"ftruncate", SYS_ftruncate, 0, -1},
    Call{"truncate", SYS_truncate, -1, 0},
    Call{"fsync", SYS_fsync, 0, -1},
    Call{"fdatasync", SYS_fdatasync, 0, -1},
    Call{"sync_file_range", SYS_sync_file_range, 0, -1},
    Call{"syncfs", SYS_syncfs, 0, -1},
    Call{"close", SYS_close, 0, -1, Announce::kAboveStderr},
    Call{"read", SYS_read, 0, -1, Announce::kAboveStderr},
    Call{"pread64", SYS_pread64, 0, -1},
    Call{"flock", SYS_flock, 0, -1},
    Call{"fcntl lock", SYS_fcntl, 0, -1, Announce::kLocking},
    Call{"ioctl", SYS_ioctl, 0, -1, Announce::kAboveStderr},
    Call{"openat", SYS_openat, 0, 1, Announce::kAlways, 2},
    Call{"openat2", 437, 0, 1},
    Call{"newfstatat", SYS_newfstatat, 0, 1},
    Call{"statx", SYS_statx, 0, 1},
    Call{"fstatfs", SYS_fstatfs, 0, -1},
    Call{"mkdirat", SYS_mkdirat, 0, 1},
    Call{"mknodat", SYS_mknodat, 0, 1},
    Call{"unlinkat", SYS_unlinkat, 0, 1},
    Call{"linkat", SYS_linkat, 2, 3},
    Call{"symlinkat", SYS_symlinkat, 1, 2},
    Call{"renameat", SYS_renameat, 2, 3},
    Call{"renameat2", SYS_renameat2, 2, 3},
    Call{"fchown", SYS_fchown, 0, -1},
    Call{"fchmod", SYS_fchmod, 0, -1},
    Call{"fchownat", SYS_fchownat, 0, 1},
    Call{"fchmodat", SYS_fchmodat, 0, 1},
    Call{"setxattr", SYS_setxattr, -1, 0},
    Call{"fsetxattr", SYS_fsetxattr, 0, -1},
    Call{"mount", SYS_mount, -1, 1},
    Call{"umount2", SYS_umount2, -1, 0},
    Call{"open_tree", SYS_open_tree, 0, 1},
    Call{"move_mount", SYS_move_mount, 2, 3},
    Call{"mount_setattr", 442, 0, 1},
    Call{"fsopen", SYS_fsopen, -1, 0},
    Call{"fsconfig", SYS_fsconfig, -1, 2},
    Call{"fsmount", SYS_fsmount, 0, -1},
    Call{"fspick", SYS_fspick, 0, 1},
#ifdef SYS_open  // newer architectures do not have these
    Call{"open", SYS_open, -1, 0, Announce::kAlways, 1},
    Call{"creat", SYS_creat, -1, 0},
    Call{"mkdir", SYS_mkdir, -1, 0},
    Call{"mknod", SYS_mknod, -1, 0},
    Call{"rmdir", SYS_rmdir, -1, 0},
    Call{"unlink", SYS_unlink, -1, 0},
    Call{"link", SYS_link, -1, 1},
    Call{"symlink", SYS_symlink, -1, 1},
    Call{"rename", SYS_rename, -1, 1},
    Call{"chown", SYS_chown, -1, 0},
    Call{"lchown", SYS_lchown, -1, 0},
    Call{"chmod", SYS_chmod, -1, 0},
#endif
};

struct Ioctl {
  unsigned long number;
  std::string_view name;
  bool asks = false;
};

// Other ioctls are shown by number, and count as changes.
constexpr std::array kIoctls = {
    Ioctl{LOOP_CTL_GET_FREE, "LOOP_CTL_GET_FREE"},
    Ioctl{LOOP_CONFIGURE, "LOOP_CONFIGURE"},
    Ioctl{LOOP_CLR_FD, "LOOP_CLR_FD"},
    Ioctl{LOOP_SET_CAPACITY, "LOOP_SET_CAPACITY"},
    Ioctl{LOOP_SET_STATUS64, "LOOP_SET_STATUS64"},
    Ioctl{LOOP_GET_STATUS64, "LOOP_GET_STATUS64", true},
    Ioctl{BLKROSET, "BLKROSET"},
    Ioctl{BLKROGET, "BLKROGET", true},
    Ioctl{BLKGETSIZE64, "BLKGETSIZE64", true},
    Ioctl{BLKSSZGET, "BLKSSZGET", true},
    Ioctl{BLKPBSZGET, "BLKPBSZGET", true},
    Ioctl{FICLONE, "FICLONE"},
    Ioctl{FICLONERANGE, "FICLONERANGE"},
    Ioctl{FIFREEZE, "FIFREEZE"},
    Ioctl{FITHAW, "FITHAW"},
    Ioctl{FITRIM, "FITRIM"},
    Ioctl{FS_IOC_GETFLAGS, "FS_IOC_GETFLAGS", true},
    Ioctl{FS_IOC_FIEMAP, "FS_IOC_FIEMAP", true},
};

constexpr __u32 Low(std::size_t argument) {  // of a little-endian machine
  return static_cast<__u32>(offsetof(seccomp_data, args) + 8 * argument);
}

// Follows a comparison with the number of the call. Announces the call if the condition holds.
std::vector<sock_filter> Condition(const Call& call) {
  const sock_filter announce = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
  const sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  switch (call.announce) {
    case Announce::kAlways:
      return {announce};
    case Announce::kAboveStderr:
      return {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, Low(0)), BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, STDERR_FILENO, 0, 1),
              announce, allow};
    case Announce::kLocking:
      return {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, Low(1)),
              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETLK, 4, 0),
              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETLKW, 3, 0),
              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_SETLK, 2, 0),
              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_SETLKW, 1, 0),
              allow,
              announce};
  }
  return {allow};
}

std::string Proc(const seccomp_notif& call, const std::string& name) {
  return "/proc/" + std::to_string(call.pid) + "/" + name;
}

// The file of the descriptor: "/dev/loop3", "socket:[123]". "": the descriptor is not open.
std::string FileOf(const seccomp_notif& call, int argument) {
  if (argument < 0) return "";
  const auto fd = static_cast<int>(call.data.args[argument]);
  std::error_code error;
  return fs::read_symlink(Proc(call, "fd/" + std::to_string(fd)), error);
}

std::string TextAt(const seccomp_notif& call, int argument) {
  if (argument < 0) return "";
  const UniqueFd memory(::open(Proc(call, "mem").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 256> text = {};
  const auto address = static_cast<off_t>(call.data.args[argument]);
  const ssize_t got = ::pread(memory.get(), text.data(), text.size() - 1, address);
  return got > 0 ? std::string(text.data()) : "";
}

std::string ObjectOf(const seccomp_notif& call, const Call& known) {
  const std::string path = TextAt(call, known.path);
  if (known.fd < 0 || path.starts_with('/')) return path;
  const std::string file = FileOf(call, known.fd);
  return path.empty() ? file : file + "/" + path;
}

// A write to a socket, pipe or eventfd is a message. Nothing of it remains after the programs have ended.
bool IsMessage(const Call& known, const std::string& object) {
  return known.path < 0 && (!object.starts_with('/') || object == "/dev/null" || object.starts_with("/proc/"));
}

// "loop7" of /dev/loop7 and of /sys/devices/virtual/block/loop7/size; "" for other paths.
std::string LoopIn(const fs::path& object) {
  const std::string top = object.begin() == object.end() ? "" : std::next(object.begin())->string();
  for (const fs::path& part : object) {
    const std::string name = part.string();
    const bool numbered = name.starts_with("loop") && name.find_first_not_of("0123456789", 4) == std::string::npos;
    if ((top == "dev" || top == "sys") && numbered && name.size() > 4) return name;
  }
  return "";
}

// A loop device may lie over another one, which it holds or reads.
bool IsForeignLoop(const std::string& object, const std::string& directory) {
  const std::string loop = LoopIn(object);
  if (loop.empty()) return false;
  std::string file = ReadFile("/sys/block/" + loop + "/loop/backing_file");
  if (file.ends_with('\n')) file.pop_back();
  return !file.empty() && !file.starts_with(directory) &&
         (!file.starts_with("/dev/") || IsForeignLoop(file, directory));
}

bool MayMakeAFile(const seccomp_notif& call, const Call& known) {
  return (call.data.args[known.flags] & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) != 0;
}

// A file on a disk, opened for writing. Closing another one cannot fail.
bool IsWritten(const seccomp_notif& call, const std::string& object, const std::string& directory) {
  if (!object.starts_with(directory)) return false;
  const std::string info = ReadFile(Proc(call, "fdinfo/" + std::to_string(static_cast<int>(call.data.args[0]))));
  const std::size_t at = info.find("flags:");
  return at != std::string::npos && (std::stoul(info.substr(at + 6), nullptr, 8) & O_ACCMODE) != O_RDONLY;
}

// An unlock frees memory, and takes none.
bool IsUnlock(const seccomp_notif& call) {
  const UniqueFd memory(::open(Proc(call, "mem").c_str(), O_RDONLY | O_CLOEXEC));
  struct flock range = {};
  const ssize_t got = ::pread(memory.get(), &range, sizeof(range), static_cast<off_t>(call.data.args[2]));
  return got == sizeof(range) && range.l_type == F_UNLCK;
}

// A call that changes nothing, and can fail. The calls of tools are left out, because most are of the linker.
bool IsLookAt(const std::string& object, const std::string& directory) {
  return object.starts_with(directory) || object.starts_with("/dev/") || object.starts_with("/sys/") ||
         object.starts_with("/proc/");
}

void NameIoctl(Step& step, std::uint64_t number) {
  const auto found =
      std::find_if(kIoctls.begin(), kIoctls.end(), [&](const Ioctl& known) { return known.number == number; });
  step.call = found == kIoctls.end() ? "ioctl " + std::to_string(number) : std::string(found->name);
  step.asks = found != kIoctls.end() && found->asks;
}

}  // namespace

bool EnvironmentSays(const char* variable, const std::string& value) {
  const char* const set = std::getenv(variable);
  return set != nullptr && set == value;
}
bool WantsAll() { return EnvironmentSays("MOORING_CRASH_STEPS", "all"); }

bool IsOnlyForErrors(const Step& step) {
  static const std::set<std::string_view> kThese = {kOpenExisting, "openat2", "newfstatat", "statx", "fstatfs",
                                                    "read",        "pread64", "close",      "flock", "fcntl lock"};
  return kThese.contains(step.call);
}

std::string KindOf(const Step& step) { return step.program + ": " + step.call; }
std::string ToString(const Step& step) { return KindOf(step) + " " + step.object; }

std::vector<sock_filter> StepFilter() {
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const Call& call : kCalls) {
    const std::vector<sock_filter> condition = Condition(call);
    const auto past = static_cast<__u8>(condition.size());
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<__u32>(call.number), 0, past));
    filter.insert(filter.end(), condition.begin(), condition.end());
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return filter;
}

std::optional<Step> StepOf(const seccomp_notif& call, const std::string& directory) {
  const auto known =
      std::find_if(kCalls.begin(), kCalls.end(), [&](const Call& row) { return row.number == call.data.nr; });
  if (known == kCalls.end()) return std::nullopt;
  Step step;
  step.object = ObjectOf(call, *known);
  if (IsMessage(*known, step.object) || IsForeignLoop(step.object, directory)) return std::nullopt;
  const auto thread = static_cast<pid_t>(call.pid);
  step.process = std::stoi("0" + StatusField(thread, "Tgid"));
  step.program = NameOfProcess(step.process);
  step.call = known->name;
  if (known->number == SYS_ioctl) NameIoctl(step, call.data.args[1]);
  if (known->flags >= 0 && !MayMakeAFile(call, *known)) step.call = kOpenExisting;
  if (known->number == SYS_fcntl && IsUnlock(call)) return std::nullopt;
  if (known->number == SYS_close && !IsWritten(call, step.object, directory)) return std::nullopt;
  if (IsOnlyForErrors(step)) {
    if (step.by_tool() || !IsLookAt(step.object, directory)) return std::nullopt;
    step.asks = true;
  }
  return step;
}

}  // namespace mooring::testing

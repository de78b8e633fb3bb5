#include "plugin/confinement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/landlock.h>
#include <linux/netlink.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/log.h"
#include "base/path.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "mounter/privileges.h"

namespace mooring {
namespace {

// landlock(7), up to ABI 6 (Linux 6.12); the headers of Debian 12 know ABI 2.
struct Ruleset {
  std::uint64_t files = 0, network = 0, scoped = 0;
};
constexpr std::uint64_t kTruncate = 1U << 14U, kIoctlDevice = 1U << 15U;  // ABI 3 and 5
constexpr std::uint64_t kTcp = 3;                                         // ABI 4: bind and connect
constexpr std::uint64_t kScoped = 3;                                      // ABI 6: abstract sockets, signals

constexpr std::uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kOwn = kRead | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                               LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                               LANDLOCK_ACCESS_FS_REMOVE_DIR | kTruncate;
constexpr std::uint64_t kSocket =
    LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE;
constexpr std::uint64_t kFile = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;

struct Place {
  std::string path;
  std::uint64_t access;
};

long LandlockAbi() { return ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION); }

Ruleset HandledBy(long abi) {
  Ruleset handled;
  handled.files = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1U) - 1;  // all of ABI 1
  if (abi >= 2) handled.files |= LANDLOCK_ACCESS_FS_REFER;
  if (abi >= 3) handled.files |= kTruncate;
  if (abi >= 4) handled.network = kTcp;
  if (abi >= 5) handled.files |= kIoctlDevice;
  if (abi >= 6) handled.scoped = kScoped;
  return handled;
}

// The structure grew with the ABI, and a kernel takes no larger one with something in it that it does not know.
std::size_t SizeFor(long abi) { return abi >= 6 ? sizeof(Ruleset) : abi >= 4 ? 16 : 8; }

absl::Status Allow(const UniqueFd& ruleset, const Place& place, std::uint64_t handled) {
  const UniqueFd fd(::open(place.path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd.ok() && errno == ENOENT) return absl::OkStatus();
  if (!fd.ok()) return ErrnoStatus(errno, "confine the plugin to", place.path);
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return ErrnoStatus(errno, "look at", place.path);
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = place.access & handled & (S_ISDIR(status.st_mode) ? ~std::uint64_t{0} : kFile);
  rule.parent_fd = fd.get();
  if (::syscall(SYS_landlock_add_rule, ruleset.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0)
    return absl::OkStatus();
  return ErrnoStatus(errno, "confine the plugin to", place.path);
}

absl::Status ConfineFiles(const Territory& territory) {
  const long abi = LandlockAbi();
  if (abi < 1) {
    log::Warning(
        "the kernel has no Landlock, or it is not allowed here: files are protected by their owners and modes "
        "alone",
        {{"errno", fmt::format("{}", errno)}});
    return absl::OkStatus();
  }
  const Ruleset handled = HandledBy(abi);
  const UniqueFd ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &handled, SizeFor(abi), 0)));
  if (!ruleset.ok()) return ErrnoStatus(errno, "make a Landlock ruleset");
  std::vector<Place> places = {
      Place{territory.state_dir, kOwn},
      Place{territory.socket_directory, kSocket},
      Place{"/etc", kRead},
      Place{"/proc", kRead},
      Place{"/sys", kRead},
      Place{"/usr", kRead},
      Place{"/dev/null", kFile},
      Place{"/dev/urandom", LANDLOCK_ACCESS_FS_READ_FILE},
  };
  if (!territory.registration_directory.empty()) places.push_back({territory.registration_directory, kSocket});
  for (const std::string& pool : territory.pools) places.push_back({pool, kOwn});
  for (const std::string& links : territory.device_links) {
    // udev removes an empty directory, and makes another one.
    const bool comes_and_goes = IsBelow(links, "/dev");
    places.push_back({comes_and_goes ? "/dev" : links, LANDLOCK_ACCESS_FS_READ_DIR});
    places.push_back({"/run/udev/data", kRead});
  }
  for (const Place& place : places) MOORING_RETURN_IF_ERROR(Allow(ruleset, place, handled.files));
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return ErrnoStatus(errno, "enter Landlock");
  return absl::OkStatus();
}

// What gRPC, SQLite, spdlog, the C and C++ libraries and we call, on kernels and in versions old and new. What is not
// here is ENOSYS: libraries know how to do without a call that a kernel does not have. Root without a capability still
// owns root's files, which Landlock lets nobody write but anybody chmod(2): hence no call that changes mode, owner or
// times, by path or by an open file.
constexpr const char* kCalls[] = {
    // memory and threads
    "brk",
    "madvise",
    "membarrier",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "futex",
    "futex_waitv",
    "get_robust_list",
    "set_robust_list",
    "rseq",
    "sched_yield",
    "sched_getaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "set_tid_address",
    "exit",
    "exit_group",
    "restart_syscall",
    "prctl",
    "arch_prctl",
    // time, randomness, who we are
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "gettimeofday",
    "nanosleep",
    "time",
    "getrandom",
    "getegid",
    "geteuid",
    "getgid",
    "getpid",
    "getppid",
    "gettid",
    "getuid",
    "getrlimit",
    "getrusage",
    "sysinfo",
    "uname",
    "getcwd",
    // files
    "access",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fallocate",
    "fdatasync",
    "flock",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "getdents64",
    "lseek",
    "lstat",
    "mkdir",
    "mkdirat",
    "newfstatat",
    "pread64",
    "preadv",
    "pwrite64",
    "pwritev",
    "read",
    "readlink",
    "readlinkat",
    "readv",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "stat",
    "statfs",
    "statx",
    "umask",
    "unlink",
    "unlinkat",
    "write",
    "writev",
    // waiting, sockets (made below), signals to itself, its own children
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "eventfd2",
    "pipe2",
    "poll",
    "ppoll",
    "pselect6",
    "select",
    "timerfd_create",
    "timerfd_settime",
    "accept",
    "accept4",
    "bind",
    "connect",
    "getpeername",
    "getsockname",
    "getsockopt",
    "listen",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "seccomp",  // for ConfineServer
    "setsockopt",
    "shutdown",
    "pidfd_open",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigtimedwait",
    "sigaltstack",
    "wait4",
    "waitid",
};

struct ReleaseFilter {
  void operator()(scmp_filter_ctx filter) const { ::seccomp_release(filter); }
};
using Filter = std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, ReleaseFilter>;

// No process but threads: clone3(2), whose flags a filter cannot see, is ENOSYS, and clone(2) takes its place.
int AllowThreads(const Filter& filter) {
  return ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                            SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
}

// Only to listen: to send there needs a capability.
int AllowDeviceEvents(const Filter& filter) {
  return ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
                            SCMP_A2(SCMP_CMP_EQ, NETLINK_KOBJECT_UEVENT));
}

int AllowUnixSockets(const Filter& filter) {
  constexpr scmp_datum_t kType = 0xF;  // without SOCK_CLOEXEC and SOCK_NONBLOCK
  int error = ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, AF_UNIX),
                                 SCMP_A1(SCMP_CMP_MASKED_EQ, kType, SOCK_STREAM));
  if (error != 0) return error;
  // Datagrams go to whom they are addressed, without a connect(2): a service manager, the system's log.
  for (const scmp_datum_t type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    error = ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 2, SCMP_A0(SCMP_CMP_EQ, AF_UNIX),
                               SCMP_A1(SCMP_CMP_MASKED_EQ, kType, type));
    if (error != 0) return error;
  }
  return ::seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 2,
                            SCMP_A0(SCMP_CMP_NE, AF_UNIX), SCMP_A2(SCMP_CMP_NE, NETLINK_KOBJECT_UEVENT));
}

int AllowCommands(const Filter& filter, int call, std::initializer_list<scmp_datum_t> commands) {
  for (const scmp_datum_t command : commands) {
    const int error = ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 1, SCMP_A1(SCMP_CMP_EQ, command));
    if (error != 0) return error;
  }
  return 0;
}

// With F_SETOWN, F_SETSIG and their like the kernel sends signals for us, to any process of root's.
int AllowOnOpenFiles(const Filter& filter) {
  const int error = AllowCommands(filter, SCMP_SYS(fcntl),
                                  {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK,
                                   F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW});
  return error != 0
             ? error
             : AllowCommands(filter, SCMP_SYS(ioctl), {FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, TCGETS, FS_IOC_FIEMAP});
}

// O_TRUNC empties a file for whoever may only read it, where Landlock has no right of that name (before Linux 6.2).
int AllowOpening(const Filter& filter) {
  const int error =
      ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(openat), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, O_TRUNC, 0));
  const int call = ::seccomp_syscall_resolve_name("open");
  if (error != 0 || call < 0) return error;  // not on this architecture
  return ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 1, SCMP_A1(SCMP_CMP_MASKED_EQ, O_TRUNC, 0));
}

// Other processes of root's would have to bear signals and limits from us, too.
int AllowOnItself(const Filter& filter) {
  const auto self = static_cast<scmp_datum_t>(::getpid());
  for (const int call : {SCMP_SYS(kill), SCMP_SYS(tgkill), SCMP_SYS(prlimit64)}) {
    const int error = ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 1, SCMP_A0(SCMP_CMP_EQ, self));
    if (error != 0) return error;
  }
  return ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A0(SCMP_CMP_EQ, 0));
}

absl::Status ConfineCalls(const Territory& territory) {
  const Filter filter(::seccomp_init(SCMP_ACT_ERRNO(ENOSYS)));
  if (filter == nullptr) return Internal("cannot make a seccomp filter");
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);  // a tree: the same time for each call
  int error = 0;
  for (const char* name : kCalls) {
    const int call = ::seccomp_syscall_resolve_name(name);
    if (call < 0) continue;  // not on this architecture
    if (error == 0) error = ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0);
  }
  if (error == 0) error = AllowThreads(filter);
  if (error == 0) error = AllowUnixSockets(filter);
  if (error == 0 && !territory.device_links.empty()) error = AllowDeviceEvents(filter);
  if (error == 0) error = AllowOnOpenFiles(filter);
  if (error == 0) error = AllowOpening(filter);
  if (error == 0) error = AllowOnItself(filter);
  if (error == 0) error = ::seccomp_load(filter.get());
  return error == 0 ? absl::OkStatus() : ErrnoStatus(-error, "load a seccomp filter");
}

}  // namespace

absl::Status Confine(const Territory& territory, const RunAs& user) {
  DropFromBoundingSet({});  // another user could not any more
  MOORING_RETURN_IF_ERROR(Become(user));
  MOORING_RETURN_IF_ERROR(KeepOnly({}));  // sets no_new_privs, which Landlock and seccomp ask for
  MOORING_RETURN_IF_ERROR(ConfineFiles(territory));
  return ConfineCalls(territory);
}

absl::Status ConfineServer() {
  const Filter filter(::seccomp_init(SCMP_ACT_ALLOW));
  if (filter == nullptr) return Internal("cannot make a seccomp filter");
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);  // for the threads that are there, too
  int error = ::seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EACCES), SCMP_SYS(connect), 0);
  if (error == 0) error = ::seccomp_load(filter.get());
  return error == 0 ? absl::OkStatus() : ErrnoStatus(-error, "load a seccomp filter");
}

}  // namespace mooring

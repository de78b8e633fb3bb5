#include "plugin/process/confinement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/btrfs.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/landlock.h>
#include <linux/netlink.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <system_error>
#include <vector>

#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/log.h"
#include "base/status.h"
#include "mounter/process/call_filter.h"
#include "mounter/process/privileges.h"

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

// The structure grew with the ABI. A kernel refuses a larger one that is not zero behind the part that it knows.
std::size_t SizeFor(long abi) { return abi >= 6 ? sizeof(Ruleset) : abi >= 4 ? 16 : 8; }

absl::Status Allow(const UniqueFd& ruleset, const Place& place, std::uint64_t handled) {
  const UniqueFd fd(::open(place.path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd.ok() && errno == ENOENT) return absl::OkStatus();
  if (!fd.ok()) return ErrnoStatus(errno, "confine the plugin to", place.path);
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return ErrnoStatus(errno, "inspect", place.path);
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = place.access & handled & (S_ISDIR(status.st_mode) ? ~std::uint64_t{0} : kFile);
  rule.parent_fd = fd.get();
  if (::syscall(SYS_landlock_add_rule, ruleset.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0)
    return absl::OkStatus();
  return ErrnoStatus(errno, "confine the plugin to", place.path);
}

// The directory of the path, and that of the file to which the path leads.
std::vector<std::string> DirectoriesOf(const std::string& file) {
  std::vector<std::string> directories = {std::string(ParentOf(file))};
  std::error_code error;
  const std::string real = std::filesystem::canonical(file, error);
  if (!error && ParentOf(real) != "/") directories.emplace_back(ParentOf(real));
  return directories;
}

absl::Status ConfineFiles(const SandboxPolicy& policy) {
  const long abi = LandlockAbi();
  if (abi < 1) {
    log::Warning(
        "the kernel has no Landlock, or it is not allowed here: files are protected by their owners and modes alone",
        {{"errno", fmt::format("{}", errno)}});
    return absl::OkStatus();
  }
  const Ruleset handled = HandledBy(abi);
  const UniqueFd ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &handled, SizeFor(abi), 0)));
  if (!ruleset.ok()) return ErrnoStatus(errno, "make a Landlock ruleset");
  std::vector<Place> places = {
      Place{policy.state_dir, kOwn}, Place{policy.socket_directory, kSocket},
      Place{"/etc", kRead},          Place{"/proc", kRead},
      Place{"/sys", kRead},          Place{"/usr", kRead},
      Place{"/dev/null", kFile},     Place{"/dev/urandom", LANDLOCK_ACCESS_FS_READ_FILE},
  };
  if (!policy.registration_directory.empty()) places.push_back({policy.registration_directory, kSocket});
  for (const std::string& pool : policy.pools) places.push_back({pool, kOwn});
  for (const std::string& pool : policy.linked) places.push_back({pool, LANDLOCK_ACCESS_FS_MAKE_SYM});
  for (const std::string& links : policy.device_links) {
    // udev deletes an empty directory, and makes another one later.
    const bool comes_and_goes = IsBelow(links, "/dev");
    places.push_back({comes_and_goes ? "/dev" : links, LANDLOCK_ACCESS_FS_READ_DIR});
    places.push_back({"/run/udev/data", kRead});
  }
  for (const std::string& file : policy.key_files) {
    for (const std::string& directory : DirectoriesOf(file)) {
      places.push_back({directory, LANDLOCK_ACCESS_FS_READ_FILE});
    }
  }
  for (const Place& place : places) MOORING_RETURN_IF_ERROR(Allow(ruleset, place, handled.files));
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return ErrnoStatus(errno, "enter Landlock");
  return absl::OkStatus();
}

// The socket calls of gRPC and spdlog in old and new versions. BasicCalls() has the other calls. A call that is in
// neither list is ENOSYS, because libraries can do without a call that a kernel does not have. Neither list has a call
// that changes mode, owner or times: root without capabilities still owns root's files, and Landlock does not control
// chmod(2).
constexpr const char* kSocketCalls[] = {
    "accept",   "accept4",  "bind",    "connect",  "getpeername", "getsockname", "getsockopt", "listen",
    "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg",     "sendto",      "setsockopt", "shutdown",
};

// Threads, but no processes. clone3(2) is ENOSYS, because a filter cannot see its flags. The C library then uses
// clone(2).
void AllowThreads(CallFilter& filter) {
  filter.Add(SCMP_ACT_ALLOW, "clone", {{0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD}});
}

// Only to receive: sending needs a capability.
void AllowDeviceEvents(CallFilter& filter) {
  filter.Add(SCMP_ACT_ALLOW, "socket", {{0, SCMP_CMP_EQ, AF_NETLINK, 0}, {2, SCMP_CMP_EQ, NETLINK_KOBJECT_UEVENT, 0}});
}

void AllowUnixSockets(CallFilter& filter) {
  constexpr scmp_datum_t kType = 0xF;  // without SOCK_CLOEXEC and SOCK_NONBLOCK
  filter.Add(SCMP_ACT_ALLOW, "socket", {{0, SCMP_CMP_EQ, AF_UNIX, 0}, {1, SCMP_CMP_MASKED_EQ, kType, SOCK_STREAM}});
  // No datagrams: they reach a service manager or the system's log without a connect(2).
  for (const scmp_datum_t type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    filter.Add(SCMP_ACT_ALLOW, "socketpair", {{0, SCMP_CMP_EQ, AF_UNIX, 0}, {1, SCMP_CMP_MASKED_EQ, kType, type}});
  }
  filter.Add(SCMP_ACT_ERRNO(EAFNOSUPPORT), "socket",
             {{0, SCMP_CMP_NE, AF_UNIX, 0}, {2, SCMP_CMP_NE, NETLINK_KOBJECT_UEVENT, 0}});
}

void AllowCommands(CallFilter& filter, const char* call, std::initializer_list<scmp_datum_t> commands) {
  for (const scmp_datum_t command : commands) filter.Add(SCMP_ACT_ALLOW, call, {{1, SCMP_CMP_EQ, command, 0}});
}

// Not F_SETOWN or F_SETSIG: with them the kernel sends signals on behalf of this process, to any process of root's.
void AllowOnOpenFiles(CallFilter& filter) {
  AllowCommands(filter, "fcntl",
                {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK,
                 F_OFD_SETLK, F_OFD_SETLKW});
  AllowCommands(filter, "ioctl", {FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, TCGETS, FS_IOC_FIEMAP, BTRFS_IOC_FS_INFO});
}

// Without O_TRUNC: before Linux 6.2 Landlock does not control truncation, so O_TRUNC would empty files outside the
// policy.
void AllowOpening(CallFilter& filter) {
  filter.Add(SCMP_ACT_ALLOW, "openat", {{2, SCMP_CMP_MASKED_EQ, O_TRUNC, 0}});
  filter.Add(SCMP_ACT_ALLOW, "open", {{1, SCMP_CMP_MASKED_EQ, O_TRUNC, 0}});
}

// Only this process: other processes of root's must not get signals or limits from it. alarm(2) and setitimer(2), which
// alarm(3) uses where there is no alarm(2), are for base/process_end.h.
void AllowOnItself(CallFilter& filter) {
  for (const char* call : {"alarm", "setitimer"}) filter.Add(SCMP_ACT_ALLOW, call);
  const auto self = static_cast<scmp_datum_t>(::getpid());
  for (const char* call : {"kill", "tgkill", "prlimit64"}) {
    filter.Add(SCMP_ACT_ALLOW, call, {{0, SCMP_CMP_EQ, self, 0}});
  }
  filter.Add(SCMP_ACT_ALLOW, "prlimit64", {{0, SCMP_CMP_EQ, 0, 0}});
}

absl::Status ConfineCalls(const SandboxPolicy& policy) {
  CallFilter filter(SCMP_ACT_ERRNO(ENOSYS));
  filter.AddAll(SCMP_ACT_ALLOW, BasicCalls());
  filter.AddAll(SCMP_ACT_ALLOW, kSocketCalls);
  AllowThreads(filter);
  AllowUnixSockets(filter);
  if (!policy.device_links.empty()) AllowDeviceEvents(filter);
  if (!policy.linked.empty()) {
    for (const char* call : {"symlink", "symlinkat"}) filter.Add(SCMP_ACT_ALLOW, call);
  }
  AllowOnOpenFiles(filter);
  AllowOpening(filter);
  AllowOnItself(filter);
  return filter.Load();
}

}  // namespace

absl::Status Confine(const SandboxPolicy& policy, const RunAs& user) {
  DropFromBoundingSet({});  // before Become: another user than root may not
  MOORING_RETURN_IF_ERROR(Become(user));
  MOORING_RETURN_IF_ERROR(KeepOnly({}));  // sets no_new_privs, which Landlock and seccomp need
  MOORING_RETURN_IF_ERROR(ConfineFiles(policy));
  return ConfineCalls(policy);
}

// The modules of nsswitch.conf(5) ask files and sockets of many kinds, so there is no limit of those.
absl::Status ConfineResolver(const RunAs& user) {
  constexpr RunAs kNobody = {.uid = 65534, .gid = 65534};
  DropFromBoundingSet({});
  // A container may not allow to become another user.
  if (::geteuid() != 0 || !Become(kNobody).ok()) MOORING_RETURN_IF_ERROR(Become(user));
  MOORING_RETURN_IF_ERROR(KeepOnly({}));
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) return ErrnoStatus(errno, "protect a process from", "others of its user");
  CallFilter filter(SCMP_ACT_ERRNO(ENOSYS));
  filter.AddAll(SCMP_ACT_ALLOW, BasicCalls());
  filter.AddAll(SCMP_ACT_ALLOW, kSocketCalls);
  for (const char* const call : {"socket", "socketpair"}) filter.Add(SCMP_ACT_ALLOW, call);
  AllowThreads(filter);
  AllowOnOpenFiles(filter);
  AllowOpening(filter);
  AllowOnItself(filter);
  return filter.Load();
}

absl::Status ConfineServer() {
  CallFilter filter(SCMP_ACT_ALLOW);
  filter.Add(SCMP_ACT_ERRNO(EACCES), "connect");
  return filter.Load(CallFilter::Threads::kAll);  // existing threads, too
}

}  // namespace mooring

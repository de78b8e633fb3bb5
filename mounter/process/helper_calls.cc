#include "mounter/process/helper_calls.h"

#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/quota.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/sem.h>
#include <sys/stat.h>

#include <cerrno>

#include "mounter/process/call_filter.h"

namespace mooring {
namespace {

// Allowed to the helper and refused to the programs that it runs: mounts. libmount 2.38.1 mounts with
// mount(2), and 2.41 with the newer calls. Mooring itself makes all of these but fsmount(2).
constexpr const char* kHelperOnlyCalls[] = {
    "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "open_tree", "umount2",
};

// Allowed to both, besides BasicCalls(). The helper receives its sockets and makes none.
constexpr const char* kHelperCalls[] = {
    // files
    "chdir", "chmod", "chown", "copy_file_range", "creat", "fchdir", "fchmod", "fchmodat", "fchown", "fchownat",
    "fcntl", "fgetxattr", "fremovexattr", "fsetxattr", "getdents", "getxattr", "lchown", "lgetxattr", "link", "linkat",
    "mincore", "mknod", "mknodat", "msync", "name_to_handle_at", "open", "openat", "openat2", "preadv2", "pwritev2",
    "readahead", "sendfile", "sync", "sync_file_range", "syncfs", "truncate",
    // files that cp copies
    "flistxattr", "listxattr", "llistxattr", "lremovexattr", "lsetxattr", "removexattr", "setxattr", "symlink",
    "symlinkat", "utimensat",
    // processes: the helpers, the programs, their threads
    "alarm", "capget", "capset", "execve", "fork", "getcpu", "getgroups", "getitimer", "getpgid", "getpgrp",
    "getpriority", "getresgid", "getresuid", "getsid", "kill", "pause", "pidfd_send_signal", "pipe", "prlimit64",
    "rt_sigpending", "rt_sigsuspend", "sched_get_priority_max", "sched_get_priority_min", "setitimer", "setpgid",
    "setrlimit", "setsid", "tgkill", "times", "tkill", "vfork",
    // the channels to the plugin
    "getpeername", "getsockname", "getsockopt", "recvfrom", "recvmsg", "sendmsg", "sendto", "setsockopt", "shutdown"};

// Allowed in addition where the policy names a pool of LVM or of encrypted volumes. lvm locks its memory while devices
// are suspended, and cryptsetup that with keys. lvm reads disks with libaio, as thin_check does. Their output goes to
// files in memory (mounter/process/command.cc).
constexpr const char* kMappingCalls[] = {"io_cancel", "io_destroy",   "io_getevents", "io_pgetevents", "io_setup",
                                         "io_submit", "memfd_create", "mlock",        "mlock2",        "mlockall",
                                         "munlock",   "munlockall",   "setpriority"};

// From Linux 6.5, 6.6 and 6.8. libseccomp 2.5 does not know their names.
constexpr int kCacheStat = 451, kFchmodat2 = 452, kStatmount = 457, kListmount = 458;

// From Linux 5.14. The helper alone may read and set the limits of projects (mounter/quota/project_quota.cc).
constexpr int kQuotaCtlFd = 443;
constexpr scmp_datum_t kQuotaCommands[] = {QCMD(Q_XGETQSTATV, PRJQUOTA), QCMD(Q_XGETQUOTA, PRJQUOTA),
                                           QCMD(Q_XSETQLIM, PRJQUOTA)};

// The allowed groups of ioctl(2), by the byte that names their driver or filesystem. In this order: loop devices; block
// devices; FIFREEZE and xfs; ext4 and FS_IOC_*; btrfs and FICLONE; FS_IOC_GETVERSION; disk geometry. This leaves out
// terminals (TIOCSTI fakes input) and SCSI commands.
constexpr scmp_datum_t kIoctlKinds[] = {'L', 0x12, 'X', 'f', 0x94, 'v', 0x03};
constexpr scmp_datum_t kIoctlKind = 0xFF00;                // the byte
constexpr scmp_datum_t kDeviceMapperIoctls = 0xFDU << 8U;  // DM_IOCTL, linux/dm-ioctl.h
constexpr scmp_datum_t kIoctlCommands[] = {FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, TCGETS, TIOCGWINSZ};

void AllowIoctls(CallFilter& filter) {
  for (const scmp_datum_t kind : kIoctlKinds) {
    filter.Add(SCMP_ACT_ALLOW, "ioctl", {{1, SCMP_CMP_MASKED_EQ, kIoctlKind, kind << 8U}});
  }
  for (const scmp_datum_t command : kIoctlCommands) {
    filter.Add(SCMP_ACT_ALLOW, "ioctl", {{1, SCMP_CMP_EQ, command, 0}});
  }
}

void AllowMappings(CallFilter& filter) {
  filter.AddAll(SCMP_ACT_ALLOW, kMappingCalls);
  filter.Add(SCMP_ACT_ALLOW, "ioctl", {{1, SCMP_CMP_MASKED_EQ, kIoctlKind, kDeviceMapperIoctls}});
  // libdevmapper asks whether there are semaphores, and complains in each command if there are none. It makes none:
  // mounter/lvm/lvm_program.cc and mounter/encryption/cryptsetup.cc switch them off.
  filter.Add(SCMP_ACT_ALLOW, "semctl", {{2, SCMP_CMP_EQ, SEM_INFO, 0}});
}

void RefuseDeviceMapper(CallFilter& filter) {
  filter.Add(SCMP_ACT_ERRNO(EPERM), "ioctl", {{1, SCMP_CMP_MASKED_EQ, kIoctlKind, kDeviceMapperIoctls}});
}

void RefuseNodes(CallFilter& filter, scmp_datum_t kind) {
  filter.Add(SCMP_ACT_ERRNO(EPERM), "mknod", {{1, SCMP_CMP_MASKED_EQ, S_IFMT, kind}});
  filter.Add(SCMP_ACT_ERRNO(EPERM), "mknodat", {{2, SCMP_CMP_MASKED_EQ, S_IFMT, kind}});
}

// clone3(2) gives ENOSYS, because a filter cannot see its flags. glibc then uses clone(2), which is allowed without new
// namespaces. Programs may not call unshare(2): ConfineProgramCalls.
void AllowProcesses(CallFilter& filter) {
  constexpr scmp_datum_t kNamespaces =
      CLONE_NEWCGROUP | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWUTS;
  filter.Add(SCMP_ACT_ALLOW, "clone", {{0, SCMP_CMP_MASKED_EQ, kNamespaces, 0}});
  filter.Add(SCMP_ACT_ALLOW, "unshare", {{0, SCMP_CMP_EQ, CLONE_NEWUSER, 0}});  // mapped ids: mounter/mount/id_map.h
}

// Refused to programs as well. This list matters where the helper's filter is not loaded: with --mounter=in-process and
// in the command line.
constexpr const char* kNotForPrograms[] = {
    // sockets
    "accept", "accept4", "bind", "connect", "listen", "socket", "socketpair",
    // keys, and calls of daemons
    "add_key", "chroot", "io_uring_setup", "keyctl", "open_by_handle_at", "personality", "quotactl", "request_key"};

// Refused also to a child that mounts: other processes, other namespaces, and the state of the host.
constexpr const char* kOfTheHost[] = {"acct",
                                      "bpf",
                                      "clock_settime",
                                      "delete_module",
                                      "finit_module",
                                      "init_module",
                                      "ioperm",
                                      "iopl",
                                      "kexec_file_load",
                                      "kexec_load",
                                      "perf_event_open",
                                      "pivot_root",
                                      "process_vm_readv",
                                      "process_vm_writev",
                                      "ptrace",
                                      "reboot",
                                      "setns",
                                      "settimeofday",
                                      "swapon",
                                      "swapoff",
                                      "unshare",
                                      "userfaultfd"};

}  // namespace

absl::Status ConfineHelperCalls(bool maps_devices) {
  CallFilter filter(SCMP_ACT_ERRNO(ENOSYS));
  filter.AddAll(SCMP_ACT_ALLOW, BasicCalls());
  filter.AddAll(SCMP_ACT_ALLOW, kHelperOnlyCalls);
  filter.AddAll(SCMP_ACT_ALLOW, kHelperCalls);
  for (const int call : {kCacheStat, kFchmodat2, kStatmount, kListmount}) filter.AddNumber(SCMP_ACT_ALLOW, call);
  for (const scmp_datum_t command : kQuotaCommands) {
    filter.AddNumber(SCMP_ACT_ALLOW, kQuotaCtlFd, {{1, SCMP_CMP_EQ, command, 0}});
  }
  AllowIoctls(filter);
  if (maps_devices) AllowMappings(filter);
  AllowProcesses(filter);
  return filter.Load();
}

absl::Status ConfineProgramCalls(ProgramKind kind) {
  CallFilter filter(SCMP_ACT_ALLOW);
  filter.AddAll(SCMP_ACT_ERRNO(EPERM), kHelperOnlyCalls);
  RefuseNodes(filter, S_IFCHR);
  switch (kind) {
    case ProgramKind::kTool:
      RefuseNodes(filter, S_IFBLK);  // cp makes sockets and pipes
      RefuseDeviceMapper(filter);
      break;
    case ProgramKind::kLvm:
    case ProgramKind::kLvmReport:
    case ProgramKind::kCryptsetup:
      break;
  }
  filter.AddAll(SCMP_ACT_ERRNO(EPERM), kNotForPrograms);
  filter.AddNumber(SCMP_ACT_ERRNO(EPERM), kQuotaCtlFd);
  filter.AddAll(SCMP_ACT_ERRNO(EPERM), kOfTheHost);
  return filter.Load();
}

absl::Status ConfineChildCalls() {
  CallFilter filter(SCMP_ACT_ALLOW);
  filter.AddAll(SCMP_ACT_ERRNO(EPERM), kOfTheHost);
  RefuseDeviceMapper(filter);
  return filter.Load();
}

}  // namespace mooring

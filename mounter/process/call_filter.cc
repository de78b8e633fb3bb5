#include "mounter/process/call_filter.h"

#include <cerrno>

#include "base/status.h"

namespace mooring {
namespace {

constexpr const char* kBasicCalls[] = {
    // memory and threads
    "brk", "madvise", "membarrier", "mmap", "mprotect", "mremap", "munmap", "futex", "futex_waitv", "get_robust_list",
    "set_robust_list", "rseq", "sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler",
    "set_tid_address", "exit", "exit_group", "restart_syscall", "prctl", "arch_prctl",
    // time, randomness, identity
    "clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "time", "getrandom", "getegid",
    "geteuid", "getgid", "getpid", "getppid", "gettid", "getuid", "getrlimit", "getrusage", "sysinfo", "uname",
    "getcwd",
    // files
    "access", "close", "close_range", "dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "fallocate",
    "fdatasync", "flock", "fstat", "fstatfs", "fsync", "ftruncate", "getdents64", "lseek", "lstat", "mkdir", "mkdirat",
    "newfstatat", "pread64", "preadv", "pwrite64", "pwritev", "read", "readlink", "readlinkat", "readv", "rename",
    "renameat", "renameat2", "rmdir", "stat", "statfs", "statx", "umask", "unlink", "unlinkat", "write", "writev",
    // waiting, own signals, children, further filters
    "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd2", "pipe2", "poll", "ppoll",
    "pselect6", "select", "timerfd_create", "timerfd_settime", "seccomp", "pidfd_open", "rt_sigaction",
    "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "sigaltstack", "wait4", "waitid"};

}  // namespace

std::span<const char* const> BasicCalls() { return kBasicCalls; }

CallFilter::CallFilter(std::uint32_t otherwise) : filter_(::seccomp_init(otherwise)) {
  if (filter_ == nullptr) {
    error_ = -ENOMEM;
    return;
  }
  Note(::seccomp_attr_set(filter_.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS));
  ::seccomp_attr_set(filter_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);  // a binary tree, so that all calls are equally fast
}

void CallFilter::Add(std::uint32_t action, const char* call, std::initializer_list<scmp_arg_cmp> arguments) {
  const int number = ::seccomp_syscall_resolve_name(call);
  if (number >= 0) AddNumber(action, number, arguments);
}

void CallFilter::AddAll(std::uint32_t action, std::span<const char* const> calls) {
  for (const char* call : calls) Add(action, call);
}

void CallFilter::AddNumber(std::uint32_t action, int number, std::initializer_list<scmp_arg_cmp> arguments) {
  if (error_ != 0) return;
  Note(::seccomp_rule_add_array(filter_.get(), action, number, static_cast<unsigned>(arguments.size()),
                                arguments.begin()));
}

absl::Status CallFilter::Load(Threads threads) {
  if (error_ == 0 && threads == Threads::kAll) Note(::seccomp_attr_set(filter_.get(), SCMP_FLTATR_CTL_TSYNC, 1));
  if (error_ == 0) Note(::seccomp_load(filter_.get()));
  return error_ == 0 ? absl::OkStatus() : ErrnoStatus(-error_, "load a seccomp filter");
}

}  // namespace mooring

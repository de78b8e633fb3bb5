#include "tests/support/syscall_faults.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <future>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file/unique_fd.h"

namespace mooring::testing {
namespace {

struct Call {
  std::string_view name;
  long number;
};

constexpr std::array kCalls = {
    Call{"open_tree", SYS_open_tree},
    Call{"move_mount", SYS_move_mount},
    Call{"mount_setattr", 442},
    Call{"fsopen", SYS_fsopen},
    Call{"fsconfig", SYS_fsconfig},
    Call{"fsmount", SYS_fsmount},
    Call{"mount", SYS_mount},
    Call{"umount2", SYS_umount2},
    Call{"statmount", 457},
    Call{"listmount", 458},
    Call{"openat2", SYS_openat2},
    Call{"openat", SYS_openat},
    Call{"statx", SYS_statx},
    Call{"newfstatat", SYS_newfstatat},
    Call{"statfs", SYS_statfs},
    Call{"fstatfs", SYS_fstatfs},
    Call{"faccessat", SYS_faccessat},
    Call{"faccessat2", SYS_faccessat2},
    Call{"readlinkat", SYS_readlinkat},
    Call{"getdents64", SYS_getdents64},
    Call{"read", SYS_read},
    Call{"pread64", SYS_pread64},
    Call{"lseek", SYS_lseek},
    Call{"ioctl", SYS_ioctl},
    Call{"fcntl", SYS_fcntl},
    Call{"flock", SYS_flock},
    Call{"mkdirat", SYS_mkdirat},
    Call{"mknodat", SYS_mknodat},
    Call{"unlinkat", SYS_unlinkat},
    Call{"renameat", SYS_renameat},
    Call{"renameat2", SYS_renameat2},
    Call{"fchown", SYS_fchown},
    Call{"fchmod", SYS_fchmod},
    Call{"ftruncate", SYS_ftruncate},
    Call{"fsync", SYS_fsync},
    Call{"fdatasync", SYS_fdatasync},
    Call{"pipe2", SYS_pipe2},
    Call{"clone", SYS_clone},
    Call{"clone3", SYS_clone3},
    Call{"pidfd_open", SYS_pidfd_open},
#ifdef SYS_open  // not on architectures that came later
    Call{"open", SYS_open},
    Call{"stat", SYS_stat},
    Call{"lstat", SYS_lstat},
    Call{"fstat", SYS_fstat},
    Call{"access", SYS_access},
    Call{"readlink", SYS_readlink},
    Call{"mkdir", SYS_mkdir},
    Call{"rmdir", SYS_rmdir},
    Call{"unlink", SYS_unlink},
    Call{"rename", SYS_rename},
    Call{"mknod", SYS_mknod},
#endif
};

std::vector<Call> CallsOf(const SyscallFault& fault) {
  std::vector<Call> calls(kCalls.begin(), kCalls.end());
  std::erase_if(calls, [&](const Call& call) { return !fault.only.empty() && call.name != fault.only; });
  return calls;
}

// Installs the filter for this thread and the threads that it starts. Returns the fd that reports its calls.
UniqueFd Announce(const std::vector<Call>& calls) {
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const Call& call : calls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<__u32>(call.number), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return UniqueFd(
      static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program)));
}

// The thread whose calls fail, and the fd that reports them.
struct Watched {
  pid_t thread = 0;
  int announced = -1;
};

class Supervisor {
 public:
  Supervisor(const SyscallFault& fault, Watched watched) : fault_(fault), watched_(watched) {}

  // Runs until `done` is readable. Returns the name of the call that failed.
  std::string Watch(const UniqueFd& done) {
    for (;;) {
      std::array waited = {pollfd{watched_.announced, POLLIN, 0}, pollfd{done.get(), POLLIN, 0}};
      if (::poll(waited.data(), waited.size(), -1) < 0) continue;
      if ((waited[0].revents & POLLIN) != 0) Answer();
      if ((waited[0].revents & POLLIN) == 0 && waited[1].revents != 0) return failed_;
    }
  }

 private:
  void Answer() {
    seccomp_notif call = {};
    if (::ioctl(watched_.announced, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) return;  // it was killed meanwhile
    seccomp_notif_resp answer = {};
    answer.id = call.id;
    if (IsToFail(call)) {
      answer.error = -fault_.error;
    } else {
      answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    }
    ::ioctl(watched_.announced, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
  bool IsToFail(const seccomp_notif& call) {
    if (static_cast<pid_t>(call.pid) != watched_.thread) return false;  // a program that it runs
    ++count_;
    if (fault_.and_after ? count_ < fault_.nth : count_ != fault_.nth) return false;
    const auto found =
        std::find_if(kCalls.begin(), kCalls.end(), [&](const Call& known) { return known.number == call.data.nr; });
    failed_ = found->name;
    return true;
  }

  const SyscallFault fault_;
  const Watched watched_;
  int count_ = 0;
  std::string failed_;
};

}  // namespace

FaultOutcome RunWithFault(const SyscallFault& fault, const std::function<absl::Status()>& work) {
  FaultOutcome outcome;
  const std::vector<Call> calls = CallsOf(fault);
  std::promise<Watched> begun;
  const UniqueFd done(::eventfd(0, EFD_CLOEXEC));
  UniqueFd announced;
  std::thread worker([&] {
    announced = Announce(calls);
    begun.set_value({::gettid(), announced.get()});
    if (announced.ok()) outcome.status = work();
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(done.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  });
  const Watched watched = begun.get_future().get();
  EXPECT_GE(watched.announced, 0) << "these tests need seccomp's user notification (Linux 5.5, root)";
  outcome.failed = Supervisor(fault, watched).Watch(done);
  worker.join();
  return outcome;
}

}  // namespace mooring::testing

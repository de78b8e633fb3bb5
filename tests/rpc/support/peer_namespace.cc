#include "tests/rpc/support/peer_namespace.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tests/support/kernel.h"

namespace mooring::testing {

PeerNamespace::PeerNamespace() {
  std::array<int, 2> ends = {-1, -1};
  EXPECT_EQ(::pipe(ends.data()), 0);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::unshare(CLONE_NEWNS) != 0) ::_exit(1);
    const char done = 'x';
    if (::write(ends[1], &done, 1) != 1) ::_exit(1);
    ::close_range(0, ~0U, 0);  // so that it holds no connection of this process open
    for (;;) ::pause();
  }
  char done = 0;
  EXPECT_EQ(::read(ends[0], &done, 1), 1);
  ::close(ends[0]);
  ::close(ends[1]);
}

PeerNamespace::~PeerNamespace() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

int PeerNamespace::Run(const std::string& shell_command) const {
  return testing::Run("nsenter -m -t " + std::to_string(pid_) + " -- sh -c '" + shell_command + "'");
}

std::string PeerNamespace::MountInfo() const { return ReadFile("/proc/" + std::to_string(pid_) + "/mountinfo"); }

}  // namespace mooring::testing

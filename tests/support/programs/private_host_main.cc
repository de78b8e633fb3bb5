// main() of tests whose programs start long-lived processes. Runs them in a mount namespace and a process namespace of
// their own, so that no mount and no process is left.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tests/support/mount_tests.h"

namespace {

int StatusOf(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

int FailFor(const char* what) {
  std::fprintf(stderr, "these tests mount for real: they need root (%s: %s)\n", what, std::strerror(errno));
  return 1;
}

// Reaps orphans as init does, and ends with the tests. Then the kernel ends all other processes of the namespace.
int ReapUntil(pid_t tests) {
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended == tests) return StatusOf(status);
    if (ended < 0 && errno != EINTR) return 1;
  }
}

int BeInit() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return FailFor("private mounts");
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) return FailFor("/proc");
  const pid_t tests = ::fork();
  if (tests == 0) std::_Exit(mooring::testing::RunMountTests());
  return tests < 0 ? FailFor("fork") : ReapUntil(tests);
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (::testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  if (::geteuid() != 0 || ::unshare(CLONE_NEWNS | CLONE_NEWPID) != 0) return FailFor("namespaces of their own");
  const pid_t init = ::fork();
  if (init == 0) std::_Exit(BeInit());
  int status = 0;
  while (init > 0 && ::waitpid(init, &status, 0) < 0 && errno == EINTR) {
  }
  return init < 0 ? FailFor("fork") : StatusOf(status);
}

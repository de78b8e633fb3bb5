// The process that makes a user namespace for OpenIdMap.
#include "mounter/mount/id_map.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <csignal>

#include "mounter/process/call_filter.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

// The command is killed when it opens uid_map for writing.
TEST(IdMapTest, EndsWithACommandThatIsKilled) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const pid_t command = ::fork();
  if (command == 0) {
    CallFilter filter(SCMP_ACT_ALLOW);
    filter.Add(SCMP_ACT_KILL_PROCESS, "openat", {{2, SCMP_CMP_EQ, O_WRONLY | O_CLOEXEC, 0}});
    if (!filter.Load().ok()) ::_exit(1);
    OpenIdMap("b:0:100000:65536").IgnoreError();
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(command, &status, 0), command);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << status;
  const auto has_no_child = [] { return ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD; };
  EXPECT_TRUE(Eventually(has_no_child));
  if (!has_no_child()) ::mooring::testing::Run(fmt::format("pkill -KILL -P {}", ::getpid()));
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// As RestrictNamespaces= of systemd does it.
TEST(IdMapTest, ARefusedNamespaceSaysWhoMayRefuseIt) {
  const pid_t confined = ::fork();
  if (confined == 0) {
    CallFilter filter(SCMP_ACT_ALLOW);
    filter.AddAll(SCMP_ACT_ERRNO(EPERM), std::array{"unshare"});
    if (!filter.Load().ok()) ::_exit(1);
    const absl::Status refused = OpenIdMap("b:0:100000:65536").status();
    const bool says = refused.message().find("RestrictNamespaces=") != std::string_view::npos;
    ::_exit(absl::IsFailedPrecondition(refused) && says ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(confined, &status, 0), confined);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace mooring::testing

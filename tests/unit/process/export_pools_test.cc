#include "plugin/process/export_pools.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <utime.h>

#include <algorithm>

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

// A file server knows hosts by their names.
TEST(HostNameOfServers, ASecondHostOfThatNameIsRefusedWhileTheFirstLives) {
  const TempDir records;
  EXPECT_OK(CheckHostName(records.path(), "db", "boot-1"));
  ASSERT_OK(RenewHostName(records.path(), "db", "boot-1"));
  EXPECT_OK(CheckHostName(records.path(), "db", "boot-1")) << "another plugin of the host";
  EXPECT_OK(CheckHostName(records.path(), "web", "boot-2"));
  EXPECT_THAT(CheckHostName(records.path(), "db", "boot-2"),
              FailsWith(StatusCode::kFailedPrecondition, "another host with the name 'db'"));
  for (const auto& entry : std::filesystem::directory_iterator(records.path())) {
    if (!entry.path().filename().string().starts_with("host-")) continue;
    const utimbuf old = {.actime = 1, .modtime = 1};
    ASSERT_EQ(::utime(entry.path().c_str(), &old), 0);
  }
  EXPECT_OK(CheckHostName(records.path(), "db", "boot-2")) << "it has been silent for long";
}

std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

TEST(ResolverTest, ANameWithoutAnAnswerHoldsNoOther) {
  const std::vector<pid_t> before = Children();
  const auto resolver = Resolver::Start({"stopped.invalid", "localhost", "stopped.invalid"}, {});
  ASSERT_OK(resolver);
  std::vector<pid_t> asked = Children();
  std::erase_if(asked, [&](pid_t child) { return std::find(before.begin(), before.end(), child) != before.end(); });
  ASSERT_THAT(asked, SizeIs(2));
  ASSERT_EQ(::kill(asked.front(), SIGSTOP), 0);
  absl::Status stopped;
  std::atomic<bool> has_ended = false;
  std::thread waiting([&] {
    stopped = (*resolver)->Find("stopped.invalid").status();
    has_ended = true;
  });
  EXPECT_OK((*resolver)->Find("localhost"));
  EXPECT_FALSE(has_ended);
  ASSERT_EQ(::kill(asked.front(), SIGCONT), 0);
  waiting.join();
  EXPECT_THAT(stopped, FailsWith(StatusCode::kUnavailable, "find the address of 'stopped.invalid'"));
  ASSERT_EQ(::kill(asked.back(), SIGKILL), 0);
  ASSERT_EQ(::waitpid(asked.back(), nullptr, 0), asked.back());
  EXPECT_THAT((*resolver)->Find("localhost").status(), FailsWith(StatusCode::kUnavailable, "start the plugin again"));
}

TEST(ResolverTest, FindsTheAddressesOfItsNamesAlone) {
  const auto resolver = Resolver::Start({"localhost", "192.0.2.1"}, {});
  ASSERT_OK(resolver);
  EXPECT_THAT(*(*resolver)->Find("192.0.2.1"), ElementsAre("192.0.2.1"));
  EXPECT_THAT(*(*resolver)->Find("localhost"), Not(IsEmpty()));
  EXPECT_THAT((*resolver)->Find("elsewhere").status(), FailsWith(StatusCode::kUnavailable, "'elsewhere'"));
}

}  // namespace
}  // namespace mooring::testing

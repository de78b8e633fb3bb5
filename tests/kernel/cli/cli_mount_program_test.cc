// `mooring mount … --fs-type TYPE` where a program /sbin/mount.TYPE mounts, and somebody ends the command.
#include <signal.h>
#include <sys/wait.h>

#include <optional>

#include "mounter/mount/scratch.h"
#include "tests/kernel/cli/cli_program.h"
#include "tests/kernel/mount/sbin.h"

namespace mooring::testing {
namespace {

class CliMountProgramTest : public CliTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    sbin_.emplace(dir_.path());
    image_ = Sparse("image", 16 * kMiB);
    Overwrite(image_, 0, "no filesystem that libblkid knows");
  }
  void TearDown() override {
    sbin_.reset();
    CliTest::TearDown();
  }

  pid_t Start() const {
    const std::string errors = File("errors"), target = Path("dst");
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    const int file = ::open(errors.c_str(), O_WRONLY | O_CLOEXEC);
    ::dup2(file, STDERR_FILENO);
    ::execl(MOORING_BINARY, "mooring", "mount", "image", image_.c_str(), target.c_str(), "--fs-type", "faketype",
            nullptr);
    ::_exit(127);
  }

  std::optional<Sbin> sbin_;
  std::string image_;
};

TEST_P(CliMountProgramTest, EndsTheProgramWithTheCommand) {
  const int signal = GetParam();
  sbin_->Add("mount.faketype", "sleep 1000 & echo $! >$DIR/child; echo $$ >$DIR/own; touch $DIR/ready; wait");
  const pid_t command = Start();
  ASSERT_TRUE(Eventually([&] { return Exists(Path("ready")); }));
  ASSERT_EQ(::kill(command, signal), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(command, &status, 0), command);
  for (const char* name : {"child", "own"}) {
    const pid_t pid = std::stoi(ReadFile(Path(name)));
    const bool ended = Eventually([&] { return !Runs(pid); });
    EXPECT_TRUE(ended) << name;
    if (!ended) ::kill(pid, SIGKILL);
  }
  EXPECT_TRUE(NoLoopOver(image_));
  EXPECT_FALSE(Exists(Path("dst")));
  if (signal == SIGKILL) return RemoveDeadScratches();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
  EXPECT_THAT(ReadFile(Path("errors")), HasSubstr(fmt::format("interrupted by signal {}", signal)));
}

INSTANTIATE_TEST_SUITE_P(Signals, CliMountProgramTest, ::testing::Values(SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGKILL));

}  // namespace
}  // namespace mooring::testing

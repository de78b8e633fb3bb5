// A plugin under resource limits (setrlimit(2), pids.max), and with standard files that are closed or lead nowhere.
#include <sys/wait.h>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

constexpr uid_t kFew = 54317;  // a user without other processes: RLIMIT_NPROC counts all of a user
constexpr std::chrono::seconds kBounded{15};

// Processes of a user that do nothing.
class Crowd {
 public:
  Crowd(uid_t user, int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        const bool done = ::setresuid(user, user, user) == 0;
        while (done) ::pause();
        ::_exit(1);
      }
      if (child > 0) children_.push_back(child);
    }
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  ~Crowd() {
    for (const pid_t child : children_) ::kill(child, SIGKILL);
    for (const pid_t child : children_) ::waitpid(child, nullptr, 0);
  }

 private:
  std::vector<pid_t> children_;
};

class Limits : public RpcTest {
 protected:
  void SetUp() override {
    if (std::getenv("MOORING_TEST_USER") != nullptr) GTEST_SKIP() << "these tests set --user by themselves";
  }

  // `commands` of the shell run before the plugin.
  void StartAfter(const std::string& commands) {
    plugin().options().first = commands;
    Start();
  }
  // Root is exempt from this limit.
  void AllowProcesses(int most) {
    if (plugin().options().first.empty()) {
      AllowSocketsOf(kFew);
      AddFlags({"--user", std::to_string(kFew)});
    }
    plugin().options().first = fmt::format("prlimit --pid $$ --nproc={0}:{0}", most);
  }
  void ExpectServes() {
    const std::string id = Published(Target("a"));
    EXPECT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
    UnpublishAndUnstage(id, Target("a"));
  }
  std::string LinkOf(int fd) {  // of the running plugin
    return fs::read_symlink("/proc/" + std::to_string(plugin().pid()) + "/fd/" + std::to_string(fd));
  }
};

TEST_F(Limits, AStartWithoutEnoughThreadsEndsWithTheReason) {
  for (const int most : {1, 2, 3, 4, 5, 6, 8, 10, 12}) {
    AllowProcesses(most);
    plugin().Launch();
    EXPECT_EQ(plugin().Wait(kBounded), 1) << "with " << most << ":\n" << plugin().Log();
    EXPECT_THAT(plugin().Log(), HasSubstr("the limit of processes is reached")) << most;
    EXPECT_THAT(plugin().Log(), Not(HasSubstr("terminate called"))) << most;
    fs::remove(plugin().options().log_file);
  }
}

TEST_F(Limits, AStartWithoutEnoughFilesEndsWithTheReason) {
  for (const int most : {6, 8, 10, 12, 14, 16, 18, 20}) {
    plugin().options().first = fmt::format("ulimit -n {}", most);
    plugin().Launch();
    EXPECT_EQ(plugin().Wait(kBounded), 1) << "with " << most << ":\n" << plugin().Log();
    fs::remove(plugin().options().log_file);
  }
}

// Other processes of its user take the rest of the limit.
TEST_F(Limits, SigtermEndsAPluginThatMayStartNoMoreThreads) {
  constexpr int kMost = 60;
  AllowProcesses(kMost);
  Start();
  driver().Disconnect();
  const Crowd others(kFew, kMost);
  std::vector<std::thread> callers;
  for (int i = 0; i < 12; ++i) {
    callers.emplace_back([this] {
      for (int calls = 0; calls < 5; ++calls) Driver(dir() / "csi.sock").Send(ProbeRequest());
    });
  }
  for (std::thread& caller : callers) caller.join();
  std::this_thread::sleep_for(std::chrono::seconds(2));  // gRPC's timers want further threads
  ::kill(plugin().pid(), SIGTERM);
  EXPECT_EQ(plugin().Wait(kBounded), 0);
}

TEST_F(Limits, AVolumeBeyondTheLargestFileIsRefusedAndThePluginGoesOn) {
  StartAfter("ulimit -f 8192");  // blocks of 512 bytes
  EXPECT_EQ(CountInLog("ulimit -f"), 1);
  EXPECT_THAT(driver().Create("large"), FailsWith(Code::kOutOfRange, "File too large"));
  EXPECT_TRUE(plugin().running());
  EXPECT_TRUE(IsReady());
  EXPECT_EQ(driver().List()->entries_size(), 0);
}

TEST_F(Limits, ASoftLimitOfFilesIsRaised) {
  StartAfter("ulimit -S -f 8192");
  ExpectServes();
}

TEST_F(Limits, APoolWithoutInodesHasNoRoomAndSaysWhy) {
  const std::string pool = dir() / "pool";
  MountTmpfs(pool, "size=256m,nr_inodes=3,mode=700");
  Shell(fmt::format("touch {0}/a {0}/b {0}/c 2> /dev/null", pool));
  AddFlags({"--pool", "name=p,backend=image,path=" + pool});
  Start();
  EXPECT_EQ(driver().Available("p"), 0);
  EXPECT_THAT(driver().Send(CreateRequest("v", Mount(), kVolumeBytes, {{"pool", "p"}})),
              FailsWith(Code::kOutOfRange, "has no inode left"));
}

TEST_F(Limits, ALogThatNobodyReadsDoesNotEndThePlugin) {
  StartAfter("mkfifo " + (dir() / "log") + "; head -n 1 " + (dir() / "log") + " > /dev/null & exec 2> " +
             (dir() / "log"));
  ExpectServes();
}

TEST_F(Limits, ClosedStandardFilesStayClosedToThePlugin) {
  StartAfter("exec <&- >&- 2>&-");
  ExpectServes();
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) EXPECT_EQ(LinkOf(fd), "/");
}

}  // namespace
}  // namespace mooring::testing

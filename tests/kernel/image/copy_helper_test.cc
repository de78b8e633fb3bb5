// Copies through the helper: which ones it refuses, and that nothing stays frozen when it ends during a copy.
#include <signal.h>
#include <sys/wait.h>

#include <sstream>

#include "tests/kernel/helper/helper_test.h"

namespace mooring::testing {
namespace {

// Too much to be copied at once where nothing can be shared.
void FillLargely(const std::string& place) {
  ASSERT_EQ(Run(fmt::format("head -c 900M /dev/zero | tr '\\0' x > {0}/data && sync -f {0}", place)), 0);
}

// The kernel clears needs_recovery when the journal is flushed, which a freeze of a writable ext4 does.
bool IsFrozen(const std::string& device) {
  const UniqueFd fd(::open(device.c_str(), O_RDONLY | O_CLOEXEC));
  constexpr off_t kIncompatible = 1024 + 0x60;
  constexpr std::uint32_t kNeedsRecovery = 0x4;
  std::uint32_t features = kNeedsRecovery;
  EXPECT_EQ(::pread(fd.get(), &features, sizeof(features), kIncompatible), 4);
  return (features & kNeedsRecovery) == 0;
}

::testing::AssertionResult EventuallyFrozen(const std::string& image) {
  const std::string device = LoopsOver(image).at(0).device;
  for (int left = 60000; left > 0; --left) {
    if (IsFrozen(device)) return ::testing::AssertionSuccess();
    ::usleep(200);
  }
  return ::testing::AssertionFailure() << device << " was not frozen at any moment that was looked at";
}

// A write that waits for a thaw cannot be interrupted, so it runs in another process.
::testing::AssertionResult WritableWithinASecond(const std::string& directory) {
  const int status = Run("timeout 1 touch " + directory + "/written-after");
  return status == 0 ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << "still frozen";
}

std::vector<pid_t> TreeOf(pid_t root) {
  std::vector<pid_t> tree = {root};
  for (std::size_t at = 0; at < tree.size(); ++at) {
    std::istringstream children(ReadFile(fmt::format("/proc/{0}/task/{0}/children", tree[at])));
    for (pid_t child = 0; children >> child;) tree.push_back(child);
  }
  return tree;
}

std::string NameOf(pid_t pid) { return ReadFile(fmt::format("/proc/{}/comm", pid)); }

class CopyHelperTest : public HelperTest {};
TEST_F(CopyHelperTest, NothingButVolumesIsCopiedAndOnlyBesideThem) {
  Dir("outside");
  Ext4Image("outside/disk.img");
  Ext4Image("volumes/a.img");
  const std::string a = Image("a.img"), disk = Path("outside/disk.img");
  constexpr char kWhere[] = "directories of volumes";
  EXPECT_OK(helper().Copy({ImageCopyOf(a, Image("b.img"))}));
  EXPECT_THAT(helper().Copy({ImageCopyOf(disk, Image("x"))}), Refused(kWhere));
  EXPECT_THAT(helper().Copy({ImageCopyOf(a, Path("outside/x"))}), Refused(kWhere));
  EXPECT_THAT(helper().Copy({ImageCopyOf(a, Image("c")), ImageCopyOf(disk, Image("x"))}), Refused(kWhere));
  EXPECT_THAT(helper().Thaw(disk), Refused(kWhere));
  EXPECT_THAT(helper().Copy({ImageCopyOf(a, Image("b.img"))}), FailsWith(StatusCode::kAlreadyExists, "b.img"));
  std::filesystem::create_symlink(disk, Image("link"));
  std::filesystem::create_hard_link(disk, Image("hard"));
  std::filesystem::create_directory_symlink(Path("outside"), Image("dir"));
  EXPECT_THAT(helper().Copy({ImageCopyOf(Image("link"), Image("x"))}), Refused("link"));
  EXPECT_THAT(helper().Copy({ImageCopyOf(Image("hard"), Image("x"))}), Refused("names"));
  EXPECT_THAT(helper().Copy({ImageCopyOf(a, Image("dir/x"))}), Refused("symbolic link"));
  EXPECT_THAT(helper().Copy({ImageCopyOf(a, Image("link"))}), FailsWith(StatusCode::kAlreadyExists, ""));
  EXPECT_THAT(Entries(Path("volumes")), UnorderedElementsAre("a.img", "b.img", "link", "hard", "dir"));
  EXPECT_THAT(Entries(Path("outside")), UnorderedElementsAre("disk.img"));
}

TEST_F(CopyHelperTest, GuardThawsAfterTheHelperWasKilled) {
  Ext4Image("volumes/a.img", 2048 * kMiB);
  ASSERT_OK(helper().Mount(MountOfImage("a.img", "staged")));
  FillLargely(Target("staged"));
  std::thread copy([this] {
    EXPECT_THAT(helper().Copy({ImageCopyOf(Image("a.img"), Image("b.img"))}),
                FailsWith(StatusCode::kUnavailable, "copy"));
  });
  EXPECT_TRUE(EventuallyFrozen(Image("a.img")));
  KillHelper();
  EXPECT_TRUE(WritableWithinASecond(Target("staged")));
  copy.join();
  EXPECT_OK(helper().Thaw(Image("a.img")));
  EXPECT_FALSE(Exists(Image("b.img")));
  EXPECT_OK(helper().Unmount(UnmountOf(Target("staged"))));
  EXPECT_TRUE(NoLoopOver(Image("a.img")));
}

class CopyOrphanTest : public HelperProcessTest {
 protected:
  // Starts a plugin that copies a mounted volume, and waits until the filesystem is frozen.
  pid_t StartCopyAndAwaitFreeze(const std::string& cgroup = "") {
    Ext4Image("volumes/a.img", 2048 * kMiB);
    EXPECT_OK(mounter_.Mount(MountOfImage("a.img", "staged")));
    FillLargely(Target("staged"));
    const pid_t plugin = StartPluginThatCopies(cgroup);
    EXPECT_TRUE(EventuallyFrozen(Image("a.img")));
    return plugin;
  }

  void ExpectThawed(pid_t killed_plugin) {
    EXPECT_TRUE(WritableWithinASecond(Target("staged")));
    ASSERT_EQ(::waitpid(killed_plugin, nullptr, 0), killed_plugin);
    EXPECT_FALSE(Exists(Image("b.img")));
  }

 private:
  // Acts as a plugin, and is killed before the copy ends.
  pid_t StartPluginThatCopies(const std::string& cgroup = "") {
    const pid_t child = ::fork();
    if (child != 0) return child;
    if (!cgroup.empty()) TryWrite(cgroup, "0");
    absl::StatusOr<HelperSpawner> spawner = StartSpawner();
    auto helper = HelperMounter::Start(*std::move(spawner));
    (*helper)->Copy({ImageCopyOf(Image("a.img"), Image("b.img"))}).IgnoreError();
    ::_exit(0);
  }
};

TEST_F(CopyOrphanTest, EndOfThePluginLeavesNothingFrozen) {
  const pid_t plugin = StartCopyAndAwaitFreeze();
  ::kill(plugin, SIGKILL);
  EXPECT_TRUE(Eventually([this] { return HelperLog().find("in the middle of a call") != std::string::npos; }))
      << "the copy was over before: " << Exists(Image("b.img"));
  ExpectThawed(plugin);
}

// Plugin, spawner and helper, at once.
TEST_F(CopyOrphanTest, GuardThawsAfterAllWereKilled) {
  const pid_t plugin = StartCopyAndAwaitFreeze();
  for (const pid_t pid : TreeOf(plugin)) {
    if (NameOf(pid) != "mooring-thaw\n") ::kill(pid, SIGKILL);
  }
  ExpectThawed(plugin);
}

// An orchestrator that ends a container does this, and the kernel when a cgroup has no memory left.
TEST_F(CopyOrphanTest, GuardThawsAfterTheCgroupWasKilled) {
  const std::string root = Exists("/sys/fs/cgroup/unified") ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup";
  const std::string group = fmt::format("{}/mooring-test-{}", root, ::getpid());
  if (::mkdir(group.c_str(), 0755) != 0 || !Exists(group + "/cgroup.kill")) {
    ::rmdir(group.c_str());
    GTEST_SKIP() << "cgroup v2 is not writable here";
  }
  const pid_t plugin = StartCopyAndAwaitFreeze(group + "/cgroup.procs");
  EXPECT_EQ(TryWrite(group + "/cgroup.kill", "1"), 0);
  ExpectThawed(plugin);
  EXPECT_TRUE(Eventually([&group] { return ::rmdir(group.c_str()) == 0; })) << "processes are left in it";
}

}  // namespace
}  // namespace mooring::testing

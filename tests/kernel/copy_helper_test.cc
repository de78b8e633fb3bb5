// Copies through the helper: what it refuses, and that nothing stays frozen when it ends in the middle of one.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/kernel/helper_test.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;
using ::testing::UnorderedElementsAre;

ImageCopy CopyOf(const std::string& source, const std::string& destination) {
  return {source, destination, static_cast<std::uint64_t>(StatOf(source).st_size), ""};
}

// More than is copied at once where nothing can be shared.
void FillLargely(const std::string& place) {
  ASSERT_EQ(Run(fmt::format("head -c 900M /dev/zero | tr '\\0' x > {0}/data && sync -f {0}", place)), 0);
}

// Its data is being written, so the source is frozen.
bool CopyIsUnderWay(const std::string& directory) {
  for (const std::string& name : Entries(directory)) {
    if (name.find(".copying-") != std::string::npos && StatOf(directory + "/" + name).st_blocks > 2048) return true;
  }
  return false;
}

void AwaitCopyUnderWay(const std::string& directory) {
  for (int left = 5000; left > 0 && !CopyIsUnderWay(directory); --left) ::usleep(1000);
  ASSERT_TRUE(CopyIsUnderWay(directory));
}

class CopyHelperTest : public HelperTest {};
TEST_F(CopyHelperTest, NothingButVolumesIsCopiedAndOnlyBesideThem) {
  Dir("outside");
  Ext4Image("outside/disk.img");
  Ext4Image("volumes/a.img");
  const std::string a = Image("a.img"), disk = Path("outside/disk.img");
  constexpr char kWhere[] = "directories of volumes";
  EXPECT_OK(helper().Copy({CopyOf(a, Image("b.img"))}));
  EXPECT_THAT(helper().Copy({CopyOf(disk, Image("x"))}), FailsWith(StatusCode::kFailedPrecondition, kWhere));
  EXPECT_THAT(helper().Copy({CopyOf(a, Path("outside/x"))}), FailsWith(StatusCode::kFailedPrecondition, kWhere));
  EXPECT_THAT(helper().Copy({CopyOf(a, Image("c")), CopyOf(disk, Image("x"))}),
              FailsWith(StatusCode::kFailedPrecondition, kWhere));
  EXPECT_THAT(helper().Thaw(disk), FailsWith(StatusCode::kFailedPrecondition, kWhere));
  EXPECT_THAT(helper().Copy({CopyOf(a, Image("b.img"))}), FailsWith(StatusCode::kAlreadyExists, "b.img"));
  std::filesystem::create_symlink(disk, Image("link"));
  std::filesystem::create_hard_link(disk, Image("hard"));
  std::filesystem::create_directory_symlink(Path("outside"), Image("dir"));
  EXPECT_THAT(helper().Copy({CopyOf(Image("link"), Image("x"))}), FailsWith(StatusCode::kFailedPrecondition, "link"));
  EXPECT_THAT(helper().Copy({CopyOf(Image("hard"), Image("x"))}), FailsWith(StatusCode::kFailedPrecondition, "names"));
  EXPECT_THAT(helper().Copy({CopyOf(a, Image("dir/x"))}), FailsWith(StatusCode::kFailedPrecondition, "symbolic link"));
  EXPECT_THAT(helper().Copy({CopyOf(a, Image("link"))}), FailsWith(StatusCode::kAlreadyExists, ""));
  EXPECT_THAT(Entries(Path("volumes")), UnorderedElementsAre("a.img", "b.img", "link", "hard", "dir"));
  EXPECT_THAT(Entries(Path("outside")), UnorderedElementsAre("disk.img"));
}

TEST_F(CopyHelperTest, KilledWhileFrozenIsThawedByThaw) {
  Ext4Image("volumes/a.img", 2048 * kMiB);
  ASSERT_OK(helper().Mount(MountOfImage("a.img", "staged")));
  FillLargely(Target("staged"));
  std::thread copy([this] {
    EXPECT_THAT(helper().Copy({CopyOf(Image("a.img"), Image("b.img"))}), FailsWith(StatusCode::kUnavailable, "copy"));
  });
  AwaitCopyUnderWay(Path("volumes"));
  KillHelper();
  copy.join();
  EXPECT_NE(Tool("fsfreeze -f " + Target("staged")), 0) << "it was to be frozen still";
  ASSERT_OK(helper().Thaw(Image("a.img")));
  EXPECT_EQ(TryWrite(Target("staged/file"), "text"), 0);
  EXPECT_FALSE(Exists(Image("b.img")));
  EXPECT_OK(helper().Unmount(UnmountOf(Target("staged"))));
  EXPECT_TRUE(NoLoopOver(Image("a.img")));
}

class CopyOrphanTest : public HelperProcessTest {
 protected:
  // As a plugin does, and it does not live to see the end.
  pid_t StartPluginThatCopies() {
    const pid_t child = ::fork();
    if (child != 0) return child;
    absl::StatusOr<Keeper> keeper = StartKeeper();
    auto helper = HelperMounter::Start(*std::move(keeper));
    (*helper)->Copy({CopyOf(Image("a.img"), Image("b.img"))}).IgnoreError();
    ::_exit(0);
  }
};

TEST_F(CopyOrphanTest, HelperThatEndsWithItsPluginLeavesNothingFrozen) {
  Ext4Image("volumes/a.img", 2048 * kMiB);
  ASSERT_OK(mounter_.Mount(MountOfImage("a.img", "staged")));
  FillLargely(Target("staged"));
  const pid_t plugin = StartPluginThatCopies();
  AwaitCopyUnderWay(Path("volumes"));
  ::kill(plugin, SIGKILL);
  ASSERT_EQ(::waitpid(plugin, nullptr, 0), plugin);
  EXPECT_TRUE(Eventually([this] { return HelperLog().find("in the middle of a call") != std::string::npos; }))
      << "the copy was over before: " << Exists(Image("b.img"));
  EXPECT_TRUE(Eventually([this] { return Tool("fsfreeze -f " + Target("staged") + " 2>/dev/null") == 0; }));
  EXPECT_EQ(Tool("fsfreeze -u " + Target("staged")), 0);
  EXPECT_FALSE(Exists(Image("b.img")));
}

}  // namespace
}  // namespace mooring::testing

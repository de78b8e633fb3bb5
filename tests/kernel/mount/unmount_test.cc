// Unmount removes a mount, is never forced, and never removes data.
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

class UnmountTest : public KernelTest {
 protected:
  std::string Mounted(const std::string& name) {
    EXPECT_OK(mounter_.Bind(BindOf(Dir("source"), Path(name))));
    return Path(name);
  }
  absl::Status Unmount(const std::string& target) { return mounter_.Unmount(UnmountOf(target)); }
  absl::Status UnmountAndRemove(const std::string& target) { return mounter_.Unmount(UnmountOf(target, true)); }
};

TEST_F(UnmountTest, RemovesTheMountAndLeavesTheTarget) {
  const std::string target = Mounted("target");
  ASSERT_OK(Unmount(target));
  EXPECT_EQ(OptionsAt(target), "nothing");
  EXPECT_TRUE(Exists(target));
}

TEST_F(UnmountTest, PathThatIsNotMountedOrMissingIsOk) {
  for (const std::string& path : {Dir("directory"), File("file")}) {
    EXPECT_OK(Unmount(path));
    EXPECT_TRUE(Exists(path));
  }
  for (const std::string& path : {Path("missing"), Path("no/such/parent")}) {
    EXPECT_OK(Unmount(path));
    EXPECT_OK(UnmountAndRemove(path));
  }
}

TEST_F(UnmountTest, OpenFileIsBusyAndTheMountStays) {
  const std::string target = Mounted("target");
  const UniqueFd file(::open((target + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_THAT(UnmountAndRemove(target), Refused(target));
  EXPECT_EQ(MountsAt(target).size(), 1U);
  EXPECT_TRUE(Exists(target + "/file"));
}

TEST_F(UnmountTest, WorkingDirectoryIsBusyAndTheMountStays) {
  const std::string target = Mounted("target");
  const std::string answer = AskInChild([&] {
    if (::chdir(target.c_str()) != 0) return std::string("cannot enter");
    return Unmount(target).ToString();
  });
  EXPECT_THAT(answer, HasSubstr("FAILED_PRECONDITION"));
  EXPECT_EQ(MountsAt(target).size(), 1U);
}

TEST_F(UnmountTest, MountBelowTheTargetIsBusyAndBothStay) {
  const std::string target = Mounted("target");
  Dir("source/sub");
  ASSERT_EQ(::mount("none", (target + "/sub").c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_THAT(UnmountAndRemove(target), Refused(target));
  EXPECT_EQ(MountsBelow(target).size(), 2U);
}

// A statfs of a monitoring agent holds a mount for microseconds.
TEST_F(UnmountTest, ShortUseIsWaitedFor) {
  const std::string target = Mounted("target");
  const std::string answer = AskInChild([&] {
    UniqueFd file(::open(target.c_str(), O_RDONLY | O_CLOEXEC));
    if (::fork() == 0) {
      ::usleep(5000);
      ::_exit(0);
    }
    file.reset();
    return Unmount(target).ToString();
  });
  EXPECT_EQ(answer, "OK");
}

TEST_F(UnmountTest, SymlinkIsNeverFollowed) {
  const std::string target = Mounted("target");
  ASSERT_EQ(::symlink(target.c_str(), Path("link").c_str()), 0);
  EXPECT_OK(Unmount(Path("link"))) << "nothing is mounted at the link itself";
  EXPECT_THAT(UnmountAndRemove(Path("link")), Refused(Path("link")));
  EXPECT_TRUE(Exists(Path("link")));
  EXPECT_EQ(MountsAt(target).size(), 1U);
}

TEST_F(UnmountTest, SymlinkInThePathIsRefused) {
  Dir("real");
  const std::string target = Mounted("real/target");
  ASSERT_EQ(::symlink(Path("real").c_str(), Path("link").c_str()), 0);
  EXPECT_THAT(Unmount(Path("link/target")), Refused(Path("link")));
  EXPECT_EQ(MountsAt(target).size(), 1U);
}

TEST_F(UnmountTest, OnlyTheTopmostMountOfAStackIsRemovedAndTheTargetStays) {
  const std::string target = Mounted("target");
  const std::string below = MountAt(target)->root;
  ASSERT_EQ(::mount("none", target.c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_FALSE(UnmountAndRemove(target).ok());
  ASSERT_EQ(MountsAt(target).size(), 1U);
  EXPECT_EQ(MountAt(target)->root, below);
  EXPECT_TRUE(Exists(target));
}

TEST_F(UnmountTest, EmptyDirectoryIsRemovedMountedOrNot) {
  ASSERT_OK(UnmountAndRemove(Mounted("mounted")));
  EXPECT_FALSE(Exists(Path("mounted")));
  ASSERT_OK(UnmountAndRemove(Dir("plain")));
  EXPECT_FALSE(Exists(Path("plain")));
}

TEST_F(UnmountTest, FileOfABoundDeviceIsRemoved) {
  const std::string device = Losetup(Sparse("image", kMiB));
  ASSERT_OK(mounter_.Bind(NodeBindOf(device, Path("target"))));
  ASSERT_OK(UnmountAndRemove(Path("target")));
  EXPECT_FALSE(Exists(Path("target")));
  EXPECT_TRUE(Exists(device));
}

TEST_F(UnmountTest, FilesWithDataAreNotRemoved) {
  Dir("directory");
  File("directory/file", "data");
  EXPECT_THAT(UnmountAndRemove(Path("directory")), Refused(Path("directory")));
  EXPECT_EQ(ReadFile(Path("directory/file")), "data");
  EXPECT_THAT(UnmountAndRemove(File("file", "data")), Refused(Path("file")));
  EXPECT_EQ(ReadFile(Path("file")), "data");
}

TEST_F(UnmountTest, DataOfTheVolumeStays) {
  const std::string target = Mounted("target");
  ASSERT_EQ(TryWrite(target + "/file", "data"), 0);
  ASSERT_OK(UnmountAndRemove(target));
  EXPECT_EQ(ReadFile(Path("source/file")), "data");
}

TEST_F(UnmountTest, DeviceNodeThatIsNotAMountIsKept) {
  ASSERT_EQ(::mknod(Path("node").c_str(), S_IFBLK | 0600, StatOf("/dev/loop0").st_rdev), 0);
  EXPECT_THAT(UnmountAndRemove(Path("node")), Refused(Path("node")));
  EXPECT_TRUE(Exists(Path("node")));
}

struct OddName {
  const char* test;  // what ctest calls it
  const char* name;
};

class OddNameTest : public UnmountTest, public ::testing::WithParamInterface<OddName> {};

TEST_P(OddNameTest, IsMountedFoundListedAndUnmountedLikeAnyOther) {
  const std::string name = GetParam().name;
  const std::string target = Mounted(name);
  EXPECT_EQ(MountsAt(target).size(), 1U);
  const auto found = mounter_.Find(target);
  ASSERT_OK(found);
  ASSERT_TRUE(found->mount);
  EXPECT_EQ(found->mount->target, target);
  const auto listed = mounter_.List(target);
  ASSERT_OK(listed);
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().target, target);
  ASSERT_OK(UnmountAndRemove(target));
  EXPECT_THAT(Entries(dir_.path()), ElementsAre("source"));
}

INSTANTIATE_TEST_SUITE_P(Names, OddNameTest,
                         ::testing::Values(OddName{"Blank", "with space"},
                                           OddName{"BlanksAround", " leading and trailing "},
                                           OddName{"Backslash", "back\\slash"}, OddName{"OctalBlank", "\\040"},
                                           OddName{"OctalBackslash", "a\\134b"}, OddName{"Unicode", "ümläut \u2603"},
                                           OddName{"Brackets", "[0]"}, OddName{"Percent", "%n%s"},
                                           OddName{"Quotes", "quo'te\""}, OddName{"Dash", "-rf"},
                                           OddName{"Separators", "a,b=c:d"}, OddName{"Deleted", "x (deleted)"},
                                           OddName{"Hash", "#hash"}, OddName{"NoUtf8", "\xff\xfe not utf-8"}),
                         [](const auto& test) { return std::string(test.param.test); });

}  // namespace
}  // namespace mooring::testing

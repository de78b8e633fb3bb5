// Bind mounts: their flags, from the first moment on, and what a failure leaves. propagation_table_test.cc looks at the
// flags of the copies in other namespaces.
#include <algorithm>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

struct FlagsCase {
  MountFlags flags;
  std::string shown;  // in mountinfo
};

MountFlags AllFlags() {
  return {.read_only = true,
          .nosuid = true,
          .nodev = true,
          .noexec = true,
          .nodiratime = true,
          .nosymfollow = true,
          .atime = Atime::kNoatime};
}

constexpr char kAllShown[] = "ro,nosuid,nodev,noexec,noatime,nodiratime,nosymfollow";

class BindFlagsTest : public KernelTest, public ::testing::WithParamInterface<FlagsCase> {};

TEST_P(BindFlagsTest, AreExactlyTheOnesAskedFor) {
  ASSERT_OK(mounter_.Bind(BindOf(Dir("source"), Path("target"), GetParam().flags)));
  EXPECT_EQ(OptionsAt(Path("target")), GetParam().shown);
  EXPECT_EQ(mounter_.Find(Path("target"))->mount->flags, GetParam().flags);
}

TEST_P(BindFlagsTest, DoNotDependOnThoseOfTheSource) {
  const std::string source = PrivateMount("source");
  constexpr unsigned long kEverything =
      MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME | MS_NOSYMFOLLOW;
  ASSERT_EQ(::mount(nullptr, source.c_str(), nullptr, kEverything, nullptr), 0);
  ASSERT_OK(mounter_.Bind(BindOf(source, Path("target"), GetParam().flags)));
  EXPECT_EQ(OptionsAt(Path("target")), GetParam().shown);
  EXPECT_EQ(OptionsAt(source), kAllShown) << "the source is as it was";
}

std::vector<FlagsCase> FlagsCases() {
  std::vector<FlagsCase> cases = {{{}, "rw,relatime"}, {AllFlags(), kAllShown}};
  for (const MountFlagRow& row : MountFlagTable()) {
    MountFlags flags;
    Set(flags, row);
    if (flags == MountFlags()) continue;
    cases.push_back({flags, flags.atime == Atime::kStrictatime ? "rw" : ToString(flags)});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Flags, BindFlagsTest, ::testing::ValuesIn(FlagsCases()), [](const auto& test) {
  std::string name = test.param.shown;  // no more than letters, for ctest
  std::replace(name.begin(), name.end(), ',', '_');
  return name;
});

class BindTest : public KernelTest {};

TEST_F(BindTest, ShowsTheSourceAndWritesThroughToIt) {
  const std::string source = Dir("source");
  ASSERT_OK(mounter_.Bind(BindOf(source, Path("target"))));
  EXPECT_EQ(TryWrite(Path("target/file"), "text"), 0);
  EXPECT_EQ(ReadFile(source + "/file"), "text");
  EXPECT_EQ(StatOf(Path("target")).st_dev, StatOf(source).st_dev);
}

// A process in a peer namespace tries to write all the time. Between any two steps of a bind it must fail.
TEST_F(BindTest, ReadOnlyIsAtNoMomentWritableInAPeerNamespace) {
  const std::string parent = SharedMount("parent");
  Dir("source/inside");  // missing where nothing is mounted
  const MountNamespace peer(MountNamespace::Kind::kPeer);
  std::atomic<bool> stop = false;
  std::atomic<int> refused = 0, written = 0;
  std::thread writer([&, file = peer.Seen(parent + "/target/inside/file")] {
    while (!stop) {
      const int error = TryWrite(file, "x");
      if (error == EROFS) ++refused;
      if (error == 0) ++written;
    }
  });
  for (int i = 0; written == 0 && (i < 500 || (refused == 0 && i < 5000)); ++i) {
    EXPECT_OK(mounter_.Bind(BindOf(Path("source"), parent + "/target", ReadOnly())));
    if (i % 10 == 0) std::this_thread::yield();
    EXPECT_TRUE(Eventually([&] { return mounter_.Unmount(UnmountOf(parent + "/target")).ok(); })) << "it is in there";
  }
  stop = true;
  writer.join();
  EXPECT_EQ(written, 0);
  EXPECT_GT(refused, 0) << "the writer never met the mount: the test shows nothing";
}

TEST_F(BindTest, ADirectoryIsBoundOntoItselfWhateverIsInIt) {
  const std::string directory = Dir("full");
  ASSERT_EQ(TryWrite(directory + "/file", "text"), 0);
  ASSERT_OK(mounter_.Bind(BindOf(directory, directory, {}, Propagation::kShared)));
  EXPECT_EQ(ReadFile(directory + "/file"), "text");
  EXPECT_NE(PropagationAt(directory), "");
  EXPECT_THAT(mounter_.Bind(BindOf(directory, directory)), Refused("is a mount already"));
}

TEST_F(BindTest, ADirectoryIsBoundOntoItselfByAnotherNameOfIt) {
  const std::string directory = Dir("full");
  ASSERT_EQ(TryWrite(directory + "/file", "text"), 0);
  ASSERT_OK(mounter_.Bind(BindOf(directory, Path("other"))));
  ASSERT_OK(mounter_.Bind(BindOf(Path("other"), directory)));
  EXPECT_EQ(ReadFile(directory + "/file"), "text");
}

TEST_F(BindTest, AnotherDirectoryThatIsNotEmptyIsNotCovered) {
  Dir("source/inside");
  Dir("full/inside");
  for (const char* source : {"source", "full/inside"}) {
    EXPECT_THAT(mounter_.Bind(BindOf(Path(source), Path("full"))), Refused("not empty"));
  }
  EXPECT_THAT(MountsBelow(dir_.path()), IsEmpty());
}

TEST_F(BindTest, WithoutRecursiveLeavesSubmountsOut) {
  Dir("source/sub/hidden");
  PrivateMount("source/sub");
  ASSERT_OK(mounter_.Bind(BindOf(Path("source"), Path("target"))));
  EXPECT_EQ(MountsBelow(Path("target")).size(), 1U);
}

TEST_F(BindTest, RecursiveTakesSubmountsAlongUnderTheSameFlags) {
  Dir("source");
  PrivateMount("source/a");
  PrivateMount("source/a/b");
  const std::string before = OptionsAt(Path("source/a/b"));
  BindRequest request = BindOf(Path("source"), Path("target"), AllFlags());
  request.recursive = true;
  ASSERT_OK(mounter_.Bind(request));
  EXPECT_EQ(OptionsAt(Path("target")), kAllShown);
  EXPECT_EQ(OptionsAt(Path("target/a")), kAllShown);
  EXPECT_EQ(OptionsAt(Path("target/a/b")), kAllShown);
  EXPECT_EQ(TryWrite(Path("target/a/b/file"), "x"), EROFS);
  EXPECT_EQ(OptionsAt(Path("source/a/b")), before) << "the source is as it was";
}

// A read-only or noexec submount must not be writable or executable in the copy. mount(8)'s rbind keeps these flags
// too.
TEST_F(BindTest, RecursiveTakesNoFlagAwayFromASubmount) {
  Dir("source");
  PrivateMount("source/sub");
  constexpr unsigned long kStrict = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC | MS_NOATIME;
  ASSERT_EQ(::mount(nullptr, Path("source/sub").c_str(), nullptr, kStrict, nullptr), 0);
  const auto bound = [&](const std::string& target, const MountFlags& flags) {
    BindRequest request = BindOf(Path("source"), Path(target), flags);
    request.recursive = true;
    EXPECT_OK(mounter_.Bind(request));
    return Path(target);
  };
  EXPECT_EQ(OptionsAt(bound("plain", {})), "rw,relatime");
  EXPECT_EQ(OptionsAt(Path("plain/sub")), "ro,nosuid,noexec,noatime");
  EXPECT_EQ(TryWrite(Path("plain/sub/file"), "x"), EROFS);
  EXPECT_EQ(OptionsAt(bound("stricter", {.nodev = true})), "rw,nodev,relatime");
  EXPECT_EQ(OptionsAt(Path("stricter/sub")), "ro,nosuid,nodev,noexec,noatime");
  EXPECT_EQ(OptionsAt(bound("strictatime", {.atime = Atime::kStrictatime})), "rw");
  EXPECT_EQ(OptionsAt(Path("strictatime/sub")), "ro,nosuid,noexec,noatime");
  EXPECT_EQ(OptionsAt(Path("source/sub")), "ro,nosuid,noexec,noatime") << "the source is as it was";
}

TEST_F(BindTest, BindsADeviceNodeOnAFile) {
  const std::string device = Losetup(Sparse("image", kMiB));
  ASSERT_OK(mounter_.Bind(NodeBindOf(device, Path("target"))));
  EXPECT_TRUE(S_ISBLK(StatOf(Path("target")).st_mode));
  EXPECT_EQ(StatOf(Path("target")).st_rdev, StatOf(device).st_rdev);
  EXPECT_EQ(TryWrite(Path("target"), "through the node"), 0);
  EXPECT_EQ(ReadFile(Path("image")).substr(0, 16), "through the node");
}

// Why a read-only block volume needs a read-only loop device: see LoopTest.
TEST_F(BindTest, ReadOnlyBindOfADeviceNodeDoesNotMakeTheDeviceReadOnly) {
  const std::string device = Losetup(Sparse("image", kMiB));
  BindRequest request = NodeBindOf(device, Path("target"));
  request.flags = ReadOnly();
  ASSERT_OK(mounter_.Bind(request));
  EXPECT_EQ(OptionsAt(Path("target")).substr(0, 3), "ro,");
  EXPECT_EQ(TryWrite(Path("target"), "x"), 0);
}

TEST_F(BindTest, GroupOwnsTheRootOfAReadOnlySourceWhichBecomesGroupWritableAndSetgid) {
  const std::string source = PrivateMount("source");
  ASSERT_EQ(::chmod(source.c_str(), 0705), 0);
  ASSERT_EQ(::mount(nullptr, source.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr), 0);
  BindRequest request = BindOf(source, Path("target"), ReadOnly());
  request.group = 4711;
  ASSERT_OK(mounter_.Bind(request));
  EXPECT_EQ(StatOf(Path("target")).st_gid, 4711U);
  EXPECT_EQ(StatOf(Path("target")).st_mode & 07777U, 02775U);
  EXPECT_EQ(OptionsAt(Path("target")).substr(0, 2), "ro");
  EXPECT_EQ(OptionsAt(source).substr(0, 2), "ro");
}

TEST_F(BindTest, MissingSourceIsNotFoundAndMakesNoTarget) {
  EXPECT_THAT(mounter_.Bind(BindOf(Path("source"), Path("target"))), FailsWith(StatusCode::kNotFound, Path("source")));
  EXPECT_FALSE(Exists(Path("target")));
}

TEST_F(BindTest, SymlinkAsSourceOrInItsPathIsRefused) {
  Dir("real/dir");
  ASSERT_EQ(::symlink(Path("real").c_str(), Path("link").c_str()), 0);
  EXPECT_THAT(mounter_.Bind(BindOf(Path("link"), Path("target"))),
              Refused("'" + Path("link") + "' is a symbolic link"));
  EXPECT_THAT(mounter_.Bind(BindOf(Path("link/dir"), Path("target"))),
              Refused("'" + Path("link") + "' is a symbolic link"));
  EXPECT_FALSE(Exists(Path("target")));
}

TEST_F(BindTest, FailureAfterMakingTheTargetRemovesIt) {
  EXPECT_FALSE(mounter_.Bind(BindOf(File("source"), Path("target"))).ok()) << "a file does not go onto a directory";
  EXPECT_FALSE(Exists(Path("target")));
  EXPECT_FALSE(mounter_.Bind(NodeBindOf(Dir("directory"), Path("target"))).ok()) << "nor a directory onto a file";
  EXPECT_FALSE(Exists(Path("target")));
  EXPECT_TRUE(MountsBelow(dir_.path()).empty());
}

TEST_F(BindTest, FailureLeavesATargetThatWasThere) {
  const std::string target = Dir("target");
  const ino_t inode = StatOf(target).st_ino;
  EXPECT_FALSE(mounter_.Bind(BindOf(File("source"), target)).ok());
  EXPECT_EQ(StatOf(target).st_ino, inode);
  EXPECT_TRUE(MountsBelow(dir_.path()).empty());
}

// The mount helper is asked once to look and to act.
class ConditionalTest : public KernelTest {
 protected:
  void SetUp() override {
    MountRequest request = MountOf(Ext4Image("image"), Path("staged"));
    request.label = "mooring:vol-1";
    ASSERT_OK(mounter_.Mount(request));
  }
  ConditionalBind Bound(const std::string& target = "target") {
    return {.bind = BindOf(Path("staged"), Path(target)), .source = kExpected};
  }
  ConditionalUnmount Ended() { return {.unmount = UnmountOf(Path("target"), true), .target = kExpected}; }
  void ExpectUndone(const absl::StatusOr<bool>& done) {
    ASSERT_OK(done);
    EXPECT_FALSE(*done);
  }

  const ExpectedMount kExpected = {.label = "mooring:vol-1"};
};

TEST_F(ConditionalTest, BindsAndUnmountsWhatIsExpected) {
  ASSERT_OK(mounter_.Change({.target = Path("staged"), .flags = MountFlags{.noexec = true}}));
  ConditionalBind request = Bound();
  request.bind.flags.nodev = true;
  request.source_fs_type = "ext4";
  const auto bound = mounter_.BindIf(request);
  ASSERT_OK(bound);
  EXPECT_TRUE(*bound);
  EXPECT_EQ(OptionsAt(Path("target")), "rw,nodev,noexec,relatime") << "the stricter of both";
  const auto ended = mounter_.UnmountIf(Ended());
  ASSERT_OK(ended);
  EXPECT_TRUE(*ended);
  EXPECT_FALSE(Exists(Path("target")));
  EXPECT_TRUE(*mounter_.UnmountIf(Ended())) << "nothing is there any more";
  EXPECT_EQ(OptionsAt(Path("staged")), "rw,noexec,relatime");
}

TEST_F(ConditionalTest, BindsNothingElse) {
  ConditionalBind other_volume = Bound();
  other_volume.source = {.label = "mooring:vol-2", .root_name = "vol-2"};
  ExpectUndone(mounter_.BindIf(other_volume));
  ConditionalBind unknown = Bound();
  unknown.source = {};
  ExpectUndone(mounter_.BindIf(unknown));
  ConditionalBind other_type = Bound();
  other_type.source_fs_type = "xfs";
  ExpectUndone(mounter_.BindIf(other_type));
  ASSERT_OK(mounter_.Change({.target = Path("staged"), .flags = ReadOnly()}));
  ExpectUndone(mounter_.BindIf(Bound()));
  ASSERT_OK(mounter_.Change({.target = Path("staged"), .flags = MountFlags()}));
  ConditionalBind no_mount = Bound();
  no_mount.bind.source = Dir("plain");
  ExpectUndone(mounter_.BindIf(no_mount));
  EXPECT_FALSE(Exists(Path("target")));
  ASSERT_EQ(::mount("none", Dir("target").c_str(), "tmpfs", 0, nullptr), 0);
  ExpectUndone(mounter_.BindIf(Bound()));
  EXPECT_EQ(OptionsAt(Path("target")), "rw,relatime") << "no second mount is stacked";
}

TEST_F(ConditionalTest, ASourceThatCannotBeReadIsAnError) {
  ConditionalBind missing = Bound();
  missing.bind.source = Path("missing");
  ExpectUndone(mounter_.BindIf(missing));
  ConditionalBind link = Bound();
  ASSERT_EQ(::symlink(Path("staged").c_str(), Path("link").c_str()), 0);
  link.bind.source = Path("link");
  EXPECT_THAT(mounter_.BindIf(link), Refused("is a symbolic link"));
  EXPECT_FALSE(Exists(Path("target")));
}

TEST_F(ConditionalTest, UnmountsNothingElse) {
  ASSERT_EQ(::mount("mooring:vol-2", Dir("target").c_str(), "tmpfs", 0, nullptr), 0);
  ExpectUndone(mounter_.UnmountIf(Ended()));
  EXPECT_EQ(OptionsAt(Path("target")), "rw,relatime");
  ASSERT_EQ(::umount(Path("target").c_str()), 0);
  ASSERT_EQ(::rmdir(Path("target").c_str()), 0);
  ASSERT_EQ(::symlink(Dir("elsewhere").c_str(), Path("target").c_str()), 0);
  ExpectUndone(mounter_.UnmountIf(Ended()));
  EXPECT_TRUE(Exists(Path("target")));
}

TEST_F(ConditionalTest, ADirectoryIsExpectedByItsNameAndInode) {
  const std::string volume = Dir("vol-3");
  ASSERT_OK(mounter_.Bind(BindOf(volume, Path("other"))));
  ConditionalBind request = Bound();
  request.bind.source = Path("other");
  request.source = {.label = "mooring:vol-3", .root_name = "vol-3", .root_inode = StatOf(volume).st_ino + 1};
  ExpectUndone(mounter_.BindIf(request));
  request.source.root_inode = StatOf(volume).st_ino;
  request.source.root_device = StatOf(volume).st_dev + 1;  // as of a subvolume in another btrfs, with the same inode
  ExpectUndone(mounter_.BindIf(request));
  request.source.root_device = StatOf(volume).st_dev;
  EXPECT_TRUE(*mounter_.BindIf(request));
}

TEST_F(ConditionalTest, ExaminesUsageAndHealth) {
  const auto seen = mounter_.Examine({Path("staged"), kExpected});
  ASSERT_OK(seen);
  EXPECT_TRUE(seen->measured);
  EXPECT_EQ(seen->info.loop->label, "mooring:vol-1");
  EXPECT_EQ(seen->usage.bytes.total, mounter_.Stats(Path("staged"))->bytes.total);
  EXPECT_EQ(seen->problem, "");
  ASSERT_EQ(::mount("mooring:vol-2", Dir("other").c_str(), "tmpfs", 0, nullptr), 0);
  for (const std::string& path : {Path("other"), Dir("plain")}) {
    const auto other = mounter_.Examine({path, kExpected});
    ASSERT_OK(other);
    EXPECT_FALSE(other->measured);
    EXPECT_EQ(other->usage.bytes.total, 0U);
  }
}

}  // namespace
}  // namespace mooring::testing

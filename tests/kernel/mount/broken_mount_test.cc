// Mounts whose server is dead or hangs. FUSE stands in for NFS and ceph, because its server is this process.
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

class BrokenMountTest : public KernelTest {
 protected:
  void SetUp() override {
    fuse_.reset(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fuse_.ok()) << "these tests need FUSE in the kernel";
    const std::string options = fmt::format("fd={},rootmode=40000,user_id=0,group_id=0", fuse_.get());
    ASSERT_EQ(::mount("mooring-test", Dir("target").c_str(), "fuse", 0, options.c_str()), 0);
  }
  void Die() { fuse_.reset(); }  // calls then fail with ENOTCONN; before, they hang
  std::string FindType() {
    const auto info = mounter_.Find(Path("target"));
    if (!info.ok()) return info.status().ToString();
    return info->mount ? info->mount->fs_type : "no mount";
  }
  std::string UnmountAndRemove() { return mounter_.Unmount(UnmountOf(Path("target"), true)).ToString(); }
  UniqueFd fuse_;
};

TEST_F(BrokenMountTest, DeadOneIsFoundAndListed) {
  Die();
  struct stat status = {};
  ASSERT_EQ(::stat(Path("target/x").c_str(), &status), -1);
  ASSERT_EQ(errno, ENOTCONN);
  EXPECT_EQ(FindType(), "fuse");
  const auto mounts = mounter_.List(dir_.path());
  ASSERT_OK(mounts);
  EXPECT_EQ(mounts->size(), 1U);
}

TEST_F(BrokenMountTest, DeadOneIsUnmountedAndItsTargetRemoved) {
  Die();
  EXPECT_EQ(UnmountAndRemove(), "OK");
  EXPECT_FALSE(Exists(Path("target")));
}

TEST_F(BrokenMountTest, DeadOneIsNotStackedOn) {
  Die();
  EXPECT_THAT(mounter_.Bind(BindOf(Dir("source"), Path("target"))), Refused("mount already"));
}

TEST_F(BrokenMountTest, PathBelowADeadMountSaysHowToGoOn) {
  Die();
  const auto says_how = Refused("umount -l " + Path("target"));
  const std::string below = Path("target/below/it");
  EXPECT_THAT(mounter_.Find(below), says_how);
  EXPECT_THAT(mounter_.Find(below).status().ToString(), HasSubstr(Path("target/below")));
  EXPECT_THAT(mounter_.Unmount(UnmountOf(below, true)), says_how);
  EXPECT_THAT(mounter_.Bind(BindOf(Dir("source"), below)), says_how);
}

// Each of these would be killed after 20 seconds.
TEST_F(BrokenMountTest, HungMountDelaysNoCall) {
  EXPECT_EQ(AskInChild([&] { return FindType(); }), "fuse");
  EXPECT_EQ(AskInChild([&] { return fmt::format("{}", mounter_.List(dir_.path())->size()); }), "1");
  EXPECT_THAT(AskInChild([&] { return mounter_.Bind(BindOf(Dir("source"), Path("target"))).ToString(); }),
              HasSubstr("mount already"));
  EXPECT_EQ(AskInChild([&] { return UnmountAndRemove(); }), "OK");
  EXPECT_FALSE(Exists(Path("target")));
}

// The root of a shut-down ext4 still answers.
TEST_F(KernelTest, AnExt4ThatWasShutDownIsNoticed) {
  if (!HasStatMount()) GTEST_SKIP() << "statmount alone says it, from Linux 6.11 on";
  ASSERT_OK(mounter_.Mount(MountOf(Ext4Image("image"), Path("target"))));
  EXPECT_EQ(mounter_.HealthProblem(Path("target")).value(), "");
  ASSERT_EQ(Tool("xfs_io -x -c shutdown " + Path("target")), 0);
  EXPECT_THAT(mounter_.HealthProblem(Path("target")).value(), HasSubstr("was shut down"));
  EXPECT_OK(mounter_.Unmount(UnmountOf(Path("target"), true)));
}

// An xfs that was shut down answers EIO even where only its root is looked at.
class ShutDownTest : public KernelTest {
 protected:
  void SetUp() override {
    ASSERT_OK(mounter_.Mount(MountOf(XfsImage("image"), Path("target"), "xfs")));
    ASSERT_OK(mounter_.Bind(BindOf(Path("target"), Path("bound"))));
    ASSERT_EQ(Tool("xfs_io -x -c shutdown " + Path("target")), 0);
    struct stat status = {};
    ASSERT_EQ(::stat(Path("target").c_str(), &status), -1);
    ASSERT_EQ(errno, EIO);
  }
};

TEST_F(ShutDownTest, IsFoundWithItsDeviceAndSaysWhyItIsBroken) {
  for (const std::string& path : {Path("target"), Path("bound")}) {
    const auto info = mounter_.Find(path);
    ASSERT_OK(info);
    EXPECT_EQ(info->kind, PathInfo::Kind::kDirectory);
    ASSERT_TRUE(info->mount);
    EXPECT_EQ(info->mount->target, path);
    EXPECT_EQ(info->mount->fs_type, "xfs");
    ASSERT_TRUE(info->loop);
    EXPECT_EQ(info->loop->label, "mooring-kernel-test");
    EXPECT_EQ(info->failure, "Input/output error");
    EXPECT_THAT(mounter_.HealthProblem(path).value(), HasSubstr("Input/output error"));
  }
}

TEST_F(ShutDownTest, IsNotStackedOn) {
  EXPECT_THAT(mounter_.Bind(BindOf(Dir("source"), Path("bound"))), Refused("mount already"));
}

TEST_F(ShutDownTest, IsNotBound) {
  ConditionalBind request;
  request.bind = BindOf(Path("target"), Path("other"));
  request.source.label = "mooring-kernel-test";
  EXPECT_THAT(mounter_.BindIf(request), Refused("umount -l " + Path("target")));
  EXPECT_FALSE(Exists(Path("other")));
}

TEST_F(ShutDownTest, IsUnmountedAndMountedAgain) {
  EXPECT_OK(mounter_.Unmount(UnmountOf(Path("bound"), true)));
  EXPECT_OK(mounter_.Unmount(UnmountOf(Path("target"), true)));
  EXPECT_FALSE(Exists(Path("target")));
  EXPECT_TRUE(NoLoopOver(Path("image")));
  EXPECT_OK(mounter_.Mount(MountOf(Path("image"), Path("target"), "xfs")));
}

TEST_F(ShutDownTest, PathWithinItIsAnError) { EXPECT_FALSE(mounter_.Find(Path("target/below")).ok()); }

}  // namespace
}  // namespace mooring::testing

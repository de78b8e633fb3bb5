// Broken mounts: above a target, at it, at a staging path, and below a published volume. They fail with ENOTCONN (a
// FUSE server that died), ESTALE, or EIO (a filesystem that was shut down). Errors name them, and the plugin unmounts
// its own.
#include "tests/rpc/support/rpc_test.h"
#include "tests/support/fuse_server.h"

namespace mooring::testing {
namespace {

class BrokenMounts : public RpcTest {
 protected:
  void SetUp() override {
    RpcTest::SetUp();
    id_ = Created();
    staging_ = Staging(id_);
    target_ = Target("alloc");
    ASSERT_OK(driver().Stage(id_, staging_));
  }
  void TearDown() override {
    for (const std::string& path : fuse_paths_) ::umount2(path.c_str(), MNT_DETACH);
    RpcTest::TearDown();
  }

  // Mounts a FUSE filesystem whose server is dead.
  void MountDead(const std::string& path) {
    fuse_paths_.push_back(path);
    FuseServer server(path);
    server.Die();
  }

  void Publish(const std::string& target) { EXPECT_OK(driver().Publish(id_, staging_, target)); }
  // Under a shared "/" the target is shared, too. Then mounts on it count as propagated: docs/propagation.md.
  void PublishPrivate() {
    NodePublishVolumeRequest request = PublishRequest(id_, staging_, target_, Mount());
    (*request.mutable_volume_context())["propagation"] = "private";
    EXPECT_OK(driver().Send(request));
  }

  std::string id_, staging_, target_;
  std::vector<std::string> fuse_paths_;
};

class BrokenAbove : public BrokenMounts, public ::testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(Errors, BrokenAbove, ::testing::Values(ENOTCONN, ESTALE, EIO),
                         [](const auto& error) { return fmt::format("E{}", error.param); });

TEST_P(BrokenAbove, ErrorsNameTheBrokenMount) {
  const std::string mounted = MakeDirectories("csi/fuse");
  FuseServer fuse(mounted);
  AllowMount(mounted);
  fs::create_directory(mounted + "/alloc");
  const std::string target = mounted + "/alloc/target";
  Publish(target);
  if (GetParam() == ENOTCONN) {
    fuse.Die();
  } else {
    fuse.Fail(GetParam());
  }
  const std::string way_out = fmt::format("umount -l {}", mounted);
  EXPECT_THAT(driver().Unpublish(id_, target), FailsWith(Code::kFailedPrecondition, way_out));
  EXPECT_THAT(driver().Stats(id_, target), FailsWith(Code::kFailedPrecondition, way_out));
  EXPECT_THAT(driver().Publish(id_, staging_, mounted + "/alloc/other"), FailsWith(Code::kFailedPrecondition, way_out));
  EXPECT_THAT(driver().Stage(id_, mounted + "/alloc/staging"), FailsWith(Code::kFailedPrecondition, way_out));
  ASSERT_EQ(Shell(way_out), 0);
  EXPECT_OK(driver().Unpublish(id_, target));
}

TEST_F(BrokenMounts, BrokenMountOverATargetIsNamedAndKept) {
  PublishPrivate();
  MountDead(target_);
  EXPECT_THAT(driver().Unpublish(id_, target_), FailsWith(Code::kFailedPrecondition, "fuse"));
  EXPECT_THAT(driver().Publish(id_, staging_, target_), FailsWith(Code::kFailedPrecondition, "fuse"));
  EXPECT_THAT(driver().Stats(id_, target_), FailsWith(Code::kNotFound, target_));
  ASSERT_EQ(::umount2(target_.c_str(), MNT_DETACH), 0);
  EXPECT_OK(driver().Unpublish(id_, target_));
}

TEST_F(BrokenMounts, BrokenMountOverAStagingPathIsNamedAndKept) {
  MountDead(staging_);
  EXPECT_THAT(driver().Stage(id_, staging_), FailsWith(Code::kFailedPrecondition, "fuse"));
  EXPECT_THAT(driver().Publish(id_, staging_, target_), FailsWith(Code::kFailedPrecondition, "another mount"));
  EXPECT_THAT(driver().Unstage(id_, staging_), FailsWith(Code::kFailedPrecondition, "fuse"));
  ASSERT_EQ(::umount2(staging_.c_str(), MNT_DETACH), 0);
}

TEST_F(BrokenMounts, BrokenMountBelowAPrivateTargetIsNamed) {
  PublishPrivate();
  fs::create_directory(target_ + "/cache");
  MountDead(target_ + "/cache");
  EXPECT_THAT(driver().Unpublish(id_, target_), FailsWith(Code::kFailedPrecondition, target_ + "/cache"));
  ASSERT_EQ(::umount2((target_ + "/cache").c_str(), MNT_DETACH), 0);
}

// The task that mounted it has ended, and so has its server.
TEST_F(BrokenMounts, PropagatedBrokenMountIsUnmountedWithTheTarget) {
  ASSERT_OK(driver().Unstage(id_, staging_));
  ShareDirectory();
  ASSERT_OK(driver().Stage(id_, staging_));
  Publish(target_);
  fs::create_directory(target_ + "/cache");
  MountDead(target_ + "/cache");
  EXPECT_OK(driver().Unpublish(id_, target_));
  EXPECT_THAT(MountsBelow(target_), IsEmpty());
}

class ShutDown : public RpcTest, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Types, ShutDown, ::testing::Values("ext4", "xfs"));

TEST_P(ShutDown, VolumeIsReportedAndCanBeUsedAgain) {
  const VolumeCapability capability = Mount(GetParam());
  const std::string id = Created(capability, kXfsBytes);
  const std::string staging = Staging(id), target = Target("a");
  ASSERT_OK(driver().Stage(id, staging, capability));
  ASSERT_OK(driver().Publish(id, staging, target, capability));
  ASSERT_EQ(TryWrite(target + "/file", "data"), 0);
  ASSERT_EQ(Shell("xfs_io -x -c 'shutdown -f' " + target), 0);
  if (capability.mount().fs_type() == "xfs") {  // an ext4 still answers at its root
    EXPECT_THAT(driver().Publish(id, staging, Target("b"), capability),
                FailsWith(Code::kFailedPrecondition, "unstage"));
    EXPECT_THAT(driver().Publish(id, staging, target, capability),
                FailsWith(Code::kFailedPrecondition, "unpublish and unstage it"));
  }
  Restart(SIGKILL);
  for (const std::string& path : {target, staging}) {
    const auto stats = driver().Stats(id, path);
    ASSERT_OK(stats);
    EXPECT_TRUE(stats->volume_condition().abnormal()) << path;
    EXPECT_THAT(stats->volume_condition().message(), HasSubstr("unpublish and unstage")) << path;
  }
  EXPECT_OK(driver().Unpublish(id, target));
  EXPECT_OK(driver().Unstage(id, staging));
  EXPECT_OK(driver().Stage(id, staging, capability));
  EXPECT_OK(driver().Publish(id, staging, target, capability));
  EXPECT_EQ(ReadFile(target + "/file"), "data");
}

}  // namespace
}  // namespace mooring::testing

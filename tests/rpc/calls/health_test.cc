// Volume conditions in ControllerGetVolume, ListVolumes and NodeGetVolumeStats: each kind of problem, on real volumes.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class Health : public RpcTest {
 protected:
  csi::v1::VolumeCondition Got(const std::string& id) {
    const auto answer = driver().Get(id);
    EXPECT_OK(answer);
    EXPECT_TRUE(answer->status().has_volume_condition());
    return answer->status().volume_condition();
  }
  csi::v1::VolumeCondition Listed(const std::string& id) {
    const auto page = driver().List();
    EXPECT_OK(page);
    for (const auto& entry : page->entries()) {
      EXPECT_TRUE(entry.status().has_volume_condition());
      if (entry.volume().volume_id() == id) return entry.status().volume_condition();
    }
    ADD_FAILURE() << id << " is not listed";
    return {};
  }
  csi::v1::VolumeCondition Measured(const std::string& id, const std::string& path) {
    const auto stats = driver().Stats(id, path);
    EXPECT_OK(stats);
    return stats->volume_condition();
  }
  void ExpectHealthy(const std::string& id) {
    EXPECT_FALSE(Got(id).abnormal()) << Got(id).message();
    EXPECT_FALSE(Listed(id).abnormal()) << Listed(id).message();
    EXPECT_EQ(Got(id).message(), "healthy");
  }
  void ExpectAbnormal(const csi::v1::VolumeCondition& condition, const std::string& piece) {
    EXPECT_TRUE(condition.abnormal());
    EXPECT_THAT(condition.message(), HasSubstr(piece));
  }
  void ExpectAbnormalInUse(const std::string& id, const std::string& path, const std::string& piece) {
    ExpectAbnormal(Got(id), piece);
    ExpectAbnormal(Listed(id), piece);
    ExpectAbnormal(Measured(id, path), piece);
  }
  std::string StagedPath(const std::string& id, const VolumeCapability& capability = Mount()) {
    const std::string staging = Staging(id);
    EXPECT_OK(driver().Stage(id, staging, capability));
    return staging;
  }
};

TEST_F(Health, UnusedVolumeReportsAMissingOrTruncatedImage) {
  const std::string id = Created(), healthy = Created();
  ExpectHealthy(id);
  ASSERT_EQ(::truncate(Image(id).c_str(), kVolumeBytes / 2), 0);
  ExpectAbnormal(Got(id), "is cut short");
  ExpectAbnormal(Listed(id), "is cut short");
  fs::rename(Image(id), dir() / "elsewhere");
  ExpectAbnormal(Got(id), "No such file");
  ExpectAbnormal(Listed(id), "put it back");
  fs::create_directory(Image(id));
  ExpectAbnormal(Got(id), "no regular file");
  fs::remove(Image(id));
  fs::rename(dir() / "elsewhere", Image(id));
  ASSERT_EQ(::truncate(Image(id).c_str(), kVolumeBytes), 0);
  ExpectHealthy(id);
  ExpectHealthy(healthy);
}

TEST_F(Health, MountedVolumeReportsAMissingOrTruncatedImage) {
  const std::string id = Created(), gone = Created();
  const std::string staging = StagedPath(id), left = StagedPath(gone);
  ExpectHealthy(id);
  EXPECT_FALSE(Measured(id, staging).abnormal()) << Measured(id, staging).message();
  ASSERT_EQ(::truncate(Image(id).c_str(), kVolumeBytes / 2), 0);
  ExpectAbnormalInUse(id, staging, "cut short");
  ASSERT_EQ(::unlink(Image(gone).c_str()), 0);
  ExpectAbnormalInUse(gone, left, "was deleted");
  ExpectRefused(StageRequest(gone, left), Code::kInternal, Image(gone));
  ASSERT_EQ(::truncate(Image(id).c_str(), kVolumeBytes), 0);
}

TEST_F(Health, Ext4ReportsErrorsOfTheFilesystem) {
  const VolumeCapability read_only = Mount("ext4", AccessMode::SINGLE_NODE_WRITER, {"errors=remount-ro"});
  const VolumeCapability ignored = Mount("ext4", AccessMode::SINGLE_NODE_WRITER, {"errors=continue"});
  for (const auto& [capability, piece] : {std::pair(read_only, "read-only"), std::pair(ignored, "1 error")}) {
    const std::string id = Created(capability);
    const std::string staging = StagedPath(id, capability);
    const std::string device = fs::path(LoopsOver(Image(id)).at(0).device).filename();
    ExpectHealthy(id);
    std::ofstream("/sys/fs/ext4/" + device + "/trigger_fs_error") << "a test's";
    EXPECT_TRUE(Eventually([&] { return Got(id).abnormal(); }));  // the kernel updates the count a moment later
    ExpectAbnormalInUse(id, staging, piece);
  }
}

TEST_F(Health, FilesystemReportsAShutdown) {
  for (const char* fs_type : {"ext4", "xfs"}) {
    const std::string id = Created(Mount(fs_type), kXfsBytes);
    const std::string staging = StagedPath(id, Mount(fs_type));
    ExpectHealthy(id);
    ASSERT_EQ(Shell("xfs_io -x -c shutdown " + staging), 0);
    ExpectAbnormalInUse(id, staging, "unpublish and unstage");
  }
}

// Linux does not resize a btrfs to less than 256 MiB.
TEST_F(Health, BtrfsThatCannotGrowIsMountedAndReported) {
  const VolumeCapability btrfs = Mount("btrfs");
  const std::string id = Created(btrfs, 128 * kMiB), path = StagedPath(id, btrfs);
  ExpectHealthy(id);
  for (const std::int64_t bytes : {160 * kMiB, 256 * kMiB - 4096}) {
    ExpectRefused([&] { return driver().Grow(id, bytes); }, Code::kOutOfRange, "256 MiB");
  }
  ASSERT_OK(driver().Unstage(id, path));
  ExpectNoLoops();
  fs::resize_file(Image(id), 200 * kMiB);  // ControllerExpandVolume refuses this size
  ASSERT_OK(driver().Stage(id, path, btrfs));
  ExpectAbnormalInUse(id, path, "72 MiB smaller than the volume");
  EXPECT_EQ(TryWrite(path + "/file", "data"), 0);
  ExpectRefused([&] { return driver().NodeExpand(id, path); }, Code::kOutOfRange, "256 MiB");
  ASSERT_OK(driver().Grow(id, 256 * kMiB));
  ASSERT_OK(driver().NodeExpand(id, path));
  ExpectHealthy(id);
  EXPECT_FALSE(Measured(id, path).abnormal()) << Measured(id, path).message();
}

TEST_F(Health, Ext4ThatCannotGrowIsMountedAndReported) {
  const std::string id = Created(), path = StagedPath(id);
  ASSERT_OK(driver().Unstage(id, path));
  ASSERT_OK(driver().Grow(id, 2 * kVolumeBytes));
  plugin().options().environment["PATH"] = Wrapper("resize2fs", "echo the disk is on fire >&2; exit 1");
  Restart(SIGTERM);
  ASSERT_OK(driver().Stage(id, path));
  if (MountedBytes(path) > static_cast<std::uint64_t>(kVolumeBytes)) GTEST_SKIP() << "the kernel may grow it here";
  ExpectAbnormalInUse(id, path, "smaller than the volume");
  EXPECT_THAT(plugin().Log(), HasSubstr("the disk is on fire"));
  ASSERT_OK(driver().Unstage(id, path));
  RestartWithPath("");
  ASSERT_OK(driver().Stage(id, path)) << "the next stage grows it";
  ExpectHealthy(id);
}

TEST_F(Health, FilesystemReportsLittleSpaceAndFewInodes) {
  const std::string id = Created(), many = Created();
  const std::string staging = StagedPath(id), other = StagedPath(many);
  ASSERT_EQ(
      Shell("fallocate -l $(( $(df --output=avail -B1 " + staging + " | tail -1) * 85 / 100 )) " + staging + "/a"), 0);
  ExpectHealthy(id);
  ASSERT_EQ(Shell("fallocate -l $(df --output=avail -B1 " + staging + " | tail -1) " + staging + "/b"), 0);
  ExpectAbnormalInUse(id, staging, "nearly full");
  ASSERT_EQ(::unlink((staging + "/b").c_str()), 0);
  ExpectHealthy(id);
  ASSERT_EQ(Shell("cd " + other + " && seq $(df --output=iavail . | tail -1) | xargs touch"), 0);
  ExpectAbnormalInUse(many, other, "nearly out of inodes");
}

TEST_F(Health, BlockVolumeReportsAMissingOrTruncatedImage) {
  const std::string id = Created(Block());
  const std::string staging = StagedPath(id, Block()), target = Target("a");
  ASSERT_OK(driver().Publish(id, staging, target, Block()));
  ASSERT_EQ(::truncate(Image(id).c_str(), kVolumeBytes / 2), 0);
  ExpectAbnormalInUse(id, target, "cut short");
  ASSERT_EQ(::unlink(Image(id).c_str()), 0);
  ExpectAbnormalInUse(id, target, Image(id));
}

// Images are sparse, so a write to an empty volume can fail.
TEST_F(Health, VolumeReportsAFullPool) {
  plugin().Terminate();
  fs::create_directories(state_dir() + "/volumes");
  MountTmpfs(state_dir() + "/volumes", "size=128m");
  Start();
  const std::string id = Created();
  ExpectHealthy(id);
  ASSERT_EQ(Shell("fallocate -l 124M " + state_dir() + "/volumes/ballast"), 0);
  ExpectAbnormal(Got(id), "writes to volumes fail");
  ExpectAbnormal(Listed(id), "4 MiB of 128 MiB left");
  fs::remove(state_dir() + "/volumes/ballast");
  ExpectHealthy(id);
}

}  // namespace
}  // namespace mooring::testing

// Programs that outlive their plugin. Nobody else uses the volume while a program of e2fsprogs still writes to it.

#include <future>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class Orphan : public RpcTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string tool() const { return GetParam(); }
  void SetUp() override {
    if (tool() == "resize2fs" && HasCapSysResource()) GTEST_SKIP() << "the kernel grows the filesystem here";
    RpcTest::SetUp();
    id_ = Created();
    staging_ = Staging(id_);
    if (tool() != "mkfs.ext4") WriteData();
    if (tool() == "e2fsck") {
      ASSERT_EQ(Shell("debugfs -w -R 'ssv state 2' " + Image(id_) + " 2>/dev/null"), 0);
    }
    if (tool() == "resize2fs") {
      ASSERT_OK(driver().Grow(id_, 4 * kVolumeBytes));
    }
  }
  void TearDown() override {
    if (!id_.empty()) RpcTest::TearDown();
  }
  void WriteData() {
    ASSERT_OK(driver().Stage(id_, staging_));
    ASSERT_EQ(Shell("head -c 3000000 /dev/urandom > " + staging_ + "/file"), 0);
    data_ = ReadFile(staging_ + "/file");
    ASSERT_OK(driver().Unstage(id_, staging_));
    ExpectNoLoops();
  }
  // Kills the plugin during NodeStageVolume. The tool continues, and takes `seconds` in total.
  void KillInTheMiddle(double seconds) {
    RestartWithPath(SlowTool(tool(), seconds));
    auto stage = std::async(std::launch::async, [this] { return driver().Stage(id_, staging_).status; });
    ASSERT_TRUE(Eventually([&] { return ToolRuns(tool()).size() == 1; }));
    plugin().Kill();
    EXPECT_FALSE(stage.get().ok());
    plugin().options().environment.clear();
    Start();
  }
  void ExpectWhole() {
    EXPECT_EQ(ReadFile(staging_ + "/file"), data_);
    EXPECT_EQ(TryWrite(staging_ + "/new", "data"), 0);
    ASSERT_OK(driver().Unstage(id_, staging_));
    ExpectNoLoops();
    EXPECT_EQ(Shell("e2fsck -fn " + Image(id_) + " >/dev/null 2>&1"), 0);
  }
  std::string id_, staging_, data_;
};

INSTANTIATE_TEST_SUITE_P(Tools, Orphan, ::testing::Values("mkfs.ext4", "e2fsck", "resize2fs"), [](const auto& row) {
  std::string name = row.param;
  return name.substr(0, name.find('.'));
});

TEST_P(Orphan, NextStageWaitsForIt) {
  KillInTheMiddle(1.0);
  const pid_t orphan = ToolRuns(tool()).front();
  EXPECT_TRUE(Runs(orphan));
  ASSERT_OK(driver().Stage(id_, staging_));
  EXPECT_FALSE(Runs(orphan));
  ExpectWhole();
}

TEST_P(Orphan, PreventsDeleteAndDelaysExpand) {
  KillInTheMiddle(1.0);
  EXPECT_THAT(driver().Delete(id_), FailsWith(Code::kAborted, "another process"));
  const pid_t orphan = ToolRuns(tool()).front();
  EXPECT_TRUE(Runs(orphan));
  ASSERT_OK(driver().Grow(id_, 5 * kVolumeBytes));
  EXPECT_FALSE(Runs(orphan)) << "the call has not waited for it";
  ASSERT_OK(driver().Stage(id_, staging_));
  EXPECT_GT(MountedBytes(staging_), static_cast<std::uint64_t>(4 * kVolumeBytes));
  ExpectWhole();
}

// Plugin and resize2fs are both killed, as when the host is out of memory. The image is then half resized.
class GrowthCutShort : public RpcTest {
 protected:
  void SetUp() override {
    if (HasCapSysResource()) GTEST_SKIP() << "the kernel grows the filesystem here";
    RpcTest::SetUp();
    id_ = Created();
    ASSERT_OK(driver().Stage(id_, Staging(id_)));
    ASSERT_EQ(Shell("head -c 3000000 /dev/urandom > " + Staging(id_) + "/file"), 0);
    data_ = ReadFile(Staging(id_) + "/file");
    ASSERT_OK(driver().Unstage(id_, Staging(id_)));
    ExpectNoLoops();
    ASSERT_OK(driver().Grow(id_, 4 * kVolumeBytes));
    const std::string staging = Staging(id_);
    // Its output goes to /dev/null, because a write to the killed plugin would end it.
    const std::string preload = "KILL_AT=40 LD_PRELOAD=" MOORING_KILL_AT_WRITE;
    RestartWithPath(
        Wrapper("resize2fs", "sleep 0.5\nexec >/dev/null 2>&1\n" + preload + " exec /usr/sbin/resize2fs \"$@\""));
    auto stage = std::async(std::launch::async, [&] { return driver().Stage(id_, staging).status; });
    ASSERT_TRUE(Eventually([&] { return ToolRuns("resize2fs").size() == 1; }));
    plugin().Kill();
    EXPECT_FALSE(stage.get().ok());
    ASSERT_TRUE(Eventually([&] { return !Runs(ToolRuns("resize2fs").front()); }));
    ASSERT_TRUE(ReadFile(Image(id_) + ".undo").starts_with("E2UNDO02")) << "resize2fs was killed too early";
    plugin().options().environment.clear();
    Start();
  }
  void TearDown() override {
    if (!id_.empty()) RpcTest::TearDown();
  }
  std::string id_, data_;
};

TEST_F(GrowthCutShort, NextStageUndoesAndRepeatsIt) {
  ASSERT_OK(driver().Stage(id_, Staging(id_)));
  EXPECT_GT(MountedBytes(Staging(id_)), static_cast<std::uint64_t>(3 * kVolumeBytes));
  EXPECT_EQ(ReadFile(Staging(id_) + "/file"), data_);
  ASSERT_OK(driver().Unstage(id_, Staging(id_)));
  ExpectNoLoops();
  EXPECT_EQ(Shell("e2fsck -fn " + Image(id_) + " >/dev/null 2>&1"), 0);
}

TEST_F(GrowthCutShort, DeleteRemovesItsFiles) { EXPECT_OK(driver().Delete(id_)); }

}  // namespace
}  // namespace mooring::testing

// Programs that outlive their plugin. Nobody else uses the volume while a program of e2fsprogs still writes to it.
#include "tests/rpc/support/held_tool.h"
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
    held_.Release();
    if (!id_.empty()) RpcTest::TearDown();
  }
  void WriteData() {
    ASSERT_OK(driver().Stage(id_, staging_));
    ASSERT_EQ(Shell("head -c 3000000 /dev/urandom > " + staging_ + "/file"), 0);
    data_ = ReadFile(staging_ + "/file");
    ASSERT_OK(driver().Unstage(id_, staging_));
    ExpectNoLoops();
  }
  // Kills the plugin during NodeStageVolume. The tool waits until it is released.
  void KillInTheMiddle() {
    RestartWithPath(held_.path());
    auto stage = std::async(std::launch::async, [this] { return driver().Stage(id_, staging_).status; });
    const bool runs = Eventually([&] { return ToolRuns(tool()).size() == 1; });
    if (!runs) held_.Release();  // else the stage would not end
    ASSERT_TRUE(runs);
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
  // Calls it while the tool runs, and returns the answer. The call must wait for the tool.
  absl::Status WaitsForTheTool(const std::function<absl::Status()>& call) {
    auto answer = std::async(std::launch::async, call);
    EXPECT_EQ(answer.wait_for(milliseconds(100)), std::future_status::timeout) << "the call has not waited for it";
    EXPECT_TRUE(Runs(ToolRuns(tool()).front()));
    held_.Release();
    return answer.get();
  }
  HeldTool held_ = {*this, tool()};
  std::string id_, staging_, data_;
};

INSTANTIATE_TEST_SUITE_P(Tools, Orphan, ::testing::Values("mkfs.ext4", "e2fsck", "resize2fs"), [](const auto& row) {
  std::string name = row.param;
  return name.substr(0, name.find('.'));
});

TEST_P(Orphan, NextStageWaitsForIt) {
  KillInTheMiddle();
  ASSERT_OK(WaitsForTheTool([this] { return driver().Stage(id_, staging_).status; }));
  EXPECT_FALSE(Runs(ToolRuns(tool()).front()));
  ExpectWhole();
}

TEST_P(Orphan, PreventsDeleteAndDelaysExpand) {
  KillInTheMiddle();
  EXPECT_THAT(driver().Delete(id_), FailsWith(Code::kAborted, "another process"));
  ASSERT_OK(WaitsForTheTool([this] { return driver().Grow(id_, 5 * kVolumeBytes).status; }));
  EXPECT_FALSE(Runs(ToolRuns(tool()).front()));
  ASSERT_OK(driver().Stage(id_, staging_));
  EXPECT_GT(MountedBytes(staging_), static_cast<std::uint64_t>(4 * kVolumeBytes));
  ExpectWhole();
}

}  // namespace
}  // namespace mooring::testing

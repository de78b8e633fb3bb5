// Two plugins with the same state directory, each with its own socket. That happens during an update, or if a
// controller runs beside a node.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class TwoPlugins : public RpcTest {
 protected:
  void SetUp() override {
    RpcTest::SetUp();
    ASSERT_TRUE(second_.Start());
    other_.Connect();
  }

  void TearDown() override {
    other_.Disconnect();
    EXPECT_EQ(second_.Terminate(), 0);
    RpcTest::TearDown();
  }

  PluginProcess& second() { return second_; }
  Driver& other() { return other_; }

 private:
  PluginProcess second_{{.socket = dir() / "second.sock",
                         .state_dir = state_dir(),
                         .log_file = dir() / "plugin.log",
                         .flags = {"--node-id", kNode}}};
  Driver other_{dir() / "second.sock"};
};

TEST_F(TwoPlugins, EachContinuesTheWorkOfTheOther) {
  for (const VolumeCapability& use : {kSharedMount, kSharedBlock}) {
    const std::string id = Created(use);
    ASSERT_OK(other().Stage(id, Staging(id), use));
    StageAndPublish(id, Target("a", id), use);
    ASSERT_OK(other().Publish(id, Staging(id), Target("b", id), use, !use.has_block()));
    EXPECT_EQ(LoopsOver(Image(id)).size(), 1U);
    EXPECT_THAT(other().Delete(id), FailsWith(Code::kFailedPrecondition, "in use"));
    EXPECT_OK(other().Stats(id, Target("a", id)));
    EXPECT_OK(driver().Unpublish(id, Target("b", id)));
    EXPECT_OK(other().Unpublish(id, Target("a", id)));
    EXPECT_OK(driver().Unstage(id, Staging(id)));
    ExpectNoLoops();
    EXPECT_OK(other().Delete(id));
    EXPECT_OK(driver().Delete(id));
  }
}

TEST_F(TwoPlugins, ConcurrentStagesFormatOnceAndShareADevice) {
  for (int round = 0; round < 10; ++round) {
    const VolumeCapability use = round % 2 == 0 ? kSharedMount : kSharedBlock;
    const std::string id = Created(use);
    const std::string a = Staging(id, "a"), b = Staging(id, "b");
    auto first = std::async(std::launch::async, [&] { return other().Stage(id, a, use).status; });
    EXPECT_OK(driver().Stage(id, b, use));
    EXPECT_OK(first.get());
    EXPECT_EQ(LoopsOver(Image(id)).size(), 1U);
    if (round % 2 == 0) {
      EXPECT_EQ(TryWrite(a + "/file", "data"), 0);
      EXPECT_EQ(ReadFile(b + "/file"), "data") << "two filesystems over one file are data loss";
    }
    EXPECT_OK(other().Unstage(id, b));
    EXPECT_OK(driver().Unstage(id, a));
    ExpectNoLoops();
  }
}

TEST_F(TwoPlugins, ConcurrentCreateAndDeleteAgree) {
  for (int round = 0; round < 10; ++round) {
    auto first = std::async(std::launch::async, [&] { return other().Create("same"); });
    const auto mine = driver().Create("same");
    const auto theirs = first.get();
    ASSERT_OK(mine);
    ASSERT_OK(theirs);
    EXPECT_EQ(mine->volume().volume_id(), theirs->volume().volume_id());
    auto removal = std::async(std::launch::async, [&] { return other().Delete(mine->volume().volume_id()).status; });
    const auto removed = driver().Delete(mine->volume().volume_id());
    // ABORTED: the other plugin works on the volume. The caller repeats the call.
    EXPECT_THAT(removed.status.code(), AnyOf(Code::kOk, Code::kAborted)) << removed.status;
    EXPECT_THAT(removal.get().code(), AnyOf(Code::kOk, Code::kAborted));
    EXPECT_OK(driver().Delete(mine->volume().volume_id()));
    EXPECT_EQ(other().List()->entries_size(), 0);
  }
}

TEST_F(TwoPlugins, StartOfTheSecondChangesNothing) {
  const std::string mount = Created(kSharedMount), block = Created(kSharedBlock);
  ASSERT_OK(driver().Stage(mount, Staging(mount), kSharedMount));
  ASSERT_OK(driver().Stage(block, Staging(block), kSharedBlock));
  ASSERT_OK(driver().Publish(mount, Staging(mount), Target("m"), kSharedMount));
  const std::string world = World();
  for (const int signal : {SIGTERM, SIGKILL}) {
    second().End(signal);
    ASSERT_TRUE(second().Start());
    EXPECT_EQ(World(), world);
  }
  other().Connect();
  EXPECT_OK(other().Publish(block, Staging(block), Target("b"), kSharedBlock));
  EXPECT_OK(driver().Unpublish(block, Target("b")));
}

}  // namespace
}  // namespace mooring::testing

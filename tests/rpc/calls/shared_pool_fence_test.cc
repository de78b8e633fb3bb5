// A volume of a shared pool is taken from a node only when that node does not have it attached any more. The
// orchestrator may take a node for lost that still writes.
#include "tests/rpc/calls/shared_pool_test.h"

namespace mooring::testing {
namespace {

constexpr char kStill[] = "still attached on node 'node-1'";
constexpr off_t kLockedByte = off_t{1} << 62U;  // fixed: hosts may run different versions

class SharedPoolFence : public SharedPool {
 protected:
  // As the loop device of a host that this one cannot see.
  UniqueFd AttachedByALostHost(const std::string& id) {
    UniqueFd fd(::open(ImageOf(id).c_str(), O_RDWR | O_CLOEXEC));
    const struct flock range = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = kLockedByte, .l_len = 1, .l_pid = 0};
    EXPECT_EQ(::fcntl(fd.get(), F_OFD_SETLK, &range), 0) << ImageOf(id);
    return fd;
  }
  void StopOther() {
    other().Disconnect();
    EXPECT_EQ(other_plugin().Terminate(), 0) << other_plugin().Log();
  }
};

TEST_F(SharedPoolFence, AVolumeIsNotTakenFromANodeThatHasItAttached) {
  const std::string id = Shared();
  Use(driver(), kNode, id, Target("a"));
  for (Driver* const controller : {&other(), &driver()}) {
    for (const char* const node : {kNode, ""}) {
      EXPECT_THAT(controller->Detach(id, node), FailsWith(Code::kFailedPrecondition, kStill));
    }
    EXPECT_OK(controller->Detach(id, kOtherNode)) << "it is not published there";
    EXPECT_THAT(controller->Get(id)->status().published_node_ids(), ElementsAre(kNode));
    EXPECT_THAT(controller->Attach(id, kOtherNode), FailsWith(Code::kFailedPrecondition, kNode));
  }
  EndUse(driver(), kNode, id, Target("a"));
  EXPECT_OK(other().Attach(id, kOtherNode));
  EXPECT_OK(other().Detach(id, kOtherNode));
}

// kNode is dead for its orchestrator. Its lock tells whether it is.
TEST_F(SharedPoolFence, TheLockOfALostHostDecides) {
  for (const VolumeCapability& use : {Mount(), Block()}) {
    const std::string id = Created(CreateRequest("v", use, kVolumeBytes, {{"pool", "nfs"}}));
    ASSERT_OK(driver().Attach(id, kNode, use));
    UniqueFd lost = AttachedByALostHost(id);
    EXPECT_THAT(other().Detach(id, kNode), FailsWith(Code::kFailedPrecondition, kStill));
    EXPECT_THAT(other().Attach(id, kOtherNode, use), FailsWith(Code::kFailedPrecondition, kNode));
    lost.reset();
    EXPECT_OK(other().Detach(id, kNode));
    EXPECT_THAT(other().Get(id)->status().published_node_ids(), ElementsAre());
    ASSERT_OK(other().Attach(id, kOtherNode, use));
    ASSERT_OK(other().Stage(id, StagingOn(kOtherNode, id), use));
    EXPECT_OK(other().Detach(id, kNode)) << "a repeated call";
    EXPECT_THAT(driver().Get(id)->status().published_node_ids(), ElementsAre(kOtherNode));
    EXPECT_OK(other().Unstage(id, StagingOn(kOtherNode, id)));
    EXPECT_OK(other().Detach(id, kOtherNode));
    EXPECT_OK(driver().Delete(id));
  }
}

TEST_F(SharedPoolFence, TheLockDecidesAlsoWithoutAPlugin) {
  const std::string id = Shared();
  Use(driver(), kNode, id, Target("a"));
  ASSERT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  driver().Disconnect();
  EXPECT_EQ(plugin().Kill(), 128 + SIGKILL);
  EXPECT_THAT(other().Detach(id, kNode), FailsWith(Code::kFailedPrecondition, kNode));
  EXPECT_THAT(other().Stage(id, StagingOn(kOtherNode, id)), FailsWith(Code::kFailedPrecondition, kNode));
  Start();
  EXPECT_EQ(ReadFile(Target("a") + "/file"), "data");
  EndUse(driver(), kNode, id, Target("a"));
}

TEST_F(SharedPoolFence, ANodeThatComesBackDoesNotStageWhatAnotherOneHas) {
  const std::string id = Shared();
  ASSERT_OK(driver().Attach(id, kOtherNode));
  EXPECT_THAT(driver().Stage(id, StagingOn(kNode, id)), FailsWith(Code::kFailedPrecondition, kOtherNode));
  ASSERT_OK(other().Stage(id, StagingOn(kOtherNode, id)));
  EXPECT_THAT(driver().Stage(id, StagingOn(kNode, id)), FailsWith(Code::kFailedPrecondition, kOtherNode));
  EXPECT_OK(driver().Unstage(id, StagingOn(kNode, id)));
  EXPECT_OK(other().Unstage(id, StagingOn(kOtherNode, id)));
  EXPECT_OK(driver().Detach(id, kOtherNode));
}

// As under Kubernetes with attachRequired: false.
TEST_F(SharedPoolFence, WithoutControllerPublishTheLockMovesTheVolume) {
  const std::string id = Shared();
  ASSERT_OK(driver().Stage(id, StagingOn(kNode, id)));
  EXPECT_THAT(other().Stage(id, StagingOn(kOtherNode, id)), FailsWith(Code::kFailedPrecondition, id));
  EXPECT_THAT(other().Attach(id, kOtherNode), FailsWith(Code::kFailedPrecondition, "still attached"));
  ASSERT_OK(driver().Unstage(id, StagingOn(kNode, id)));
  ASSERT_OK(other().Stage(id, StagingOn(kOtherNode, id)));
  ASSERT_OK(other().Unstage(id, StagingOn(kOtherNode, id)));
}

// Every image seems to be gone, although another host may have it attached.
TEST_F(SharedPoolFence, APoolThatIsNotMountedTellsNothing) {
  const std::string id = Shared();
  ASSERT_OK(driver().Attach(id, kNode));
  const UniqueFd lost = AttachedByALostHost(id);
  const std::string away = dir() / "away";
  fs::rename(pool_dir(), away);
  fs::create_directory(pool_dir());
  fs::permissions(pool_dir(), fs::perms::owner_all);
  EXPECT_THAT(other().Detach(id, kNode), FailsWith(Code::kUnavailable, "is not mounted"));
  EXPECT_FALSE(other().Send(Request("w")).status.ok());
  EXPECT_TRUE(fs::is_empty(pool_dir()));
  fs::remove(pool_dir());
  fs::rename(away, pool_dir());
  EXPECT_THAT(other().Detach(id, kNode), FailsWith(Code::kFailedPrecondition, kNode));
}

// A host that was started without its mount has the directory below it.
TEST_F(SharedPoolFence, APluginDoesNotBeginAPoolAgainThatItHasHad) {
  const std::string id = Shared();
  StopOther();
  StopPlugin();
  const std::string mounted = dir() / "mounted";
  fs::rename(pool_dir(), mounted);
  fs::create_directory(pool_dir());
  fs::permissions(pool_dir(), fs::perms::owner_all);
  EXPECT_THAT(RunPlugin(other_plugin().options()).log,
              AllOf(HasSubstr("pool nfs: this plugin has had the pool with the tag"), HasSubstr("may not be mounted")));
  EXPECT_TRUE(fs::is_empty(pool_dir()));
  fs::remove_all(pool_dir());
  fs::rename(mounted, pool_dir());
  Start();
  StartOther();
  EXPECT_OK(other().Delete(id));
}

TEST_F(SharedPoolFence, ASecondHostWithTheSameNodeIdDoesNotStart) {
  StopOther();
  Rows(database(), "UPDATE nodes SET boot_id = 'of another host' WHERE id = 'node-1'");
  other_plugin().options().flags[1] = kNode;
  EXPECT_THAT(RunPlugin(other_plugin().options()).log, HasSubstr("another host has the node id 'node-1'"));
  StopPlugin();
  StartOther();  // as a host that was started again
  EXPECT_OK(other().Send(Request("v")));
  StopOther();
  other_plugin().options().flags[1] = kOtherNode;
  Start();
  StartOther();
}

}  // namespace
}  // namespace mooring::testing

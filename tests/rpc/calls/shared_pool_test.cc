// A volume of a shared pool is known to both nodes, and used by one at a time.
#include "tests/rpc/calls/shared_pool_test.h"

#include "tests/support/holders.h"

namespace mooring::testing {
namespace {

TEST_F(SharedPool, AVolumeIsOfEveryNode) {
  const auto made = driver().Send(Request("v"));
  ASSERT_OK(made);
  const std::string id = made->volume().volume_id();
  EXPECT_EQ(made->volume().accessible_topology_size(), 0);
  const auto again = other().Send(Request("v"));
  ASSERT_OK(again);
  EXPECT_EQ(again->volume().volume_id(), id);
  EXPECT_THAT(other().Send(Request("v", 2 * kVolumeBytes)), FailsWith(Code::kAlreadyExists, "v"));
  EXPECT_OK(other().Get(id));
  EXPECT_OK(other().Delete(id));
  EXPECT_OK(driver().Delete(id));
  EXPECT_THAT(driver().Get(id), FailsWith(Code::kNotFound, id));
  EXPECT_FALSE(fs::exists(ImageOf(id)));
}

TEST_F(SharedPool, TopologyAndCapacityAreOfNoNode) {
  CreateVolumeRequest request = Request("v");
  (*request.mutable_accessibility_requirements()->add_requisite()->mutable_segments())["topology.mooring.csi/node"] =
      "elsewhere";
  EXPECT_OK(driver().Send(request));
  GetCapacityRequest asked;
  (*asked.mutable_parameters())["pool"] = "nfs";
  (*asked.mutable_accessible_topology()->mutable_segments())["topology.mooring.csi/node"] = kOtherNode;
  EXPECT_GT(driver().Send(asked)->available_capacity(), 0);
}

TEST_F(SharedPool, OneNodeAtATime) {
  const std::string id = Shared();
  for (Driver* const controller : {&driver(), &other()}) {
    ASSERT_OK(controller->Attach(id, kNode));
    ASSERT_OK(controller->Attach(id, kNode));
    EXPECT_THAT(controller->Attach(id, kOtherNode), FailsWith(Code::kFailedPrecondition, kNode));
    EXPECT_THAT(controller->Attach(id, "stranger"), FailsWith(Code::kNotFound, "stranger"));
    EXPECT_THAT(controller->Get(id)->status().published_node_ids(), ElementsAre(kNode));
    EXPECT_THAT(other().Delete(id), FailsWith(Code::kFailedPrecondition, kNode));
    EXPECT_OK(other().Detach(id, kNode));
    EXPECT_OK(driver().Detach(id, kNode));
    ASSERT_OK(controller->Attach(id, kOtherNode));
    ASSERT_OK(controller->Detach(id, kOtherNode));
  }
}

TEST_F(SharedPool, ASecondNodeIsRefusedAlsoWithoutRecords) {
  for (const VolumeCapability& use : {Mount(), Block()}) {
    const std::string id = Created(CreateRequest("v", use, kVolumeBytes, {{"pool", "nfs"}}));
    ASSERT_OK(driver().Attach(id, kNode, use));
    ASSERT_OK(driver().Stage(id, StagingOn(kNode, id), use));
    Rows(database(), "DELETE FROM publications");
    for (Driver* const controller : {&driver(), &other()}) {
      EXPECT_THAT(controller->Attach(id, kOtherNode, use), FailsWith(Code::kFailedPrecondition, "still attached"));
      EXPECT_THAT(controller->Detach(id, kNode), FailsWith(Code::kFailedPrecondition, "still attached"));
      EXPECT_THAT(controller->Detach(id, ""), FailsWith(Code::kFailedPrecondition, "still attached"));
    }
    EXPECT_THAT(other().Stage(id, StagingOn(kOtherNode, id), use), FailsWith(Code::kFailedPrecondition, id));
    EXPECT_THAT(other().Delete(id), FailsWith(Code::kFailedPrecondition, "in use"));
    EXPECT_OK(driver().Attach(id, kNode, use)) << "it has the volume, so its record comes back";
    EXPECT_THAT(other().Attach(id, kOtherNode, use), FailsWith(Code::kFailedPrecondition, kNode));
    EXPECT_OK(driver().Unstage(id, StagingOn(kNode, id)));
    EXPECT_OK(other().Detach(id, kNode));
    EXPECT_OK(other().Stage(id, StagingOn(kOtherNode, id), use));
    EXPECT_OK(other().Unstage(id, StagingOn(kOtherNode, id)));
    EXPECT_OK(other().Delete(id));
  }
}

TEST_F(SharedPool, RestartsDoNotTouchTheUseOfTheOtherNode) {
  const std::string id = Shared();
  Use(driver(), kNode, id, Target("a"));
  ASSERT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  const std::string before = RawMounts();
  other().Disconnect();
  EXPECT_EQ(other_plugin().Kill(), 128 + SIGKILL);
  fs::remove(dir() / "other-state/node.db");
  StartOther();
  EXPECT_EQ(RawMounts(), before);
  EXPECT_THAT(other().Stage(id, StagingOn(kOtherNode, id)), FailsWith(Code::kFailedPrecondition, id));
  KillAndForget();
  EXPECT_EQ(RawMounts(), before);
  EXPECT_EQ(ReadFile(Target("a") + "/file"), "data");
  EndUse(driver(), kNode, id, Target("a"));
}

TEST_F(SharedPool, AnyNodeGrowsAVolumeThatIsInUse) {
  const std::string id = Created(CreateRequest("v", Mount("xfs"), kXfsBytes, {{"pool", "nfs"}}));
  Use(driver(), kNode, id, Target("a"));
  const auto grown = other().Grow(id, 2 * kXfsBytes);
  ASSERT_OK(grown);
  EXPECT_TRUE(grown->node_expansion_required());
  EXPECT_EQ(driver().Get(id)->volume().capacity_bytes(), 2 * kXfsBytes);
  ASSERT_OK(driver().NodeExpand(id, Target("a"), 2 * kXfsBytes));
  EXPECT_GT(MountedBytes(Target("a")), static_cast<std::uint64_t>(kXfsBytes));
  EndUse(driver(), kNode, id, Target("a"));
}

TEST_F(SharedPool, SnapshotsAndCopiesAreOfEveryNode) {
  const std::string id = Shared();
  Use(driver(), kNode, id, Target("a"));
  ASSERT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  const std::string snapshot = Snapped("s", id);
  EndUse(driver(), kNode, id, Target("a"));
  EXPECT_EQ(other().Snap("s", id)->snapshot().snapshot_id(), snapshot);
  const auto copy = other().Send(CopyRequest("copy", snapshot, Mount(), kVolumeBytes, {{"pool", "nfs"}}));
  ASSERT_OK(copy);
  Use(driver(), kNode, copy->volume().volume_id(), Target("b"));
  EXPECT_EQ(ReadFile(Target("b") + "/file"), "data");
  EndUse(driver(), kNode, copy->volume().volume_id(), Target("b"));
  EXPECT_OK(driver().Delete(copy->volume().volume_id()));
  EXPECT_OK(other().DeleteSnapshot(snapshot));
  EXPECT_OK(driver().DeleteSnapshot(snapshot));
}

// The pages go through the local catalog, then through the pool.
TEST_F(SharedPool, ListsShowLocalAndSharedVolumes) {
  const std::set<std::string> all = {Created(CreateRequest("a")), Created(CreateRequest("b")), Shared("a"), Shared("b"),
                                     Shared("c")};
  std::set<std::string> seen;
  ListVolumesRequest request;
  request.set_max_entries(1);
  for (int page = 0; page < 5; ++page) {
    const auto list = driver().Send(request);
    ASSERT_OK(list);
    ASSERT_EQ(list->entries_size(), 1);
    seen.insert(list->entries(0).volume().volume_id());
    request.set_starting_token(list->next_token());
  }
  EXPECT_EQ(request.starting_token(), "");
  EXPECT_EQ(seen, all);
  EXPECT_EQ(other().List()->entries_size(), 3);
}

TEST_F(SharedPool, WithoutThePoolNothingIsForgotten) {
  const std::string id = Shared();
  StopPlugin();
  const std::vector<std::string> flags = plugin().options().flags;
  plugin().options().flags.resize(flags.size() - 2);
  Start();
  for (const absl::Status& refused : {driver().Delete(id).status, driver().Get(id).status,
                                      driver().Detach(id, kNode).status, driver().Stage(id, Staging(id)).status}) {
    EXPECT_THAT(refused, FailsWith(Code::kFailedPrecondition, "--pool"));
  }
  plugin().options().flags = flags;
  Restart(SIGTERM);
  EXPECT_OK(driver().Delete(id));
}

// Two plugins of a host have the same node id, and so the same labels.
TEST_F(SharedPool, APluginWithoutThePoolLeavesItsDevicesAlone) {
  const std::string id = Created(CreateRequest("v", Block(), kVolumeBytes, {{"pool", "nfs"}}));
  ASSERT_OK(driver().Attach(id, kNode, Block()));
  ASSERT_OK(driver().Stage(id, StagingOn(kNode, id), Block()));
  PluginProcess stranger({.socket = dir() / "stranger.sock",
                          .state_dir = dir() / "stranger-state",
                          .log_file = dir() / "stranger.log",
                          .flags = {"--node-id", kNode}});
  ASSERT_TRUE(stranger.Start());
  EXPECT_EQ(stranger.Terminate(), 0);
  ASSERT_EQ(LoopsHere().size(), 1U);
  EXPECT_FALSE(LoopsHere().front().auto_clear);
  EXPECT_EQ(HoldersOfDevice(LoopsHere().front().device).size(), 1U);
  EXPECT_OK(driver().Unstage(id, StagingOn(kNode, id)));
  EXPECT_OK(driver().Detach(id, kNode));
}

// An interrupted call of a dead host is cleared up by another one.
TEST_F(SharedPool, AnotherNodeFinishesAnInterruptedCall) {
  const std::string id = Shared();
  StopPlugin();
  Rows(database(), "UPDATE volumes SET state = 'creating'");
  const auto again = other().Send(Request("v"));
  ASSERT_OK(again);
  Start();
  EXPECT_OK(driver().Get(again->volume().volume_id()));
}

}  // namespace
}  // namespace mooring::testing

// Settings of volumes at their mounts and devices, and problems of volumes in use.
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

constexpr auto kMany = AccessMode::kSingleNodeMultiWriter;

class NodeTuneTest : public NodeVolumesTest {
 protected:
  NodeVolume Tuned(const VolumeTuning& tuning) {
    NodeVolume volume = source_.Find(kVolume).value();
    volume.tuning = tuning;
    source_.Put(volume);
    return volume;
  }
  Atime AtimeAt(const std::string& path) { return FlagsAt(path).atime; }
};

TEST_F(NodeTuneTest, OnlyChangedSettingsAreApplied) {
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(kMany))));
  ASSERT_OK(Publish(PublishAt("/pods/t", WithFlags(MountCapability(kMany), {"noatime"}))));
  mounter_.ClearLog();
  ASSERT_OK(volumes_->Tune(Tuned({.read_ahead_bytes = 4096, .noatime = true})));
  EXPECT_THAT(mounter_.Calls("Change"), ElementsAre("Change /staging/a"));
  EXPECT_THAT(mounter_.Calls("TuneLoop"), ElementsAre("TuneLoop /dev/loop0 4096"));
  ASSERT_OK(volumes_->Tune(Tuned({})));
  EXPECT_EQ(AtimeAt("/staging/a"), Atime::kRelatime);
  EXPECT_EQ(AtimeAt("/pods/t"), Atime::kNoatime) << "its own mount flag";
}

TEST_F(NodeTuneTest, OtherVolumesAndForeignMountsStayUnchanged) {
  AddVolume("vol-b");
  ASSERT_OK(Stage(StageAt("/staging/b", MountCapability(), "vol-b")));
  ASSERT_OK(Stage(StageAt("/staging/a")));
  mounter_.With([](FakeKernel& kernel) {
    kernel.DropMounts("/staging/a");
    kernel.AddForeignMount("/staging/a", "tmpfs");
  });
  mounter_.ClearLog();
  ASSERT_OK(volumes_->Tune(Tuned({.read_ahead_bytes = 4096, .noatime = true})));
  EXPECT_THAT(mounter_.Calls("Change"), IsEmpty());
  EXPECT_THAT(mounter_.Calls("TuneLoop"), IsEmpty());
}

TEST_F(NodeTuneTest, NextStageFinishesInterruptedTune) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  ASSERT_OK(Publish(PublishAt("/pods/t")));
  Tuned({.noatime = true});
  EXPECT_OK(Publish(PublishAt("/pods/t")));
  EXPECT_OK(Stage(StageAt("/staging/a")));
  EXPECT_EQ(AtimeAt("/staging/a"), Atime::kNoatime);
  Tuned({});
  EXPECT_OK(Publish(PublishAt("/pods/t")));
  EXPECT_OK(Stage(StageAt("/staging/a")));
  EXPECT_EQ(AtimeAt("/staging/a"), Atime::kRelatime);
}

// A process was killed between the mount and its device: the record is not done.
TEST_F(NodeTuneTest, NextStageTunesAfterInterruptedStage) {
  Tuned({.read_ahead_bytes = 8192});
  ASSERT_OK(Stage(StageAt("/staging/a")));
  LoseOutcomes();
  mounter_.ClearLog();
  ASSERT_OK(Stage(StageAt("/staging/a")));
  EXPECT_THAT(mounter_.Calls("TuneLoop"), ElementsAre("TuneLoop /dev/loop0 8192"));
}

TEST_F(NodeTuneTest, StageWithFailedTuneLeavesNothing) {
  Tuned({.read_ahead_bytes = 8192});
  for (const Capability& capability : {MountCapability(), BlockCapability()}) {
    mounter_.Fail("TuneLoop", FailedPrecondition("permission denied"));
    EXPECT_FALSE(Stage(StageAt("/staging/a", capability)).ok());
    ExpectNothingLeft();
    EXPECT_OK(Stage(StageAt("/staging/a", capability)));
    EXPECT_OK(Unstage("/staging/a"));
  }
}

TEST_F(NodeTuneTest, DeviceThatDisappearsIsNoFailure) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  mounter_.Fail("TuneLoop", NotFound("no longer the device of its file"));
  EXPECT_OK(volumes_->Tune(Tuned({.read_ahead_bytes = 4096})));
}

class NodeHealthTest : public NodeVolumesTest {
 protected:
  NodeVolumes::Problems Problems(const std::set<std::string>& ids) { return volumes_->FindProblems(ids).value(); }
};

TEST_F(NodeHealthTest, NinetyFivePercentIsNearlyFull) {
  const auto of = [](std::uint64_t used, std::uint64_t available) {
    StatsInfo stats;
    stats.bytes = {used + available + 50, used, available};  // root's own 50 count for nothing
    stats.inodes = {100, 10, 90};
    return FullnessOf(stats);
  };
  EXPECT_EQ(of(94, 6), "");
  EXPECT_THAT(of(95, 5), HasSubstr("nearly full"));
  EXPECT_THAT(of(10, 0), HasSubstr("nearly full"));
  EXPECT_EQ(of(0, 0), "") << "nothing is known";
  EXPECT_EQ(FullnessOf({}), "");
  StatsInfo inodes;
  inodes.inodes = {1000, 950, 50};
  EXPECT_THAT(FullnessOf(inodes), HasSubstr("50 of 1000 left"));
}

TEST_F(NodeHealthTest, OneMountOfEachRequestedVolumeIsAsked) {
  AddVolume("vol-b");
  ASSERT_OK(Stage(StageAt("/staging/a")));
  ASSERT_OK(Publish(PublishAt("/pods/t")));
  ASSERT_OK(Stage(StageAt("/staging/b", MountCapability(), "vol-b")));
  for (const char* id : {kVolume, "vol-b"}) {
    mounter_.With([&](FakeKernel& kernel) { kernel.Node(Image(id)).filesystem.health_problem = "errors were met"; });
  }
  mounter_.ClearLog();
  EXPECT_THAT(Problems({kVolume}), ElementsAre(Pair(kVolume, "errors were met")));
  EXPECT_EQ(mounter_.Calls("HealthProblem").size(), 1U);
  EXPECT_EQ(Problems({kVolume, "vol-b", "vol-c"}).size(), 2U);
  EXPECT_THAT(Problems({"vol-c"}), IsEmpty());
}

TEST_F(NodeHealthTest, MissingMountIsNoProblemAndHangingMountIs) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  mounter_.Fail("HealthProblem", absl::DeadlineExceededError("no answer"));
  EXPECT_THAT(Problems({kVolume}), ElementsAre(Pair(kVolume, "no answer")));
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/staging/a"); });
  EXPECT_THAT(Problems({kVolume}), IsEmpty());
}

TEST_F(NodeHealthTest, HangingFilesystemsDoNotDelayList) {
  std::set<std::string> ids;
  for (int i = 0; i < 12; ++i) {
    const std::string id = fmt::format("vol-{}", i), path = "/staging/" + id;
    AddVolume(id);
    mounter_.With([&](FakeKernel& kernel) { kernel.AddDirectory(path); });
    ASSERT_OK(Stage(StageAt(path, MountCapability(), id)));
    ids.insert(id);
  }
  mounter_.Delay("HealthProblem", std::chrono::milliseconds(250));
  const NodeVolumes::Problems found = Problems(ids);
  EXPECT_THAT(found.at("vol-9"), HasSubstr("was not asked"));
  EXPECT_FALSE(found.contains("vol-0"));
}

}  // namespace
}  // namespace mooring::testing

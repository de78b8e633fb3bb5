// Calls for one volume wait for each other, and other calls do not. It also runs under tsan.
#include <random>

#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

using std::chrono::milliseconds;

using NodeConcurrencyTest = NodeVolumesTest;

Call CallOf(milliseconds time) { return {std::chrono::steady_clock::now() + time}; }

TEST_F(NodeConcurrencyTest, SlowFormatDelaysNoOtherVolume) {
  AddVolume("vol-b");
  ASSERT_OK(Stage(StageAt("/staging/b", MountCapability(), "vol-b")));
  const std::shared_ptr<Gate> gate = mounter_.Hold("Format", "vol-a");
  std::thread slow([&] { EXPECT_OK(Stage(StageAt("/staging/a"))); });
  EXPECT_TRUE(gate->WaitUntilReached());
  EXPECT_OK(
      volumes_->Publish(PublishAt("/pods/b", MountCapability(), "/staging/b", "vol-b"), CallOf(milliseconds(500))));
  EXPECT_OK(volumes_->Unpublish("vol-b", "/pods/b", CallOf(milliseconds(500))));
  gate->Open();
  slow.join();
  EXPECT_TRUE(IsMounted("/staging/a"));
}

TEST_F(NodeConcurrencyTest, SecondCallForVolumeIsAbortedAtItsDeadline) {
  const std::shared_ptr<Gate> gate = mounter_.Hold("Format");
  std::thread slow([&] { EXPECT_OK(Stage(StageAt("/staging/a"))); });
  EXPECT_TRUE(gate->WaitUntilReached());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(volumes_->Stage(StageAt("/staging/b"), CallOf(milliseconds(100))),
              FailsWith(StatusCode::kAborted, "volume 'vol-a'"));
  EXPECT_THAT(volumes_->Unpublish(kVolume, "/pods/t", CallOf(milliseconds(1))),
              FailsWith(StatusCode::kAborted, "vol-a"));
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(100));
  gate->Open();
  slow.join();
  EXPECT_FALSE(IsMounted("/staging/b"));
}

TEST_F(NodeConcurrencyTest, SecondCallForVolumeSucceedsAfterFirst) {
  const std::shared_ptr<Gate> gate = mounter_.Hold("Format");
  std::thread first([&] { EXPECT_OK(Stage(StageAt("/staging/a"))); });
  EXPECT_TRUE(gate->WaitUntilReached());
  std::atomic<bool> done = false;
  std::thread second([&] {
    EXPECT_OK(Stage(StageAt("/staging/a")));
    done = true;
  });
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_FALSE(done);
  gate->Open();
  first.join();
  second.join();
  EXPECT_THAT(MountsAt("/staging/a"), SizeIs(1));
  EXPECT_THAT(mounter_.Calls("Format"), SizeIs(1));
}

// The mount helper of a killed plugin finishes its call while the next plugin stages the volume again.
TEST_F(NodeConcurrencyTest, MountByAKilledPluginsHelperIsAccepted) {
  const StageSpec spec = StageAt("/staging/a");
  ASSERT_OK(Stage(spec));
  const MountFlags flags = MountsAt("/staging/a").front().info.flags;
  ASSERT_OK(Unstage("/staging/a"));
  const std::shared_ptr<Gate> gate = mounter_.Hold("Mount");
  std::thread stage([&] { EXPECT_OK(Stage(spec)); });
  EXPECT_TRUE(gate->WaitUntilReached());
  MountRequest of_helper;
  of_helper.source = Image(kVolume);
  of_helper.label = LabelFor(kVolume);
  of_helper.fs_type = "ext4";
  of_helper.target = spec.staging_path;
  of_helper.flags = flags;
  ASSERT_OK(mounter_.With([&](FakeKernel& kernel) { return kernel.Mount(of_helper); }));
  gate->Open();
  stage.join();
  EXPECT_THAT(MountsAt("/staging/a"), SizeIs(1));
  EXPECT_THAT(AllRecords(), ElementsAre(::testing::Field(&VolumeUse::done, true)));
  EXPECT_THAT(Stage(ReadOnly(spec)), FailsWith(StatusCode::kAlreadyExists, "another capability"));
}

TEST_F(NodeConcurrencyTest, MountByAKilledPluginsHelperForAnotherGroupIsRefused) {
  const StageSpec of_helper = StageAt("/staging/a");
  ASSERT_OK(Stage(of_helper));
  const std::vector<VolumeUse> before = AllRecords();
  LoseOutcomes();
  const FakeMount mount = MountsAt("/staging/a").front();
  ASSERT_OK(mounter_.With([](FakeKernel& kernel) { return kernel.Unmount({.target = "/staging/a"}); }));
  StageSpec other = of_helper;
  other.capability.mount_group = 2000;
  const std::shared_ptr<Gate> gate = mounter_.Hold("Mount");
  std::thread stage([&] { EXPECT_THAT(Stage(other), FailsWith(StatusCode::kAlreadyExists, "another capability")); });
  EXPECT_TRUE(gate->WaitUntilReached());
  ASSERT_OK(mounter_.With([&](FakeKernel& kernel) {
    MountRequest request;
    request.source = Image(kVolume);
    request.label = LabelFor(kVolume);
    request.fs_type = "ext4";
    request.target = "/staging/a";
    request.flags = mount.info.flags;
    return kernel.Mount(request);
  }));
  gate->Open();
  stage.join();
  ASSERT_THAT(AllRecords(), SizeIs(1));
  EXPECT_EQ(AllRecords()[0].capability, before[0].capability);
}

TEST_F(NodeConcurrencyTest, FormatByAnotherProcessIsAccepted) {
  const std::shared_ptr<Gate> gate = mounter_.Hold("Format");
  std::thread stage([&] { EXPECT_OK(Stage(StageAt("/staging/a"))); });
  EXPECT_TRUE(gate->WaitUntilReached());
  SetFormatted(kVolume, "ext4");
  gate->Open();
  stage.join();
  EXPECT_TRUE(IsMounted("/staging/a"));
}

TEST_F(NodeConcurrencyTest, FormatByAnotherProcessWithOtherTypeIsRefused) {
  const std::shared_ptr<Gate> gate = mounter_.Hold("Format");
  std::thread stage([&] { EXPECT_FALSE(Stage(StageAt("/staging/a")).ok()); });
  EXPECT_TRUE(gate->WaitUntilReached());
  SetFormatted(kVolume, "xfs");
  gate->Open();
  stage.join();
  ExpectNothingLeft();
}

TEST_F(NodeConcurrencyTest, TwoVolumesAtOnePathWaitForEachOther) {
  AddVolume("vol-b");
  const std::shared_ptr<Gate> gate = mounter_.Hold("Format", "vol-a");
  std::thread slow([&] { EXPECT_OK(Stage(StageAt("/staging/a"))); });
  EXPECT_TRUE(gate->WaitUntilReached());
  EXPECT_THAT(volumes_->Stage(StageAt("/staging/a", MountCapability(), "vol-b"), CallOf(milliseconds(50))),
              FailsWith(StatusCode::kAborted, "path '/staging/a'"));
  gate->Open();
  slow.join();
  EXPECT_THAT(Stage(StageAt("/staging/a", MountCapability(), "vol-b")),
              FailsWith(StatusCode::kFailedPrecondition, "volume vol-a"));
}

// A thread that makes all kinds of calls, for one of three volumes, at paths that other threads use too.
class NodeThreadsTest : public NodeVolumesTest {
 protected:
  void MakeRandomCalls(unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 150; ++i) {
      const std::string id = fmt::format("vol-{}", random() % 3);
      const std::string staging = "/staging/" + id;
      const std::string target = fmt::format("/pods/{}-{}", id, random() % 3);
      Capability capability = MountCapability(AccessMode::kMultiNodeMultiWriter);
      if (id == "vol-2") capability = BlockCapability(AccessMode::kMultiNodeMultiWriter);
      PublishSpec publish = PublishAt(target, capability, staging, id);
      publish.read_only = random() % 2 == 0;
      absl::Status status;
      switch (random() % 6) {
        case 0:
          status = Stage(StageAt(staging, capability, id));
          break;
        case 1:
        case 2:
          status = Publish(publish);
          break;
        case 3:
          status = Unpublish(target, id);
          break;
        case 4:
          status = Unstage(staging, id);
          break;
        case 5:
          status = volumes_->Stats(id, target).status();
          if (status.ok()) status = Expand(target, 0, 0, id).status();
          break;
      }
      if (IsUnexpected(status)) ADD_FAILURE() << id << " " << target << ": " << status;
    }
  }
  static bool IsUnexpected(const absl::Status& status) {
    return !status.ok() && !absl::IsFailedPrecondition(status) && !absl::IsAlreadyExists(status) &&
           !absl::IsNotFound(status);
  }
};

TEST_F(NodeThreadsTest, MountsOfEightThreadsCanAllBeEnded) {
  for (int i = 0; i < 3; ++i) {
    AddVolume(fmt::format("vol-{}", i));
    mounter_.With([&](FakeKernel& kernel) { kernel.AddDirectory(fmt::format("/staging/vol-{}", i)); });
  }
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) threads.emplace_back([this, i] { MakeRandomCalls(i); });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 3; ++i) {
    const std::string id = fmt::format("vol-{}", i);
    EXPECT_LE(mounter_.FindLoops(Image(id))->size(), 1U) << id;
    for (int target = 0; target < 3; ++target) EXPECT_OK(Unpublish(fmt::format("/pods/{}-{}", id, target), id));
    EXPECT_OK(Unstage("/staging/" + id, id));
  }
  ExpectNothingLeft();
}

}  // namespace
}  // namespace mooring::testing

// A backend over a fake volume group and fake devices.
#include "plugin/backends/lvm/lvm_backend.h"

#include <memory>
#include <string>
#include <vector>

#include "plugin/model/volume_id.h"
#include "tests/unit/catalog/device_backend_fixture.h"

namespace mooring::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr std::uint64_t kMiB = 1U << 20U, kExtent = 4 * kMiB;

// "vol-0000…1" has the device "my--vg-vol--0000…1".
class LvmBackendTest : public ::testing::Test {
 protected:
  LvmBackendTest() {
    LvmReport& group = Pool("my-vg");
    group.bytes = 1000 * kMiB;
    group.free_bytes = 500 * kMiB;
    LvmReport& thin = Pool("my-vg/thin");
    thin.bytes = 400 * kMiB;
    thin.free_bytes = 300 * kMiB;
    thin.zeroes = true;
    group.extent_bytes = thin.extent_bytes = kExtent;
  }

  static std::string Id(int number) { return fmt::format("vol-{:032x}", number); }
  static std::string SnapshotId(int number) { return fmt::format("snap-{:032x}", number); }
  static std::string LinkOf(int number) { return fmt::format("my--vg-vol--{:032x}", number); }

  LvmReport& Pool(const std::string& pool) {
    return *kernel_.With([&](FakeKernel& kernel) { return &kernel.lvm_pools[pool]; });
  }
  void Plug(int number, std::uint64_t bytes) {
    host_.Put(LinkOf(number), static_cast<unsigned>(number), bytes, "");
    kernel_.With([&](FakeKernel& kernel) { kernel.AddFile(fmt::format("/dev/fake{}", number), bytes); });
  }
  void Create(LvmBackend& backend, int number, bool raw = false) {
    ASSERT_OK(backend.Create({.id = Id(number), .bytes = kExtent, .raw = raw}));
    Plug(number, kExtent);
  }
  std::vector<std::string> Made() { return kernel_.Calls("MakeLogicalVolume"); }

  static void Interrupt(LogicalVolume& growth) {
    growth.is_cleared = false;
    growth.is_growing = true;
  }

  FakeHost host_;
  FakeMounter kernel_;
  LvmBackend thick_{"my-vg", std::make_unique<FakeDisks>(host_, "my--vg-vol--*"), kernel_};
  LvmBackend thin_{"my-vg/thin", std::make_unique<FakeDisks>(host_, "my--vg-vol--*"), kernel_};
};

TEST_F(LvmBackendTest, AVolumeIsMadeFoundGrownAndDeleted) {
  Create(thick_, 1);
  EXPECT_THAT(Made(), ElementsAre("MakeLogicalVolume " + Id(1) + "  4194304"));
  const absl::StatusOr<VolumeLocation> found = thick_.Locate(Id(1));
  ASSERT_OK(found);
  EXPECT_EQ(found->path, "/dev/fake1");
  EXPECT_EQ(found->device, makedev(8, 1));
  EXPECT_EQ(found->bytes, kExtent);
  EXPECT_OK(thick_.Grow(Id(1), 2 * kExtent));
  EXPECT_EQ(Pool("my-vg").volumes.front().bytes, 2 * kExtent);
  EXPECT_OK(thick_.Delete(Id(1)));
  EXPECT_THAT(Pool("my-vg").volumes, IsEmpty());
}

TEST_F(LvmBackendTest, AnActiveVolumeIsLocatedWithoutLvm) {
  Create(thick_, 1);
  ASSERT_OK(thick_.Locate(Id(1)));
  kernel_.ClearLog();
  EXPECT_OK(thick_.Locate(Id(1)));
  EXPECT_THAT(kernel_.Calls(), IsEmpty());
}

TEST_F(LvmBackendTest, OnlyAVolumeThatIsMissingInItsGroupDoesNotExist) {
  EXPECT_THAT(thick_.Locate(Id(1)), FailsWith(StatusCode::kNotFound, "no logical volume"));
  Pool("my-vg").volumes.push_back({.name = Id(1), .bytes = kExtent});
  EXPECT_THAT(thick_.Locate(Id(1)), FailsWith(StatusCode::kUnavailable, "lvchange -ay -K my-vg/" + Id(1)));
  kernel_.With([](FakeKernel& kernel) { kernel.lvm_pools.clear(); });
  EXPECT_THAT(thick_.Locate(Id(1)), FailsWith(StatusCode::kUnavailable, "is not there"));
  EXPECT_THAT(thick_.Delete(Id(1)), FailsWith(StatusCode::kUnavailable, "is not there"));
  EXPECT_THAT(kernel_.Calls("RemoveLogicalVolume"), IsEmpty());
}

TEST_F(LvmBackendTest, AVolumeThatIsNotFinishedDoesNotExistAndIsDeleted) {
  Pool("my-vg").volumes.push_back({.name = Id(1), .bytes = kExtent, .is_new = true, .is_active = true});
  Plug(1, kExtent);
  EXPECT_THAT(thick_.Locate(Id(1)), FailsWith(StatusCode::kNotFound, "no logical volume"));
  EXPECT_THAT(*thick_.Reconcile(), ElementsAre(Id(1)));
  EXPECT_THAT(kernel_.Calls("ActivateLogicalVolume"), IsEmpty());
  EXPECT_OK(thick_.Delete(Id(1)));
  EXPECT_THAT(Pool("my-vg").volumes, IsEmpty());
}

TEST_F(LvmBackendTest, TheStartActivatesVolumesAndNoSnapshots) {
  Pool("my-vg/thin").volumes = {{.name = Id(1), .bytes = kExtent, .is_active = true},
                                {.name = Id(2), .bytes = kExtent},
                                {.name = SnapshotId(3), .bytes = kExtent}};
  EXPECT_THAT(*thin_.Reconcile(), UnorderedElementsAre(Id(1), Id(2), SnapshotId(3)));
  EXPECT_THAT(kernel_.Calls("ActivateLogicalVolume"), ElementsAre("ActivateLogicalVolume " + Id(2)));
  thin_.WaitFor(Id(2), {});
  EXPECT_EQ(kernel_.Calls("ActivateLogicalVolume").size(), 2U);
  Plug(2, kExtent);
  thin_.WaitFor(Id(2), {});
  EXPECT_EQ(kernel_.Calls("ActivateLogicalVolume").size(), 2U);
}

TEST_F(LvmBackendTest, SizesAreRoundedUpToExtents) {
  EXPECT_EQ(*thick_.RoundUp(1), kExtent);
  EXPECT_EQ(*thick_.RoundUp(kExtent), kExtent);
  EXPECT_EQ(*thick_.RoundUp(kExtent + 1), 2 * kExtent);
}

TEST_F(LvmBackendTest, TheSizeMustBeFree) {
  EXPECT_THAT(thick_.Create({.id = Id(1), .bytes = 501 * kMiB}),
              FailsWith(StatusCode::kOutOfRange, "volume group 'my-vg' has 500 MiB left"));
  EXPECT_THAT(thin_.Create({.id = Id(1), .bytes = 301 * kMiB}),
              FailsWith(StatusCode::kOutOfRange, "thin pool 'my-vg/thin' has 300 MiB left"));
  EXPECT_THAT(Made(), IsEmpty());
  Create(thin_, 1);
  EXPECT_THAT(thin_.Grow(Id(1), 400 * kMiB), FailsWith(StatusCode::kOutOfRange, "300 MiB left"));
  EXPECT_THAT(kernel_.Calls("GrowLogicalVolume"), IsEmpty());
}

TEST_F(LvmBackendTest, AFullThinPoolTakesNothingNew) {
  Create(thin_, 1);
  Pool("my-vg/thin").problem = "thin pool 'my-vg/thin' is 97 % full";
  EXPECT_THAT(thin_.Create({.id = Id(2), .bytes = kExtent}), FailsWith(StatusCode::kResourceExhausted, "97 % full"));
  EXPECT_THAT(thin_.Grow(Id(1), 2 * kExtent), FailsWith(StatusCode::kResourceExhausted, "97 % full"));
  EXPECT_THAT(thin_.Copy({{.id = SnapshotId(2), .source_id = Id(1)}}),
              FailsWith(StatusCode::kResourceExhausted, "97 % full"));
  EXPECT_EQ(thin_.Capacity()->shortage, "thin pool 'my-vg/thin' is 97 % full");
  EXPECT_EQ(thin_.Capacity()->available, 0U);
  EXPECT_EQ(thin_.Locate(Id(1))->problem, "thin pool 'my-vg/thin' is 97 % full");
  Pool("my-vg/thin").problem = "";
  EXPECT_EQ(thin_.Capacity()->available, 300 * kMiB);
  EXPECT_EQ(thin_.Locate(Id(1))->problem, "");
}

TEST_F(LvmBackendTest, ARawDeviceShowsNothingOfDeletedVolumes) {
  Create(thick_, 1);
  Create(thick_, 2, true);
  Create(thin_, 3);
  EXPECT_THAT(Made().back(), "MakeLogicalVolume " + Id(3) + "  4194304");
  EXPECT_THAT(Made()[1], "MakeLogicalVolume " + Id(2) + "  4194304 clear");
  for (const bool read_only : {false, true}) {
    EXPECT_THAT(thick_.NoteRawUse(Id(1), read_only),
                FailsWith(StatusCode::kFailedPrecondition, "was made for a filesystem"));
    EXPECT_OK(thick_.NoteRawUse(Id(2), read_only));
    EXPECT_OK(thin_.NoteRawUse(Id(3), read_only));
  }
}

// An empty look at the begin and the end of a large device proves nothing then.
TEST_F(LvmBackendTest, AVolumeThatATaskHadAsARawDeviceIsKnown) {
  Create(thin_, 1);
  EXPECT_FALSE(thin_.Locate(Id(1))->raw);
  EXPECT_FALSE(thin_.HoldsData(Id(1)));
  EXPECT_OK(thin_.NoteRawUse(Id(1), true));
  EXPECT_FALSE(thin_.Locate(Id(1))->raw);
  EXPECT_OK(thin_.NoteRawUse(Id(1), false));
  EXPECT_TRUE(thin_.Locate(Id(1))->raw);
  EXPECT_TRUE(thin_.Locate(Id(1))->raw);  // as remembered
  EXPECT_OK(thin_.NoteRawUse(Id(1), false));
  EXPECT_EQ(kernel_.Calls("NoteRawLogicalVolume").size(), 1U);
}

TEST_F(LvmBackendTest, AMissingGroupIsAskedForOnceInAWhile) {
  kernel_.With([](FakeKernel& kernel) { kernel.lvm_pools.clear(); });
  for (int i = 0; i < 3; ++i) EXPECT_THAT(thick_.Locate(Id(1)), FailsWith(StatusCode::kUnavailable, "is not there"));
  EXPECT_EQ(kernel_.Calls("ReportLvm").size(), 1U);
}

TEST_F(LvmBackendTest, ARawDeviceThatIsPublishedDoesNotGrow) {
  Create(thick_, 1, true);
  Create(thick_, 2);
  Create(thin_, 3);
  for (const int number : {1, 2, 3}) {
    ListedMount target;
    target.target = fmt::format("/csi/{}", number);
    target.fs_type = "devtmpfs";
    target.root = fmt::format("/fake{}", number);
    kernel_.With([&](FakeKernel& kernel) { kernel.AddMount(target); });
  }
  EXPECT_THAT(thick_.Grow(Id(1), 2 * kExtent), FailsWith(StatusCode::kFailedPrecondition, "mounted at '/csi/1'"));
  EXPECT_OK(thick_.Grow(Id(1), kExtent));  // a call that is repeated after its growth
  Interrupt(Pool("my-vg").volumes[0]);
  EXPECT_THAT(thick_.Grow(Id(1), kExtent), FailsWith(StatusCode::kFailedPrecondition, "mounted at '/csi/1'"));
  EXPECT_OK(thick_.Grow(Id(2), 2 * kExtent));
  EXPECT_OK(thin_.Grow(Id(3), 2 * kExtent));
  kernel_.With([](FakeKernel& kernel) { kernel.DropMounts("/csi/1"); });
  EXPECT_OK(thick_.Grow(Id(1), 2 * kExtent));
}

// Nobody may write to what the rest of the growth clears.
TEST_F(LvmBackendTest, AVolumeWhoseGrowthWasInterruptedIsNotUsedBeforeItIsGrownAgain) {
  Create(thick_, 1, true);
  ASSERT_OK(thick_.Locate(Id(1)));
  EXPECT_EQ(thick_.Locate(Id(1))->unfinished, "");
  Interrupt(Pool("my-vg").volumes[0]);
  const LvmBackend restarted("my-vg", std::make_unique<FakeDisks>(host_, "my--vg-vol--*"), kernel_);
  for (int i = 0; i < 2; ++i) {
    const auto location = restarted.Locate(Id(1));
    ASSERT_OK(location);
    EXPECT_THAT(location->unfinished, HasSubstr("expand it again"));
    EXPECT_EQ(location->problem, location->unfinished);
  }
  EXPECT_THAT(thick_.NoteRawUse(Id(1), false), FailsWith(StatusCode::kUnavailable, "expand it again"));
  EXPECT_OK(thick_.Create({.id = Id(1), .bytes = kExtent, .raw = true}));
  ASSERT_OK(thick_.Grow(Id(1), kExtent));
  EXPECT_EQ(thick_.Locate(Id(1))->unfinished, "");
  EXPECT_OK(thick_.NoteRawUse(Id(1), false));
}

// Another process has grown it, and was killed.
TEST_F(LvmBackendTest, ADeviceOfAnotherSizeIsAskedAbout) {
  Create(thick_, 1, true);
  ASSERT_OK(thick_.Locate(Id(1)));
  kernel_.ClearLog();
  ASSERT_OK(thick_.Locate(Id(1)));
  EXPECT_THAT(kernel_.Calls("ReportLvm"), IsEmpty());
  Interrupt(Pool("my-vg").volumes[0]);
  Pool("my-vg").volumes[0].bytes = 2 * kExtent;
  Plug(1, 2 * kExtent);
  EXPECT_THAT(thick_.Locate(Id(1))->unfinished, HasSubstr("expand it again"));
}

TEST_F(LvmBackendTest, AVolumeThatSomebodyElseEnlargedIsNoRawDevice) {
  Create(thick_, 1, true);
  Pool("my-vg").volumes[0].is_cleared = false;
  Pool("my-vg").volumes[0].is_enlarged = true;
  EXPECT_THAT(thick_.NoteRawUse(Id(1), true), FailsWith(StatusCode::kUnavailable, "enlarged by another program"));
  EXPECT_EQ(thick_.Locate(Id(1))->unfinished, "") << "a filesystem shows nothing of others";
  EXPECT_OK(thick_.Create({.id = Id(1), .bytes = kExtent, .raw = true}));
}

TEST_F(LvmBackendTest, AVolumeMadeWithoutBlockAccessIsNotMadeWithIt) {
  Create(thick_, 1);
  EXPECT_THAT(thick_.Create({.id = Id(1), .bytes = kExtent, .raw = true}),
              FailsWith(StatusCode::kAlreadyExists, "without block access"));
  EXPECT_OK(thick_.Create({.id = Id(1), .bytes = kExtent}));
}

TEST_F(LvmBackendTest, ThickVolumesAreNotCopied) {
  Create(thick_, 1);
  EXPECT_THAT(thick_.Copy({{.id = SnapshotId(2), .source_id = Id(1)}}),
              FailsWith(StatusCode::kFailedPrecondition, "use a pool with thinpool"));
}

TEST_F(LvmBackendTest, AThinVolumeHasSnapshotsAndClones) {
  Create(thin_, 1);
  ASSERT_OK(thin_.Copy({{.id = SnapshotId(2), .bytes = kExtent, .source_id = Id(1)}}));
  EXPECT_EQ(Made().back(), "MakeLogicalVolume " + SnapshotId(2) + " " + Id(1) + " 4194304 snapshot");
  EXPECT_EQ(thin_.Locate(SnapshotId(2))->path, "");
  EXPECT_EQ(thin_.Locate(SnapshotId(2))->bytes, kExtent);
  ASSERT_OK(thin_.Copy({{.id = Id(3), .bytes = 2 * kExtent, .renew_fs_type = "xfs", .source_id = SnapshotId(2)}}));
  EXPECT_EQ(Made().back(), "MakeLogicalVolume " + Id(3) + " " + SnapshotId(2) + " 8388608");
  EXPECT_THAT(thin_.Copy({{.id = Id(3), .source_id = SnapshotId(2)}}), FailsWith(StatusCode::kAlreadyExists, "exists"));
  EXPECT_THAT(thin_.Copy({{.id = Id(4), .source_id = Id(9)}}),
              FailsWith(StatusCode::kFailedPrecondition, "in the thin pool of its source"));
  EXPECT_OK(thin_.Delete(SnapshotId(2)));
  EXPECT_THAT(thin_.Locate(SnapshotId(2)), FailsWith(StatusCode::kNotFound, "no logical volume"));
}

TEST_F(LvmBackendTest, AGroupOfSnapshotsIsOfOneInstantOrNotMade) {
  for (const int number : {1, 2}) Create(thin_, number);
  const std::vector<CopyDraft> drafts = {{.id = SnapshotId(3), .source_id = Id(1)},
                                         {.id = SnapshotId(4), .source_id = Id(2)}};
  Pool("my-vg/thin").volumes[0].is_open = true;
  ListedMount published;
  published.target = "/csi/2";
  published.fs_type = "devtmpfs";
  published.root = "/fake2";
  kernel_.With([&](FakeKernel& kernel) { kernel.AddMount(published); });
  EXPECT_THAT(thin_.Copy(drafts), FailsWith(StatusCode::kFailedPrecondition, "not be of one instant"));
  Pool("my-vg/thin").volumes[0].is_open = false;
  kernel_.Fail("MakeLogicalVolume", Unavailable("no"), 2);
  EXPECT_THAT(thin_.Copy(drafts), FailsWith(StatusCode::kUnavailable, "no"));
  EXPECT_EQ(Pool("my-vg/thin").volumes.size(), 2U);  // the first snapshot is removed again
  EXPECT_OK(thin_.Copy(drafts));
  EXPECT_EQ(Pool("my-vg/thin").volumes.size(), 4U);
}

TEST_F(LvmBackendTest, AVolumeInUseStays) {
  Create(thick_, 1);
  kernel_.With([](FakeKernel& kernel) { kernel.Node("/dev/fake1").in_use = true; });
  EXPECT_THAT(thick_.Delete(Id(1)), FailsWith(StatusCode::kFailedPrecondition, "in use"));
  EXPECT_THAT(kernel_.Calls("RemoveLogicalVolume"), IsEmpty());
}

TEST_F(LvmBackendTest, OnlyDevicesOfVolumesAreKnown) {
  Plug(1, kExtent);
  host_.Put("my--vg-root", 7, kExtent, "");
  host_.Put("my--vg-vol-1", 8, kExtent, "");  // of the volume "1" in the group "my-vg-vol"
  const std::vector<KnownDevice> known = thick_.KnownDevices();
  ASSERT_EQ(known.size(), 1U);
  EXPECT_EQ(known[0].volume_id, Id(1));
  EXPECT_EQ(known[0].node, "/dev/fake1");
}

TEST_F(LvmBackendTest, AReportThatAChangeOvertookIsNotKept) {
  Create(thin_, 1);
  ASSERT_OK(thin_.Copy({{.id = SnapshotId(2), .bytes = kExtent, .source_id = Id(1)}}));
  ASSERT_OK(thin_.Locate(SnapshotId(2)));
  ASSERT_OK(thin_.Copy({{.id = SnapshotId(3), .bytes = kExtent, .source_id = Id(1)}}));
  EXPECT_OK(thin_.Locate(SnapshotId(3)));  // within the seconds for which an answer is good enough
}

}  // namespace
}  // namespace mooring::testing

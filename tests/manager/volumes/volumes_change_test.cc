// Registration, update, expansion and snapshots of volumes.
#include <atomic>

#include "tests/manager/volumes/volumes_fixture.h"

namespace mooring::manager {
namespace {

using VolumesChangeTest = VolumesFixture;

TEST_F(VolumesChangeTest, RegistersExistingVolume) {
  plugin_->volumes().Add("vol-x");
  Volume volume = Asked();
  volume.external_id = "vol-x";
  const auto registered = volumes_->Register(volume, Soon());
  ASSERT_OK(registered);
  EXPECT_FALSE(registered->created_here);
  EXPECT_EQ(plugin_->Count("ValidateVolumeCapabilities"), 1);
  ASSERT_OK(volumes_->Register(volume, Soon())) << "the same again";
  volume.key.id = "twin";
  EXPECT_THAT(volumes_->Register(volume, Soon()), FailsWith(Code::kAlreadyExists, "'db'"))
      << "claims of the two would not see each other";
  ASSERT_OK(volumes_->Deregister({"default", "db"}, Soon()));
  EXPECT_THAT(plugin_->volumes().Ids(), ElementsAre("vol-x")) << "only forgotten";
  EXPECT_OK(volumes_->Register(volume, Soon()));
}

TEST_F(VolumesChangeTest, RegisterAsksPlugin) {
  Volume volume = Asked();
  volume.external_id = "nothing";
  EXPECT_THAT(volumes_->Register(volume, Soon()), FailsWith(Code::kNotFound, "'nothing'"));
  plugin_->Fail("ValidateVolumeCapabilities", Unimplemented("cannot tell"));
  EXPECT_OK(volumes_->Register(volume, Soon()));
  volume.key.id = "other";
  volume.plugin = "unknown";
  EXPECT_THAT(volumes_->Register(volume, Soon()), FailsWith(Code::kFailedPrecondition, "register it first"));
}

TEST_F(VolumesChangeTest, UpdateChangesAllowedFields) {
  ASSERT_OK(Create(Asked()));
  Volume next;
  next.key.id = "db";
  next.plugin = "fake.csi";
  next.capabilities = {kWriters};
  next.mount_options = {"ext4", {"noatime"}};
  next.has_secrets = true;
  const auto updated = volumes_->Update(next);
  ASSERT_OK(updated);
  const Volume stored = Stored("db");
  EXPECT_THAT(stored.capabilities, ElementsAre(kWriters));
  EXPECT_EQ(stored.mount_options, next.mount_options);
  EXPECT_EQ(stored.secrets, Password("hunter2")) << "kept";
  EXPECT_THAT(stored.parameters, ElementsAre(Pair("tier", "fast")));
  EXPECT_EQ(stored.revisions.modify, updated->revisions.modify);
  next.has_secrets = false;
  ASSERT_OK(volumes_->Update(next));
  EXPECT_TRUE(Stored("db").secrets.empty());
  next.parameters = {{"tier", "slow"}};
  EXPECT_THAT(volumes_->Update(next), FailsWith(Code::kFailedPrecondition, "parameters"));
}

TEST_F(VolumesChangeTest, UpdateOfOldRevisionIsRefused) {
  Volume volume = *Create(Asked());
  const Volume old = volume;
  volume.mount_options.fs_type = "xfs";
  ASSERT_OK(volumes_->Update(volume));
  EXPECT_THAT(volumes_->Update(old), FailsWith(Code::kAborted, "was changed meanwhile"));
  Volume whichever = old;
  whichever.revisions = {};
  EXPECT_OK(volumes_->Update(whichever));
}

TEST_F(VolumesChangeTest, UpdateKeepsModeInUse) {
  ASSERT_OK(Create(Asked()));
  bool first = true;
  state_.BeforeCommit([&](const Transaction&) {
    if (std::exchange(first, false)) {
      EXPECT_OK(Take(Request("web-1")));
    }
  });
  Volume next = Stored("db");
  next.revisions = {};
  ASSERT_OK(volumes_->Update(next));
  EXPECT_EQ(Stored("db").in_use, kWriters);
}

TEST_F(VolumesChangeTest, ExpandsAtControllerThenNode) {
  ASSERT_OK(Create(Asked()));
  EXPECT_EQ(volumes_->Expand({"default", "db"}, 2 * kGiB, 0, Soon())->capacity_bytes, 2 * kGiB);
  EXPECT_THAT(node_.expanded, IsEmpty()) << "not in use";
  ASSERT_OK(Take(Request("web-1")));
  node_.outcome = Internal("resize2fs failed");
  EXPECT_THAT(volumes_->Expand({"default", "db"}, 3 * kGiB, 0, Soon()),
              FailsWith(Code::kInternal, "has 3221225472 bytes at its plugin"));
  EXPECT_EQ(Stored("db").capacity_bytes, 3 * kGiB);
  node_.outcome = absl::OkStatus();
  ASSERT_OK(volumes_->Expand({"default", "db"}, 3 * kGiB, 0, Soon())) << "the same again goes on";
  EXPECT_THAT(node_.expanded, ElementsAre(Pair("db", 3 * kGiB), Pair("db", 3 * kGiB)));
  EXPECT_OK(Create(Asked())) << "what was asked at first is what there is still";
}

TEST_F(VolumesChangeTest, NodeExpansionNeedsMountedVolume) {
  AddVolume("db");
  Can([](auto& features) { features.controller = features.expands = false; });
  EXPECT_THAT(volumes_->Expand({"default", "db"}, 2 * kGiB, 0, Soon()),
              FailsWith(Code::kFailedPrecondition, "attach 'db' first"));
  ASSERT_OK(Take(Request("web-1")));
  ASSERT_OK(volumes_->Expand({"default", "db"}, 2 * kGiB, 0, Soon()));
  EXPECT_THAT(node_.expanded, ElementsAre(Pair("db", 2 * kGiB)));
  Can([](auto& features) { features.node_expands = false; });
  EXPECT_THAT(volumes_->Expand({"default", "db"}, 2 * kGiB, 0, Soon()),
              FailsWith(Code::kFailedPrecondition, "cannot expand volumes"));
}

TEST_F(VolumesChangeTest, RefusedNodeExpansionIsNotOwed) {
  AddVolume("db");
  Can([](auto& features) { features.controller = features.expands = false; });
  ASSERT_OK(Take(Request("web-1")));
  ASSERT_OK(volumes_->Expand({"default", "db"}, 2 * kGiB, 0, Soon()));
  node_.outcome = OutOfRange("the device has 2 GiB");
  EXPECT_THAT(volumes_->Expand({"default", "db"}, 100 * kGiB, 0, Soon()),
              FailsWith(Code::kOutOfRange, "the device has 2 GiB"));
  EXPECT_EQ(Stored("db").capacity_bytes, 2 * kGiB);
  EXPECT_FALSE(Stored("db").node_expansion_owed);
  node_.outcome = Internal("resize2fs was killed");
  EXPECT_FALSE(volumes_->Expand({"default", "db"}, 3 * kGiB, 0, Soon()).ok());
  EXPECT_TRUE(Stored("db").node_expansion_owed) << "it may be half done";
}

TEST_F(VolumesChangeTest, SnapshotsAndTheirCopies) {
  const auto volume = Create(Asked());
  ASSERT_OK(volume);
  const auto snapshot = snapshots_->Create(volume->key, "nightly", {}, Soon());
  ASSERT_OK(snapshot);
  EXPECT_TRUE(snapshot->ready);
  const auto all = snapshots_->List("fake.csi", Soon());
  ASSERT_OK(all);
  ASSERT_THAT(all->snapshots, SizeIs(1));
  EXPECT_EQ(all->snapshots[0].id, snapshot->id);
  EXPECT_EQ(all->snapshots[0].source, volume->key);
  Volume restored = Asked("restored");
  restored.snapshot_id = snapshot->id;
  ASSERT_OK(Create(restored));
  Volume clone = Asked("clone");
  clone.clone_id = volume->external_id;
  ASSERT_OK(Create(clone));
  ASSERT_OK(snapshots_->Delete("fake.csi", snapshot->id, Secrets(), Soon()));
  ASSERT_OK(snapshots_->Delete("fake.csi", snapshot->id, Secrets(), Soon())) << "gone is OK";
}

TEST_F(VolumesChangeTest, RegistersVolumeUnderOneKey) {
  plugin_->volumes().Add("ext");
  std::atomic<int> registered = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, id = "db-" + std::to_string(i)] {
      Volume volume = Asked(id);
      volume.external_id = "ext";
      if (volumes_->Register(volume, Soon()).ok()) ++registered;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registered, 1);
  EXPECT_THAT(All(), SizeIs(1));
}

// CSI 1.12: NodeExpandVolume follows the next stage and publish.
TEST_F(VolumesChangeTest, ExpansionOfUnmountedVolumeIsOwed) {
  ASSERT_OK(Create(Asked()));
  ASSERT_OK(volumes_->Expand({"default", "db"}, 2 * kGiB, 0, Soon()));
  EXPECT_TRUE(Stored("db").node_expansion_owed);
  ASSERT_OK(Take(Request("web-1")));
  node_.mounted = false;
  ASSERT_OK(volumes_->Expand({"default", "db"}, 3 * kGiB, 0, Soon()));
  EXPECT_TRUE(Stored("db").node_expansion_owed) << "claimed, and not mounted";
  node_.mounted = true;
  ASSERT_OK(volumes_->Expand({"default", "db"}, 4 * kGiB, 0, Soon()));
  EXPECT_FALSE(Stored("db").node_expansion_owed);
}

}  // namespace
}  // namespace mooring::manager

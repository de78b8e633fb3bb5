// Mounts and files at the paths of the volume manager that it did not make, cannot see, or finds broken.
#include "manager/state/keys.h"
#include "tests/manager/volumes/volume_manager_fixture.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FakeCsiFeatures;
using ::mooring::testing::FakeCsiPlugin;
using ::mooring::testing::FakeKernel;

using ForeignMountsTest = VolumeManagerFixture;

TEST_F(ForeignMountsTest, InvisibleMountIsAnError) {
  auto hidden = std::make_shared<FakeCsiPlugin>([] {
    FakeCsiFeatures features = Features();
    features.name = "hidden.csi";
    return features;
  }());
  hidden->volumes().Add("vol-1");
  plugins_.Add(hidden);
  AttachmentRecord record = Record("web-1");
  record.plugin = "hidden.csi";
  EXPECT_THAT(Mount(record), FailsWith(Code::kFailedPrecondition, "rshared"));
}

TEST_F(ForeignMountsTest, UnknownMountIsAUser) {
  AttachmentRecord first = Mounted("web-1");
  AttachmentRecord second = Mounted("web-2");
  Forget(second);
  EXPECT_THAT(Unmount(first), FailsWith(Code::kFailedPrecondition, second.target_path));
  EXPECT_EQ(plugin_->Count("NodeUnstageVolume"), 0);
  EXPECT_EQ(MountsAt(first.staging_path), 1U);
  ASSERT_OK(manager_->Unmount(second, Soon()));
  ASSERT_OK(Unmount(first)) << "tried again once nobody uses it";
  EXPECT_EQ(MountsAt(first.staging_path), 0U);
}

// The directories of the volume show its mounts in every usage.
TEST_F(ForeignMountsTest, UnknownReaderIsAUser) {
  AttachmentRecord writer = Mounted("web-1");
  AttachmentRecord reader = Record("web-2");
  reader.read_only = true;
  ASSERT_OK(Mount(reader));
  Forget(reader);
  EXPECT_THAT(Unmount(writer), FailsWith(Code::kFailedPrecondition, reader.target_path));
  EXPECT_EQ(plugin_->Count("NodeUnstageVolume"), 0);
}

TEST_F(ForeignMountsTest, FindsMountsWithoutAttachment) {
  Volume volume;
  volume.key.id = "db";
  volume.plugin = plugin_->features().name;
  AttachmentRecord record = Mounted("web-1", "/srv/db");
  EXPECT_THAT(*manager_->FindUnknownMounts(volume), IsEmpty());
  Forget(record);
  fs::create_directories(record.staging_path);
  EXPECT_THAT(*manager_->FindUnknownMounts(volume),
              ::testing::UnorderedElementsAre(record.staging_path, record.target_path, "/srv/db"));
  for (const std::string& path : {record.target_path, record.staging_path}) {
    kernel_.With([&](FakeKernel& kernel) { kernel.DropMounts(path); });
  }
  EXPECT_THAT(*manager_->FindUnknownMounts(volume), ElementsAre("/srv/db")) << "a task may still write there";
  kernel_.With([&](FakeKernel& kernel) { kernel.DropMounts("/srv/db"); });
  EXPECT_THAT(*manager_->FindUnknownMounts(volume), IsEmpty());
}

TEST_F(ForeignMountsTest, RefusesTargetThatIsNotEmpty) {
  AttachmentRecord record = Mounted("web-1");
  kernel_.With([&](FakeKernel& kernel) {
    kernel.DropMounts(record.target_path);
    kernel.AddDirectory(record.target_path + "/written");
  });
  EXPECT_THAT(manager_->Mount(record, kContext, Soon()), FailsWith(Code::kFailedPrecondition, "is not empty"));
  EXPECT_EQ(MountsAt(record.target_path), 0U);
}

// A plugin that keeps its targets on disk would have it twice, and would refuse to unstage the volume later.
TEST_F(ForeignMountsTest, TargetThatIsGoneIsUnpublishedBeforeItIsPublishedAgain) {
  AttachmentRecord record = Mounted("web-1");
  kernel_.With([](FakeKernel& kernel) { kernel.Reboot(); });
  boot_ = "boot-2";
  Start();
  plugin_->ClearLog();
  ASSERT_FALSE(*manager_->HasMount(record, Soon()));
  ASSERT_OK(manager_->Mount(record, kContext, Soon()));
  EXPECT_THAT(plugin_->Calls(),
              ElementsAre("NodeStageVolume vol-1", "NodeUnpublishVolume vol-1", "NodePublishVolume vol-1"));
  EXPECT_EQ(MountsAt(record.target_path), 1U);
}

TEST_F(ForeignMountsTest, ContentOfATargetThatIsGoneIsNotShownToThePlugin) {
  AttachmentRecord record = Mounted("web-1");
  kernel_.With([&](FakeKernel& kernel) {
    kernel.Reboot();
    kernel.AddDirectory(record.target_path + "/written");
  });
  plugin_->ClearLog();
  EXPECT_THAT(manager_->Mount(record, kContext, Soon()), FailsWith(Code::kFailedPrecondition, "is not empty"));
  EXPECT_EQ(plugin_->Count("NodeUnpublishVolume"), 0) << "it may delete the content";
}

// Docker, for example, binds the target itself.
TEST_F(ForeignMountsTest, TargetIsReadOnlyAlsoIfThePluginIgnoresReadonly) {
  testing::FakeCsiFeatures features = Features();
  features.obeys_readonly = false;
  plugin_->SetFeatures(features);
  AttachmentRecord record = Record("web-1");
  record.read_only = true;
  ASSERT_OK(Mount(record));
  const auto flags = [&] {
    return kernel_.With([&](FakeKernel& kernel) { return kernel.MountsAt(record.target_path).at(0).info.flags; });
  };
  EXPECT_TRUE(flags().read_only);
  kernel_.With(
      [&](FakeKernel& kernel) { ASSERT_OK(kernel.Change({.target = record.target_path, .flags = MountFlags()})); });
  ASSERT_OK(manager_->Mount(record, kContext, Soon())) << "it is there, but somebody made it writable";
  EXPECT_TRUE(flags().read_only);
  AttachmentRecord writer = Mounted("web-2");
  EXPECT_FALSE(kernel_.With([&](FakeKernel& k) { return k.MountsAt(writer.target_path).at(0).info.flags.read_only; }));
}

TEST_F(ForeignMountsTest, ReplacesBrokenMount) {
  AttachmentRecord record = Mounted("web-1", "/srv/db");
  for (const std::string& path : {record.staging_path, record.target_path, record.attach_path}) {
    kernel_.With([&](FakeKernel& kernel) { kernel.SetFailure(path, "Transport endpoint is not connected"); });
  }
  EXPECT_FALSE(*manager_->HasMount(record, Soon()));
  ASSERT_OK(manager_->Mount(record, kContext, Soon()));
  EXPECT_TRUE(*manager_->HasMount(record, Soon()));
  for (const std::string& path : {record.staging_path, record.target_path, record.attach_path}) {
    EXPECT_EQ(MountsAt(path), 1U) << path;
  }
}

TEST_F(ForeignMountsTest, ForeignMountsStay) {
  kernel_.With([](FakeKernel& kernel) { kernel.AddDirectory("/srv/db"); });
  AttachmentRecord record = Mounted("web-1", "/srv/db");
  kernel_.With([](FakeKernel& kernel) {
    kernel.DropMounts("/srv/db");
    kernel.AddForeignMount("/srv/db", "nfs4");
  });
  EXPECT_THAT(manager_->Mount(record, kContext, Soon()), FailsWith(Code::kFailedPrecondition, "nothing is stacked"));
  ASSERT_OK(Unmount(record));
  EXPECT_EQ(MountsAt("/srv/db"), 1U);
  EXPECT_THAT(manager_->CheckAttachPath(record), FailsWith(Code::kFailedPrecondition, "nfs4"));
  record.attach_path = root_ + "/staging/x";
  EXPECT_THAT(manager_->CheckAttachPath(record), FailsWith(Code::kInvalidArgument, "choose another path"));
}

TEST_F(ForeignMountsTest, ForeignBrokenMountStays) {
  AttachmentRecord record = Mounted("web-1", "/srv/db");
  kernel_.With([](FakeKernel& kernel) {
    kernel.DropMounts("/srv/db");
    kernel.AddForeignMount("/srv/db", "nfs4");
    kernel.SetFailure("/srv/db", "Stale file handle");
  });
  EXPECT_THAT(manager_->Mount(record, kContext, Soon()), FailsWith(Code::kFailedPrecondition, "of another owner"));
  EXPECT_EQ(MountsAt("/srv/db"), 1U);
}

TEST_F(ForeignMountsTest, RefusesAttachPathThatIsNotEmpty) {
  kernel_.With([](FakeKernel& kernel) { kernel.AddDirectory("/srv/db"); });
  AttachmentRecord record = Mounted("web-1", "/srv/db");
  kernel_.With([](FakeKernel& kernel) {
    kernel.DropMounts("/srv/db");
    kernel.AddDirectory("/srv/db/written");
  });
  EXPECT_THAT(manager_->Mount(record, kContext, Soon()), FailsWith(Code::kFailedPrecondition, "not empty"));
  EXPECT_EQ(MountsAt("/srv/db"), 0U);
}

// A plugin that publishes with mknod(2) leaves its device node on the disk at a reboot.
TEST_F(ForeignMountsTest, DeviceNodeOfEarlierBootIsPublishedAgain) {
  AttachmentRecord record = Record("web-1");
  record.capability.attachment = AttachmentMode::kBlockDevice;
  ASSERT_OK(Mount(record));
  kernel_.With([&](FakeKernel& kernel) {
    kernel.DropMounts(record.target_path);
    kernel.AddBlockDevice(record.target_path);
  });
  EXPECT_TRUE(*manager_->HasMount(record, Soon())) << "published in this boot";
  boot_ = "boot-2";
  Start();
  EXPECT_FALSE(*manager_->HasMount(record, Soon()));
  ASSERT_OK(manager_->Mount(record, kContext, Soon()));
  EXPECT_EQ(plugin_->Count("NodePublishVolume"), 2);
  EXPECT_TRUE(*manager_->HasMount(record, Soon()));
}

// A device has no mount at its stage that would tell.
TEST_F(ForeignMountsTest, StageStaysForAnAttachmentThatCannotBeRead) {
  for (const AttachmentMode mode : {AttachmentMode::kFileSystem, AttachmentMode::kBlockDevice}) {
    AttachmentRecord first = Record("web-1"), second = Record("web-2");
    first.capability.attachment = second.capability.attachment = mode;
    ASSERT_OK(Mount(first));
    ASSERT_OK(Mount(second));
    fs::create_directories(second.target_path);  // on the disk, which the fake kernel does not use
    const std::string key = MountStateKey("host-1", "web-2", "data");
    ASSERT_OK(state_->Commit({.compares = {}, .puts = {{key, "\xFF\xFF"}}, .deletes = {}}));
    Start();
    const int unstaged = plugin_->Count("NodeUnstageVolume");
    EXPECT_THAT(Unmount(first), FailsWith(Code::kInternal, key));
    EXPECT_EQ(plugin_->Count("NodeUnstageVolume"), unstaged);
    AttachmentRecord other = Record("web-3", "vol-2");
    ASSERT_OK(Mount(other));
    EXPECT_OK(Unmount(other)) << "another volume";

    ASSERT_OK(state_->Commit({.compares = {}, .puts = {}, .deletes = {key}}));
    Start();
    second.revisions = {};
    ASSERT_OK(journal_->Put(second, Durability::kOrdered)) << "restored";
    EXPECT_OK(Unmount(second));
    EXPECT_OK(Unmount(first));
  }
}

}  // namespace
}  // namespace mooring::manager

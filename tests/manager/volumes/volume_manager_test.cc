#include "manager/volumes/volume_manager.h"

#include <sys/stat.h>

#include "base/file/path.h"
#include "tests/manager/volumes/volume_manager_fixture.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FakeCsiPlugin;
using ::mooring::testing::FakeKernel;

using VolumeManagerTest = VolumeManagerFixture;

TEST_F(VolumeManagerTest, TargetEndsWithUsage) {
  const AttachmentRecord record = Mounted("web-1");
  EXPECT_EQ(record.usage, "rw-file-system-single-node-writer");
  EXPECT_THAT(NameOf(record.staging_path), StartsWith("file-system-")) << "and which volume it is";
  EXPECT_EQ(NameOf(record.target_path), record.usage);
}

TEST_F(VolumeManagerTest, OneOperationAtATimeForAVolume) {
  plugin_->Hang("NodePublishVolume", "vol-1");
  AttachmentRecord first = Record("web-1");
  std::thread thread([&] { EXPECT_OK(Mount(first)); });
  ASSERT_TRUE(plugin_->WaitForCalls("NodePublishVolume", 1));
  AttachmentRecord second = Record("web-2");
  EXPECT_THAT(Mount(second, VerySoon()), FailsWith(Code::kAborted, "under way"));
  AttachmentRecord of_another = Record("web-1", "vol-2");
  of_another.request = "other";
  EXPECT_OK(Mount(of_another)) << "volumes run in parallel";
  plugin_->Release();
  thread.join();
  EXPECT_THAT(plugin_->Violations(), IsEmpty());
}

TEST_F(VolumeManagerTest, StagesAndPublishesOnce) {
  AttachmentRecord record = Mounted("web-1");
  EXPECT_THAT(plugin_->Calls(), ElementsAre("NodeStageVolume vol-1", "NodePublishVolume vol-1"));
  struct stat staged = {};
  ASSERT_EQ(::stat(record.staging_path.c_str(), &staged), 0);
  EXPECT_EQ(staged.st_mode & 0777U, 0700U);
  ASSERT_OK(manager_->Mount(record, kContext, Soon()));
  EXPECT_THAT(plugin_->Calls(), SizeIs(2)) << "all of it is there: no call";
  Mounted("web-2");
  EXPECT_EQ(plugin_->Count("NodeStageVolume"), 1);
  EXPECT_EQ(plugin_->Count("NodePublishVolume"), 2);
  const auto happened = events_.Next(1, Soon());
  EXPECT_EQ(happened->front().kind, "Mount volume");
}

TEST_F(VolumeManagerTest, ErrorNamesStepAndUnmountUndoesIt) {
  plugin_->Fail("NodePublishVolume", Internal("no room on the bus"), 1, 1, FakeCsiPlugin::When::kAfter);
  AttachmentRecord record = Record("web-1");
  EXPECT_THAT(Mount(record), FailsWith(Code::kInternal, "publish volume 'db': NodePublishVolume of plugin"));
  ASSERT_OK(Unmount(record));
  EXPECT_EQ(plugin_->volumes().staged_count() + plugin_->volumes().published_count(), 0U);
  EXPECT_FALSE(fs::exists(record.staging_path));
}

// As a plugin without the pool of a shared volume does.
TEST_F(VolumeManagerTest, PluginThatRefusesStageAndUnstageHoldsNothing) {
  plugin_->FailAlways("NodeStageVolume", FailedPrecondition("the pool is not one of this plugin's"));
  plugin_->FailAlways("NodeUnstageVolume", FailedPrecondition("the pool is not one of this plugin's"));
  AttachmentRecord record = Record("web-1");
  EXPECT_THAT(Mount(record), FailsWith(Code::kFailedPrecondition, "stage volume 'db'"));
  EXPECT_OK(Unmount(record));
  EXPECT_EQ(plugin_->Count("NodeUnstageVolume"), 1) << "it is asked, all the same";
}

// Its stage call may have been made half-way.
TEST_F(VolumeManagerTest, StageWithUnknownOutcomeIsUnstaged) {
  plugin_->Fail("NodeStageVolume", Internal("lost"), 1, 1, FakeCsiPlugin::When::kAfter);
  plugin_->Fail("NodeUnstageVolume", FailedPrecondition("busy"));
  AttachmentRecord record = Record("web-1");
  EXPECT_FALSE(Mount(record).ok());
  EXPECT_THAT(Unmount(record), FailsWith(Code::kFailedPrecondition, "unstage volume 'db'"));
  EXPECT_OK(Unmount(record));
}

TEST_F(VolumeManagerTest, RefusedStageSparesOtherUsers) {
  AttachmentRecord first = Record("web-1");
  first.capability.attachment = AttachmentMode::kBlockDevice;
  ASSERT_OK(Mount(first));
  plugin_->FailAlways("NodeStageVolume", FailedPrecondition("no"));
  AttachmentRecord second = Record("web-2");
  second.capability.attachment = AttachmentMode::kBlockDevice;
  EXPECT_FALSE(Mount(second).ok());
  EXPECT_EQ(plugin_->Count("NodeUnstageVolume"), 0);
}

TEST_F(VolumeManagerTest, UnmountIgnoresNotFoundAndMissingTarget) {
  AttachmentRecord record = Mounted("web-1");
  plugin_->Fail("NodeUnpublishVolume", NotFound("no such volume"));
  plugin_->Fail("NodeUnstageVolume", NotFound("no such volume"));
  ASSERT_OK(Unmount(record)) << "and what is mounted there still is unmounted here";
  EXPECT_EQ(MountsAt(record.target_path), 0U);
  EXPECT_EQ(MountsAt(record.staging_path), 0U);
  AttachmentRecord gone = Mounted("web-2");
  kernel_.With([&](FakeKernel& kernel) {
    kernel.DropMounts(gone.target_path);
    kernel.RemovePath(gone.target_path);
  });
  plugin_->Fail("NodeUnpublishVolume", Internal("not mounted"));
  plugin_->Fail("NodeUnstageVolume", FailedPrecondition("busy"));
  EXPECT_THAT(Unmount(gone), FailsWith(Code::kFailedPrecondition, "unstage volume 'db'"));
}

TEST_F(VolumeManagerTest, RestartKeepsUsersOfStage) {
  AttachmentRecord first = Mounted("web-1");
  AttachmentRecord second = Mounted("web-2");
  Start();
  ASSERT_OK(Unmount(first));
  EXPECT_EQ(plugin_->Count("NodeUnstageVolume"), 0);
  EXPECT_EQ(MountsAt(second.target_path), 1U);
  ASSERT_OK(Unmount(second));
  EXPECT_EQ(plugin_->Count("NodeUnstageVolume"), 1);
}

TEST_F(VolumeManagerTest, RemovesDirectoriesOfDeletedVolume) {
  AttachmentRecord record = Mounted("web-1");
  const fs::path staging = record.staging_path, target = record.target_path;
  ASSERT_OK(Unmount(record));
  EXPECT_FALSE(fs::exists(staging));
  EXPECT_FALSE(fs::exists(target.parent_path().parent_path()));
  const fs::path places[] = {staging.parent_path(), target.parent_path().parent_path().parent_path()};
  for (const auto& place : places) EXPECT_TRUE(fs::exists(place)) << place;
  Volume volume;
  volume.key = record.volume;
  volume.plugin = record.plugin;
  manager_->RemoveDirectories(volume);
  for (const auto& place : places) EXPECT_FALSE(fs::exists(place)) << place;
}

TEST_F(VolumeManagerTest, VolumeWithReusedNameHasItsOwnStage) {
  const AttachmentRecord left = Mounted("web-1");
  ASSERT_OK(journal_->Remove(left, Durability::kOrdered));
  AttachmentRecord other = Record("web-2", "vol-2");
  other.volume = left.volume;
  ASSERT_OK(Mount(other));
  EXPECT_NE(other.staging_path, left.staging_path);
  EXPECT_EQ(plugin_->Requests<csi::v1::NodeStageVolumeRequest>().at(1).volume_id(), "vol-2");
}

TEST_F(VolumeManagerTest, DetachWorksAfterPluginDropsStaging) {
  AttachmentRecord record = Mounted("web-1");
  plugin_->Fail("NodeUnstageVolume", absl::UnimplementedError("no staging"), 1, 2);
  EXPECT_THAT(Unmount(record), FailsWith(Code::kUnimplemented, "unstage")) << "it is staged still";
  kernel_.With([&](FakeKernel& kernel) { kernel.DropMounts(record.staging_path); });
  EXPECT_OK(Unmount(record));
}

// A waiting mount stages again. Otherwise a failed claim would leave the volume staged for ever.
TEST_F(VolumeManagerTest, IntentWithoutMountIsNoUser) {
  AttachmentRecord first = Mounted("web-1");
  AttachmentRecord intent = Record("web-2");
  ASSERT_OK(manager_->Prepare(intent, Soon()));
  ASSERT_OK(journal_->Put(intent, Durability::kOrdered));
  ASSERT_OK(Unmount(first));
  EXPECT_EQ(plugin_->Count("NodeUnstageVolume"), 1);
  EXPECT_OK(manager_->Mount(intent, kContext, Soon()));
}

TEST_F(VolumeManagerTest, OtherMountOptionsHaveAnotherStage) {
  AttachmentRecord plain = Mounted("web-1");
  AttachmentRecord other = Record("web-2");
  other.options.flags = {"noatime"};
  ASSERT_OK(Mount(other));
  EXPECT_NE(plain.staging_path, other.staging_path);
  ASSERT_OK(Unmount(plain));
  EXPECT_EQ(plugin_->Count("NodeUnstageVolume"), 1);
  EXPECT_EQ(MountsAt(other.staging_path), 1U);
}

TEST_F(VolumeManagerTest, ReaderSharesStageOfWriter) {
  AttachmentRecord writer = Mounted("web-1");
  AttachmentRecord reader = Record("web-2");
  reader.capability.access = AccessMode::kMultiNodeReaderOnly;
  reader.options.flags = {"ro"};
  reader.read_only = true;
  reader.staged_as = StagedAs{.access = writer.capability.access, .options = {}};
  ASSERT_OK(Mount(reader));
  EXPECT_EQ(reader.staging_path, writer.staging_path);
  EXPECT_NE(reader.target_path, writer.target_path);
  EXPECT_EQ(plugin_->Count("NodeStageVolume"), 1);
  const auto requests = plugin_->Requests<csi::v1::NodePublishVolumeRequest>();
  EXPECT_EQ(requests.at(1).volume_capability().DebugString(), requests.at(0).volume_capability().DebugString());
  EXPECT_FALSE(requests.at(0).readonly());
  EXPECT_TRUE(requests.at(1).readonly());
  ASSERT_OK(manager_->Expand(writer.volume, 4096, Secrets(), Soon()));
  const auto expansions = plugin_->Requests<csi::v1::NodeExpandVolumeRequest>();
  ASSERT_THAT(expansions, SizeIs(1)) << "one filesystem";
  EXPECT_EQ(expansions.front().volume_path(), writer.target_path);
  EXPECT_EQ(expansions.front().staging_target_path(), writer.staging_path);
  EXPECT_EQ(expansions.front().capacity_range().required_bytes(), 4096);
  ASSERT_OK(Unmount(writer));
  EXPECT_EQ(plugin_->Count("NodeUnstageVolume"), 0);
  ASSERT_OK(Unmount(reader));
  EXPECT_EQ(plugin_->Count("NodeUnstageVolume"), 1);
}

TEST_F(VolumeManagerTest, SendsIdOptionsAndContexts) {
  AttachmentRecord record = Record("web-1");
  record.options = {.fs_type = "xfs", .flags = {"noatime"}};
  record.read_only = true;
  ASSERT_OK(Mount(record));
  const auto request = plugin_->Requests<csi::v1::NodePublishVolumeRequest>().at(0);
  EXPECT_EQ(request.volume_id(), "vol-1");
  EXPECT_EQ(request.volume_capability().mount().fs_type(), "xfs");
  EXPECT_THAT(request.volume_capability().mount().mount_flags(), ElementsAre("noatime"));
  EXPECT_TRUE(request.readonly());
  EXPECT_EQ(request.volume_context().at("share"), "7");
  EXPECT_EQ(request.publish_context().at("device"), "/dev/fake-vol-1");
  EXPECT_EQ(request.secrets().at("password"), "hunter2");
  AttachmentRecord own = Record("web-1", "");
  own.volume.id = "vol-2";
  own.request = "own";
  ASSERT_OK(Mount(own));
  EXPECT_EQ(plugin_->Requests<csi::v1::NodeStageVolumeRequest>().at(1).volume_id(), "vol-2");
}

TEST_F(VolumeManagerTest, HasMountAsksTheKernel) {
  AttachmentRecord record = Mounted("web-1");
  EXPECT_EQ(record.external_node_id, "node-1");
  EXPECT_TRUE(*manager_->HasMount(record, Soon()));
  kernel_.With([&](FakeKernel& kernel) { kernel.DropMounts(record.target_path); });
  EXPECT_FALSE(*manager_->HasMount(record, Soon()));
}

TEST_F(VolumeManagerTest, RetriesTemporaryErrorsUntilDeadline) {
  plugin_->Fail("NodeStageVolume", Unavailable("starting"), 1, 2);
  AttachmentRecord record = Record("web-1");
  ASSERT_OK(Mount(record));
  EXPECT_EQ(plugin_->Count("NodeStageVolume"), 3);
  plugin_->Hang("NodePublishVolume");
  AttachmentRecord hung = Record("web-2");
  EXPECT_THAT(Mount(hung, VerySoon()), FailsWith(Code::kDeadlineExceeded, "publish volume"));
  ASSERT_OK(Unmount(hung)) << "the negating call";
  EXPECT_EQ(plugin_->Count("NodeUnpublishVolume"), 1);
  EXPECT_EQ(plugin_->Count("NodeUnstageVolume"), 0) << "the other uses it";
}

TEST_F(VolumeManagerTest, ExpandMountedSkipsReadOnly) {
  AttachmentRecord record = Mounted("web-1");
  EXPECT_TRUE(*manager_->ExpandMounted(record, 4096, Secrets(), Soon()));
  EXPECT_EQ(plugin_->Requests<csi::v1::NodeExpandVolumeRequest>().at(0).volume_path(), record.target_path);
  record.read_only = true;
  EXPECT_FALSE(*manager_->ExpandMounted(record, 4096, Secrets(), Soon()));
  EXPECT_EQ(plugin_->Count("NodeExpandVolume"), 1);
  EXPECT_FALSE(*manager_->Expand({"default", "nothing"}, 4096, Secrets(), Soon())) << "mounted nowhere";
}

TEST_F(VolumeManagerTest, HostErrorIsNotResourceExhausted) {
  plugin_->Fail("NodeStageVolume", ResourceExhausted("no room"), 1, 2);
  AttachmentRecord record = Record("web-1");
  record.attach_path = "/srv/db";
  kernel_.Fail("Bind", ResourceExhausted("too many mounts"));
  EXPECT_THAT(Mount(record), FailsWith(Code::kFailedPrecondition, "too many mounts"));
  EXPECT_EQ(plugin_->Count("NodeStageVolume"), 3) << "RESOURCE_EXHAUSTED is retried";
  plugin_->FailAlways("NodePublishVolume", ResourceExhausted("no room"));
  AttachmentRecord other = Record("web-2");
  EXPECT_THAT(Mount(other, VerySoon()), FailsWith(Code::kResourceExhausted, "no room"));
}

}  // namespace
}  // namespace mooring::manager

// Encrypted volumes on the node: when a volume is opened and closed, and what keeps its mapping.
#include <google/protobuf/text_format.h>

#include "plugin/api/node_requests.h"
#include "tests/unit/node/encrypted_volumes_fixture.h"

namespace mooring::testing {
namespace {

// ---- mounted filesystems

TEST_F(EncryptedVolumesTest, AVolumeIsOpenedBeforeTheMountAndClosedAfterIt) {
  ASSERT_OK(StageMount());
  const std::string device = Device();  // its user keeps it
  EXPECT_THAT(Changes(), ElementsAre("OpenEncrypted /images/vol-e.img vol-e", "Format " + device + " ext4",
                                     "Mount /staging/a " + device, "Grow /staging/a ext4", "CloseEncrypted vol-e"));
  ASSERT_OK(Publish(Target("/pods/t", MountCapability())));
  ASSERT_OK(Unpublish("/pods/t"));
  EXPECT_TRUE(IsOpen());
  mounter_.ClearLog();
  ASSERT_OK(Unstage());
  EXPECT_THAT(Changes(), ElementsAre("Unmount /staging/a")) << "the mapping has gone with its last user";
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, AnEphemeralVolumeIsOpenedAndClosedToo) {
  PublishSpec alone = Target("/pods/t", MountCapability());
  alone.staging_path.clear();
  EXPECT_THAT(volumes_->PublishAlone(alone, Call::WithLongestWait()), FailsWith(StatusCode::kUnauthenticated, ""));
  alone.passphrase = kRight;
  ASSERT_OK(volumes_->PublishAlone(alone, Call::WithLongestWait()));
  EXPECT_THAT(mounter_.Calls("CloseEncrypted"), SizeIs(1));
  ASSERT_OK(Unpublish("/pods/t"));
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, AFailedMountClosesTheVolume) {
  mounter_.Fail("Mount", ResourceExhausted("injected"));
  EXPECT_THAT(StageMount(), FailsWith(StatusCode::kResourceExhausted, "injected"));
  ExpectNothingIsLeft();
}

// Data that mkfs could not write needs no flush, which would fail.
TEST_F(EncryptedVolumesTest, AFailedFormatClosesTheVolume) {
  mounter_.Fail("Format", ResourceExhausted("injected"));
  EXPECT_THAT(StageMount(), FailsWith(StatusCode::kResourceExhausted, "injected"));
  EXPECT_THAT(mounter_.Calls("Flush"), IsEmpty());
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, AMountHelperThatEndsWhileItOpensLeavesNothing) {
  mounter_.Fail("Probe", Unavailable("injected"));
  EXPECT_THAT(StageMount(), FailsWith(StatusCode::kUnavailable, "injected"));
  EXPECT_FALSE(IsOpen());
  mounter_.ClearLog();
  mounter_.Fail("OpenEncrypted", Unavailable("injected"));
  EXPECT_THAT(StageMount(), FailsWith(StatusCode::kUnavailable, "injected"));
  EXPECT_THAT(mounter_.Calls("CloseEncrypted"), SizeIs(1)) << "it may have been open by then";
}

TEST_F(EncryptedVolumesTest, AVolumeWithoutItsMappingIsNotMounted) {
  source_.HideMapping();
  EXPECT_THAT(StageMount(), FailsWith(StatusCode::kAborted, "has no mapping"));
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, AFailedCloseFailsNoMount) {
  mounter_.Fail("CloseEncrypted", Internal("injected"));
  ASSERT_OK(StageMount());
  EXPECT_FALSE(mounter_.HasFaults());
  EXPECT_TRUE(IsOpen());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, TheNextMountHelperCloses) {
  mounter_.Fail("CloseEncrypted", Unavailable("injected"));
  ASSERT_OK(StageMount());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, ARepeatedStageChangesNothing) {
  ASSERT_OK(StageMount());
  const std::string before = World();
  ASSERT_OK(StageMount());
  EXPECT_EQ(World(), before);
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

// The header says that a task had the device, so zeros at its begin and end say nothing.
TEST_F(EncryptedVolumesTest, AVolumeThatWasRawIsNotFormatted) {
  mounter_.With([](FakeKernel& kernel) { kernel.encrypted[kEncrypted].state.is_raw = true; });
  EXPECT_THAT(StageMount(), FailsWith(StatusCode::kFailedPrecondition, "not formatted"));
  EXPECT_THAT(mounter_.Calls("Format"), IsEmpty());
  ExpectNothingIsLeft();
}

// ---- passphrases

TEST_F(EncryptedVolumesTest, AWrongPassphraseChangesNothing) {
  EXPECT_THAT(Stage("/staging/a", MountCapability(), kWrong), FailsWith(StatusCode::kUnauthenticated, "wrong"));
  EXPECT_THAT(Changes(), ElementsAre("OpenEncrypted /images/vol-e.img vol-e"));
  ExpectNothingIsLeft();
  for (const Capability& capability : {MountCapability(), Raw()}) {
    ASSERT_OK(Stage("/staging/a", capability));
    const std::string before = World();
    for (const std::string path : {"/staging/a", "/staging/b"}) {
      mounter_.ClearLog();
      EXPECT_THAT(Stage(path, capability, kWrong), FailsWith(StatusCode::kUnauthenticated, "wrong"));
      EXPECT_EQ(World(), before) << path;
      EXPECT_THAT(Changes(), ElementsAre("OpenEncrypted /images/vol-e.img vol-e"));
    }
    ASSERT_OK(Unstage());
  }
}

TEST_F(EncryptedVolumesTest, ThePoolHasThePassphraseThatTheRequestLacks) {
  EXPECT_THAT(Stage("/staging/a", MountCapability(), ""), FailsWith(StatusCode::kUnauthenticated, "no passphrase"));
  EXPECT_THAT(mounter_.Calls(), IsEmpty());
  source_.GivePool(kRight);
  ASSERT_OK(Stage("/staging/a", MountCapability(), ""));
  EXPECT_THAT(Stage("/staging/b", MountCapability(), kWrong), FailsWith(StatusCode::kUnauthenticated, "wrong"));
}

TEST_F(EncryptedVolumesTest, ErrorsOfTheHeaderReachTheCaller) {
  mounter_.With([](FakeKernel& kernel) { kernel.encrypted.clear(); });
  EXPECT_THAT(StageMount(), FailsWith(StatusCode::kDataLoss, "no header"));
  EXPECT_THAT(StageRaw(), FailsWith(StatusCode::kDataLoss, "no header"));
  mounter_.Fail("OpenEncrypted", NotFound("injected"));
  EXPECT_THAT(StageMount(), FailsWith(StatusCode::kInternal, "injected")) << "not the volume is missing";
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, RequestsHaveThePassphraseAmongTheirSecrets) {
  const std::string text =
      "volume_id: 'csi-1' volume_capability { mount {} access_mode { mode: SINGLE_NODE_WRITER } }"
      "secrets { key: 'encryptionPassphrase' value: 'p' } secrets { key: 'other' value: 'o' }";
  csi::v1::NodeStageVolumeRequest stage;
  csi::v1::NodePublishVolumeRequest publish;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text + "staging_target_path: '/s'", &stage));
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text + "target_path: '/t'", &publish));
  EXPECT_EQ(ParseStage(stage)->passphrase, "p");
  EXPECT_EQ(ParsePublish(publish)->passphrase, "p");
  EXPECT_THAT(ParseEphemeral(publish, DefaultPoolOnly()), FailsWith(StatusCode::kInvalidArgument, "does not encrypt"))
      << "it is a secret of its CreateVolume, too";
  for (const std::string& wrong : {std::string(), std::string(kLongestPassphrase + 1, 'p')}) {
    (*stage.mutable_secrets())["encryptionPassphrase"] = wrong;
    EXPECT_THAT(ParseStage(stage), FailsWith(StatusCode::kInvalidArgument, "encryptionPassphrase"));
  }
  stage.clear_secrets();
  EXPECT_EQ(ParseStage(stage)->passphrase, "");
}

// ---- raw devices

TEST_F(EncryptedVolumesTest, ARawVolumeStaysOpenUntilItsLastUse) {
  ASSERT_OK(StageRaw("/staging/a"));
  ASSERT_OK(StageRaw("/staging/b"));
  ASSERT_OK(PublishRaw("/pods/t"));
  const std::string device = Device();
  mounter_.ClearLog();
  ASSERT_OK(Unstage("/staging/a"));
  ASSERT_OK(Unstage("/staging/b"));
  EXPECT_THAT(mounter_.Calls("CloseEncrypted"), IsEmpty()) << "the node at the target would lead to another volume";
  EXPECT_TRUE(IsOpen());
  mounter_.ClearLog();
  ASSERT_OK(Unpublish("/pods/t"));
  EXPECT_THAT(Changes(), ElementsAre("Unmount /pods/t remove", "Flush " + device, "CloseEncrypted vol-e"));
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, TheLastUnstageFlushesAndCloses) {
  ASSERT_OK(StageRaw());
  ASSERT_OK(PublishRaw("/pods/t"));
  ASSERT_OK(Unpublish("/pods/t"));
  const std::string device = Device();
  mounter_.ClearLog();
  ASSERT_OK(Unstage());
  EXPECT_THAT(Changes(), ElementsAre("Flush " + device, "Flush " + device, "CloseEncrypted vol-e"));
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, DataThatCannotBeWrittenKeepsTheVolumeOpen) {
  ASSERT_OK(StageRaw());
  ASSERT_OK(PublishRaw("/pods/t"));
  ASSERT_OK(Unstage());
  mounter_.Fail("Flush", Internal("injected"));
  EXPECT_THAT(Unpublish("/pods/t"), FailsWith(StatusCode::kInternal, "injected"));
  EXPECT_TRUE(IsOpen());
  ASSERT_OK(Unpublish("/pods/t"));
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, ReadOnlyDevicesAreDetachedFirst) {
  ASSERT_OK(StageRaw());
  ASSERT_OK(PublishRaw("/pods/a", /*read_only=*/true));
  ASSERT_OK(PublishRaw("/pods/b", /*read_only=*/true));
  ASSERT_OK(Unstage());
  mounter_.ClearLog();
  ASSERT_OK(Unpublish("/pods/a"));
  EXPECT_THAT(mounter_.Calls("DetachLoop"), ElementsAre("DetachLoop /dev/loop65538"));
  EXPECT_THAT(mounter_.Calls("CloseEncrypted"), IsEmpty());
  const std::string device = Device();
  mounter_.ClearLog();
  ASSERT_OK(Unpublish("/pods/b"));
  EXPECT_THAT(Changes(), ElementsAre("Unmount /pods/b remove", "DetachLoop /dev/loop65540", "Flush " + device,
                                     "CloseEncrypted vol-e"));
  ExpectNothingIsLeft();
}

// kubelet binds a target once more, and that bind has no record.
TEST_F(EncryptedVolumesTest, ABoundNodeWithoutARecordKeepsTheVolumeOpen) {
  ASSERT_OK(StageRaw());
  ASSERT_OK(PublishRaw("/pods/t"));
  BindRequest copy = mounter_.last_bind();
  copy.target = "/pods/copy";
  ASSERT_OK(mounter_.Bind(copy));
  ASSERT_OK(Unpublish("/pods/t"));
  ASSERT_OK(Unstage());
  EXPECT_TRUE(IsOpen());
  mounter_.Fail("Mount", ResourceExhausted("injected"));
  EXPECT_FALSE(StageMount().ok());
  EXPECT_TRUE(IsOpen()) << "the node at the copy would lead to another volume";
  ASSERT_OK(Unpublish("/pods/copy"));
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, OnlyAWritableTargetIsHeld) {
  ASSERT_OK(StageRaw());
  ASSERT_OK(PublishRaw("/pods/ro", /*read_only=*/true));
  EXPECT_THAT(mounter_.Calls("HoldDevice"), IsEmpty());
  ASSERT_OK(Unpublish("/pods/ro"));
  ASSERT_OK(PublishRaw("/pods/rw"));
  EXPECT_THAT(mounter_.Calls("HoldDevice"), ElementsAre("HoldDevice " + Device()));
}

// The bind may be in a mount namespace that the plugin does not see.
TEST_F(EncryptedVolumesTest, ATargetOnRecordKeepsTheVolumeOpen) {
  ASSERT_OK(StageRaw());
  ASSERT_OK(PublishRaw("/pods/t"));
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/t"); });
  ASSERT_OK(Unstage());
  EXPECT_TRUE(IsOpen());
  ASSERT_OK(Unpublish("/pods/t"));
  ExpectNothingIsLeft();
}

// Nobody unpublishes a copy that kubelet made.
TEST_F(EncryptedVolumesTest, AnAdoptedTargetKeepsTheVolumeOpenAsLongAsItIsThere) {
  ASSERT_OK(StageRaw());
  ASSERT_OK(PublishRaw("/pods/t"));
  LoseRecords();
  ASSERT_OK(volumes_->Reconcile());
  ASSERT_OK(StageRaw());
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/t"); });
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, AMountBesideARawUseIsRefusedAndClosesNothing) {
  ASSERT_OK(StageRaw());
  EXPECT_THAT(StageMount("/staging/b"), FailsWith(StatusCode::kFailedPrecondition, "block device"));
  ASSERT_OK(PublishRaw("/pods/t"));
  ASSERT_OK(Unstage());
  EXPECT_THAT(StageMount("/staging/b"), FailsWith(StatusCode::kFailedPrecondition, "block device"));
  EXPECT_THAT(mounter_.Calls("CloseEncrypted"), IsEmpty());
  EXPECT_TRUE(IsOpen());
  ASSERT_OK(Unpublish("/pods/t"));
  ASSERT_OK(StageMount("/staging/b"));
}

TEST_F(EncryptedVolumesTest, AVolumeThatAnotherProgramClosedIsNotPublishedAndCanBeUnstaged) {
  ASSERT_OK(StageRaw());
  mounter_.RemoveMapping();
  EXPECT_THAT(PublishRaw("/pods/t"), FailsWith(StatusCode::kFailedPrecondition, "mapping"));
  mounter_.ClearLog();
  ASSERT_OK(Unstage());
  EXPECT_THAT(mounter_.Calls("Flush"), IsEmpty());
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, GrowthGoesFromTheImageToTheReadOnlyDevices) {
  ASSERT_OK(StageRaw());
  ASSERT_OK(PublishRaw("/pods/t", /*read_only=*/true));
  mounter_.ClearLog();
  ASSERT_OK(volumes_->Expand({.volume_id = kEncrypted, .volume_path = "/pods/t"}, Call::WithLongestWait()));
  EXPECT_THAT(Changes(), ElementsAre("ResizeLoop /dev/loop0", "ResizeEncrypted vol-e", "ResizeLoop /dev/loop65538"));
}

TEST_F(EncryptedVolumesTest, AMountedFilesystemGrowsAfterItsMapping) {
  ASSERT_OK(StageMount());
  mounter_.ClearLog();
  const auto expand = [&] {
    return volumes_->Expand({.volume_id = kEncrypted, .volume_path = "/staging/a"}, Call::WithLongestWait());
  };
  ASSERT_OK(expand());
  EXPECT_THAT(Changes(), ElementsAre("ResizeLoop /dev/loop0", "ResizeEncrypted vol-e", "Grow /staging/a ext4"));
  mounter_.Fail("ResizeEncrypted", NotFound("injected"));
  EXPECT_THAT(expand(), FailsWith(StatusCode::kInternal, "injected")) << "not the volume is missing";
}

// ---- the start of the plugin

TEST_F(EncryptedVolumesTest, ReconcileClosesWhatNothingUses) {
  ASSERT_OK(OpenOnly());
  const std::string device = Device();
  Restart();
  mounter_.ClearLog();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(Changes(), ElementsAre("Flush " + device, "CloseEncrypted vol-e"));
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, ReconcileClosesWhatIsMounted) {
  mounter_.Fail("CloseEncrypted", Internal("injected"));
  ASSERT_OK(StageMount());
  Restart();
  mounter_.ClearLog();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(Changes(), ElementsAre("CloseEncrypted vol-e")) << "a flush would wait for the writes of tasks";
  EXPECT_TRUE(IsOpen());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(EncryptedVolumesTest, ReconcileLeavesARawVolumeOpen) {
  ASSERT_OK(StageRaw());
  Restart();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_TRUE(IsOpen()) << "it is staged";
  ASSERT_OK(PublishRaw("/pods/t"));
  ASSERT_OK(Unstage());
  Restart();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_TRUE(IsOpen()) << "it is published";
  LoseRecords();
  Restart();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_TRUE(IsOpen()) << "its node is bound";
  ASSERT_OK(Unpublish("/pods/t"));
  ExpectNothingIsLeft();
}

// Two nodes of a shared pool may be on one kernel.
TEST_F(EncryptedVolumesTest, AMappingOfAnotherNodeIsLeftOpen) {
  ASSERT_OK(mounter_.OpenEncrypted(
      {.volume = {.carrier = kCarrier, .id = kEncrypted}, .passphrase = kRight, .label = "mooring:vol-e@12345678"}));
  ASSERT_OK(volumes_->Reconcile());
  ASSERT_OK(store_->Put({.path = "/staging/a",
                         .volume_id = kEncrypted,
                         .role = VolumeUse::Role::kStage,
                         .access_type = AccessType::kBlock}));
  ASSERT_OK(Unstage());
  EXPECT_THAT(mounter_.Calls("CloseEncrypted"), IsEmpty());
}

// It is neither raw nor without a user, and goes with its mapping.
TEST_F(EncryptedVolumesTest, TheLoopDeviceBelowIsNeitherHeldNorDetached) {
  ASSERT_OK(StageRaw());
  ASSERT_OK(PublishRaw("/pods/t", /*read_only=*/true));
  for (const bool hides : {false, true}) {
    if (hides) mounter_.HideUsers();
    ASSERT_OK(volumes_->Reconcile());
    ASSERT_OK(StageRaw("/staging/b"));
    ASSERT_OK(Unstage("/staging/b"));
  }
  ASSERT_OK(Unpublish("/pods/t"));
  ASSERT_OK(Unstage());
  for (const std::string& call : mounter_.Calls()) {
    const bool changes = call.starts_with("HoldLoop") || call.starts_with("DetachLoop") || call.starts_with("Flush");
    EXPECT_FALSE(changes && call.ends_with(kCarrierLoop)) << call;
  }
  EXPECT_THAT(mounter_.Calls("HoldLoop"), Contains("HoldLoop /dev/loop65538"));
  ExpectNothingIsLeft();
}

// ---- health

TEST_F(EncryptedVolumesTest, AClosedVolumeHasNoProblem) {
  EXPECT_THAT(volumes_->FindProblems({kEncrypted}).value(), IsEmpty());
  ASSERT_OK(StageMount());
  EXPECT_THAT(volumes_->FindProblems({kEncrypted}).value(), IsEmpty());
  EXPECT_EQ(volumes_->Stats(kEncrypted, "/staging/a")->problem, "");
  EXPECT_THAT(volumes_->LivePaths(kEncrypted).value(), ElementsAre("/staging/a"));
  source_.CutShort();
  EXPECT_THAT(volumes_->Stats(kEncrypted, "/staging/a")->problem, HasSubstr("image '/images/vol-e.img' is cut short"));
  ASSERT_OK(Unstage());
  EXPECT_THAT(volumes_->FindProblems({kEncrypted}).value(), IsEmpty());
  EXPECT_THAT(volumes_->Stats(kEncrypted, "/staging/a"), FailsWith(StatusCode::kNotFound, "not at"));
}

TEST_F(EncryptedVolumesTest, ARawVolumeIsFoundByItsMapping) {
  EXPECT_FALSE(volumes_->HasStagedDevice(kEncrypted).value());
  ASSERT_OK(StageRaw());
  ASSERT_OK(PublishRaw("/pods/t"));
  EXPECT_TRUE(volumes_->HasStagedDevice(kEncrypted).value());
  EXPECT_TRUE(volumes_->Stats(kEncrypted, "/staging/a")->is_block);
  EXPECT_THAT(volumes_->FindProblems({kEncrypted}).value(), IsEmpty());
  EXPECT_THAT(volumes_->LivePaths(kEncrypted).value(), UnorderedElementsAre("/pods/t", "/staging/a"));
}

}  // namespace
}  // namespace mooring::testing

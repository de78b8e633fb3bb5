// The calls on a single volume that is an image.
#include "tests/crash/crash_test.h"

namespace mooring::testing {
namespace {

const VolumeKind kExt4 = {};
const VolumeKind kReadOnly = {.read_only = true};
const VolumeKind kSlave = {.parameters = {{"propagation", "rslave"}}};
const VolumeKind kXfs = {.capability = Mount("xfs"), .bytes = kXfsBytes};
const VolumeKind kBtrfs = {.capability = Mount("btrfs"), .bytes = 256 * kMiB};
const VolumeKind kBlock = {.capability = Block(), .bytes = 2 * kMiB};
const VolumeKind kReadOnlyBlock = {.capability = Block(), .bytes = 2 * kMiB, .read_only = true};

void IsFormattedAndGrown(Subject& volume) {
  volume.IsFormatted();
  ASSERT_OK(volume.Grow());
}

void IsStagedAndGrown(Subject& volume) {
  volume.IsStaged();
  ASSERT_OK(volume.Grow());
}

void ExpectExpanded(Subject& volume) {
  volume.ExpectStaged();
  volume.ExpectRoom(2 * volume.kind().bytes);
}

// An error of the kernel may stop the growth of the filesystem, but not its mount. Then the next stage grows it.
void ExpectGrown(Subject& volume) {
  volume.ExpectStaged();
  ASSERT_OK(volume.Unstage());
  ASSERT_OK(volume.Stage());
  ExpectExpanded(volume);
}

std::vector<Scenario> NodeCalls() {
  return {
      {"NodeStageVolumeFreshExt4", kExt4, &Subject::IsCreated, &Subject::Stage, &Subject::ExpectStaged, 3},
      {"NodeStageVolumeFreshXfs", kXfs, &Subject::IsCreated, &Subject::Stage, &Subject::ExpectStaged, 3},
      {"NodeStageVolumeUsedExt4", kExt4, &Subject::IsFormatted, &Subject::Stage, &Subject::ExpectStaged, 3},
      {"NodeStageVolumeUsedXfs", kXfs, &Subject::IsFormatted, &Subject::Stage, &Subject::ExpectStaged, 3},
      {"NodeStageVolumeBlock", kBlock, &Subject::IsFormatted, &Subject::Stage, &Subject::ExpectStaged, 3},
      {"NodeStageVolumeMarkedExt4", kExt4, &Subject::IsMarked, &Subject::Stage, &Subject::ExpectStaged, 3},
      {"NodeStageVolumeGrownExt4", kExt4, IsFormattedAndGrown, &Subject::Stage, ExpectGrown, 5},
      {"NodeStageVolumeGrownXfs", kXfs, IsFormattedAndGrown, &Subject::Stage, ExpectGrown, 5},
      {"NodePublishVolume", kExt4, &Subject::IsStaged, &Subject::Publish, &Subject::ExpectPublished, 2},
      {"NodePublishVolumeReadOnly", kReadOnly, &Subject::IsStaged, &Subject::Publish, &Subject::ExpectPublished, 2},
      {"NodePublishVolumeSlave", kSlave, &Subject::IsStaged, &Subject::Publish, &Subject::ExpectPublished, 2},
      {"NodePublishVolumeBlock", kBlock, &Subject::IsStaged, &Subject::Publish, &Subject::ExpectPublished, 2},
      {"NodePublishVolumeReadOnlyBlock", kReadOnlyBlock, &Subject::IsStaged, &Subject::Publish,
       &Subject::ExpectPublished, 2},
      {"NodeUnpublishVolume", kExt4, &Subject::IsPublished, &Subject::Unpublish, &Subject::ExpectNotPublished, 2},
      {"NodeUnpublishVolumeSlave", kSlave, &Subject::IsPublished, &Subject::Unpublish, &Subject::ExpectNotPublished, 2},
      {"NodeUnpublishVolumeReadOnlyBlock", kReadOnlyBlock, &Subject::IsPublished, &Subject::Unpublish,
       &Subject::ExpectNotPublished, 2},
      {"NodeUnstageVolume", kExt4, &Subject::IsStaged, &Subject::Unstage, &Subject::ExpectNotStaged},
      {"NodeUnstageVolumeBlock", kBlock, &Subject::IsStaged, &Subject::Unstage, &Subject::ExpectNotStaged},
      {"NodeExpandVolumeXfs", kXfs, IsStagedAndGrown, &Subject::NodeExpand, ExpectExpanded},
      {"NodeExpandVolumeBlock", kBlock, IsStagedAndGrown, &Subject::NodeExpand, ExpectExpanded},
  };
}

// A single call creates, formats and mounts an ephemeral volume. A single call removes all of it.
std::vector<Scenario> EphemeralCalls() {
  return {{"NodePublishVolumeInline", kExt4, IsNothing, &Subject::PublishInline, &Subject::ExpectPublishedInline, 6},
          {"NodeUnpublishVolumeInline", kExt4, &Subject::IsPublishedInline, &Subject::UnpublishInline,
           &Subject::ExpectNotPublished, 4}};
}

std::vector<Scenario> ControllerCalls() {
  return {
      {"CreateVolume", kExt4, IsNothing, &Subject::Create, &Subject::ExpectCreated},
      {"CreateVolumeWithASetting", kSlave, IsNothing, &Subject::Create, &Subject::ExpectCreated},
      {"DeleteVolume", kExt4, &Subject::IsDetached, &Subject::Delete, &Subject::ExpectDeleted},
      {"ControllerPublishVolume", kExt4, &Subject::IsNew, &Subject::Attach,
       [](Subject& volume) { volume.ExpectAttached(true); }},
      {"ControllerUnpublishVolume", kExt4, &Subject::IsCreated, &Subject::Detach,
       [](Subject& volume) { volume.ExpectAttached(false); }},
      {"ControllerExpandVolume", kExt4, &Subject::IsPublished, &Subject::Grow,
       [](Subject& volume) { volume.ExpectBytes(2 * volume.kind().bytes); }},
  };
}

// ControllerModifyVolume reaches the devices and mounts of the node.
std::vector<Scenario> ModifyCalls() {
  return {
      {"ControllerModifyVolumeUnused", kExt4, &Subject::IsFormatted, &Subject::Modify, &Subject::ExpectModified, 2},
      {"ControllerModifyVolumeInUse", kExt4, &Subject::IsPublished, &Subject::Modify, &Subject::ExpectModified, 2},
  };
}

// Kills at the steps of these calls would be like those of the calls above.
std::vector<Scenario> FilesystemCalls() {
  return {
      {"NodeStageVolumeFreshBtrfs", kBtrfs, &Subject::IsCreated, &Subject::Stage, &Subject::ExpectStaged, 8},
      {"NodeStageVolumeUsedBtrfs", kBtrfs, &Subject::IsFormatted, &Subject::Stage, &Subject::ExpectStaged, 8},
      {"NodePublishVolumeBtrfs", kBtrfs, &Subject::IsStaged, &Subject::Publish, &Subject::ExpectPublished, 8},
      {"NodeUnstageVolumeBtrfs", kBtrfs, &Subject::IsStaged, &Subject::Unstage, &Subject::ExpectNotStaged, 4},
      {"NodeExpandVolumeBtrfs", kBtrfs, IsStagedAndGrown, &Subject::NodeExpand, ExpectExpanded, 4},
      {"NodePublishVolumeXfs", kXfs, &Subject::IsStaged, &Subject::Publish, &Subject::ExpectPublished, 8},
      {"NodeUnstageVolumeXfs", kXfs, &Subject::IsStaged, &Subject::Unstage, &Subject::ExpectNotStaged, 4},
  };
}

INSTANTIATE_TEST_SUITE_P(Node, KernelErrorTest, ::testing::ValuesIn(NodeCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Filesystem, KernelErrorTest, ::testing::ValuesIn(FilesystemCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Inline, KernelErrorTest, ::testing::ValuesIn(EphemeralCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Controller, KernelErrorTest, ::testing::ValuesIn(ControllerCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Modify, KernelErrorTest, ::testing::ValuesIn(ModifyCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Node, CrashTest, ::testing::ValuesIn(NodeCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Node, HelperCrashTest, ::testing::ValuesIn(NodeCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Inline, CrashTest, ::testing::ValuesIn(EphemeralCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Inline, HelperCrashTest, ::testing::ValuesIn(EphemeralCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Controller, CrashTest, ::testing::ValuesIn(ControllerCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Modify, CrashTest, ::testing::ValuesIn(ModifyCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Modify, HelperCrashTest, ::testing::Values(ModifyCalls().back()), NameOf);

}  // namespace
}  // namespace mooring::testing

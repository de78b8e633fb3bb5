// The calls of the Node service.
#include "tests/crash/crash_test.h"

namespace mooring::testing {
namespace {

const VolumeKind kReadOnly = {.read_only = true};
const VolumeKind kSlave = {.parameters = {{"propagation", "rslave"}}};
const VolumeKind kXfs = {.capability = Mount("xfs"), .bytes = kXfsBytes};
const VolumeKind kBlock = {.capability = Block(), .bytes = 2 * kMiB};
const VolumeKind kReadOnlyBlock = {.capability = Block(), .bytes = 2 * kMiB, .read_only = true};

Scenario Staging(const std::string& name, const VolumeKind& kind, void (Subject::*prepare)()) {
  return {.name = name,
          .kind = kind,
          .prepare = [=](Subject& volume) { (volume.*prepare)(); },
          .call = [](Subject& volume) { return volume.Stage(); },
          .check = [](Subject& volume) { volume.ExpectStaged(); },
          .one_of = 3};
}

// Formatted when it was smaller: the filesystem grows, as long as nobody uses it. An error of the kernel may keep it
// from growing and not from being mounted: then the next stage grows it.
Scenario StagingAGrownOne(const std::string& name, const VolumeKind& kind) {
  return {.name = name,
          .kind = kind,
          .prepare =
              [](Subject& volume) {
                volume.IsFormatted();
                ASSERT_OK(volume.Grow());
              },
          .call = [](Subject& volume) { return volume.Stage(); },
          .check =
              [](Subject& volume) {
                volume.ExpectStaged();
                ASSERT_OK(volume.Unstage());
                ASSERT_OK(volume.Stage());
                volume.ExpectStaged();
                volume.ExpectRoom(2 * volume.kind().bytes);
              },
          .one_of = 5};
}

Scenario Publishing(const std::string& name, const VolumeKind& kind) {
  return {.name = name,
          .kind = kind,
          .prepare = [](Subject& volume) { volume.IsStaged(); },
          .call = [](Subject& volume) { return volume.Publish(); },
          .check = [](Subject& volume) { volume.ExpectPublished(); },
          .one_of = 2};
}

Scenario Unpublishing(const std::string& name, const VolumeKind& kind) {
  return {.name = name,
          .kind = kind,
          .prepare = [](Subject& volume) { volume.IsPublished(); },
          .call = [](Subject& volume) { return volume.Unpublish(); },
          .check = [](Subject& volume) { volume.ExpectNotPublished(); },
          .one_of = 2};
}

Scenario Unstaging(const std::string& name, const VolumeKind& kind) {
  return {.name = name,
          .kind = kind,
          .prepare = [](Subject& volume) { volume.IsStaged(); },
          .call = [](Subject& volume) { return volume.Unstage(); },
          .check = [](Subject& volume) { volume.ExpectNotStaged(); }};
}

Scenario Expanding(const std::string& name, const VolumeKind& kind) {
  return {.name = name,
          .kind = kind,
          .prepare =
              [](Subject& volume) {
                volume.IsStaged();
                ASSERT_OK(volume.Grow());
              },
          .call = [](Subject& volume) { return volume.NodeExpand(); },
          .check =
              [](Subject& volume) {
                volume.ExpectStaged();
                volume.ExpectRoom(2 * volume.kind().bytes);
              }};
}

std::vector<Scenario> Calls() {
  return {
      Staging("NodeStageVolumeFreshExt4", {}, &Subject::IsCreated),
      Staging("NodeStageVolumeFreshXfs", kXfs, &Subject::IsCreated),
      Staging("NodeStageVolumeUsedExt4", {}, &Subject::IsFormatted),
      Staging("NodeStageVolumeUsedXfs", kXfs, &Subject::IsFormatted),
      Staging("NodeStageVolumeBlock", kBlock, &Subject::IsFormatted),
      Staging("NodeStageVolumeMarkedExt4", {}, &Subject::IsMarked),
      StagingAGrownOne("NodeStageVolumeGrownExt4", {}),
      StagingAGrownOne("NodeStageVolumeGrownXfs", kXfs),
      Publishing("NodePublishVolume", {}),
      Publishing("NodePublishVolumeReadOnly", kReadOnly),
      Publishing("NodePublishVolumeSlave", kSlave),
      Publishing("NodePublishVolumeBlock", kBlock),
      Publishing("NodePublishVolumeReadOnlyBlock", kReadOnlyBlock),
      Unpublishing("NodeUnpublishVolume", {}),
      Unpublishing("NodeUnpublishVolumeSlave", kSlave),
      Unpublishing("NodeUnpublishVolumeReadOnlyBlock", kReadOnlyBlock),
      Unstaging("NodeUnstageVolume", {}),
      Unstaging("NodeUnstageVolumeBlock", kBlock),
      Expanding("NodeExpandVolumeXfs", kXfs),
      Expanding("NodeExpandVolumeBlock", kBlock),
  };
}

INSTANTIATE_TEST_SUITE_P(Node, CrashTest, ::testing::ValuesIn(Calls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Node, HelperCrashTest, ::testing::ValuesIn(Calls()), NameOf);

}  // namespace
}  // namespace mooring::testing

// The calls on volumes of other pools: directories, memory, devices, and images that several hosts share.
#include "tests/crash/crash_test.h"

namespace mooring::testing {
namespace {

std::vector<Scenario> PoolCalls() {
  std::vector<Scenario> calls;
  for (const char* pool : {"directories", "memory"}) {
    const VolumeKind kind = {.parameters = {{"pool", pool}}};
    const std::string suffix = kind.parameters.at("pool") == "memory" ? "Memory" : "Directory";
    const std::vector<Scenario> of_pool = {
        {"CreateVolume" + suffix, kind, IsNothing, &Subject::Create, &Subject::ExpectCreated, 3},
        {"DeleteVolume" + suffix, kind, &Subject::IsDetached, &Subject::Delete, &Subject::ExpectDeleted, 3},
        {"NodeStageVolume" + suffix, kind, &Subject::IsFormatted, &Subject::Stage, &Subject::ExpectStaged, 3},
        {"NodePublishVolume" + suffix, kind, &Subject::IsStaged, &Subject::Publish, &Subject::ExpectPublished, 3},
        {"NodeUnpublishVolume" + suffix, kind, &Subject::IsPublished, &Subject::Unpublish, &Subject::ExpectNotPublished,
         3},
        {"NodeUnstageVolume" + suffix, kind, &Subject::IsStaged, &Subject::Unstage, &Subject::ExpectNotStaged, 3}};
    calls.insert(calls.end(), of_pool.begin(), of_pool.end());
  }
  return calls;
}

// The calls in which the mount helper takes part.
std::vector<Scenario> HelpedPoolCalls() {
  std::vector<Scenario> calls = PoolCalls();
  std::erase_if(calls, [](const Scenario& call) {
    return call.name.starts_with("CreateVolume") || call.name == "DeleteVolumeMemory";
  });
  return calls;
}

std::vector<Scenario> DeviceCalls() {
  const VolumeKind kind = {.bytes = 64 * kMiB, .parameters = {{"pool", "disks"}}};
  return {
      {"CreateVolumeDevice", kind, IsNothing, &Subject::Create, &Subject::ExpectCreated, 4},
      {"DeleteVolumeDevice", kind, &Subject::IsDetached, &Subject::Delete, &Subject::ExpectDeleted, 4},
      {"NodeStageVolumeFreshDevice", kind, &Subject::IsCreated, &Subject::Stage, &Subject::ExpectStaged, 8},
      {"NodeStageVolumeUsedDevice", kind, &Subject::IsFormatted, &Subject::Stage, &Subject::ExpectStaged, 8},
      {"NodePublishVolumeDevice", kind, &Subject::IsStaged, &Subject::Publish, &Subject::ExpectPublished, 8},
      {"NodeUnpublishVolumeDevice", kind, &Subject::IsPublished, &Subject::Unpublish, &Subject::ExpectNotPublished, 8},
      {"NodeUnstageVolumeDevice", kind, &Subject::IsStaged, &Subject::Unstage, &Subject::ExpectNotStaged, 8}};
}

std::vector<Scenario> SubvolumeCalls() {
  const VolumeKind kind = {.parameters = {{"pool", "subvolumes"}}};
  return {{"CreateVolumeSubvolume", kind, IsNothing, &Subject::Create, &Subject::ExpectCreated, 4},
          {"DeleteVolumeSubvolume", kind, &Subject::IsDetached, &Subject::Delete, &Subject::ExpectDeleted, 4},
          {"ControllerExpandVolumeSubvolume", kind, &Subject::IsPublished, &Subject::Grow,
           [](Subject& volume) { volume.ExpectBytes(2 * volume.kind().bytes); }, 4},
          {"CreateVolumeFromVolumeSubvolume", kind, &Subject::IsStaged,
           [](Subject& volume) { return volume.Beside().CreateFrom(volume.id()); },
           [](Subject& volume) { volume.Beside().ExpectCreated(); }, 4}};
}

std::vector<Scenario> SharedCalls() {
  const VolumeKind kind = {.parameters = {{"pool", "shared"}}};
  return {{"CreateVolumeShared", kind, IsNothing, &Subject::Create, &Subject::ExpectCreated, 8},
          {"DeleteVolumeShared", kind, &Subject::IsDetached, &Subject::Delete, &Subject::ExpectDeleted, 8},
          {"ControllerPublishVolumeShared", kind, &Subject::IsNew, &Subject::Attach,
           [](Subject& volume) { volume.ExpectAttached(true); }, 8},
          {"ControllerUnpublishVolumeShared", kind, &Subject::IsCreated, &Subject::Detach,
           [](Subject& volume) { volume.ExpectAttached(false); }, 8},
          {"ControllerExpandVolumeShared", kind, &Subject::IsPublished, &Subject::Grow,
           [](Subject& volume) { volume.ExpectBytes(2 * volume.kind().bytes); }, 8},
          {"NodeStageVolumeShared", kind, &Subject::IsFormatted, &Subject::Stage, &Subject::ExpectStaged, 8},
          {"NodeUnstageVolumeShared", kind, &Subject::IsStaged, &Subject::Unstage, &Subject::ExpectNotStaged, 8}};
}

INSTANTIATE_TEST_SUITE_P(Pool, KernelErrorTest, ::testing::ValuesIn(PoolCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Device, KernelErrorTest, ::testing::ValuesIn(DeviceCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Subvolume, KernelErrorTest, ::testing::ValuesIn(SubvolumeCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Subvolume, CrashTest, ::testing::ValuesIn(SubvolumeCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Subvolume, HelperCrashTest, ::testing::ValuesIn(SubvolumeCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Shared, KernelErrorTest, ::testing::ValuesIn(SharedCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Pool, CrashTest, ::testing::ValuesIn(PoolCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Pool, HelperCrashTest, ::testing::ValuesIn(HelpedPoolCalls()), NameOf);

}  // namespace
}  // namespace mooring::testing

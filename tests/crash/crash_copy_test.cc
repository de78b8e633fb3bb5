// Snapshots, groups of snapshots, and volumes that begin as a copy.
#include "tests/crash/crash_test.h"

namespace mooring::testing {
namespace {

// Two volumes that are frozen together, and a volume that nobody uses.
void IsGroup(Subject& volume) {
  volume.IsStaged();
  volume.Beside().IsStaged();
  volume.Beside().Beside().IsFormatted();
}

absl::Status SnapGroup(Subject& volume) {
  Subject& second = volume.Beside();
  return volume.snapshots().CreateGroup({volume.id(), second.id(), second.Beside().id()});
}

void IsSnapped(Subject& volume) {
  volume.IsFormatted();
  ASSERT_OK(volume.snapshots().Create(volume.id()));
}

void IsSnappedGroup(Subject& volume) {
  IsGroup(volume);
  ASSERT_OK(SnapGroup(volume));
}

absl::Status Snap(Subject& volume) { return volume.snapshots().Create(volume.id()); }
absl::Status Clone(Subject& volume) { return volume.Beside().CreateFrom(volume.id()); }
absl::Status Restore(Subject& volume) { return volume.Beside().CreateFrom(volume.snapshots().id()); }

void ExpectNoSnapshot(Subject& volume) { volume.snapshots().Expect(0); }
void ExpectSnapshot(Subject& volume) { volume.snapshots().Expect(1); }
void ExpectGroup(Subject& volume) { volume.snapshots().Expect(3); }
void ExpectCopy(Subject& volume) { volume.Beside().ExpectCreated(); }

// These hold after any outcome: every listed snapshot is whole, no filesystem is frozen, and no data is lost.
void ExpectWhole(Subject& volume) { volume.snapshots().ExpectWhole(); }
void ExpectWholeAndStaged(Subject& volume) {
  volume.ExpectStaged();
  ExpectWhole(volume);
}
void ExpectWholeGroup(Subject& volume) {
  ExpectWholeAndStaged(volume);
  volume.Beside().ExpectStaged();
}

std::vector<Scenario> CopyCalls() {
  return {
      {"CreateSnapshotUnused", {}, &Subject::IsFormatted, Snap, ExpectSnapshot, 4, ExpectWhole},
      {"CreateSnapshotStaged", {}, &Subject::IsStaged, Snap, ExpectSnapshot, 4, ExpectWholeAndStaged},
      {"CreateVolumeFromVolumeUnused", {}, &Subject::IsFormatted, Clone, ExpectCopy, 6, ExpectWhole},
      {"CreateVolumeFromVolumeStaged", {}, &Subject::IsStaged, Clone, ExpectCopy, 6, ExpectWholeAndStaged},
      {"CreateVolumeFromSnapshot", {}, IsSnapped, Restore, ExpectCopy, 6},
      {"CreateVolumeGroupSnapshot", {}, IsGroup, SnapGroup, ExpectGroup, 10, ExpectWholeGroup},
  };
}

std::vector<Scenario> SubvolumeGroupCalls() {
  const VolumeKind kind = {.parameters = {{"pool", "subvolumes"}}};
  return {{"CreateVolumeGroupSnapshotSubvolume", kind, IsGroup, SnapGroup, ExpectGroup, 10, ExpectWhole}};
}

std::vector<Scenario> DeleteSnapshotCalls() {
  return {{"DeleteSnapshot",
           {},
           IsSnapped,
           [](Subject& volume) { return volume.snapshots().Delete(); },
           ExpectNoSnapshot,
           3},
          {"DeleteVolumeGroupSnapshot",
           {},
           IsSnappedGroup,
           [](Subject& volume) { return volume.snapshots().DeleteGroup(); },
           ExpectNoSnapshot,
           6}};
}

INSTANTIATE_TEST_SUITE_P(Copying, KernelErrorTest, ::testing::ValuesIn(CopyCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Forgetting, KernelErrorTest, ::testing::ValuesIn(DeleteSnapshotCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(CopyingSubvolumes, KernelErrorTest, ::testing::ValuesIn(SubvolumeGroupCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(CopyingSubvolumes, CrashTest, ::testing::ValuesIn(SubvolumeGroupCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(CopyingSubvolumes, HelperCrashTest, ::testing::ValuesIn(SubvolumeGroupCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Copying, CrashTest, ::testing::ValuesIn(CopyCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Copying, HelperCrashTest, ::testing::ValuesIn(CopyCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Forgetting, CrashTest, ::testing::ValuesIn(DeleteSnapshotCalls()), NameOf);

}  // namespace
}  // namespace mooring::testing

// Snapshots, groups of them, and volumes that begin as a copy.
#include "tests/crash/crash_test.h"

namespace mooring::testing {
namespace {

using Prepare = void (Subject::*)();

// Nothing is frozen, no data gone, and no snapshot is listed that is not whole.
void ExpectUntouched(Subject& volume, Prepare prepared) {
  if (prepared == &Subject::IsStaged) volume.ExpectStaged();
  volume.snapshots().ExpectWhole();
}

Scenario Snapping(const std::string& name, Prepare prepare) {
  return {.name = name,
          .prepare = [=](Subject& volume) { (volume.*prepare)(); },
          .call = [](Subject& volume) { return volume.snapshots().Create(volume.id()); },
          .check = [](Subject& volume) { volume.snapshots().Expect(1); },
          .always = [=](Subject& volume) { ExpectUntouched(volume, prepare); },
          .one_of = 4};
}

Scenario Cloning(const std::string& name, Prepare prepare) {
  return {.name = name,
          .prepare = [=](Subject& volume) { (volume.*prepare)(); },
          .call = [](Subject& volume) { return volume.Beside().CreateFrom(volume.id()); },
          .check = [](Subject& volume) { volume.Beside().ExpectBytes(volume.kind().bytes); },
          .always = [=](Subject& volume) { ExpectUntouched(volume, prepare); },
          .one_of = 6};
}

// Two that are frozen together, and one that nobody uses.
void IsGroup(Subject& volume) {
  volume.IsStaged();
  volume.Beside().IsStaged();
  volume.Beside().Beside().IsFormatted();
}

absl::Status SnapGroup(Subject& volume) {
  Subject& second = volume.Beside();
  return volume.snapshots().CreateGroup({volume.id(), second.id(), second.Beside().id()});
}

std::vector<Scenario> Making() {
  return {
      Snapping("CreateSnapshotUnused", &Subject::IsFormatted),
      Snapping("CreateSnapshotStaged", &Subject::IsStaged),
      Cloning("CreateVolumeFromVolumeUnused", &Subject::IsFormatted),
      Cloning("CreateVolumeFromVolumeStaged", &Subject::IsStaged),
      {.name = "CreateVolumeFromSnapshot",
       .prepare =
           [](Subject& volume) {
             volume.IsFormatted();
             ASSERT_OK(volume.snapshots().Create(volume.id()));
           },
       .call = [](Subject& volume) { return volume.Beside().CreateFrom(volume.snapshots().id()); },
       .check = [](Subject& volume) { volume.Beside().ExpectBytes(volume.kind().bytes); },
       .one_of = 6},
      {.name = "CreateVolumeGroupSnapshot",
       .prepare = IsGroup,
       .call = SnapGroup,
       .check = [](Subject& volume) { volume.snapshots().Expect(3); },
       .always =
           [](Subject& volume) {
             ExpectUntouched(volume, &Subject::IsStaged);
             volume.Beside().ExpectStaged();
           },
       .one_of = 10},
  };
}

std::vector<Scenario> Deleting() {
  return {
      {.name = "DeleteSnapshot",
       .prepare =
           [](Subject& volume) {
             volume.IsFormatted();
             ASSERT_OK(volume.snapshots().Create(volume.id()));
           },
       .call = [](Subject& volume) { return volume.snapshots().Delete(); },
       .check = [](Subject& volume) { volume.snapshots().Expect(0); },
       .one_of = 3},
      {.name = "DeleteVolumeGroupSnapshot",
       .prepare =
           [](Subject& volume) {
             IsGroup(volume);
             ASSERT_OK(SnapGroup(volume));
           },
       .call = [](Subject& volume) { return volume.snapshots().DeleteGroup(); },
       .check = [](Subject& volume) { volume.snapshots().Expect(0); },
       .one_of = 6},
  };
}

INSTANTIATE_TEST_SUITE_P(Copying, CrashTest, ::testing::ValuesIn(Making()), NameOf);
INSTANTIATE_TEST_SUITE_P(Copying, HelperCrashTest, ::testing::ValuesIn(Making()), NameOf);
INSTANTIATE_TEST_SUITE_P(Forgetting, CrashTest, ::testing::ValuesIn(Deleting()), NameOf);

}  // namespace
}  // namespace mooring::testing

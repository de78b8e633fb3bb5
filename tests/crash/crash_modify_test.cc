// ControllerModifyVolume, which reaches the devices and mounts of the node.
#include "tests/crash/crash_test.h"

namespace mooring::testing {
namespace {

Scenario Modifying(const std::string& name, void (Subject::*prepare)()) {
  return {.name = name,
          .prepare = [=](Subject& volume) { (volume.*prepare)(); },
          .call = [](Subject& volume) { return volume.Modify(); },
          .check = [](Subject& volume) { volume.ExpectModified(); },
          .one_of = 2};
}

std::vector<Scenario> Calls() {
  return {
      Modifying("ControllerModifyVolumeUnused", &Subject::IsFormatted),
      Modifying("ControllerModifyVolumeInUse", &Subject::IsPublished),
  };
}

INSTANTIATE_TEST_SUITE_P(Modify, CrashTest, ::testing::ValuesIn(Calls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Modify, HelperCrashTest, ::testing::Values(Calls().back()), NameOf);

}  // namespace
}  // namespace mooring::testing

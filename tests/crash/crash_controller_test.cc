// The calls of the Controller service.
#include "tests/crash/crash_test.h"

namespace mooring::testing {
namespace {

Scenario Creating(const std::string& name, const VolumeKind& kind) {
  return {.name = name,
          .kind = kind,
          .prepare = [](Subject&) {},
          .call = [](Subject& volume) { return volume.Create(); },
          .check = [](Subject& volume) { volume.ExpectBytes(volume.kind().bytes); }};
}

std::vector<Scenario> Calls() {
  return {
      Creating("CreateVolume", {}),
      Creating("CreateVolumeWithASetting", {.parameters = {{"propagation", "rslave"}}}),
      {.name = "DeleteVolume",
       .prepare =
           [](Subject& volume) {
             volume.IsFormatted();
             ASSERT_OK(volume.Detach());
           },
       .call = [](Subject& volume) { return volume.Delete(); },
       .check = [](Subject& volume) { volume.ExpectDeleted(); }},
      {.name = "ControllerPublishVolume",
       .prepare = [](Subject& volume) { ASSERT_OK(volume.Create()); },
       .call = [](Subject& volume) { return volume.Attach(); },
       .check = [](Subject& volume) { volume.ExpectAttached(true); }},
      {.name = "ControllerUnpublishVolume",
       .prepare = [](Subject& volume) { volume.IsCreated(); },
       .call = [](Subject& volume) { return volume.Detach(); },
       .check = [](Subject& volume) { volume.ExpectAttached(false); }},
      {.name = "ControllerExpandVolume",
       .prepare = [](Subject& volume) { volume.IsPublished(); },
       .call = [](Subject& volume) { return volume.Grow(); },
       .check = [](Subject& volume) { volume.ExpectBytes(2 * volume.kind().bytes); }},
  };
}

INSTANTIATE_TEST_SUITE_P(Controller, CrashTest, ::testing::ValuesIn(Calls()), NameOf);

}  // namespace
}  // namespace mooring::testing

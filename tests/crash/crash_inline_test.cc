// Ephemeral volumes: one call makes, formats and mounts them, and one takes it all back.
#include "tests/crash/crash_test.h"

namespace mooring::testing {
namespace {

std::vector<Scenario> Calls() {
  return {
      {.name = "NodePublishVolumeInline",
       .prepare = [](Subject&) {},
       .call = [](Subject& volume) { return volume.PublishInline(); },
       .check = [](Subject& volume) { volume.ExpectPublishedInline(); },
       .one_of = 6},
      {.name = "NodeUnpublishVolumeInline",
       .prepare = [](Subject& volume) { ASSERT_OK(volume.PublishInline()); },
       .call = [](Subject& volume) { return volume.UnpublishInline(); },
       .check = [](Subject& volume) { volume.ExpectNotPublished(); },
       .one_of = 4},
  };
}

INSTANTIATE_TEST_SUITE_P(Inline, CrashTest, ::testing::ValuesIn(Calls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Inline, HelperCrashTest, ::testing::ValuesIn(Calls()), NameOf);

}  // namespace
}  // namespace mooring::testing

// Volumes that are no images: directories and memory.
#include "tests/crash/crash_test.h"

namespace mooring::testing {
namespace {

Scenario In(const std::string& pool, Scenario scenario) {
  scenario.name += pool == "memory" ? "Memory" : "Directory";
  scenario.kind = {.parameters = {{"pool", pool}}};
  scenario.one_of = 3;
  return scenario;
}

std::vector<Scenario> Calls() {
  std::vector<Scenario> calls;
  for (const char* pool : {"directories", "memory"}) {
    calls.push_back(In(pool, {.name = "CreateVolume",
                              .prepare = [](Subject&) {},
                              .call = [](Subject& volume) { return volume.Create(); },
                              .check = [](Subject& volume) { volume.ExpectBytes(volume.kind().bytes); }}));
    calls.push_back(In(pool, {.name = "DeleteVolume",
                              .prepare =
                                  [](Subject& volume) {
                                    volume.IsFormatted();
                                    ASSERT_OK(volume.Detach());
                                  },
                              .call = [](Subject& volume) { return volume.Delete(); },
                              .check = [](Subject& volume) { volume.ExpectDeleted(); }}));
    calls.push_back(In(pool, {.name = "NodeStageVolume",
                              .prepare = [](Subject& volume) { volume.IsFormatted(); },
                              .call = [](Subject& volume) { return volume.Stage(); },
                              .check = [](Subject& volume) { volume.ExpectStaged(); }}));
    calls.push_back(In(pool, {.name = "NodePublishVolume",
                              .prepare = [](Subject& volume) { volume.IsStaged(); },
                              .call = [](Subject& volume) { return volume.Publish(); },
                              .check = [](Subject& volume) { volume.ExpectPublished(); }}));
    calls.push_back(In(pool, {.name = "NodeUnpublishVolume",
                              .prepare = [](Subject& volume) { volume.IsPublished(); },
                              .call = [](Subject& volume) { return volume.Unpublish(); },
                              .check = [](Subject& volume) { volume.ExpectNotPublished(); }}));
    calls.push_back(In(pool, {.name = "NodeUnstageVolume",
                              .prepare = [](Subject& volume) { volume.IsStaged(); },
                              .call = [](Subject& volume) { return volume.Unstage(); },
                              .check = [](Subject& volume) { volume.ExpectNotStaged(); }}));
  }
  return calls;
}

// Those of which the mount helper has a part.
std::vector<Scenario> HelpedCalls() {
  std::vector<Scenario> calls = Calls();
  std::erase_if(calls, [](const Scenario& call) {
    return call.name.starts_with("CreateVolume") || call.name == "DeleteVolumeMemory";
  });
  return calls;
}

INSTANTIATE_TEST_SUITE_P(Pool, CrashTest, ::testing::ValuesIn(Calls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Pool, HelperCrashTest, ::testing::ValuesIn(HelpedCalls()), NameOf);

}  // namespace
}  // namespace mooring::testing

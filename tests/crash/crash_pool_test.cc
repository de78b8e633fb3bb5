// The calls on volumes that are no images: directories and memory.
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

INSTANTIATE_TEST_SUITE_P(Pool, CrashTest, ::testing::ValuesIn(PoolCalls()), NameOf);
INSTANTIATE_TEST_SUITE_P(Pool, HelperCrashTest, ::testing::ValuesIn(HelpedPoolCalls()), NameOf);

}  // namespace
}  // namespace mooring::testing

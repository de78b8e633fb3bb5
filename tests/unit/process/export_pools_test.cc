#include "plugin/process/export_pools.h"

#include <sys/stat.h>
#include <utime.h>

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

// A file server knows hosts by their names.
TEST(HostNameOfServers, ASecondHostOfThatNameIsRefusedWhileTheFirstLives) {
  const TempDir records;
  EXPECT_OK(CheckHostName(records.path(), "db", "boot-1"));
  ASSERT_OK(RenewHostName(records.path(), "db", "boot-1"));
  EXPECT_OK(CheckHostName(records.path(), "db", "boot-1")) << "another plugin of the host";
  EXPECT_OK(CheckHostName(records.path(), "web", "boot-2"));
  EXPECT_THAT(CheckHostName(records.path(), "db", "boot-2"),
              FailsWith(StatusCode::kFailedPrecondition, "another host with the name 'db'"));
  for (const auto& entry : std::filesystem::directory_iterator(records.path())) {
    if (!entry.path().filename().string().starts_with("host-")) continue;
    const utimbuf old = {.actime = 1, .modtime = 1};
    ASSERT_EQ(::utime(entry.path().c_str(), &old), 0);
  }
  EXPECT_OK(CheckHostName(records.path(), "db", "boot-2")) << "it has been silent for long";
}

TEST(ResolverTest, FindsTheAddressesOfItsNamesAlone) {
  const auto resolver = Resolver::Start({"localhost", "192.0.2.1"}, {});
  ASSERT_OK(resolver);
  EXPECT_THAT(*(*resolver)->Find("192.0.2.1"), ElementsAre("192.0.2.1"));
  EXPECT_THAT(*(*resolver)->Find("localhost"), Not(IsEmpty()));
  EXPECT_THAT((*resolver)->Find("elsewhere").status(), FailsWith(StatusCode::kUnavailable, "'elsewhere'"));
}

}  // namespace
}  // namespace mooring::testing

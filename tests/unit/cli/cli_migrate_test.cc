// `mooring manager migrate` becomes `mooring-manager migrate`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/unit/cli/run_mooring.h"

namespace mooring::cli {
namespace {

using ::testing::ExitedWithCode;
using ::testing::HasSubstr;

// The real program is beside this test if it is built; otherwise this one in PATH prints its arguments.
class MigrateDeathTest : public ::testing::Test {
 protected:
  MigrateDeathTest() {
    const std::string program = directory_ / "mooring-manager";
    std::ofstream(program) << "#!/bin/sh\necho \"mooring-manager $*\" >&2\nexit 1\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    ::setenv("PATH", (directory_.path() + ":" + path_).c_str(), 1);
  }
  ~MigrateDeathTest() override { ::setenv("PATH", path_.c_str(), 1); }

  mooring::testing::TempDir directory_;
  const std::string path_ = std::getenv("PATH");
};

TEST_F(MigrateDeathTest, PassesItsFlagsOn) {
  EXPECT_EXIT(RunLine("mooring manager migrate --to sqlite"), ExitedWithCode(1),
              "mooring-manager migrate.*--to sqlite");
  EXPECT_EXIT(RunLine("mooring manager migrate --etcd-insecure --state /x --host=events --to sqlite"),
              ExitedWithCode(1), "mooring-manager migrate.*--state '?/x");
}

TEST(MigrateTest, WrongCommandLineRunsNothing) {
  const Result missing = RunLine("mooring manager migrate");
  EXPECT_EQ(missing.status, kExitUsage);
  EXPECT_THAT(missing.err, HasSubstr("--to"));
  EXPECT_EQ(RunLine("mooring manager migrate --to sqlite --manager /x").status, kExitUsage);
  EXPECT_EQ(RunLine("mooring manager migrate --to sqlite extra").status, kExitUsage);
}

}  // namespace
}  // namespace mooring::cli

#include "base/file/private_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/support/kernel.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using testing::FailsWith;
using testing::ReadFile;

class PrivateFileTest : public ::testing::TestWithParam<Outlives> {
 protected:
  absl::Status Write(const std::string& contents) { return WritePrivateFile(path_, contents, GetParam()); }

  TempDir dir_;
  const std::string path_ = dir_ / "note";
};
INSTANTIATE_TEST_SUITE_P(Outlives, PrivateFileTest, ::testing::Values(Outlives::kTheProcess, Outlives::kAPowerCut));

TEST_P(PrivateFileTest, IsReplacedWithMode0600) {
  for (const char* contents : {"a longer one", "short", ""}) {
    ASSERT_OK(Write(contents));
    EXPECT_EQ(ReadFile(path_), contents);
    struct stat status = {};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0600U);
    EXPECT_FALSE(fs::exists(path_ + ".new"));
  }
}

TEST_P(PrivateFileTest, SymbolicLinkIsNotFollowed) {
  const std::string theirs = dir_ / "theirs";
  std::ofstream(theirs) << "kept";
  fs::create_symlink(theirs, path_ + ".new");
  EXPECT_FALSE(Write("lost").ok());
  EXPECT_EQ(ReadFile(theirs), "kept");
  EXPECT_FALSE(fs::exists(path_));
}

TEST_P(PrivateFileTest, ErrorNamesThePath) {
  EXPECT_THAT(WritePrivateFile(dir_ / "none/note", "x", GetParam()),
              FailsWith(StatusCode::kNotFound, dir_ / "none/note"));
}

// A full device takes nothing, and the old content stays.
TEST_P(PrivateFileTest, FailedWriteKeepsTheOldContent) {
  ASSERT_OK(Write("old"));
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 4;
  ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status written = Write("much longer than four bytes");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_DFL);
  EXPECT_THAT(written, FailsWith(StatusCode::kResourceExhausted, path_));
  EXPECT_EQ(ReadFile(path_), "old");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_P(PrivateFileTest, FailedRenameLeavesNoSecondFile) {
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(Write("x").ok());
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

}  // namespace
}  // namespace mooring::testing

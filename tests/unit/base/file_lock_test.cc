#include "base/file/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

TEST(FileLockTest, WaitsWithinItsLimit) {
  const TempDir dir;
  const std::string path = dir / "file";
  UniqueFd holder(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(holder.get(), LOCK_SH), 0);
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(LockFile(file, path, std::chrono::milliseconds(20)), FailsWith(StatusCode::kAborted, path));
  holder.reset();
  EXPECT_OK(LockFile(file, path, std::chrono::milliseconds(20)));
  const UniqueFd late(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_NE(::flock(late.get(), LOCK_SH | LOCK_NB), 0);
}

}  // namespace
}  // namespace mooring::testing

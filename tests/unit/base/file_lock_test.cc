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

// A lock for each open file, not for each process: two of one process exclude each other, too.
TEST(FileLockTest, ByteIsSharedOnlyAmongReaders) {
  const TempDir dir;
  const std::string path = dir / "file";
  const auto take = [&](int flags, off_t byte) {
    UniqueFd file(::open(path.c_str(), flags | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_OK(LockByte(file, byte, path, std::chrono::milliseconds(0)));
    return file;
  };
  const auto is_refused = [&](int flags, off_t byte) {
    const UniqueFd file(::open(path.c_str(), flags | O_CLOEXEC));
    return absl::IsAborted(LockByte(file, byte, path, std::chrono::milliseconds(5)));
  };
  const UniqueFd writer = take(O_RDWR, 1), reader = take(O_RDONLY, 2), second_reader = take(O_RDONLY, 2);
  EXPECT_TRUE(is_refused(O_RDWR, 1));
  EXPECT_TRUE(is_refused(O_RDONLY, 1));
  EXPECT_TRUE(is_refused(O_RDWR, 2));
  EXPECT_FALSE(is_refused(O_RDWR, 3));
}

}  // namespace
}  // namespace mooring::testing

#include "base/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace mooring::testing {
namespace {

using Mode = FileLock::Mode;
using absl::StatusCode;

class FileLockTest : public ::testing::Test {
 protected:
  bool IsFree(int operation) const {
    const UniqueFd fd(::open(file_.c_str(), O_RDWR | O_CLOEXEC));
    return ::flock(fd.get(), operation | LOCK_NB) == 0;
  }

  TempDir dir_;
  const std::string file_ = dir_ / "lock";
};

TEST_F(FileLockTest, TheFileIsMadeForItsOwnerAlone) {
  const ::mode_t before = ::umask(0);
  ASSERT_OK(FileLock::Acquire(file_, Mode::kShared));
  ::umask(before);
  struct stat status = {};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
}

TEST_F(FileLockTest, SharedLetsSharedInExclusiveNobody) {
  {
    const auto shared = FileLock::Acquire(file_, Mode::kShared);
    ASSERT_OK(shared);
    EXPECT_TRUE(IsFree(LOCK_SH));
    EXPECT_FALSE(IsFree(LOCK_EX));
    EXPECT_OK(FileLock::Acquire(file_, Mode::kShared));
  }
  const auto exclusive = FileLock::Acquire(file_, Mode::kExclusive);
  ASSERT_OK(exclusive);
  EXPECT_FALSE(IsFree(LOCK_SH));
}

TEST_F(FileLockTest, ItGoesWithTheObjectAlsoWhenItWasMoved) {
  {
    std::optional<FileLock> kept(FileLock::Acquire(file_, Mode::kExclusive).value());
    const FileLock moved = *std::move(kept);
    kept.reset();
    EXPECT_FALSE(IsFree(LOCK_SH));
  }
  EXPECT_TRUE(IsFree(LOCK_EX));
}

TEST_F(FileLockTest, AWaiterGetsItOnceItIsFree) {
  std::optional<FileLock> first(FileLock::Acquire(file_, Mode::kExclusive).value());
  std::atomic<bool> got = false;
  std::thread waiter([&] {
    EXPECT_OK(FileLock::Acquire(file_, Mode::kExclusive));
    got = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(got);
  first.reset();
  waiter.join();
  EXPECT_TRUE(got);
}

TEST_F(FileLockTest, ItIsNotLeftToChildren) {
  const auto held = FileLock::Acquire(file_, Mode::kExclusive);
  ASSERT_OK(held);
  int found = 0;
  for (int fd = 3; fd < 256; ++fd) {
    struct stat here = {}, file = {};
    if (::fstat(fd, &here) != 0 || ::stat(file_.c_str(), &file) != 0 || here.st_ino != file.st_ino) continue;
    ++found;
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(found, 1);
}

TEST_F(FileLockTest, WhatCannotBeLockedSaysWhich) {
  EXPECT_THAT(FileLock::Acquire(dir_ / "missing/lock", Mode::kShared),
              FailsWith(StatusCode::kNotFound, "missing/lock"));
  EXPECT_THAT(FileLock::Acquire(dir_.path(), Mode::kShared), FailsWith(StatusCode::kFailedPrecondition, dir_.path()));
  ASSERT_EQ(::symlink("/etc/passwd", file_.c_str()), 0);
  EXPECT_THAT(FileLock::Acquire(file_, Mode::kShared), FailsWith(StatusCode::kFailedPrecondition, file_));
}

}  // namespace
}  // namespace mooring::testing

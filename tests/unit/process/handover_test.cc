// What changes hands as a whole is shown in tests/rpc/hostile/user_test.cc; here what lies between two locks.
#include "plugin/process/handover.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file/real_directory.h"
#include "base/file/unique_fd.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace mooring::testing {
namespace {

constexpr uid_t kUser = 4242, kOther = 4343;

class HandoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root gives anything away";
  }
  bool CouldBeLocked(int how) const {
    const UniqueFd directory(::open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return ::flock(directory.get(), how | LOCK_NB) == 0;
  }
  Handover Begun() {
    const absl::StatusOr<RealDirectory> directory = OpenRealDirectory(dir_.path());
    EXPECT_OK(directory);
    absl::StatusOr<Handover> begun = Handover::Begin(*directory, {.uid = kUser, .gid = kUser});
    EXPECT_OK(begun);
    return *std::move(begun);
  }
  TempDir dir_;
};

TEST_F(HandoverTest, WhoKeepsWhatIsHisKeepsOutOthers) {
  const Handover handover = Begun();
  EXPECT_FALSE(CouldBeLocked(LOCK_SH)) << "it is alone";
  ASSERT_EQ(::chown(dir_.path().c_str(), kUser, kUser), 0);
  ASSERT_OK(handover.Keep());
  EXPECT_TRUE(CouldBeLocked(LOCK_SH));
  EXPECT_FALSE(CouldBeLocked(LOCK_EX));
}

// A lock that is made a shared one is lost for a moment, in which another may come and give all to somebody else.
TEST_F(HandoverTest, WhoFindsItGivenToAnotherKeepsNoLock) {
  const Handover handover = Begun();
  ASSERT_EQ(::chown(dir_.path().c_str(), kOther, kOther), 0);
  EXPECT_THAT(handover.Keep(), FailsWith(absl::StatusCode::kFailedPrecondition, "another process began"));
  EXPECT_TRUE(CouldBeLocked(LOCK_EX));
}

}  // namespace
}  // namespace mooring::testing

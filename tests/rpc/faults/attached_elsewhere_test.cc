// A pool on a filesystem that another host mounts, too. The test holds the lock that the other host's loop device would
// hold (mounter/loop/attachment_lock.h).
#include <atomic>
#include <thread>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

constexpr off_t kLockedByte = off_t{1} << 62U;  // fixed: hosts may run different versions

class AttachedElsewhere : public RpcTest {
 protected:
  UniqueFd Attached(const std::string& id) {
    UniqueFd fd(::open(Image(id).c_str(), O_RDWR | O_CLOEXEC));
    const struct flock range = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = kLockedByte, .l_len = 1, .l_pid = 0};
    EXPECT_EQ(::fcntl(fd.get(), F_OFD_SETLK, &range), 0) << Image(id);
    return fd;
  }
};

TEST_F(AttachedElsewhere, AVolumeIsRefusedUntilItIsFree) {
  for (const VolumeCapability& use : {kSharedMount, kSharedBlock}) {
    const std::string id = Created(use);
    UniqueFd elsewhere = Attached(id);
    const std::string piece = Image(id) + "' is attached elsewhere";
    EXPECT_THAT(driver().Stage(id, Staging(id), use), FailsWith(Code::kFailedPrecondition, piece));
    EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, piece));
    EXPECT_THAT(driver().Grow(id, 2 * kVolumeBytes), FailsWith(Code::kFailedPrecondition, piece));
    EXPECT_THAT(driver().Snap("snapshot of " + id, id), FailsWith(Code::kFailedPrecondition, piece));
    ExpectNoLoops();
    elsewhere.reset();
    StageAndPublish(id, Target("a", id), use);
    EXPECT_OK(driver().Grow(id, 2 * kVolumeBytes));
    UnpublishAndUnstage(id, Target("a", id));
    EXPECT_OK(driver().Delete(id));
  }
}

// The last step of a delete is short, so the other host may miss it.
TEST_F(AttachedElsewhere, AVolumeThatIsBeingDeletedStaysFree) {
  std::atomic<bool> kept = false;
  for (int attempt = 0; attempt < 1000 && !kept; ++attempt) {
    const std::string id = Created();
    std::atomic<bool> done = false;
    std::thread other([&, fd = UniqueFd(::open(Image(id).c_str(), O_RDWR | O_CLOEXEC))] {
      while (!done && !kept) {
        struct flock range = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = kLockedByte, .l_len = 1, .l_pid = 0};
        EXPECT_EQ(::fcntl(fd.get(), F_OFD_GETLK, &range), 0);
        kept = range.l_type == F_WRLCK;
      }
    });
    EXPECT_OK(driver().Delete(id));
    done = true;
    other.join();
  }
  EXPECT_TRUE(kept);
}

TEST_F(AttachedElsewhere, TheLockOutlivesPluginAndHelper) {
  for (const VolumeCapability& use : {kSharedMount, kSharedBlock}) {
    const std::string id = Staged(use);
    Restart(SIGKILL);
    const UniqueFd fd(::open(Image(id).c_str(), O_RDWR | O_CLOEXEC));
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = kLockedByte, .l_len = 1, .l_pid = 0};
    ASSERT_EQ(::fcntl(fd.get(), F_OFD_GETLK, &range), 0);
    EXPECT_EQ(range.l_type, F_WRLCK);
    EXPECT_OK(driver().Publish(id, Staging(id), Target("a", id), use));
  }
}

}  // namespace
}  // namespace mooring::testing

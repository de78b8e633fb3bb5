// An image that another host has attached. Here another open file description holds the lock that the other host's loop
// device would hold.
#include "mounter/loop/attachment_lock.h"

#include <fcntl.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

constexpr char kElsewhere[] = "is attached elsewhere";
constexpr off_t kLockedByte = off_t{1} << 62U;  // fixed: hosts may run different versions

class AttachmentLockTest : public KernelTest {
 protected:
  static UniqueFd Opened(const std::string& image) { return UniqueFd(::open(image.c_str(), O_RDWR | O_CLOEXEC)); }
  static UniqueFd AttachedElsewhere(const std::string& image, ImageAccess access) {
    UniqueFd fd = Opened(image);
    EXPECT_OK(LockAttachment(fd, image, access));
    return fd;
  }
  absl::StatusOr<LoopInfo> Attach(const std::string& image, bool read_only = false) {
    return mounter_.AttachLoop({.backing_file = image, .label = "test", .read_only = read_only});
  }
  static void ExpectRefused(const absl::Status& status, const std::string& image) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(Message(status), AllOf(HasSubstr(image), HasSubstr(kElsewhere)));
  }
  static absl::Status Allows(const std::string& image, ImageAccess access) {
    return LockAttachment(Opened(image), image, access);
  }

  // Whether another host could not write to the image while the call ran.
  bool KeepsOthersAway(const std::string& image, const std::function<absl::Status()>& call) {
    std::atomic<bool> looks = false, done = false, kept = false;
    std::thread other([&, fd = Opened(image)] {
      for (; !done && !kept; looks = true) {
        struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = kLockedByte, .l_len = 1, .l_pid = 0};
        EXPECT_EQ(::fcntl(fd.get(), F_OFD_GETLK, &range), 0);
        kept = range.l_type != F_UNLCK;
      }
    });
    while (!looks) std::this_thread::yield();
    EXPECT_OK(call());
    done = true;
    other.join();
    return kept;
  }
};

TEST_F(AttachmentLockTest, LivesAsLongAsTheLoopDevice) {
  const std::string image = Sparse("image", kMiB);
  const auto loop = Attach(image);
  ASSERT_OK(loop);
  ExpectRefused(LockAttachment(Opened(image), image, ImageAccess::kWrite), image);
  ExpectRefused(LockAttachment(Opened(image), image, ImageAccess::kRead), image);
  ASSERT_OK(mounter_.DetachLoop(*loop));
  EXPECT_OK(LockAttachment(Opened(image), image, ImageAccess::kWrite));
}

TEST_F(AttachmentLockTest, LivesAsLongAsTheMount) {
  const std::string image = Ext4Image("image");
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"), "ext4")));
  ExpectRefused(LockAttachment(Opened(image), image, ImageAccess::kRead), image);
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
  EXPECT_OK(LockAttachment(Opened(image), image, ImageAccess::kWrite));
}

TEST_F(AttachmentLockTest, RefusesASecondHost) {
  const std::string image = Ext4Image("image");
  UniqueFd elsewhere = AttachedElsewhere(image, ImageAccess::kWrite);
  ExpectRefused(Attach(image).status(), image);
  ExpectRefused(Attach(image, true).status(), image);
  ExpectRefused(mounter_.Mount(MountOf(image, Path("target"), "ext4")), image);
  EXPECT_TRUE(NoLoopOver(image));
  elsewhere.reset();
  const auto loop = Attach(image);
  ASSERT_OK(loop);
  EXPECT_OK(mounter_.DetachLoop(*loop));
}

TEST_F(AttachmentLockTest, ReadersShareAnImage) {
  const std::string image = Sparse("image", kMiB);
  const UniqueFd elsewhere = AttachedElsewhere(image, ImageAccess::kRead);
  ExpectRefused(Attach(image).status(), image);
  const auto loop = Attach(image, true);
  ASSERT_OK(loop);
  EXPECT_OK(Allows(image, ImageAccess::kRead));
  ExpectRefused(Allows(image, ImageAccess::kWrite), image);
  EXPECT_OK(mounter_.DetachLoop(*loop));
}

TEST_F(AttachmentLockTest, ADeviceOfThisHostIsReused) {
  const std::string image = Ext4Image("image");
  const auto loop = Attach(image);
  ASSERT_OK(loop);
  KernelMounter restarted;
  const auto again = restarted.AttachLoop({.backing_file = image, .label = "test"});
  ASSERT_OK(again);
  EXPECT_EQ(again->device, loop->device);
  EXPECT_OK(restarted.DetachLoop(*again));
}

TEST_F(AttachmentLockTest, RefusesToWorkOnAnImageThatIsWrittenElsewhere) {
  const std::string image = Ext4Image("image"), empty = Sparse("empty", 64 * kMiB);
  const UniqueFd one = AttachedElsewhere(image, ImageAccess::kWrite);
  const UniqueFd other = AttachedElsewhere(empty, ImageAccess::kWrite);
  ExpectRefused(mounter_.Format({empty, "ext4"}), empty);
  ExpectRefused(mounter_.Check(image, "ext4"), image);
  ExpectRefused(mounter_.Grow(image, "ext4"), image);
  ExpectRefused(mounter_.Copy({ImageCopyOf(image, Path("copy"))}), image);
  EXPECT_FALSE(Exists(Path("copy")));
}

TEST_F(AttachmentLockTest, AnImageThatIsWorkedOnIsNotAttachedElsewhere) {
  const std::string image = Ext4Image("image"), empty = Sparse("empty", 64 * kMiB);
  EXPECT_TRUE(KeepsOthersAway(empty, [&] { return mounter_.Format({empty, "ext4"}); }));
  bool kept = false;  // a copy is short, so the other host may miss it
  for (int i = 0; i < 50 && !kept; ++i) {
    const ImageCopy copy = ImageCopyOf(image, Path("copy" + std::to_string(i)));
    kept = KeepsOthersAway(image, [&] { return mounter_.Copy({copy}); });
  }
  EXPECT_TRUE(kept);
  ASSERT_EQ(Tool("tune2fs -E force_fsck " + image), 0);
  EXPECT_TRUE(KeepsOthersAway(image, [&] { return mounter_.Check(image, "ext4"); }));
}

TEST_F(AttachmentLockTest, AnImageThatIsReadElsewhereIsCopied) {
  const std::string image = Sparse("image", kMiB);
  const UniqueFd elsewhere = AttachedElsewhere(image, ImageAccess::kRead);
  EXPECT_OK(mounter_.Copy({ImageCopyOf(image, Path("copy"))}));
}

TEST_F(AttachmentLockTest, ADetachedImageIsAttachedAgainAtOnce) {
  const std::string image = Sparse("image", kMiB);
  for (int i = 0; i < 200 && !HasFailure(); ++i) {
    const auto loop = Attach(image);
    ASSERT_OK(loop);
    EXPECT_OK(mounter_.DetachLoop(*loop));
  }
}

}  // namespace
}  // namespace mooring::testing

// Mounts whose server is dead or hangs: FUSE stands in for all of them (NFS, ceph), since it needs no server here.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "tests/kernel/kernel_test.h"
#include "tests/kernel/namespaces.h"

namespace mooring::testing {
namespace {

class BrokenMountTest : public KernelTest {
 protected:
  void SetUp() override {
    fuse_.reset(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fuse_.ok()) << "these tests need FUSE in the kernel";
    const std::string options = fmt::format("fd={},rootmode=40000,user_id=0,group_id=0", fuse_.get());
    ASSERT_EQ(::mount("mooring-test", Dir("target").c_str(), "fuse", 0, options.c_str()), 0);
  }
  void Die() { fuse_.reset(); }  // from here on ENOTCONN; until then nobody answers
  std::string FindType() {
    const auto info = mounter_.Find(Path("target"));
    if (!info.ok()) return info.status().ToString();
    return info->mount ? info->mount->fs_type : "no mount";
  }
  std::string UnmountAndRemove() { return mounter_.Unmount(UnmountOf(Path("target"), true)).ToString(); }
  UniqueFd fuse_;
};

TEST_F(BrokenMountTest, DeadOneIsFoundAndListed) {
  Die();
  struct stat status = {};
  ASSERT_EQ(::stat(Path("target/x").c_str(), &status), -1);
  ASSERT_EQ(errno, ENOTCONN);
  EXPECT_EQ(FindType(), "fuse");
  const auto mounts = mounter_.List(dir_.path());
  ASSERT_OK(mounts);
  EXPECT_EQ(mounts->size(), 1U);
}

TEST_F(BrokenMountTest, DeadOneIsUnmountedAndItsTargetRemoved) {
  Die();
  EXPECT_EQ(UnmountAndRemove(), "OK");
  EXPECT_FALSE(Exists(Path("target")));
}

TEST_F(BrokenMountTest, DeadOneIsNotStackedOn) {
  Die();
  EXPECT_THAT(mounter_.Bind(BindOf(Dir("source"), Path("target"))),
              FailsWith(absl::StatusCode::kFailedPrecondition, "mount already"));
}

TEST_F(BrokenMountTest, PathBelowADeadOneIsAnErrorThatNamesIt) {
  Die();
  EXPECT_THAT(mounter_.Find(Path("target/below/it")).status().ToString(), ::testing::HasSubstr(Path("target/below")));
}

// Each of these would be killed after 20 seconds.
TEST_F(BrokenMountTest, HungOneHoldsNobodyUp) {
  EXPECT_EQ(AskInChild([&] { return FindType(); }), "fuse");
  EXPECT_EQ(AskInChild([&] { return fmt::format("{}", mounter_.List(dir_.path())->size()); }), "1");
  EXPECT_THAT(AskInChild([&] { return mounter_.Bind(BindOf(Dir("source"), Path("target"))).ToString(); }),
              ::testing::HasSubstr("mount already"));
  EXPECT_EQ(AskInChild([&] { return UnmountAndRemove(); }), "OK");
  EXPECT_FALSE(Exists(Path("target")));
}

}  // namespace
}  // namespace mooring::testing

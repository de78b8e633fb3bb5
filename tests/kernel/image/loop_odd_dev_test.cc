// Loop devices in a /dev where other files have their names.
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "mounter/image/image.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

// A /dev of this test's own.
class OddDevTest : public KernelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    const std::string dev = Dir("dev");
    ASSERT_EQ(Tool(fmt::format(
                  "mount -t tmpfs none {0} && cp -a /dev/null /dev/zero /dev/urandom /dev/loop-control {0}", dev)),
              0);
    Tool(fmt::format("cp -a /dev/loop[0-9]* {} 2> /dev/null", dev));  // other tests remove some meanwhile
    ASSERT_EQ(::mount(dev.c_str(), "/dev", nullptr, MS_BIND, nullptr), 0);
    replaced_dev_ = true;
  }
  void TearDown() override {
    if (replaced_dev_) ::umount2("/dev", MNT_DETACH);
    KernelTest::TearDown();
  }
  // `make` is a command whose last argument is the path.
  static void Replace(const std::string& path, const std::string& make) {
    ASSERT_EQ(Tool(fmt::format("rm -rf {0} && {1} {0}", path, make)), 0);
  }

 private:
  bool replaced_dev_ = false;
};

TEST_P(OddDevTest, AtTheNamesOfFreeDevicesIsLeftAlone) {
  const std::string image = Ext4Image("v.img");
  std::vector<std::string> replaced;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("loop") || std::filesystem::exists(entry.path() / "loop")) continue;
    replaced.push_back("/dev/" + name);
    Replace(replaced.back(), GetParam());
  }
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("at"))));
  EXPECT_EQ(TryWrite(Path("at/file"), "data"), 0);
  const auto loops = mounter_.FindLoops(image);
  ASSERT_OK(loops);
  EXPECT_EQ(std::count(replaced.begin(), replaced.end(), loops->at(0).device), 0);
  for (const std::string& path : replaced) EXPECT_FALSE(S_ISBLK(StatOf(path).st_mode)) << path;
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("at"))));
}

TEST_P(OddDevTest, AtTheNameOfADeviceInUseHidesItFromNobody) {
  const std::string image = Ext4Image("v.img");
  const auto loop = mounter_.AttachLoop({image, "mooring-kernel-test", false});
  ASSERT_OK(loop);
  Replace(loop->device, GetParam());
  const auto found = mounter_.FindLoops(image);
  ASSERT_OK(found);
  EXPECT_THAT(*found, SizeIs(1));
  EXPECT_OK(mounter_.DetachLoop(*loop));
  EXPECT_TRUE(NoLoopOver(image));
}

TEST_P(OddDevTest, AtTheNameOfTheControlDeviceDoesNotStopAnAttachment) {
  Replace("/dev/loop-control", GetParam());
  const auto loop = mounter_.AttachLoop({Ext4Image("v.img"), "mooring-kernel-test", false});
  ASSERT_OK(loop);
  EXPECT_OK(mounter_.DetachLoop(*loop));
  EXPECT_FALSE(Exists("/dev/.mooring-*"));
}

std::string NameOfThing(const ::testing::TestParamInfo<const char*>& test) {
  return std::vector<std::string>{"Directory", "DanglingLink", "Fifo", "File", "OtherDevice"}.at(test.index);
}

INSTANTIATE_TEST_SUITE_P(Things, OddDevTest,
                         ::testing::Values("mkdir", "ln -s /nowhere", "mkfifo", "touch", "cp -a /dev/null"),
                         NameOfThing);

}  // namespace
}  // namespace mooring::testing

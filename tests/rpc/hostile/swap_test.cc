// As tests/kernel/mount/swap_test.cc, through the whole plugin: what is at a target, at its parent or at a staging path
// is swapped while volumes are published and unpublished.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kTimes = 400;

class Swap : public RpcTest {
 protected:
  void SetUp() override {
    // Before the start: the plugin is to mount below csi/ alone.
    MakeDirectories("csi");
    plugin().options().flags.insert(plugin().options().flags.end(), {"--mount-root", dir() / "csi"});
    RpcTest::SetUp();
    id_ = Created();
    staging_ = MakeDirectories("csi/st/" + id_);
    ASSERT_OK(driver().Stage(id_, staging_));
    MakeDirectories("outside/st/" + id_);
    std::ofstream(MakeDirectories("outside/pods/target") + "/keep") << "precious";
    MakeDirectories("outside/pods/empty");
    MakeDirectories("csi/pods");
  }

  static bool Exchange(const std::string& a, const std::string& b) {
    return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
  }

  // While another thread swaps. After each publish nothing may be mounted outside.
  void PublishWhile(const std::function<bool()>& swap, const std::string& target) {
    std::atomic<bool> stop = false;
    std::atomic<int> swaps = 0;
    std::thread swapper([&] {
      for (; !stop; ::usleep(20)) swaps += swap() ? 1 : 0;
    });
    int published = 0;
    for (int i = 0; i < kTimes; ++i) {
      published += driver().Publish(id_, staging_, target).status.ok() ? 1 : 0;
      EXPECT_THAT(MountsBelow(dir() / "outside"), ::testing::IsEmpty());
      static_cast<void>(driver().Unpublish(id_, target));
    }
    stop = true;
    swapper.join();
    EXPECT_GT(published, 0);
    EXPECT_GT(swaps, 0);
  }

  void ExpectOutsideIsAsItWas() {
    EXPECT_EQ(ReadFile(dir() / "outside/pods/target/keep"), "precious");
    EXPECT_TRUE(fs::is_directory(dir() / "outside/pods/empty"));
  }

  std::string id_, staging_;
};

TEST_F(Swap, ATargetAndADirectoryOutside) {
  const std::string target = dir() / "csi/pods/target";
  PublishWhile([&] { return Exchange(target, dir() / "outside/pods/empty"); }, target);
  ExpectOutsideIsAsItWas();
}

TEST_F(Swap, ATargetAndALinkToOutside) {
  const std::string target = dir() / "csi/pods/target";
  const auto swap = [&] {
    ::rmdir(target.c_str());
    const bool linked = ::symlink((dir() / "outside/pods/empty").c_str(), target.c_str()) == 0;
    if (linked) ::unlink(target.c_str());
    return linked;
  };
  PublishWhile(swap, target);
  ExpectOutsideIsAsItWas();
}

TEST_F(Swap, AParentAndALinkToOutside) {
  const std::string pods = dir() / "csi/pods", link = dir() / "csi/link";
  fs::create_directory_symlink(dir() / "outside/pods", link);
  PublishWhile([&] { return Exchange(pods, link); }, pods + "/empty");
  if (fs::is_symlink(pods)) Exchange(pods, link);
  EXPECT_OK(driver().Unpublish(id_, pods + "/empty"));
  ExpectOutsideIsAsItWas();
}

// A bind of the host's own directory would show files that are no volume's.
TEST_F(Swap, AStagingPathAndADirectoryThatIsNoVolume) {
  const std::string inside = dir() / "csi/st", outside = dir() / "outside/st", target = dir() / "csi/pods/target";
  ASSERT_EQ(::mount("tmpfs", (outside + "/" + id_).c_str(), "tmpfs", 0, "size=64k"), 0);
  std::ofstream(outside + "/" + id_ + "/secret") << "secret";
  std::atomic<bool> stop = false;
  std::thread swapper([&] {
    for (; !stop; ::usleep(20)) Exchange(inside, outside);
  });
  int published = 0;
  for (int i = 0; i < kTimes; ++i) {
    published += driver().Publish(id_, staging_, target).status.ok() ? 1 : 0;
    EXPECT_FALSE(fs::exists(target + "/secret"));
    static_cast<void>(driver().Unpublish(id_, target));
  }
  stop = true;
  swapper.join();
  EXPECT_GT(published, 0);
  if (fs::exists(staging_ + "/secret")) Exchange(inside, outside);
  ASSERT_EQ(::umount((outside + "/" + id_).c_str()), 0);
}

}  // namespace
}  // namespace mooring::testing

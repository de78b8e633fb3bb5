// A thread swaps the target, its parent or the staging path while volumes are published and unpublished. It is the test
// of tests/kernel/mount/swap_test.cc with the whole plugin.
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
    // The plugin may mount below csi/ only.
    MakeDirectories("csi");
    AddFlags({"--mount-root", dir() / "csi"});
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

  // Publishes while another thread swaps. After each publish `check` must hold.
  void PublishWhile(const std::function<bool()>& swap, const std::string& target, const std::function<void()>& check) {
    std::atomic<bool> stop = false;
    std::atomic<int> swaps = 0;
    std::thread swapper([&] {
      for (; !stop; ::usleep(20)) swaps += swap() ? 1 : 0;
    });
    int published = 0;
    for (int i = 0; i < kTimes; ++i) {
      published += driver().Publish(id_, staging_, target).status.ok() ? 1 : 0;
      check();
      static_cast<void>(driver().Unpublish(id_, target));
    }
    stop = true;
    swapper.join();
    EXPECT_GT(published, 0);
    EXPECT_GT(swaps, 0);
  }

  void ExpectNothingMountedOutside() { EXPECT_THAT(MountsBelow(dir() / "outside"), ::testing::IsEmpty()); }
  void ExpectOutsideIsAsItWas() {
    EXPECT_EQ(ReadFile(dir() / "outside/pods/target/keep"), "precious");
    EXPECT_TRUE(fs::is_directory(dir() / "outside/pods/empty"));
  }

  std::string id_, staging_;
};

TEST_F(Swap, TargetAndADirectoryOutside) {
  const std::string target = dir() / "csi/pods/target";
  PublishWhile([&] { return Exchange(target, dir() / "outside/pods/empty"); }, target,
               [&] { ExpectNothingMountedOutside(); });
  ExpectOutsideIsAsItWas();
}

TEST_F(Swap, TargetAndALinkToOutside) {
  const std::string target = dir() / "csi/pods/target";
  const auto swap = [&] {
    ::rmdir(target.c_str());
    const bool linked = ::symlink((dir() / "outside/pods/empty").c_str(), target.c_str()) == 0;
    if (linked) ::unlink(target.c_str());
    return linked;
  };
  PublishWhile(swap, target, [&] { ExpectNothingMountedOutside(); });
  ExpectOutsideIsAsItWas();
}

TEST_F(Swap, ParentAndALinkToOutside) {
  const std::string pods = dir() / "csi/pods", link = dir() / "csi/link";
  fs::create_directory_symlink(dir() / "outside/pods", link);
  PublishWhile([&] { return Exchange(pods, link); }, pods + "/empty", [&] { ExpectNothingMountedOutside(); });
  if (fs::is_symlink(pods)) Exchange(pods, link);
  EXPECT_OK(driver().Unpublish(id_, pods + "/empty"));
  ExpectOutsideIsAsItWas();
}

// A bind of another directory of the host would show files of the host.
TEST_F(Swap, StagingPathAndAForeignDirectory) {
  const std::string inside = dir() / "csi/st", outside = dir() / "outside/st", target = dir() / "csi/pods/target";
  ASSERT_EQ(::mount("tmpfs", (outside + "/" + id_).c_str(), "tmpfs", 0, "size=64k"), 0);
  std::ofstream(outside + "/" + id_ + "/secret") << "secret";
  PublishWhile([&] { return Exchange(inside, outside); }, target,
               [&] { EXPECT_FALSE(fs::exists(target + "/secret")); });
  if (fs::exists(staging_ + "/secret")) Exchange(inside, outside);
  ASSERT_EQ(::umount((outside + "/" + id_).c_str()), 0);
}

}  // namespace
}  // namespace mooring::testing

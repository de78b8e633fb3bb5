// Paths with characters that a program between the plugin and the kernel could take for something else, and mount roots
// that lead through symbolic links.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class OddPath : public RpcTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {}  // each test starts a plugin of its own
};

TEST_P(OddPath, IsUsedForStateSocketPoolAndMounts) {
  const std::string base = dir() / GetParam();
  fs::create_directories(base + "/staging");
  PluginProcess own(
      {.socket = base + "/csi.sock",
       .state_dir = base + "/state",
       .log_file = dir() / "odd.log",
       .flags = {"--node-id", kNode, "--mount-root", base, "--metrics-listen", "unix:" + base + "/metrics.sock"}});
  ASSERT_TRUE(own.Start());
  Driver driver(base + "/csi.sock");
  const auto made = driver.Create("v");
  ASSERT_OK(made);
  const std::string id = made->volume().volume_id(), staging = base + "/staging", target = base + "/target";
  ASSERT_OK(driver.Stage(id, staging));
  ASSERT_OK(driver.Publish(id, staging, target));
  EXPECT_EQ(TryWrite(target + "/file", "data"), 0);
  EXPECT_OK(driver.Stats(id, target));
  own.Kill();
  ASSERT_TRUE(own.Start());
  driver.Connect();
  EXPECT_OK(driver.Publish(id, staging, target)) << "the mount is known again";
  EXPECT_EQ(ReadFile(target + "/file"), "data");
  EXPECT_OK(driver.Unpublish(id, target));
  EXPECT_OK(driver.Unstage(id, staging));
  EXPECT_OK(driver.Delete(id));
  driver.Disconnect();
  EXPECT_EQ(own.Terminate(), 0) << own.Log();
}

INSTANTIATE_TEST_SUITE_P(Names, OddPath,
                         ::testing::Values("a b", "100%25", "back\\slash", "\xC3\xA4\xE2\x82\xAC", "it's \"x\"",
                                           "-dash", "a:b", "(deleted)", "#hash", "$HOME", "*"));

class MountRoots : public RpcTest {
 protected:
  void SetUp() override {
    MountTmpfs("/srv", "size=64m,mode=755");  // only root may write there, unlike in /tmp
    fs::create_directories("/srv/real/staging");
    fs::create_directory_symlink("/srv/real", "/srv/link");
  }
  PluginRun StartWith(const std::string& root) {
    return RunPlugin({.socket = dir() / "ended.sock",
                      .state_dir = state_dir(),
                      .log_file = dir() / "ended.log",
                      .flags = {"--node-id", kNode, "--mount-root", root}});
  }
};

TEST_F(MountRoots, PathsThroughALinkAndRealPathsAreTheSame) {
  AddFlags({"--mount-root", "/srv/link"});
  Start();
  EXPECT_EQ(CountInLog("leads through a symbolic link"), 1);
  const std::string id = Created();
  ASSERT_OK(driver().Stage(id, "/srv/link/staging"));
  EXPECT_OK(driver().Stage(id, "/srv/real/staging"));
  ASSERT_OK(driver().Publish(id, "/srv/real/staging", "/srv/link/target"));
  EXPECT_OK(driver().Publish(id, "/srv/link/staging", "/srv/real/target"));
  EXPECT_EQ(TryWrite("/srv/real/target/file", "data"), 0);
  EXPECT_OK(driver().Stats(id, "/srv/link/target"));
  EXPECT_OK(driver().Unpublish(id, "/srv/link/target"));
  EXPECT_FALSE(fs::exists("/srv/real/target"));
  EXPECT_OK(driver().Unstage(id, "/srv/link/staging"));
}

TEST_F(MountRoots, ALinkAboveAMissingRootIsFollowedToo) {
  AddFlags({"--mount-root", "/srv/link/later"});
  Start();
  EXPECT_EQ(CountInLog("a mount root does not exist yet"), 1);
  const std::string id = Created();
  fs::create_directories("/srv/real/later/staging");
  EXPECT_OK(driver().Stage(id, "/srv/link/later/staging"));
  EXPECT_OK(driver().Unstage(id, "/srv/link/later/staging"));
}

TEST_F(MountRoots, ThatCanHoldNoTargetAreRefusedAtTheStart) {
  std::ofstream("/srv/file") << "x";
  const std::pair<std::string, const char*> cases[] = {
      {"/srv/file", "Not a directory"},
      {"/usr/lib", "directory of the system '/usr'"},
      {state_dir() + "/mounts", "the state directory"},
  };
  for (const auto& [root, why] : cases) {
    const auto [status, log] = StartWith(root);
    EXPECT_EQ(status, 1) << root;
    EXPECT_THAT(log, AllOf(HasSubstr("--mount-root '" + root), HasSubstr(why)));
  }
  fs::create_directories(dir() / "real");
  fs::create_directory_symlink(dir() / "real", dir() / "link");
  EXPECT_THAT(StartWith(dir() / "link").log, HasSubstr("where others than root may write"));
}

}  // namespace
}  // namespace mooring::testing

// The confined plugin registers itself with kubelet (K1, K2, K26). The life of its registration socket.
#include <sys/syscall.h>

#include "tests/fakes/fake_plugin_manager.h"
#include "tests/rpc/support/injection.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class KubeletRegistration : public RpcTest {
 protected:
  void SetUp() override {
    AddFlags({"--kubelet-registration-dir", registry_});
    kubelet_.Start();
    Start();
    ASSERT_TRUE(AwaitRegistered());
  }
  bool AwaitRegistered() {
    return Eventually([this] { return kubelet_.Find("mooring.csi").has_value(); }, std::chrono::seconds(10));
  }
  std::vector<std::string> Registry() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(registry_)) names.push_back(entry.path().filename());
    return names;
  }
  void Stop() {
    StopPlugin();
    EXPECT_TRUE(Eventually([this] { return !kubelet_.Find("mooring.csi"); })) << "kubelet has not removed it";
  }

  // The number of calls of a method, in the plugin's log after the offset `from`.
  int Calls(const std::string& method, std::size_t from) { return CountInLog("call method=" + method + " ", from); }

  // Starts a second plugin, which must end with status 1. Returns its log.
  std::string Refusal(const std::string& registry) {
    const auto [status, log] = RunPlugin({.socket = dir() / "another.sock",
                                          .state_dir = dir() / "state2",
                                          .log_file = dir() / "another.log",
                                          .flags = {"--kubelet-registration-dir", registry}});
    EXPECT_EQ(status, 1);
    return log;
  }

  const std::string registry_ = MakeDirectories("kubelet/plugins_registry");
  FakePluginManager kubelet_{registry_};
};

TEST_F(KubeletRegistration, K1_RegistrationAsksOnlyNodeGetInfo) {
  Stop();
  const std::size_t from = plugin().Log().size();
  plugin().Launch();
  ASSERT_TRUE(AwaitRegistered());
  const auto known = *kubelet_.Find("mooring.csi");
  EXPECT_EQ(known.endpoint, dir() / "csi.sock");
  EXPECT_EQ(known.node_id, kNode);
  EXPECT_THAT(known.topology, ElementsAre(Pair("topology.mooring.csi/node", kNode)));
  EXPECT_TRUE(Eventually([&] { return Calls("NodeGetInfo", from) == 1; }));
  for (const char* method : {"Probe", "GetPluginInfo", "GetPluginCapabilities"}) EXPECT_EQ(Calls(method, from), 0);
  driver().Connect();
}

// The socket has another path on the host than in the container of the plugin, and does not exist there yet.
TEST_F(KubeletRegistration, K2_FailedRegistrationIsLoggedAndRepeated) {
  Stop();
  AddFlags({"--kubelet-endpoint", dir() / "host/csi.sock"});
  Start();
  EXPECT_TRUE(Eventually([&] { return plugin().Log().find("kubelet did not register") != std::string::npos; }));
  EXPECT_THAT(plugin().Log(), AllOf(HasSubstr(dir() / "host/csi.sock"), HasSubstr("--kubelet-endpoint")));
  EXPECT_FALSE(kubelet_.Find("mooring.csi"));
  fs::create_directory_symlink(dir().path(), dir() / "host");
  ASSERT_TRUE(AwaitRegistered()) << "the plugin tries again after a second, and then after two";
  EXPECT_EQ(kubelet_.Find("mooring.csi")->endpoint, dir() / "host/csi.sock");
  fs::remove(dir() / "host");
}

TEST_F(KubeletRegistration, K26_StartedKubeletRegistersThePluginAgain) {
  kubelet_.Stop();
  const std::size_t from = plugin().Log().size();
  kubelet_.Start();
  ASSERT_TRUE(AwaitRegistered());
  EXPECT_TRUE(Eventually([&] { return Calls("NodeGetInfo", from) == 1; }));
}

TEST_F(KubeletRegistration, StopRemovesTheSocketAndTheRegistration) {
  EXPECT_THAT(Registry(), ElementsAre("mooring.csi-reg.sock"));
  Stop();
  EXPECT_THAT(Registry(), IsEmpty());
  Start();
  EXPECT_TRUE(AwaitRegistered());
}

// The driver stays registered without a gap. Pods that start meanwhile wait for the plugin.
TEST_F(KubeletRegistration, NextPluginReplacesTheSocketOfAKilledPlugin) {
  driver().Disconnect();
  plugin().Kill();
  EXPECT_THAT(Registry(), ElementsAre("mooring.csi-reg.sock"));
  EXPECT_TRUE(kubelet_.Find("mooring.csi"));
  Start();
  EXPECT_TRUE(Eventually([&] { return kubelet_.History().size() == 3; }));
  EXPECT_THAT(kubelet_.History(),
              ElementsAre("registered mooring.csi", "forgot mooring.csi", "registered mooring.csi"));
  EXPECT_THAT(Registry(), ElementsAre("mooring.csi-reg.sock"));
}

TEST_F(KubeletRegistration, RegistrationWaitsUntilThePluginIsReady) {
  UniqueFd lock = RestartHeldUp();
  EXPECT_FALSE(IsReady());
  EXPECT_THAT(Registry(), IsEmpty());
  lock = UniqueFd();
  ASSERT_TRUE(AwaitRegistered());
  EXPECT_TRUE(IsReady());
}

TEST_F(KubeletRegistration, AnotherRegistrarStopsTheStart) {
  EXPECT_THAT(Refusal(registry_), AllOf(HasSubstr("mooring.csi-reg.sock"), HasSubstr("served by another process"),
                                        HasSubstr("another registrar serves this driver")));
  EXPECT_TRUE(kubelet_.Find("mooring.csi"));
}

// The umask of the parent process does not matter.
TEST_F(KubeletRegistration, OnlyItsOwnerCanConnect) {
  Stop();
  const mode_t before = ::umask(0);
  Start();
  ::umask(before);
  ASSERT_TRUE(AwaitRegistered());
  struct stat status = {};
  ASSERT_EQ(::stat((registry_ + "/mooring.csi-reg.sock").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0022U, 0U) << "write access allows a connection";
}

// Landlock allows the old directory only, not the new one with the same name.
TEST_F(KubeletRegistration, ReplacedDirectoryIsReported) {
  if (!HasLandlock()) GTEST_SKIP() << "this kernel has no Landlock";
  Stop();
  const TempDir elsewhere;  // outside of the directory of --endpoint, where the plugin may make sockets
  const std::string registry = elsewhere / "plugins_registry";
  fs::create_directory(registry);
  auto& flags = plugin().options().flags;
  std::replace(flags.begin(), flags.end(), registry_, registry);
  Start();
  ASSERT_TRUE(Eventually([&] { return fs::exists(registry + "/mooring.csi-reg.sock"); }));
  fs::rename(registry, elsewhere / "before");
  fs::create_directory(registry);
  // The plugin checks the directory every 10 s.
  EXPECT_TRUE(Eventually([&] { return plugin().Log().find("restart the plugin") != std::string::npos; },
                         std::chrono::seconds(20)))
      << plugin().Log();
}

TEST_F(KubeletRegistration, ReadOnlyDirectoryIsReported) {
  const std::string registry = MakeDirectories("other/plugins_registry");
  MountTmpfs(registry);
  ASSERT_EQ(Shell("mount -o remount,ro " + registry), 0);
  EXPECT_THAT(Refusal(registry), AllOf(HasSubstr("make a socket for kubelet in '" + registry +
                                                 "': Read-only file system: bind it writable"),
                                       Not(HasSubstr("let that user"))));
}

TEST_F(KubeletRegistration, ConfinedPluginMakesOnlySocketsInTheRegistry) {
  if (!Injection::Possible()) GTEST_SKIP() << "system calls are injected on x86-64 alone";
  if (!HasLandlock()) GTEST_SKIP() << "this kernel has no Landlock";
  std::ofstream(registry_ + "/file") << "kept";
  constexpr auto kHere = static_cast<std::uint64_t>(AT_FDCWD);
  {
    Injection thread(plugin().pid(), plugin().pid());
    ASSERT_TRUE(thread.ok());
    const std::string fresh = registry_ + "/new", file = registry_ + "/file";
    EXPECT_EQ(thread.Call(SYS_openat, {kHere, fresh, O_WRONLY | O_CREAT, 0600, 0, 0}), -EACCES);
    EXPECT_EQ(thread.Call(SYS_mkdirat, {kHere, fresh, 0700, 0, 0, 0}), -EACCES);
    EXPECT_EQ(thread.Call(SYS_openat, {kHere, file, O_RDONLY, 0, 0, 0}), -EACCES);
  }
  EXPECT_EQ(ReadFile(registry_ + "/file"), "kept");
  fs::remove(registry_ + "/file");
}

}  // namespace
}  // namespace mooring::testing

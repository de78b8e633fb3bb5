// The socket. A stale one is replaced, but neither a socket that is served nor another file. Probe before the plugin is
// ready.
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class Socket : public RpcTest {
 protected:
  // A second plugin that must end with status 1. Returns its log.
  std::string Refusal(const std::string& socket) {
    const auto [status, log] =
        RunPlugin({.socket = socket, .state_dir = dir() / "state2", .log_file = dir() / "another.log"});
    EXPECT_EQ(status, 1) << socket;
    fs::remove_all(dir() / "state2");
    return log;
  }
};

TEST_F(Socket, ServedSocketIsNotReplaced) {
  EXPECT_THAT(Refusal(dir() / "csi.sock"), HasSubstr("served by another process"));
  EXPECT_OK(Probe());
}

TEST_F(Socket, OnlyOneOfManyPluginsTakesAStaleSocket) {
  plugin().Kill();
  constexpr int kRounds = 3, kStarters = 12;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::unique_ptr<PluginProcess>> starters;
    for (int i = 0; i < kStarters; ++i) {
      starters.push_back(std::make_unique<PluginProcess>(PluginProcess::Options{
          .socket = dir() / "csi.sock",
          .state_dir = dir() / ("state-" + std::to_string(i)),
          .log_file = dir() / "starters.log",
          .flags = {"--node-id", "node-" + std::to_string(i)},
      }));
    }
    for (const auto& starter : starters) starter->Launch();
    const auto serving = [&] {
      return std::count_if(starters.begin(), starters.end(), [](const auto& starter) { return starter->running(); });
    };
    EXPECT_TRUE(Eventually([&] { return serving() == 1; }, std::chrono::seconds(10))) << serving() << " serve";
    EXPECT_OK(Probe()) << "round " << round;
    for (const auto& starter : starters) starter->Kill();
  }
  Start();
}

TEST_F(Socket, BusySocketIsNotReplaced) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  (dir() / "busy.sock").copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd busy(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(busy.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(busy.get(), 0), 0);
  const UniqueFd first(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(::connect(first.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  Refusal(dir() / "busy.sock");
  EXPECT_TRUE(fs::is_socket(dir() / "busy.sock"));
}

TEST_F(Socket, OtherFilesAreNotReplaced) {
  std::ofstream(dir() / "file") << "data";
  fs::create_directory(dir() / "directory");
  fs::create_symlink(dir() / "csi.sock", dir() / "link");
  for (const char* name : {"file", "directory", "link"}) {
    EXPECT_THAT(Refusal(dir() / name), HasSubstr("is not a socket")) << name;
  }
  EXPECT_EQ(ReadFile(dir() / "file"), "data");
  EXPECT_TRUE(fs::is_directory(dir() / "directory"));
  EXPECT_TRUE(fs::is_symlink(dir() / "link"));
}

TEST_F(Socket, MissingDirectoryIsNamed) {
  EXPECT_THAT(Refusal(dir() / "missing/csi.sock"), HasSubstr(dir() / "missing"));
}

TEST_F(Socket, StateDirectoryKeepsItsModeAndMustNotBeWritableForOthers) {
  const std::string shared = MakeDirectories("shared");
  const auto start_and_stop = [&] {
    PluginProcess another({.socket = dir() / "another.sock", .state_dir = shared, .log_file = dir() / "another.log"});
    another.Launch();
    Eventually([&] { return !another.running() || fs::exists(dir() / "another.sock"); });
    another.Terminate();
    return another.Log();
  };
  ASSERT_EQ(::chmod(shared.c_str(), 0755), 0);
  EXPECT_THAT(start_and_stop(), HasSubstr("serving"));
  EXPECT_EQ(StatOf(shared).st_mode & 07777U, 0755U);
  ASSERT_EQ(::chmod(shared.c_str(), 01777), 0);
  EXPECT_THAT(start_and_stop(), HasSubstr("others may write in the state directory"));
  fs::remove_all(shared);
  MakeDirectories("shared");
  ASSERT_EQ(::chmod(shared.c_str(), 01777), 0);
  fs::remove(dir() / "another.log");
  EXPECT_THAT(start_and_stop(), HasSubstr("serving")) << "the plugin takes an empty directory";
  EXPECT_EQ(StatOf(shared).st_mode & 07777U, 0700U);
  fs::remove_all(shared);
  fs::remove(dir() / "another.log");
}

TEST_F(Socket, SocketIsTheOnlyFileAndOthersCannotUseIt) {
  const std::string directory = MakeDirectories("csi");
  StopPlugin();
  plugin().options().socket = directory + "/csi.sock";
  ASSERT_TRUE(plugin().Start());
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename());
  EXPECT_THAT(names, UnorderedElementsAre("csi.sock"));
  EXPECT_EQ(StatOf(directory + "/csi.sock").st_mode & 0007U, 0U);
  EXPECT_EQ(plugin().Terminate(), 0);
  EXPECT_TRUE(fs::is_empty(directory));
  plugin().options().socket = dir() / "csi.sock";
  Start();
}

// Orchestrators use all of these forms, some in the environment.
TEST_F(Socket, AllFormsOfTheEndpointWork) {
  StopPlugin();
  plugin().options().socket.clear();
  const std::vector<std::string> flags = plugin().options().flags;
  for (const std::string& form : {"unix://" + (dir() / "csi.sock"), "unix:" + (dir() / "csi.sock"), dir() / "csi.sock",
                                  "unix:/" + (dir() / "csi.sock")}) {
    SCOPED_TRACE(form);
    for (const bool in_environment : {true, false}) {
      plugin().options().flags = flags;
      plugin().options().environment.clear();
      if (in_environment) plugin().options().environment["CSI_ENDPOINT"] = form;
      if (!in_environment) AddFlags({"--endpoint", form});
      plugin().Launch();
      EXPECT_TRUE(Eventually([&] { return Probe().status.ok(); }));
      StopPlugin();
    }
  }
  plugin().options().flags = flags;
  plugin().options().environment.clear();
  plugin().options().socket = dir() / "csi.sock";
  Start();
}

// gRPC decodes "%41" in the name of a socket to "A".
TEST_F(Socket, PathWithPercentSignIsUsedUnchanged) {
  const std::string odd = dir() / "a%41 b?#.sock";
  PluginProcess another({.socket = odd, .state_dir = dir() / "state2", .log_file = dir() / "log"});
  ASSERT_TRUE(another.Start());
  EXPECT_TRUE(fs::is_socket(odd));
  EXPECT_EQ(another.Terminate(), 0);
  EXPECT_FALSE(fs::exists(odd));
}

TEST_F(Socket, CallsWaitUntilThePluginHasReconciled) {
  const std::string id = driver().Create("other")->volume().volume_id();
  UniqueFd lock = RestartHeldUp();
  const auto probe = driver().Send(ProbeRequest());
  EXPECT_TRUE(probe->has_ready());
  EXPECT_FALSE(probe->ready().value());
  EXPECT_OK(driver().Send(GetPluginInfoRequest()));
  EXPECT_OK(driver().Send(csi::v1::GetPluginCapabilitiesRequest()));
  EXPECT_OK(driver().Send(NodeGetInfoRequest()));
  EXPECT_OK(driver().Send(NodeGetCapabilitiesRequest()));
  driver().set_deadline(milliseconds(600));
  EXPECT_THAT(driver().Stage(id, Staging(id)), FailsWith(Code::kUnavailable, "starting"));
  driver().set_deadline(std::chrono::seconds(30));
  auto stage = std::async(std::launch::async, [&] { return driver().Stage(id, Staging(id)).status; });
  EXPECT_EQ(stage.wait_for(milliseconds(200)), std::future_status::timeout);
  lock = UniqueFd();
  EXPECT_OK(stage.get());
  EXPECT_TRUE(IsReady());
  EXPECT_OK(driver().Unstage(id, Staging(id)));
}

TEST_F(Socket, SigtermEndsAPluginThatReconciles) {
  const std::string id = driver().Create("other")->volume().volume_id();
  const std::string staging = Staging(id);
  UniqueFd lock = RestartHeldUp();
  auto stage = std::async(std::launch::async, [&] { return driver().Stage(id, staging).status; });
  EXPECT_EQ(stage.wait_for(milliseconds(200)), std::future_status::timeout);
  ASSERT_EQ(::kill(plugin().pid(), SIGTERM), 0);
  EXPECT_THAT(stage.get(), FailsWith(Code::kUnavailable, "stopping"));
  lock = UniqueFd();
  EXPECT_EQ(plugin().Wait(std::chrono::seconds(2)), 0);
  Start();
}

}  // namespace
}  // namespace mooring::testing

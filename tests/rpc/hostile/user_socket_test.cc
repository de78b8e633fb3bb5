// The socket of a plugin with --user, and its directory.
#include <grp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/rpc/hostile/user_test.h"

namespace mooring::testing {
namespace {

// Whether root without capabilities can connect. Some orchestrators run so.
bool BareRootConnects(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setgroups(0, nullptr);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    ::syscall(SYS_capset, std::array<unsigned, 2>{0x20080522, 0}.data(), std::array<unsigned, 6>{}.data());
    ::_exit(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0;
}

class UserSocket : public UserTest {
 protected:
  void SetUp() override {
    UserTest::SetUp();
    plugin().options().socket = csi_ + "/csi.sock";
  }
  bool Serves() {
    Driver client(csi_ + "/csi.sock");
    return client.Send(ProbeRequest()).status.ok();
  }
  void EndAndStart(const std::string& user, int signal) {
    if (plugin().running()) plugin().End(signal);
    GiveDirectoriesTo(user);
    WorkAs(user);
    ASSERT_TRUE(plugin().Start());
  }
  void TearDown() override {
    if (plugin().running()) {
      EXPECT_EQ(plugin().Terminate(), 0);
    }
    RpcTest::TearDown();
  }
  const std::string csi_ = MakeDirectories("socket");
};

TEST_F(UserSocket, EmptyDirectoryOfRootIsGivenToTheUser) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    for (const char* user : {kText, kText, "", kText}) {
      SCOPED_TRACE(user);
      EndAndStart(user, signal);
      EXPECT_TRUE(Serves());
      EXPECT_TRUE(BareRootConnects(csi_ + "/csi.sock"));
      const struct stat socket = StatOf(csi_ + "/csi.sock"), directory = StatOf(csi_);
      EXPECT_EQ(socket.st_uid, *user == '\0' ? 0 : kUser);
      EXPECT_EQ(socket.st_gid, 0U);
      EXPECT_EQ(socket.st_mode & 0777U, 0660U);
      EXPECT_EQ(directory.st_uid, kUser);
      EXPECT_EQ(directory.st_gid, 0U);
      EXPECT_EQ(directory.st_mode & 07777U, 02775U);
    }
  }
  EXPECT_EQ(plugin().Terminate(), 0);
  EXPECT_TRUE(fs::is_empty(csi_));
}

// Members of another group must not be able to replace the socket.
TEST_F(UserSocket, DirectoryOfAnotherGroupKeepsItsGroup) {
  struct Case {
    gid_t group;
    mode_t mode, given;
  };
  for (const auto& [group, mode, given] :
       {Case{4444, 0750, 02750}, Case{4444, 0770, 02770}, Case{0, 0775, 02775}, Case{0, 0755, 02775}}) {
    SCOPED_TRACE(std::to_string(mode));
    if (plugin().running()) {
      EXPECT_EQ(plugin().Terminate(), 0);
    }
    ASSERT_EQ(::chown(csi_.c_str(), 0, group), 0);
    ASSERT_EQ(::chmod(csi_.c_str(), mode), 0);
    EndAndStart(kText, SIGTERM);
    EXPECT_TRUE(Serves());
    EXPECT_EQ(StatOf(csi_).st_mode & 07777U, given);
    EXPECT_EQ(StatOf(csi_).st_gid, group);
  }
}

TEST_F(UserSocket, WritableDirectoryStaysUnchanged) {
  ASSERT_EQ(::chown(csi_.c_str(), kUser, kGroup), 0);
  for (const int signal : {SIGTERM, SIGKILL}) {
    EndAndStart(kText, signal);
    EXPECT_TRUE(Serves());
    EXPECT_EQ(StatOf(csi_).st_mode & 07777U, 0755U);
    EXPECT_EQ(StatOf(csi_).st_gid, kGroup);
  }
}

TEST_F(UserSocket, SocketIsNotMadeBesideOtherFiles) {
  std::ofstream(csi_ + "/of-another") << "";
  WorkAs(kText);
  plugin().Launch();
  EXPECT_EQ(plugin().Wait(), 1);
  EXPECT_THAT(plugin().Log(), HasSubstr("user 4242:4240 may not make a socket in '" + csi_ + "', which is root's"));
  EXPECT_EQ(StatOf(csi_).st_uid, 0U);
}

TEST_F(UserSocket, KubeletRegistryOfRootIsReported) {
  const std::string registry = MakeDirectories("plugins_registry");
  WorkAs(kText);
  AddFlags({"--kubelet-registration-dir", registry});
  plugin().Launch();
  EXPECT_EQ(plugin().Wait(), 1);
  EXPECT_THAT(plugin().Log(),
              HasSubstr("register with kubelet in '" + registry + "': Permission denied: user 4242:4240"));
  ASSERT_EQ(::chown(registry.c_str(), 0, kGroup), 0);
  ASSERT_EQ(::chmod(registry.c_str(), 0770), 0);
  ASSERT_TRUE(plugin().Start());
  EXPECT_TRUE(Eventually([&] { return fs::is_socket(registry + "/mooring.csi-reg.sock"); }));
}

TEST_F(UserSocket, MissingKubeletRegistryIsReported) {
  WorkAs(kText);
  const std::string missing = dir() / "missing/plugins_registry";
  AddFlags({"--kubelet-registration-dir", missing});
  plugin().Launch();
  EXPECT_EQ(plugin().Wait(), 1);
  EXPECT_THAT(plugin().Log(), AllOf(HasSubstr("register with kubelet in '" + missing + "': No such file or directory"),
                                    Not(HasSubstr("without --user"))));
}

TEST_F(UserSocket, SocketServedByRootIsNotTaken) {
  EndAndStart("", SIGTERM);
  const auto [status, log] = RunPlugin({.socket = csi_ + "/csi.sock",
                                        .state_dir = dir() / "state2",
                                        .log_file = dir() / "another.log",
                                        .flags = {"--user", kText}});
  EXPECT_EQ(status, 1);
  EXPECT_THAT(log, HasSubstr("served by another process"));
  EXPECT_TRUE(Serves());
  fs::remove_all(dir() / "state2");
}

TEST_F(UserSocket, StateDirectoryKeepsItsOwnerWhileAPluginRuns) {
  for (const auto& [first, second] : {std::pair("", kText), std::pair(kText, ""), std::pair(kText, "4343:4343")}) {
    SCOPED_TRACE(std::string(first) + " then " + second);
    EndAndStart(first, SIGTERM);
    for (const std::string& socket : {csi_ + "/csi.sock", MakeDirectories("socket2") + "/csi.sock"}) {
      PluginProcess another(plugin().options());
      another.options().socket = socket;
      another.options().log_file = dir() / "another.log";
      WorkAs(second);
      another.options().flags = plugin().options().flags;
      another.Launch();
      const std::string why = socket.starts_with(csi_ + "/") ? "served by another process" : "belongs to user";
      EXPECT_TRUE(Eventually([&] { return another.Log().find(why) != std::string::npos; }, kLong)) << another.Log();
      EXPECT_EQ(StatOf(state_dir()).st_uid, *first == '\0' ? 0 : kUser);
      EXPECT_EQ(StatOf(state_dir() + "/catalog.db").st_uid, *first == '\0' ? 0 : kUser);
      EXPECT_TRUE(Serves());
      another.Kill();
      fs::remove(dir() / "another.log");
    }
    Driver client(csi_ + "/csi.sock");
    const auto made = client.Create("afterwards");
    ASSERT_OK(made);
    EXPECT_OK(client.Delete(made->volume().volume_id()));
  }
}

}  // namespace
}  // namespace mooring::testing

// The socket of the API: its mode and group, systemd, and the end of calls and streams.
#include <grp.h>
#include <httplib.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file/unique_fd.h"
#include "tests/manager/system/manager_test.h"

namespace mooring::testing {
namespace {

constexpr uid_t kSomebody = 12345;

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

// The errno of connect(2) by a process with this user and group; 0: connected.
int ConnectAs(const std::string& path, uid_t user, gid_t group) {
  const sockaddr_un address = AddressOf(path);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setresgid(group, group, group) != 0 || ::setresuid(user, user, user) != 0) {
      ::_exit(255);
    }
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::_exit(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WEXITSTATUS(status);
}

class ApiSocket : public ManagerTest {
 protected:
  void SetUp() override { ASSERT_EQ(::chmod(dir().path().c_str(), 0755), 0); }  // so that others reach the socket
  mode_t ModeOfSocket() {
    struct stat status = {};
    EXPECT_EQ(::stat(process().options().socket.c_str(), &status), 0);
    return status.st_mode & 07777U;
  }
  UniqueFd Bound(const std::string& path, int type) {
    UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    const sockaddr_un address = AddressOf(path);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
};

TEST_F(ApiSocket, OnlyRootMayUseSocketByDefault) {
  Start();
  EXPECT_EQ(ModeOfSocket(), 0600U);
  EXPECT_EQ(ConnectAs(process().options().socket, 0, 0), 0);
  EXPECT_EQ(ConnectAs(process().options().socket, kSomebody, kSomebody), EACCES);
}

TEST_F(ApiSocket, GroupMayUseSocket) {
  const struct group* const group = ::getgrnam("daemon");
  if (group == nullptr) GTEST_SKIP() << "there is no group daemon here";
  const gid_t gid = group->gr_gid;
  process().options().flags = {"--group", "daemon"};
  Start();
  EXPECT_EQ(ModeOfSocket(), 0660U);
  EXPECT_EQ(ConnectAs(process().options().socket, kSomebody, gid), 0);
  EXPECT_EQ(ConnectAs(process().options().socket, kSomebody, kSomebody), EACCES);
}

TEST_F(ApiSocket, UnknownGroupIsAnError) {
  process().options().flags = {"--group", "no-such-group"};
  process().Launch();
  EXPECT_EQ(process().Wait(), 1);
  EXPECT_THAT(process().Log(), HasSubstr("groupadd"));
  process().options().flags.clear();
  Start();
}

TEST_F(ApiSocket, ReplacesStaleSocketOnly) {
  Start();
  process().End(SIGKILL);
  EXPECT_TRUE(fs::is_socket(process().options().socket));
  Start();
  ManagerProcess::Options options = process().options();
  options.log_file = dir() / "second.log";
  ManagerProcess second(options);
  second.Launch();
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.Log(), HasSubstr("manager")) << "another manager has the state";
  options.state_dir = dir() / "state2";
  options.flags = {"--root", dir() / "state2/mounts"};
  ManagerProcess third(options);
  third.Launch();
  EXPECT_EQ(third.Wait(), 1);
  EXPECT_THAT(third.Log(), HasSubstr("served by another process"));
  EXPECT_OK(client().Volumes());
  mooring::testing::Run("umount " + (dir() / "state2/mounts"));
}

TEST_F(ApiSocket, SocketIsRemovedAtStop) {
  Start();
  EXPECT_EQ(process().End(SIGTERM), 0);
  EXPECT_FALSE(fs::exists(process().options().socket));
}

TEST_F(ApiSocket, TakesSocketFromSystemdAndNotifies) {
  const std::string passed = dir() / "passed.sock";
  const UniqueFd listening = Bound(passed, SOCK_STREAM);
  ASSERT_EQ(::listen(listening.get(), 16), 0);
  const UniqueFd notify = Bound(dir() / "notify.sock", SOCK_DGRAM | SOCK_NONBLOCK);
  const auto told = [&](const std::string& word) {
    char text[256] = {};
    return Eventually([&] { return ::recv(notify.get(), text, sizeof(text) - 1, 0) > 0; }) && word == text;
  };
  process().options().inherited = {listening.get()};
  process().options().environment = {"LISTEN_FDS=1", "NOTIFY_SOCKET=" + (dir() / "notify.sock")};
  process().options().wrapper = {"/bin/sh", "-c", "LISTEN_PID=$$ exec \"$@\"", "sh"};
  process().Launch();
  EXPECT_TRUE(told("READY=1"));
  ManagerClient client(passed);
  EXPECT_OK(client.Volumes());
  EXPECT_FALSE(fs::exists(process().options().socket));
  EXPECT_EQ(process().End(SIGTERM), 0);
  EXPECT_TRUE(told("STOPPING=1"));
  EXPECT_TRUE(fs::is_socket(passed)) << "systemd's own";
  fs::remove(passed);
  process().options().inherited.clear();
  process().options().environment.clear();
  process().options().wrapper.clear();
}

TEST_F(ApiSocket, ServesDockerSocketForRootOnly) {
  const std::string socket = dir() / "plugins/mooring.sock";
  process().options().flags = {"--docker-socket", socket};
  Start();
  struct stat status = {};
  ASSERT_EQ(::stat(socket.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  httplib::Client docker(socket);
  docker.set_address_family(AF_UNIX);
  const auto answer = docker.Post("/Plugin.Activate", "{}", "");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, R"({"Implements":["VolumeDriver"]})");
  EXPECT_EQ(process().End(SIGTERM), 0);
  Start();
  EXPECT_TRUE(docker.Post("/VolumeDriver.List", "{}", "")) << "the next manager takes its place";
}

TEST_F(ApiSocket, StopEndsStreams) {
  Start();
  grpc::ClientContext events_context, watch_context;
  v1::StreamEventsRequest events;
  events.set_follow(true);
  const auto followed = client().stub().StreamEvents(&events_context, events);
  const auto watched = client().stub().Watch(&watch_context, v1::WatchRequest());
  v1::WatchReply standing;
  ASSERT_TRUE(watched->Read(&standing));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(process().End(SIGTERM), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));
}

TEST_F(ApiSocket, WatchShowsChangesWithoutSecrets) {
  Start();
  RunPlugin(kStrictPlugin);
  grpc::ClientContext context;
  const auto watch = client().stub().Watch(&context, v1::WatchRequest());
  v1::WatchReply reply;
  ASSERT_TRUE(watch->Read(&reply));
  v1::CreateVolumeRequest request;
  *request.mutable_volume() = VolumeOf("db", kStrictPlugin);
  request.mutable_volume()->mutable_mount_options()->add_flags("noatime");
  (*request.mutable_secrets())["token"] = "open sesame";
  ASSERT_OK(client().Ask(&v1::Manager::Stub::CreateVolume, request));
  ASSERT_OK(client().Delete("db"));
  bool created = false, deleted = false;
  std::int64_t last = reply.revision();
  while (!deleted && watch->Read(&reply)) {
    EXPECT_GT(reply.revision(), last);
    last = reply.revision();
    EXPECT_THAT(reply.DebugString(), Not(HasSubstr("sesame")));
    EXPECT_THAT(reply.DebugString(), Not(HasSubstr("noatime")));
    for (const auto& change : reply.changes()) {
      EXPECT_EQ(change.volume().key().id(), "db");
      created |= !change.deleted();
      deleted |= change.deleted();
    }
  }
  EXPECT_TRUE(created && deleted);
  context.TryCancel();
}

TEST_F(ApiSocket, StreamsEvents) {
  Start();
  grpc::ClientContext context;
  v1::StreamEventsRequest request;
  request.set_follow(true);
  request.set_from(1);
  const auto events = client().stub().StreamEvents(&context, request);
  RunPlugin(kStrictPlugin);
  v1::Event event;
  while (events->Read(&event) && event.kind() != "registered") {
  }
  EXPECT_EQ(event.plugin(), kStrictPlugin);
  context.TryCancel();
}

}  // namespace
}  // namespace mooring::testing

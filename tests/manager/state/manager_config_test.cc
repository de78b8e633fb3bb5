// Flags of mooring-manager, and the setup of its host before the start.
#include <sys/stat.h>

#include <cstdlib>
#include <initializer_list>

#include "manager/config.h"
#include "manager/host_setup.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

using testing::FakeKernel;
using testing::FakeMounter;

absl::StatusOr<Config> Parse(std::initializer_list<const char*> flags) {
  std::vector<const char*> arguments = {"mooring-manager"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return ParseConfig(static_cast<int>(arguments.size()), arguments.data());
}

TEST(ManagerConfig, HasTheDocumentedDefaults) {
  const auto config = Parse({});
  ASSERT_OK(config);
  EXPECT_EQ(config->socket_path, "/run/mooring/manager.sock");
  EXPECT_EQ(config->state_dir, "/var/lib/mooring-manager");
  EXPECT_EQ(config->root, "/var/lib/mooring-manager/mounts");
  EXPECT_EQ(config->runtime_dir, "/run/mooring/plugins");
  EXPECT_EQ(config->group, "");
  EXPECT_EQ(config->docker_socket, "");
}

TEST(ManagerConfig, RootFollowsTheStateDirectory) {
  EXPECT_EQ(Parse({"--state-dir", "/srv/state"})->root, "/srv/state/mounts");
  EXPECT_EQ(Parse({"--state-dir", "/srv/state", "--root", "/mnt/csi/"})->root, "/mnt/csi");
}

TEST(ManagerConfig, ReadsEnvironmentVariables) {
  ::setenv("MOORING_MANAGER_SOCKET", "unix:///run/other.sock", 1);
  EXPECT_EQ(Parse({})->socket_path, "/run/other.sock");
  EXPECT_EQ(Parse({"--socket", "/run/flag.sock"})->socket_path, "/run/flag.sock");
  ::unsetenv("MOORING_MANAGER_SOCKET");
}

TEST(ManagerConfig, ServesNoMetricsByDefault) {
  EXPECT_FALSE(Parse({})->metrics_listen.has_value());
  EXPECT_EQ(Parse({"--metrics-listen", "[::1]:9851"})->metrics_listen->ip, "::1");
  ::setenv("MOORING_MANAGER_METRICS_LISTEN", ":9851", 1);
  EXPECT_EQ(Parse({})->metrics_listen->port, 9851);
  ::unsetenv("MOORING_MANAGER_METRICS_LISTEN");
}

TEST(ManagerConfig, NamesTheInvalidFlag) {
  EXPECT_THAT(Parse({"--metrics-listen", "9851"}), FailsWith(Code::kInvalidArgument, "--metrics-listen"));
  EXPECT_THAT(Parse({"--socket", "relative.sock"}), FailsWith(Code::kInvalidArgument, "--socket"));
  EXPECT_THAT(Parse({"--root", "/a/../b"}), FailsWith(Code::kInvalidArgument, "--root"));
  EXPECT_THAT(Parse({"--host", std::string(256, 'x').c_str()}), FailsWith(Code::kInvalidArgument, "--host"));
  EXPECT_THAT(Parse({"--stop-timeout", "-1"}), FailsWith(Code::kInvalidArgument, "--stop-timeout"));
  EXPECT_THAT(Parse({"--log-level", "loud"}), FailsWith(Code::kInvalidArgument, "debug, info"));
  EXPECT_THAT(Parse({"--frobnicate"}), FailsWith(Code::kInvalidArgument, "--help"));
  EXPECT_THAT(Parse({"--help"}), FailsWith(Code::kCancelled, "--docker-socket"));
}

TEST(ManagerConfig, NamesWhatIsMistyped) {
  EXPECT_THAT(Parse({"--host", "a "}), FailsWith(Code::kInvalidArgument, "'a ' ends with a blank"));
  EXPECT_THAT(Parse({"--socket", "/run/m.sock", "--docker-socket", "/run/m.sock"}),
              FailsWith(Code::kInvalidArgument, "that is --socket"));
  EXPECT_THAT(Parse({"--socket", "/run/m.sock", "--metrics-listen", "unix:/run/m.sock"}),
              FailsWith(Code::kInvalidArgument, "another flag has that socket"));
  EXPECT_THAT(Parse({"--state-dir", "/srv/m/state", "--root", "/srv/m"}),
              FailsWith(Code::kInvalidArgument, "the state directory is, or lies, there"));
  for (const char* state : {"etcd://127.0.0.1:2379, 127.0.0.1:2380", "etcd://127.0.0.1:2379;127.0.0.1:2380",
                            "etcd://127.0.0.1:0", "etcd://127.0.0.1:65536", "etcd://::1:2379"}) {
    EXPECT_THAT(Parse({"--state", state}), FailsWith(Code::kInvalidArgument, "host:port")) << state;
  }
  EXPECT_OK(Parse({"--state", "etcd://127.0.0.1:2379,[::1]:2379,localhost:2379"}));
  ::setenv("MOORING_MANAGER_SOCKT", "x", 1);
  EXPECT_THAT(Parse({}), FailsWith(Code::kInvalidArgument, "is MOORING_MANAGER_SOCKET meant?"));
  ::unsetenv("MOORING_MANAGER_SOCKT");
}

TEST(ManagerConfig, ErrorsShowControlCharacters) {
  EXPECT_THAT(Parse({"--nothing\x1B[2J"}), FailsWith(Code::kInvalidArgument, R"(--nothing\x1b[2J)"));
  EXPECT_THAT(Parse({"--host", "a", "wrong\xFF"}), FailsWith(Code::kInvalidArgument, R"(wrong\xff)"));
}

TEST(HostSetup, MakesPrivateDirectories) {
  const TempDir dir;
  Config config;
  config.socket_path = dir / "run/manager.sock";
  config.state_dir = dir / "state";
  config.root = dir / "state/mounts";
  config.runtime_dir = dir / "run/plugins";
  const auto made = MakeDirectories(config);
  ASSERT_OK(made);
  for (const std::string& path : {made->state_dir, made->root, made->runtime_dir}) {
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all) << path;
  }
  EXPECT_NE(fs::status(dir / "run").permissions() & fs::perms::others_exec, fs::perms::none)
      << "users need the way to the socket";
  fs::permissions(config.state_dir, fs::perms::all);
  EXPECT_THAT(MakeDirectories(config), FailsWith(Code::kFailedPrecondition, "other users may write"));
}

TEST(HostSetup, FollowsLinksOnce) {
  const TempDir dir;
  fs::create_directory(dir / "real");
  fs::create_symlink(dir / "real", dir / "link");
  Config config;
  config.socket_path = dir / "manager.sock";
  config.state_dir = dir / "link/state";
  config.root = dir / "link/state/mounts";
  config.runtime_dir = dir / "link/run";
  EXPECT_EQ(MakeDirectories(config)->root, dir / "real/state/mounts");
}

TEST(HostSetup, KeepsTheRecordedHostName) {
  const TempDir dir;
  EXPECT_EQ(*KeepHostName(dir.path(), "host-1"), "host-1");
  EXPECT_EQ(*KeepHostName(dir.path(), ""), "host-1") << "also after a change of the host's name";
  EXPECT_THAT(KeepHostName(dir.path(), "host-2"), FailsWith(Code::kFailedPrecondition, "use --host host-1"));
}

TEST(HostSetup, KeepsAUniqueManagerId) {
  const TempDir one, other;
  const std::string id = *KeepManagerId(one.path());
  EXPECT_EQ(id.size(), 16U);
  EXPECT_EQ(*KeepManagerId(one.path()), id);
  EXPECT_NE(*KeepManagerId(other.path()), id);
}

TEST(HostSetup, DoesNotReplaceAnUnreadableRecord) {
  const TempDir dir;
  for (const char* name : {"id", "host"}) fs::create_symlink(name, dir / name);  // to itself
  EXPECT_THAT(KeepManagerId(dir.path()).status(), FailsWith(Code::kFailedPrecondition, dir / "id"));
  EXPECT_THAT(KeepHostName(dir.path(), "host-1").status(), FailsWith(Code::kFailedPrecondition, dir / "host"));
  EXPECT_TRUE(fs::is_symlink(dir / "id") && fs::is_symlink(dir / "host"));
}

TEST(HostSetup, BindsTheRootOnItself) {
  const TempDir dir;
  FakeMounter kernel;
  kernel.With([&](FakeKernel& fake) { fake.AddDirectory(dir.path()); });
  ASSERT_OK(ShareRoot(dir.path(), kernel));
  const auto mounted = kernel.Find(dir.path());
  ASSERT_OK(mounted);
  ASSERT_TRUE(mounted->mount.has_value());
  EXPECT_TRUE(kernel.List(dir.path())->front().shared());
  ASSERT_OK(ShareRoot(dir.path(), kernel)) << "a second call changes nothing";
  EXPECT_EQ(kernel.List(dir.path())->size(), 1U);
}

// A bind below a shared mount would show each mount of the manager twice.
TEST(HostSetup, LeavesRootBelowSharedMountAlone) {
  const TempDir dir;
  FakeMounter kernel;
  kernel.With([&](FakeKernel& fake) {
    fake.AddForeignMount("/", "ext4", 1);
    fake.AddDirectory(dir.path());
  });
  ASSERT_OK(ShareRoot(dir.path(), kernel));
  EXPECT_TRUE(kernel.List(dir.path())->empty());
}

TEST(HostSetup, AcceptsARootThatIsNotEmpty) {
  const TempDir dir;
  FakeMounter kernel;
  kernel.With([&](FakeKernel& fake) {
    fake.AddDirectory(dir.path());
    fake.AddDirectory(dir / "staging");
  });
  ASSERT_OK(ShareRoot(dir.path(), kernel));
  EXPECT_TRUE(kernel.List(dir.path())->front().shared());
}

}  // namespace
}  // namespace mooring::manager

// The flags and variables of the plugin.
#include <fmt/format.h>

#include <cstdlib>

#include "base/file/path.h"
#include "mounter/guard/guarded_mounter.h"
#include "tests/unit/process/config_fixture.h"

namespace mooring::testing {
namespace {

TEST_F(ConfigTest, OnlyTheEndpointIsRequired) {
  const absl::StatusOr<Config> config = Parse({"--endpoint", "unix:///csi/csi.sock"});
  ASSERT_OK(config);
  EXPECT_EQ(config->socket_path, "/csi/csi.sock");
  EXPECT_EQ(config->state_dir, "/var/lib/mooring");
  EXPECT_EQ(config->driver_name, "mooring.csi");
  EXPECT_EQ(config->mode, Mode::kMonolith);
  EXPECT_TRUE(config->serves_node());
  EXPECT_TRUE(config->serves_controller());
  EXPECT_EQ(config->max_volumes, 0);
  EXPECT_EQ(config->stop_timeout, std::chrono::seconds(60));
  EXPECT_EQ(config->log_level, "info");
  EXPECT_EQ(config->log_format, "text");
  EXPECT_FALSE(config->node_id.empty());
  EXPECT_EQ(config->kubelet_registration_dir, "");
  EXPECT_EQ(config->kubelet_endpoint, "");
  EXPECT_THAT(config->topology, UnorderedElementsAre(Pair("topology.mooring.csi/node", config->node_id)));
}

TEST_F(ConfigTest, TheMountHelperIsTheDefault) {
  const absl::StatusOr<Config> config = ParseServing({});
  ASSERT_OK(config);
  EXPECT_EQ(config->mounter, MounterKind::kHelper);
  EXPECT_EQ(config->mount_roots, UsualMountRoots());
  EXPECT_THAT(config->mount_roots, ::testing::Each(::testing::Ne("/"))) << "it has to be asked for by name";
}

TEST_F(ConfigTest, TheMounterAndItsRootsCanBeChosen) {
  const absl::StatusOr<Config> config =
      ParseServing({"--mounter=in-process", "--mount-root", "/var/lib/kubelet/", "--mount-root=//srv//csi"});
  ASSERT_OK(config);
  EXPECT_EQ(config->mounter, MounterKind::kInProcess);
  EXPECT_THAT(config->mount_roots, ElementsAre("/var/lib/kubelet", "/srv/csi"));
  EXPECT_EQ(ParseServing({"--mounter=helper"})->mounter, MounterKind::kHelper);
  EXPECT_THAT(ParseServing({"--mount-root=/"})->mount_roots, ElementsAre("/"));
}

TEST_F(ConfigTest, TheMounterAndItsRootsAreVariablesToo) {
  ::setenv("MOORING_MOUNTER", "in-process", 1);
  ::setenv("MOORING_MOUNT_ROOT", "/csi,/srv", 1);
  const absl::StatusOr<Config> config = ParseServing({});
  ASSERT_OK(config);
  EXPECT_EQ(config->mounter, MounterKind::kInProcess);
  EXPECT_THAT(config->mount_roots, ElementsAre("/csi", "/srv"));
}

TEST_F(ConfigTest, MetricsAreServedNowhereUnlessAsked) {
  EXPECT_FALSE(ParseServing({})->metrics_listen.has_value());
  EXPECT_EQ(ParseServing({"--metrics-listen=127.0.0.1:9850"})->metrics_listen->port, 9850);
  ::setenv("MOORING_METRICS_LISTEN", "unix:/run/mooring/metrics.sock", 1);
  EXPECT_EQ(ParseServing({})->metrics_listen->socket_path, "/run/mooring/metrics.sock");
  ExpectRefused({"--metrics-listen=localhost:9850"}, "--metrics-listen: 'localhost:9850' is no address");
}

TEST_F(ConfigTest, OtherMountersAndRootsThatAreNoDirectoriesAreRefused) {
  ExpectRefused({"--mounter=kernel"}, "use helper or in-process");
  ExpectRefused({"--mounter="}, "--mounter");
  for (const char* root : {"relative", "/a/../b", "", "/a\nb"}) {
    ExpectRefused({std::string("--mount-root=") + root}, "--mount-root");
  }
}

TEST_F(ConfigTest, SeveralMountRootsInOneAreRefused) {
  for (const char* roots : {"/a:/b", "/a;/b", "/a /b", "/a : /b"}) {
    ExpectRefused({"--mount-root", roots}, "separated by commas");
  }
  EXPECT_THAT(ParseServing({"--mount-root", "/a b,/c:d"})->mount_roots, ElementsAre("/a b", "/c:d"));
  EXPECT_TRUE(ParseServing({"--mount-root", "/a"})->mount_roots_given);
  EXPECT_FALSE(ParseServing({})->mount_roots_given);
}

TEST_F(ConfigTest, ABlankAtTheBeginningOrEndOfAValueIsNamed) {
  for (const char* flag : {"--mode", "--node-id", "--state-dir", "--user", "--log-level", "--stop-timeout"}) {
    ExpectRefused({flag, "x "}, "'x ' ends with a blank: leave it out");
    ExpectRefused({flag, " x"}, "' x' begins with a blank: leave it out");
  }
  ExpectRefused({"--mount-root", "/a, /b"}, "' /b' begins with a blank");
  ExpectRefused({"--topology", "zone=a, rack=b"}, "' rack=b' begins with a blank");
  ExpectRefused({"--pool", "name=a,backend=tmpfs; name=b,backend=tmpfs"}, "begins with a blank");
  ExpectRefused({"--pool", "name=a, backend=tmpfs"}, "' backend' begins with a blank");
  ExpectRefused({"--pool", "name= a,backend=tmpfs"}, "' a' begins with a blank");
  ::setenv("MOORING_MODE", "node\n", 1);  // which newer versions of CLI11 ignore
  ExpectRefused({}, "ends with a blank");
}

TEST_F(ConfigTest, AVariableThatIsMistypedIsNamed) {
  const std::pair<const char*, const char*> cases[] = {{"MOORING_MOUNT_ROOTS", "MOORING_MOUNT_ROOT"},
                                                       {"MOORING_POOLS", "MOORING_POOL"},
                                                       {"MOORING_MOUNTROOT", "MOORING_MOUNT_ROOT"},
                                                       {"MOORING_NODE_IO", "MOORING_NODE_ID"},
                                                       {"MOORING_TOPOLGOY", "MOORING_TOPOLOGY"}};
  for (const auto& [wrong, right] : cases) {
    ::setenv(wrong, "x", 1);
    ExpectRefused({}, std::string(wrong) + "' is unknown: is " + right + " meant?");
    ::unsetenv(wrong);
  }
  // Kubernetes sets such variables for a service with this name.
  for (const char* other : {"MOORING_PORT", "MOORING_SERVICE_HOST", "MOORING_MANAGER_SOCKET", "MOORING_ENDPOINT"}) {
    ::setenv(other, "x", 1);
    EXPECT_OK(ParseServing({})) << other;
    ::unsetenv(other);
  }
}

TEST_F(ConfigTest, MetricsAndTheEndpointNeedTwoSockets) {
  ExpectRefused({"--metrics-listen", "unix:/run/csi.sock"}, "that is --endpoint");
}

TEST_F(ConfigTest, TheUserAndTheGroupAreNamesOrNumbers) {
  EXPECT_TRUE(ParseServing({})->user.is_root());
  EXPECT_TRUE(ParseServing({"--user", "root"})->user.is_root());
  EXPECT_TRUE(ParseServing({"--user", "0"})->user.is_root());
  const auto is = [](const absl::StatusOr<Config>& config, uid_t uid, gid_t gid) {
    return config.ok() && config->user.uid == uid && config->user.gid == gid;
  };
  EXPECT_TRUE(is(ParseServing({"--user", "nobody"}), 65534, 65534));
  EXPECT_TRUE(is(ParseServing({"--user", "nobody:7"}), 65534, 7));
  EXPECT_TRUE(is(ParseServing({"--user", "65534:root"}), 65534, 0));
  EXPECT_TRUE(is(ParseServing({"--user", "424242"}), 424242, 424242)) << "no file knows it";
  EXPECT_TRUE(is(ParseServing({"--user", "4294967294:1"}), 4294967294, 1));
  ::setenv("MOORING_USER", "424242:7", 1);
  EXPECT_TRUE(is(ParseServing({}), 424242, 7));
  EXPECT_TRUE(is(ParseServing({"--user", "8:9"}), 8, 9));
}

TEST_F(ConfigTest, RefusesAnUnknownUser) {
  ExpectRefused({"--user", "no-such-user"},
                "--user 'no-such-user': /etc/passwd here has no such user: give its number");
  for (const char* user : {"4294967295", "-1", "1.5", "1x"}) ExpectRefused({"--user", user}, "no such user");
  for (const char* user : {"1:", "1:no-such-group", "1:4294967295", "1:2:3"}) {
    ExpectRefused({"--user", user}, "no such group: give its number");
  }
  ExpectRefused({"--user", ":1"}, "write NAME or UID");
  ExpectRefused({"--user", "root:1"}, "root keeps its group");
  ExpectRefused({"--user", "1", "--mounter=in-process"}, "--user '1': only root mounts");
}

TEST_F(ConfigTest, SharedRootsAreRequiredOfMountRootsThatAreGiven) {
  EXPECT_EQ(ParseServing({})->shared_roots, SharedRoots::kAuto);
  EXPECT_EQ(ParseServing({"--shared-roots", "ignore"})->shared_roots, SharedRoots::kIgnore);
  EXPECT_EQ(ParseServing({"--shared-roots", "require", "--mount-root", "/csi"})->shared_roots, SharedRoots::kRequire);
  ExpectRefused({"--shared-roots", "require", "--mount-root", "/"}, "say with --mount-root");
  ExpectRefused({"--shared-roots", "require"}, "say with --mount-root which directories those are");
  ExpectRefused({"--shared-roots", "yes"}, "use auto, require or ignore");
  ::setenv("MOORING_SHARED_ROOTS", "ignore", 1);
  EXPECT_EQ(ParseServing({})->shared_roots, SharedRoots::kIgnore);
}

TEST_F(ConfigTest, EveryFlagArrives) {
  const absl::StatusOr<Config> config =
      Parse({"--endpoint=/s/csi.sock", "--node-id=n-1", "--state-dir=/srv//mooring/", "--mode=controller",
             "--driver-name=Disk.Example.org", "--max-volumes=7", "--stop-timeout=5", "--topology=zone=a", "--topology",
             "topology.disk.example.org/rack=r2", "--log-level=debug", "--log-format=json", "--fs-type=vfat,ntfs3",
             "--fs-type", "ext2"});
  ASSERT_OK(config);
  EXPECT_EQ(config->socket_path, "/s/csi.sock");
  EXPECT_EQ(config->node_id, "n-1");
  EXPECT_EQ(config->state_dir, "/srv/mooring");
  EXPECT_FALSE(config->serves_node());
  EXPECT_EQ(config->driver_name, "Disk.Example.org");
  EXPECT_EQ(config->max_volumes, 7);
  EXPECT_THAT(config->fs_types, ElementsAre("vfat", "ntfs3", "ext2"));
  EXPECT_EQ(config->stop_timeout, std::chrono::seconds(5));
  EXPECT_EQ(config->log_level, "debug");
  EXPECT_EQ(config->log_format, "json");
  EXPECT_THAT(config->topology, UnorderedElementsAre(Pair("topology.disk.example.org/node", "n-1"),
                                                     Pair("topology.disk.example.org/zone", "a"),
                                                     Pair("topology.disk.example.org/rack", "r2")));
}

TEST_F(ConfigTest, EveryFlagIsAnEnvironmentVariableToo) {
  const std::vector<std::pair<const char*, const char*>> variables = {
      {"CSI_ENDPOINT", "unix://csi/csi.sock"}, {"MOORING_NODE_ID", "n2"},
      {"MOORING_STATE_DIR", "/data"},          {"MOORING_MODE", "node"},
      {"MOORING_DRIVER_NAME", "d.e"},          {"MOORING_MAX_VOLUMES", "3"},
      {"MOORING_TOPOLOGY", "zone=a,rack=b"},   {"MOORING_LOG_LEVEL", "error"},
      {"MOORING_LOG_FORMAT", "json"},          {"MOORING_STOP_TIMEOUT", "0"},
      {"MOORING_FS_TYPE", "vfat,ext2"}};
  for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  const absl::StatusOr<Config> config = Parse({});
  ASSERT_OK(config);
  EXPECT_EQ(config->socket_path, "/csi/csi.sock");
  EXPECT_EQ(config->node_id, "n2");
  EXPECT_EQ(config->state_dir, "/data");
  EXPECT_FALSE(config->serves_controller());
  EXPECT_EQ(config->driver_name, "d.e");
  EXPECT_EQ(config->max_volumes, 3);
  EXPECT_THAT(config->fs_types, ElementsAre("vfat", "ext2"));
  EXPECT_EQ(config->stop_timeout, std::chrono::seconds(0));
  EXPECT_EQ(config->topology.size(), 3u);
  EXPECT_EQ(config->log_level, "error");
  EXPECT_EQ(config->log_format, "json");
}

TEST_F(ConfigTest, AFlagBeatsItsVariable) {
  ::setenv("MOORING_NODE_ID", "from-environment", 1);
  const absl::StatusOr<Config> config = ParseServing({"--node-id", "from-flag"});
  ASSERT_OK(config);
  EXPECT_EQ(config->node_id, "from-flag");
}

TEST_F(ConfigTest, TheEndpointComesFromCsiEndpointThenMooringEndpoint) {
  ::setenv("MOORING_ENDPOINT", "/ours.sock", 1);
  ASSERT_OK(Parse({}));
  EXPECT_EQ(Parse({})->socket_path, "/ours.sock");
  ::setenv("CSI_ENDPOINT", "/csi.sock", 1);
  EXPECT_EQ(Parse({})->socket_path, "/csi.sock");
  EXPECT_EQ(Parse({"--endpoint", "/flag.sock"})->socket_path, "/flag.sock");
}

TEST_F(ConfigTest, AnEmptyVariableIsNotSet) {
  for (const char* name : {"CSI_ENDPOINT", "MOORING_MODE", "MOORING_MAX_VOLUMES", "MOORING_TOPOLOGY"}) {
    ::setenv(name, "", 1);
  }
  const absl::StatusOr<Config> config = ParseServing({});
  ASSERT_OK(config);
  EXPECT_EQ(config->mode, Mode::kMonolith);
}

TEST_F(ConfigTest, BadValuesAreRefusedInOneLineThatNamesTheFlag) {
  for (const char* type : {"ext4", "tmpfs", "fuse", "nfs4", "../x", "VFAT", "", "f2fs", "auto", "proc"}) {
    ExpectRefused({"--fs-type", type}, fmt::format("--fs-type '{}'", type));
  }
  ExpectRefused({"--max-volumes", "-1"}, "--max-volumes '-1'");
  ExpectRefused({"--max-volumes", "ten"}, "--max-volumes 'ten'");
  ExpectRefused({"--max-volumes", "9223372036854775808"}, "--max-volumes");
  ExpectRefused({"--max-volumes", "3 "}, "--max-volumes");
  ExpectRefused({"--mode", "both"}, "--mode 'both': use node, controller or monolith");
  ExpectRefused({"--log-level", "loud"}, "--log-level 'loud': use one of debug");
  ExpectRefused({"--log-format", "xml"}, "--log-format 'xml'");
  ExpectRefused({"--state-dir", "relative"}, "--state-dir");
  ExpectRefused({"--state-dir", "/a/../b"}, "--state-dir");
  ExpectRefused({"--state-dir", "/"}, "--state-dir");
  ExpectRefused({"--node-id", "a/b"}, "--node-id 'a/b'");
  ExpectRefused({"--node-id", std::string(257, 'n')}, "at most 256");
  ExpectRefused({"--node-id", "-n"}, "--node-id");
  ExpectRefused({"--unknown"}, "--unknown");
  ExpectRefused({"extra"}, "extra");
  ExpectRefused({"--topology", "zone=a", "extra"}, "extra");
}

TEST_F(ConfigTest, TheOrchestratorStagesUnlessAFlagSaysOtherwise) {
  EXPECT_EQ(ParseServing({})->staging_by, StagingBy::kOrchestrator);
  EXPECT_EQ(ParseServing({"--staging-by=plugin"})->staging_by, StagingBy::kPlugin);
  ExpectRefused({"--staging-by=swarm"}, "--staging-by 'swarm'");
  ExpectRefused({"--staging-by=plugin", "--kubelet-registration-dir", "/var/lib/kubelet/plugins_registry"},
                "kubelet stages and unstages itself: not with --kubelet-registration-dir");
  ::setenv("MOORING_STAGING_BY", "plugin", 1);
  EXPECT_EQ(ParseServing({})->staging_by, StagingBy::kPlugin);
  ::unsetenv("MOORING_STAGING_BY");
}

TEST_F(ConfigTest, AcceptsEveryWordForPropagation) {
  EXPECT_EQ(ParseServing({})->propagation, Propagation::kInherit);
  EXPECT_EQ(ParseServing({"--propagation", "HostToContainer"})->propagation, Propagation::kSlave);
  ExpectRefused({"--propagation", "both"}, "--propagation: propagation 'both' is unknown: it is one of inherit");
  ::setenv("MOORING_PROPAGATION", "rshared", 1);
  EXPECT_EQ(ParseServing({})->propagation, Propagation::kShared);
  EXPECT_EQ(ParseServing({"--propagation", "private"})->propagation, Propagation::kPrivate);
  ::unsetenv("MOORING_PROPAGATION");
}

struct Switch {
  std::string flag, variable;
  bool (*is_on)(const Config& config);
};

TEST_F(ConfigTest, ASwitchIsOffUntilItsFlagOrVariableTurnsItOn) {
  const Switch switches[] = {
      {"--grow-on-node", "MOORING_GROW_ON_NODE", [](const Config& config) { return config.grow_on_node; }},
      {"--volume-mount-group", "MOORING_VOLUME_MOUNT_GROUP",
       [](const Config& config) { return config.volume_mount_group; }},
      {"--require-directories", "MOORING_REQUIRE_DIRECTORIES",
       [](const Config& config) { return config.if_missing == IfMissing::kRefuse; }},
  };
  for (const Switch& one : switches) {
    EXPECT_FALSE(one.is_on(*ParseServing({}))) << one.flag;
    EXPECT_TRUE(one.is_on(*ParseServing({one.flag}))) << one.flag;
    for (const bool value : {true, false}) {
      ::setenv(one.variable.c_str(), value ? "true" : "false", 1);
      EXPECT_EQ(one.is_on(*ParseServing({})), value) << one.variable;
    }
  }
}

TEST_F(ConfigTest, NoEndpointIsAnErrorThatSaysHow) {
  const absl::Status status = Parse({}).status();
  ASSERT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(Message(status), AllOf(HasSubstr("CSI_ENDPOINT"), HasSubstr("unix:///")));
  EXPECT_TRUE(absl::IsInvalidArgument(Parse({"--endpoint", ""}).status()));
}

TEST_F(ConfigTest, RefusesAnEndpointThatIsNoAbsolutePathOfASocket) {
  for (const char* endpoint : {"tcp://127.0.0.1:10000", "unix:", "unix://", "unix:///", "csi.sock", "unix:csi.sock",
                               "/a/../b.sock", "/a\n.sock", "@abstract", "http://x"}) {
    const absl::Status status = Parse({"--endpoint", endpoint}).status();
    ASSERT_TRUE(absl::IsInvalidArgument(status)) << endpoint;
    EXPECT_THAT(Message(status), HasSubstr("--endpoint")) << endpoint;
  }
}

// Otherwise nothing could be mounted in the default of --mount-root.
TEST_F(ConfigTest, TheHelperAllowsTheUsualMountRoots) {
  for (const std::string& root : UsualMountRoots()) {
    for (const std::string& tree : ForbiddenTrees(HelperPolicy())) EXPECT_FALSE(IsBelow(root, tree)) << root;
  }
}

}  // namespace
}  // namespace mooring::testing

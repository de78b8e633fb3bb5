// Modes, names and versions on the command line, and wrong flags.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class Modes : public RpcTest {
 protected:
  void RestartAs(const std::vector<std::string>& flags) {
    plugin().options().flags = flags;
    Restart(SIGTERM);
  }

  bool OffersController() {
    const auto answer = driver().Send(csi::v1::GetPluginCapabilitiesRequest());
    for (const auto& capability : answer->capabilities()) {
      if (capability.service().type() == csi::v1::PluginCapability::Service::CONTROLLER_SERVICE) return true;
    }
    return false;
  }

  PluginRun Ended(const std::vector<std::string>& flags, const std::map<std::string, std::string>& environment = {}) {
    return RunPlugin(
        {.socket = "", .state_dir = "", .log_file = dir() / "ended.log", .flags = flags, .environment = environment});
  }
};

TEST_F(Modes, ControllerServesNoNodeCalls) {
  RestartAs({"--mode", "controller", "--node-id", kNode});
  EXPECT_TRUE(OffersController());
  EXPECT_OK(driver().List());
  ExpectRefused(NodeGetInfoRequest(), Code::kUnimplemented, "not served");
  ExpectRefused(StageRequest("x", dir() / "x"), Code::kUnimplemented, "not served");
}

TEST_F(Modes, NodeServesNoControllerCalls) {
  const std::string id = Created();
  RestartAs({"--mode", "node", "--node-id", kNode});
  EXPECT_FALSE(OffersController());
  EXPECT_OK(driver().Send(NodeGetInfoRequest()));
  StageAndPublish(id, Target("a"));
  ExpectRefused([&] { return driver().Delete(id); }, Code::kUnimplemented, "not served");
  ExpectRefused(csi::v1::CreateSnapshotRequest(), Code::kUnimplemented, "not served");
  ExpectRefused(csi::v1::GroupControllerGetCapabilitiesRequest(), Code::kUnimplemented, "not served");
  RestartAs({"--node-id", kNode});
}

TEST_F(Modes, NodeGetInfoHasTheValuesOfTheFlags) {
  RestartAs({"--node-id", "other", "--driver-name", "volumes.example.com", "--max-volumes", "7", "--topology", "zone=a",
             "--topology", "rack=r-1"});
  EXPECT_EQ(driver().Send(GetPluginInfoRequest())->name(), "volumes.example.com");
  const auto info = driver().Send(NodeGetInfoRequest());
  EXPECT_EQ(info->node_id(), "other");
  EXPECT_EQ(info->max_volumes_per_node(), 7);
  const auto& segments = info->accessible_topology().segments();
  EXPECT_EQ(segments.at("topology.volumes.example.com/zone"), "a");
  EXPECT_EQ(segments.at("topology.volumes.example.com/rack"), "r-1");
  const auto made = driver().Create("v");
  ASSERT_OK(made);
  EXPECT_EQ(made->volume().accessible_topology(0).segments_size(), segments.size());
}

TEST_F(Modes, EnvironmentVariablesReplaceFlags) {
  plugin().options().environment = {{"MOORING_NODE_ID", "other"}, {"MOORING_MAX_VOLUMES", "3"}};
  RestartAs({});
  const auto info = driver().Send(NodeGetInfoRequest());
  EXPECT_EQ(info->node_id(), "other");
  EXPECT_EQ(info->max_volumes_per_node(), 3);
}

TEST_F(Modes, VersionIsPrinted) {
  const auto [status, said] = Ended({"--version"});
  EXPECT_EQ(status, 0);
  EXPECT_THAT(said, HasSubstr("mooring-plugin 0."));
  EXPECT_EQ(Ended({"--help"}).status, 0);
}

TEST_F(Modes, WrongFlagsStopTheStartWithAnError) {
  const std::string state = MakeDirectories("state3");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "--endpoint"},
      {{"--endpoint", "tcp://127.0.0.1:1"}, "--endpoint"},
      {{"--endpoint", "relative.sock"}, "--endpoint"},
      {{"--endpoint", "/" + std::string(120, 'x')}, "--endpoint"},
      {{"--endpoint", dir() / "x.sock", "--mode", "both"}, "--mode"},
      {{"--endpoint", dir() / "x.sock", "--driver-name", "-x-"}, "--driver-name"},
      {{"--endpoint", dir() / "x.sock", "--node-id", "a b"}, "--node-id"},
      {{"--endpoint", dir() / "x.sock", "--max-volumes", "-1"}, "--max-volumes"},
      {{"--endpoint", dir() / "x.sock", "--topology", "zone"}, "--topology"},
      {{"--endpoint", dir() / "x.sock", "--log-level", "loud"}, "--log-level"},
      {{"--endpoint", dir() / "x.sock", "--log-format", "xml"}, "--log-format"},
      {{"--endpoint", dir() / "x.sock", "--state-dir", "relative"}, "--state-dir"},
      {{"--no-such-flag"}, "--no-such-flag"},
  };
  for (const auto& [flags, piece] : cases) {
    SCOPED_TRACE(PrintToString(flags));
    const auto [status, said] = Ended(flags, {{"MOORING_STATE_DIR", state}});
    EXPECT_EQ(status, 1);
    EXPECT_THAT(said, HasSubstr(piece));
    EXPECT_THAT(said, StartsWith("mooring-plugin: "));
  }
}

// A database of a newer version is not changed.
TEST_F(Modes, NewerDatabaseStopsTheStartAndIsKept) {
  Rows(state_dir() + "/node.db", "PRAGMA user_version = 99");
  StopPlugin();
  const auto [status, said] = Ended({"--endpoint", dir() / "x.sock"}, {{"MOORING_STATE_DIR", state_dir()}});
  EXPECT_EQ(status, 1);
  EXPECT_THAT(said, HasSubstr("99"));
  EXPECT_THAT(Rows(state_dir() + "/node.db", "PRAGMA user_version"), ElementsAre("99"));
  Rows(state_dir() + "/node.db", "PRAGMA user_version = 1");
  Start();
}

}  // namespace
}  // namespace mooring::testing

// What the plugin is started with: modes, names, versions, and flags that are wrong.
#include <signal.h>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

using ::testing::HasSubstr;

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

  // The exit status and all output of a plugin that is to end by itself.
  std::pair<int, std::string> Ended(const std::vector<std::string>& flags,
                                    const std::map<std::string, std::string>& environment = {}) {
    const std::string log = dir() / "ended.log";
    PluginProcess process({.socket = "", .state_dir = "", .log_file = log, .flags = flags, .environment = environment});
    process.Launch();
    const int status = process.Wait(std::chrono::seconds(5));
    const std::string said = process.Log();
    ::unlink(log.c_str());
    return {status, said};
  }
};

TEST_F(Modes, AMonolithServesAll) {
  EXPECT_TRUE(OffersController());
  EXPECT_OK(driver().Send(csi::v1::NodeGetInfoRequest()));
  EXPECT_OK(driver().List());
}

TEST_F(Modes, AControllerServesNoNode) {
  RestartAs({"--mode", "controller", "--node-id", kNode});
  EXPECT_TRUE(OffersController());
  EXPECT_OK(driver().List());
  ExpectRefused([&] { return driver().Send(csi::v1::NodeGetInfoRequest()); }, Code::kUnimplemented, "not served");
  ExpectRefused([&] { return driver().Stage("x", dir() / "x"); }, Code::kUnimplemented, "not served");
}

TEST_F(Modes, ANodeServesNoControllerAndKnowsItsVolumes) {
  const std::string id = Created();
  RestartAs({"--mode", "node", "--node-id", kNode});
  EXPECT_FALSE(OffersController());
  EXPECT_OK(driver().Send(csi::v1::NodeGetInfoRequest()));
  EXPECT_OK(driver().Stage(id, Staging(id)));
  EXPECT_OK(driver().Publish(id, Staging(id), Target("a")));
  ExpectRefused([&] { return driver().Delete(id); }, Code::kUnimplemented, "not served");
  ExpectRefused([&] { return driver().Send(csi::v1::CreateSnapshotRequest()); }, Code::kUnimplemented, "not served");
  ExpectRefused([&] { return driver().Send(csi::v1::GroupControllerGetCapabilitiesRequest()); }, Code::kUnimplemented,
                "not served");
  RestartAs({"--node-id", kNode});
}

TEST_F(Modes, NamesLimitsAndTopologyAreToldAsGiven) {
  RestartAs({"--node-id", "other", "--driver-name", "volumes.example.com", "--max-volumes", "7", "--topology", "zone=a",
             "--topology", "rack=r-1"});
  EXPECT_EQ(driver().Send(csi::v1::GetPluginInfoRequest())->name(), "volumes.example.com");
  const auto info = driver().Send(csi::v1::NodeGetInfoRequest());
  EXPECT_EQ(info->node_id(), "other");
  EXPECT_EQ(info->max_volumes_per_node(), 7);
  const auto& segments = info->accessible_topology().segments();
  EXPECT_EQ(segments.at("topology.volumes.example.com/zone"), "a");
  EXPECT_EQ(segments.at("topology.volumes.example.com/rack"), "r-1");
  const auto made = driver().Create("v");
  ASSERT_OK(made);
  EXPECT_EQ(made->volume().accessible_topology(0).segments_size(), segments.size());
}

TEST_F(Modes, TheEnvironmentSaysTheSame) {
  plugin().options().environment = {{"MOORING_NODE_ID", "other"}, {"MOORING_MAX_VOLUMES", "3"}};
  RestartAs({});
  const auto info = driver().Send(csi::v1::NodeGetInfoRequest());
  EXPECT_EQ(info->node_id(), "other");
  EXPECT_EQ(info->max_volumes_per_node(), 3);
}

TEST_F(Modes, TheVersionIsPrinted) {
  const auto [status, said] = Ended({"--version"});
  EXPECT_EQ(status, 0);
  EXPECT_THAT(said, HasSubstr("mooring-plugin 0."));
  EXPECT_EQ(Ended({"--help"}).first, 0);
}

TEST_F(Modes, WrongFlagsEndItWithOneAndALineThatSaysWhy) {
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
    SCOPED_TRACE(::testing::PrintToString(flags));
    const auto [status, said] = Ended(flags, {{"MOORING_STATE_DIR", state}});
    EXPECT_EQ(status, 1);
    EXPECT_THAT(said, HasSubstr(piece));
    EXPECT_THAT(said, ::testing::StartsWith("mooring-plugin: "));
  }
}

// Made by a newer version, or no database at all: left as it is.
TEST_F(Modes, AStateThatCannotBeUsedEndsItAndIsLeftAlone) {
  Rows(state_dir() + "/node.db", "PRAGMA user_version = 99");
  driver().Disconnect();
  plugin().Terminate();
  const auto [status, said] = Ended({"--endpoint", dir() / "x.sock"}, {{"MOORING_STATE_DIR", state_dir()}});
  EXPECT_EQ(status, 1);
  EXPECT_THAT(said, HasSubstr("99"));
  EXPECT_THAT(Rows(state_dir() + "/node.db", "PRAGMA user_version"), ::testing::ElementsAre("99"));
  Rows(state_dir() + "/node.db", "PRAGMA user_version = 1");
  Start();
}

}  // namespace
}  // namespace mooring::testing

// The log has a line for each call, and no secrets or mount flags.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

constexpr char kSecret[] = "tops3cret";

std::vector<std::string> LinesWith(const std::string& log, const std::string& piece) {
  std::istringstream stream(log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (line.find(piece) != std::string::npos) lines.push_back(line);
  }
  return lines;
}

class Logging : public RpcTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { StartAt("debug"); }

  void StartAt(const std::string& level) {
    plugin().options().flags = {"--node-id", kNode, "--log-level", level, "--log-format", GetParam()};
    Start();
  }

  bool json() const { return GetParam() == std::string("json"); }
  // A field of a line, in this format.
  std::string Field(const std::string& key, const std::string& value) const {
    return json() ? "\"" + key + "\":\"" + value + "\"" : " " + key + "=" + value;
  }
};

INSTANTIATE_TEST_SUITE_P(Formats, Logging, ::testing::Values("text", "json"), NameOfRow);

TEST_P(Logging, EachCallHasALineWithItsFields) {
  const std::string id = Published(Target("a"));
  EXPECT_THAT(driver().Publish(id, Staging(id), Target("b")), FailsWith(Code::kFailedPrecondition, ""));
  std::vector<std::string> calls;
  for (const std::string& line : LinesWith(plugin().Log(), Field("method", "NodePublishVolume"))) {
    if (LinesWith(line, "call").empty() || LinesWith(line, Field("method", "NodePublishVolume")).empty()) continue;
    if (line.find(json() ? "\"message\":\"call\"" : " call ") != std::string::npos) calls.push_back(line);
  }
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_THAT(calls[0], HasSubstr(Field("volume", id)));
  EXPECT_THAT(calls[0], HasSubstr(Field("target", Target("a"))));
  EXPECT_THAT(calls[0], HasSubstr(Field("code", "OK")));
  EXPECT_THAT(calls[0], ContainsRegex(json() ? "\"ms\":[0-9.]+," : " ms=[0-9.]+ "));
  EXPECT_THAT(calls[1], HasSubstr(Field("code", "FAILED_PRECONDITION")));
  EXPECT_THAT(calls[1], HasSubstr(json() ? "\"cause\":\"" : " cause="));
  EXPECT_THAT(calls[1], HasSubstr("one target"));
}

TEST_P(Logging, SecretsAndMountFlagsAreNotLogged) {
  const VolumeCapability capability = Mount("", AccessMode::SINGLE_NODE_WRITER, {"commit=31"});
  CreateVolumeRequest create = CreateRequest("v", capability);
  (*create.mutable_secrets())["k"] = kSecret;
  (*create.mutable_secrets())[kSecret] = "v";
  const std::string id = Created(create);
  ControllerPublishVolumeRequest attach;
  attach.set_volume_id(id);
  attach.set_node_id(kNode);
  *attach.mutable_volume_capability() = capability;
  *attach.mutable_secrets() = create.secrets();
  ASSERT_OK(driver().Send(attach));
  NodeStageVolumeRequest stage = StageRequest(id, Staging(id), capability);
  *stage.mutable_secrets() = create.secrets();
  ASSERT_OK(driver().Send(stage));
  NodePublishVolumeRequest publish = PublishRequest(id, Staging(id), Target("a"), capability);
  *publish.mutable_secrets() = create.secrets();
  ASSERT_OK(driver().Send(publish));
  // Refused calls: other flags at the same path, and unknown flags.
  for (const char* flag : {"commit=32", "nodiratime", "tops3cret=tops3cret", "tops3cret", "noexec,tops3cret"}) {
    publish.mutable_volume_capability()->mutable_mount()->set_mount_flags(0, flag);
    stage.mutable_volume_capability()->mutable_mount()->set_mount_flags(0, flag);
    EXPECT_FALSE(driver().Send(publish).status.ok());
    EXPECT_FALSE(driver().Send(stage).status.ok());
    stage.set_staging_target_path(Staging("other"));
    EXPECT_FALSE(driver().Send(stage).status.ok()) << flag;
    stage.set_staging_target_path(Staging(id));
  }
  Restart(SIGTERM);  // the reconciliation also logs
  const std::string log = plugin().Log();
  for (const char* hidden : {kSecret, "commit=31", "commit=32", "rw,nodiratime", "rw,noexec", "options="}) {
    EXPECT_THAT(LinesWith(log, hidden), IsEmpty());
  }
  EXPECT_THAT(log, HasSubstr(id));
}

TEST_P(Logging, EveryLineIsWellFormed) {
  EXPECT_FALSE(driver().Create("line\nbreak").status.ok());
  EXPECT_FALSE(driver().Stage("a\nb\"c\\d\x1B[2J", Staging("v")).status.ok());
  EXPECT_FALSE(driver().Stage("größe 'quoted'", Staging("v")).status.ok());
  const std::string id = Created();
  ASSERT_OK(driver().Stage(id, Staging("odd \"name\" \\ [0]")));
  EXPECT_OK(driver().Unstage(id, Staging("odd \"name\" \\ [0]")));
  const std::string log = plugin().Log();
  EXPECT_THAT(log, Not(HasSubstr("\x1B")));
  if (json()) {
    std::ofstream(dir() / "log.json") << log;
    EXPECT_EQ(
        Shell("jq -es 'length > 10 and all(.time and .level and .message)' " + dir() / "log.json" + " >/dev/null"), 0)
        << log;
  } else {
    for (const std::string& line : LinesWith(log, "")) EXPECT_THAT(line, StartsWith("20"));
  }
}

TEST_P(Logging, LevelInfoOmitsFrequentCalls) {
  StopPlugin();
  fs::remove(dir() / "plugin.log");
  StartAt("info");
  const std::string id = Created();
  for (int i = 0; i < 5; ++i) {
    EXPECT_OK(driver().Send(ProbeRequest()));
    EXPECT_OK(driver().Send(NodeGetCapabilitiesRequest()));
  }
  EXPECT_THAT(LinesWith(plugin().Log(), "Probe"), IsEmpty());
  EXPECT_THAT(LinesWith(plugin().Log(), "NodeGetCapabilities"), IsEmpty());
  EXPECT_EQ(LinesWith(plugin().Log(), Field("method", "CreateVolume")).size(), 1U);
}

}  // namespace
}  // namespace mooring::testing

// Drivers of others: one staging path per volume, the socket as a flag, and the answer to the call that starts them.
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/manager/system/manager_test.h"

namespace mooring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

class Drivers : public ManagerTest {
 protected:
  // The requests of `method` that the Python plugin received.
  std::vector<json> Calls(const std::string& method) const {
    std::vector<json> found;
    std::istringstream lines(ReadFile(dir() / "calls"));
    for (std::string line; std::getline(lines, line);) {
      const json call = json::parse(line);
      if (call["method"] == method) found.push_back(call["request"]);
    }
    return found;
  }

  void CreateFor(const std::vector<v1::AccessMode>& modes) {
    v1::Volume volume = VolumeOf("db", kTmpfsPlugin);
    volume.clear_capabilities();
    for (const v1::AccessMode mode : modes) {
      v1::Capability& capability = *volume.add_capabilities();
      capability.set_access(mode);
      capability.set_attachment(v1::FILE_SYSTEM);
    }
    ASSERT_OK(client().Create(volume));
  }

  v1::AttachRequest Request(const std::string& allocation, v1::AccessMode mode, bool read_only) const {
    v1::AttachRequest request = RequestFor("db", allocation, dir() / allocation);
    request.mutable_capability()->set_access(mode);
    request.mutable_capability()->set_attachment(v1::FILE_SYSTEM);
    request.set_read_only(read_only);
    return request;
  }
};

TEST_F(Drivers, ReaderSharesStageOfWriter) {
  RunPlugin(kTmpfsPlugin);
  CreateFor({v1::MULTI_NODE_SINGLE_WRITER, v1::MULTI_NODE_READER_ONLY});
  const auto reader_first = Request("r1", v1::MULTI_NODE_SINGLE_WRITER, true);
  const auto writer = Request("w", v1::MULTI_NODE_SINGLE_WRITER, false);
  auto reader_later = Request("r2", v1::MULTI_NODE_READER_ONLY, true);
  reader_later.mutable_options()->add_flags("ro");
  for (const v1::AttachRequest& request : {reader_first, writer, reader_later}) ASSERT_OK(client().Attach(request));

  const std::vector<json> stages = Calls("NodeStageVolume"), publishes = Calls("NodePublishVolume");
  ASSERT_THAT(stages, SizeIs(1));
  ASSERT_THAT(publishes, SizeIs(3));
  for (const json& publish : publishes) {
    EXPECT_EQ(publish["staging_target_path"], stages[0]["staging_target_path"]);
    EXPECT_EQ(publish["volume_capability"], stages[0]["volume_capability"]) << "as kubelet sends it";
  }
  EXPECT_EQ(TryWrite(dir() / "w/f", "seen by all"), 0);
  for (const char* reader : {"r1", "r2"}) {
    EXPECT_EQ(ReadFile(dir() / reader + "/f"), "seen by all");
    EXPECT_EQ(TryWrite(dir() / reader + "/f", "x"), EROFS);
  }
  EXPECT_OK(client().Detach("w", "db"));
  EXPECT_OK(client().Detach("r1", "db"));
  EXPECT_THAT(Calls("NodeUnstageVolume"), IsEmpty());
  EXPECT_EQ(ReadFile(dir() / "r2/f"), "seen by all");
  EXPECT_OK(client().Detach("r2", "db"));
  EXPECT_THAT(Calls("NodeUnstageVolume"), SizeIs(1));
}

// While only readers can use the volume, it is staged in their mode.
TEST_F(Drivers, ReadersOnlyStageUsesReaderMode) {
  RunPlugin(kTmpfsPlugin);
  CreateFor({v1::SINGLE_NODE_WRITER, v1::MULTI_NODE_READER_ONLY});
  ASSERT_OK(client().Attach(Request("r1", v1::MULTI_NODE_READER_ONLY, true)));
  ASSERT_OK(client().Attach(Request("r2", v1::MULTI_NODE_READER_ONLY, true)));
  EXPECT_THAT(client().Attach(Request("w", v1::SINGLE_NODE_WRITER, false)),
              FailsWith(Code::kFailedPrecondition, "no free write claim"));
  ASSERT_THAT(Calls("NodeStageVolume"), SizeIs(1));
  EXPECT_EQ(Calls("NodeStageVolume")[0]["volume_capability"]["access_mode"]["mode"], "MULTI_NODE_READER_ONLY");
}

TEST_F(Drivers, OtherMountOptionsHaveAnotherStage) {
  RunPlugin(kTmpfsPlugin);
  CreateFor({v1::MULTI_NODE_MULTI_WRITER});
  auto other = Request("b", v1::MULTI_NODE_MULTI_WRITER, false);
  other.mutable_options()->add_flags("noatime");
  ASSERT_OK(client().Attach(Request("a", v1::MULTI_NODE_MULTI_WRITER, false)));
  ASSERT_OK(client().Attach(other));
  const std::vector<json> stages = Calls("NodeStageVolume");
  ASSERT_THAT(stages, SizeIs(2));
  EXPECT_NE(stages[0]["staging_target_path"], stages[1]["staging_target_path"]);
}

// The shell sets CSI_ENDPOINT from its word or variable, and ignores the value that the manager set.
TEST_F(Drivers, SocketIsPassedInWordOrVariable) {
  for (const bool in_word : {true, false}) {
    const std::string from = in_word ? "$0" : "$OTHER";
    std::vector<std::string> command = {"/bin/sh", "-c", "unset CSI_ENDPOINT; CSI_ENDPOINT=" + from + " exec \"$@\"",
                                        in_word ? "unix://{socket}" : "{}"};
    for (const std::string& word : PluginCommand(kTmpfsPlugin, {})) command.push_back(word);
    v1::PluginRun run = RunOf(command);
    (*run.mutable_environment())["OTHER"] = "{endpoint}";
    const auto started = client().RunPlugin(kTmpfsPlugin, run);
    ASSERT_OK(started);
    EXPECT_GT(PluginPid(kTmpfsPlugin), 0);
  }
}

TEST_F(Drivers, RunReportsHealthOfEachInstance) {
  const auto started = client().RunPlugin(kTmpfsPlugin, PluginCommand(kTmpfsPlugin, {}));
  ASSERT_OK(started);
  ASSERT_THAT(started->instances(), SizeIs(2)) << "node and controller";
  for (const v1::InstanceStatus& instance : started->instances()) {
    EXPECT_TRUE(instance.healthy()) << instance.words();
    EXPECT_GT(instance.checked_at_ms(), 0);
  }
  EXPECT_EQ(started->nodes().healthy(), 1);
  EXPECT_EQ(started->controllers().healthy(), 1);
  const std::string socket = started->instances(0).instance().socket_path();
  for (int i = 0; i < 5; ++i) {
    v1::RegisterPluginRequest request;
    request.set_name("again-" + std::to_string(i));
    request.set_endpoint("unix://" + socket);
    request.set_wait(true);
    const auto registered = client().Ask(&v1::Manager::Stub::RegisterPlugin, request);
    ASSERT_OK(registered);
    for (const v1::InstanceStatus& instance : registered->plugin().instances()) {
      EXPECT_TRUE(instance.healthy()) << instance.words();
    }
  }
}

TEST_F(Drivers, RunReportsUnhealthyInstance) {
  Inject("NodeGetInfo", "INTERNAL no name here");
  const auto started = client().RunPlugin(kTmpfsPlugin, PluginCommand(kTmpfsPlugin, WithFaults()));
  ASSERT_OK(started);
  EXPECT_EQ(started->nodes().healthy(), 0);
  std::string words;
  for (const v1::InstanceStatus& instance : started->instances()) words += instance.words();
  EXPECT_THAT(words, HasSubstr("no name here"));
  EndFault("NodeGetInfo");
}

}  // namespace
}  // namespace mooring::testing

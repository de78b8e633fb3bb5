// Drivers as others write them: one staging path per volume, the socket as a flag; and what is told of them when they
// are started.
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
  // The requests of one method that the Python plugin was sent.
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
    v1::AttachRequest request;
    *request.mutable_volume() = Key("db");
    request.set_allocation(allocation);
    request.set_attach_path(dir() / allocation);
    request.mutable_capability()->set_access(mode);
    request.mutable_capability()->set_attachment(v1::FILE_SYSTEM);
    request.set_read_only(read_only);
    return request;
  }

  absl::StatusOr<v1::PluginStatus> Run(const v1::PluginRun& run) {
    v1::RunPluginRequest request;
    request.set_name(kTmpfsPlugin);
    request.set_wait(true);
    *request.mutable_run() = run;
    grpc::ClientContext context;
    const auto reader = client().stub().RunPlugin(&context, request);
    v1::RunPluginReply reply;
    while (reader->Read(&reply)) {
    }
    const absl::Status status = FromGrpc(reader->Finish());
    if (!status.ok()) return status;
    return reply.done();
  }
};

TEST_F(Drivers, D5_AReaderBesideAWriterSharesItsStage) {
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

// While readers alone may use it, no writer comes: then it is staged as they ask.
TEST_F(Drivers, D5_WhatOnlyReadersUseIsStagedForReaders) {
  RunPlugin(kTmpfsPlugin);
  CreateFor({v1::SINGLE_NODE_WRITER, v1::MULTI_NODE_READER_ONLY});
  ASSERT_OK(client().Attach(Request("r1", v1::MULTI_NODE_READER_ONLY, true)));
  ASSERT_OK(client().Attach(Request("r2", v1::MULTI_NODE_READER_ONLY, true)));
  EXPECT_THAT(client().Attach(Request("w", v1::SINGLE_NODE_WRITER, false)),
              FailsWith(Code::kFailedPrecondition, "no free write claim"));
  ASSERT_THAT(Calls("NodeStageVolume"), SizeIs(1));
  EXPECT_EQ(Calls("NodeStageVolume")[0]["volume_capability"]["access_mode"]["mode"], "MULTI_NODE_READER_ONLY");
}

TEST_F(Drivers, D5_OtherMountOptionsAreStagedApart) {
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

// The shell takes CSI_ENDPOINT from its word or its variable, and not from what the manager has set.
TEST_F(Drivers, J1_TheSocketIsGivenInAWordOrAVariable) {
  for (const bool in_word : {true, false}) {
    v1::PluginRun run;
    const std::string from = in_word ? "$0" : "$OTHER";
    for (const std::string& word :
         {std::string("/bin/sh"), std::string("-c"), "unset CSI_ENDPOINT; CSI_ENDPOINT=" + from + " exec \"$@\"",
          std::string(in_word ? "unix://{socket}" : "{}")}) {
      run.add_command(word);
    }
    for (const std::string& word : PluginCommand(kTmpfsPlugin, {})) run.add_command(word);
    (*run.mutable_environment())["OTHER"] = "{endpoint}";
    const auto started = Run(run);
    ASSERT_OK(started);
    EXPECT_GT(PluginPid(kTmpfsPlugin), 0);
  }
}

TEST_F(Drivers, J2_WhoWaitsIsToldTheHealthOfEachInstance) {
  v1::PluginRun run;
  for (const std::string& word : PluginCommand(kTmpfsPlugin, {})) run.add_command(word);
  const auto started = Run(run);
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

TEST_F(Drivers, J2_AnUnhealthyOneIsToldAsThat) {
  v1::PluginRun run;
  for (const std::string& word : PluginCommand(kTmpfsPlugin, WithFaults())) run.add_command(word);
  Inject("NodeGetInfo", "INTERNAL no name here");
  const auto started = Run(run);
  ASSERT_OK(started);
  EXPECT_EQ(started->nodes().healthy(), 0);
  std::string words;
  for (const v1::InstanceStatus& instance : started->instances()) words += instance.words();
  EXPECT_THAT(words, HasSubstr("no name here"));
  EndFault("NodeGetInfo");
}

}  // namespace
}  // namespace mooring::testing

// The answers of a driver as text, as JSON and as an exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <sstream>
#include <string>
#include <thread>

#include "cli/client/client.h"
#include "csi.pb.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/run_mooring.h"

namespace mooring::cli {
namespace {

using ::testing::HasSubstr;

class CsiAnswersTest : public ::testing::Test {
 protected:
  Result Csi(const std::string& line) { return RunLine("mooring csi --endpoint " + driver_.endpoint() + " " + line); }

  google::protobuf::Map<std::string, google::protobuf::Value> Json(const std::string& line) {
    return ParseJsonLine(Csi(line + " --json").out).fields();
  }

  // The command prints `out` if the driver answers with `response`, in text format.
  template <typename Response>
  void ExpectOut(const std::string& line, const std::string& response, const std::string& out) {
    driver_.script().Reply<Response>(response);
    EXPECT_EQ(Csi(line).out, out);
  }

  void ReplyReady(bool ready) {
    driver_.script().Reply<csi::v1::ProbeResponse>(ready ? "ready { value: true }" : "ready {}");
  }
  std::size_t ProbeCount() { return driver_.script().Requests<csi::v1::ProbeRequest>().size(); }

  FakeServer driver_;
};

TEST_F(CsiAnswersTest, InfoMergesThreeCalls) {
  driver_.script().Reply<csi::v1::GetPluginInfoResponse>(
      "name: 'mooring.csi' vendor_version: '0.1.0' manifest { key: 'commit' value: 'abc' }");
  driver_.script().Reply<csi::v1::GetPluginCapabilitiesResponse>(
      "capabilities { service { type: CONTROLLER_SERVICE } } capabilities { volume_expansion { type: ONLINE } }");
  ReplyReady(false);
  EXPECT_EQ(Csi("info").out,
            "name          mooring.csi\n"
            "version       0.1.0\n"
            "ready         no\n"
            "capabilities  CONTROLLER_SERVICE, VOLUME_EXPANSION_ONLINE\n"
            "manifest      commit=abc\n");
  const auto json = Json("info");
  EXPECT_EQ(json.at("plugin_info").struct_value().fields().at("vendor_version").string_value(), "0.1.0");
  EXPECT_FALSE(json.at("probe").struct_value().fields().at("ready").bool_value());
  EXPECT_EQ(json.at("capabilities").struct_value().fields().count("capabilities"), 1u);
}

TEST_F(CsiAnswersTest, MetadataPrintsALineForEachRange) {
  ExpectOut<csi::v1::GetMetadataAllocatedResponse>(
      "metadata-allocated snap-1",
      "block_metadata { size_bytes: 4096 } block_metadata { byte_offset: 8192 size_bytes: 4096 }",
      "0 4096\n8192 4096\n");
  driver_.script().Fail<csi::v1::GetMetadataDeltaResponse>(grpc::StatusCode::NOT_FOUND, "no such snapshot");
  const Result failed = Csi("metadata-delta snap-1 snap-2");
  EXPECT_EQ(failed.status, kExitFailed);
  EXPECT_THAT(failed.err, HasSubstr("no such snapshot"));
}

TEST(ProgressTest, LongCallShowsItsTime) {
  std::ostringstream terminal;
  {
    const Progress progress("CreateSnapshot", terminal, std::chrono::milliseconds(0));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(terminal.str(), "\r\033[KCreateSnapshot: 0 s\r\033[K");
}

TEST(ProgressTest, ShortCallShowsNothing) {
  std::ostringstream terminal;
  { const Progress progress("Probe", terminal); }
  EXPECT_EQ(terminal.str(), "");
}

TEST_F(CsiAnswersTest, ProbeSetsTheExitStatus) {
  Result result = Csi("probe");  // no `ready` in the answer means ready
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_EQ(result.out, "ready\n");
  ReplyReady(false);
  result = Csi("probe");
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_EQ(result.out, "not ready\n");
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(Csi("probe --json").out, "{\"ready\":false}\n");
}

TEST_F(CsiAnswersTest, ProbeWaitsForTheSocketAndThenForTheDriver) {
  FakeServer late(FakeServer::Start::kLater);
  late.script().Reply<csi::v1::ProbeResponse>("ready {}");
  late.script().Reply<csi::v1::ProbeResponse>("ready { value: true }");
  auto result = std::async(std::launch::async,
                           [&late] { return RunLine("mooring csi probe --wait 20 --endpoint " + late.endpoint()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  late.Serve();
  const Result waited = result.get();
  EXPECT_EQ(waited.status, kExitOk) << waited.err;
  EXPECT_EQ(waited.out, "ready\n");
  EXPECT_EQ(late.script().Requests<csi::v1::ProbeRequest>().size(), 2u);
}

TEST_F(CsiAnswersTest, ProbeStopsWaitingInTime) {
  ReplyReady(false);
  EXPECT_EQ(Csi("probe --wait 0.3").status, kExitFailed);
  EXPECT_GT(ProbeCount(), 2u);
  driver_.Stop();
  const Result result = Csi("probe --wait 0.3");
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_THAT(result.err, HasSubstr("there is no socket at"));
}

TEST_F(CsiAnswersTest, ProbeWaitsOnAfterTheDriversOwnTimeout) {
  ReplyReady(false);
  auto result = std::async(std::launch::async, [this] { return Csi("probe --wait 20"); });
  const auto await_two_more = [this, &result] {
    const std::size_t before = ProbeCount();
    while (ProbeCount() < before + 2 && result.wait_for(std::chrono::milliseconds(10)) == std::future_status::timeout) {
    }
  };
  await_two_more();
  driver_.script().Fail<csi::v1::ProbeResponse>(grpc::StatusCode::DEADLINE_EXCEEDED, "its backend is slow");
  await_two_more();
  ReplyReady(true);
  EXPECT_EQ(result.get().out, "ready\n");
}

TEST_F(CsiAnswersTest, LivenessAcceptsAnyAnswer) {
  EXPECT_EQ(Csi("probe --liveness").out, "alive, ready\n");
  ReplyReady(false);
  Result result = Csi("probe --liveness --wait 20");
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_EQ(result.out, "alive, not ready\n");
  driver_.script().Fail<csi::v1::ProbeResponse>(grpc::StatusCode::FAILED_PRECONDITION, "no loop devices");
  result = Csi("probe --liveness --wait 20");
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_EQ(result.out, "alive, not ready: Probe: FAILED_PRECONDITION (9): no loop devices\n");
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(Csi("probe --liveness --json").out,
            "{\"rpc\":\"Probe\",\"code\":9,\"code_name\":\"FAILED_PRECONDITION\",\"message\":\"no loop devices\"}\n");
}

// The codes that gRPC uses if there is no answer, but from the driver itself.
TEST_F(CsiAnswersTest, LivenessRefusesErrorsOfTheTransport) {
  for (const grpc::StatusCode code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::DEADLINE_EXCEEDED}) {
    driver_.script().Fail<csi::v1::ProbeResponse>(code, "its backend is slow");
    const Result result = Csi("probe --liveness");
    EXPECT_EQ(result.status, kExitOk) << result.err;
    EXPECT_THAT(result.out, HasSubstr("its backend is slow"));
  }
  driver_.script().SetDelay(std::chrono::milliseconds(1000));
  Result result = Csi("probe --liveness --timeout 0.2");
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_THAT(result.err, HasSubstr("no answer within 0.2 s"));
  driver_.Stop();
  result = Csi("probe --liveness");
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_THAT(result.err, HasSubstr("there is no socket at"));
  EXPECT_EQ(Csi("probe --liveness --wait 0.2").status, kExitFailed);
}

TEST_F(CsiAnswersTest, CapabilitiesCallOnlyExistingServices) {
  ExpectOut<csi::v1::NodeGetCapabilitiesResponse>("capabilities", "capabilities { rpc { type: STAGE_UNSTAGE_VOLUME } }",
                                                  "SERVICE  CAPABILITY\nnode     STAGE_UNSTAGE_VOLUME\n");
  EXPECT_TRUE(driver_.script().Requests<csi::v1::ControllerGetCapabilitiesRequest>().empty());
  EXPECT_TRUE(driver_.script().Requests<csi::v1::GroupControllerGetCapabilitiesRequest>().empty());
}

TEST_F(CsiAnswersTest, CapabilitiesOfAController) {
  driver_.script().Reply<csi::v1::GetPluginCapabilitiesResponse>(
      "capabilities { service { type: CONTROLLER_SERVICE } }"
      "capabilities { service { type: GROUP_CONTROLLER_SERVICE } }");
  driver_.script().Fail<csi::v1::NodeGetCapabilitiesResponse>(grpc::StatusCode::UNIMPLEMENTED, "");
  ExpectOut<csi::v1::ControllerGetCapabilitiesResponse>("capabilities", "capabilities { rpc { type: LIST_VOLUMES } }",
                                                        "SERVICE     CAPABILITY\n"
                                                        "plugin      CONTROLLER_SERVICE\n"
                                                        "plugin      GROUP_CONTROLLER_SERVICE\n"
                                                        "controller  LIST_VOLUMES\n");
  const auto json = Json("capabilities");
  EXPECT_EQ(json.count("controller"), 1u);
  EXPECT_EQ(json.count("group_controller"), 1u);
  EXPECT_EQ(json.count("node"), 0u);
}

TEST_F(CsiAnswersTest, VolumesAreDetails) {
  ExpectOut<csi::v1::CreateVolumeResponse>(
      "create v",
      R"(volume { volume_id: "vol-1" capacity_bytes: 1073741824 volume_context { key: "backend" value: "image" }
                  accessible_topology { segments { key: "node" value: "a" } } })",
      "id        vol-1\n"
      "capacity  1.0 GiB (1073741824)\n"
      "context   backend=image\n"
      "topology  node=a\n");
  const auto json = Json("create v").at("volume").struct_value().fields();
  EXPECT_EQ(json.at("capacity_bytes").string_value(), "1073741824");
  EXPECT_EQ(json.at("volume_context").struct_value().fields().at("backend").string_value(), "image");
  ExpectOut<csi::v1::ControllerGetVolumeResponse>(
      "get vol-1",
      R"(volume { volume_id: "vol-1" } status { published_node_ids: "a" published_node_ids: "b"
         volume_condition { abnormal: true message: "gone" } })",
      "id            vol-1\n"
      "capacity      unknown\n"
      "published on  a, b\n"
      "condition     abnormal: gone\n");
  ExpectOut<csi::v1::ControllerExpandVolumeResponse>("expand v --size 2GiB",
                                                     "capacity_bytes: 2147483648 node_expansion_required: true",
                                                     "capacity        2.0 GiB (2147483648)\n"
                                                     "node expansion  required: run node-expand\n");
}

TEST_F(CsiAnswersTest, ListFetchesEveryPage) {
  driver_.script().Reply<csi::v1::ListVolumesResponse>(
      "entries { volume { volume_id: 'a' capacity_bytes: 1024 } } entries { volume { volume_id: 'b' } }"
      "next_token: '2'");
  driver_.script().Reply<csi::v1::ListVolumesResponse>("next_token: '3'");
  ExpectOut<csi::v1::ListVolumesResponse>("list", "entries { volume { volume_id: 'c' } }",
                                          "ID  CAPACITY        PUBLISHED ON  CONDITION\n"
                                          "a   1.0 KiB (1024)  -             -\n"
                                          "b   0 B             -             -\n"
                                          "c   0 B             -             -\n");
  const auto requests = driver_.script().Requests<csi::v1::ListVolumesRequest>();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1].starting_token(), "2");
  EXPECT_EQ(requests[2].starting_token(), "3");
}

TEST_F(CsiAnswersTest, OnePageEndsWithAHint) {
  driver_.script().Reply<csi::v1::ListVolumesResponse>("entries { volume { volume_id: 'a' } } next_token: 'next\\n'");
  EXPECT_THAT(Csi("list --max-entries 1").out, HasSubstr("\nmore with --token next\\n\n"));
  EXPECT_EQ(Json("list --max-entries 1").at("next_token").string_value(), "next\n");
}

TEST_F(CsiAnswersTest, RepeatedTokenEndsTheList) {
  driver_.script().Reply<csi::v1::ListVolumesResponse>("next_token: '2'");
  const Result result = Csi("list");
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_EQ(result.err, "mooring: the driver gave the same next_token twice\n");
  EXPECT_EQ(Json("list").at("code_name").string_value(), "INTERNAL");
}

TEST_F(CsiAnswersTest, StatsAreATable) {
  ExpectOut<csi::v1::NodeGetVolumeStatsResponse>(
      "stats v --path /t",
      "usage { unit: BYTES total: 1048576000 used: 1048576 available: 942669824 }"
      "usage { unit: INODES total: 65536 used: 11 available: 65525 } volume_condition {}",
      "UNIT    TOTAL                    USED               AVAILABLE              USE\n"
      "BYTES   1000.0 MiB (1048576000)  1.0 MiB (1048576)  899.0 MiB (942669824)  1%\n"
      "INODES  65536                    11                 65525                  1%\n"
      "condition  ok\n");
}

TEST_F(CsiAnswersTest, ValidateSetsTheExitStatus) {
  driver_.script().Reply<csi::v1::ValidateVolumeCapabilitiesResponse>("message: 'no block here'");
  const Result result = Csi("validate v --block");
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_EQ(result.out, "confirmed  no\nmessage    no block here\n");
}

TEST_F(CsiAnswersTest, ValidateShowsTheCapabilities) {
  ExpectOut<csi::v1::ValidateVolumeCapabilitiesResponse>(
      "validate v",
      R"(confirmed { volume_capabilities { mount { fs_type: "ext4" } access_mode { mode: SINGLE_NODE_MULTI_WRITER } }
         volume_capabilities { block {} access_mode { mode: SINGLE_NODE_WRITER } }
         volume_capabilities { mount {} access_mode { mode: MULTI_NODE_READER_ONLY } } })",
      "confirmed   yes\n"
      "capability  mount ext4 single-node-multi-writer\n"
      "capability  block single-node-writer\n"
      "capability  mount multi-node-reader-only\n");
}

TEST_F(CsiAnswersTest, JsonShowsFieldsThatAreZero) {
  EXPECT_EQ(Csi("node-info --json").out, "{\"node_id\":\"\",\"max_volumes_per_node\":\"0\"}\n");
  EXPECT_EQ(Csi("delete v --json").out, "{}\n");
}

TEST_F(CsiAnswersTest, SnapshotsShowTheirTimes) {
  ExpectOut<csi::v1::ListSnapshotsResponse>(
      "snapshot list",
      R"(entries { snapshot { snapshot_id: "s" source_volume_id: "v" ready_to_use: true
                              creation_time { seconds: 1700000000 } } }
         entries { snapshot { creation_time { seconds: 9223372036854775807 } } })",
      "ID  VOLUME  SIZE     CREATED                      READY  GROUP\n"
      "s   v       unknown  2023-11-14T22:13:20Z         yes    -\n"
      "-   -       unknown  9223372036854775807 s, 0 ns  no     -\n");
  const Result json = Csi("snapshot list --json");
  EXPECT_EQ(json.status, kExitFailed);
  EXPECT_THAT(json.err, HasSubstr("convert the answer to JSON"));
}

}  // namespace
}  // namespace mooring::cli

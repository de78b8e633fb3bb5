// The answers of a driver as text, as JSON and as an exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cli/output/progress.h"
#include "cli/run.h"
#include "csi.pb.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/run_mooring.h"

namespace mooring::cli {
namespace {

using ::testing::HasSubstr;

class CsiAnswersTest : public ::testing::Test {
 protected:
  Result Csi(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"csi", "--endpoint", driver_.endpoint()});
    return Mooring(arguments);
  }

  static csi::v1::Volume AVolume(const std::string& id) {
    csi::v1::Volume volume;
    volume.set_volume_id(id);
    volume.set_capacity_bytes(1 << 30);
    return volume;
  }

  static csi::v1::ListVolumesResponse APage(const std::vector<std::string>& ids, const std::string& next_token) {
    csi::v1::ListVolumesResponse page;
    for (const std::string& id : ids) *page.add_entries()->mutable_volume() = AVolume(id);
    page.set_next_token(next_token);
    return page;
  }

  void ReplyReady(bool ready) {
    csi::v1::ProbeResponse response;
    response.mutable_ready()->set_value(ready);
    driver_.script().Reply(response);
  }

  FakeServer driver_;
};

TEST_F(CsiAnswersTest, InfoMergesThreeCalls) {
  csi::v1::GetPluginInfoResponse info;
  info.set_name("mooring.csi");
  info.set_vendor_version("0.1.0");
  (*info.mutable_manifest())["commit"] = "abc";
  driver_.script().Reply(info);
  csi::v1::GetPluginCapabilitiesResponse capabilities;
  capabilities.add_capabilities()->mutable_service()->set_type(csi::v1::PluginCapability::Service::CONTROLLER_SERVICE);
  capabilities.add_capabilities()->mutable_volume_expansion()->set_type(
      csi::v1::PluginCapability::VolumeExpansion::ONLINE);
  driver_.script().Reply(capabilities);
  ReplyReady(false);

  EXPECT_EQ(Csi({"info"}).out,
            "name          mooring.csi\n"
            "version       0.1.0\n"
            "ready         no\n"
            "capabilities  CONTROLLER_SERVICE, VOLUME_EXPANSION_ONLINE\n"
            "manifest      commit=abc\n");
  const auto json = ParseJsonLine(Csi({"info", "--json"}).out);
  EXPECT_EQ(json.fields().at("plugin_info").struct_value().fields().at("vendor_version").string_value(), "0.1.0");
  EXPECT_FALSE(json.fields().at("probe").struct_value().fields().at("ready").bool_value());
  EXPECT_EQ(json.fields().at("capabilities").struct_value().fields().count("capabilities"), 1u);
}

TEST_F(CsiAnswersTest, MetadataPrintsALineForEachRange) {
  csi::v1::GetMetadataAllocatedResponse allocated;
  for (const std::int64_t offset : {0, 8192}) {
    allocated.add_block_metadata()->set_byte_offset(offset);
    allocated.mutable_block_metadata()->rbegin()->set_size_bytes(4096);
  }
  driver_.script().Reply(allocated);
  EXPECT_EQ(Csi({"metadata-allocated", "snap-1", "--offset", "4KiB", "--max-results", "7"}).out, "0 4096\n8192 4096\n");
  const auto asked = driver_.script().Requests<csi::v1::GetMetadataAllocatedRequest>();
  EXPECT_EQ(asked[0].snapshot_id(), "snap-1");
  EXPECT_EQ(asked[0].starting_offset(), 4096);
  EXPECT_EQ(asked[0].max_results(), 7);
  driver_.script().Fail<csi::v1::GetMetadataDeltaResponse>(grpc::StatusCode::NOT_FOUND, "no such snapshot");
  const Result failed = Csi({"metadata-delta", "snap-1", "snap-2"});
  EXPECT_EQ(failed.status, kExitFailed);
  EXPECT_THAT(failed.err, HasSubstr("no such snapshot"));
  EXPECT_EQ(driver_.script().Requests<csi::v1::GetMetadataDeltaRequest>()[0].target_snapshot_id(), "snap-2");
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
  Result result = Csi({"probe"});  // no `ready` in the answer means ready
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_EQ(result.out, "ready\n");
  ReplyReady(false);
  result = Csi({"probe"});
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_EQ(result.out, "not ready\n");
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(Csi({"probe", "--json"}).out, "{\"ready\":false}\n");
}

TEST_F(CsiAnswersTest, ProbeWaitsForTheSocketAndThenForTheDriver) {
  FakeServer late(FakeServer::Start::kLater);
  csi::v1::ProbeResponse response;
  response.mutable_ready()->set_value(false);
  late.script().Reply(response);
  response.mutable_ready()->set_value(true);
  late.script().Reply(response);
  auto result = std::async(std::launch::async, [&late] {
    return Mooring({"csi", "probe", "--wait", "20", "--endpoint", late.endpoint()});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  late.Serve();
  const Result waited = result.get();
  EXPECT_EQ(waited.status, kExitOk) << waited.err;
  EXPECT_EQ(waited.out, "ready\n");
  EXPECT_EQ(late.script().Requests<csi::v1::ProbeRequest>().size(), 2u);
}

TEST_F(CsiAnswersTest, ProbeStopsWaitingInTime) {
  ReplyReady(false);
  EXPECT_EQ(Csi({"probe", "--wait", "0.3"}).status, kExitFailed);
  EXPECT_GT(driver_.script().Requests<csi::v1::ProbeRequest>().size(), 2u);
  driver_.Stop();
  const Result result = Csi({"probe", "--wait", "0.3"});
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_THAT(result.err, HasSubstr("there is no socket at"));
}

TEST_F(CsiAnswersTest, ProbeWaitsOnAfterTheDriversOwnTimeout) {
  ReplyReady(false);
  auto result = std::async(std::launch::async, [this] { return Csi({"probe", "--wait", "20"}); });
  const auto await_two_more = [this, &result] {
    const std::size_t before = driver_.script().Requests<csi::v1::ProbeRequest>().size();
    while (driver_.script().Requests<csi::v1::ProbeRequest>().size() < before + 2 &&
           result.wait_for(std::chrono::milliseconds(10)) == std::future_status::timeout) {
    }
  };
  await_two_more();
  driver_.script().Fail<csi::v1::ProbeResponse>(grpc::StatusCode::DEADLINE_EXCEEDED, "its backend is slow");
  await_two_more();
  ReplyReady(true);
  EXPECT_EQ(result.get().out, "ready\n");
}

TEST_F(CsiAnswersTest, LivenessAcceptsAnyAnswer) {
  EXPECT_EQ(Csi({"probe", "--liveness"}).out, "alive, ready\n");
  ReplyReady(false);
  Result result = Csi({"probe", "--liveness", "--wait", "20"});
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_EQ(result.out, "alive, not ready\n");
  driver_.script().Fail<csi::v1::ProbeResponse>(grpc::StatusCode::FAILED_PRECONDITION, "no loop devices");
  result = Csi({"probe", "--liveness", "--wait", "20"});
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_EQ(result.out, "alive, not ready: Probe: FAILED_PRECONDITION (9): no loop devices\n");
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(Csi({"probe", "--liveness", "--json"}).out,
            "{\"rpc\":\"Probe\",\"code\":9,\"code_name\":\"FAILED_PRECONDITION\",\"message\":\"no loop devices\"}\n");
}

// The codes that gRPC uses if there is no answer, but from the driver itself.
TEST_F(CsiAnswersTest, LivenessRefusesErrorsOfTheTransport) {
  for (const grpc::StatusCode code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::DEADLINE_EXCEEDED}) {
    driver_.script().Fail<csi::v1::ProbeResponse>(code, "its backend is slow");
    const Result result = Csi({"probe", "--liveness"});
    EXPECT_EQ(result.status, kExitOk) << result.err;
    EXPECT_THAT(result.out, HasSubstr("its backend is slow"));
  }
  driver_.script().SetDelay(std::chrono::milliseconds(1000));
  Result result = Csi({"probe", "--liveness", "--timeout", "0.2"});
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_THAT(result.err, HasSubstr("no answer within 0.2 s"));
  driver_.Stop();
  result = Csi({"probe", "--liveness"});
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_THAT(result.err, HasSubstr("there is no socket at"));
  EXPECT_EQ(Csi({"probe", "--liveness", "--wait", "0.2"}).status, kExitFailed);
}

TEST_F(CsiAnswersTest, CapabilitiesCallOnlyExistingServices) {
  csi::v1::NodeGetCapabilitiesResponse node;
  node.add_capabilities()->mutable_rpc()->set_type(csi::v1::NodeServiceCapability::RPC::STAGE_UNSTAGE_VOLUME);
  driver_.script().Reply(node);
  EXPECT_EQ(Csi({"capabilities"}).out, "SERVICE  CAPABILITY\nnode     STAGE_UNSTAGE_VOLUME\n");
  EXPECT_TRUE(driver_.script().Requests<csi::v1::ControllerGetCapabilitiesRequest>().empty());
  EXPECT_TRUE(driver_.script().Requests<csi::v1::GroupControllerGetCapabilitiesRequest>().empty());
}

TEST_F(CsiAnswersTest, CapabilitiesOfAController) {
  csi::v1::GetPluginCapabilitiesResponse plugin;
  plugin.add_capabilities()->mutable_service()->set_type(csi::v1::PluginCapability::Service::CONTROLLER_SERVICE);
  plugin.add_capabilities()->mutable_service()->set_type(csi::v1::PluginCapability::Service::GROUP_CONTROLLER_SERVICE);
  driver_.script().Reply(plugin);
  csi::v1::ControllerGetCapabilitiesResponse controller;
  controller.add_capabilities()->mutable_rpc()->set_type(csi::v1::ControllerServiceCapability::RPC::LIST_VOLUMES);
  driver_.script().Reply(controller);
  driver_.script().Fail<csi::v1::NodeGetCapabilitiesResponse>(grpc::StatusCode::UNIMPLEMENTED, "");
  EXPECT_EQ(Csi({"capabilities"}).out,
            "SERVICE     CAPABILITY\n"
            "plugin      CONTROLLER_SERVICE\n"
            "plugin      GROUP_CONTROLLER_SERVICE\n"
            "controller  LIST_VOLUMES\n");
  const auto json = ParseJsonLine(Csi({"capabilities", "--json"}).out);
  EXPECT_EQ(json.fields().count("controller"), 1u);
  EXPECT_EQ(json.fields().count("group_controller"), 1u);
  EXPECT_EQ(json.fields().count("node"), 0u);
}

TEST_F(CsiAnswersTest, CreateShowsTheVolume) {
  csi::v1::CreateVolumeResponse response;
  *response.mutable_volume() = AVolume("vol-1");
  (*response.mutable_volume()->mutable_volume_context())["backend"] = "image";
  (*response.mutable_volume()->add_accessible_topology()->mutable_segments())["node"] = "a";
  driver_.script().Reply(response);
  EXPECT_EQ(Csi({"create", "v"}).out,
            "id        vol-1\n"
            "capacity  1.0 GiB (1073741824)\n"
            "context   backend=image\n"
            "topology  node=a\n");
  const auto json = ParseJsonLine(Csi({"create", "v", "--json"}).out).fields().at("volume").struct_value().fields();
  EXPECT_EQ(json.at("capacity_bytes").string_value(), "1073741824");
  EXPECT_EQ(json.at("volume_context").struct_value().fields().at("backend").string_value(), "image");
}

TEST_F(CsiAnswersTest, ListFetchesEveryPage) {
  driver_.script().Reply(APage({"a", "b"}, "2"));
  driver_.script().Reply(APage({}, "3"));
  driver_.script().Reply(APage({"c"}, ""));
  EXPECT_EQ(Csi({"list"}).out,
            "ID  CAPACITY              PUBLISHED ON  CONDITION\n"
            "a   1.0 GiB (1073741824)  -             -\n"
            "b   1.0 GiB (1073741824)  -             -\n"
            "c   1.0 GiB (1073741824)  -             -\n");
  const auto requests = driver_.script().Requests<csi::v1::ListVolumesRequest>();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1].starting_token(), "2");
  EXPECT_EQ(requests[2].starting_token(), "3");
}

TEST_F(CsiAnswersTest, OnePageEndsWithAHint) {
  driver_.script().Reply(APage({"a"}, "next\n"));
  EXPECT_THAT(Csi({"list", "--max-entries", "1"}).out, HasSubstr("\nmore with --token next\\n\n"));
  EXPECT_EQ(ParseJsonLine(Csi({"list", "--max-entries", "1", "--json"}).out).fields().at("next_token").string_value(),
            "next\n");
}

TEST_F(CsiAnswersTest, RepeatedTokenEndsTheList) {
  driver_.script().Reply(APage({"a"}, "2"));
  const Result result = Csi({"list"});
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_EQ(result.err, "mooring: the driver gave the same next_token twice\n");
  EXPECT_EQ(ParseJsonLine(Csi({"list", "--json"}).out).fields().at("code_name").string_value(), "INTERNAL");
}

TEST_F(CsiAnswersTest, GetShowsConditionAndNodes) {
  csi::v1::ControllerGetVolumeResponse response;
  *response.mutable_volume() = AVolume("vol-1");
  response.mutable_status()->add_published_node_ids("a");
  response.mutable_status()->add_published_node_ids("b");
  response.mutable_status()->mutable_volume_condition()->set_abnormal(true);
  response.mutable_status()->mutable_volume_condition()->set_message("gone");
  driver_.script().Reply(response);
  EXPECT_THAT(Csi({"get", "vol-1"}).out, HasSubstr("published on  a, b\ncondition     abnormal: gone\n"));
}

TEST_F(CsiAnswersTest, StatsAreATable) {
  csi::v1::NodeGetVolumeStatsResponse response;
  csi::v1::VolumeUsage& bytes = *response.add_usage();
  bytes.set_unit(csi::v1::VolumeUsage::BYTES);
  bytes.set_total(1000 << 20);
  bytes.set_used(1 << 20);
  bytes.set_available(899 << 20);
  csi::v1::VolumeUsage& inodes = *response.add_usage();
  inodes.set_unit(csi::v1::VolumeUsage::INODES);
  inodes.set_total(65536);
  inodes.set_used(11);
  inodes.set_available(65525);
  response.mutable_volume_condition();
  driver_.script().Reply(response);
  EXPECT_EQ(Csi({"stats", "v", "--path", "/t"}).out,
            "UNIT    TOTAL                    USED               AVAILABLE              USE\n"
            "BYTES   1000.0 MiB (1048576000)  1.0 MiB (1048576)  899.0 MiB (942669824)  1%\n"
            "INODES  65536                    11                 65525                  1%\n"
            "condition  ok\n");
}

TEST_F(CsiAnswersTest, ExpandShowsNodeExpansion) {
  csi::v1::ControllerExpandVolumeResponse response;
  response.set_capacity_bytes(2LL << 30);
  response.set_node_expansion_required(true);
  driver_.script().Reply(response);
  EXPECT_EQ(Csi({"expand", "v", "--size", "2GiB"}).out,
            "capacity        2.0 GiB (2147483648)\n"
            "node expansion  required: run node-expand\n");
}

TEST_F(CsiAnswersTest, ValidateSetsTheExitStatus) {
  csi::v1::ValidateVolumeCapabilitiesResponse response;
  response.set_message("no block here");
  driver_.script().Reply(response);
  const Result result = Csi({"validate", "v", "--block"});
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_EQ(result.out, "confirmed  no\nmessage    no block here\n");
}

TEST_F(CsiAnswersTest, JsonShowsFieldsThatAreZero) {
  EXPECT_EQ(Csi({"node-info", "--json"}).out, "{\"node_id\":\"\",\"max_volumes_per_node\":\"0\"}\n");
  EXPECT_EQ(Csi({"delete", "v", "--json"}).out, "{}\n");
}

TEST_F(CsiAnswersTest, SnapshotsShowTheirTimes) {
  csi::v1::ListSnapshotsResponse response;
  csi::v1::Snapshot& good = *response.add_entries()->mutable_snapshot();
  good.set_snapshot_id("s");
  good.set_source_volume_id("v");
  good.set_ready_to_use(true);
  good.mutable_creation_time()->set_seconds(1700000000);
  csi::v1::Snapshot& absurd = *response.add_entries()->mutable_snapshot();
  absurd.mutable_creation_time()->set_seconds(std::numeric_limits<std::int64_t>::max());
  driver_.script().Reply(response);
  EXPECT_EQ(Csi({"snapshot", "list"}).out,
            "ID  VOLUME  SIZE     CREATED                      READY  GROUP\n"
            "s   v       unknown  2023-11-14T22:13:20Z         yes    -\n"
            "-   -       unknown  9223372036854775807 s, 0 ns  no     -\n");
  const Result json = Csi({"snapshot", "list", "--json"});
  EXPECT_EQ(json.status, kExitFailed);
  EXPECT_THAT(json.err, HasSubstr("convert the answer to JSON"));
}

}  // namespace
}  // namespace mooring::cli

// Each call of the manager to a controller, when the host that makes it for another host dies. The answer of its
// successor arrives. The plugin has done the work once or twice, with the same effect.
#include <ostream>

#include "tests/manager/requests/requests_fixture.h"

namespace mooring::manager {
namespace {

using SomeHost = SharingHost;

struct SharedCall {
  const char* name;
  void (*prepare)(FakeCsiVolumes& volumes);
  absl::Status (*call)(SomeHost& host);  // checks the answer, too
  bool (*is_done)(FakeCsiVolumes& volumes);
};
void PrintTo(const SharedCall& call, std::ostream* out) { *out << call.name; }

constexpr std::int64_t kLarge = std::int64_t{5} << 30;

void AddVolume(FakeCsiVolumes& volumes) { volumes.Add("v"); }

void AddSnapshot(FakeCsiVolumes& volumes) {
  volumes.Add("v");
  csi::v1::CreateSnapshotRequest request;
  request.set_source_volume_id("v");
  request.set_name("s");
  csi::v1::CreateSnapshotResponse response;
  ASSERT_OK(volumes.CreateSnapshot(request, response));
  ASSERT_EQ(response.snapshot().snapshot_id(), "snap-1");
}

int Snapshots(FakeCsiVolumes& volumes) {
  csi::v1::ListSnapshotsResponse response;
  EXPECT_OK(volumes.ListSnapshots(response));
  return response.entries_size();
}

csi::v1::ControllerPublishVolumeRequest Publish() {
  csi::v1::ControllerPublishVolumeRequest request;
  request.set_volume_id("v");
  request.set_node_id("node-1");
  request.mutable_volume_capability()->mutable_mount();
  return request;
}

absl::Status Expect(bool holds) { return holds ? absl::OkStatus() : Internal("the answer is wrong"); }

const SharedCall kCalls[] = {
    {"CreateVolume", [](FakeCsiVolumes&) {},
     [](SomeHost& host) -> absl::Status {
       MOORING_ASSIGN_OR_RETURN(const auto answer, host.Call(Create("db")));
       return Expect(answer.volume().volume_id() == "vol-1");
     },
     [](FakeCsiVolumes& volumes) { return volumes.Ids() == std::vector<std::string>{"vol-1"}; }},
    {"DeleteVolume", AddVolume,
     [](SomeHost& host) {
       csi::v1::DeleteVolumeRequest request;
       request.set_volume_id("v");
       return host.Call(request).status();
     },
     [](FakeCsiVolumes& volumes) { return volumes.Ids().empty(); }},
    {"ControllerPublishVolume", AddVolume,
     [](SomeHost& host) -> absl::Status {
       MOORING_ASSIGN_OR_RETURN(const auto answer, host.Call(Publish()));
       return Expect(answer.publish_context().at("device") == "/dev/fake-v");
     },
     [](FakeCsiVolumes& volumes) { return volumes.Find("v")->attached == std::set<std::string>{"node-1"}; }},
    {"ControllerUnpublishVolume",
     [](FakeCsiVolumes& volumes) {
       volumes.Add("v");
       csi::v1::ControllerPublishVolumeResponse response;
       ASSERT_OK(volumes.Attach(Publish(), response));
     },
     [](SomeHost& host) {
       csi::v1::ControllerUnpublishVolumeRequest request;
       request.set_volume_id("v");
       request.set_node_id("node-1");
       return host.Call(request).status();
     },
     [](FakeCsiVolumes& volumes) { return volumes.Find("v")->attached.empty(); }},
    {"ControllerExpandVolume", AddVolume,
     [](SomeHost& host) -> absl::Status {
       csi::v1::ControllerExpandVolumeRequest request;
       request.set_volume_id("v");
       request.mutable_capacity_range()->set_required_bytes(kLarge);
       MOORING_ASSIGN_OR_RETURN(const auto answer, host.Call(request));
       return Expect(answer.capacity_bytes() == kLarge && answer.node_expansion_required());
     },
     [](FakeCsiVolumes& volumes) { return volumes.Find("v")->bytes == kLarge; }},
    {"ValidateVolumeCapabilities", AddVolume,
     [](SomeHost& host) -> absl::Status {
       csi::v1::ValidateVolumeCapabilitiesRequest request;
       request.set_volume_id("v");
       request.add_volume_capabilities()->mutable_block();
       MOORING_ASSIGN_OR_RETURN(const auto answer, host.Call(request));
       return Expect(answer.confirmed().volume_capabilities_size() == 1);
     },
     [](FakeCsiVolumes&) { return true; }},
    {"CreateSnapshot", AddVolume,
     [](SomeHost& host) -> absl::Status {
       csi::v1::CreateSnapshotRequest request;
       request.set_source_volume_id("v");
       request.set_name("s");
       MOORING_ASSIGN_OR_RETURN(const auto answer, host.Call(request));
       return Expect(answer.snapshot().snapshot_id() == "snap-1" && answer.snapshot().ready_to_use());
     },
     [](FakeCsiVolumes& volumes) { return Snapshots(volumes) == 1; }},
    {"DeleteSnapshot", AddSnapshot,
     [](SomeHost& host) {
       csi::v1::DeleteSnapshotRequest request;
       request.set_snapshot_id("snap-1");
       return host.Call(request).status();
     },
     [](FakeCsiVolumes& volumes) { return Snapshots(volumes) == 0; }},
    {"ListSnapshots", AddSnapshot,
     [](SomeHost& host) -> absl::Status {
       MOORING_ASSIGN_OR_RETURN(const auto answer, host.Call(csi::v1::ListSnapshotsRequest()));
       return Expect(answer.entries_size() == 1 && answer.entries(0).snapshot().snapshot_id() == "snap-1");
     },
     [](FakeCsiVolumes& volumes) { return Snapshots(volumes) == 1; }},
};

class WorkerDeathTest : public RequestsFixture, public ::testing::WithParamInterface<SharedCall> {
 protected:
  WorkerDeathTest() {
    GetParam().prepare(*volumes_);
    StartBoth();  // "a" comes first, so its turn is first
  }

  // How often each host has made the call.
  std::pair<int, int> Made() { return {plugin_a_->Count(GetParam().name), plugin_b_->Count(GetParam().name)}; }

  void ExpectDone() {
    EXPECT_TRUE(GetParam().is_done(*volumes_));
    EXPECT_TRUE(NothingIsLeft());
    EXPECT_EQ(b_->sharing->metrics().worked.retaken, 1U);
  }
};

TEST_P(WorkerDeathTest, BeforeTheCall) {
  a_.state.OnCommit(nullptr, [this](const Transaction& made) {
    if (TakesRequest(made)) a_.Die();
  });
  EXPECT_OK(GetParam().call(c_.sharing_host));
  EXPECT_EQ(Made(), std::make_pair(0, 1));
  ExpectDone();
}

TEST_P(WorkerDeathTest, DuringTheCall) {
  plugin_a_->Hang(GetParam().name);
  auto answered = std::async(std::launch::async, [this] { return GetParam().call(c_.sharing_host); });
  ASSERT_TRUE(plugin_a_->WaitForCalls(GetParam().name, 1));
  a_.Die();
  EXPECT_OK(answered.get());
  plugin_a_->Release();  // the call of the dead host takes effect after that of its successor
  EXPECT_TRUE(WaitUntil([this] { return a_->sharing->metrics().worked.dropped == 1; }));
  EXPECT_EQ(Made(), std::make_pair(1, 1));
  ExpectDone();
}

TEST_P(WorkerDeathTest, BetweenTheCallAndTheAnswer) {
  a_.state.OnCommit(
      [this](const Transaction& next) {
        if (AnswersRequest(next)) a_.Die();
      },
      nullptr);
  EXPECT_OK(GetParam().call(c_.sharing_host));
  EXPECT_EQ(Made(), std::make_pair(1, 1));
  ExpectDone();
}

INSTANTIATE_TEST_SUITE_P(Calls, WorkerDeathTest, ::testing::ValuesIn(kCalls),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace mooring::manager

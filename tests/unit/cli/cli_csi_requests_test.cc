// The requests of every command of `mooring csi`, field by field, as a fake driver receives them.
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "cli/run.h"
#include "csi.pb.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/run_mooring.h"

namespace mooring::cli {
namespace {

class CsiRequestsTest : public ::testing::Test {
 protected:
  // `mooring csi <arguments>` must succeed, silently on stderr.
  void Csi(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"csi", "--endpoint", driver_.endpoint()});
    const Result result = Mooring(arguments);
    EXPECT_EQ(result.status, kExitOk) << result.err;
    EXPECT_EQ(result.err, "");
  }

  // The one request of its type that was sent is exactly `text`.
  template <typename Request>
  void ExpectSent(const std::string& text) {
    Request expected;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected));
    const std::vector<Request> sent = driver_.script().Requests<Request>();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(sent[0], expected)) << sent[0].DebugString();
  }

  FakeServer driver_;
};

TEST_F(CsiRequestsTest, CreateWithDefaults) {
  Csi({"create", "v"});
  ExpectSent<csi::v1::CreateVolumeRequest>(
      R"(name: "v" volume_capabilities { mount {} access_mode { mode: SINGLE_NODE_WRITER } })");
}

TEST_F(CsiRequestsTest, CreateWithEverything) {
  Csi({"create",
       "--size",
       "1GiB",
       "--limit=2GiB",
       "--fs-type",
       "xfs",
       "--access",
       "single-node-single-writer",
       "--access",
       "multi-node-reader-only",
       "--mount-flag",
       "noatime",
       "--mount-flag",
       "[a,b]",
       "--mount-group",
       "1000",
       "--param",
       "a=b=c",
       "--param",
       "d=",
       "--mutable-param",
       "iops=5",
       "--secret",
       "k=s",
       "--topology",
       "zone=a,rack=1",
       "--topology",
       "zone=b",
       "--preferred-topology",
       "zone=b",
       "--from-snapshot",
       "snap-1",
       "v"});
  ExpectSent<csi::v1::CreateVolumeRequest>(R"(
      name: "v"
      capacity_range { required_bytes: 1073741824 limit_bytes: 2147483648 }
      volume_capabilities {
        mount { fs_type: "xfs" mount_flags: "noatime" mount_flags: "[a,b]" volume_mount_group: "1000" }
        access_mode { mode: SINGLE_NODE_SINGLE_WRITER }
      }
      volume_capabilities {
        mount { fs_type: "xfs" mount_flags: "noatime" mount_flags: "[a,b]" volume_mount_group: "1000" }
        access_mode { mode: MULTI_NODE_READER_ONLY }
      }
      parameters { key: "a" value: "b=c" }
      parameters { key: "d" value: "" }
      mutable_parameters { key: "iops" value: "5" }
      secrets { key: "k" value: "s" }
      volume_content_source { snapshot { snapshot_id: "snap-1" } }
      accessibility_requirements {
        requisite { segments { key: "rack" value: "1" } segments { key: "zone" value: "a" } }
        requisite { segments { key: "zone" value: "b" } }
        preferred { segments { key: "zone" value: "b" } }
      })");
}

TEST_F(CsiRequestsTest, CreateOfABlockVolumeFromAnother) {
  Csi({"create", "v", "--block", "--from-volume", "w"});
  ExpectSent<csi::v1::CreateVolumeRequest>(R"(
      name: "v"
      volume_capabilities { block {} access_mode { mode: SINGLE_NODE_WRITER } }
      volume_content_source { volume { volume_id: "w" } })");
}

TEST_F(CsiRequestsTest, Delete) {
  Csi({"delete", "v", "--secret", "k=s"});
  ExpectSent<csi::v1::DeleteVolumeRequest>(R"(volume_id: "v" secrets { key: "k" value: "s" })");
}

TEST_F(CsiRequestsTest, IdWithADash) {
  Csi({"get", "--", "-v"});
  ExpectSent<csi::v1::ControllerGetVolumeRequest>(R"(volume_id: "-v")");
}

TEST_F(CsiRequestsTest, IdLikeACommand) {
  Csi({"delete", "list"});
  ExpectSent<csi::v1::DeleteVolumeRequest>(R"(volume_id: "list")");
}

TEST_F(CsiRequestsTest, ListOfOnePage) {
  Csi({"list", "--max-entries", "3", "--token", "t"});
  ExpectSent<csi::v1::ListVolumesRequest>(R"(max_entries: 3 starting_token: "t")");
}

TEST_F(CsiRequestsTest, CapacityOfAll) {
  Csi({"capacity"});
  ExpectSent<csi::v1::GetCapacityRequest>("");
}

TEST_F(CsiRequestsTest, CapacityWithACapability) {
  Csi({"capacity", "--block", "--param", "a=b", "--topology", "zone=a,rack=1"});
  ExpectSent<csi::v1::GetCapacityRequest>(R"(
      volume_capabilities { block {} access_mode { mode: SINGLE_NODE_WRITER } }
      parameters { key: "a" value: "b" }
      accessible_topology { segments { key: "zone" value: "a" } segments { key: "rack" value: "1" } })");
}

TEST_F(CsiRequestsTest, Validate) {
  csi::v1::ValidateVolumeCapabilitiesResponse confirmed;
  confirmed.mutable_confirmed();
  driver_.script().Reply(confirmed);
  Csi({"validate", "v", "--access", "multi-node-multi-writer", "--volume-context", "a=b", "--param", "c=d",
       "--mutable-param", "e=f", "--secret", "k=s"});
  ExpectSent<csi::v1::ValidateVolumeCapabilitiesRequest>(R"(
      volume_id: "v"
      volume_context { key: "a" value: "b" }
      volume_capabilities { mount {} access_mode { mode: MULTI_NODE_MULTI_WRITER } }
      parameters { key: "c" value: "d" }
      mutable_parameters { key: "e" value: "f" }
      secrets { key: "k" value: "s" })");
}

TEST_F(CsiRequestsTest, ControllerPublishAndUnpublish) {
  Csi({"controller-publish", "v", "--node", "n", "--read-only", "--volume-context", "a=b", "--secret", "k=s"});
  ExpectSent<csi::v1::ControllerPublishVolumeRequest>(R"(
      volume_id: "v" node_id: "n" readonly: true
      volume_capability { mount {} access_mode { mode: SINGLE_NODE_WRITER } }
      volume_context { key: "a" value: "b" }
      secrets { key: "k" value: "s" })");
  Csi({"controller-unpublish", "v", "--node", "n", "--secret", "k=s"});
  ExpectSent<csi::v1::ControllerUnpublishVolumeRequest>(
      R"(volume_id: "v" node_id: "n" secrets { key: "k" value: "s" })");
}

TEST_F(CsiRequestsTest, ControllerUnpublishFromEveryNode) {
  Csi({"controller-unpublish", "v"});
  ExpectSent<csi::v1::ControllerUnpublishVolumeRequest>(R"(volume_id: "v")");
}

TEST_F(CsiRequestsTest, StageAndUnstage) {
  Csi({"stage", "v", "--staging-path", "/s", "--fs-type", "ext4", "--mount-flag", "noatime", "--mount-group", "7",
       "--publish-context", "a=b", "--volume-context", "c=d", "--secret", "k=s"});
  ExpectSent<csi::v1::NodeStageVolumeRequest>(R"(
      volume_id: "v" staging_target_path: "/s"
      volume_capability {
        mount { fs_type: "ext4" mount_flags: "noatime" volume_mount_group: "7" }
        access_mode { mode: SINGLE_NODE_WRITER }
      }
      publish_context { key: "a" value: "b" }
      volume_context { key: "c" value: "d" }
      secrets { key: "k" value: "s" })");
  Csi({"unstage", "v", "--staging-path", "/s"});
  ExpectSent<csi::v1::NodeUnstageVolumeRequest>(R"(volume_id: "v" staging_target_path: "/s")");
}

TEST_F(CsiRequestsTest, PublishAndUnpublish) {
  Csi({"publish", "v", "--target-path", "/t", "--staging-path", "/s", "--read-only", "--block", "--access",
       "single-node-multi-writer", "--publish-context", "a=b", "--volume-context", "c=d", "--secret", "k=s"});
  ExpectSent<csi::v1::NodePublishVolumeRequest>(R"(
      volume_id: "v" target_path: "/t" staging_target_path: "/s" readonly: true
      volume_capability { block {} access_mode { mode: SINGLE_NODE_MULTI_WRITER } }
      publish_context { key: "a" value: "b" }
      volume_context { key: "c" value: "d" }
      secrets { key: "k" value: "s" })");
  Csi({"unpublish", "v", "--target-path", "/t"});
  ExpectSent<csi::v1::NodeUnpublishVolumeRequest>(R"(volume_id: "v" target_path: "/t")");
}

TEST_F(CsiRequestsTest, PathsAreSentUnchanged) {
  Csi({"unpublish", "v", "--target-path", "rel/../x//y/"});
  ExpectSent<csi::v1::NodeUnpublishVolumeRequest>(R"(volume_id: "v" target_path: "rel/../x//y/")");
}

TEST_F(CsiRequestsTest, Stats) {
  Csi({"stats", "v", "--path", "/t", "--staging-path", "/s"});
  ExpectSent<csi::v1::NodeGetVolumeStatsRequest>(R"(volume_id: "v" volume_path: "/t" staging_target_path: "/s")");
}

TEST_F(CsiRequestsTest, Expand) {
  Csi({"expand", "v", "--size", "2GiB"});
  ExpectSent<csi::v1::ControllerExpandVolumeRequest>(R"(volume_id: "v" capacity_range { required_bytes: 2147483648 })");
}

TEST_F(CsiRequestsTest, ExpandWithEverything) {
  Csi({"expand", "v", "--size", "1", "--limit", "2", "--block", "--secret", "k=s"});
  ExpectSent<csi::v1::ControllerExpandVolumeRequest>(R"(
      volume_id: "v" capacity_range { required_bytes: 1 limit_bytes: 2 }
      volume_capability { block {} access_mode { mode: SINGLE_NODE_WRITER } }
      secrets { key: "k" value: "s" })");
}

TEST_F(CsiRequestsTest, NodeExpand) {
  Csi({"node-expand", "v", "--path", "/t"});
  ExpectSent<csi::v1::NodeExpandVolumeRequest>(R"(volume_id: "v" volume_path: "/t")");
}

TEST_F(CsiRequestsTest, NodeExpandWithEverything) {
  Csi({"node-expand", "v", "--path", "/t", "--size", "2KiB", "--staging-path", "/s", "--fs-type", "xfs", "--secret",
       "k=s"});
  ExpectSent<csi::v1::NodeExpandVolumeRequest>(R"(
      volume_id: "v" volume_path: "/t" staging_target_path: "/s" capacity_range { required_bytes: 2048 }
      volume_capability { mount { fs_type: "xfs" } access_mode { mode: SINGLE_NODE_WRITER } }
      secrets { key: "k" value: "s" })");
}

TEST_F(CsiRequestsTest, Modify) {
  Csi({"modify", "v", "--mutable-param", "iops=5", "--mutable-param", "x=", "--secret", "k=s"});
  ExpectSent<csi::v1::ControllerModifyVolumeRequest>(R"(
      volume_id: "v"
      mutable_parameters { key: "iops" value: "5" }
      mutable_parameters { key: "x" value: "" }
      secrets { key: "k" value: "s" })");
}

TEST_F(CsiRequestsTest, Snapshots) {
  Csi({"snapshot", "create", "s", "--volume", "v", "--param", "a=b", "--secret", "k=s"});
  ExpectSent<csi::v1::CreateSnapshotRequest>(R"(
      name: "s" source_volume_id: "v" parameters { key: "a" value: "b" } secrets { key: "k" value: "s" })");
  Csi({"snapshot", "delete", "s", "--secret", "k=s"});
  ExpectSent<csi::v1::DeleteSnapshotRequest>(R"(snapshot_id: "s" secrets { key: "k" value: "s" })");
  Csi({"snapshot", "get", "s"});
  ExpectSent<csi::v1::GetSnapshotRequest>(R"(snapshot_id: "s")");
  Csi({"snapshot", "list", "--volume", "v", "--snapshot", "s", "--max-entries", "1", "--token", "t"});
  ExpectSent<csi::v1::ListSnapshotsRequest>(
      R"(max_entries: 1 starting_token: "t" source_volume_id: "v" snapshot_id: "s")");
}

TEST_F(CsiRequestsTest, GroupSnapshots) {
  Csi({"group-snapshot", "create", "g", "--volume", "v", "--volume", "w", "--param", "a=b"});
  ExpectSent<csi::v1::CreateVolumeGroupSnapshotRequest>(
      R"(name: "g" source_volume_ids: "v" source_volume_ids: "w" parameters { key: "a" value: "b" })");
  Csi({"group-snapshot", "get", "g", "--snapshot", "s", "--secret", "k=s"});
  ExpectSent<csi::v1::GetVolumeGroupSnapshotRequest>(
      R"(group_snapshot_id: "g" snapshot_ids: "s" secrets { key: "k" value: "s" })");
  Csi({"group-snapshot", "delete", "g", "--snapshot", "s", "--snapshot", "u"});
  ExpectSent<csi::v1::DeleteVolumeGroupSnapshotRequest>(
      R"(group_snapshot_id: "g" snapshot_ids: "s" snapshot_ids: "u")");
}

TEST_F(CsiRequestsTest, SecretsOfFileAndCommandLineAreMerged) {
  const std::string file = driver_.directory() + "/secrets";
  std::ofstream(file) << "user=admin\npassword=x y\n";
  Csi({"delete", "v", "--secrets-file", file.c_str(), "--secret", "k=s"});
  ExpectSent<csi::v1::DeleteVolumeRequest>(R"(
      volume_id: "v"
      secrets { key: "user" value: "admin" }
      secrets { key: "password" value: "x y" }
      secrets { key: "k" value: "s" })");
}

}  // namespace
}  // namespace mooring::cli

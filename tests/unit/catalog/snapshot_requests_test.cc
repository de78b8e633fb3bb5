// Requests about snapshots: INVALID_ARGUMENT before any look-up, and tokens at every edge.
#include "plugin/api/snapshot_requests.h"

#include "plugin/api/request_fields.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

void ExpectInvalid(const absl::Status& status, const std::string& text) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr(text));
}

TEST(SnapshotRequestsTest, ASnapshotNeedsANameAndAVolume) {
  csi::v1::CreateSnapshotRequest request;
  ExpectInvalid(ParseCreateSnapshot(request).status(), "name is missing: a snapshot");
  request.set_name("s");
  ExpectInvalid(ParseCreateSnapshot(request).status(), "source_volume_id is missing");
  request.set_source_volume_id("anything");
  EXPECT_EQ(ParseCreateSnapshot(request)->source_volume_id, "anything");
  (*request.mutable_parameters())["csi.storage.k8s.io/volumesnapshot/name"] = "n";
  EXPECT_OK(ParseCreateSnapshot(request));
  (*request.mutable_parameters())["speed"] = "high";
  ExpectInvalid(ParseCreateSnapshot(request).status(), "parameter 'speed' is unknown");
  ExpectInvalid(Required("snapshot_id", "").status(), "snapshot_id is missing");
}

TEST(SnapshotRequestsTest, AGroupNeedsANameAndItsVolumesEachOnce) {
  csi::v1::CreateVolumeGroupSnapshotRequest request;
  ExpectInvalid(ParseCreateGroup(request).status(), "name is missing: a group snapshot");
  request.set_name("g");
  ExpectInvalid(ParseCreateGroup(request).status(), "source_volume_ids is missing");
  request.add_source_volume_ids("b");
  request.add_source_volume_ids("a");
  EXPECT_THAT(ParseCreateGroup(request)->source_volume_ids, ElementsAre("b", "a"));
  request.add_source_volume_ids("b");
  ExpectInvalid(ParseCreateGroup(request).status(), "'b' is named twice");
  request.set_source_volume_ids(2, "");
  ExpectInvalid(ParseCreateGroup(request).status(), "one of them is empty");
  ExpectInvalid(ParseGetGroup({}).status(), "group_snapshot_id is missing");
  ExpectInvalid(ParseDeleteGroup({}).status(), "group_snapshot_id is missing");
}

TEST(SnapshotRequestsTest, AGroupAcceptsOnlyParametersOfItsClassAndOfTheSidecar) {
  csi::v1::CreateVolumeGroupSnapshotRequest request;
  request.set_name("g");
  request.add_source_volume_ids("a");
  auto& parameters = *request.mutable_parameters();
  parameters["deletionPolicy"] = "Delete";
  for (const char* key : {"name", "namespace"}) {
    parameters[std::string("csi.storage.k8s.io/volumegroupsnapshot/") + key] = "n";
  }
  parameters["csi.storage.k8s.io/volumegroupsnapshotcontent/name"] = "n";
  EXPECT_OK(ParseCreateGroup(request));
  parameters["deletionpolicy"] = "Delete";
  ExpectInvalid(ParseCreateGroup(request).status(), "parameter 'deletionpolicy' is unknown");
  csi::v1::CreateSnapshotRequest single;
  single.set_name("s");
  single.set_source_volume_id("a");
  (*single.mutable_parameters())["deletionPolicy"] = "Delete";
  ExpectInvalid(ParseCreateSnapshot(single).status(), "parameter 'deletionPolicy' is unknown");
}

TEST(SnapshotRequestsTest, AcceptsOnlyTokensOfThePlugin) {
  csi::v1::ListSnapshotsRequest request;
  request.set_max_entries(-1);
  ExpectInvalid(ParseListSnapshots(request).status(), "max_entries is -1");
  request.set_max_entries(2);
  for (const char* bad : {"-1", "0", "1", "4294967295", "snapshots-after-0", "snapshots-after--1", "snapshots-after-01",
                          "snapshots-after-1 ", "snapshots-after-9223372036854775808", "snapshots-after-", "snapshots",
                          "vol-1", "\xFF", " "}) {
    request.set_starting_token(bad);
    EXPECT_TRUE(absl::IsAborted(ParseListSnapshots(request).status())) << bad;
  }
  for (const std::int64_t good : {std::int64_t{1}, std::int64_t{4294967295}, std::int64_t{9223372036854775807}}) {
    request.set_starting_token(ListToken(kListSnapshots, good));
    EXPECT_EQ(ParseListSnapshots(request)->after, good);
  }
  request.set_starting_token(ListToken(kListVolumes, 1));
  EXPECT_TRUE(absl::IsAborted(ParseListSnapshots(request).status())) << "another list's";
  request.set_starting_token("");
  EXPECT_EQ(ParseListSnapshots(request)->after, 0);
}

TEST(SnapshotRequestsTest, TheAnswerHasEveryField) {
  csi::v1::VolumeGroupSnapshot group;
  SnapshotRecord member;
  member.id = "snap-1";
  member.source_volume_id = "vol-1";
  member.group_id = "group-1";
  member.bytes = 4096;
  member.created_at = 1'700'000'000'123'456'789;
  Pack(
      SnapshotSet{.id = "group-1", .name = "", .is_group = true, .state = SnapshotState::kReady, .snapshots = {member}},
      group);
  EXPECT_TRUE(group.ready_to_use());
  EXPECT_EQ(group.creation_time().nanos(), 123'456'789);
  ASSERT_EQ(group.snapshots_size(), 1);
  const csi::v1::Snapshot& snapshot = group.snapshots(0);
  EXPECT_EQ(snapshot.snapshot_id(), "snap-1");
  EXPECT_EQ(snapshot.source_volume_id(), "vol-1");
  EXPECT_EQ(snapshot.group_snapshot_id(), "group-1");
  EXPECT_EQ(snapshot.size_bytes(), 4096);
  EXPECT_EQ(snapshot.creation_time().seconds(), 1'700'000'000);
  EXPECT_TRUE(snapshot.ready_to_use());
}

}  // namespace
}  // namespace mooring::testing

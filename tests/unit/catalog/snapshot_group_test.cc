// Snapshots of several volumes: copies at one instant, all or none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::catalog_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SnapshotGroupTest : public VolumeCatalogTest {
 protected:
  GroupInfo Grouped(const std::string& name, const std::vector<std::string>& volumes) {
    const auto group = snapshots().CreateGroup({.name = name, .source_volume_ids = volumes}, Patient());
    EXPECT_TRUE(group.ok()) << group.status();
    return group.ok() ? *group : GroupInfo();
  }
  static std::vector<std::string> MembersOf(const GroupInfo& group) {
    std::vector<std::string> ids;
    for (const SnapshotInfo& snapshot : group.snapshots) ids.push_back(snapshot.id);
    return ids;
  }
};

TEST_F(SnapshotGroupTest, AGroupIsOneCopyOfAllItsVolumes) {
  const std::string b = Created("b"), a = Created("a");
  const GroupInfo group = Grouped("g", {b, a});
  EXPECT_TRUE(IsGroupId(group.id));
  ASSERT_THAT(group.snapshots, SizeIs(2));
  EXPECT_EQ(group.snapshots[0].source_volume_id, b);
  EXPECT_EQ(group.snapshots[1].source_volume_id, a);
  for (const SnapshotInfo& member : group.snapshots) {
    EXPECT_EQ(member.group_id, group.id);
    EXPECT_EQ(member.created_at, group.created_at);
    EXPECT_EQ(snapshots().Get(member.id)->group_id, group.id);
  }
  ASSERT_THAT(here().contents.copied(), SizeIs(1));
  EXPECT_THAT(here().contents.copied()[0], SizeIs(2));
  EXPECT_THAT(snapshots().List({})->snapshots, SizeIs(2));
  ExpectConsistent();
}

TEST_F(SnapshotGroupTest, TheSameVolumesInAnyOrderAreTheSameGroup) {
  const std::string a = Created("a"), b = Created("b"), c = Created("c");
  const GroupInfo group = Grouped("g", {a, b});
  EXPECT_EQ(MembersOf(Grouped("g", {b, a})), MembersOf(group));
  EXPECT_THAT(here().contents.copied(), SizeIs(1));
  for (const std::vector<std::string>& others : {std::vector{a}, std::vector{a, c}, std::vector{a, b, c}}) {
    ExpectStatus(snapshots().CreateGroup({.name = "g", .source_volume_ids = others}, Patient()).status(),
                 absl::StatusCode::kAlreadyExists, "of other volumes");
  }
}

TEST_F(SnapshotGroupTest, AMissingVolumeFailsTheWholeGroup) {
  const std::string a = Created("a"), missing = NewVolumeId();
  ExpectStatus(snapshots().CreateGroup({.name = "g", .source_volume_ids = {a, missing}}, Patient()).status(),
               absl::StatusCode::kNotFound, missing);
  EXPECT_THAT(snapshots().List({})->snapshots, IsEmpty());
  EXPECT_THAT(here().contents.copied(), IsEmpty());
}

TEST_F(SnapshotGroupTest, ACopyThatFailsLeavesNoMember) {
  const std::string a = Created("a"), b = Created("b");
  here().contents.failure = Unavailable("the helper has ended");
  ExpectStatus(snapshots().CreateGroup({.name = "g", .source_volume_ids = {a, b}}, Patient()).status(),
               absl::StatusCode::kUnavailable, "ended");
  EXPECT_THAT(*here().snapshot_store->AllIds(), IsEmpty());
  EXPECT_FALSE(*here().snapshot_store->FindGroupByName("g"));
  EXPECT_THAT(here().contents.thawed(), ElementsAre(Image(a), Image(b)));
}

TEST_F(SnapshotGroupTest, MembersAreNotDeletedAlone) {
  const GroupInfo group = Grouped("g", {Created("a"), Created("b")});
  ExpectStatus(snapshots().Delete(group.snapshots[0].id, Patient()), absl::StatusCode::kInvalidArgument, group.id);
  EXPECT_TRUE(snapshots().Get(group.snapshots[0].id).ok());
}

TEST_F(SnapshotGroupTest, ACallNamesAllMembersOrNone) {
  const GroupInfo group = Grouped("g", {Created("a"), Created("b")});
  const std::vector<std::string> members = MembersOf(group);
  for (const std::vector<std::string>& wrong :
       {std::vector{members[0]}, std::vector{members[0], members[1], NewSnapshotId()}, std::vector<std::string>{"x"}}) {
    const GroupSpec spec = {.id = group.id, .snapshot_ids = wrong};
    ExpectStatus(snapshots().GetGroup(spec).status(), absl::StatusCode::kInvalidArgument, "not the members");
    ExpectStatus(snapshots().DeleteGroup(spec, Patient()), absl::StatusCode::kInvalidArgument, "not the members");
  }
  EXPECT_EQ(MembersOf(*snapshots().GetGroup({.id = group.id, .snapshot_ids = {members[1], members[0]}})), members);
  EXPECT_EQ(MembersOf(*snapshots().GetGroup({.id = group.id, .snapshot_ids = {}})), members);
  EXPECT_TRUE(snapshots().DeleteGroup({.id = group.id, .snapshot_ids = members}, Patient()).ok());
  EXPECT_TRUE(snapshots().DeleteGroup({.id = group.id, .snapshot_ids = members}, Patient()).ok());
  EXPECT_TRUE(absl::IsNotFound(snapshots().GetGroup({.id = group.id, .snapshot_ids = {}}).status()));
  EXPECT_THAT(snapshots().List({})->snapshots, IsEmpty());
  ExpectConsistent();
}

TEST_F(SnapshotGroupTest, GetDoesNotFindAnUnknownGroupAndDeleteSucceeds) {
  for (const std::string& id : {std::string("x"), NewGroupId(), NewSnapshotId()}) {
    EXPECT_TRUE(absl::IsNotFound(snapshots().GetGroup({.id = id, .snapshot_ids = {"y"}}).status()));
    EXPECT_TRUE(snapshots().DeleteGroup({.id = id, .snapshot_ids = {"y"}}, Patient()).ok());
  }
}

TEST_F(SnapshotGroupTest, NoMemberIsDeletedWhileOneIsInUse) {
  const GroupInfo group = Grouped("g", {Created("a"), Created("b")});
  ASSERT_TRUE(loops_.AttachLoop({.backing_file = Image(group.snapshots[1].id), .label = "", .read_only = true}).ok());
  ExpectStatus(snapshots().DeleteGroup({.id = group.id, .snapshot_ids = {}}, Patient()),
               absl::StatusCode::kFailedPrecondition, "in use");
  EXPECT_THAT(snapshots().GetGroup({.id = group.id, .snapshot_ids = {}})->snapshots, SizeIs(2));
  EXPECT_TRUE(snapshots().Locate(group.snapshots[0].id).ok());
}

TEST_F(SnapshotGroupTest, AGroupAndASnapshotMayHaveTheSameName) {
  const std::string a = Created("a");
  const GroupInfo group = Grouped("n", {a});
  EXPECT_NE(Snapped("n", a), group.snapshots[0].id);
}

}  // namespace
}  // namespace mooring::catalog_test

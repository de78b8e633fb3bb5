// Snapshots of several volumes: copies at one instant, all or none.
#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::testing {
namespace {

class SnapshotGroupTest : public VolumeCatalogTest {
 protected:
  SnapshotSet Grouped(const std::string& name, const std::vector<std::string>& volumes) {
    const auto group = snapshots().CreateGroup({.name = name, .source_volume_ids = volumes}, Patient());
    EXPECT_OK(group);
    return group.ok() ? *group : SnapshotSet();
  }
  static std::vector<std::string> MembersOf(const SnapshotSet& group) {
    std::vector<std::string> ids;
    for (const SnapshotRecord& snapshot : group.snapshots) ids.push_back(snapshot.id);
    return ids;
  }
};

TEST_F(SnapshotGroupTest, AGroupIsOneCopyOfAllItsVolumes) {
  const std::string b = Created("b"), a = Created("a");
  const SnapshotSet group = Grouped("g", {b, a});
  EXPECT_TRUE(IsGroupId(group.id));
  ASSERT_THAT(group.snapshots, SizeIs(2));
  EXPECT_EQ(group.snapshots[0].source_volume_id, b);
  EXPECT_EQ(group.snapshots[1].source_volume_id, a);
  for (const SnapshotRecord& member : group.snapshots) {
    EXPECT_EQ(member.group_id, group.id);
    EXPECT_EQ(member.created_at, group.snapshots.front().created_at);
    EXPECT_EQ(snapshots().Get(member.id)->group_id, group.id);
  }
  ASSERT_THAT(here().contents.copied(), SizeIs(1));
  EXPECT_THAT(here().contents.copied()[0], SizeIs(2));
  EXPECT_THAT(snapshots().List({})->snapshots, SizeIs(2));
  ExpectConsistent();
}

TEST_F(SnapshotGroupTest, TheSameVolumesInAnyOrderAreTheSameGroup) {
  const std::string a = Created("a"), b = Created("b"), c = Created("c");
  const SnapshotSet group = Grouped("g", {a, b});
  EXPECT_EQ(MembersOf(Grouped("g", {b, a})), MembersOf(group));
  EXPECT_THAT(here().contents.copied(), SizeIs(1));
  for (const std::vector<std::string>& others : {std::vector{a}, std::vector{a, c}, std::vector{a, b, c}}) {
    EXPECT_THAT(snapshots().CreateGroup({.name = "g", .source_volume_ids = others}, Patient()),
                FailsWith(StatusCode::kAlreadyExists, "of other volumes"));
  }
}

TEST_F(SnapshotGroupTest, ACopyThatFailsLeavesNoMember) {
  const std::string a = Created("a"), b = Created("b");
  here().contents.failure = Unavailable("the helper has ended");
  EXPECT_THAT(snapshots().CreateGroup({.name = "g", .source_volume_ids = {a, b}}, Patient()),
              FailsWith(StatusCode::kUnavailable, "ended"));
  EXPECT_THAT(*here().snapshot_store->AllIds(), IsEmpty());
  EXPECT_FALSE(*here().snapshot_store->FindGroupByName("g"));
  EXPECT_THAT(here().contents.thawed(), ElementsAre(Image(a), Image(b)));
}

TEST_F(SnapshotGroupTest, ACallNamesAllMembersOrNone) {
  const SnapshotSet group = Grouped("g", {Created("a"), Created("b")});
  const std::vector<std::string> members = MembersOf(group);
  for (const std::vector<std::string>& wrong :
       {std::vector{members[0]}, std::vector{members[0], members[1], NewSnapshotId()}, std::vector<std::string>{"x"}}) {
    const GroupSpec spec = {.id = group.id, .snapshot_ids = wrong};
    EXPECT_THAT(snapshots().GetGroup(spec), FailsWith(StatusCode::kInvalidArgument, "not the members"));
    EXPECT_THAT(snapshots().DeleteGroup(spec, Patient()), FailsWith(StatusCode::kInvalidArgument, "not the members"));
  }
  EXPECT_EQ(MembersOf(*snapshots().GetGroup({.id = group.id, .snapshot_ids = {members[1], members[0]}})), members);
  EXPECT_EQ(MembersOf(*snapshots().GetGroup({.id = group.id, .snapshot_ids = {}})), members);
  EXPECT_OK(snapshots().DeleteGroup({.id = group.id, .snapshot_ids = members}, Patient()));
  EXPECT_OK(snapshots().DeleteGroup({.id = group.id, .snapshot_ids = members}, Patient()));
  EXPECT_TRUE(absl::IsNotFound(snapshots().GetGroup({.id = group.id, .snapshot_ids = {}}).status()));
  EXPECT_THAT(snapshots().List({})->snapshots, IsEmpty());
  ExpectConsistent();
}

TEST_F(SnapshotGroupTest, GetDoesNotFindAnUnknownGroupAndDeleteSucceeds) {
  for (const std::string& id : {std::string("x"), NewGroupId(), NewSnapshotId()}) {
    EXPECT_TRUE(absl::IsNotFound(snapshots().GetGroup({.id = id, .snapshot_ids = {"y"}}).status()));
    EXPECT_OK(snapshots().DeleteGroup({.id = id, .snapshot_ids = {"y"}}, Patient()));
  }
}

TEST_F(SnapshotGroupTest, NoMemberIsDeletedWhileOneIsInUse) {
  const SnapshotSet group = Grouped("g", {Created("a"), Created("b")});
  loops_.Attach(Image(group.snapshots[1].id));
  EXPECT_THAT(snapshots().DeleteGroup({.id = group.id, .snapshot_ids = {}}, Patient()),
              FailsWith(StatusCode::kFailedPrecondition, "in use"));
  EXPECT_THAT(snapshots().GetGroup({.id = group.id, .snapshot_ids = {}})->snapshots, SizeIs(2));
  EXPECT_OK(snapshots().Locate(group.snapshots[0].id));
}

TEST_F(SnapshotGroupTest, AGroupAndASnapshotMayHaveTheSameName) {
  const std::string a = Created("a");
  const SnapshotSet group = Grouped("n", {a});
  EXPECT_NE(Snapped("n", a), group.snapshots[0].id);
}

}  // namespace
}  // namespace mooring::testing

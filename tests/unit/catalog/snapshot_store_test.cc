// The records of snapshots on disk.
#include "plugin/catalog/store/snapshot_store.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdlib>

#include "plugin/catalog/store/catalog_files.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

SnapshotRecord Snapshot(const std::string& id, const std::string& name, const std::string& source = "vol-a",
                        SnapshotState state = SnapshotState::kReady) {
  SnapshotRecord record;
  record.id = id;
  record.name = name;
  record.source_volume_id = source;
  record.pool = "fast";
  record.state = state;
  record.bytes = std::uint64_t{20} << 30;
  record.fs_type = "xfs";
  record.created_at = 1'700'000'000'123'456'789;
  return record;
}

SnapshotRecord Member(const std::string& id, const std::string& group, const std::string& source) {
  SnapshotRecord record = Snapshot(id, "name of " + group, source, SnapshotState::kCreating);
  record.group_id = group;
  return record;
}

GroupRecord Group(const std::string& id, const std::string& name) {
  return {.id = id, .name = name, .state = SnapshotState::kCreating, .created_at = 7};
}

class SnapshotStoreTest : public ::testing::Test {
 protected:
  SnapshotStore& store() {
    if (!store_) {
      catalog_ = *CatalogStore::Open(path());
      store_ = std::make_unique<SnapshotStore>(catalog_->files());
    }
    return *store_;
  }
  std::string path() const { return directory_ + "/catalog.db"; }
  void Reopen() {
    store_.reset();
    catalog_.reset();
  }

  std::vector<std::string> Listed(const SnapshotFilter& filter) {
    std::vector<std::string> ids;
    const std::vector<SnapshotRecord> records = *store().ListReady(filter);
    for (const SnapshotRecord& record : records) ids.push_back(record.id);
    return ids;
  }

  const TempDir scratch_;
  const std::string directory_ = scratch_.path();
  std::unique_ptr<CatalogStore> catalog_;
  std::unique_ptr<SnapshotStore> store_;
};

TEST_F(SnapshotStoreTest, RecordsSurviveARestart) {
  ASSERT_TRUE(*store().Insert(Snapshot("snap-a", "a")));
  Reopen();
  const auto found = *store().FindById("snap-a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "a");
  EXPECT_EQ(found->group_id, "");
  EXPECT_EQ(found->source_volume_id, "vol-a");
  EXPECT_EQ(found->pool, "fast");
  EXPECT_EQ(found->state, SnapshotState::kReady);
  EXPECT_EQ(found->bytes, std::uint64_t{20} << 30);
  EXPECT_EQ(found->fs_type, "xfs");
  EXPECT_EQ(found->created_at, 1'700'000'000'123'456'789);
  EXPECT_EQ((*store().FindByName("a"))->id, "snap-a");
  EXPECT_FALSE(*store().FindByName("b"));
}

TEST_F(SnapshotStoreTest, BlockAccessOnlyIsKeptWithItsSnapshot) {
  SnapshotRecord raw = Snapshot("snap-b", "b");
  raw.block_only = true;
  ASSERT_TRUE(*store().Insert(Snapshot("snap-a", "a")));
  ASSERT_TRUE(*store().Insert(raw));
  Reopen();
  EXPECT_FALSE((*store().FindById("snap-a"))->block_only);
  EXPECT_TRUE((*store().FindById("snap-b"))->block_only);
}

TEST_F(SnapshotStoreTest, ARestoreSizeIsKeptWithItsSnapshot) {
  SnapshotRecord small = Snapshot("snap-a", "first"), member = Member("snap-b", "group-1", "vol-b");
  small.restore_bytes = 4096;
  member.restore_bytes = 8192;
  ASSERT_TRUE(*store().Insert(small));
  ASSERT_TRUE(*store().Insert(Snapshot("snap-c", "second")));
  ASSERT_TRUE(*store().InsertGroup(Group("group-1", "g"), {member}));
  Reopen();
  EXPECT_EQ((*store().FindById("snap-a"))->restore_bytes, 4096U);
  EXPECT_EQ((*store().FindById("snap-b"))->restore_bytes, 8192U);
  EXPECT_EQ((*store().FindById("snap-c"))->restore_bytes, small.bytes);
}

TEST_F(SnapshotStoreTest, NamesAndIdsAreTakenOnce) {
  ASSERT_TRUE(*store().Insert(Snapshot("snap-a", "a")));
  EXPECT_FALSE(*store().Insert(Snapshot("snap-a", "b")));
  EXPECT_FALSE(*store().Insert(Snapshot("snap-b", "a")));
  EXPECT_TRUE(*store().Insert(Snapshot("snap-b", "b")));
}

TEST_F(SnapshotStoreTest, MembersShareANameThatOthersMayHave) {
  ASSERT_TRUE(*store().Insert(Snapshot("snap-x", "name of group-1")));
  ASSERT_TRUE(*store().InsertGroup(Group("group-1", "one"),
                                   {Member("snap-a", "group-1", "vol-a"), Member("snap-b", "group-1", "vol-b")}));
  EXPECT_EQ((*store().FindByName("name of group-1"))->id, "snap-x");
  EXPECT_EQ((*store().Members("group-1"))[1].source_volume_id, "vol-b");
  EXPECT_THAT(*store().Members(""), IsEmpty());
}

TEST_F(SnapshotStoreTest, AGroupIsAddedWholeOrNotAtAll) {
  ASSERT_TRUE(*store().Insert(Snapshot("snap-b", "b")));
  EXPECT_FALSE(*store().InsertGroup(Group("group-1", "one"),
                                    {Member("snap-a", "group-1", "vol-a"), Member("snap-b", "group-1", "vol-b")}));
  EXPECT_FALSE(*store().FindGroupByName("one"));
  EXPECT_FALSE(*store().FindById("snap-a"));
  ASSERT_TRUE(*store().InsertGroup(Group("group-1", "one"), {Member("snap-a", "group-1", "vol-a")}));
  EXPECT_FALSE(*store().InsertGroup(Group("group-2", "one"), {Member("snap-c", "group-2", "vol-a")}));
}

TEST_F(SnapshotStoreTest, MembersChangeStateAndAreDeletedOnlyWithTheirGroup) {
  ASSERT_TRUE(*store().InsertGroup(Group("group-1", "one"), {Member("snap-a", "group-1", "vol-a")}));
  EXPECT_FALSE(*store().Move("snap-a", SnapshotState::kCreating, SnapshotState::kReady));
  EXPECT_THAT(*store().ListUnfinished(), IsEmpty());
  EXPECT_EQ(store().ListUnfinishedGroups()->size(), 1u);
  EXPECT_TRUE(*store().Move("group-1", SnapshotState::kCreating, SnapshotState::kReady));
  EXPECT_FALSE(*store().Move("group-1", SnapshotState::kCreating, SnapshotState::kReady));
  EXPECT_EQ((*store().FindById("snap-a"))->state, SnapshotState::kReady);
  EXPECT_EQ((*store().FindGroupById("group-1"))->state, SnapshotState::kReady);
  EXPECT_THAT(*store().ListUnfinishedGroups(), IsEmpty());
  EXPECT_OK(store().Delete("group-1"));
  EXPECT_THAT(*store().AllIds(), IsEmpty());
  EXPECT_FALSE(*store().FindGroupByName("one"));
}

TEST_F(SnapshotStoreTest, ListsReadySnapshotsThatMatchTheFilter) {
  for (const char* id : {"snap-a", "snap-b", "snap-c"}) {
    ASSERT_TRUE(*store().Insert(Snapshot(id, id, id == std::string("snap-b") ? "vol-b" : "vol-a")));
  }
  ASSERT_TRUE(*store().Insert(Snapshot("snap-d", "d", "vol-a", SnapshotState::kCreating)));
  EXPECT_THAT(Listed({.most = 10}), ElementsAre("snap-a", "snap-b", "snap-c"));
  EXPECT_THAT(Listed({.most = 2}), ElementsAre("snap-a", "snap-b"));
  EXPECT_THAT(Listed({.after = 1, .most = 10}), ElementsAre("snap-b", "snap-c"));
  EXPECT_THAT(Listed({.most = 10, .source_volume_id = "vol-a"}), ElementsAre("snap-a", "snap-c"));
  EXPECT_THAT(Listed({.most = 10, .id = "snap-b"}), ElementsAre("snap-b"));
  EXPECT_THAT(Listed({.most = 10, .id = "snap-b", .source_volume_id = "vol-a"}), IsEmpty());
  EXPECT_THAT(Listed({.most = 10, .id = "snap-d"}), IsEmpty());
  EXPECT_THAT(Listed({.after = 2, .most = 10, .id = "snap-b"}), IsEmpty());
  EXPECT_THAT(*store().AllIds(), UnorderedElementsAre("snap-a", "snap-b", "snap-c", "snap-d"));
}

TEST_F(SnapshotStoreTest, SnapshotsTakeRoomInAnyState) {
  const std::uint64_t each = Snapshot("snap-a", "a").bytes;
  EXPECT_EQ(*store().BytesIn("fast"), 0U);
  ASSERT_TRUE(*store().Insert(Snapshot("snap-a", "a", "vol-a", SnapshotState::kCreating)));
  EXPECT_EQ(*store().BytesIn("fast"), each);
  ASSERT_TRUE(*store().Insert(Snapshot("snap-b", "b", "vol-a", SnapshotState::kReady)));
  ASSERT_TRUE(*store().Insert(Snapshot("snap-c", "c", "vol-a", SnapshotState::kDeleting)));
  ASSERT_TRUE(*store().InsertGroup(Group("group-1", "one"), {Member("snap-d", "group-1", "vol-a")}));
  EXPECT_EQ(*store().BytesIn("fast"), 4 * each);
  EXPECT_EQ(*store().BytesIn("slow"), 0U);
  ASSERT_OK(store().Delete("snap-c"));
  EXPECT_EQ(*store().BytesIn("fast"), 3 * each);
}

TEST_F(SnapshotStoreTest, NeverAssignsASequenceNumberTwice) {
  ASSERT_TRUE(*store().Insert(Snapshot("snap-a", "a")));
  ASSERT_OK(store().Delete("snap-a"));
  ASSERT_TRUE(*store().Insert(Snapshot("snap-b", "b")));
  EXPECT_EQ((*store().FindById("snap-b"))->seq, 2);
}

}  // namespace
}  // namespace mooring::testing

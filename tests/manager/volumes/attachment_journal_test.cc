#include "manager/volumes/attachment_journal.h"

#include "manager/state/keys.h"
#include "manager/state/sqlite_state.h"
#include "tests/manager/prelude.h"
#include "tests/manager/state/sample_records.h"

namespace mooring::manager {
namespace {

using samples::SampleMount;
class AttachmentJournalTest : public ::testing::Test {
 protected:
  std::unique_ptr<AttachmentJournal> Open(const std::string& host = "host-1") {
    auto journal = AttachmentJournal::Open(store_, host);
    EXPECT_OK(journal);
    return *std::move(journal);
  }

  TempDir directory_;
  std::unique_ptr<State> state_ = *OpenSqliteState(directory_ / "state.db");
  RecordsStore store_{*state_};
};

TEST_F(AttachmentJournalTest, StoresIntentAndCompletion) {
  const auto journal = Open();
  AttachmentRecord record = SampleMount();
  record.phase = AttachmentRecord::Phase::kIntent;
  ASSERT_OK(journal->Put(record, Durability::kSynced));
  EXPECT_EQ(record.revisions.create, 1);
  record.phase = AttachmentRecord::Phase::kMounted;
  ASSERT_OK(journal->Put(record, Durability::kOrdered));
  EXPECT_EQ(record.revisions.create, 1);
  EXPECT_EQ(record.revisions.modify, 2);
  EXPECT_EQ(journal->Find("web-1", "data")->phase, AttachmentRecord::Phase::kMounted);
}

TEST_F(AttachmentJournalTest, RestartFindsRecordsUnchanged) {
  AttachmentRecord record = SampleMount();
  ASSERT_OK(Open()->Put(record, Durability::kOrdered));
  const auto journal = Open();
  const auto found = journal->Find("web-1", "data");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->volume, record.volume);
  EXPECT_EQ(found->options, record.options);
  EXPECT_EQ(found->phase, record.phase);
  EXPECT_EQ(found->revisions.modify, record.revisions.modify);
  EXPECT_THAT(Open("host-2")->All(), SizeIs(0)) << "each host has its own";
  ASSERT_OK(journal->Remove(*found, Durability::kSynced));
  EXPECT_THAT(Open()->All(), SizeIs(0));
}

TEST_F(AttachmentJournalTest, FindsUsersOfVolume) {
  const auto journal = Open();
  for (const char* allocation : {"web-1", "web-2", "web-3"}) {
    AttachmentRecord record = SampleMount(allocation == std::string("web-3") ? "other" : "db", allocation);
    ASSERT_OK(journal->Put(record, Durability::kOrdered));
  }
  EXPECT_THAT(journal->Of({.ns = "prod", .id = "db"}), SizeIs(2));
  EXPECT_THAT(journal->Of({.ns = "prod", .id = "other"}), SizeIs(1));
  EXPECT_THAT(journal->Of({.ns = "default", .id = "db"}), SizeIs(0));
  EXPECT_THAT(journal->All(), SizeIs(3));
}

TEST_F(AttachmentJournalTest, RefusesChangeToOldRevision) {
  const auto journal = Open();
  AttachmentRecord record = SampleMount();
  ASSERT_OK(journal->Put(record, Durability::kOrdered));
  AttachmentRecord old = record;
  record.problem = "newer";
  ASSERT_OK(journal->Put(record, Durability::kOrdered));
  old.problem = "older";
  EXPECT_THAT(journal->Put(old, Durability::kOrdered), FailsWith(Code::kAborted, "revision"));
  EXPECT_THAT(journal->Remove(old, Durability::kOrdered), FailsWith(Code::kAborted, "revision"));
  EXPECT_EQ(journal->Find("web-1", "data")->problem, "newer");
}

// Its volume and mode are unknown.
TEST_F(AttachmentJournalTest, DamagedRecordUsesEachClaimOfItsAllocation) {
  const std::string key = MountStateKey("host-1", "web-1", "data");
  ASSERT_OK(state_->Commit({.compares = {}, .puts = {{key, "\xFF\xFF"}}, .deletes = {}}));
  const auto journal = Open();
  Claim claim;
  claim.volume.id = "db";
  claim.allocation = "web-1";
  EXPECT_TRUE(journal->IsUsed(claim));
  for (const char* other : {"web-10", "web", "w"}) {
    claim.allocation = other;
    EXPECT_FALSE(journal->IsUsed(claim)) << other;
    EXPECT_OK(journal->CheckReadable(other));
  }
  EXPECT_THAT(journal->CheckReadable("web-1"), FailsWith(Code::kInternal, "'" + key + "'"));
  EXPECT_THAT(journal->CheckReadable("web-1", "data"), FailsWith(Code::kInternal, "then restart the manager"));
  EXPECT_OK(journal->CheckReadable("web-1", "dat"));
  EXPECT_FALSE(journal->CheckReadable().ok());
  EXPECT_OK(Open("host-2")->CheckReadable());
}

TEST_F(AttachmentJournalTest, FindsNewestRecordOfPath) {
  const auto journal = Open();
  for (const char* allocation : {"b", "c", "a"}) {
    AttachmentRecord record = SampleMount("db", allocation);
    ASSERT_OK(journal->Put(record, Durability::kOrdered));
  }
  EXPECT_EQ(journal->FindAttached("/srv/db")->allocation, "a");
  EXPECT_FALSE(journal->FindAttached("/srv/db2").has_value());
}

}  // namespace
}  // namespace mooring::manager

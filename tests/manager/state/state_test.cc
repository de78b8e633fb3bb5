// The state in SQLite: its restarts, and the changes that it keeps in memory.
#include "manager/state/sqlite_state.h"
#include "manager/state/store_parts.h"
#include "tests/manager/state/state_fixture.h"

namespace mooring::manager {
namespace {

class SqliteStore final : public Store {
 public:
  std::unique_ptr<State> Open() override {
    auto opened = OpenSqliteState(directory_ / "state.db");
    EXPECT_OK(opened);
    return opened.ok() ? *std::move(opened) : nullptr;
  }

 private:
  TempDir directory_;
};

TEST_F(StateTest, SurvivesARestart) {
  Commit(Put("a", "1"));
  Transaction unsynced = Put("b", "1");
  unsynced.durability = Durability::kOrdered;
  Commit(unsynced);
  Reopen();
  EXPECT_EQ(Get("a"), "a=1 made 1 changed 1");
  EXPECT_EQ(Get("b"), "b=1 made 2 changed 2");
  EXPECT_EQ(Commit(Put("c", "1")), 3) << "revisions go on";
}

TEST_F(StateTest, WatchOfAForgottenRevisionIsOutOfRange) {
  for (int i = 0; i < 1001; ++i)
    Commit({.compares = {}, .puts = {{"a", std::to_string(i)}}, .deletes = {}, .durability = Durability::kOrdered});
  EXPECT_EQ(StartWatch("", 2)->Next(Soon())->size(), 1000U);
  EXPECT_THAT(StartWatch("", 1)->Next(Soon()), FailsWith(Code::kOutOfRange, "revision 1 is not kept any more"));
}

TEST_F(StateTest, SlowWatchBlocksNobodyAndLosesNothing) {
  const auto slow = StartWatch("", 1);
  for (int i = 0; i < 3000; ++i)
    Commit({.compares = {}, .puts = {{"a", std::to_string(i)}}, .deletes = {}, .durability = Durability::kOrdered});
  EXPECT_EQ(slow->Next(Soon())->size(), 3000U);
  Commit(Put("a", "last"));
  EXPECT_EQ(slow->Next(Soon())->size(), 1U);
  EXPECT_THAT(StartWatch("", 1)->Next(Soon()), FailsWith(Code::kOutOfRange, "list again"));
}

TEST_F(StateTest, WatchAfterARestart) {
  Commit(Put("a", "1"));
  Reopen();
  EXPECT_THAT(StartWatch("", 1)->Next(Soon()), FailsWith(Code::kOutOfRange, "list again"));
  const auto nothing_missed = StartWatch("", 2);
  Commit(Put("a", "2"));
  EXPECT_THAT(ToText(*nothing_missed->Next(Soon())), ElementsAre("put a=2 made 1 changed 2"));
}

TEST(ChangeLogTest, WatchThatIsTooFarBehindIsOutOfRange) {
  const auto log = std::make_shared<ChangeLog>(0);
  const auto stuck = log->StartWatch("", 1);
  Change change;
  change.value.key = "a";
  for (std::size_t i = 0; i < ChangeLog::kMost; ++i) log->Append({change});
  const auto reads = log->StartWatch("", 1);
  EXPECT_EQ(reads->Next(Now())->size(), ChangeLog::kMost);
  log->Append({change});
  EXPECT_THAT(stuck->Next(Now()), FailsWith(Code::kOutOfRange, "revision 1 is not kept any more"));
  EXPECT_EQ(reads->Next(Now())->size(), 1U);
}

}  // namespace

std::unique_ptr<Store> NewStore() { return std::make_unique<SqliteStore>(); }

}  // namespace mooring::manager

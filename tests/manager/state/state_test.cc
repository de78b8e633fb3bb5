// The contract of State (manager/state/state.h).
#include "manager/state/state.h"

#include "manager/state/change_log.h"
#include "manager/state/sqlite_state.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

std::chrono::steady_clock::time_point Now() { return std::chrono::steady_clock::now(); }

Transaction Put(const std::string& key, const std::string& value) {
  return {.compares = {}, .puts = {{key, value}}, .deletes = {}};
}
Transaction Delete(const std::string& key) { return {.compares = {}, .puts = {}, .deletes = {key}}; }

std::string ToText(const KeyValue& value) {
  return value.key + "=" + value.value + " made " + std::to_string(value.create_revision) + " changed " +
         std::to_string(value.modify_revision);
}
std::vector<std::string> ToText(const std::vector<Change>& changes) {
  std::vector<std::string> texts;
  for (const Change& change : changes) {
    texts.push_back((change.kind == Change::Kind::kPut ? "put " : "delete ") + ToText(change.value));
  }
  return texts;
}

class StateTest : public ::testing::Test {
 protected:
  StateTest() { Reopen(); }

  void Reopen() {
    state_.reset();
    auto opened = OpenSqliteState(directory_ / "state.db");
    ASSERT_OK(opened);
    state_ = *std::move(opened);
  }

  std::int64_t Commit(const Transaction& transaction) {
    const auto revision = state_->Commit(transaction);
    EXPECT_OK(revision);
    return revision.value_or(-1);
  }

  std::string Get(const std::string& key) {
    const auto value = state_->Get(key);
    EXPECT_OK(value);
    return value.ok() && value->has_value() ? ToText(**value) : "nothing";
  }

  std::vector<std::string> List(const std::string& prefix) {
    std::vector<std::string> keys;
    const auto listing = state_->List(prefix);
    EXPECT_OK(listing);
    for (const KeyValue& value : listing->values) keys.push_back(value.key);
    return keys;
  }

  std::unique_ptr<Watch> StartWatch(const std::string& prefix, std::int64_t from) {
    auto watch = state_->StartWatch(prefix, from);
    EXPECT_OK(watch);
    return *std::move(watch);
  }

  State& state() { return *state_; }

  TempDir directory_;
  std::unique_ptr<State> state_;
};

TEST_F(StateTest, KeysHaveCreateAndModifyRevisions) {
  EXPECT_EQ(Commit(Put("a", "1")), 1);
  EXPECT_EQ(Commit(Put("b", "1")), 2);
  EXPECT_EQ(Commit(Put("a", "2")), 3);
  EXPECT_EQ(Get("a"), "a=2 made 1 changed 3");
  EXPECT_EQ(Commit(Delete("a")), 4);
  EXPECT_EQ(Get("a"), "nothing");
  EXPECT_EQ(Commit(Put("a", "3")), 5);
  EXPECT_EQ(Get("a"), "a=3 made 5 changed 5") << "made again it starts anew";
}

TEST_F(StateTest, EmptyCommitMakesNoRevision) {
  Commit(Put("a", "1"));
  EXPECT_EQ(Commit(Delete("nothing")), 1);
  EXPECT_EQ(Commit(Transaction()), 1);
  EXPECT_EQ(Commit(Put("a", "1")), 2) << "a put is a change, whatever was there";
}

TEST_F(StateTest, TransactionsAreAtomic) {
  Commit(Put("a", "1"));
  Transaction transaction = {.compares = {{"a", 1}, {"b", 1}}, .puts = {{"a", "2"}, {"c", "1"}}, .deletes = {"a2"}};
  EXPECT_THAT(state().Commit(transaction), FailsWith(Code::kAborted, "'b' was deleted meanwhile"));
  EXPECT_EQ(Get("a"), "a=1 made 1 changed 1");
  EXPECT_EQ(Get("c"), "nothing");
  transaction.compares = {{"a", 1}, {"b", 0}};
  EXPECT_EQ(Commit(transaction), 2);
  EXPECT_EQ(Get("a"), "a=2 made 1 changed 2");
  EXPECT_EQ(Get("c"), "c=1 made 2 changed 2");
}

TEST_F(StateTest, RefusesAChangeOfAnOldRevision) {
  Commit(Put("a", "1"));
  Commit(Put("a", "2"));
  Transaction late = Put("a", "late");
  late.compares = {{"a", 1}};
  EXPECT_THAT(state().Commit(late), FailsWith(Code::kAborted, "has revision 2 now"));
  late.compares = {{"a", 0}};
  EXPECT_THAT(state().Commit(late), FailsWith(Code::kAborted, "has revision 2 now"));
  EXPECT_EQ(Get("a"), "a=2 made 1 changed 2");
}

TEST_F(StateTest, RefusesTwoChangesOfAKey) {
  Transaction both = Put("a", "1");
  both.deletes = {"a"};
  EXPECT_THAT(state().Commit(both), FailsWith(Code::kInvalidArgument, "'a' is changed twice"));
}

TEST_F(StateTest, ListGivesAPrefixInOrder) {
  for (const char* key : {"v/b", "v/a", "v", "w/a", "v/a/b", "v0", "v/~", "v/ü"}) Commit(Put(key, "1"));
  EXPECT_THAT(List("v/"), ElementsAre("v/a", "v/a/b", "v/b", "v/~", "v/ü"));
  EXPECT_THAT(List("w"), ElementsAre("w/a"));
  EXPECT_THAT(List("x"), IsEmpty());
  EXPECT_EQ(List("").size(), 8U);
  EXPECT_EQ(state().List("x")->revision, 8);
}

TEST_F(StateTest, ValuesAreBytes) {
  const std::string bytes("a\0b\xff", 4);
  Commit(Put("a", bytes));
  Commit(Put("b", ""));
  EXPECT_EQ((*state().Get("a"))->value, bytes);
  EXPECT_EQ((*state().Get("b"))->value, "");
}

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

TEST_F(StateTest, WatchStartsAtARevision) {
  for (const char* value : {"1", "2", "3"}) Commit(Put("v/a", value));
  Commit(Put("w/a", "not asked for"));
  Commit(Delete("v/a"));
  const auto watch = StartWatch("v/", 2);
  EXPECT_THAT(ToText(*watch->Next(Soon())),
              ElementsAre("put v/a=2 made 1 changed 2", "put v/a=3 made 1 changed 3", "delete v/a=3 made 1 changed 5"));
  EXPECT_THAT(ToText(*watch->Next(Now())), IsEmpty());
}

TEST_F(StateTest, WatchWaitsForAFutureRevision) {
  const auto watch = StartWatch("", 3);
  Commit(Put("a", "1"));
  Commit(Put("a", "2"));
  EXPECT_THAT(ToText(*watch->Next(Now())), IsEmpty());
  auto next = std::async(std::launch::async, [&] { return watch->Next(Soon()); });
  Commit(Put("a", "3"));
  EXPECT_THAT(ToText(*next.get()), ElementsAre("put a=3 made 1 changed 3"));
}

TEST_F(StateTest, WatchGivesWholeRevisions) {
  const auto watch = StartWatch("", 1);
  Commit({.compares = {}, .puts = {{"a", "1"}, {"b", "1"}}, .deletes = {}});
  EXPECT_EQ(watch->Next(Soon())->size(), 2U);
}

TEST_F(StateTest, WatchAfterAListMissesNothing) {
  Commit(Put("a", "1"));
  const std::int64_t revision = state().List("")->revision;
  Commit(Put("a", "2"));
  EXPECT_THAT(ToText(*StartWatch("", revision + 1)->Next(Soon())), ElementsAre("put a=2 made 1 changed 2"));
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

TEST_F(StateTest, WatchesEndWithTheState) {
  const auto watch = StartWatch("", 1);
  auto next = std::async(std::launch::async, [&] { return watch->Next(Soon()); });
  state().EndWatches();
  EXPECT_THAT(next.get(), FailsWith(Code::kCancelled, "stopping"));
  EXPECT_THAT(StartWatch("", 1)->Next(Soon()), FailsWith(Code::kCancelled, "stopping"));
  EXPECT_EQ(Commit(Put("a", "1")), 1) << "all else goes on";

  Reopen();
  const auto outlives = StartWatch("", 2);
  state_.reset();
  EXPECT_THAT(outlives->Next(Soon()), FailsWith(Code::kCancelled, "stopping"));
}

TEST_F(StateTest, OneOfManyEqualComparesWins) {
  constexpr int kThreads = 8, kRounds = 50;
  std::vector<std::thread> threads;
  Commit(Put("counter", "0"));
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this] {
      for (int done = 0; done < kRounds;) {
        const KeyValue read = **state().Get("counter");
        Transaction next = Put("counter", std::to_string(std::stoi(read.value) + 1));
        next.compares = {{"counter", read.modify_revision}};
        next.durability = Durability::kOrdered;
        if (state().Commit(next).ok()) ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ((*state().Get("counter"))->value, std::to_string(kThreads * kRounds));
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

TEST_F(StateTest, WatchHidesTheValuesOfSecrets) {
  const auto watch = *state_->StartWatch("shared/", 1);
  Commit(Put("shared/secrets/default/db", "hunter2"));
  Commit(Put("shared/volumes/default/db", "a volume"));
  Commit(Delete("shared/secrets/default/db"));
  std::vector<std::string> seen;
  while (seen.size() < 3) {
    const auto changes = watch->Next(Soon());
    ASSERT_OK(changes);
    for (const std::string& text : ToText(*changes)) seen.push_back(text);
  }
  EXPECT_THAT(seen, ElementsAre("put shared/secrets/default/db= made 1 changed 1",
                                "put shared/volumes/default/db=a volume made 2 changed 2",
                                "delete shared/secrets/default/db= made 1 changed 3"));
}

}  // namespace
}  // namespace mooring::manager

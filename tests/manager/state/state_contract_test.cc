// The contract of State (manager/state/state.h), which each store keeps.
#include "tests/manager/state/state_fixture.h"

namespace mooring::manager {
namespace {

TEST_F(StateTest, KeysHaveCreateAndModifyRevisions) {
  EXPECT_EQ(Commit(Put("a", "1")), At(1));
  EXPECT_EQ(Commit(Put("b", "1")), At(2));
  EXPECT_EQ(Commit(Put("a", "2")), At(3));
  EXPECT_EQ(Get("a"), "a=2 made 1 changed 3");
  EXPECT_EQ(Commit(Delete("a")), At(4));
  EXPECT_EQ(Get("a"), "nothing");
  EXPECT_EQ(Commit(Put("a", "3")), At(5));
  EXPECT_EQ(Get("a"), "a=3 made 5 changed 5") << "made again it starts anew";
}

TEST_F(StateTest, EmptyCommitMakesNoRevision) {
  Commit(Put("a", "1"));
  EXPECT_EQ(Commit(Delete("nothing")), At(1));
  EXPECT_EQ(Commit(Transaction()), At(1));
  EXPECT_EQ(Commit(Put("a", "1")), At(2)) << "a put is a change, whatever was there";
}

TEST_F(StateTest, TransactionsAreAtomic) {
  Commit(Put("a", "1"));
  Transaction transaction = {
      .compares = {{"a", At(1)}, {"b", At(1)}}, .puts = {{"a", "2"}, {"c", "1"}}, .deletes = {"a2"}};
  EXPECT_THAT(state().Commit(transaction), FailsWith(Code::kAborted, "'b' was deleted meanwhile"));
  EXPECT_EQ(Get("a"), "a=1 made 1 changed 1");
  EXPECT_EQ(Get("c"), "nothing");
  transaction.compares = {{"a", At(1)}, {"b", 0}};
  EXPECT_EQ(Commit(transaction), At(2));
  EXPECT_EQ(Get("a"), "a=2 made 1 changed 2");
  EXPECT_EQ(Get("c"), "c=1 made 2 changed 2");
}

TEST_F(StateTest, RefusesAChangeOfAnOldRevision) {
  Commit(Put("a", "1"));
  Commit(Put("a", "2"));
  Transaction late = Put("a", "late");
  late.compares = {{"a", At(1)}};
  EXPECT_THAT(state().Commit(late), FailsWith(Code::kAborted, "has revision " + std::to_string(At(2)) + " now"));
  late.compares = {{"a", 0}};
  EXPECT_THAT(state().Commit(late), FailsWith(Code::kAborted, "has revision " + std::to_string(At(2)) + " now"));
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
  EXPECT_EQ(state().List("x")->revision, At(8));
}

TEST_F(StateTest, ReadGivesKeysAndAPrefixAtOneRevision) {
  for (const char* key : {"v/a", "v/b", "w"}) Commit(Put(key, "1"));
  const auto keys_of = [&](const std::vector<std::string>& keys, const std::optional<std::string>& prefix) {
    std::vector<std::string> found;
    const auto listing = state().Read(keys, prefix, Freshness::kNow);
    EXPECT_OK(listing);
    for (const KeyValue& value : listing->values) found.push_back(value.key);
    EXPECT_EQ(listing->revision, At(3));
    return found;
  };
  EXPECT_THAT(keys_of({"w", "none"}, "v/"), ElementsAre("w", "v/a", "v/b"));
  EXPECT_THAT(keys_of({"v/b", "v/a"}, std::nullopt), ElementsAre("v/b", "v/a"));
  EXPECT_THAT(keys_of({"none"}, "x"), IsEmpty());
}

TEST_F(StateTest, VisitEndsWithTheFirstError) {
  for (const char* key : {"v/a", "v/b", "v/c", "w"}) Commit(Put(key, "1"));
  std::vector<std::string> visited;
  const auto visit = [&](const KeyValue& value) {
    visited.push_back(value.key);
    return value.key == "v/b" ? Internal("enough") : absl::OkStatus();
  };
  EXPECT_THAT(state().Visit("v/", visit), FailsWith(Code::kInternal, "enough"));
  EXPECT_THAT(visited, ElementsAre("v/a", "v/b"));
  EXPECT_OK(state().Visit("w", visit));
  EXPECT_THAT(visited, ElementsAre("v/a", "v/b", "w"));
}

TEST_F(StateTest, ValuesAreBytes) {
  const std::string bytes("a\0b\xff", 4);
  Commit(Put("a", bytes));
  Commit(Put("b", ""));
  EXPECT_EQ((*state().Get("a"))->value, bytes);
  EXPECT_EQ((*state().Get("b"))->value, "");
}

TEST_F(StateTest, WatchStartsAtARevision) {
  for (const char* value : {"1", "2", "3"}) Commit(Put("v/a", value));
  Commit(Put("w/a", "not asked for"));
  Commit(Delete("v/a"));
  const auto watch = StartWatch("v/", At(2));
  EXPECT_THAT(Take(*watch, 3),
              ElementsAre("put v/a=2 made 1 changed 2", "put v/a=3 made 1 changed 3", "delete v/a=3 made 1 changed 5"));
  EXPECT_THAT(ToText(*watch->Next(Now())), IsEmpty());
}

TEST_F(StateTest, WatchWaitsForAFutureRevision) {
  const auto watch = StartWatch("", At(3));
  Commit(Put("a", "1"));
  Commit(Put("a", "2"));
  EXPECT_THAT(ToText(*watch->Next(Now())), IsEmpty());
  auto next = std::async(std::launch::async, [&] { return watch->Next(Soon()); });
  Commit(Put("a", "3"));
  EXPECT_THAT(ToText(*next.get()), ElementsAre("put a=3 made 1 changed 3"));
}

TEST_F(StateTest, WatchGivesWholeRevisions) {
  const auto watch = StartWatch("", At(1));
  Commit({.compares = {}, .puts = {{"a", "1"}, {"b", "1"}}, .deletes = {}});
  EXPECT_EQ(watch->Next(Soon())->size(), 2U);
}

TEST_F(StateTest, WatchAfterAListMissesNothing) {
  Commit(Put("a", "1"));
  const std::int64_t revision = state().List("")->revision;
  Commit(Put("a", "2"));
  EXPECT_THAT(ToText(*StartWatch("", revision + 1)->Next(Soon())), ElementsAre("put a=2 made 1 changed 2"));
}

TEST_F(StateTest, WatchesEndWithTheState) {
  const auto watch = StartWatch("", At(1));
  auto next = std::async(std::launch::async, [&] { return watch->Next(Soon()); });
  state().EndWatches();
  EXPECT_THAT(next.get(), FailsWith(Code::kCancelled, "stopping"));
  EXPECT_THAT(StartWatch("", At(1))->Next(Soon()), FailsWith(Code::kCancelled, "stopping"));
  EXPECT_EQ(Commit(Put("a", "1")), At(1)) << "all else goes on";

  Reopen();
  const auto outlives = StartWatch("", At(2));
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

TEST_F(StateTest, WatchHidesTheValuesOfSecrets) {
  const auto watch = StartWatch("shared/", At(1));
  Commit(Put("shared/secrets/default/db", "hunter2"));
  EXPECT_EQ((*state().Get("shared/secrets/default/db"))->value, "hunter2");
  Commit(Put("shared/volumes/default/db", "a volume"));
  Commit(Delete("shared/secrets/default/db"));
  EXPECT_THAT(Take(*watch, 3), ElementsAre("put shared/secrets/default/db= made 1 changed 1",
                                           "put shared/volumes/default/db=a volume made 2 changed 2",
                                           "delete shared/secrets/default/db= made 1 changed 3"));
}

}  // namespace
}  // namespace mooring::manager

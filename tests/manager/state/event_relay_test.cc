// Relays of several hosts over one state in memory.
#include "manager/hosts/event_relay.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "manager.pb.h"
#include "manager/state/keys.h"
#include "tests/fakes/memory_state.h"
#include "tests/manager/prelude.h"
#include "tests/support/wait_until.h"

namespace mooring::manager {
namespace {

using testing::MemoryState;
using testing::WaitUntil;

EventRelay::Settings Quick(const std::string& host, const std::string& run = "run-1") {
  return {.host = host, .run = run, .send_every = milliseconds(5), .retry = milliseconds(5)};
}

// The state as a host sees it that cannot reach it for a while.
class AwayState final : public State {
 public:
  AwayState(State& state, const std::atomic<bool>& is_away) : state_(state), is_away_(is_away) {}

  int refused() const { return refused_; }

  manager::Lease& lease() override { return state_.lease(); }
  absl::StatusOr<Listing> Read(const std::vector<std::string>& keys, const std::optional<std::string>& prefix,
                               Freshness freshness) override {
    if (is_away_) return Unavailable("away");
    return state_.Read(keys, prefix, freshness);
  }
  absl::StatusOr<std::unique_ptr<Watch>> StartWatch(const std::string& prefix, std::int64_t from) override {
    return state_.StartWatch(prefix, from);
  }
  void EndWatches() override { state_.EndWatches(); }

 private:
  absl::StatusOr<std::int64_t> DoCommit(const Transaction& transaction) override {
    if (!is_away_) return state_.Commit(transaction);
    ++refused_;
    return Unavailable("away");
  }

  State& state_;
  const std::atomic<bool>& is_away_;
  std::atomic<int> refused_ = 0;
};

// A manager, as far as events are concerned.
struct Member {
  Member(State& shared, const std::string& host, const std::string& run = "run-1")
      : events(host), relay(shared, events, work, Quick(host, run)) {}
  ~Member() { events.Close(); }

  void Say(const std::string& text) { events.Add({.kind = "health", .text = text}); }

  // "host: text" of each event.
  std::vector<std::string> All() {
    const auto all = events.Next(1, std::chrono::steady_clock::now());
    EXPECT_OK(all);
    std::vector<std::string> texts;
    for (const Event& event : *all) texts.push_back(event.host + ": " + event.text);
    return texts;
  }
  bool Has(std::size_t count) {
    return WaitUntil([&] { return All().size() >= count; }, seconds(20));
  }

  Events events;
  WorkQueue work;
  EventRelay relay;
};

std::vector<std::string> KeysOf(State& state) {
  std::vector<std::string> keys;
  const auto listing = state.List(EventsPrefix());
  EXPECT_OK(listing);
  for (const KeyValue& value : listing->values) keys.push_back(value.key);
  return keys;
}

TEST(EventRelayTest, HostsSeeEventsOfEachOther) {
  MemoryState state;
  Member a(state, "a"), b(state, "b");
  a.Say("1");
  ASSERT_TRUE(b.Has(1));
  b.Say("2");
  ASSERT_TRUE(a.Has(2));
  a.Say("3");
  ASSERT_TRUE(b.Has(3));
  EXPECT_THAT(a.All(), ElementsAre("a: 1", "b: 2", "a: 3"));
  EXPECT_THAT(b.All(), ElementsAre("a: 1", "b: 2", "a: 3"));
  EXPECT_THAT(KeysOf(state), ElementsAre("shared/events/a/000", "shared/events/a/001", "shared/events/b/000"))
      << "an event is relayed once, by its host";
}

TEST(EventRelayTest, LateHostSeesThePast) {
  MemoryState state;
  Member a(state, "a"), b(state, "b");
  a.Say("1");
  ASSERT_TRUE(b.Has(1));
  b.Say("2");
  ASSERT_TRUE(a.Has(2));
  Member late(state, "late");
  ASSERT_TRUE(late.Has(2));
  EXPECT_THAT(late.All(), ElementsAre("a: 1", "b: 2"));
}

TEST(EventRelayTest, RestartedHostIsSeenAgain) {
  MemoryState state;
  Member b(state, "b");
  {
    Member a(state, "a", "run-1");
    a.Say("1");
    a.Say("2");
    ASSERT_TRUE(b.Has(2));
  }
  Member a(state, "a", "run-2");
  a.Say("3");
  ASSERT_TRUE(b.Has(3));
  EXPECT_THAT(b.All(), ElementsAre("a: 1", "a: 2", "a: 3"));
}

TEST(EventRelayTest, TransactionsAreBatchesAndTheRingIsBounded) {
  MemoryState state;
  std::atomic<std::size_t> largest = 0;
  state.BeforeCommit([&](const Transaction& transaction) {
    largest = std::max(largest.load(), transaction.puts.size());
    for (const auto& put : transaction.puts) EXPECT_EQ(put.ends_with, Transaction::EndsWith::kOwnLease);
  });
  Member a(state, "a"), b(state, "b");
  const int count = 2000;
  for (int i = 0; i < count; ++i) a.Say(std::to_string(i));
  ASSERT_TRUE(
      WaitUntil([&] { return !b.All().empty() && b.All().back() == fmt::format("a: {}", count - 1); }, seconds(20)));
  EXPECT_LE(KeysOf(state).size(), EventRelay::kSlots);
  EXPECT_LE(largest, EventRelay::kBatch);
}

TEST(EventRelayTest, CommitsAreSpaced) {
  MemoryState state;
  Events events("a");
  WorkQueue work;
  EventRelay relay(state, events, work, {.host = "a", .run = "run-1"});
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 300; ++i) {
    events.Add({.kind = "health", .text = "again"});
    std::this_thread::sleep_for(milliseconds(4));
  }
  const int commits = state.commits();
  const auto took = std::chrono::steady_clock::now() - began;
  EXPECT_LE(commits, 2 + took / milliseconds(500)) << "at most two a second";
  events.Close();
}

TEST(EventRelayTest, NewestEventsAreSentWhenTheStateIsBack) {
  MemoryState state;
  std::atomic<bool> is_away = true;
  Member b(state, "b");
  Events events("a");
  AwayState away(state, is_away);
  WorkQueue work;
  EventRelay relay(away, events, work, Quick("a"));
  for (int i = 0; i < 1000; ++i) events.Add({.kind = "health", .text = std::to_string(i)});
  const int refused = away.refused();
  ASSERT_TRUE(WaitUntil([&] { return away.refused() > refused + 1; }, seconds(20)));
  EXPECT_THAT(b.All(), IsEmpty());
  is_away = false;
  ASSERT_TRUE(b.Has(EventRelay::kSlots));
  EXPECT_EQ(b.All().front(), fmt::format("a: {}", 1000 - EventRelay::kSlots));
  EXPECT_EQ(b.All().back(), "a: 999");
  events.Close();
}

TEST(EventRelayTest, LongTextsAreCutBetweenCharacters) {
  MemoryState state;
  Member a(state, "a"), b(state, "b");
  std::string text = "x";
  while (text.size() < 3000) text += "ü";
  a.Say(text);
  ASSERT_TRUE(b.Has(1));
  const std::string got = b.All().front();
  EXPECT_LE(got.size(), EventRelay::kMostText + 10);
  EXPECT_THAT(got, ::testing::EndsWith("ü…"));
}

TEST(EventRelayTest, ForeignValuesAreIgnored) {
  MemoryState state;
  ASSERT_OK(state.Commit({.compares = {}, .puts = {{EventsPrefix("x") + "000", "\xff\xff"}}, .deletes = {}}));
  Member a(state, "a"), b(state, "b");
  a.Say("1");
  ASSERT_TRUE(b.Has(1));
  EXPECT_THAT(b.All(), ElementsAre("a: 1"));
}

}  // namespace
}  // namespace mooring::manager

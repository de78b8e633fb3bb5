#include "manager/hosts/hosts.h"

#include "tests/fakes/fake_hosts.h"
#include "tests/fakes/memory_state.h"
#include "tests/manager/prelude.h"
#include "tests/support/wait_until.h"

namespace mooring::manager {
namespace {

using testing::Join;
using testing::Vanish;

class HostsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Hosts> Start(const std::string& name) {
    return std::make_unique<Hosts>(
        store_, events_, work_,
        Hosts::Settings{.self = name, .version = "1", .look_every = milliseconds(5), .note_after = milliseconds(30)});
  }
  bool Holds(const std::function<bool()>& condition) { return testing::WaitUntil(condition, seconds(20)); }
  std::string StateOf(Hosts& hosts, const std::string& name) {
    const auto status = hosts.Find(name);
    return status ? StateWord(*status) : "unknown";
  }

  testing::MemoryState state_;
  RecordsStore store_{state_};
  Events events_;
  WorkQueue work_;
};

TEST_F(HostsTest, JoinsAtItsFirstStartAndIsKnownFromThen) {
  Join(store_, "b");
  const auto hosts = Start("a");
  EXPECT_TRUE(Holds([&] { return StateOf(*hosts, "a") == "unreachable"; })) << "it has no lease in this test";
  Join(store_, "a");
  EXPECT_TRUE(Holds([&] { return StateOf(*hosts, "a") == "alive"; }));
  EXPECT_EQ(StateOf(*hosts, "b"), "alive");
  EXPECT_EQ(store_.GetHost("a")->version, "1");
}

TEST_F(HostsTest, NotesAHostWhoseLeaseHasEnded) {
  Join(store_, "a");
  Join(store_, "b");
  const auto hosts = Start("a");
  ASSERT_TRUE(Holds([&] { return StateOf(*hosts, "b") == "alive"; }));
  EXPECT_EQ(hosts->AwayFor("b"), Clock::duration::zero());
  Vanish(store_, "b");
  EXPECT_TRUE(Holds([&] { return store_.GetHost("b")->away_since.has_value(); }));
  EXPECT_GT(hosts->AwayFor("b"), Clock::duration::zero());
  const auto b = Start("b");
  Join(store_, "b");
  EXPECT_TRUE(Holds([&] { return !store_.GetHost("b")->away_since.has_value(); })) << "it is back";
}

TEST_F(HostsTest, DamagedRecordOfAHostStopsNoOther) {
  Join(store_, "a");
  Join(store_, "b");
  Transaction damage;
  damage.puts.push_back({.key = HostStateKey("c"), .value = "\xFF\xFF"});
  ASSERT_OK(state_.Commit(damage));
  const auto hosts = Start("a");
  EXPECT_TRUE(Holds([&] { return StateOf(*hosts, "a") == "alive" && StateOf(*hosts, "b") == "alive"; }));
  EXPECT_EQ(StateOf(*hosts, "c"), "unknown");
}

// Its claims may have been given up meanwhile, which only its record told.
TEST_F(HostsTest, HostReplacesItsOwnDamagedRecord) {
  Join(store_, "a");
  Transaction damage;
  damage.puts.push_back({.key = HostStateKey("a"), .value = "\xFF\xFF"});
  ASSERT_OK(state_.Commit(damage));
  const auto hosts = Start("a");
  EXPECT_TRUE(Holds([&] { return StateOf(*hosts, "a") == "alive"; }));
  EXPECT_TRUE(store_.GetHost("a")->gave_up_claims);
}

// Without a record it would count as gone, or as unknown, for the others.
TEST_F(HostsTest, HostReplacesItsRecordThatIsDamagedOrDeletedWhileItRuns) {
  Join(store_, "a");
  const auto hosts = Start("a");
  for (const bool damaged : {true, false}) {
    ASSERT_TRUE(Holds([&] { return StateOf(*hosts, "a") == "alive"; }));
    Transaction change;
    if (damaged) change.puts.push_back({.key = HostStateKey("a"), .value = "\xFF\xFF"});
    if (!damaged) change.deletes.push_back(HostStateKey("a"));
    ASSERT_OK(state_.Commit(change));
    EXPECT_TRUE(Holds([&] { return store_.GetHost("a").ok(); })) << damaged;
  }
}

TEST_F(HostsTest, OnlyAHostThatIsAwayCanBeLost) {
  Join(store_, "a");
  Join(store_, "b");
  const auto hosts = Start("a");
  EXPECT_THAT(hosts->DeclareLost("b"), FailsWith(Code::kFailedPrecondition, "host 'b' is alive"));
  EXPECT_THAT(hosts->DeclareLost("c"), FailsWith(Code::kNotFound, "no host 'c'"));
  Vanish(store_, "b");
  EXPECT_OK(hosts->DeclareLost("b"));
  EXPECT_EQ(StateOf(*hosts, "b"), "lost");
}

TEST_F(HostsTest, DrainingStaysUntilItIsEnded) {
  Join(store_, "a");
  const auto hosts = Start("a");
  ASSERT_TRUE(Holds([&] { return StateOf(*hosts, "a") == "alive"; }));
  EXPECT_EQ(hosts->Drain("a", true)->host.draining, true);
  hosts->LeaseChanged();
  EXPECT_TRUE(Holds([&] { return StateOf(*hosts, "a") == "draining"; }));
  EXPECT_EQ(hosts->Drain("a", false)->host.draining, false);
  EXPECT_THAT(hosts->Drain("b", true), FailsWith(Code::kNotFound, "no host 'b'"));
}

}  // namespace
}  // namespace mooring::manager

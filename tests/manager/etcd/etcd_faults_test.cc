// The state in etcd when something goes wrong.
#include "manager/etcd/etcd_state.h"
#include "tests/manager/etcd/answer_proxy.h"
#include "tests/manager/etcd/etcd_store.h"
#include "tests/manager/state/state_fixture.h"
#include "tests/support/wait_until.h"

namespace mooring::manager {
namespace {

using testing::EtcdCluster;

std::unique_ptr<State> Open(const EtcdSettings& settings) {
  auto opened = OpenEtcdState(settings);
  EXPECT_OK(opened);
  return opened.ok() ? *std::move(opened) : nullptr;
}

TEST(EtcdLeaseTest, SecondManagerOfAHostIsRefused) {
  EtcdSettings settings = NewSettings(SharedCluster());
  const auto first = Open(settings);
  settings.id = "id-2";
  EXPECT_THAT(OpenEtcdState(settings), FailsWith(Code::kFailedPrecondition, "is alive in etcd at 127.0.0.1"));
  settings.host = "host-2";
  EXPECT_OK(OpenEtcdState(settings));
}

TEST(EtcdLeaseTest, RestartedManagerTakesOver) {
  const EtcdSettings settings = NewSettings(SharedCluster());
  const auto stale = Open(settings);
  ASSERT_OK(stale->Commit({.compares = {}, .puts = {{"a", "1", Transaction::EndsWith::kOwnLease}}, .deletes = {}}));
  const auto successor = Open(settings);
  EXPECT_GT(successor->lease().Number(), stale->lease().Number());
  EXPECT_FALSE((*successor->Get("a")).has_value()) << "leased keys end with the lease";
}

TEST(EtcdLeaseTest, EndedLeaseFencesCommits) {
  const EtcdSettings settings = NewSettings(SharedCluster());
  const auto state = Open(settings);
  const std::int64_t before = state->lease().Number();
  ASSERT_EQ(SharedCluster().Control({"del", settings.prefix + "live/host-1"}), 0);
  EXPECT_THAT(state->Commit(Put("a", "1")), FailsWith(Code::kUnavailable, "the lease of host 'host-1'"));
  EXPECT_FALSE((*state->Get("a")).has_value());
  ASSERT_TRUE(testing::WaitUntil([&] { return state->lease().Number() > before; }, std::chrono::seconds(20)));
  EXPECT_GT(state->lease().ValidUntil(), Now());
  EXPECT_OK(state->Commit(Put("a", "1")));
}

// A manager behind a proxy claims a volume: it puts the volume and the claim. etcd makes the change, and the answer is
// lost. The manager then repeats the request.
class LostAnswerTest : public ::testing::Test {
 protected:
  LostAnswerTest() {
    proxied_.connection.endpoints = proxy_.endpoint();
    proxied_.prefix = settings_.prefix;
    proxied_.host = "host-2";
    proxied_.connection.try_timeout = seconds(10);  // on a busy machine, too
    manager_ = Open(proxied_);
    created_ = *other_->Commit(Put("volume", "1"));
  }

  // `meanwhile` runs after the change, and before the request is repeated.
  absl::StatusOr<std::int64_t> Claim(const std::function<void()>& meanwhile) {
    const Transaction claim{.compares = {{"volume", created_}, {"claim", 0}},
                            .puts = {{"volume", "in use"}, {"claim", "of host-2"}},
                            .deletes = {}};
    proxy_.HoldAnswers();
    auto answer = std::async(std::launch::async, [&] { return manager_->Commit(claim); });
    EXPECT_TRUE(testing::WaitUntil([&] { return other_->Get("claim")->has_value(); }, seconds(10)));
    meanwhile();
    proxy_.LoseHeldAnswers();
    return answer.get();
  }

  static std::string FirstMember() {
    const std::string all = SharedCluster().endpoints();  // "etcd://127.0.0.1:1,…"
    return all.substr(0, all.find(','));
  }

  const EtcdSettings settings_ = NewSettings(SharedCluster());
  EtcdSettings proxied_ = NewSettings(SharedCluster());
  testing::AnswerProxy proxy_{FirstMember()};
  std::unique_ptr<State> other_ = Open(settings_);
  std::unique_ptr<State> manager_;
  std::int64_t created_ = 0;
};

TEST_F(LostAnswerTest, RepeatedChangeIsRecognized) {
  const auto revision = Claim([] {});
  ASSERT_OK(revision);
  EXPECT_EQ((*other_->Get("claim"))->modify_revision, *revision);
}

// The volume looks as this change has left it, but another host has put it.
TEST_F(LostAnswerTest, EqualPutOfAnotherHostIsNoAnswer) {
  const auto revision = Claim([&] {
    ASSERT_OK(other_->Commit({.compares = {}, .puts = {{"volume", "in use"}}, .deletes = {"claim"}}));
  });
  EXPECT_THAT(revision, FailsWith(Code::kUnavailable, "it is not known whether the change was made"));
}

// Both keys exist with these values, but no longer from one change.
TEST_F(LostAnswerTest, EqualPutsOfSeveralChangesAreNoAnswer) {
  const auto revision = Claim([&] { ASSERT_OK(other_->Commit(Put("volume", "in use"))); });
  EXPECT_THAT(revision, FailsWith(Code::kUnavailable, "it is not known whether the change was made"));
}

TEST(EtcdFaultsTest, CompactedRevisionIsOutOfRange) {
  const auto state = Open(NewSettings(SharedCluster()));
  const auto first = state->Commit(Put("a", "1"));
  ASSERT_OK(first);
  const auto last = state->Commit(Put("a", "2"));
  ASSERT_EQ(SharedCluster().Control({"compact", std::to_string(*last)}), 0);
  EXPECT_THAT((*state->StartWatch("", *first))->Next(Soon()), FailsWith(Code::kOutOfRange, "list again"));
}

TEST(EtcdFaultsTest, ListReadsAllPages) {
  const auto state = Open(NewSettings(SharedCluster()));
  for (int i = 0; i < 1200; i += 100) {
    Transaction many;
    for (int j = i; j < i + 100; ++j) many.puts.push_back({"k/" + std::to_string(j), "1"});
    ASSERT_OK(state->Commit(many));
  }
  EXPECT_EQ(state->List("k/")->values.size(), 1200U);
  std::set<std::string> visited;
  EXPECT_OK(state->Visit("k/", [&](const KeyValue& value) {
    EXPECT_TRUE(visited.insert(value.key).second) << value.key << " is visited twice";
    return absl::OkStatus();
  }));
  EXPECT_EQ(visited.size(), 1200U);
}

TEST(EtcdFaultsTest, WithoutQuorumIsUnavailable) {
  EtcdCluster cluster;
  EtcdSettings settings = NewSettings(cluster);
  settings.lease_ttl = seconds(3);
  settings.connection.try_timeout = milliseconds(500);
  const auto state = Open(settings);
  cluster.Kill(0);
  cluster.Kill(1);
  EXPECT_THAT(state->Commit(Put("a", "1")), FailsWith(Code::kUnavailable, "etcd at 127.0.0.1"));
  EXPECT_THAT(state->Get("a"), FailsWith(Code::kUnavailable, "check that most members run"));
  state->EndWatches();  // the manager stops
  const auto began = Now();
  EXPECT_THAT(state->Get("a"), FailsWith(Code::kUnavailable, "check that most members run"));
  EXPECT_LT(Now() - began, milliseconds(1400)) << "it was three times the timeout of a try";
  std::this_thread::sleep_until(state->lease().ValidUntil() + milliseconds(100));
  EXPECT_LT(state->lease().ValidUntil(), Now());
}

// RESOURCE_EXHAUSTED would mean that a plugin has no room.
TEST(EtcdFaultsTest, FullEtcdIsAsIfItWereAway) {
  EtcdCluster cluster({"--quota-backend-bytes", "1000000"});
  const auto state = Open(NewSettings(cluster));
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) status = state->Commit(Put("a", std::string(100'000, 'a'))).status();
  EXPECT_THAT(status, FailsWith(Code::kUnavailable, "etcdctl alarm disarm"));
}

TEST(EtcdFaultsTest, WrongKeyCannotReadSecrets) {
  TempDir directory;
  EtcdSettings settings = NewSettings(SharedCluster());
  settings.secrets_key_file = directory / "key";
  const auto write_key = [&](char digit) { std::ofstream(settings.secrets_key_file) << std::string(64, digit); };
  write_key('a');
  EXPECT_THAT(OpenEtcdState(settings), FailsWith(Code::kFailedPrecondition, "chmod 0600"));
  fs::permissions(settings.secrets_key_file, fs::perms::owner_read | fs::perms::owner_write);
  ASSERT_OK(Open(settings)->Commit(Put("shared/secrets/default/db", "hunter2")));
  write_key('b');
  EXPECT_THAT(Open(settings)->Get("shared/secrets/default/db"), FailsWith(Code::kFailedPrecondition, "cannot decrypt"));
}

}  // namespace
}  // namespace mooring::manager

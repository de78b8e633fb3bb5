// Calls to controllers of other hosts, and the ends of hosts, leases and deadlines.
#include "manager/plugins/controller_call.h"
#include "rpc/redact.h"
#include "tests/manager/requests/requests_fixture.h"

namespace mooring::manager {
namespace {

using RequestsTest = RequestsFixture;

csi::v1::CreateVolumeRequest CreateWithPassword(const std::string& name) {
  auto request = Create(name);
  (*request.mutable_secrets())["password"] = "hunter2";
  return request;
}

TEST_F(RequestsTest, CallsGoToEachHostInTurn) {
  StartBoth();
  for (int i = 0; i < 10; ++i) EXPECT_OK(c_->Call(Create("db" + std::to_string(i))));
  EXPECT_EQ(plugin_a_->Count("CreateVolume"), 5);
  EXPECT_EQ(plugin_b_->Count("CreateVolume"), 5);
  EXPECT_EQ(volumes_->Ids().size(), 10U);
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(RequestsTest, ManyCallsAtATime) {
  StartBoth();
  std::vector<std::future<absl::Status>> calls;
  for (int i = 0; i < 30; ++i) {
    calls.push_back(
        std::async(std::launch::async, [this, i] { return c_->Call(Create("db" + std::to_string(i))).status(); }));
  }
  for (auto& call : calls) EXPECT_OK(call.get());
  EXPECT_EQ(volumes_->Ids().size(), 30U);
  EXPECT_THAT(plugin_a_->Violations(), IsEmpty());
  EXPECT_THAT(plugin_b_->Violations(), IsEmpty());
  const auto metrics = c_->sharing->metrics();
  EXPECT_EQ(metrics.sent.answered, 30U);
  EXPECT_EQ(metrics.sent.failed, 0U);
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(RequestsTest, PluginsErrorKeepsItsCodeAndMessage) {
  StartBoth();
  plugin_a_->FailAlways("CreateVolume", ResourceExhausted("no room"));
  plugin_b_->FailAlways("CreateVolume", ResourceExhausted("no room"));
  EXPECT_EQ(c_->Call(Create("db")).status(), ResourceExhausted("CreateVolume: no room"));
  EXPECT_TRUE(WaitUntil([this] { return a_->sharing->metrics().worked.failed == 1; }));
}

TEST_F(RequestsTest, ReplacedInstanceIsUnavailable) {
  StartBoth();
  plugin_a_->FailAlways("CreateVolume", absl::CancelledError("the channel was closed"));
  plugin_b_->FailAlways("CreateVolume", absl::CancelledError("the channel was closed"));
  EXPECT_THAT(c_->Call(Create("db")), FailsWith(Code::kUnavailable, "the channel was closed"));
}

TEST_F(RequestsTest, OtherHostTakesWhatThePreferredOneDoesNotBegin) {
  StartBoth();
  plugin_a_->Hang("CreateVolume");
  std::vector<std::future<absl::Status>> hanging;
  for (int i = 0; i < 2; ++i) {  // fills the lane of "a", with every second call
    hanging.push_back(std::async(std::launch::async, [this] { return c_->Call(Create("hangs")).status(); }));
    ASSERT_TRUE(plugin_a_->WaitForCalls("CreateVolume", i + 1));
    EXPECT_OK(c_->Call(Create("b" + std::to_string(i))));
  }
  EXPECT_OK(c_->Call(Create("db")));
  EXPECT_EQ(plugin_a_->Count("CreateVolume"), 2);
  plugin_a_->Release();
  for (auto& call : hanging) EXPECT_OK(call.get());
}

TEST_F(RequestsTest, HangingPluginBlocksNoOther) {
  a_->AddPlugin(volumes_)->Hang("CreateVolume");
  a_->AddPlugin(volumes_, true, "other.csi");
  ASSERT_TRUE(c_->Sees(1));
  ASSERT_TRUE(c_->Sees(1, "other.csi"));
  std::vector<std::future<absl::Status>> hanging;
  for (int i = 0; i < 5; ++i) {
    hanging.push_back(
        std::async(std::launch::async, [this, i] { return c_->Call(Create("hangs" + std::to_string(i))).status(); }));
  }
  ASSERT_TRUE(a_->all[kPlugin]->WaitForCalls("CreateVolume", 2));
  EXPECT_OK(c_->Call(Create("db"), Soon(), "other.csi"));
  EXPECT_EQ(a_->all[kPlugin]->Count("CreateVolume"), 2) << "a bounded number at a time";
  EXPECT_TRUE(WaitUntil([this] { return c_->sharing->metrics().sent.waiting.at("a").count == 5; }));
  EXPECT_TRUE(WaitUntil([this] { return a_->sharing->metrics().worked.under_way.at("c") == 2; }));
  a_->all[kPlugin]->Release();
  for (auto& call : hanging) EXPECT_OK(call.get());
}

TEST_F(RequestsTest, HostThatStoodStillWritesNoAnswer) {
  StartBoth();
  plugin_a_->Hang("CreateVolume");
  plugin_b_->Hang("CreateVolume");
  auto call = std::async(std::launch::async, [this] { return c_->Call(Create("db")).status(); });
  ASSERT_TRUE(plugin_a_->WaitForCalls("CreateVolume", 1));
  a_.state.EndLease();
  ASSERT_TRUE(plugin_b_->WaitForCalls("CreateVolume", 1)) << "the successor has begun";
  a_.state.TakeLease();
  plugin_a_->Fail("CreateVolume", Internal("the answer of a host without the lease"), 1, -1,
                  FakeCsiPlugin::When::kAfter);
  plugin_a_->Release();
  EXPECT_TRUE(WaitUntil([this] { return a_->sharing->metrics().worked.dropped == 1; }));
  plugin_b_->Release();
  EXPECT_OK(call.get());
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(RequestsTest, RequesterThatDiesLeavesNothing) {
  StartBoth();
  plugin_a_->Hang("CreateVolume");
  auto call = std::async(std::launch::async, [this] { return c_->Call(CreateWithPassword("db")).status(); });
  ASSERT_TRUE(plugin_a_->WaitForCalls("CreateVolume", 1));
  c_.state.EndLease();
  EXPECT_THAT(call.get(), FailsWith(Code::kUnavailable, "the lease of this host ended"));
  plugin_a_->Release();
  EXPECT_TRUE(NothingIsLeft());
  c_.state.TakeLease();
  EXPECT_OK(c_->Call(Create("db")));
}

TEST_F(RequestsTest, DeadlineDeletesTheRequest) {
  StartBoth();
  plugin_a_->Hang("CreateVolume");
  plugin_b_->Hang("CreateVolume");
  EXPECT_THAT(c_->Call(Create("db"), Clock::now() + seconds(3)),
              FailsWith(Code::kDeadlineExceeded, "no answer in time to CreateVolume"));
  plugin_a_->Release();
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(RequestsTest, ExpiredRequestIsNotBegun) {
  StartBoth();
  for (TestHost* host : {&a_, &b_}) {  // they see requests, but cannot take them
    host->state.OnCommit([host](const Transaction& next) { host->state.SetAway(TakesRequest(next)); }, nullptr);
  }
  EXPECT_THAT(c_->Call(Create("db"), Clock::now() + milliseconds(200)),
              FailsWith(Code::kDeadlineExceeded, "no host has begun CreateVolume in time; host 'a' was asked to"));
  for (TestHost* host : {&a_, &b_}) {
    host->state.OnCommit(nullptr, nullptr);
    host->state.SetAway(false);
  }
  ASSERT_TRUE(NothingIsLeft());
  EXPECT_OK(c_->Call(Create("later")));
  EXPECT_THAT(plugin_a_->Calls(), Not(Contains("CreateVolume db")));
  EXPECT_THAT(plugin_b_->Calls(), Not(Contains("CreateVolume db")));
}

TEST_F(RequestsTest, RequestThatItsRequesterCannotDeleteIsNotBegunLate) {
  v1::ControllerRequest record;
  record.set_plugin(kPlugin);
  record.set_method(CsiCall<csi::v1::CreateVolumeRequest>::kMethod);
  record.set_request(Create("db").SerializeAsString());
  record.set_requester("c");
  record.set_preferred_host("a");
  record.set_time_left_ms(1);
  Transaction put;
  put.puts.push_back({RequestStateKey("0123"), record.SerializeAsString()});
  ASSERT_OK(store_.Commit(put));
  ASSERT_TRUE(c_->Sees(0));
  std::this_thread::sleep_for(milliseconds(50));
  StartBoth();
  EXPECT_OK(c_->Call(Create("later")));
  EXPECT_THAT(volumes_->Ids(), SizeIs(1));
}

TEST_F(RequestsTest, CallThatIsNotOfAControllerIsRefused) {
  StartBoth();
  EXPECT_THAT(c_->Call(csi::v1::NodeGetInfoRequest()),
              FailsWith(Code::kUnimplemented, "'/csi.v1.Node/NodeGetInfo' is not a call of a controller"));
}

TEST_F(RequestsTest, SecretsAreInNoPlainKey) {
  const auto watch = *store_.StartWatch("", 1);
  StartBoth();
  plugin_a_->Fail("CreateVolume", InvalidArgument("the password hunter2 is wrong"));
  EXPECT_THAT(c_->Call(CreateWithPassword("db")), FailsWith(Code::kInvalidArgument, "the password *** is wrong"));
  EXPECT_OK(c_->Call(CreateWithPassword("db")));
  EXPECT_EQ(plugin_b_->Requests<csi::v1::CreateVolumeRequest>().at(0).secrets().at("password"), "hunter2");
  ASSERT_TRUE(NothingIsLeft());
  int secrets = 0;
  const auto changes = watch->Next(Soon());  // the values of secrets are left out
  ASSERT_OK(changes);
  for (const Change& change : *changes) {
    if (IsSecret(change.value.key)) ++secrets;
    EXPECT_THAT(change.value.value, Not(HasSubstr("hunter2"))) << change.value.key;
  }
  EXPECT_EQ(secrets, 4) << "two puts and two deletes";
}

TEST(HasSecretsTest, LooksAtTheOptionOfCsiAndAtMountFlags) {
  auto request = Create("db");
  (*request.mutable_parameters())["password"] = "not marked as a secret";
  EXPECT_FALSE(HasSecrets(request));
  request.mutable_volume_capabilities(0)->mutable_mount()->add_mount_flags("noatime");
  EXPECT_TRUE(HasSecrets(request));
  EXPECT_TRUE(HasSecrets(CreateWithPassword("db")));
}

TEST_F(RequestsTest, SecretsNeedAKeyFileOnBothHosts) {
  StartBoth();
  a_.state.LoseSecretsKey();
  EXPECT_THAT(
      c_->Call(CreateWithPassword("db")),
      FailsWith(Code::kFailedPrecondition, "host 'a' cannot read the secrets of the request: this manager has no"));
  c_.state.LoseSecretsKey();
  EXPECT_THAT(c_->Call(CreateWithPassword("db")),
              FailsWith(Code::kFailedPrecondition, "the call has secrets, and cannot be sent to another host: this"));
  EXPECT_OK(c_->Call(Create("db"))) << "without secrets";
}

TEST_F(RequestsTest, LargeRequestIsRefused) {
  StartBoth();
  auto request = Create("db");
  (*request.mutable_parameters())["large"] = std::string(2 << 20, 'a');
  EXPECT_THAT(c_->Call(request), FailsWith(Code::kFailedPrecondition, "the request of CreateVolume has"));
  EXPECT_TRUE(NothingIsLeft());
}

// The answer of the store to each commit of a request is lost.
TEST_F(RequestsTest, LostAnswerToARequestIsUnavailable) {
  StartBoth();
  c_.state.LoseAnswer(MakesRequest);
  EXPECT_THAT(c_->Call(Create("db")), FailsWith(Code::kUnavailable, "the call cannot be sent to another host"));
  EXPECT_TRUE(NothingIsLeft());
  c_.state.LoseAnswer(MakesRequest);
  const RetryPolicy retry{.first_pause = milliseconds(1)};
  EXPECT_OK(CallController(c_->sharing->plugins(), kPlugin, Create("db"), retry, Soon()));
}

TEST_F(RequestsTest, LostAnswerToATakeIsMended) {
  StartBoth();
  a_.state.LoseAnswer(TakesRequest);
  EXPECT_OK(c_->Call(Create("db")));
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(RequestsTest, LostAnswerToAnAnswerIsHarmless) {
  StartBoth();
  a_.state.LoseAnswer(AnswersRequest);
  EXPECT_OK(c_->Call(Create("db")));
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(RequestsTest, StateThatIsAwayForAWhileLosesNoAnswer) {
  StartBoth();
  plugin_a_->Hang("CreateVolume");
  auto call = std::async(std::launch::async, [this] { return c_->Call(Create("db")).status(); });
  ASSERT_TRUE(plugin_a_->WaitForCalls("CreateVolume", 1));
  for (TestHost* host : {&a_, &b_, &c_}) host->state.SetAway(true);
  plugin_a_->Release();
  std::this_thread::sleep_for(milliseconds(100));
  for (TestHost* host : {&a_, &b_, &c_}) host->state.SetAway(false);
  EXPECT_OK(call.get());
  EXPECT_EQ(plugin_a_->Count("CreateVolume") + plugin_b_->Count("CreateVolume"), 1);
}

// As after an hour in which etcd was away: the leases have ended, and the revisions of the watches are compacted.
TEST_F(RequestsTest, LongOutageIsSurvivedWithoutBusyLoops) {
  StartBoth();
  for (TestHost* host : {&a_, &b_, &c_}) host->state.SetAway(true);
  for (TestHost* host : {&a_, &b_, &c_}) {
    host->state.EndLease();
    host->state.LoseWatches();
  }
  EXPECT_THAT(c_->Call(Create("db"), Clock::now() + milliseconds(300)), FailsWith(Code::kUnavailable, "away"));
  const int before = c_.state.lists();
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_LT(c_.state.lists() - before, 3 * 40) << "three watches, and pauses of 50 ms";
  EXPECT_GT(c_->sharing->metrics().watch_age, milliseconds(500));
  for (TestHost* host : {&a_, &b_, &c_}) {
    host->state.SetAway(false);
    host->state.TakeLease();
  }
  ASSERT_TRUE(c_->Sees(2));
  EXPECT_OK(c_->Call(Create("db")));
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(RequestsTest, StopEndsWaitsAtOnce) {
  StartBoth();
  plugin_a_->Hang("CreateVolume");
  auto call = std::async(std::launch::async, [this] { return c_->Call(Create("db")).status(); });
  ASSERT_TRUE(plugin_a_->WaitForCalls("CreateVolume", 1));
  const Clock::time_point began = Clock::now();
  c_->sharing->BeginStop();
  EXPECT_THAT(call.get(), FailsWith(Code::kCancelled, "the manager is stopping"));
  EXPECT_THAT(c_->Call(Create("db")), FailsWith(Code::kCancelled, "the manager is stopping"));
  c_.state.EndWatches();
  c_->sharing->Stop();
  EXPECT_LT(Clock::now() - began, seconds(1));
  plugin_a_->Release();
}

// The manager closes the channels to plugins that have not answered in time.
TEST_F(RequestsTest, CallThatAStopEndsIsMadeByAnotherHost) {
  StartBoth();
  plugin_a_->Hang("CreateVolume");
  auto call = std::async(std::launch::async, [this] { return c_->Call(Create("db")).status(); });
  ASSERT_TRUE(plugin_a_->WaitForCalls("CreateVolume", 1));
  a_->sharing->BeginStop();
  (*a_->plugins.PickController(kPlugin, Soon())).channel->Close();
  EXPECT_OK(call.get());
  EXPECT_EQ(plugin_b_->Count("CreateVolume"), 1);
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(RequestsTest, CloseEndsItsCallOnly) {
  StartBoth();
  plugin_a_->Hang("CreateVolume");
  plugin_b_->Hang("CreateVolume");
  const auto controller = c_->sharing->plugins().PickController(kPlugin, Soon());
  ASSERT_OK(controller);
  auto closed = std::async(std::launch::async,
                           [&] { return manager::Call(*controller->channel, Create("db"), Soon()).status(); });
  auto other = std::async(std::launch::async, [&] { return c_->Call(Create("other")).status(); });
  ASSERT_TRUE(plugin_a_->WaitForCalls("CreateVolume", 1));
  ASSERT_TRUE(plugin_b_->WaitForCalls("CreateVolume", 1));
  controller->channel->Close();
  EXPECT_THAT(closed.get(), FailsWith(Code::kCancelled, "was closed"));
  plugin_a_->Release();
  plugin_b_->Release();
  EXPECT_OK(other.get());
}

}  // namespace
}  // namespace mooring::manager

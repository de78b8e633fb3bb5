#include "manager/claims/claims.h"

#include <atomic>

#include "manager/state/keys.h"
#include "tests/manager/volumes/claims_fixture.h"
#include "tests/support/wait_until.h"

namespace mooring::manager {
namespace {

class ClaimsTest : public ClaimsFixture {
 protected:
  ClaimsTest() { AddVolume("db"); }
};

TEST_F(ClaimsTest, CommitsThenPublishes) {
  plugin_->Hang("ControllerPublishVolume");
  absl::StatusOr<ClaimAnswer> answer;
  std::thread claimer([&] { answer = Take(Request("web-1")); });
  ASSERT_TRUE(plugin_->WaitForCalls("ControllerPublishVolume", 1));
  EXPECT_EQ(TheClaim().publish, Claim::Publish::kSent) << "stored before the call";
  plugin_->Release();
  claimer.join();
  ASSERT_OK(answer);
  EXPECT_EQ(TheClaim().publish, Claim::Publish::kDone);
  EXPECT_THAT(answer->claim.publish_context, ElementsAre(Pair("device", "/dev/fake-ext-db")));
  EXPECT_THAT(AttachedTo(), ElementsAre("node-1"));
}

TEST_F(ClaimsTest, AnswerHasVolumeAndPublishContext) {
  const auto answer = Take(Request("web-1"));
  ASSERT_OK(answer);
  EXPECT_EQ(answer->volume.external_id, "ext-db");
  EXPECT_EQ(answer->volume.secrets, Password("hunter2"));
  EXPECT_EQ(answer->claim.node, "here");
  EXPECT_EQ(answer->claim.external_node_id, "node-1");
  EXPECT_THAT(answer->claim.publish_context, Not(IsEmpty()));
  EXPECT_EQ(answer->claim.revisions.modify, TheClaim().revisions.modify);
}

TEST_F(ClaimsTest, RepeatedClaimMakesNoCall) {
  ASSERT_OK(Take(Request("web-1")));
  directory_.SetHealthy("fake.csi", false, false);
  const auto again = Take(Request("web-1"));
  ASSERT_OK(again);
  EXPECT_THAT(again->claim.publish_context, Not(IsEmpty()));
  EXPECT_EQ(plugin_->Count("ControllerPublishVolume"), 1);
  EXPECT_EQ(AllClaims().size(), 1U);
}

TEST_F(ClaimsTest, FirstClaimSetsModeAndLastClearsIt) {
  EXPECT_EQ(Stored("db").in_use, std::nullopt);
  ASSERT_OK(Take(Request("web-1")));
  EXPECT_EQ(Stored("db").in_use, kWriters);
  ASSERT_OK(Take(Request("web-2")));
  ASSERT_OK(Release("web-1"));
  EXPECT_EQ(Stored("db").in_use, kWriters);
  ASSERT_OK(Release("web-2"));
  EXPECT_EQ(Stored("db").in_use, std::nullopt);
  EXPECT_EQ(Stored("db").secrets, Password("hunter2")) << "and nothing else of it changed";
}

TEST_F(ClaimsTest, PastClaimKeepsMode) {
  ASSERT_OK(Take(Request("web-1")));
  ASSERT_OK(claims_->AllocationGone("web-1"));
  EXPECT_EQ(Stored("db").in_use, kWriters);
}

TEST_F(ClaimsTest, RefusalChangesNothingAndIsReported) {
  ASSERT_OK(Take(Request("web-1", kWriter)));
  const int commits = state_.commits();
  EXPECT_THAT(Take(Request("web-2", kWriter)), FailsWith(Code::kFailedPrecondition, "writer 'web-1' on 'here'"));
  EXPECT_EQ(state_.commits(), commits);
  EXPECT_EQ(plugin_->Count("ControllerPublishVolume"), 1);
  EXPECT_THAT(Told(), HasSubstr("claim refused"));
}

// Many concurrent claims for one writer: one succeeds.
TEST_F(ClaimsTest, OneOfTwoConcurrentClaimsStartsOver) {
  constexpr int kClaimers = 8;
  std::atomic<int> granted = 0, refused = 0;
  std::vector<std::thread> claimers;
  for (int i = 0; i < kClaimers; ++i) {
    claimers.emplace_back([&, i] {
      const auto answer = Take(Request("web-" + std::to_string(i), kWriter));
      if (answer.ok()) ++granted;
      if (absl::IsFailedPrecondition(answer.status())) ++refused;
    });
  }
  for (std::thread& claimer : claimers) claimer.join();
  EXPECT_EQ(granted, 1);
  EXPECT_EQ(refused, kClaimers - 1);
  EXPECT_EQ(AllClaims().size(), 1U);
}

TEST_F(ClaimsTest, ConcurrentClaimFailsTheCommit) {
  bool first = true;
  state_.BeforeCommit([&](const Transaction&) {
    if (!std::exchange(first, false)) return;
    ASSERT_OK(Take(Request("web-2", kWriter)));
  });
  EXPECT_THAT(Take(Request("web-1", kWriter)), FailsWith(Code::kFailedPrecondition, "writer 'web-2'"));
}

TEST_F(ClaimsTest, NeedsHealthyNodeAndController) {
  directory_.SetHealthy("fake.csi", false, true, "Probe: is sick");
  EXPECT_THAT(Take(Request("web-1")), FailsWith(Code::kUnavailable, "no healthy node instance (1 expected)"));
  directory_.SetHealthy("fake.csi", true, false, "Probe: is sick");
  const auto refused = Take(Request("web-1"));
  EXPECT_THAT(refused, FailsWith(Code::kUnavailable, "no healthy controller instance"));
  EXPECT_THAT(Message(refused.status()), HasSubstr("Probe: is sick"));
  EXPECT_THAT(claims_->CheckSchedulable(Stored("db")), FailsWith(Code::kUnavailable, "Probe: is sick"));
  EXPECT_THAT(AllClaims(), IsEmpty());
  WithoutController();
  EXPECT_OK(Take(Request("web-1"))) << "no controller needed, none asked for";
  EXPECT_OK(claims_->CheckSchedulable(Stored("db")));
}

TEST_F(ClaimsTest, UnknownPluginIsNotSchedulable) {
  directory_.Remove("fake.csi");
  EXPECT_THAT(Take(Request("web-1")), FailsWith(Code::kUnavailable, "fake.csi"));
}

TEST_F(ClaimsTest, PluginWithoutControllerIsNotAsked) {
  WithoutController();
  const auto answer = Take(Request("web-1"));
  ASSERT_OK(answer);
  EXPECT_EQ(answer->claim.publish, Claim::Publish::kNone);
  ASSERT_OK(Release("web-1"));
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_THAT(plugin_->Calls(), IsEmpty());
}

TEST_F(ClaimsTest, ExternalNodeIdComesFromRequestClaimOrPlugin) {
  ClaimRequest request = Request("web-1");
  request.external_node_id = "named";
  ASSERT_OK(Take(request));
  const auto second = Take(Request("web-2"));
  ASSERT_OK(second);
  EXPECT_EQ(second->claim.external_node_id, "named");
  ASSERT_OK(Release("web-1"));
  ASSERT_OK(Release("web-2"));
  const auto third = Take(Request("web-3"));
  ASSERT_OK(third);
  EXPECT_EQ(third->claim.external_node_id, "node-1");
}

TEST_F(ClaimsTest, OtherHostNeedsExternalNodeId) {
  ClaimRequest request = Request("web-1");
  request.node = "there";
  EXPECT_THAT(Take(request), FailsWith(Code::kInvalidArgument, "external_node_id"));
  request.external_node_id = "node-2";
  ASSERT_OK(Take(request));
  EXPECT_THAT(AttachedTo(), ElementsAre("node-2"));
}

TEST_F(ClaimsTest, PublishesInModeInUse) {
  ASSERT_OK(Take(Request("web-1", kWriters)));
  ASSERT_OK(Take(Request("web-2", kWriters, ClaimMode::kRead)));
  const auto requests = plugin_->Requests<csi::v1::ControllerPublishVolumeRequest>();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].SerializeAsString(), requests[1].SerializeAsString());
  EXPECT_EQ(requests[0].secrets().at("password"), "hunter2");
  EXPECT_FALSE(requests[0].readonly());
}

TEST_F(ClaimsTest, RetriesTemporaryErrors) {
  plugin_->Fail("ControllerPublishVolume", Unavailable("starting"), 1, 2);
  ASSERT_OK(Take(Request("web-1")));
  EXPECT_EQ(plugin_->Count("ControllerPublishVolume"), 3);
}

TEST_F(ClaimsTest, RepeatsCallAtNextInstance) {
  plugin_->Fail("ControllerPublishVolume", absl::CancelledError("the channel was closed"));
  ASSERT_OK(Take(Request("web-1")));
  EXPECT_EQ(plugin_->Count("ControllerPublishVolume"), 2);
  EXPECT_EQ(plugin_->Count("ControllerUnpublishVolume"), 0);
}

TEST_F(ClaimsTest, StopUndoesNothing) {
  plugin_->FailAlways("ControllerPublishVolume", Unavailable("starting"));
  retry_.first_pause = hours(1);
  Restart();
  absl::Status claimed;
  std::thread claim([&] { claimed = claims_->Take(Request("web-1"), Clock::now() + hours(9)).status(); });
  EXPECT_TRUE(plugin_->WaitForCalls("ControllerPublishVolume", 1));
  stop_.request_stop();
  claim.join();
  EXPECT_EQ(claimed, Stopping());
  EXPECT_EQ(TheClaim().state, State::kTaken);
  EXPECT_EQ(TheClaim().publish, Claim::Publish::kSent);
  EXPECT_THAT(Told(), Not(HasSubstr("stopping")));

  plugin_->ClearFaults();
  retry_.stop = {};
  Restart();
  ASSERT_OK(Take(Request("web-1"))) << "the same again goes on";
  EXPECT_THAT(AttachedTo(), ElementsAre("node-1"));
}

TEST_F(ClaimsTest, OneControllerCallAtATimeForAVolume) {
  plugin_->Delay("ControllerPublishVolume", milliseconds(2));
  plugin_->Delay("ControllerUnpublishVolume", milliseconds(2));
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, name = "web-" + std::to_string(i)] {
      for (int round = 0; round < 5; ++round) {
        EXPECT_OK(Take(Request(name)));
        EXPECT_OK(Release(name));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(plugin_->Violations(), IsEmpty());
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_THAT(AttachedTo(), IsEmpty()) << "the last one detached it";
}

TEST_F(ClaimsTest, HealthChangeClearsExhaustedMark) {
  plugin_->FailAlways("ControllerPublishVolume", ResourceExhausted("no slot is free"));
  EXPECT_THAT(Take(Request("web-1")), FailsWith(Code::kResourceExhausted, "no slot is free"));
  EXPECT_EQ(plugin_->Count("ControllerPublishVolume"), 1) << "not asked again and again";
  EXPECT_THAT(AllClaims(), IsEmpty());
  plugin_->ClearFaults();

  EXPECT_THAT(Take(Request("web-1")), FailsWith(Code::kResourceExhausted, "no slot is free"));
  EXPECT_THAT(claims_->CheckSchedulable(Stored("db")), FailsWith(Code::kResourceExhausted, "no slot is free"));
  EXPECT_EQ(plugin_->Count("ControllerPublishVolume"), 1) << "not asked while it is marked";

  claims_->PluginHealthChanged("another");
  EXPECT_TRUE(Stored("db").exhausted_at);
  claims_->PluginHealthChanged("fake.csi");
  EXPECT_FALSE(Stored("db").exhausted_at);
  EXPECT_EQ(Stored("db").secrets, Password("hunter2"));
  EXPECT_OK(Take(Request("web-1")));
}

TEST_F(ClaimsTest, EveryChangeHasARevision) {
  const std::int64_t before = Stored("db").revisions.modify;
  ASSERT_OK(Take(Request("web-1")));
  EXPECT_GT(Stored("db").revisions.modify, before);
  Volume old = Stored("db");
  ASSERT_OK(Take(Request("web-2")));
  EXPECT_THAT(store_.Commit(Changes().Put(old)), FailsWith(Code::kAborted, ""));
}

TEST_F(ClaimsTest, RefusesUnknownVolume) {
  ClaimRequest request = Request("web-1");
  request.volume.id = "nothing";
  EXPECT_THAT(Take(request), FailsWith(Code::kNotFound, "'nothing'"));
}

TEST_F(ClaimsTest, EventsHaveNoSecretsOrMountFlags) {
  Volume volume = Stored("db");
  volume.mount_options.flags = {"credentials=swordfish"};
  ASSERT_OK(store_.Commit(Changes().Put(volume)));
  ASSERT_OK(Take(Request("web-1")));
  plugin_->Fail("ControllerPublishVolume", Internal("no"));
  EXPECT_FALSE(Take(Request("web-2")).ok());
  EXPECT_THAT(Told(), AllOf(Not(HasSubstr("hunter2")), Not(HasSubstr("swordfish"))));
}

TEST_F(ClaimsTest, ClaimReleasedDuringPublishIsAborted) {
  plugin_->Hang("ControllerPublishVolume");
  absl::Status claimed;
  std::thread claim([&] { claimed = Take(Request("web-1")).status(); });
  EXPECT_TRUE(plugin_->WaitForCalls("ControllerPublishVolume", 1));
  EXPECT_FALSE(claims_->Release({"default", "db"}, ClaimMode::kWrite, "web-1", absl::OkStatus(), AtOnce()).ok());
  plugin_->Release();
  claim.join();
  EXPECT_THAT(claimed, FailsWith(Code::kAborted, "released while it was taken"));
  Resume();
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_THAT(AttachedTo(), IsEmpty());
}

// As after a pause of this machine: another host took it for lost, unpublished the volume and freed the claim. Then the
// publish of this host reaches the controller.
class FreedMeanwhileTest : public ClaimsTest {
 protected:
  // Takes the claim of web-1. `meanwhile` happens before the plugin gets the publish.
  absl::Status TakeWhile(const std::function<void()>& meanwhile) {
    plugin_->Hang("ControllerPublishVolume");
    absl::Status claimed;
    std::thread claim([&] { claimed = Take(Request("web-1")).status(); });
    EXPECT_TRUE(plugin_->WaitForCalls("ControllerPublishVolume", 1));
    meanwhile();
    plugin_->Release();
    claim.join();
    return claimed;
  }
  void FreeClaim() { EXPECT_OK(store_.Commit(Changes().Delete(TheClaim()))); }
  void ChangeClaim(const std::function<void(Claim&)>& change) {
    Claim claim = TheClaim();
    change(claim);
    EXPECT_OK(store_.Commit(Changes().Put(claim)));
  }
};

TEST_F(FreedMeanwhileTest, ThePublishIsUndone) {
  EXPECT_THAT(TakeWhile([&] { FreeClaim(); }), FailsWith(Code::kAborted, "released while it was taken"));
  EXPECT_THAT(AttachedTo(), IsEmpty());
}

// The other host ended between its unpublish and the end of the claim.
TEST_F(FreedMeanwhileTest, ThePublishOfAHalfFreedClaimIsUndone) {
  EXPECT_FALSE(TakeWhile([&] { ChangeClaim([](Claim& claim) { claim.state = State::kControllerDetached; }); }).ok());
  EXPECT_THAT(AttachedTo(), IsEmpty());
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(FreedMeanwhileTest, ThePublishOfAnEarlierClaimIsUndone) {
  ASSERT_OK(Take(Request("web-1")));
  ChangeClaim([](Claim& claim) { claim.publish = Claim::Publish::kSent; });
  plugin_->ClearLog();
  const absl::Status claimed = TakeWhile([&] { FreeClaim(); });
  EXPECT_THAT(claimed, FailsWith(Code::kAborted, "released while it was taken"));
  EXPECT_THAT(claimed.message(), Not(HasSubstr("stays")));
  EXPECT_THAT(AttachedTo(), IsEmpty());
}

TEST_F(FreedMeanwhileTest, TheUndoIsRepeated) {
  plugin_->Fail("ControllerUnpublishVolume", Internal("not now"));
  EXPECT_FALSE(TakeWhile([&] { FreeClaim(); }).ok());
  EXPECT_THAT(AttachedTo(), ElementsAre("node-1"));
  EXPECT_FALSE(claims_->IsRollbackOwed({"default", "db"}, ClaimMode::kWrite, "web-1"));
  queue_.TryNow("fake.csi");
  EXPECT_TRUE(WaitUntil([&] { return AttachedTo().empty(); }, std::chrono::seconds(20)));
}

TEST_F(FreedMeanwhileTest, TheUndoFollowsWhenTheStateIsBack) {
  state_.DieAfter(1);
  EXPECT_THAT(Take(Request("web-1")).status().message(), HasSubstr("taking it back failed"));
  state_.DieAfter(-1);
  FreeClaim();
  EXPECT_THAT(AttachedTo(), ElementsAre("node-1"));
  queue_.TryNow("fake.csi");
  EXPECT_TRUE(WaitUntil([&] { return AttachedTo().empty(); }, std::chrono::seconds(20)));
}

TEST_F(FreedMeanwhileTest, ARefusedPublishIsNotUndone) {
  plugin_->Fail("ControllerPublishVolume", FailedPrecondition("no"));
  EXPECT_FALSE(TakeWhile([&] { FreeClaim(); }).ok());
  EXPECT_EQ(plugin_->Count("ControllerUnpublishVolume"), 0);
}

TEST_F(FreedMeanwhileTest, AnotherClaimOfTheNodeKeepsThePublish) {
  const absl::Status claimed = TakeWhile([&] {
    Claim other = TheClaim();
    FreeClaim();
    other.allocation = "web-2";
    other.revisions = {};
    EXPECT_OK(store_.Commit(Changes().Put(other)));
  });
  EXPECT_FALSE(claimed.ok());
  EXPECT_EQ(plugin_->Count("ControllerUnpublishVolume"), 0);
}

TEST_F(ClaimsTest, RepeatedExhaustionIsReportedOnce) {
  claims_->MarkExhausted({"default", "db"}, "NodeStageVolume of plugin 'fake.csi': no room (tried 3 times)");
  EXPECT_THAT(Take(Request("web-1")), FailsWith(Code::kResourceExhausted, "no room"));
  const std::string told = Told();
  now_ += std::chrono::minutes(30);
  claims_->MarkExhausted({"default", "db"}, "NodeStageVolume of plugin 'fake.csi': no room (tried 9 times)");
  EXPECT_EQ(Told(), told);
  now_ += std::chrono::minutes(59);
  EXPECT_FALSE(Take(Request("web-1")).ok()) << "the hour counts from the last time";
  claims_->PluginHealthChanged("fake.csi");
  EXPECT_OK(Take(Request("web-1")));
}

TEST_F(ClaimsTest, FinishedExpansionIsNotOwed) {
  Volume volume = Stored("db");
  volume.node_expansion_owed = true;
  volume.capacity_bytes = 2048;
  ASSERT_OK(store_.Commit(Changes().Put(volume)));
  claims_->NodeExpanded(volume.key, 1024);
  EXPECT_TRUE(Stored("db").node_expansion_owed) << "it has grown again since";
  claims_->NodeExpanded(volume.key, 2048);
  EXPECT_FALSE(Stored("db").node_expansion_owed);
}

TEST_F(ClaimsTest, ShorterDeadlineDoesNotUndoOthersClaim) {
  plugin_->Hang("ControllerPublishVolume");
  absl::Status claimed;
  std::thread claim([&] { claimed = Take(Request("web-1")).status(); });
  EXPECT_TRUE(plugin_->WaitForCalls("ControllerPublishVolume", 1));
  ClaimRequest by_user = Request("web-1");
  by_user.keep = true;
  EXPECT_THAT(claims_->Take(by_user, AtOnce()), FailsWith(Code::kAborted, ""));
  EXPECT_FALSE(TheClaim().kept) << "who was told that it failed keeps nothing";
  plugin_->Release();
  claim.join();
  EXPECT_OK(claimed);
  EXPECT_EQ(TheClaim().publish, Claim::Publish::kDone);
}

// A claim that was granted with a controller is published, even if the controller is gone by then.
TEST_F(ClaimsTest, PublishNeedIsReadWithTheGrant) {
  directory_.BeforeWaitForNode([&] { directory_.SetHealthy("fake.csi", true, false); });
  EXPECT_THAT(claims_->Take(Request("web-1"), AtOnce()), FailsWith(Code::kUnavailable, "is sick"));
  directory_.SetHealthy("fake.csi", true, true);
  Resume();
  EXPECT_THAT(AllClaims(), IsEmpty());
}

}  // namespace
}  // namespace mooring::manager

#include "manager/claims/claims.h"
#include "tests/manager/volumes/claims_fixture.h"
#include "tests/support/wait_until.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FakeCsiPlugin;

class ReleaseTest : public ClaimsFixture {
 protected:
  ReleaseTest() {
    AddVolume("db");
    EXPECT_OK(Take(Request("web-1")));
  }

  // The stored states of the claim, in order.
  std::vector<State> StatesDuring(const std::function<void()>& action) {
    std::vector<State> states;
    state_.BeforeCommit([&](const Transaction&) {
      const auto claims = store_.ListClaims();
      if (claims.ok() && !claims->empty()) states.push_back((*claims)[0].state);
    });
    action();
    state_.BeforeCommit(nullptr);
    return states;
  }

  enum class Mounted { kNowhere, kEverywhere };
  void CollectAfter(seconds time, Mounted mounted) {
    now_ += time;
    is_mounted_ = mounted == Mounted::kEverywhere;
    Resume();
  }
};

TEST_F(ReleaseTest, StoresEachStepBeforeTheNext) {
  const auto states = StatesDuring([&] {
    ASSERT_OK(Release("web-1", FailedPrecondition("busy")));
    ASSERT_OK(Release("web-1"));
  });
  EXPECT_THAT(states,
              ElementsAre(State::kTaken, State::kUnmountFailed, State::kNodeDetached, State::kControllerDetached))
      << "as it was before each commit; the last one freed it";
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_THAT(AttachedTo(), IsEmpty());
}

// Nobody has to be asked between two steps.
TEST_F(ReleaseTest, ClaimWithoutControllerIsFreedInOneCommit) {
  WithoutController();
  AddVolume("plain");
  ClaimRequest request = Request("web-2");
  request.volume.id = "plain";
  for (const bool keep : {false, true}) {
    request.keep = keep;
    ASSERT_OK(Take(request));
    const int commits = state_.commits();
    if (keep) {
      ASSERT_OK(claims_->ReleaseKept(request.volume, request.mode, "web-2", Soon()));
    } else {
      ASSERT_OK(claims_->Release(request.volume, request.mode, "web-2", absl::OkStatus(), Soon()));
    }
    EXPECT_EQ(state_.commits(), commits + 1);
    EXPECT_THAT(*store_.ListClaims(request.volume), IsEmpty());
  }
}

TEST_F(ReleaseTest, KeptClaimSurvivesDetach) {
  ClaimRequest by_user = Request("web-1");
  by_user.keep = true;
  ASSERT_OK(Take(by_user)) << "what an attach has claimed, kept from now on";
  ASSERT_OK(Take(Request("web-1")));
  ASSERT_OK(Release("web-1", FailedPrecondition("busy")));
  ASSERT_OK(Release("web-1"));
  EXPECT_EQ(TheClaim().state, State::kTaken);
  EXPECT_EQ(plugin_->Count("ControllerUnpublishVolume"), 0);
  ASSERT_OK(claims_->ReleaseKept({"default", "db"}, ClaimMode::kWrite, "web-1", Soon()));
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_THAT(AttachedTo(), IsEmpty());
}

// A detach syncs its journal afterwards. Other releases sync their last commit themselves.
TEST_F(ReleaseTest, SyncsBeforeControllerCallsAndAnswersToUsers) {
  const auto synced = [&](const std::function<void()>& action) {
    std::string commits;
    state_.BeforeCommit([&](const Transaction& commit) {
      commits += commit.durability == Durability::kSynced ? "synced " : "ordered ";
    });
    action();
    state_.BeforeCommit(nullptr);
    return commits;
  };
  ClaimRequest by_user = Request("web-2");
  by_user.keep = true;
  EXPECT_EQ(synced([&] { ASSERT_OK(Release("web-1")); }), "synced ordered ordered ");
  EXPECT_EQ(synced([&] { ASSERT_OK(Take(Request("web-1"))); }), "synced ordered ");
  EXPECT_EQ(synced([&] { ASSERT_OK(Take(by_user)); }), "synced synced ");
  EXPECT_EQ(synced([&] {
              ASSERT_OK(claims_->ReleaseKept({"default", "db"}, ClaimMode::kWrite, "web-2", Soon()));
            }),
            "synced ordered synced ");
  ASSERT_OK(Release("web-1"));
  WithoutController();
  EXPECT_EQ(synced([&] { ASSERT_OK(Take(Request("web-1"))); }), "ordered ");
  EXPECT_EQ(synced([&] { ASSERT_OK(Take(by_user)); }), "synced ");
}

TEST_F(ReleaseTest, FailedUnmountNeverSkipsNodeStep) {
  ASSERT_OK(Release("web-1", FailedPrecondition("unmount '/t': busy")));
  EXPECT_EQ(TheClaim().state, State::kUnmountFailed);
  EXPECT_EQ(TheClaim().problem, "unmount '/t': busy");
  Resume();
  EXPECT_EQ(TheClaim().state, State::kUnmountFailed) << "only who unmounts it knows when it is unmounted";
  EXPECT_EQ(plugin_->Count("ControllerUnpublishVolume"), 0);
}

TEST_F(ReleaseTest, FailedUnmountKeepsClaim) {
  ASSERT_OK(Release("web-1", FailedPrecondition("busy")));
  EXPECT_THAT(Take(Request("web-2", kWriter)), FailsWith(Code::kFailedPrecondition, "busy"));
  EXPECT_THAT(Take(Request("web-1")), FailsWith(Code::kAborted, "is still being released"));
}

TEST_F(ReleaseTest, ReleaseOfUnknownClaimIsOk) {
  ASSERT_OK(Release("nobody"));
  ASSERT_OK(Release("web-1"));
  ASSERT_OK(Release("web-1"));
  EXPECT_EQ(plugin_->Count("ControllerUnpublishVolume"), 1);
}

// Kills the manager before each commit of a claim and release, and restarts it: nothing leaks, and no attached volume
// is freed.
TEST_F(ReleaseTest, ResumesAfterKillAtEveryStep) {
  ASSERT_OK(Release("web-1"));
  int killed = 0;
  for (int after = 0;; ++after) {
    SCOPED_TRACE("killed after " + std::to_string(after) + " commits");
    state_.DieAfter(after);
    const bool claimed = Take(Request("web-2")).ok();
    const bool released = claimed && Release("web-2").ok();
    state_.DieAfter(-1);
    if (released) break;
    ++killed;
    Restart();
    Resume();
    if (!AllClaims().empty()) {
      EXPECT_THAT(TheClaim().state, State::kTaken) << "what is behind the node's step is finished by Resume";
      EXPECT_OK(Release("web-2")) << "as the attachment's record makes it do";
    }
    EXPECT_THAT(AllClaims(), IsEmpty());
    EXPECT_THAT(AttachedTo(), IsEmpty());
    EXPECT_EQ(Stored("db").in_use, std::nullopt);
  }
  EXPECT_EQ(killed, 5) << "taken, published, node-detached, controller-detached, freed";
}

TEST_F(ReleaseTest, SkipsUnpublishWhileNodeHasAnotherClaim) {
  ASSERT_OK(Take(Request("web-2")));
  ClaimRequest elsewhere = Request("web-3");
  elsewhere.node = "there";
  elsewhere.external_node_id = "node-2";
  ASSERT_OK(Take(elsewhere));

  ASSERT_OK(Release("web-1"));
  EXPECT_THAT(AttachedTo(), ElementsAre("node-1", "node-2"));
  ASSERT_OK(Release("web-3"));
  EXPECT_THAT(AttachedTo(), ElementsAre("node-1")) << "another node's claim is no reason";
  ASSERT_OK(Release("web-2", FailedPrecondition("busy")));
  EXPECT_THAT(AttachedTo(), ElementsAre("node-1"));
  ASSERT_OK(Release("web-2"));
  EXPECT_THAT(AttachedTo(), IsEmpty());
}

TEST_F(ReleaseTest, LastOfTwoReleasesUnpublishes) {
  ASSERT_OK(Take(Request("web-2")));
  directory_.SetHealthy("fake.csi", true, false);
  ASSERT_OK(Release("web-1")) << "the other one has it still";
  ASSERT_OK(Release("web-2"));
  EXPECT_EQ(AllClaims().size(), 1U);
  directory_.SetHealthy("fake.csi", true, true);
  Resume();
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_THAT(AttachedTo(), IsEmpty());
}

TEST_F(ReleaseTest, SendsOwedUnpublishWhenPluginIsBack) {
  directory_.SetHealthy("fake.csi", true, false);
  ASSERT_OK(claims_->Release({"default", "db"}, ClaimMode::kWrite, "web-1", absl::OkStatus(), Soon()));
  EXPECT_EQ(TheClaim().state, State::kNodeDetached);
  EXPECT_THAT(TheClaim().problem, HasSubstr("owed to plugin 'fake.csi'"));
  Restart();
  Resume();
  EXPECT_EQ(TheClaim().state, State::kNodeDetached) << "not back yet";

  directory_.SetHealthy("fake.csi", true, true);
  queue_.TryNow("another");
  EXPECT_TRUE(claims_->WaitUntilTried(Soon()));
  EXPECT_EQ(TheClaim().state, State::kNodeDetached) << "that was not its plugin";
  queue_.TryNow("fake.csi");
  EXPECT_TRUE(claims_->WaitUntilTried(Soon()));
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_THAT(AttachedTo(), IsEmpty());
}

TEST_F(ReleaseTest, DeadPluginIsOwedUnpublish) {
  plugin_->Die();
  ASSERT_OK(claims_->Release({"default", "db"}, ClaimMode::kWrite, "web-1", absl::OkStatus(), AtOnce()));
  EXPECT_EQ(TheClaim().state, State::kNodeDetached);
  plugin_->Revive();
  Resume();
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ReleaseTest, RefusedUnpublishIsAnErrorAndKeepsClaim) {
  plugin_->Fail("ControllerUnpublishVolume", Internal("the array is on fire"));
  EXPECT_THAT(Release("web-1"),
              FailsWith(Code::kInternal, "ControllerUnpublishVolume of plugin 'fake.csi': the array is on fire"));
  EXPECT_THAT(TheClaim().problem, HasSubstr("on fire"));
  ASSERT_OK(Release("web-1"));
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ReleaseTest, UnpublishOfUnknownVolumeIsOk) {
  plugin_->Fail("ControllerUnpublishVolume", NotFound("no such node"));
  ASSERT_OK(Release("web-1"));
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ReleaseTest, HangingPluginDelaysOnlyItsOwnClaims) {
  auto hung = std::make_shared<FakeCsiPlugin>([] {
    testing::FakeCsiFeatures features;
    features.name = "hung.csi";
    return features;
  }());
  directory_.Add(hung);
  hung->volumes().Add("ext-other");
  AddVolume("other", "hung.csi");
  ClaimRequest request = Request("web-2");
  request.volume.id = "other";
  ASSERT_OK(Take(request));
  directory_.SetHealthy("fake.csi", true, false);
  directory_.SetHealthy("hung.csi", true, false);
  ASSERT_OK(Release("web-1"));
  ASSERT_OK(claims_->Release(request.volume, ClaimMode::kWrite, "web-2", absl::OkStatus(), Soon()));
  directory_.SetHealthy("fake.csi", true, true);
  directory_.SetHealthy("hung.csi", true, true);

  hung->Hang("ControllerUnpublishVolume");
  EXPECT_OK(claims_->Resume());
  ASSERT_TRUE(hung->WaitForCalls("ControllerUnpublishVolume", 1));
  ASSERT_TRUE(plugin_->WaitForCalls("ControllerUnpublishVolume", 1));
  hung->Release();
  EXPECT_TRUE(claims_->WaitUntilTried(Soon()));
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ReleaseTest, FreesPastClaimsAfterFiveMinutes) {
  ASSERT_OK(claims_->AllocationGone("web-1"));
  EXPECT_TRUE(TheClaim().past);
  CollectAfter(seconds(299), Mounted::kNowhere);
  EXPECT_EQ(TheClaim().state, State::kTaken);
  CollectAfter(seconds(1), Mounted::kNowhere);
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_THAT(AttachedTo(), IsEmpty());
  EXPECT_EQ(Stored("db").in_use, std::nullopt);
}

TEST_F(ReleaseTest, AgeCountsFromFirstReport) {
  ASSERT_OK(claims_->AllocationGone("web-1"));
  now_ += seconds(200);
  ASSERT_OK(claims_->AllocationGone("web-1"));
  CollectAfter(seconds(100), Mounted::kNowhere);
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ReleaseTest, MountedVolumesAreNotCollected) {
  ASSERT_OK(claims_->AllocationGone("web-1"));
  CollectAfter(seconds(3600), Mounted::kEverywhere);
  EXPECT_EQ(TheClaim().state, State::kTaken);
  EXPECT_THAT(TheClaim().problem, HasSubstr("still has it mounted"));
  CollectAfter(seconds(0), Mounted::kNowhere);
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ReleaseTest, LivingClaimsAreNotCollected) {
  CollectAfter(hours(1000), Mounted::kNowhere);
  EXPECT_EQ(TheClaim().state, State::kTaken);
}

TEST_F(ReleaseTest, NewClaimRevivesAllocation) {
  ASSERT_OK(claims_->AllocationGone("web-1"));
  ASSERT_OK(Take(Request("web-1")));
  EXPECT_FALSE(TheClaim().past);
  CollectAfter(hours(1), Mounted::kNowhere);
  EXPECT_EQ(TheClaim().state, State::kTaken);
}

TEST_F(ReleaseTest, NewClaimClearsProblemOfPastClaim) {
  ASSERT_OK(claims_->AllocationGone("web-1"));
  CollectAfter(std::chrono::minutes(6), Mounted::kEverywhere);
  EXPECT_THAT(TheClaim().problem, HasSubstr("still has it mounted"));
  ASSERT_OK(Take(Request("web-1")));
  EXPECT_EQ(TheClaim().problem, "");
}

TEST_F(ReleaseTest, StoresAndReportsNodeProblemOnce) {
  ASSERT_OK(Release("web-1", FailedPrecondition("busy (tried 3 times)")));
  const int commits = state_.commits();
  const std::string told = Told();
  EXPECT_THAT(told, HasSubstr("busy"));
  ASSERT_OK(Release("web-1", FailedPrecondition("busy (tried 27 times)")));
  EXPECT_EQ(state_.commits(), commits);
  EXPECT_EQ(Told(), told);
  ASSERT_OK(Release("web-1", FailedPrecondition("the plugin is away")));
  EXPECT_EQ(TheClaim().problem, "the plugin is away");
}

TEST_F(ReleaseTest, StopIsNoProblem) {
  stop_.request_stop();
  EXPECT_EQ(Release("web-1"), Stopping());
  EXPECT_EQ(TheClaim().state, State::kNodeDetached);
  EXPECT_EQ(TheClaim().problem, "");
  EXPECT_EQ(plugin_->Count("ControllerUnpublishVolume"), 0);
  retry_.stop = {};
  Restart();
  Resume();
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ReleaseTest, StuckClaimDelaysNoOther) {
  AddVolume("other");
  ClaimRequest request = Request("web-2");
  request.volume.id = "other";
  ASSERT_OK(Take(request));
  directory_.SetHealthy("fake.csi", true, false);
  ASSERT_OK(Release("web-1"));
  ASSERT_OK(claims_->Release(request.volume, ClaimMode::kWrite, "web-2", absl::OkStatus(), Soon()));
  ASSERT_EQ(AllClaims().size(), 2U);
  directory_.SetHealthy("fake.csi", true, true);
  plugin_->Hang("ControllerUnpublishVolume", "ext-db");
  EXPECT_OK(claims_->Resume());
  EXPECT_TRUE(testing::WaitUntil([&] { return AllClaims().size() == 1; }, seconds(30)));
  EXPECT_EQ(TheClaim().allocation, "web-1");
  plugin_->Release();
  EXPECT_TRUE(claims_->WaitUntilTried(Soon()));
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ReleaseTest, StoresAndReportsSameProblemOnce) {
  plugin_->FailAlways("ControllerUnpublishVolume", Unavailable("away"));
  retry_.first_pause = hours(1);  // so each call has one try
  Restart();
  ASSERT_OK(Release("web-1"));
  EXPECT_THAT(TheClaim().problem, HasSubstr("away"));
  const std::int64_t stored = TheClaim().revisions.modify;
  const std::string told = Told();
  for (int i = 0; i < 3; ++i) Resume();
  EXPECT_EQ(plugin_->Count("ControllerUnpublishVolume"), 4);
  EXPECT_EQ(TheClaim().revisions.modify, stored);
  EXPECT_EQ(Told(), told);
}

}  // namespace
}  // namespace mooring::manager

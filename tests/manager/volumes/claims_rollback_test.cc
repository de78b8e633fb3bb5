// A claim whose publish fails is undone.
#include "manager/state/keys.h"
#include "tests/manager/volumes/claims_fixture.h"
#include "tests/support/wait_until.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FakeCsiPlugin;
using ::mooring::testing::WaitUntil;

class ClaimsRollbackTest : public ClaimsFixture {
 protected:
  ClaimsRollbackTest() { AddVolume("db"); }
};

TEST_F(ClaimsRollbackTest, UndoesClaimAfterFailedPublish) {
  plugin_->Fail("ControllerPublishVolume", FailedPrecondition("attached elsewhere"));
  EXPECT_THAT(Take(Request("web-1")),
              FailsWith(Code::kFailedPrecondition, "ControllerPublishVolume of plugin 'fake.csi': attached elsewhere"));
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_EQ(Stored("db").in_use, std::nullopt);
}

// A call without an answer may have taken effect, and is undone.
TEST_F(ClaimsRollbackTest, LostAnswerIsUndoneByUnpublish) {
  plugin_->Fail("ControllerPublishVolume", Internal("lost"), 1, 1, FakeCsiPlugin::When::kAfter);
  EXPECT_FALSE(Take(Request("web-1")).ok());
  EXPECT_EQ(plugin_->Count("ControllerUnpublishVolume"), 1);
  EXPECT_THAT(AttachedTo(), IsEmpty());
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ClaimsRollbackTest, FailedRollbackIsOwed) {
  plugin_->FailAlways("ControllerPublishVolume", Unavailable("away"));
  plugin_->FailAlways("ControllerUnpublishVolume", Unavailable("away"));
  EXPECT_THAT(claims_->Take(Request("web-1"), AtOnce()), FailsWith(Code::kUnavailable, "away"));
  EXPECT_EQ(TheClaim().state, State::kNodeDetached);
  EXPECT_THAT(TheClaim().problem, HasSubstr("ControllerUnpublishVolume"));
  plugin_->ClearFaults();
  Resume();
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ClaimsRollbackTest, UndoesClaimThatNeverReachedTheController) {
  {
    const auto busy = locks_.Acquire(VolumeStateKey({"default", "db"}), "", Soon());
    ASSERT_OK(busy);
    EXPECT_THAT(claims_->Take(Request("web-1"), AtOnce()), FailsWith(Code::kAborted, ""));
  }
  EXPECT_EQ(TheClaim().state, State::kNodeDetached) << "owed: nobody else would free it";
  Resume();
  EXPECT_THAT(AllClaims(), IsEmpty());
}

// Otherwise the claim would stay for ever.
TEST_F(ClaimsRollbackTest, RollbackIsOwedIfStoreFails) {
  plugin_->Fail("ControllerPublishVolume", Internal("no"));
  state_.DieAfter(1);
  EXPECT_THAT(Take(Request("web-1")), FailsWith(Code::kInternal, "taking it back failed"));
  queue_.TryNow("fake.csi");
  EXPECT_TRUE(WaitUntil([&] { return queue_.List().front().tries == 1; }, seconds(30)));
  EXPECT_EQ(TheClaim().state, State::kTaken) << "the store fails still";
  const auto is_owed = [&] { return claims_->IsRollbackOwed({"default", "db"}, ClaimMode::kWrite, "web-1"); };
  EXPECT_TRUE(is_owed());
  EXPECT_FALSE(claims_->IsRollbackOwed({"default", "db"}, ClaimMode::kWrite, "web-2"));
  state_.DieAfter(-1);
  queue_.TryNow("fake.csi");
  EXPECT_TRUE(WaitUntil([&] { return !is_owed() && AllClaims().empty(); }, seconds(30)));
}

TEST_F(ClaimsRollbackTest, RollbackSparesNewClaim) {
  plugin_->Fail("ControllerPublishVolume", Internal("no"));
  state_.DieAfter(1);
  EXPECT_FALSE(Take(Request("web-1")).ok());
  state_.DieAfter(-1);
  ASSERT_OK(Take(Request("web-1")));
  queue_.TryNow("fake.csi");
  EXPECT_TRUE(WaitUntil([&] { return queue_.List().empty(); }, seconds(30)));
  EXPECT_EQ(TheClaim().state, State::kTaken);
  EXPECT_THAT(AttachedTo(), ElementsAre("node-1"));
}

// A power cut lost the mark that the claim was published. A repeated claim that cannot reach the controller must not
// undo it.
TEST_F(ClaimsRollbackTest, FailedRepeatKeepsHeldClaim) {
  ClaimRequest by_user = Request("web-1");
  by_user.keep = true;
  ASSERT_OK(Take(by_user));
  Claim lost = TheClaim();
  lost.publish = Claim::Publish::kSent;
  ASSERT_OK(store_.Commit(Changes().Put(lost)));
  Restart();
  plugin_->Fail("ControllerPublishVolume", Internal("not now"));
  EXPECT_THAT(Take(Request("web-1")), FailsWith(Code::kInternal, "not now"));
  EXPECT_EQ(TheClaim().state, State::kTaken);
  EXPECT_TRUE(TheClaim().kept);
  EXPECT_OK(Take(Request("web-1")));
  EXPECT_EQ(TheClaim().publish, Claim::Publish::kDone);
}

// A host whose plugin was started without the pool of a shared volume must not keep other hosts from it.
TEST_F(ClaimsRollbackTest, PluginThatRefusesPublishAndUnpublishHoldsNothing) {
  plugin_->FailAlways("ControllerPublishVolume", FailedPrecondition("the pool is not one of this plugin's"));
  plugin_->FailAlways("ControllerUnpublishVolume", FailedPrecondition("the pool is not one of this plugin's"));
  EXPECT_THAT(Take(Request("web-1")), FailsWith(Code::kFailedPrecondition, "not one of this plugin's"));
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_EQ(Stored("db").in_use, std::nullopt);
}

TEST_F(ClaimsRollbackTest, RefusedPublishIsRememberedUntilTheUnpublishIsAnswered) {
  plugin_->FailAlways("ControllerPublishVolume", NotFound("no such volume here"));
  plugin_->FailAlways("ControllerUnpublishVolume", Unavailable("busy"));
  EXPECT_THAT(claims_->Take(Request("web-1"), Clock::now() + milliseconds(100)), FailsWith(Code::kNotFound, ""));
  ASSERT_EQ(TheClaim().state, State::kNodeDetached);
  Restart();
  plugin_->ClearFaults();
  plugin_->FailAlways("ControllerUnpublishVolume", InvalidArgument("no such volume here"));
  Resume();
  EXPECT_THAT(AllClaims(), IsEmpty());
}

// It may have been published half-way, so only the controller's OK frees it.
TEST_F(ClaimsRollbackTest, PublishWithUnknownOutcomeStaysUntilUnpublished) {
  plugin_->Fail("ControllerPublishVolume", Internal("lost"), 1, 1, FakeCsiPlugin::When::kAfter);
  plugin_->FailAlways("ControllerUnpublishVolume", FailedPrecondition("still attached"));
  EXPECT_FALSE(Take(Request("web-1")).ok());
  EXPECT_EQ(TheClaim().state, State::kNodeDetached);
  EXPECT_EQ(TheClaim().problem, "ControllerUnpublishVolume of plugin 'fake.csi': still attached");
}

// A past claim has no owner, so a failed attempt to take it over undoes it.
TEST_F(ClaimsRollbackTest, UndoesPastClaimAfterFailedPublish) {
  ASSERT_OK(Take(Request("web-1")));
  Claim past = TheClaim();
  past.publish = Claim::Publish::kSent;
  past.past = true;
  ASSERT_OK(store_.Commit(Changes().Put(past)));
  plugin_->Fail("ControllerPublishVolume", Internal("no"));
  EXPECT_FALSE(Take(Request("web-1")).ok());
  EXPECT_THAT(AllClaims(), IsEmpty());
}

}  // namespace
}  // namespace mooring::manager

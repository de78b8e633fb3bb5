// A start of the manager, and the attachments that it finds.
#include "tests/manager/volumes/attachments_fixture.h"

namespace mooring::manager {
namespace {

using AttachmentsRestartTest = AttachmentsFixture;

TEST_F(AttachmentsRestartTest, LeavesExistingMountAlone) {
  ASSERT_OK(Attach(Request()));
  Restart();
  Restore();
  EXPECT_EQ(log_.Count("mount"), 0);
}

TEST_F(AttachmentsRestartTest, RestoresLostMount) {
  ASSERT_OK(Attach(Request()));
  ASSERT_OK(mounter_.Unmount(*journal_->Find("web-1", "db"), Soon()));
  Restart();
  Restore();
  EXPECT_EQ(mounter_.mounted_count(), 1U);
}

TEST_F(AttachmentsRestartTest, RestartUndoesIntent) {
  ASSERT_OK(Attach(Request()));
  SetPhase("web-1", AttachmentRecord::Phase::kIntent);
  Restart();
  Restore();
  ExpectNothingIsLeft();
}

TEST_F(AttachmentsRestartTest, RestartContinuesDetach) {
  ASSERT_OK(Attach(Request()));
  SetPhase("web-1", AttachmentRecord::Phase::kUnmounting);
  Restart();
  Restore();
  ExpectNothingIsLeft();
}

TEST_F(AttachmentsRestartTest, HangingPluginDelaysOnlyItsOwnAttachments) {
  claims_.SetPlugin("slow", "away");
  for (int i = 0; i < 6; ++i) ASSERT_OK(Attach(Request("slow", "slow-" + std::to_string(i))));
  ASSERT_OK(Attach(Request()));
  mounter_.SetAway("away", true);
  Restart();
  log_.Clear();
  attachments_->Restore();
  ASSERT_TRUE(log_.WaitFor("hasmount db", 1));
  EXPECT_OK(Detach("web-1", "db"));
  EXPECT_EQ(attachments_->restoring(), 6);
  mounter_.SetAway("away", false);
  attachments_->WaitUntilRestored(Soon());
  EXPECT_EQ(attachments_->restoring(), 0);
  EXPECT_EQ(log_.Count("mount"), 0);
}

TEST_F(AttachmentsRestartTest, RestoresParentPathsFirst) {
  claims_.SetPlugin("outer", "away");
  AttachOneInsideTheOther();
  mounter_.SetAway("away", true);
  Restart();
  log_.Clear();
  attachments_->Restore();
  ASSERT_TRUE(log_.WaitFor("hasmount outer", 2));
  EXPECT_EQ(log_.Count("hasmount inner"), 0);
  mounter_.SetAway("away", false);
  attachments_->WaitUntilRestored(Soon());
  EXPECT_EQ(log_.Count("hasmount inner"), 1);
}

// If the child were mounted first, the parent would cover it.
TEST_F(AttachmentsRestartTest, ChildWaitsForHangingParent) {
  AttachOneInsideTheOther();
  Restart();
  log_.Fail("hasmount", absl::DeadlineExceededError("no answer in time"), 2);
  Restore();
  EXPECT_THAT(log_.calls(),
              ElementsAre("hasmount outer a", "hasmount outer a", "hasmount outer a", "hasmount inner b"));
}

// Without the intent the claim would stay for ever after a restart.
TEST_F(AttachmentsRestartTest, KeepsIntentWhileRollbackIsOwed) {
  claims_.SetTakingBackOwed();
  log_.Fail("claim", Internal("no (and taking it back failed: disk full)"));
  EXPECT_THAT(Attach(Request()), FailsWith(Code::kInternal, "disk full"));
  EXPECT_TRUE(log_.WaitFor("release", 1)) << "in the background";
  ASSERT_OK(Detach("web-1", "db"));
  EXPECT_THAT(journal_->All(), IsEmpty());
}

// A stop acts like a kill: the records tell the next start what to do.
TEST_F(AttachmentsRestartTest, StopUndoesNothingAndNextStartDoes) {
  for (const std::string step : {"claim", "mount"}) {
    SCOPED_TRACE(step);
    log_.Clear();
    log_.Fail(step, Stopping());
    EXPECT_THAT(Attach(Request()), FailsWith(Code::kCancelled, "the manager is stopping"));
    EXPECT_EQ(log_.Count("unmount") + log_.Count("release"), 0);
    EXPECT_EQ(journal_->Find("web-1", "db")->phase, AttachmentRecord::Phase::kIntent);
    EXPECT_EQ(journal_->Find("web-1", "db")->problem, "");
    Restart();
    Restore();
    ExpectNothingIsLeft();
  }
}

TEST_F(AttachmentsRestartTest, NextStartContinuesDetachInterruptedByStop) {
  ASSERT_OK(Attach(Request()));
  attachments_->BeginStop();
  EXPECT_THAT(Detach("web-1", "db"), FailsWith(Code::kCancelled, "the manager is stopping"));
  Restart();
  log_.Fail("unmount", Stopping());
  EXPECT_THAT(Detach("web-1", "db", Failure::kIsRepeated), FailsWith(Code::kCancelled, "the manager is stopping"));
  EXPECT_EQ(log_.Count("release"), 0);
  Restart();
  EXPECT_EQ(journal_->Find("web-1", "db")->phase, AttachmentRecord::Phase::kUnmounting);
  EXPECT_EQ(journal_->Find("web-1", "db")->problem, "");
  Restore();
  ExpectNothingIsLeft();
}

// Its caller was told of an error, or of nothing. So the next start takes nothing from the user.
TEST_F(AttachmentsRestartTest, NextStartDoesNotBeginInterruptedDetach) {
  ASSERT_OK(Attach(Request()));
  log_.Fail("unmount", Stopping());
  EXPECT_THAT(Detach("web-1", "db"), FailsWith(Code::kCancelled, "the manager is stopping"));
  Restart();
  Restore();
  EXPECT_THAT(log_.calls(), IsEmpty());
  EXPECT_EQ(journal_->Find("web-1", "db")->phase, AttachmentRecord::Phase::kMounted);
  EXPECT_THAT(claims_.held(), ElementsAre("db web-1"));

  log_.Fail("unmount", Stopping());
  EXPECT_THAT(Detach("web-1", "db"), FailsWith(Code::kCancelled, "the manager is stopping"));
  mounter_.SetUnbound();  // it had begun
  Restart();
  Restore();
  ExpectNothingIsLeft();
}

}  // namespace
}  // namespace mooring::manager

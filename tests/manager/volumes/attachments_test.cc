#include "tests/manager/volumes/attachments_fixture.h"

namespace mooring::manager {
namespace {

using AttachmentsTest = AttachmentsFixture;

TEST_F(AttachmentsTest, StoresIntentBeforeMountAndPhaseAfterIt) {
  std::vector<std::string> phases;
  const auto on_step = [&](const std::string& step) {
    const auto record = journal_->Find("web-1", "db");
    phases.push_back(step + (record && record->phase == AttachmentRecord::Phase::kIntent ? " intent" : " ?"));
    EXPECT_EQ(record ? record->plugin : "", "p") << "whose lane it is in, should it be taken back";
  };
  const auto attached = attachments_->Attach(Request(), on_step, Soon());
  ASSERT_OK(attached);
  EXPECT_THAT(phases, ElementsAre("claim intent", "mount intent"));
  EXPECT_EQ(attached->source, "/root/per-alloc/web-1/db");
  const auto record = journal_->Find("web-1", "db");
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->phase, AttachmentRecord::Phase::kMounted);
  EXPECT_EQ(record->external_id, "ext-db");
  EXPECT_EQ(record->plugin, "p");
}

TEST_F(AttachmentsTest, DetachLeavesNothing) {
  ASSERT_OK(Attach(Request()));
  EXPECT_EQ(mounter_.mounted_count(), 1U);
  ASSERT_OK(Detach("web-1", "db"));
  ExpectNothingIsLeft();
}

TEST_F(AttachmentsTest, RetriesClaim) {
  log_.Fail("claim", Unavailable("the plugin is starting"));
  ASSERT_OK(Attach(Request()));
  EXPECT_THAT(claims_.held(), ElementsAre("db web-1"));
}

TEST_F(AttachmentsTest, RefusedDetachChangesNothing) {
  ASSERT_OK(Attach(Request()));
  log_.Fail("unmount", FailedPrecondition("it is busy"));
  EXPECT_THAT(Detach("web-1", "db"), FailsWith(Code::kFailedPrecondition, "nothing has changed"));
  const auto record = journal_->Find("web-1", "db");
  EXPECT_EQ(record->phase, AttachmentRecord::Phase::kMounted);
  EXPECT_EQ(record->problem, "");
  EXPECT_TRUE(queue_.List().empty()) << "nothing is to come";
  Restart();
  Restore();
  EXPECT_THAT(log_.calls(), ElementsAre("hasmount db web-1"));
  EXPECT_OK(Attach(Request())) << "it is attached";
  EXPECT_THAT(claims_.held(), ElementsAre("db web-1"));
  ASSERT_OK(Detach("web-1", "db"));
  EXPECT_THAT(claims_.held(), IsEmpty());
}

// It is no refusal: the user has lost the volume already. Nor is that of a task that has ended.
TEST_F(AttachmentsTest, DetachThatHasBegunIsRetried) {
  for (const Failure failure : {Failure::kIsRepeated, Failure::kChangesNothing}) {
    log_.Clear();
    ASSERT_OK(Attach(Request()));
    log_.Fail("unmount", FailedPrecondition("it is busy"));
    EXPECT_THAT(Detach("web-1", "db", failure), FailsWith(Code::kFailedPrecondition, "retried in the background"));
    ASSERT_TRUE(log_.WaitFor("release", 2));
    ASSERT_OK(Detach("web-1", "db"));  // waits for the detach in the background
    ExpectNothingIsLeft();
    mounter_.SetUnbound();
  }
}

Claim ClaimOf(const AttachRequest& request) {
  Claim claim;
  claim.volume = request.volume;
  claim.allocation = request.allocation;
  return claim;
}

// Its claim may be freed by force then, and a restart does not wait for the claim.
TEST_F(AttachmentsTest, WhatWaitsForItsControllerIsNotMounted) {
  ASSERT_OK(Attach(Request()));
  const Claim claim = ClaimOf(Request());
  EXPECT_TRUE(attachments_->IsMountedFor(claim));
  log_.Fail("release", FailedPrecondition("the controller refuses"), 1000);
  EXPECT_FALSE(Detach("web-1", "db").ok());
  EXPECT_FALSE(attachments_->IsMountedFor(claim));
  EXPECT_FALSE(journal_->Find("web-1", "db")->refusable);
}

// The kernel is asked about targets only: nothing was sent to the plugin for an intent without one.
TEST_F(AttachmentsTest, AnIntentHasNoMount) {
  ASSERT_OK(Attach(Request()));
  const Claim claim = ClaimOf(Request());
  EXPECT_TRUE(attachments_->HasMountFor(claim));
  AttachmentRecord record = *journal_->Find("web-1", "db");
  record.phase = AttachmentRecord::Phase::kIntent;
  record.target_path.clear();
  ASSERT_OK(journal_->Put(record, Durability::kOrdered));
  EXPECT_FALSE(attachments_->IsMountedFor(claim));
}

TEST_F(AttachmentsTest, AMountThatARebootHasTakenIsNone) {
  ASSERT_OK(Attach(Request()));
  ASSERT_OK(mounter_.Unmount(*journal_->Find("web-1", "db"), Soon()));
  const Claim claim = ClaimOf(Request());
  EXPECT_TRUE(attachments_->IsMountedFor(claim)) << "it is restored";
  EXPECT_FALSE(attachments_->HasMountFor(claim));
}

TEST_F(AttachmentsTest, WhatHalfOfADetachLeftIsMounted) {
  ASSERT_OK(Attach(Request()));
  mounter_.SetUnbound();
  log_.Fail("unmount", FailedPrecondition("it is busy"), 1000);
  EXPECT_FALSE(Detach("web-1", "db").ok());
  const Claim claim = ClaimOf(Request());
  EXPECT_TRUE(attachments_->IsMountedFor(claim));
  EXPECT_FALSE(journal_->Find("web-1", "db")->refusable) << "it is taken from its user";
}

// This host was away, and others have had the volume. A task still keeps the old mount busy.
TEST_F(AttachmentsTest, NobodySharesAMountWhoseClaimWasGivenUp) {
  ASSERT_OK(Attach(Request("db", "old")));
  claims_.GiveUp("old");
  log_.Fail("unmount", FailedPrecondition("busy"), 30);
  ASSERT_OK(attachments_->CheckClaims(
      journal_->All(), [](const AttachmentRecord&) { return false; }, Attachments::Missing::kGivenUp));
  const VolumeKey db = Request("db").volume;
  EXPECT_THAT(attachments_->CheckNoStaleMount(db), FailsWith(Code::kUnavailable, "still mounted here for 'old'"));
  mounter_.SetUnbound();
  EXPECT_THAT(attachments_->CheckNoStaleMount(db), FailsWith(Code::kUnavailable, "")) << "it may still be staged";
  EXPECT_OK(attachments_->CheckNoStaleMount(Request("other").volume));
  EXPECT_TRUE(testing::WaitUntil([&] { return !journal_->Find("old", "db"); }, seconds(30)));
  EXPECT_OK(attachments_->CheckNoStaleMount(db));
}

TEST_F(AttachmentsTest, FailedUnmountKeepsClaim) {
  ASSERT_OK(Attach(Request()));
  log_.Fail("unmount", FailedPrecondition("it is busy"), 1000);
  EXPECT_FALSE(Detach("web-1", "db", Failure::kIsRepeated).ok());
  EXPECT_THAT(claims_.held(), ElementsAre("db web-1"));
  EXPECT_THAT(journal_->Find("web-1", "db")->problem, HasSubstr("busy"));
}

TEST_F(AttachmentsTest, UndoesFailedMountAndReleasesClaim) {
  log_.Fail("mount", Internal("NodePublishVolume of plugin 'p': no"));
  const auto attached = Attach(Request());
  EXPECT_EQ(attached.status().code(), Code::kInternal);
  EXPECT_THAT(Message(attached.status()), HasSubstr("nothing is mounted for it any more"));
  ExpectNothingIsLeft();
}

TEST_F(AttachmentsTest, UndoesInBackgroundWhatFailsAtFirst) {
  log_.Fail("mount", absl::DeadlineExceededError("no answer"));
  log_.Fail("unmount", Unavailable("the plugin is away"), 3);
  const auto attached = Attach(Request());
  EXPECT_THAT(Message(attached.status()), HasSubstr("its claim stays"));
  ASSERT_TRUE(log_.WaitFor("unmount", 4));
  ASSERT_OK(Detach("web-1", "db"));
  ExpectNothingIsLeft();
}

TEST_F(AttachmentsTest, RefusedClaimLeavesNoRecord) {
  log_.Fail("claim", FailedPrecondition("held by web-2"));
  EXPECT_EQ(Attach(Request()).status().code(), Code::kFailedPrecondition);
  ExpectNothingIsLeft();
}

TEST_F(AttachmentsTest, ReportsSameProblemOnce) {
  log_.Fail("unmount", FailedPrecondition("busy (tried 3 times)"));
  log_.Fail("unmount", FailedPrecondition("busy (tried 27 times)"), 3);
  std::vector<std::string> problems;
  ASSERT_OK(Attach(Request()));
  EXPECT_FALSE(Detach("web-1", "db", Failure::kIsRepeated).ok());
  ASSERT_TRUE(log_.WaitFor("unmount", 4));
  const auto note = [&](const std::string&) { problems.push_back(journal_->Find("web-1", "db")->problem); };
  ASSERT_OK(attachments_->Detach("web-1", "db", Failure::kIsRepeated, note, Soon()));
  for (const std::string& problem : problems) EXPECT_THAT(problem, HasSubstr("tried 3 times"));
  const auto told = events_.Next(1, Clock::now());
  if (!told.ok()) return;
  for (const Event& event : *told) EXPECT_NE(event.kind, "waiting") << event.text;
}

TEST_F(AttachmentsTest, RepeatedAttachIsIdempotent) {
  const auto first = Attach(Request());
  const auto again = Attach(Request());
  ASSERT_OK(again);
  EXPECT_EQ(again->source, first->source);
  EXPECT_EQ(log_.Count("mount"), 1);
  AttachRequest other = Request();
  other.read_only = true;
  EXPECT_EQ(Attach(other).status().code(), Code::kAlreadyExists);
}

TEST_F(AttachmentsTest, RefusesSecondVolumeAtSamePath) {
  AttachRequest request = Request();
  request.attach_path = "/srv/db";
  ASSERT_OK(Attach(request));
  AttachRequest other = Request("other", "web-2");
  other.attach_path = "/srv//db/";
  EXPECT_EQ(Attach(other).status().code(), Code::kAlreadyExists);
  EXPECT_THAT(journal_->All(), SizeIs(1));
}

TEST_F(AttachmentsTest, RequestsOfAllocationShareClaim) {
  AttachRequest first = Request();
  first.request = "one";
  AttachRequest second = Request();
  second.request = "two";
  ASSERT_OK(Attach(first));
  ASSERT_OK(Attach(second));
  ASSERT_OK(Detach("web-1", "one"));
  EXPECT_THAT(claims_.held(), ElementsAre("db web-1"));
  ASSERT_OK(Detach("web-1", "two"));
  EXPECT_THAT(claims_.held(), IsEmpty());
}

TEST_F(AttachmentsTest, RefusesReleaseWhileAttached) {
  ASSERT_OK(Attach(Request()));
  const VolumeKey volume = Request().volume;
  const ClaimMode mode = Request().mode;
  const absl::Status refused = attachments_->Release(volume, mode, "web-1", Soon());
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("detach it"));
  EXPECT_THAT(claims_.held(), ElementsAre("db web-1"));
  EXPECT_OK(attachments_->Release(volume, mode, "web-2", Soon()));
}

TEST_F(AttachmentsTest, ReadOnlyByRequestModeOrFlag) {
  AttachRequest by_flag = Request("db", "flag");
  by_flag.options.flags = {"noatime", "ro"};
  AttachRequest by_mode = Request("db", "mode");
  by_mode.mode = ClaimMode::kRead;
  AttachRequest by_access = Request("db", "access");
  by_access.capability.access = AccessMode::kMultiNodeReaderOnly;
  for (const AttachRequest& request : {by_flag, by_mode, by_access}) {
    const auto attached = Attach(request);
    ASSERT_OK(attached);
    EXPECT_TRUE(attached->read_only) << request.allocation;
  }
  EXPECT_FALSE(Attach(Request())->read_only);
}

TEST_F(AttachmentsTest, ExhaustedNodeMarksVolume) {
  log_.Fail("mount", ResourceExhausted("no device is free"));
  EXPECT_THAT(Attach(Request()), FailsWith(Code::kResourceExhausted, "no device is free"));
  EXPECT_EQ(log_.Count("exhausted"), 1);
  log_.Fail("mount", Internal("no"));
  EXPECT_FALSE(Attach(Request()).ok());
  EXPECT_EQ(log_.Count("exhausted"), 1) << "not by any other failure";
}

TEST_F(AttachmentsTest, MountPaysOwedExpansion) {
  claims_.SetExpansionOwed();
  log_.Fail("expand", Internal("resize2fs failed"));
  ASSERT_OK(Attach(Request())) << "it can be used as it is";
  EXPECT_EQ(log_.Count("expanded"), 0) << "owed still";
  ASSERT_OK(Detach("web-1", "db"));
  log_.Clear();
  ASSERT_OK(Attach(Request()));
  EXPECT_THAT(log_.calls(), ElementsAre("claim db web-1", "mount db web-1", "expand db web-1", "expanded db "));
}

// The volume is attached before the expansion, and the expansion gets only a part of the time.
TEST_F(AttachmentsTest, FailedExpansionDoesNotFailAttach) {
  int asked = 0;
  mounter_.BeforeExpand([&](Clock::time_point until) {
    ++asked;
    EXPECT_LT(until, Clock::now() + seconds(11));
    const auto record = journal_->Find("web-1", "db");
    EXPECT_TRUE(record && record->phase == AttachmentRecord::Phase::kMounted && record->problem.empty());
  });
  claims_.SetExpansionOwed();
  log_.Fail("expand", ResourceExhausted("the pool is full"));
  ASSERT_OK(Attach(Request()));
  ASSERT_OK(mounter_.Unmount(*journal_->Find("web-1", "db"), Soon()));
  Restart();
  Restore();
  EXPECT_EQ(asked, 2) << "after the mount, and after the mount that restored it";
  EXPECT_EQ(log_.Count("expanded"), 1);
}

// As after a power cut between the stores of the claim and of the attachment.
TEST_F(AttachmentsTest, ReleasesClaimWithoutAttachment) {
  Claim claim;
  claim.volume.id = "db";
  claim.allocation = "web-1";
  claim.mode = ClaimMode::kWrite;
  ASSERT_OK(Attach(Request()));
  EXPECT_OK(attachments_->ReleaseUnused(claim, Volume(), Soon()));
  EXPECT_EQ(log_.Count("release"), 0) << "an attachment uses it";
  claim.allocation = "web-2";
  mounter_.SetUnknownMounts({"/root/per-alloc/web-2", "/srv/db"});
  EXPECT_THAT(attachments_->ReleaseUnused(claim, Volume(), Soon()),
              FailsWith(Code::kFailedPrecondition, "is mounted at '/root/per-alloc/web-2', '/srv/db'"));
  EXPECT_EQ(log_.Count("release"), 0) << "the journal is an old copy, and something still writes";
  mounter_.SetUnknownMounts({});
  EXPECT_OK(attachments_->ReleaseUnused(claim, Volume(), Soon()));
  EXPECT_EQ(log_.Count("release"), 1);
}

}  // namespace
}  // namespace mooring::manager

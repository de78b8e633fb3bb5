#include "manager/claims/claim_rules.h"

#include "tests/manager/volumes/claim_samples.h"

namespace mooring::manager {
namespace {

ClaimRequest ARequest(ClaimMode mode, AccessMode access) {
  ClaimRequest request;
  request.volume = AVolume().key;
  request.allocation = "web-1";
  request.node = "here";
  request.mode = mode;
  request.capability = FileSystem(access);
  return request;
}

ClaimState AState() {
  ClaimState state;
  state.volume = AVolume();
  state.schedulable = true;
  return state;
}

// A volume with these claims, taken in `access`.
ClaimState ClaimedIn(AccessMode access, bool reader, bool writer) {
  ClaimState state = AState();
  state.volume.in_use = FileSystem(access);
  if (reader) state.claims.push_back(AClaim("reader", ClaimMode::kRead, access));
  if (writer) state.claims.push_back(AClaim("writer", ClaimMode::kWrite, access));
  return state;
}

enum class Free { kAlways, kNever, kNoReaders, kNoWriters, kNobody };

bool IsFreeThen(Free free, bool reader, bool writer) {
  switch (free) {
    case Free::kAlways:
      return true;
    case Free::kNever:
      return false;
    case Free::kNoReaders:
      return !reader;
    case Free::kNoWriters:
      return !writer;
    case Free::kNobody:
      return !reader && !writer;
  }
  return false;
}

struct Row {
  AccessMode current;
  Free read, write;
};
constexpr Row kTable[] = {
    {AccessMode::kSingleNodeReaderOnly, Free::kNoReaders, Free::kNever},
    {AccessMode::kSingleNodeWriter, Free::kNobody, Free::kNobody},
    {AccessMode::kSingleNodeSingleWriter, Free::kNobody, Free::kNobody},
    {AccessMode::kSingleNodeMultiWriter, Free::kAlways, Free::kAlways},  // claims of one node
    {AccessMode::kMultiNodeReaderOnly, Free::kAlways, Free::kNever},
    {AccessMode::kMultiNodeSingleWriter, Free::kAlways, Free::kNoWriters},
    {AccessMode::kMultiNodeMultiWriter, Free::kAlways, Free::kAlways},
};

class ClaimTableTest : public ::testing::TestWithParam<Row> {
 protected:
  static void Expect(ClaimMode mode, bool free, bool reader, bool writer) {
    SCOPED_TRACE(std::string(ToString(mode)) + (reader ? ", a reader" : "") + (writer ? ", a writer" : ""));
    const AccessMode current = GetParam().current;
    const auto decision = Decide(ARequest(mode, current), ClaimedIn(current, reader, writer));
    if (free) {
      ASSERT_OK(decision);
      EXPECT_EQ(*decision, ClaimDecision::kGrant);
    } else if (mode == ClaimMode::kWrite && IsReader(current)) {
      EXPECT_THAT(decision, FailsWith(Code::kInvalidArgument, "cannot be claimed for writing"));
    } else {
      EXPECT_THAT(decision, FailsWith(Code::kFailedPrecondition, "claimed by"));
    }
  }
};

TEST_P(ClaimTableTest, EveryCellOfTheTable) {
  for (const bool reader : {false, true}) {
    for (const bool writer : {false, true}) {
      Expect(ClaimMode::kRead, IsFreeThen(GetParam().read, reader, writer), reader, writer);
      Expect(ClaimMode::kWrite, IsFreeThen(GetParam().write, reader, writer), reader, writer);
    }
  }
}

std::string NameOfRow(const ::testing::TestParamInfo<Row>& info) {
  std::string name(ToString(info.param.current));
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(Modes, ClaimTableTest, ::testing::ValuesIn(kTable), NameOfRow);

TEST(ClaimRulesTest, UnclaimedVolumeAllowsEveryMatchingMode) {
  for (const AccessMode access : kAllModes) {
    EXPECT_OK(Decide(ARequest(ClaimMode::kRead, access), AState())) << ToString(access);
    EXPECT_EQ(Decide(ARequest(ClaimMode::kWrite, access), AState()).ok(), !IsReader(access)) << ToString(access);
  }
}

// "Never" in the table: a writer's request while only readers use the volume.
TEST(ClaimRulesTest, ReaderModeAllowsNoWriter) {
  for (const AccessMode current : {AccessMode::kSingleNodeReaderOnly, AccessMode::kMultiNodeReaderOnly}) {
    EXPECT_THAT(Decide(ARequest(ClaimMode::kWrite, AccessMode::kMultiNodeMultiWriter), ClaimedIn(current, true, false)),
                FailsWith(Code::kFailedPrecondition, ToString(current)));
  }
}

TEST(ClaimRulesTest, SingleWriterIsRefusedBesideWriter) {
  const ClaimState state = ClaimedIn(AccessMode::kMultiNodeMultiWriter, false, true);
  for (const AccessMode alone :
       {AccessMode::kSingleNodeWriter, AccessMode::kSingleNodeSingleWriter, AccessMode::kMultiNodeSingleWriter}) {
    EXPECT_THAT(Decide(ARequest(ClaimMode::kWrite, alone), state),
                FailsWith(Code::kFailedPrecondition, "the mode asked for"));
  }
}

// The mode in use allows many writers, but a writer was granted as the only one, or for a single node.
TEST(ClaimRulesTest, ModeOfAWriterIsKept) {
  ClaimState state = ClaimedIn(AccessMode::kMultiNodeMultiWriter, false, true);
  for (const AccessMode granted : {AccessMode::kMultiNodeSingleWriter, AccessMode::kSingleNodeMultiWriter}) {
    state.claims[0].capability.access = granted;
    state.claims[0].node = "there";
    EXPECT_THAT(Decide(ARequest(ClaimMode::kWrite, AccessMode::kMultiNodeMultiWriter), state),
                FailsWith(Code::kFailedPrecondition, "the mode of a writer"))
        << ToString(granted);
  }
}

TEST(ClaimRulesTest, SingleNodeMultiWriterAllowsOneNode) {
  ClaimState state = ClaimedIn(AccessMode::kSingleNodeMultiWriter, false, true);
  state.claims[0].node = "there";
  for (const ClaimMode mode : {ClaimMode::kRead, ClaimMode::kWrite}) {
    EXPECT_THAT(Decide(ARequest(mode, AccessMode::kSingleNodeMultiWriter), state),
                FailsWith(Code::kFailedPrecondition, "on 'there'"));
  }
}

TEST(ClaimRulesTest, NeedsSchedulableVolume) {
  ClaimState state = AState();
  state.schedulable = false;
  state.unschedulable = "plugin 'p' has no healthy node instance";
  for (const ClaimMode mode : {ClaimMode::kRead, ClaimMode::kWrite}) {
    EXPECT_THAT(Decide(ARequest(mode, AccessMode::kMultiNodeMultiWriter), state),
                FailsWith(Code::kUnavailable, "has no healthy node instance"));
  }
}

TEST(ClaimRulesTest, RefusalNamesHolders) {
  ClaimState state = ClaimedIn(AccessMode::kSingleNodeWriter, false, true);
  state.claims[0].state = Claim::State::kUnmountFailed;
  state.claims[0].problem = "the target is busy";
  EXPECT_THAT(Message(Decide(ARequest(ClaimMode::kWrite, AccessMode::kSingleNodeWriter), state).status()),
              AllOf(HasSubstr("'db'"), HasSubstr("no free write claim"), HasSubstr("single-node-writer"),
                    HasSubstr("writer 'writer' on 'here' (unmount-failed: the target is busy)")));
}

TEST(ClaimRulesTest, RefusalSaysSinceWhenAndWhatFreesTheClaim) {
  ClaimState state = ClaimedIn(AccessMode::kSingleNodeWriter, false, true);
  Claim& claim = state.claims[0];
  claim.taken_at = std::chrono::system_clock::from_time_t(1'800'000'000);
  const auto refusal = [&] {
    return Message(Decide(ARequest(ClaimMode::kWrite, AccessMode::kSingleNodeWriter), state).status());
  };
  EXPECT_THAT(refusal(), AllOf(HasSubstr("writer 'writer' on 'here' since 2027-01-15T08:00:00Z"),
                               HasSubstr("is freed when the volume is detached on 'here'")));
  claim.kept = true;
  EXPECT_THAT(refusal(), HasSubstr("is freed by: mooring release db --namespace default --for writer"));
  claim.past = true;
  EXPECT_THAT(refusal(), HasSubstr("after the end of its allocation"));
  claim.state = Claim::State::kNodeDetached;
  EXPECT_THAT(refusal(), HasSubstr("is freed by itself"));
}

TEST(ClaimRulesTest, ClaimCountsUntilItsRecordIsDeleted) {
  const std::pair<Claim::State, const char*> steps[] = {
      {Claim::State::kUnmountFailed, "(unmount-failed)"},
      {Claim::State::kNodeDetached, "(unmounted on its host, but not released by its controller yet)"},
      {Claim::State::kControllerDetached, "(controller-detached)"}};
  for (const auto& [step, words] : steps) {
    ClaimState state = ClaimedIn(AccessMode::kSingleNodeWriter, false, true);
    state.claims[0].state = step;
    EXPECT_THAT(Decide(ARequest(ClaimMode::kWrite, AccessMode::kSingleNodeWriter), state),
                FailsWith(Code::kFailedPrecondition, words));
  }
  ClaimState past = ClaimedIn(AccessMode::kSingleNodeWriter, false, true);
  past.claims[0].past = true;
  EXPECT_THAT(Decide(ARequest(ClaimMode::kWrite, AccessMode::kSingleNodeWriter), past),
              FailsWith(Code::kFailedPrecondition, "its allocation is gone"));
}

class HeldClaimTest : public ::testing::Test {
 protected:
  absl::StatusOr<ClaimDecision> Again() const { return Decide(request_, state_); }

  ClaimRequest request_ = ARequest(ClaimMode::kWrite, AccessMode::kSingleNodeWriter);
  ClaimState state_ = [] {
    ClaimState state = AState();
    state.volume.in_use = FileSystem(AccessMode::kSingleNodeWriter);
    state.claims = {AClaim("web-1", ClaimMode::kWrite, AccessMode::kSingleNodeWriter)};
    return state;
  }();
};

TEST_F(HeldClaimTest, HeldClaimSucceedsOnUnschedulableVolume) {
  state_.schedulable = false;
  state_.exhausted = true;
  ASSERT_OK(Again());
  EXPECT_EQ(*Again(), ClaimDecision::kHeldAlready);
  state_.claims[0].past = true;
  ASSERT_OK(Again());
  EXPECT_EQ(*Again(), ClaimDecision::kHeldAlready);
}

TEST_F(HeldClaimTest, OtherModeIsAnotherClaim) {
  request_.mode = ClaimMode::kRead;
  EXPECT_THAT(Again(), FailsWith(Code::kFailedPrecondition, "writer 'web-1'"));
}

TEST_F(HeldClaimTest, RefusesOtherAccessMode) {
  request_.capability = FileSystem(AccessMode::kMultiNodeMultiWriter);
  EXPECT_THAT(Again(), FailsWith(Code::kFailedPrecondition, "release it first"));
}

TEST_F(HeldClaimTest, ClaimInReleaseIsNotHeld) {
  state_.claims[0].state = Claim::State::kNodeDetached;
  EXPECT_THAT(Again(), FailsWith(Code::kAborted, "is still being released"));
}

TEST_F(HeldClaimTest, RefusesOtherNode) {
  request_.node = "there";
  EXPECT_THAT(Again(), FailsWith(Code::kFailedPrecondition, "claimed on node 'here', not on 'there'"));
}

TEST(ClaimRulesTest, RefusesOtherAttachmentMode) {
  ClaimRequest request = ARequest(ClaimMode::kRead, AccessMode::kMultiNodeMultiWriter);
  request.capability = Block(AccessMode::kMultiNodeMultiWriter);
  EXPECT_THAT(Decide(request, ClaimedIn(AccessMode::kMultiNodeMultiWriter, true, false)),
              FailsWith(Code::kFailedPrecondition, "in use as file-system"));
  request.allocation = "reader";  // also for an allocation that holds another claim
  EXPECT_THAT(Decide(request, ClaimedIn(AccessMode::kMultiNodeMultiWriter, true, false)),
              FailsWith(Code::kFailedPrecondition, "in use as file-system"));
}

TEST(ClaimRulesTest, AccessModeMustBeACapability) {
  ClaimState state = AState();
  state.volume.capabilities = {FileSystem(AccessMode::kSingleNodeWriter)};
  EXPECT_THAT(Decide(ARequest(ClaimMode::kRead, AccessMode::kMultiNodeReaderOnly), state),
              FailsWith(Code::kInvalidArgument, "it has file-system single-node-writer"));
}

TEST(ClaimRulesTest, ClaimNeedsAllocationAndNode) {
  ClaimRequest request = ARequest(ClaimMode::kRead, AccessMode::kMultiNodeReaderOnly);
  request.allocation = "";
  EXPECT_THAT(Decide(request, AState()), FailsWith(Code::kInvalidArgument, "allocation is missing"));
  request = ARequest(ClaimMode::kRead, AccessMode::kMultiNodeReaderOnly);
  request.node = "a\nb";
  EXPECT_THAT(Decide(request, AState()), FailsWith(Code::kInvalidArgument, "node"));
}

TEST(ClaimRulesTest, RefusesVolumeInCreationOrDeletion) {
  ClaimState state = AState();
  state.volume.state = Volume::State::kCreating;
  const ClaimRequest request = ARequest(ClaimMode::kRead, AccessMode::kMultiNodeReaderOnly);
  EXPECT_THAT(Decide(request, state), FailsWith(Code::kUnavailable, "is still being created"));
  state.volume.state = Volume::State::kDeleting;
  EXPECT_THAT(Decide(request, state), FailsWith(Code::kFailedPrecondition, "is being deleted"));
}

TEST(ClaimRulesTest, ExhaustedVolumeQuotesPlugin) {
  ClaimState state = AState();
  state.exhausted = true;
  state.volume.exhausted_words = "no slot is free";
  EXPECT_THAT(Decide(ARequest(ClaimMode::kRead, AccessMode::kMultiNodeReaderOnly), state),
              FailsWith(Code::kResourceExhausted, "plugin 'p' said 'no slot is free'"));
}

TEST(ClaimRulesTest, ExhaustedLastsAnHour) {
  Volume volume = AVolume();
  const Time now = std::chrono::system_clock::now();
  EXPECT_FALSE(IsExhausted(volume, now));
  volume.exhausted_at = now;
  EXPECT_TRUE(IsExhausted(volume, now));
  EXPECT_TRUE(IsExhausted(volume, now + std::chrono::minutes(59)));
  EXPECT_FALSE(IsExhausted(volume, now + std::chrono::minutes(60)));
}

}  // namespace
}  // namespace mooring::manager

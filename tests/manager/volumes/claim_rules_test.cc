#include "manager/claims/claim_rules.h"

#include <gmock/gmock.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "manager/records/names.h"
#include "tests/support/status_matchers.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FailsWith;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr AccessMode kAllModes[] = {
    AccessMode::kSingleNodeReaderOnly,  AccessMode::kSingleNodeWriter,    AccessMode::kSingleNodeSingleWriter,
    AccessMode::kSingleNodeMultiWriter, AccessMode::kMultiNodeReaderOnly, AccessMode::kMultiNodeSingleWriter,
    AccessMode::kMultiNodeMultiWriter,
};

Capability FileSystem(AccessMode access) { return {access, AttachmentMode::kFileSystem}; }
Capability Block(AccessMode access) { return {access, AttachmentMode::kBlockDevice}; }

Volume AVolume() {
  Volume volume;
  volume.key = {"default", "db"};
  volume.external_id = "vol-1";
  volume.plugin = "p";
  for (const AccessMode access : kAllModes) {
    volume.capabilities.push_back(FileSystem(access));
    volume.capabilities.push_back(Block(access));
  }
  return volume;
}

ClaimRequest ARequest(ClaimMode mode, AccessMode access) {
  ClaimRequest request;
  request.volume = AVolume().key;
  request.allocation = "web-1";
  request.node = "here";
  request.mode = mode;
  request.capability = FileSystem(access);
  return request;
}

Claim AClaim(const std::string& allocation, ClaimMode mode, AccessMode access) {
  Claim claim;
  claim.volume = AVolume().key;
  claim.allocation = allocation;
  claim.node = "here";
  claim.mode = mode;
  claim.capability = FileSystem(access);
  return claim;
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
      EXPECT_THAT(decision, FailsWith(absl::StatusCode::kInvalidArgument, "cannot be claimed for writing"));
    } else {
      EXPECT_THAT(decision, FailsWith(absl::StatusCode::kFailedPrecondition, "claimed by"));
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
                FailsWith(absl::StatusCode::kFailedPrecondition, ToString(current)));
  }
}

TEST(ClaimRulesTest, SingleWriterIsRefusedBesideWriter) {
  const ClaimState state = ClaimedIn(AccessMode::kMultiNodeMultiWriter, false, true);
  for (const AccessMode alone :
       {AccessMode::kSingleNodeWriter, AccessMode::kSingleNodeSingleWriter, AccessMode::kMultiNodeSingleWriter}) {
    EXPECT_THAT(Decide(ARequest(ClaimMode::kWrite, alone), state),
                FailsWith(absl::StatusCode::kFailedPrecondition, "the mode asked for"));
  }
}

TEST(ClaimRulesTest, SingleNodeMultiWriterAllowsOneNode) {
  ClaimState state = ClaimedIn(AccessMode::kSingleNodeMultiWriter, false, true);
  state.claims[0].node = "there";
  for (const ClaimMode mode : {ClaimMode::kRead, ClaimMode::kWrite}) {
    EXPECT_THAT(Decide(ARequest(mode, AccessMode::kSingleNodeMultiWriter), state),
                FailsWith(absl::StatusCode::kFailedPrecondition, "on 'there'"));
  }
}

TEST(ClaimRulesTest, NeedsSchedulableVolume) {
  ClaimState state = AState();
  state.schedulable = false;
  state.unschedulable = "plugin 'p' has no healthy node instance";
  for (const ClaimMode mode : {ClaimMode::kRead, ClaimMode::kWrite}) {
    EXPECT_THAT(Decide(ARequest(mode, AccessMode::kMultiNodeMultiWriter), state),
                FailsWith(absl::StatusCode::kUnavailable, "has no healthy node instance"));
  }
}

TEST(ClaimRulesTest, RefusalNamesHolders) {
  ClaimState state = ClaimedIn(AccessMode::kSingleNodeWriter, false, true);
  state.claims[0].state = Claim::State::kUnpublishing;
  state.claims[0].problem = "the target is busy";
  EXPECT_THAT(Message(Decide(ARequest(ClaimMode::kWrite, AccessMode::kSingleNodeWriter), state).status()),
              AllOf(HasSubstr("'db'"), HasSubstr("no free write claim"), HasSubstr("single-node-writer"),
                    HasSubstr("writer 'writer' on 'here' (unpublishing: the target is busy)")));
}

TEST(ClaimRulesTest, ClaimCountsUntilItsRecordIsDeleted) {
  for (const auto step :
       {Claim::State::kUnpublishing, Claim::State::kNodeDetached, Claim::State::kControllerDetached}) {
    ClaimState state = ClaimedIn(AccessMode::kSingleNodeWriter, false, true);
    state.claims[0].state = step;
    EXPECT_THAT(Decide(ARequest(ClaimMode::kWrite, AccessMode::kSingleNodeWriter), state),
                FailsWith(absl::StatusCode::kFailedPrecondition, ToString(step)));
  }
}

TEST(ClaimRulesTest, PastClaimCountsUntilItsRecordIsDeleted) {
  ClaimState state = ClaimedIn(AccessMode::kSingleNodeWriter, false, true);
  state.claims[0].past = true;
  EXPECT_THAT(Decide(ARequest(ClaimMode::kWrite, AccessMode::kSingleNodeWriter), state),
              FailsWith(absl::StatusCode::kFailedPrecondition, "its allocation is gone"));
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
  EXPECT_THAT(Again(), FailsWith(absl::StatusCode::kFailedPrecondition, "writer 'web-1'"));
}

TEST_F(HeldClaimTest, RefusesOtherAccessMode) {
  request_.capability = FileSystem(AccessMode::kMultiNodeMultiWriter);
  EXPECT_THAT(Again(), FailsWith(absl::StatusCode::kFailedPrecondition, "release it first"));
}

TEST_F(HeldClaimTest, ClaimInReleaseIsNotHeld) {
  state_.claims[0].state = Claim::State::kNodeDetached;
  EXPECT_THAT(Again(), FailsWith(absl::StatusCode::kAborted, "is still being released"));
}

TEST_F(HeldClaimTest, RefusesOtherNode) {
  request_.node = "there";
  EXPECT_THAT(Again(), FailsWith(absl::StatusCode::kFailedPrecondition, "claimed on node 'here', not on 'there'"));
}

TEST(ClaimRulesTest, RefusesOtherAttachmentMode) {
  ClaimRequest request = ARequest(ClaimMode::kRead, AccessMode::kMultiNodeMultiWriter);
  request.capability = Block(AccessMode::kMultiNodeMultiWriter);
  EXPECT_THAT(Decide(request, ClaimedIn(AccessMode::kMultiNodeMultiWriter, true, false)),
              FailsWith(absl::StatusCode::kFailedPrecondition, "in use as file-system"));
  request.allocation = "reader";  // also for an allocation that holds another claim
  EXPECT_THAT(Decide(request, ClaimedIn(AccessMode::kMultiNodeMultiWriter, true, false)),
              FailsWith(absl::StatusCode::kFailedPrecondition, "in use as file-system"));
}

TEST(ClaimRulesTest, AccessModeMustBeACapability) {
  ClaimState state = AState();
  state.volume.capabilities = {FileSystem(AccessMode::kSingleNodeWriter)};
  EXPECT_THAT(Decide(ARequest(ClaimMode::kRead, AccessMode::kMultiNodeReaderOnly), state),
              FailsWith(absl::StatusCode::kInvalidArgument, "it has file-system single-node-writer"));
}

TEST(ClaimRulesTest, WriteNeedsWriterAccessMode) {
  for (const AccessMode access : {AccessMode::kSingleNodeReaderOnly, AccessMode::kMultiNodeReaderOnly}) {
    EXPECT_THAT(Decide(ARequest(ClaimMode::kWrite, access), AState()),
                FailsWith(absl::StatusCode::kInvalidArgument, "cannot be claimed for writing"));
  }
}

TEST(ClaimRulesTest, ClaimNeedsAllocationAndNode) {
  ClaimRequest request = ARequest(ClaimMode::kRead, AccessMode::kMultiNodeReaderOnly);
  request.allocation = "";
  EXPECT_THAT(Decide(request, AState()), FailsWith(absl::StatusCode::kInvalidArgument, "allocation is missing"));
  request = ARequest(ClaimMode::kRead, AccessMode::kMultiNodeReaderOnly);
  request.node = "a\nb";
  EXPECT_THAT(Decide(request, AState()), FailsWith(absl::StatusCode::kInvalidArgument, "node"));
}

TEST(ClaimRulesTest, RefusesVolumeInCreationOrDeletion) {
  ClaimState state = AState();
  state.volume.state = Volume::State::kCreating;
  const ClaimRequest request = ARequest(ClaimMode::kRead, AccessMode::kMultiNodeReaderOnly);
  EXPECT_THAT(Decide(request, state), FailsWith(absl::StatusCode::kUnavailable, "is still being created"));
  state.volume.state = Volume::State::kDeleting;
  EXPECT_THAT(Decide(request, state), FailsWith(absl::StatusCode::kFailedPrecondition, "is being deleted"));
}

TEST(ClaimRulesTest, ExhaustedVolumeQuotesPlugin) {
  ClaimState state = AState();
  state.exhausted = true;
  state.volume.exhausted_words = "no slot is free";
  EXPECT_THAT(Decide(ARequest(ClaimMode::kRead, AccessMode::kMultiNodeReaderOnly), state),
              FailsWith(absl::StatusCode::kResourceExhausted, "plugin 'p' said 'no slot is free'"));
}

TEST(ClaimRulesTest, ExhaustedLastsAnHour) {
  Volume volume = AVolume();
  const Time now = std::chrono::system_clock::now();
  EXPECT_FALSE(IsExhausted(volume, now));
  volume.exhausted_at = now;
  EXPECT_TRUE(IsExhausted(volume, now));
  EXPECT_TRUE(IsExhausted(volume, now + std::chrono::minutes(59)));
  EXPECT_FALSE(IsExhausted(volume, now + std::chrono::minutes(60)));
  EXPECT_FALSE(IsExhausted(volume, now + std::chrono::seconds(2), std::chrono::seconds(2)));
}

TEST(CheckVolumeTest, ReportsAllFaultsAtOnce) {
  Volume volume;
  volume.key.ns = "";
  volume.snapshot_id = "s";
  volume.clone_id = "c";
  volume.min_bytes = 2;
  volume.max_bytes = 1;
  volume.required_topologies = {Topology()};
  volume.preferred_topologies = {Topology()};
  const absl::Status status = CheckVolume(volume);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      Message(status),
      AllOf(HasSubstr("volume id is missing\n"), HasSubstr("namespace is missing\n"), HasSubstr("plugin is missing\n"),
            HasSubstr("a capability (access and attachment mode) is missing"), HasSubstr("not from both"),
            HasSubstr("contradict each other"), HasSubstr("a required topology has no segments"),
            HasSubstr("a preferred topology has no segments")));
}

TEST(CheckVolumeTest, AcceptsCompleteVolume) {
  Volume volume = AVolume();
  EXPECT_OK(CheckVolume(volume));
  volume.snapshot_id = "s";
  volume.required_topologies = {{{{"zone", "a"}}}};
  volume.min_bytes = volume.max_bytes = 1;
  EXPECT_OK(CheckVolume(volume));
  volume.max_bytes = 0;
  EXPECT_OK(CheckVolume(volume));
}

TEST(CheckTaskRequestTest, ReaderModesNeedReadOnly) {
  for (const AccessMode access : {AccessMode::kSingleNodeReaderOnly, AccessMode::kMultiNodeReaderOnly}) {
    TaskRequest request{.mode = ClaimMode::kRead, .capability = FileSystem(access), .read_only = false};
    EXPECT_THAT(CheckTaskRequest(request), FailsWith(absl::StatusCode::kInvalidArgument, "read-only"));
    request.read_only = true;
    EXPECT_OK(CheckTaskRequest(request));
    request.mode = ClaimMode::kWrite;
    EXPECT_THAT(CheckTaskRequest(request), FailsWith(absl::StatusCode::kInvalidArgument, "for writing"));
  }
}

TEST(CheckTaskRequestTest, BlockForbidsMountOptions) {
  TaskRequest request{.capability = Block(AccessMode::kSingleNodeWriter), .has_mount_options = true};
  EXPECT_THAT(CheckTaskRequest(request), FailsWith(absl::StatusCode::kInvalidArgument, "mount options"));
  request.capability.attachment = AttachmentMode::kFileSystem;
  EXPECT_OK(CheckTaskRequest(request));
}

TEST(CheckTaskRequestTest, PerAllocIsRefusedForSystemJobs) {
  TaskRequest request{.capability = {}, .per_alloc = true, .system_job = true};
  EXPECT_THAT(CheckTaskRequest(request), FailsWith(absl::StatusCode::kInvalidArgument, "per_alloc"));
  request.system_job = false;
  EXPECT_OK(CheckTaskRequest(request));
}

TEST(CheckTaskRequestTest, TasksCannotShareSingleUserModes) {
  for (const AccessMode access : kAllModes) {
    SCOPED_TRACE(ToString(access));
    TaskRequest request{.mode = IsReader(access) ? ClaimMode::kRead : ClaimMode::kWrite,
                        .capability = FileSystem(access),
                        .read_only = IsReader(access),
                        .tasks = 2};
    const bool for_one = access == AccessMode::kSingleNodeReaderOnly || access == AccessMode::kSingleNodeWriter ||
                         access == AccessMode::kSingleNodeSingleWriter || access == AccessMode::kMultiNodeSingleWriter;
    EXPECT_EQ(CheckTaskRequest(request).ok(), !for_one);
    request.per_alloc = true;
    EXPECT_OK(CheckTaskRequest(request));
    request.per_alloc = false;
    request.tasks = 1;
    EXPECT_OK(CheckTaskRequest(request));
  }
}

TEST(CheckTaskRequestTest, ReportsAllFaultsAtOnce) {
  const TaskRequest request{.capability = Block(AccessMode::kSingleNodeReaderOnly),
                            .has_mount_options = true,
                            .per_alloc = true,
                            .system_job = true};
  EXPECT_THAT(Message(CheckTaskRequest(request)),
              AllOf(HasSubstr("read-only"), HasSubstr("mount options"), HasSubstr("per_alloc")));
}

TEST(CheckUpdateTest, IdentityAndParametersAreFixed) {
  Volume now = AVolume();
  now.name = "name";
  now.parameters = {{"tier", "fast"}};
  now.created_here = true;
  now.min_bytes = 7;
  Volume next = now;
  next.key.id = "other";
  next.plugin = "other";
  next.external_id = "other";
  next.name = "other";
  next.parameters = {{"tier", "slow"}};
  next.context = {{"a", "b"}};
  next.snapshot_id = "s";
  next.min_bytes = 8;
  const absl::Status status = CheckUpdate(now, next, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("the id"), HasSubstr("the plugin"), HasSubstr("the external id"),
                                     HasSubstr("the name"), HasSubstr("the parameters"), HasSubstr("the context"),
                                     HasSubstr("the snapshot"), HasSubstr("expanding it")));
}

TEST(CheckUpdateTest, EmptyFieldsStay) {
  Volume now = AVolume();
  now.name = "name";
  now.parameters = {{"tier", "fast"}};
  now.min_bytes = 7;
  Volume next;
  next.key = now.key;
  next.plugin = now.plugin;
  next.capabilities = now.capabilities;
  EXPECT_OK(CheckUpdate(now, next, {}));
}

TEST(CheckUpdateTest, CapabilitiesMustCoverTheModeInUse) {
  Volume now = AVolume();
  now.in_use = FileSystem(AccessMode::kMultiNodeMultiWriter);
  const std::vector<Claim> claims = {AClaim("web-1", ClaimMode::kRead, AccessMode::kMultiNodeReaderOnly)};
  Volume next = now;
  next.capabilities = {FileSystem(AccessMode::kMultiNodeMultiWriter)};
  EXPECT_THAT(CheckUpdate(now, next, claims),
              FailsWith(absl::StatusCode::kFailedPrecondition, "usable as file-system multi-node-reader-only"));
  next.capabilities = {FileSystem(AccessMode::kMultiNodeReaderOnly)};
  EXPECT_THAT(CheckUpdate(now, next, claims),
              FailsWith(absl::StatusCode::kFailedPrecondition, "usable as file-system multi-node-multi-writer"));
  next.capabilities.push_back(FileSystem(AccessMode::kMultiNodeMultiWriter));
  EXPECT_OK(CheckUpdate(now, next, claims));
}

TEST(CheckUpdateTest, MountOptionsAreLockedWhileInUse) {
  Volume now = AVolume();
  now.mount_options = {"ext4", {"noatime"}};
  Volume next = now;
  next.mount_options = {"ext4", {"password=hunter2"}};
  EXPECT_OK(CheckUpdate(now, next, {}));
  now.in_use = FileSystem(AccessMode::kSingleNodeWriter);
  const auto status = CheckUpdate(now, next, {AClaim("web-1", ClaimMode::kWrite, AccessMode::kSingleNodeWriter)});
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kFailedPrecondition, "mount options cannot be changed now"));
  EXPECT_THAT(Message(status), AllOf(HasSubstr("'web-1'"), Not(HasSubstr("hunter2"))));
}

}  // namespace
}  // namespace mooring::manager

// The checks of volumes, task requests and updates.
#include "tests/manager/volumes/claim_samples.h"

namespace mooring::manager {
namespace {

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
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(
      Message(status),
      AllOf(HasSubstr("volume id is missing; "), HasSubstr("namespace is missing; "), HasSubstr("plugin is missing; "),
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
    EXPECT_THAT(CheckTaskRequest(request), FailsWith(Code::kInvalidArgument, "read-only"));
    request.read_only = true;
    EXPECT_OK(CheckTaskRequest(request));
    request.mode = ClaimMode::kWrite;
    EXPECT_THAT(CheckTaskRequest(request), FailsWith(Code::kInvalidArgument, "for writing"));
  }
}

TEST(CheckTaskRequestTest, BlockForbidsMountOptions) {
  TaskRequest request{.capability = Block(AccessMode::kSingleNodeWriter), .has_mount_options = true};
  EXPECT_THAT(CheckTaskRequest(request), FailsWith(Code::kInvalidArgument, "mount options"));
  request.capability.attachment = AttachmentMode::kFileSystem;
  EXPECT_OK(CheckTaskRequest(request));
}

TEST(CheckTaskRequestTest, PerAllocIsRefusedForSystemJobs) {
  TaskRequest request{.capability = {}, .per_alloc = true, .system_job = true};
  EXPECT_THAT(CheckTaskRequest(request), FailsWith(Code::kInvalidArgument, "per_alloc"));
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
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
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
              FailsWith(Code::kFailedPrecondition, "usable as file-system multi-node-reader-only"));
  next.capabilities = {FileSystem(AccessMode::kMultiNodeReaderOnly)};
  EXPECT_THAT(CheckUpdate(now, next, claims),
              FailsWith(Code::kFailedPrecondition, "usable as file-system multi-node-multi-writer"));
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
  EXPECT_THAT(status, FailsWith(Code::kFailedPrecondition, "mount options cannot be changed now"));
  EXPECT_THAT(Message(status), AllOf(HasSubstr("'web-1'"), Not(HasSubstr("hunter2"))));
}

}  // namespace
}  // namespace mooring::manager

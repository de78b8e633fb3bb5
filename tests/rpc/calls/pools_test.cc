// Volumes of pools without images, on the real kernel. Each backend keeps its promises, and refuses other requests with
// the reason.
#include <linux/capability.h>
#include <sys/xattr.h>

#include "tests/rpc/support/held_tool.h"
#include "tests/rpc/support/rpc_test.h"
#include "tests/support/reboot.h"

namespace mooring::testing {
namespace {

constexpr std::int64_t kMemory = 256 * kMiB;

class PoolsTest : public RpcTest {
 protected:
  void SetUp() override {
    AddPool("name=dirs,backend=directory,path=" + (dir() / "dirs"));
    AddPool("name=mem,backend=tmpfs,size=" + std::to_string(kMemory));
    AddPool("name=fast,backend=image,path=" + (dir() / "fast") + ",overcommit=2");
    Start();
  }
  void AddPool(const std::string& text) { AddFlags({"--pool", text}); }

  CreateVolumeRequest Request(const std::string& pool, const std::string& name,
                              const VolumeCapability& capability = kSharedMount, std::int64_t bytes = kVolumeBytes) {
    return CreateRequest(name, capability, bytes, {{"pool", pool}});
  }
  std::string CreatedIn(const std::string& pool, std::int64_t bytes = kVolumeBytes) {
    return Created(Request(pool, pool + "-" + std::to_string(++made_), kSharedMount, bytes));
  }
  static CreateVolumeRequest CloneRequest(const std::string& name, const std::string& source) {
    CreateVolumeRequest request = CreateRequest(name, kSharedMount, kVolumeBytes);
    request.mutable_volume_content_source()->mutable_volume()->set_volume_id(source);
    return request;
  }

 private:
  int made_ = 0;
};

// Directories and memory.
class PlainVolume : public PoolsTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string pool() const { return GetParam(); }
  bool is_memory() const { return pool() == "mem"; }
  std::string StagedInPool() {
    const std::string id = CreatedIn(pool());
    EXPECT_OK(driver().Stage(id, Staging(id), Use()));
    return id;
  }
  static VolumeCapability Use(const std::vector<std::string>& flags = {}) { return Mount("", kMultiWriter, flags); }
};

INSTANTIATE_TEST_SUITE_P(Backends, PlainVolume, ::testing::Values("dirs", "mem"), NameOfRow);

TEST_P(PlainVolume, IsCreatedPublishedAndDeleted) {
  const auto made = driver().Send(Request(pool(), "v"));
  ASSERT_OK(made);
  const std::string id = made->volume().volume_id();
  EXPECT_EQ(made->volume().volume_context().at("pool"), pool());
  EXPECT_EQ(made->volume().capacity_bytes(), kVolumeBytes);
  StageAndPublish(id, Target("a"), Use());
  const struct stat root = StatOf(Target("a"));
  EXPECT_EQ(root.st_mode & 07777, 0755U);
  EXPECT_EQ(root.st_uid, 0U);
  EXPECT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  EXPECT_EQ(ReadFile(Staging(id) + "/file"), "data");
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "unpublish and unstage it first"));
  UnpublishAndUnstage(id, Target("a"));
  ASSERT_OK(driver().Delete(id));
  ASSERT_OK(driver().Delete(id));
  EXPECT_THAT(fs::directory_iterator(dir() / "dirs"), fs::directory_iterator());
  EXPECT_THAT(MountsBelow(dir().path()), IsEmpty());
}

TEST_P(PlainVolume, RepeatedCallsAreOkAndOtherArgumentsAreRefused) {
  const std::string id = StagedInPool();
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  EXPECT_THAT(driver().Stage(id, Staging(id), Use({"noexec"})), FailsWith(Code::kAlreadyExists, "another capability"));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  EXPECT_THAT(driver().Publish(id, Staging(id), Target("a"), Use(), true),
              FailsWith(Code::kAlreadyExists, "another way"));
  EXPECT_EQ(MountsAt(Target("a")).size(), 1U);
  const std::string other = CreatedIn(pool());
  EXPECT_THAT(driver().Stage(other, Staging(id), Use()), FailsWith(Code::kFailedPrecondition, id));
  EXPECT_THAT(driver().Publish(other, Staging(id), Target("b"), Use()), FailsWith(Code::kFailedPrecondition, id));
  EXPECT_THAT(driver().Unpublish(other, Target("a")), FailsWith(Code::kFailedPrecondition, id));
}

TEST_P(PlainVolume, FlagsGroupAndPropagationAreApplied) {
  ShareDirectory();
  const std::string id = CreatedIn(pool());
  StageAndPublish(id, Target("rw"), WithGroup(Use({"noexec,nosuid"}), "4711"));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), Use(), true));
  EXPECT_EQ(TryWrite(Target("rw") + "/file", "data"), 0);
  EXPECT_EQ(TryWrite(Target("ro") + "/file", "x"), EROFS);
  EXPECT_TRUE(MountAt(Target("rw"))->Has("noexec"));
  EXPECT_TRUE(MountAt(Target("ro"))->Has("ro"));
  EXPECT_FALSE(MountAt(Staging(id))->Has("ro"));
  EXPECT_EQ(StatOf(Target("rw")).st_gid, 4711U);
  EXPECT_EQ(StatOf(Target("rw")).st_mode & 02770U, 02770U);
  EXPECT_THAT(MountAt(Staging(id))->propagation, IsEmpty());
  EXPECT_THAT(MountAt(Target("rw"))->propagation, Contains(StartsWith("shared:")));
}

TEST_P(PlainVolume, NextProcessAdoptsExistingMounts) {
  const std::string id = StagedInPool();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  ASSERT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  const std::string before = RawMounts();
  for (const bool lose : {false, true}) {
    plugin().Kill();
    if (lose) ForgetRecords();
    Start();
    EXPECT_EQ(RawMounts(), before);
    StageAndPublish(id, Target("a"), Use());
    EXPECT_OK(driver().Stats(id, Target("a")));
    EXPECT_EQ(RawMounts(), before);
    EXPECT_EQ(ReadFile(Target("a") + "/file"), "data");
  }
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "in use"));
  UnpublishAndUnstage(id, Target("a"));
}

TEST_P(PlainVolume, StageWorksAfterAReboot) {
  const std::string id = StagedInPool();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  ASSERT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  plugin().Kill();
  ASSERT_NO_FATAL_FAILURE(Reboot(dir().path()));
  Start();
  EXPECT_THAT(driver().Stats(id, Target("a")), FailsWith(Code::kNotFound, ""));
  StageAndPublish(id, Target("a"), Use());
  EXPECT_EQ(ReadFile(Target("a") + "/file"), is_memory() ? "" : "data");
}

TEST_P(PlainVolume, AllStagingPathsShowTheSameFiles) {
  const std::string id = StagedInPool();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  ASSERT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  ASSERT_OK(driver().Unstage(id, Staging(id)));  // before the target is unpublished
  ASSERT_OK(driver().Stage(id, Staging(id, "second"), Use()));
  EXPECT_EQ(ReadFile(Staging(id, "second") + "/file"), "data");
  plugin().Kill();
  ForgetRecords();
  ASSERT_EQ(Shell("umount " + Staging(id, "second")), 0);
  Start();
  ASSERT_OK(driver().Stage(id, Staging(id, "third"), Use()));
  EXPECT_EQ(ReadFile(Staging(id, "third") + "/file"), "data");
}

TEST_P(PlainVolume, UnstageKeepsDataExceptInMemory) {
  const std::string id = StagedInPool();
  ASSERT_EQ(TryWrite(Staging(id) + "/file", "data"), 0);
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  EXPECT_EQ(ReadFile(Staging(id) + "/file"), is_memory() ? "" : "data");
}

TEST_P(PlainVolume, UnsupportedRequestsAreRefusedWithTheReason) {
  const std::string id = CreatedIn(pool()), staging = Staging(id);
  const auto refused = [&](auto call, const std::string& piece) { ExpectRefused(call, Code::kInvalidArgument, piece); };
  const VolumeCapability commit = Use({"commit=5"});
  refused(Request(pool(), "b", Block()), "no block devices");
  refused(Request(pool(), "x", Mount("xfs")), "leaves no choice");
  refused(Request(pool(), "f", commit), "mount flag 'commit' is not allowed");
  refused(StageRequest(id, staging, Block()), "block access");
  refused(StageRequest(id, staging, Mount("ext4")), "name none");
  refused(StageRequest(id, staging, commit), "commit");
  refused([&] { return driver().Attach(id, kNode, Block()); }, "block access");
  EXPECT_THAT(driver().Send(ValidateRequest(id, Block()))->message(), HasSubstr("no block devices"));
}

TEST_F(PoolsTest, UnknownPoolIsRefusedWithTheExistingNames) {
  ExpectRefused(Request("nowhere", "v"), Code::kInvalidArgument, "default, dirs, mem, fast");
  EXPECT_EQ(driver().Available("nowhere"), 0);
}

TEST_F(PoolsTest, SameNameInAnotherPoolIsAlreadyExists) {
  ASSERT_OK(driver().Send(Request("dirs", "v")));
  ExpectRefused(Request("mem", "v"), Code::kAlreadyExists, "pool dirs");
}

TEST_F(PoolsTest, ImageIsInTheDirectoryOfItsPool) {
  const std::string id = CreatedIn("fast");
  EXPECT_TRUE(fs::exists(dir() / "fast/" + id + ".img"));
  StageAndPublish(id, Target("a"), kSharedMount);
  EXPECT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  EXPECT_THAT(MountAt(Target("a"))->source, StartsWith("/dev/loop"));
}

TEST_F(PoolsTest, MemoryHasALimitAndGrowsInUse) {
  const std::string id = CreatedIn("mem", 16 * kMiB);
  StageAndPublish(id, Target("a"), kSharedMount);
  EXPECT_EQ(MountedBytes(Target("a")), 16U * kMiB);
  EXPECT_NE(Shell("head -c 20M /dev/zero > " + Target("a") + "/file 2>/dev/null"), 0);
  ASSERT_OK(driver().Grow(id, 64 * kMiB));
  ASSERT_OK(driver().NodeExpand(id, Target("a")));
  EXPECT_EQ(MountedBytes(Staging(id)), 64U * kMiB);
  EXPECT_EQ(Shell("head -c 20M /dev/zero > " + Target("a") + "/file"), 0);
  Restart(SIGKILL);
  EXPECT_EQ(MountedBytes(Target("a")), 64U * kMiB);
}

TEST_F(PoolsTest, MemoryGrowsThroughAReadOnlyTarget) {
  const std::string id = CreatedIn("mem", 16 * kMiB);
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kSharedMount, true));
  ASSERT_OK(driver().Grow(id, 32 * kMiB));
  ASSERT_OK(driver().NodeExpand(id, Target("ro")));
  EXPECT_EQ(MountedBytes(Staging(id)), 32U * kMiB);
  EXPECT_EQ(TryWrite(Staging(id) + "/file", "data"), 0);
  EXPECT_EQ(TryWrite(Target("ro") + "/file", "data"), EROFS);
}

TEST_F(PoolsTest, MemoryIsNotOvercommitted) {
  EXPECT_EQ(driver().Available("mem"), kMemory);
  const std::string id = CreatedIn("mem", 200 * kMiB);
  EXPECT_EQ(driver().Available("mem"), 56 * kMiB);
  ExpectRefused(Request("mem", "more", kSharedMount, 57 * kMiB), Code::kResourceExhausted,
                "has 56 MiB of 256 MiB left");
  ExpectRefused(Request("mem", "never", kSharedMount, 257 * kMiB), Code::kOutOfRange, "can hold at most");
  ExpectRefused([&] { return driver().Grow(id, 257 * kMiB); }, Code::kResourceExhausted, "has 56 MiB of 256 MiB left");
  ASSERT_OK(driver().Grow(id, 256 * kMiB));
  EXPECT_EQ(driver().Available("mem"), 0);
  ASSERT_OK(driver().Delete(id));
  EXPECT_EQ(driver().Available("mem"), kMemory);
}

TEST_F(PoolsTest, OvercommitLimitsTheSumOfSizes) {
  const std::int64_t before = driver().Available("fast");
  ASSERT_GT(before, 0);
  CreatedIn("fast", kGiB);
  EXPECT_EQ(driver().Available("fast"), before - kGiB);
}

TEST_F(PoolsTest, DirectoryDoesNotGrow) {
  const std::string id = CreatedIn("dirs");
  ExpectRefused([&] { return driver().Grow(id, 2 * kVolumeBytes); }, Code::kOutOfRange, "do not grow");
  EXPECT_OK(driver().Grow(id, kVolumeBytes));
}

TEST_F(PoolsTest, DeleteRemovesAllFilesOfADirectory) {
  const std::string id = CreatedIn("dirs");
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  ASSERT_EQ(Shell("cd " + Staging(id) + " && mkdir -p a/b/c && ln -s /etc a/link && mkfifo a/b/p && " +
                  "touch a/b/c/f && chown -R 1234:1234 a && chmod 000 a/b"),
            0);
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  ASSERT_OK(driver().Delete(id));
  EXPECT_FALSE(fs::exists(dir() / "dirs/" + id));
  EXPECT_TRUE(fs::exists("/etc/passwd"));
}

// FAILED_PRECONDITION would say that the volume is whole, and a manager would offer it again.
TEST_F(PoolsTest, AFileThatCannotBeRemovedDoesNotMakeAVolumeWholeAgain) {
  const std::string id = CreatedIn("dirs");
  const std::string left = (dir() / "dirs/") + id + ".deleting/immutable";
  ASSERT_EQ(Shell("touch " + (dir() / "dirs/") + id + "/immutable"), 0);
  if (Shell("chattr +i " + (dir() / "dirs/") + id + "/immutable 2>/dev/null") != 0) {
    GTEST_SKIP() << "the filesystem of " << dir().path() << " has no immutable files";
  }
  const absl::Status deleted = driver().Delete(id).status;
  EXPECT_THAT(driver().Stage(id, Staging(id), kSharedMount), FailsWith(Code::kNotFound, id));
  EXPECT_EQ(Shell("chattr -i " + left), 0);
  EXPECT_THAT(deleted, FailsWith(Code::kUnavailable, "may be deleted in part"));
  EXPECT_THAT(deleted, FailsWith(Code::kUnavailable, "Operation not permitted"));
  ASSERT_OK(driver().Delete(id));
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(PoolsTest, StartFinishesTheRemovalOfADirectory) {
  const std::string id = CreatedIn("dirs");
  plugin().Kill();
  ASSERT_EQ(Shell("mkdir -p " + (dir() / "dirs/") + id + ".deleting/x"), 0);
  Start();
  EXPECT_TRUE(Eventually([&] { return !fs::exists((dir() / "dirs/") + id + ".deleting"); }));
  EXPECT_TRUE(fs::exists((dir() / "dirs/") + id));
}

// As `setcap cap_net_raw=p` does, capabilities(7).
constexpr char kFileCapability[] = "security.capability";
constexpr vfs_cap_data kNetRaw = {.magic_etc = VFS_CAP_REVISION_2,
                                  .data = {{.permitted = 1U << CAP_NET_RAW, .inheritable = 0}}};

void GiveCapability(const std::string& file) {
  ASSERT_EQ(::setxattr(file.c_str(), kFileCapability, &kNetRaw, sizeof kNetRaw, 0), 0) << std::strerror(errno);
}

bool HasCapability(const std::string& file) {
  vfs_cap_data found = {};
  return ::getxattr(file.c_str(), kFileCapability, &found, sizeof found) == sizeof found &&
         found.data[0].permitted == kNetRaw.data[0].permitted;
}

TEST_F(PoolsTest, ADirectoryIsClonedWhileNobodyUsesIt) {
  const std::string id = CreatedIn("dirs");
  StageAndPublish(id, Target("a"), kSharedMount);
  ASSERT_EQ(Shell("cd " + Target("a") + " && mkdir d && echo data > d/file && ln -s d/file link && mkfifo pipe && " +
                  "chown -R 4711:4712 . && chmod 2770 ."),
            0);
  ExpectRefused(CloneRequest("copy", id), Code::kFailedPrecondition, "unpublish and unstage it first");
  GiveCapability(Target("a") + "/d/file");
  UnpublishAndUnstage(id, Target("a"));
  const std::string copy = Created(CloneRequest("copy", id));
  EXPECT_EQ(Created(CloneRequest("copy", id)), copy);
  ASSERT_OK(driver().Delete(id));
  StageAndPublish(copy, Target("b"), kSharedMount);
  EXPECT_EQ(ReadFile(Target("b") + "/link"), "data\n");
  EXPECT_TRUE(HasCapability(Target("b") + "/d/file"));
  EXPECT_EQ(StatOf(Target("b") + "/pipe").st_uid, 4711U);
  EXPECT_EQ(StatOf(Target("b")).st_mode & 07777, 02770U);
  EXPECT_EQ(StatOf(Target("b")).st_gid, 4712U);
}

TEST_F(PoolsTest, ACloneOfAnotherKindIsRefused) {
  const std::string directory = CreatedIn("dirs"), memory = CreatedIn("mem");
  CreateVolumeRequest request = CloneRequest("copy", directory);
  (*request.mutable_parameters())["pool"] = "fast";
  ExpectRefused(request, Code::kFailedPrecondition, "a copy keeps its source's");
  ExpectRefused(CloneRequest("copy", memory), Code::kFailedPrecondition, "copies no volumes");
}

TEST_F(PoolsTest, ACloneThatIsKilledLeavesNothing) {
  std::future<absl::Status> clone, stage;
  HeldTool cp(*this, "cp");
  RestartWithPath(cp.path());
  const std::string id = CreatedIn("dirs"), path = (dir() / "dirs/") + id;
  ASSERT_EQ(TryWrite(path + "/file", "data"), 0);
  clone = std::async(std::launch::async, [&] { return driver().Send(CloneRequest("copy", id)).status; });
  EXPECT_TRUE(Eventually([&] { return ToolRuns("cp").size() == 1; }));
  stage = std::async(std::launch::async, [&] { return driver().Stage(id, Staging(id), kSharedMount).status; });
  EXPECT_EQ(stage.wait_for(milliseconds(100)), std::future_status::timeout) << "a task could write to the source now";
  plugin().Kill();
  EXPECT_FALSE(clone.get().ok());
  EXPECT_FALSE(stage.get().ok());
  plugin().options().environment.clear();
  Start();
  const auto names = [&] { return std::distance(fs::directory_iterator(dir() / "dirs"), fs::directory_iterator()); };
  EXPECT_TRUE(Eventually([&] { return names() == 1; }));
  cp.Release();
  EXPECT_TRUE(Eventually([&] { return !Runs(ToolRuns("cp").front()); }));
  EXPECT_EQ(names(), 1) << "what ran on has written into the pool";
  EXPECT_EQ(ReadFile((dir() / "dirs/") + Created(CloneRequest("copy", id)) + "/file"), "data");
}

// Another plugin may be about to fill it. Without one it is what a killed one left.
TEST_F(PoolsTest, AnEmptyDirectoryThatWasNotFinishedGoesWithItsVolume) {
  const std::string id = CreatedIn("dirs"), left = (dir() / "dirs/") + id + ".making";
  plugin().Kill();
  ASSERT_EQ(Shell("mkdir " + left), 0);
  Start();
  EXPECT_TRUE(fs::exists(left));
  EXPECT_OK(driver().Delete(id));
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(PoolsTest, ProbeFailsWhileOthersMayWriteInThePool) {
  constexpr char kWhy[] = "pool open: others may write in the directory of volumes";
  plugin().Terminate();
  ASSERT_EQ(Shell("mkdir -m 0777 " + (dir() / "open") + " && touch " + (dir() / "open/file")), 0);
  AddPool("name=open,backend=directory,path=" + (dir() / "open"));
  plugin().Launch();
  EXPECT_TRUE(Eventually([&] { return absl::IsFailedPrecondition(Probe().status); }));
  EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition, kWhy));
  EXPECT_THAT(plugin().Log(), HasSubstr(kWhy));
  ASSERT_EQ(Shell("chmod 0755 " + (dir() / "open")), 0);
  EXPECT_TRUE(Eventually([&] { return IsReady(); }, std::chrono::seconds(10)));
  EXPECT_TRUE(fs::exists(dir() / "open/file"));
}

}  // namespace
}  // namespace mooring::testing

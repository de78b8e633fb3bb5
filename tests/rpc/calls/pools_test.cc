// Volumes that are no images, over the socket and on the real kernel: what is promised of each backend, and that what
// one cannot is refused with the reason.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/rpc/support/rpc_test.h"
#include "tests/support/reboot.h"

namespace mooring::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::int64_t kMemory = 256 * kMiB;

class PoolsTest : public RpcTest {
 protected:
  void SetUp() override {
    AddPool("name=dirs,backend=directory,path=" + (dir() / "dirs"));
    AddPool("name=mem,backend=tmpfs,size=" + std::to_string(kMemory));
    AddPool("name=fast,backend=image,path=" + (dir() / "fast") + ",overcommit=2");
    Start();
  }
  void AddPool(const std::string& text) {
    plugin().options().flags.push_back("--pool");
    plugin().options().flags.push_back(text);
  }

  csi::v1::CreateVolumeRequest Request(const std::string& pool, const std::string& name,
                                       const VolumeCapability& capability = Mount("", kMultiWriter),
                                       std::int64_t bytes = kVolumeBytes) {
    csi::v1::CreateVolumeRequest request;
    request.set_name(name);
    *request.add_volume_capabilities() = capability;
    request.mutable_capacity_range()->set_required_bytes(bytes);
    (*request.mutable_parameters())["pool"] = pool;
    return request;
  }
  std::string CreatedIn(const std::string& pool, std::int64_t bytes = kVolumeBytes) {
    const auto made =
        driver().Send(Request(pool, pool + "-" + std::to_string(++made_), Mount("", kMultiWriter), bytes));
    EXPECT_OK(made);
    return made->volume().volume_id();
  }
  std::int64_t Available(const std::string& pool) {
    csi::v1::GetCapacityRequest request;
    (*request.mutable_parameters())["pool"] = pool;
    return driver().Send(request)->available_capacity();
  }

 private:
  int made_ = 0;
};

// The backends whose volumes are no devices.
class PlainVolume : public PoolsTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string pool() const { return GetParam(); }
  bool is_memory() const { return pool() == "mem"; }
  std::string Staged() {
    const std::string id = CreatedIn(pool());
    EXPECT_OK(driver().Stage(id, Staging(id), Use()));
    return id;
  }
  static VolumeCapability Use(const std::vector<std::string>& flags = {}) { return Mount("", kMultiWriter, flags); }
};

INSTANTIATE_TEST_SUITE_P(Backends, PlainVolume, ::testing::Values("dirs", "mem"),
                         [](const auto& row) { return std::string(row.param); });

TEST_P(PlainVolume, IsMadePublishedTakenBackAndGone) {
  const auto made = driver().Send(Request(pool(), "v"));
  ASSERT_OK(made);
  const std::string id = made->volume().volume_id();
  EXPECT_EQ(made->volume().volume_context().at("pool"), pool());
  EXPECT_EQ(made->volume().capacity_bytes(), kVolumeBytes);
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  struct stat root = {};
  ASSERT_EQ(::stat(Target("a").c_str(), &root), 0);
  EXPECT_EQ(root.st_mode & 07777, 0755U);
  EXPECT_EQ(root.st_uid, 0U);
  EXPECT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  EXPECT_EQ(ReadFile(Staging(id) + "/file"), "data");
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "unpublish and unstage it first"));
  ASSERT_OK(driver().Unpublish(id, Target("a")));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  ASSERT_OK(driver().Delete(id));
  ASSERT_OK(driver().Delete(id));
  EXPECT_THAT(std::filesystem::directory_iterator(dir() / "dirs"), std::filesystem::directory_iterator());
  EXPECT_THAT(MountsBelow(dir().path()), IsEmpty());
}

TEST_P(PlainVolume, RepeatedCallsFindTheWorkDoneAndOthersAreToldApart) {
  const std::string id = Staged();
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

TEST_P(PlainVolume, AReadOnlyTargetRefusesWritesAndFlagsAreThoseThatWereAskedFor) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("rw"), Use({"noexec,nosuid"})));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), Use(), true));
  EXPECT_EQ(TryWrite(Target("rw") + "/file", "data"), 0);
  EXPECT_EQ(TryWrite(Target("ro") + "/file", "x"), EROFS);
  EXPECT_TRUE(MountAt(Target("rw"))->Has("noexec"));
  EXPECT_TRUE(MountAt(Target("ro"))->Has("ro"));
  EXPECT_FALSE(MountAt(Staging(id))->Has("ro"));
}

TEST_P(PlainVolume, AGroupMayWrite) {
  const std::string id = CreatedIn(pool());
  const VolumeCapability capability = WithGroup(Use(), "4711");
  ASSERT_OK(driver().Stage(id, Staging(id), capability));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
  struct stat root = {};
  ASSERT_EQ(::stat(Target("a").c_str(), &root), 0);
  EXPECT_EQ(root.st_gid, 4711U);
  EXPECT_EQ(root.st_mode & 02770U, 02770U);
}

TEST_P(PlainVolume, AStagingTheTargetAndItsPropagation) {
  ShareDirectory();
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  EXPECT_THAT(MountAt(Staging(id))->propagation, IsEmpty());
  EXPECT_THAT(MountAt(Target("a"))->propagation, Contains(StartsWith("shared:")));
}

TEST_P(PlainVolume, MountsThatStandAreTheNextProcesss) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  ASSERT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  const std::string before = RawMounts();
  for (const bool lose : {false, true}) {
    plugin().Kill();
    if (lose) ForgetRecords();
    Start();
    EXPECT_EQ(RawMounts(), before);
    EXPECT_OK(driver().Stage(id, Staging(id), Use()));
    EXPECT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
    EXPECT_OK(driver().Stats(id, Target("a")));
    EXPECT_EQ(RawMounts(), before);
    EXPECT_EQ(ReadFile(Target("a") + "/file"), "data");
  }
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "in use"));
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
}

TEST_P(PlainVolume, AfterARebootItIsStagedAgain) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  ASSERT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  plugin().Kill();
  ASSERT_NO_FATAL_FAILURE(Reboot(dir().path()));
  Start();
  EXPECT_THAT(driver().Stats(id, Target("a")), FailsWith(Code::kNotFound, ""));
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  EXPECT_EQ(ReadFile(Target("a") + "/file"), is_memory() ? "" : "data");
}

TEST_P(PlainVolume, WhatIsWrittenAtOneStagingIsAtAllOthers) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  ASSERT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  ASSERT_OK(driver().Unstage(id, Staging(id)));  // out of order: the target stands
  ASSERT_OK(driver().Stage(id, Staging(id, "second"), Use()));
  EXPECT_EQ(ReadFile(Staging(id, "second") + "/file"), "data");
  plugin().Kill();
  ForgetRecords();
  ASSERT_EQ(Shell("umount " + Staging(id, "second")), 0);
  Start();
  ASSERT_OK(driver().Stage(id, Staging(id, "third"), Use()));
  EXPECT_EQ(ReadFile(Staging(id, "third") + "/file"), "data");
}

TEST_P(PlainVolume, DataSurvivesUnstageWhereTheBackendKeepsIt) {
  const std::string id = Staged();
  ASSERT_EQ(TryWrite(Staging(id) + "/file", "data"), 0);
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  EXPECT_EQ(ReadFile(Staging(id) + "/file"), is_memory() ? "" : "data");
}

TEST_P(PlainVolume, WhatTheBackendCannotIsRefusedWithTheReason) {
  ExpectRefused([&] { return driver().Send(Request(pool(), "b", Block())); }, Code::kInvalidArgument,
                "no block devices");
  ExpectRefused([&] { return driver().Send(Request(pool(), "x", Mount("xfs"))); }, Code::kInvalidArgument,
                "leaves no choice");
  ExpectRefused([&] { return driver().Send(Request(pool(), "f", Mount("", kMultiWriter, {"commit=5"}))); },
                Code::kInvalidArgument, "mount flag 'commit' is not allowed");
  const std::string id = CreatedIn(pool()), staging = Staging(id);
  ExpectRefused([&] { return driver().Stage(id, staging, Block()); }, Code::kInvalidArgument, "block access");
  ExpectRefused([&] { return driver().Stage(id, staging, Mount("ext4")); }, Code::kInvalidArgument, "name none");
  ExpectRefused([&] { return driver().Stage(id, staging, Mount("", kMultiWriter, {"commit=5"})); },
                Code::kInvalidArgument, "commit");
  ExpectRefused([&] { return driver().Attach(id, kNode, Block()); }, Code::kInvalidArgument, "block access");
  csi::v1::ValidateVolumeCapabilitiesRequest validate;
  validate.set_volume_id(id);
  *validate.add_volume_capabilities() = Block();
  EXPECT_THAT(driver().Send(validate)->message(), HasSubstr("no block devices"));
}

TEST_F(PoolsTest, AnUnknownPoolIsRefusedWithTheNamesOfThoseThereAre) {
  ExpectRefused([&] { return driver().Send(Request("nowhere", "v")); }, Code::kInvalidArgument,
                "default, dirs, mem, fast");
  EXPECT_EQ(Available("nowhere"), 0);
}

TEST_F(PoolsTest, AVolumeOfAnotherPoolHasAnotherNameOnly) {
  ASSERT_OK(driver().Send(Request("dirs", "v")));
  ExpectRefused([&] { return driver().Send(Request("mem", "v")); }, Code::kAlreadyExists, "pool dirs");
}

TEST_F(PoolsTest, ImagesLieInTheirPool) {
  const std::string id = CreatedIn("fast");
  EXPECT_TRUE(std::filesystem::exists(dir() / "fast/" + id + ".img"));
  ASSERT_OK(driver().Stage(id, Staging(id), Mount("", kMultiWriter)));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Mount("", kMultiWriter)));
  EXPECT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  EXPECT_THAT(MountAt(Target("a"))->source, StartsWith("/dev/loop"));
}

TEST_F(PoolsTest, MemoryIsLimitedToItsSizeAndGrowsWhileItIsInUse) {
  const std::string id = CreatedIn("mem", 16 * kMiB);
  ASSERT_OK(driver().Stage(id, Staging(id), Mount("", kMultiWriter)));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Mount("", kMultiWriter)));
  EXPECT_EQ(MountedBytes(Target("a")), 16U * kMiB);
  EXPECT_NE(Shell("head -c 20M /dev/zero > " + Target("a") + "/file 2>/dev/null"), 0);
  ASSERT_OK(driver().Grow(id, 64 * kMiB));
  ASSERT_OK(driver().NodeExpand(id, Target("a")));
  EXPECT_EQ(MountedBytes(Staging(id)), 64U * kMiB);
  EXPECT_EQ(Shell("head -c 20M /dev/zero > " + Target("a") + "/file"), 0);
  Restart(SIGKILL);
  EXPECT_EQ(MountedBytes(Target("a")), 64U * kMiB);
}

TEST_F(PoolsTest, MemoryGrowsThroughAReadOnlyStagingAndStaysWritableElsewhere) {
  const std::string id = CreatedIn("mem", 16 * kMiB);
  ASSERT_OK(driver().Stage(id, Staging(id), Mount("", kMultiWriter)));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), Mount("", kMultiWriter), true));
  ASSERT_OK(driver().Grow(id, 32 * kMiB));
  ASSERT_OK(driver().NodeExpand(id, Target("ro")));
  EXPECT_EQ(MountedBytes(Staging(id)), 32U * kMiB);
  EXPECT_EQ(TryWrite(Staging(id) + "/file", "data"), 0);
  EXPECT_EQ(TryWrite(Target("ro") + "/file", "data"), EROFS);
}

TEST_F(PoolsTest, MemoryIsPromisedOnce) {
  EXPECT_EQ(Available("mem"), kMemory);
  const std::string id = CreatedIn("mem", 200 * kMiB);
  EXPECT_EQ(Available("mem"), 56 * kMiB);
  ExpectRefused([&] { return driver().Send(Request("mem", "more", Mount("", kMultiWriter), 57 * kMiB)); },
                Code::kResourceExhausted, "has 56 MiB of 256 MiB left");
  ExpectRefused([&] { return driver().Send(Request("mem", "never", Mount("", kMultiWriter), 257 * kMiB)); },
                Code::kOutOfRange, "can hold at most");
  ExpectRefused([&] { return driver().Grow(id, 257 * kMiB); }, Code::kResourceExhausted, "has 56 MiB of 256 MiB left");
  ASSERT_OK(driver().Grow(id, 256 * kMiB));
  EXPECT_EQ(Available("mem"), 0);
  ASSERT_OK(driver().Delete(id));
  EXPECT_EQ(Available("mem"), kMemory);
}

TEST_F(PoolsTest, OvercommitBoundsTheSum) {
  const std::int64_t before = Available("fast");
  ASSERT_GT(before, 0);
  CreatedIn("fast", kGiB);
  EXPECT_EQ(Available("fast"), before - kGiB);
}

TEST_F(PoolsTest, ADirectoryDoesNotGrowAndSaysSo) {
  const std::string id = CreatedIn("dirs");
  ExpectRefused([&] { return driver().Grow(id, 2 * kVolumeBytes); }, Code::kOutOfRange, "do not grow");
  EXPECT_OK(driver().Grow(id, kVolumeBytes));
}

TEST_F(PoolsTest, WhatTasksLeftInADirectoryGoesWithIt) {
  const std::string id = CreatedIn("dirs");
  ASSERT_OK(driver().Stage(id, Staging(id), Mount("", kMultiWriter)));
  ASSERT_EQ(Shell("cd " + Staging(id) + " && mkdir -p a/b/c && ln -s /etc a/link && mkfifo a/b/p && " +
                  "touch a/b/c/f && chown -R 1234:1234 a && chmod 000 a/b"),
            0);
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  ASSERT_OK(driver().Delete(id));
  EXPECT_FALSE(std::filesystem::exists(dir() / "dirs/" + id));
  EXPECT_TRUE(std::filesystem::exists("/etc/passwd"));
}

TEST_F(PoolsTest, ADirectoryThatWasHalfRemovedGoesAtTheStart) {
  const std::string id = CreatedIn("dirs");
  plugin().Kill();
  ASSERT_EQ(Shell("mkdir -p " + (dir() / "dirs/") + id + ".deleting/x " + (dir() / "dirs/") + id + ".making"), 0);
  Start();
  EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists((dir() / "dirs/") + id + ".deleting"); }));
  EXPECT_TRUE(std::filesystem::exists((dir() / "dirs/") + id));
  EXPECT_FALSE(std::filesystem::exists((dir() / "dirs/") + id + ".making"));
}

TEST_F(PoolsTest, APoolThatOthersMayWriteInIsRefusedUntilTheyMayNot) {
  constexpr char kWhy[] = "pool open: others may write in the directory of volumes";
  plugin().Terminate();
  ASSERT_EQ(Shell("mkdir -m 0777 " + (dir() / "open") + " && touch " + (dir() / "open/file")), 0);
  AddPool("name=open,backend=directory,path=" + (dir() / "open"));
  plugin().Launch();
  const auto probe = [this] {
    driver().Connect();
    return driver().Send(csi::v1::ProbeRequest());
  };
  EXPECT_TRUE(Eventually([&] { return absl::IsFailedPrecondition(probe().status); }));
  EXPECT_THAT(probe(), FailsWith(Code::kFailedPrecondition, kWhy));
  EXPECT_THAT(plugin().Log(), HasSubstr(kWhy));
  ASSERT_EQ(Shell("chmod 0755 " + (dir() / "open")), 0);
  EXPECT_TRUE(Eventually([&] { return probe().status.ok() && probe()->ready().value(); }, std::chrono::seconds(10)));
  EXPECT_TRUE(std::filesystem::exists(dir() / "open/file"));
}

}  // namespace
}  // namespace mooring::testing

// Volumes that are btrfs subvolumes: what the calls promise, on a real btrfs with simple quotas.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class BtrfsPool : public RpcTest {
 protected:
  void SetUp() override {
    MountPool();
    if (!fs::exists("/sys/fs/btrfs/features/simple_quota")) GTEST_SKIP() << "this kernel has no simple quotas";
    AddFlags({"--pool", "name=sub,backend=btrfs,path=" + pool()});
    Start();
  }
  std::string pool() const { return dir() / "sub"; }
  std::string VolumePath(const std::string& id) const { return pool() + "/" + id; }

  // The image lies elsewhere, because no loop device of a volume may be left over a file of this directory.
  void MountPool(const std::string& name = "image") {
    MakeDirectories("sub");
    const std::string image = elsewhere_ / name;
    ASSERT_EQ(Shell("truncate -s 1G " + image + " && mkfs.btrfs -q -K " + image + " 2>/dev/null"), 0);
    MountAgain(name);
    AllowMount(pool());
    const char* const user = std::getenv("MOORING_TEST_USER");
    if (user != nullptr) {
      ASSERT_EQ(Shell(std::string("chown ") + user + " " + pool()), 0);
    }
  }

  void MountAgain(const std::string& name = "image") {
    ASSERT_EQ(Shell("mount -o loop " + (elsewhere_ / name) + " " + pool()), 0);
  }

  CreateVolumeRequest Request(const std::string& name, std::int64_t bytes = kVolumeBytes) {
    return CreateRequest(name, kSharedMount, bytes, {{"pool", "sub"}});
  }
  std::string Made(const std::string& name, std::int64_t bytes = kVolumeBytes) { return Created(Request(name, bytes)); }

  static bool Fits(const std::string& file, int mebibytes) {
    return Shell("dd if=/dev/zero of=" + file + " bs=1M count=" + std::to_string(mebibytes) +
                 " conv=fsync 2>/dev/null") == 0;
  }
  std::string GroupOf(const std::string& id) const {
    return "1/" + std::to_string(std::stoull(id.substr(4, 12), nullptr, 16));
  }
  // "0/5" and "0/256 …" of the groups that exist once the kernel has cleared deleted subvolumes.
  std::string Groups() const {
    return RunOutput("btrfs subvolume sync " + pool() + " >/dev/null; btrfs qgroup show --raw " + pool() +
                     " | grep -o '^[0-9]*/[0-9]*' | tr '\n' ' '");
  }
  std::string Condition(const std::string& id) { return driver().Get(id)->status().volume_condition().message(); }

 private:
  TempDir elsewhere_;
};

TEST_F(BtrfsPool, AVolumeHasItsSizeFromTheFirstByteAndShowsIt) {
  const std::string id = Made("v");
  StageAndPublish(id, Target("a"), kSharedMount);
  EXPECT_TRUE(Fits(Target("a") + "/file", 40));
  const auto stats = driver().Stats(id, Target("a"));
  ASSERT_OK(stats);
  EXPECT_EQ(stats->usage(0).total(), kVolumeBytes);
  EXPECT_GE(stats->usage(0).used(), 40 * kMiB);
  EXPECT_EQ(stats->usage(0).available(), kVolumeBytes - stats->usage(0).used());
  EXPECT_FALSE(stats->volume_condition().abnormal()) << stats->volume_condition().message();
  EXPECT_FALSE(Fits(Target("a") + "/more", 40));
}

TEST_F(BtrfsPool, TheSmallestVolumeHoldsFiles) {
  const auto made = driver().Send(Request("v", 4096));
  ASSERT_OK(made);
  EXPECT_EQ(made->volume().capacity_bytes(), kMiB);
  const std::string id = made->volume().volume_id();
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  EXPECT_EQ(Shell("cd " + Staging(id) +
                  " && mkdir d && touch $(seq 100) && head -c 300000 /dev/zero > d/file && sync d/file"),
            0);
}

TEST_F(BtrfsPool, GrowsInUseAndKeepsItsSizeOverARestart) {
  const std::string id = Made("v");
  StageAndPublish(id, Target("a"), kSharedMount);
  EXPECT_FALSE(Fits(Target("a") + "/file", 100));
  ASSERT_OK(driver().Grow(id, 2 * kVolumeBytes));
  ASSERT_OK(driver().NodeExpand(id, Target("a")));
  EXPECT_TRUE(Fits(Target("a") + "/file", 100));
  Restart(SIGKILL);
  EXPECT_EQ(driver().Stats(id, Target("a"))->usage(0).total(), 2 * kVolumeBytes);
  EXPECT_OK(driver().Grow(id, 2 * kVolumeBytes));
}

TEST_F(BtrfsPool, AnInterruptedGrowthIsAdopted) {
  const std::string id = Made("v");
  StopPlugin();
  ASSERT_EQ(Shell("btrfs qgroup limit 128M " + GroupOf(id) + " " + pool()), 0);
  Start();
  EXPECT_TRUE(Eventually([&] { return driver().Get(id)->volume().capacity_bytes() == 2 * kVolumeBytes; }));
}

TEST_F(BtrfsPool, SnapshotsAndClonesAreMadeInUseWithDataThatWasNotSynced) {
  const std::string id = Made("v");
  StageAndPublish(id, Target("a"), kSharedMount);
  std::ofstream(Target("a") + "/file") << "before" << std::flush;
  const std::string snapshot = Snapped("s", id);
  std::ofstream(Target("a") + "/file") << "after" << std::flush;
  const std::string of_snapshot =
      Created(CopyRequest("a", snapshot, kSharedMount, 2 * kVolumeBytes, {{"pool", "sub"}}));
  const std::string of_volume = Created(CopyRequest("b", id, kSharedMount));
  StageAndPublish(of_snapshot, Target("b"), kSharedMount);
  StageAndPublish(of_volume, Target("c"), kSharedMount);
  EXPECT_EQ(ReadFile(Target("b") + "/file"), "before");
  EXPECT_EQ(ReadFile(Target("c") + "/file"), "after");
  std::ofstream(Target("b") + "/file") << "its own" << std::flush;
  EXPECT_EQ(ReadFile(Target("a") + "/file"), "after");
  EXPECT_EQ(driver().Stats(of_snapshot, Target("b"))->usage(0).total(), 2 * kVolumeBytes);
  EXPECT_FALSE(Fits(Target("c") + "/large", 70));
}

TEST_F(BtrfsPool, AGroupOfVolumesIsSnappedAtOnce) {
  csi::v1::CreateVolumeGroupSnapshotRequest request;
  request.set_name("group");
  std::vector<std::string> ids;
  for (const char* name : {"a", "b", "c"}) {
    ids.push_back(Made(name));
    request.add_source_volume_ids(ids.back());
    ASSERT_OK(driver().Stage(ids.back(), Staging(ids.back()), kSharedMount));
    std::ofstream(Staging(ids.back()) + "/file") << name << std::flush;
  }
  const auto made = driver().Send(request);
  ASSERT_OK(made);
  ASSERT_EQ(made->group_snapshot().snapshots_size(), 3);
  csi::v1::DeleteVolumeGroupSnapshotRequest remove;
  remove.set_group_snapshot_id(made->group_snapshot().group_snapshot_id());
  for (const csi::v1::Snapshot& snapshot : made->group_snapshot().snapshots()) {
    EXPECT_TRUE(fs::exists(VolumePath(snapshot.snapshot_id()) + "/file"));
    remove.add_snapshot_ids(snapshot.snapshot_id());
  }
  EXPECT_OK(driver().Send(remove));
}

TEST_F(BtrfsPool, DeletingLeavesNeitherSubvolumesNorGroups) {
  const std::string before = Groups();
  const std::string other = Made("other"), with_other = Groups();
  const std::string id = Made("v");
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  ASSERT_EQ(Shell("cd " + Staging(id) + " && btrfs -q subvolume create in && touch in/file && " +
                  "btrfs -q subvolume snapshot -r in in/frozen && btrfs -q subvolume create in/deep"),
            0);
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "unpublish and unstage it first"));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  ASSERT_OK(driver().Delete(id));
  ASSERT_OK(driver().Delete(id));
  EXPECT_FALSE(fs::exists(VolumePath(id)));
  EXPECT_TRUE(Eventually([&] { return Groups() == with_other; })) << Groups();
  ASSERT_OK(driver().Delete(other));
  EXPECT_TRUE(Eventually([&] { return Groups() == before; })) << Groups();
}

TEST_F(BtrfsPool, TheStartFinishesADeletion) {
  const std::string id = Made("v"), kept = Made("kept");
  plugin().Kill();
  ASSERT_EQ(Shell("mv " + VolumePath(id) + " " + VolumePath(id) + ".deleting"), 0);
  Rows(state_dir() + "/catalog.db", "UPDATE volumes SET state = 'deleting' WHERE id = '" + id + "'");
  Start();
  EXPECT_TRUE(Eventually([&] { return !fs::exists(VolumePath(id) + ".deleting"); }));
  EXPECT_EQ(RunOutput("btrfs qgroup show " + pool() + " | grep -c ^" + GroupOf(id)), "0\n");
  EXPECT_TRUE(fs::exists(VolumePath(kept)));
}

// A creation that was killed after its group was made.
TEST_F(BtrfsPool, TheStartClearsAGroupWithoutAVolume) {
  const std::string id = Made("v");
  plugin().Kill();
  ASSERT_EQ(Shell("btrfs -q subvolume delete " + VolumePath(id)), 0);
  Rows(state_dir() + "/catalog.db", "UPDATE volumes SET state = 'creating' WHERE id = '" + id + "'");
  Start();
  EXPECT_TRUE(
      Eventually([&] { return RunOutput("btrfs qgroup show " + pool() + " | grep -c ^" + GroupOf(id)) == "0\n"; }));
  EXPECT_THAT(driver().Get(id), FailsWith(Code::kNotFound, ""));
}

TEST_F(BtrfsPool, QuotasThatWereTurnedOffAreACondition) {
  const std::string id = Made("v");
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  EXPECT_EQ(Condition(id), "healthy");
  ASSERT_EQ(Shell("btrfs quota disable " + pool()), 0);
  EXPECT_THAT(Condition(id), HasSubstr("turned off"));
  const auto stats = driver().Stats(id, Staging(id));
  EXPECT_TRUE(stats->volume_condition().abnormal());
  EXPECT_THAT(stats->volume_condition().message(), HasSubstr("turned off"));
  ExpectRefused(Request("more"), Code::kFailedPrecondition, "turned off");
  Restart(SIGTERM);
  EXPECT_EQ(RunOutput("btrfs qgroup show " + pool() + " 2>&1 | grep -c 'not enabled'"), "1\n") << "still off";
  EXPECT_THAT(Condition(id), HasSubstr("turned off"));
}

// The other pools are served, and so are the volumes that are there.
TEST_F(BtrfsPool, APoolWithVolumesNeverStopsTheStart) {
  const std::string id = Made("v");
  StopPlugin();
  ASSERT_EQ(
      Shell("btrfs quota disable " + pool() + " && btrfs quota enable " + pool() + " && mkdir " + pool() + "/foreign"),
      0);
  Start();
  Created(Mount());
  EXPECT_THAT(Condition(id), HasSubstr("so no volume there is held to its size"));
  ExpectRefused(Request("more"), Code::kFailedPrecondition, "copy the volumes to a new pool");
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  EXPECT_EQ(RunOutput("cat /sys/fs/btrfs/$(findmnt -no UUID " + pool() + ")/qgroups/mode"), "qgroup\n");
}

TEST_F(BtrfsPool, APoolThatIsNotMountedStopsNothingElse) {
  const std::string id = Made("v"), deleted = Made("deleted");
  StopPlugin();
  ASSERT_EQ(Shell("umount " + pool()), 0);
  Rows(state_dir() + "/catalog.db", "UPDATE volumes SET state = 'deleting' WHERE id = '" + deleted + "'");
  Start();
  Created(Mount());
  EXPECT_THAT(Condition(id), HasSubstr("is not mounted at"));
  ExpectRefused(Request("more"), Code::kUnavailable, "is not mounted at");
  EXPECT_THAT(driver().Stage(id, Staging(id), kSharedMount), FailsWith(Code::kUnavailable, "is not mounted at"));
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kUnavailable, "is not mounted at"));
  StopPlugin();
  EXPECT_THAT(RunOutput("ls -A " + pool()), IsEmpty());
  MountAgain();
  Start();
  EXPECT_EQ(Condition(id), "healthy");
  EXPECT_TRUE(fs::exists(VolumePath(id)));
  EXPECT_OK(driver().Delete(deleted));
}

// The start may have failed to, for a reason that passes.
TEST_F(BtrfsPool, AnEmptyPoolTurnsItsQuotasOnLater) {
  ASSERT_EQ(Shell("btrfs quota disable " + pool()), 0);
  const std::string id = Made("v");
  EXPECT_EQ(Condition(id), "healthy");
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  EXPECT_FALSE(Fits(Staging(id) + "/file", 100));
}

TEST_F(BtrfsPool, OtherUsersDoNotReachTheVolumes) { EXPECT_EQ(fs::status(pool()).permissions(), fs::perms::owner_all); }

TEST_F(BtrfsPool, ALimitFromBeforeQuotaAdvisoryGrows) {
  const std::string id = Made("v");
  StopPlugin();
  plugin().options().flags.back() += ",quota=advisory";
  Start();
  ASSERT_OK(driver().Grow(id, 2 * kVolumeBytes));
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  EXPECT_TRUE(Fits(Staging(id) + "/file", 100));
}

TEST_F(BtrfsPool, ATaskThatLeavesTheSizeIsACondition) {
  const std::string id = Made("v");
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  ASSERT_EQ(Shell("btrfs -q subvolume create " + Staging(id) + "/inner && btrfs qgroup remove --no-rescan 0/$(btrfs " +
                  "inspect-internal rootid " + Staging(id) + "/inner) " + GroupOf(id) + " " + pool()),
            0);
  EXPECT_THAT(driver().Stats(id, Staging(id))->volume_condition().message(), HasSubstr("did not count for its size"));
  EXPECT_FALSE(driver().Stats(id, Staging(id))->volume_condition().abnormal());
  EXPECT_FALSE(Fits(Staging(id) + "/inner/file", 70));
}

TEST_F(BtrfsPool, RequestsThatItCannotServeAreRefused) {
  const std::string id = Made("v");
  ExpectRefused(CreateRequest("b", Block(), kVolumeBytes, {{"pool", "sub"}}), Code::kInvalidArgument,
                "no block devices");
  ExpectRefused(CreateRequest("x", Mount("xfs"), kVolumeBytes, {{"pool", "sub"}}), Code::kInvalidArgument,
                "leaves no choice");
  ExpectRefused(Request("huge", 100 * kGiB), Code::kOutOfRange, "has");
  ExpectRefused(CopyRequest("c", id, Mount(), 0, {{"pool", "default"}}), Code::kFailedPrecondition,
                "the backend btrfs");
  const std::string image = Created(Mount());
  ExpectRefused(CopyRequest("d", image, Mount(), 0, {{"pool", "sub"}}), Code::kFailedPrecondition, "the backend image");
  csi::v1::CreateVolumeGroupSnapshotRequest group;
  group.set_name("mixed");
  group.add_source_volume_ids(id);
  group.add_source_volume_ids(image);
  ExpectRefused(group, Code::kFailedPrecondition, "different backends");
}

TEST_F(BtrfsPool, WhatIsNoPoolIsNamedAtTheStart) {
  StopPlugin();
  const auto why = [&](const std::string& path, const std::string& prepare = "true") {
    EXPECT_EQ(Shell(prepare), 0);
    const std::size_t from = plugin().Log().size();
    auto& flags = plugin().options().flags;
    flags.back() = "name=sub,backend=btrfs,path=" + path;
    plugin().Launch();
    EXPECT_TRUE(Eventually([&] { return absl::IsFailedPrecondition(Probe().status); }));
    plugin().Kill();
    return plugin().Log().substr(from);
  };
  EXPECT_THAT(why(MakeDirectories("plain"), "touch " + MakeDirectories("plain") + "/file"),
              HasSubstr("does not lie on a btrfs"));
  EXPECT_THAT(why(pool() + "/own", "btrfs -q subvolume create " + pool() + "/own"), HasSubstr("not the top"));
  EXPECT_THAT(why(pool()), HasSubstr("which is no volume, and a pool needs a btrfs of its own"));
  EXPECT_THAT(why(pool(), "btrfs -q subvolume delete " + pool() + "/own && btrfs quota disable " + pool() +
                              " && btrfs quota enable " + pool()),
              HasSubstr("has full quotas"));
  EXPECT_EQ(RunOutput("cat /sys/fs/btrfs/$(findmnt -no UUID " + pool() + ")/qgroups/mode"), "qgroup\n");
}

// As on a kernel before Linux 6.7, whose sysfs does not have that file.
TEST_F(BtrfsPool, AKernelWithoutSimpleQuotasIsRefusedUnlessSizesAreAdvisory) {
  StopPlugin();
  ASSERT_EQ(Shell("btrfs quota disable " + pool()), 0);
  plugin().options().own_mount_namespace = true;
  plugin().options().first = "mount -t tmpfs none /sys/fs/btrfs/features";
  plugin().Launch();
  EXPECT_TRUE(Eventually([&] { return absl::IsFailedPrecondition(Probe().status); }));
  EXPECT_THAT(plugin().Log(), HasSubstr("use Linux 6.7 or newer, or set quota=advisory"));
  plugin().Kill();
  plugin().options().flags.back() += ",quota=advisory";
  plugin().options().own_mount_namespace = false;
  plugin().options().first = "";
  Start();
  const std::string id = Made("v");
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  EXPECT_TRUE(Fits(Staging(id) + "/file", 100));
  EXPECT_EQ(Condition(id), "healthy");
  ASSERT_OK(driver().Grow(id, 2 * kVolumeBytes));
  const std::string copy = Created(CopyRequest("copy", Snapped("s", id), kSharedMount));
  EXPECT_EQ(fs::file_size(VolumePath(copy) + "/file"), 100 * kMiB);
  EXPECT_EQ(RunOutput("btrfs qgroup show " + pool() + " 2>&1 | grep -c 'not enabled'"), "1\n");
}

// All subvolumes have the same inode.
TEST_F(BtrfsPool, AMountFromAnotherBtrfsIsNotThatOfTheVolume) {
  const std::string id = Made("v");
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  StopPlugin();
  ASSERT_EQ(Shell("umount " + pool()), 0);
  MountPool("other");
  ASSERT_EQ(Shell("btrfs -q subvolume create " + VolumePath(id)), 0);
  Start();
  EXPECT_THAT(driver().Stage(id, Staging(id), kSharedMount), FailsWith(Code::kFailedPrecondition, "already"));
  ASSERT_EQ(Shell("umount " + Staging(id)), 0);
  EXPECT_OK(driver().Stage(id, Staging(id), kSharedMount));
}

TEST_F(BtrfsPool, StagesAgainAfterAReboot) {
  const std::string id = Made("v");
  StageAndPublish(id, Target("a"), kSharedMount);
  ASSERT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  plugin().Kill();
  ASSERT_EQ(Shell("umount " + Target("a") + " " + Staging(id)), 0);
  ForgetRecords();
  Start();
  StageAndPublish(id, Target("a"), kSharedMount);
  EXPECT_EQ(ReadFile(Target("a") + "/file"), "data");
  EXPECT_FALSE(Fits(Target("a") + "/large", 70));
}

}  // namespace
}  // namespace mooring::testing

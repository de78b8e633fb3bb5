// Block volumes as the kernel shows them.
#include <sys/sysmacros.h>

#include "tests/rpc/support/rpc_test.h"
#include "tests/support/holders.h"

namespace mooring::testing {
namespace {

std::string ReadHead(const std::string& path, std::size_t count) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(count, '\0');
  const ssize_t got = ::pread(fd.get(), text.data(), count, 0);
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

// The device node that is bound at a target.
std::string DeviceAt(const std::string& target) {
  const struct stat status = StatOf(target);
  EXPECT_TRUE(S_ISBLK(status.st_mode)) << target;
  return "/dev/loop" + std::to_string(minor(status.st_rdev));
}

class KernelBlock : public RpcTest {
 protected:
  // Detaches the device on the host. Its number must not be free afterwards.
  void ExpectKeptAfterDetach(const std::string& device) {
    const std::string other = dir() / "other";
    ASSERT_EQ(Shell("truncate -s 1M " + other), 0);
    ASSERT_EQ(Shell("losetup -d " + device), 0);
    const std::string next = AttachLoop(other);
    EXPECT_NE(next, device);
    EXPECT_EQ(Shell("losetup -d " + next), 0);
  }
};

TEST_F(KernelBlock, StageAttachesTheDeviceAndMountsNothing) {
  const std::string id = Staged(kSharedBlock);
  EXPECT_FALSE(MountAt(Staging(id)));
  const auto loops = LoopsHere();
  ASSERT_EQ(loops.size(), 1U);
  EXPECT_EQ(loops[0].backing_file, Image(id));
  EXPECT_FALSE(loops[0].auto_clear);
  EXPECT_EQ(DeviceBytes(loops[0].device), static_cast<std::uint64_t>(kVolumeBytes));
}

// `losetup -D` on the host detaches each device that no task has open.
TEST_F(KernelBlock, DetachOnTheHostDoesNotFreeTheDevice) {
  const std::string id = Published(Target("a"), kSharedBlock);
  const std::string device = LoopsHere().at(0).device;
  for (const int signal : {0, SIGKILL, SIGTERM}) {
    SCOPED_TRACE(signal);
    if (signal != 0) Restart(signal);
    ExpectKeptAfterDetach(device);
    EXPECT_EQ(LoopsHere().at(0).backing_file, Image(id));
    const std::string target = "after-" + std::to_string(signal);
    ASSERT_OK(driver().Publish(id, Staging(id), Target(target), kSharedBlock));
    EXPECT_FALSE(LoopsHere().at(0).auto_clear) << "the device would go with its last user";
    EXPECT_EQ(TryWrite(Target(target), target), 0);
    EXPECT_EQ(ReadHead(Image(id), target.size()), target);
    EXPECT_OK(driver().Unpublish(id, Target(target)));
  }
  ASSERT_EQ(Shell("losetup -d " + device), 0);
  UnpublishAndUnstage(id, Target("a"));
  EXPECT_TRUE(LoopsHere().empty()) << "the detach on the host has marked it; it still goes";
  EXPECT_TRUE(HoldersOfDevice(device).empty());
}

// Otherwise two devices would show different data as one volume.
TEST_F(KernelBlock, DeviceThatWasDetachedIsNotHeldAgainByAnotherImage) {
  const std::string id = Published(Target("a"), kSharedBlock);
  const std::string device = LoopsHere().at(0).device;
  ASSERT_EQ(Shell("losetup -d " + device), 0);
  const std::string used = dir() / "used";
  fs::rename(Image(id), used);
  fs::copy_file(used, Image(id));
  ExpectRefused(PublishRequest(id, Staging(id), Target("b"), kSharedBlock), Code::kFailedPrecondition, "was replaced");
  ASSERT_EQ(LoopsHere().size(), 1U);
  EXPECT_EQ(LoopsHere().at(0).backing_file, used);
  fs::rename(used, Image(id));
  EXPECT_OK(driver().Publish(id, Staging(id), Target("b"), kSharedBlock)) << "the image was put back";
  EXPECT_OK(driver().Unpublish(id, Target("b")));
  UnpublishAndUnstage(id, Target("a"));
  EXPECT_TRUE(LoopsHere().empty());
}

TEST_F(KernelBlock, DetachOnTheHostDoesNotFreeTheReadOnlyDevice) {
  const std::string id = Staged(kSharedBlock);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kSharedBlock, true));
  const std::string device = DeviceAt(Target("ro"));
  KillHolders(device);
  Restart(SIGKILL);
  EXPECT_EQ(HoldersOfDevice(device).size(), 1U);
  ExpectKeptAfterDetach(device);
  EXPECT_EQ(TryWrite(Target("ro"), "data"), EPERM);
  EXPECT_OK(driver().Unpublish(id, Target("ro")));
  EXPECT_TRUE(HoldersOfDevice(device).empty());
  EXPECT_TRUE(Eventually([&] { return LoopsHere().size() == 1; }));
}

// `losetup -D` on the host detaches the hold, because no process has it open.
TEST_F(KernelBlock, DeviceWhoseHoldWasDetachedIsHeldAgainByTheNextCall) {
  const std::string id = Published(Target("a"), kSharedBlock);
  const std::string device = LoopsHere().at(0).device;
  const auto detach_all = [&] {
    ASSERT_EQ(Shell("losetup -d " + HoldOfDevice(device)), 0);
    ASSERT_EQ(Shell("losetup -d " + device), 0);
    ASSERT_TRUE(Eventually([&] { return !HasHold(device); }));
    ASSERT_EQ(LoopsHere().size(), 1U) << "a process has it open";
  };
  detach_all();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("b"), kSharedBlock));
  EXPECT_TRUE(HasHold(device));
  EXPECT_FALSE(LoopsHere().at(0).auto_clear);
  detach_all();
  Restart(SIGTERM);
  EXPECT_TRUE(HasHold(device));
  detach_all();
  EXPECT_OK(driver().Unpublish(id, Target("b")));
  UnpublishAndUnstage(id, Target("a"));
  ExpectNoLoops();
}

// All processes of a container end together. The next start holds the device again.
TEST_F(KernelBlock, StartHoldsDevicesAgain) {
  const std::string id = Staged(kSharedBlock);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kSharedBlock, true));
  ASSERT_EQ(LoopsHere().size(), 2U);
  for (const LoopLine& loop : LoopsHere()) KillHolders(loop.device);
  Restart(SIGKILL);
  for (const LoopLine& loop : LoopsHere()) EXPECT_EQ(HoldersOfDevice(loop.device).size(), 1U) << loop.device;
  UnpublishAndUnstage(id, Target("ro"));
  ExpectNoLoops();
}

TEST_F(KernelBlock, StartHoldsADeviceAgainThatItsTaskHasMounted) {
  const std::string id = Published(Target("a"), kSharedBlock);
  const std::string device = LoopsHere().at(0).device, at = MakeDirectories("task");
  ASSERT_EQ(Shell("mkfs.ext4 -q " + Target("a") + " && mount " + Target("a") + " " + at), 0);
  KillHolders(device);
  Restart(SIGKILL);
  EXPECT_EQ(HoldersOfDevice(device).size(), 1U);
  ASSERT_EQ(Shell("umount " + at), 0);
  ExpectKeptAfterDetach(device);
  UnpublishAndUnstage(id, Target("a"));
  ExpectNoLoops();
}

TEST_F(KernelBlock, PublishRefusesADeviceOfAnotherFile) {
  const std::string id = Published(Target("a"), kSharedBlock);
  const std::string device = LoopsHere().at(0).device;
  KillHolders(device);
  DetachHold(device);
  ASSERT_EQ(Shell("losetup -d " + device), 0);
  const std::string other = Created();
  ASSERT_EQ(Shell("losetup " + device + " " + Image(other)), 0) << "another program took the number";
  Restart(SIGKILL);
  EXPECT_THAT(plugin().Log(), HasSubstr("a task has a device that is not its volume's"));
  EXPECT_THAT(driver().Publish(id, Staging(id), Target("a"), kSharedBlock),
              FailsWith(Code::kFailedPrecondition, "nothing is stacked on it"));
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_TRUE(MountsAt(Target("a")).empty());
  EXPECT_EQ(Shell("losetup -d " + device), 0);
  StageAndPublish(id, Target("a"), kSharedBlock);
  EXPECT_EQ(DeviceAt(Target("a")), LoopsHere().at(0).device);
  UnpublishAndUnstage(id, Target("a"));
}

TEST_F(KernelBlock, TargetIsTheDevice) {
  const std::string id = Published(Target("a"), kSharedBlock);
  EXPECT_EQ(DeviceAt(Target("a")), LoopsHere()[0].device);
  EXPECT_EQ(TryWrite(Target("a"), "data"), 0);
  EXPECT_EQ(ReadHead(Image(id), 4), "data");
  EXPECT_EQ(ReadHead(Target("a"), 4), "data");
}

TEST_F(KernelBlock, ReadersHaveADeviceEachAndSeeWhatWasWritten) {
  const std::string id = Published(Target("rw"), kSharedBlock);
  const std::string writable = DeviceAt(Target("rw"));
  for (const char* data : {"one!", "two!"}) {
    EXPECT_EQ(TryWrite(Target("rw"), data), 0);
    ASSERT_OK(driver().Unpublish(id, Target("rw")));
    ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kSharedBlock, true));
    ASSERT_OK(driver().Publish(id, Staging(id), Target("ro2"), kSharedBlock, true));
    const UniqueFd kept(::open(DeviceAt(Target("ro2")).c_str(), O_RDONLY | O_CLOEXEC));
    for (const char* reader : {"ro", "ro2"}) {
      EXPECT_EQ(ReadHead(Target(reader), 4), data);
      EXPECT_EQ(TryWrite(Target(reader), "data"), EPERM);
      EXPECT_EQ(RunOutput("blockdev --getro " + Target(reader)), "1\n");
      EXPECT_TRUE(MountAt(Target(reader))->Has("ro"));
      EXPECT_EQ(DeviceBytes(DeviceAt(Target(reader))), static_cast<std::uint64_t>(kVolumeBytes));
    }
    EXPECT_EQ(LoopsOver(Image(id)).size(), 1U) << "two devices over one file are data loss";
    EXPECT_EQ(LoopsHere().size(), 3U) << "a stacked one for each reader";
    ASSERT_OK(driver().Unpublish(id, Target("ro")));
    EXPECT_EQ(ReadHead(Target("ro2"), 4), data);
    ASSERT_OK(driver().Unpublish(id, Target("ro2")));
    ASSERT_OK(driver().Publish(id, Staging(id), Target("rw"), kSharedBlock)) << "the task has its old device open";
    EXPECT_EQ(DeviceAt(Target("rw")), writable);
  }
}

// Each device has a page cache of its own, so a reader would see old data.
TEST_F(KernelBlock, ReadersAndWritersAreNotPublishedTogether) {
  const std::string id = Published(Target("rw"), kSharedBlock);
  ExpectRefused(PublishRequest(id, Staging(id), Target("ro"), kSharedBlock, true), Code::kFailedPrecondition,
                "is published writable at '" + Target("rw") + "'");
  ASSERT_OK(driver().Unpublish(id, Target("rw")));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kSharedBlock, true));
  ExpectRefused(PublishRequest(id, Staging(id), Target("rw"), kSharedBlock), Code::kFailedPrecondition,
                "is published read-only at '" + Target("ro") + "'");
  EXPECT_OK(driver().Publish(id, Staging(id), Target("ro"), kSharedBlock, true)) << "the same call again";
  // A target that is gone does not count.
  ASSERT_EQ(::umount2(Target("ro").c_str(), 0), 0);
  EXPECT_OK(driver().Publish(id, Staging(id), Target("rw"), kSharedBlock));
}

// Nomad has a staging path for each access mode.
TEST_F(KernelBlock, StagingPathsOfReadersAndWritersShareADevice) {
  const VolumeCapability reader = Block(AccessMode::MULTI_NODE_READER_ONLY);
  const std::string id = Staged(kSharedBlock);
  ASSERT_OK(driver().Stage(id, Staging(id, "ro"), reader));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("rw"), kSharedBlock));
  EXPECT_EQ(TryWrite(Target("rw"), "data"), 0);
  ASSERT_OK(driver().Unpublish(id, Target("rw")));
  ASSERT_OK(driver().Publish(id, Staging(id, "ro"), Target("ro"), reader, true));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_EQ(ReadHead(Target("ro"), 4), "data");
  EXPECT_EQ(TryWrite(Target("ro"), "data"), EPERM);
  EXPECT_EQ(LoopsOver(Image(id)).size(), 1U);
}

TEST_F(KernelBlock, ReaderOnlyModesAreReadOnly) {
  for (const auto mode : {AccessMode::SINGLE_NODE_READER_ONLY, AccessMode::MULTI_NODE_READER_ONLY}) {
    const std::string id = Created(Block(mode));
    StageAndPublish(id, Target("a", id), Block(mode));
    EXPECT_EQ(TryWrite(Target("a", id), "data"), EPERM);
  }
}

TEST_F(KernelBlock, DataSurvivesUnpublishUnstageRestartExpandAndStage) {
  const std::string id = Published(Target("a"), kSharedBlock);
  ASSERT_EQ(TryWrite(Target("a"), "data"), 0);
  UnpublishAndUnstage(id, Target("a"));
  Restart(SIGKILL);
  ASSERT_OK(driver().Grow(id, 2 * kVolumeBytes));
  StageAndPublish(id, Target("b"), kSharedBlock);
  EXPECT_EQ(ReadHead(Target("b"), 4), "data");
  EXPECT_EQ(DeviceBytes(DeviceAt(Target("b"))), static_cast<std::uint64_t>(2 * kVolumeBytes));
}

TEST_F(KernelBlock, DevicesInUseGrow) {
  for (const bool read_only : {false, true}) {
    const std::string id = Staged(kSharedBlock);
    for (const char* name : {"a", "b"}) {
      ASSERT_OK(driver().Publish(id, Staging(id), Target(name, id), kSharedBlock, read_only));
    }
    ASSERT_OK(driver().Grow(id, 2 * kVolumeBytes));
    ASSERT_OK(driver().NodeExpand(id, Target("a", id), 2 * kVolumeBytes));
    for (const char* name : {"a", "b"}) {
      EXPECT_EQ(DeviceBytes(DeviceAt(Target(name, id))), static_cast<std::uint64_t>(2 * kVolumeBytes)) << name;
    }
  }
}

// CSI allows the staging path as volume_path. For a block volume it is a plain directory.
TEST_F(KernelBlock, StatsAndExpandAcceptTheStagingPath) {
  const std::string id = Staged(kSharedBlock);
  ASSERT_OK(driver().Grow(id, 2 * kVolumeBytes));
  ASSERT_OK(driver().NodeExpand(id, Staging(id), 2 * kVolumeBytes));
  EXPECT_EQ(DeviceBytes(LoopsHere()[0].device), static_cast<std::uint64_t>(2 * kVolumeBytes));
  const auto stats = driver().Stats(id, Staging(id));
  ASSERT_OK(stats);
  EXPECT_EQ(stats->usage(0).total(), 2 * kVolumeBytes);
}

TEST_F(KernelBlock, StatsHaveSizeAndCondition) {
  const std::string id = Published(Target("a"), kSharedBlock);
  const auto stats = driver().Stats(id, Target("a"));
  ASSERT_OK(stats);
  ASSERT_EQ(stats->usage_size(), 1);
  EXPECT_EQ(stats->usage(0).unit(), csi::v1::VolumeUsage::BYTES);
  EXPECT_EQ(stats->usage(0).total(), kVolumeBytes);
  EXPECT_TRUE(stats->has_volume_condition());
  EXPECT_FALSE(stats->volume_condition().abnormal());
}

}  // namespace
}  // namespace mooring::testing

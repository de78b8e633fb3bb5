// Block volumes as the kernel shows them.
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
  return "/dev/loop" + std::to_string(status.st_rdev & 0xFF);
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

TEST_F(KernelBlock, DetachOnTheHostDoesNotFreeTheReadOnlyDevice) {
  const std::string id = Staged(kSharedBlock);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kSharedBlock, true));
  const std::string device = DeviceAt(Target("ro"));
  const auto expect_held = [&](const std::string& when) {
    SCOPED_TRACE(when);
    EXPECT_EQ(HoldersOfDevice(device).size(), 1U);
    ExpectKeptAfterDetach(device);
    EXPECT_EQ(TryWrite(Target("ro"), "data"), EPERM);
  };
  KillHolders(device);
  Restart(SIGKILL);
  expect_held("after a start");
  ASSERT_OK(driver().Publish(id, Staging(id), Target("rw"), kSharedBlock));
  EXPECT_TRUE(HoldersOfDevice(device).empty());
  for (const char* data : {"one!", "two!"}) {
    EXPECT_EQ(TryWrite(Target("rw"), data), 0);
    EXPECT_EQ(ReadHead(Target("ro"), 4), data);
  }
  ASSERT_OK(driver().Unpublish(id, Target("rw")));
  expect_held("after the last writer");
  EXPECT_OK(driver().Unpublish(id, Target("ro")));
  EXPECT_TRUE(HoldersOfDevice(device).empty());
  EXPECT_TRUE(Eventually([&] { return LoopsHere().size() == 1; }));
}

// All processes of a container end together. The next start holds the device again.
TEST_F(KernelBlock, StartHoldsDevicesAgain) {
  const std::string id = Staged(kSharedBlock);
  const std::string device = LoopsHere().at(0).device;
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kSharedBlock, true));
  ASSERT_EQ(LoopsHere().size(), 2U);
  KillHolders(device);
  Restart(SIGKILL);
  EXPECT_EQ(HoldersOfDevice(device).size(), 1U);
  UnpublishAndUnstage(id, Target("ro"));
  EXPECT_TRUE(HoldersOfDevice(device).empty());
}

TEST_F(KernelBlock, PublishRefusesADeviceOfAnotherFile) {
  const std::string id = Published(Target("a"), kSharedBlock);
  const std::string device = LoopsHere().at(0).device;
  KillHolders(device);
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

TEST_F(KernelBlock, ReadOnlyAndWritableTargetsShareADevice) {
  const std::string id = Published(Target("rw"), kSharedBlock);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kSharedBlock, true));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro2"), kSharedBlock, true));
  for (const char* data : {"one!", "two!"}) {
    EXPECT_EQ(TryWrite(Target("rw"), data), 0);
    EXPECT_EQ(ReadHead(Target("ro"), 4), data);
    EXPECT_EQ(ReadHead(Target("ro2"), 4), data);
  }
  EXPECT_EQ(TryWrite(Target("ro"), "data"), EPERM);
  EXPECT_EQ(RunOutput("blockdev --getro " + Target("ro")), "1\n");
  EXPECT_TRUE(MountAt(Target("ro"))->Has("ro"));
  EXPECT_EQ(DeviceBytes(DeviceAt(Target("ro"))), static_cast<std::uint64_t>(kVolumeBytes));
  EXPECT_EQ(LoopsOver(Image(id)).size(), 1U) << "two devices over one file are data loss";
  EXPECT_EQ(LoopsHere().size(), 2U) << "the read-only one is stacked, and shared";
  ASSERT_OK(driver().Unpublish(id, Target("ro")));
  EXPECT_EQ(ReadHead(Target("ro2"), 4), "two!");
  ASSERT_OK(driver().Unpublish(id, Target("ro2")));
  EXPECT_TRUE(Eventually([&] { return LoopsHere().size() == 1; })) << "the read-only one goes with its last target";
  EXPECT_EQ(TryWrite(Target("rw"), "more"), 0);
}

// Nomad has a staging path for each access mode.
TEST_F(KernelBlock, StagingPathsOfReadersAndWritersShareADevice) {
  const VolumeCapability reader = Block(AccessMode::MULTI_NODE_READER_ONLY);
  const std::string id = Staged(kSharedBlock);
  ASSERT_OK(driver().Stage(id, Staging(id, "ro"), reader));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("rw"), kSharedBlock));
  ASSERT_OK(driver().Publish(id, Staging(id, "ro"), Target("ro"), reader, true));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_EQ(TryWrite(Target("rw"), "data"), 0);
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
  const std::string id = Published(Target("rw"), kSharedBlock);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kSharedBlock, true));
  ASSERT_OK(driver().Grow(id, 2 * kVolumeBytes));
  ASSERT_OK(driver().NodeExpand(id, Target("rw"), 2 * kVolumeBytes));
  for (const char* name : {"rw", "ro"}) {
    EXPECT_EQ(DeviceBytes(DeviceAt(Target(name))), static_cast<std::uint64_t>(2 * kVolumeBytes)) << name;
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

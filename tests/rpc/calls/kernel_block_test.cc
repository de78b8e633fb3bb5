// The kernel's word on block volumes.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/file/unique_fd.h"
#include "tests/rpc/support/rpc_test.h"
#include "tests/support/holders.h"

namespace mooring::testing {
namespace {

using ::testing::HasSubstr;

const VolumeCapability kBlock = Block(AccessMode::SINGLE_NODE_MULTI_WRITER);

std::string ReadHead(const std::string& path, std::size_t count) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(count, '\0');
  const ssize_t got = ::pread(fd.get(), text.data(), count, 0);
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

// The device node that is bound at a target.
std::string DeviceAt(const std::string& target) {
  struct stat status = {};
  EXPECT_EQ(::stat(target.c_str(), &status), 0) << target;
  EXPECT_TRUE(S_ISBLK(status.st_mode)) << target;
  return "/dev/loop" + std::to_string(status.st_rdev & 0xFF);
}

class KernelBlock : public RpcTest {
 protected:
  std::string Staged() {
    const std::string id = Created(kBlock);
    EXPECT_OK(driver().Stage(id, Staging(id), kBlock));
    return id;
  }
};

TEST_F(KernelBlock, StageMakesTheDeviceAndMountsNothing) {
  const std::string id = Staged();
  EXPECT_FALSE(MountAt(Staging(id)));
  const auto loops = LoopsHere();
  ASSERT_EQ(loops.size(), 1U);
  EXPECT_EQ(loops[0].backing_file, Image(id));
  EXPECT_FALSE(loops[0].auto_clear);
  EXPECT_EQ(DeviceBytes(loops[0].device), static_cast<std::uint64_t>(kVolumeBytes));
}

// Does what `losetup -D` on the host does to each device, while no task has it open.
TEST_F(KernelBlock, ADetachOnTheHostDoesNotGiveItsNumberToAnotherFile) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), kBlock));
  const std::string device = LoopsHere().at(0).device;
  const std::string other = dir() / "other";
  ASSERT_EQ(Shell("truncate -s 1M " + other), 0);
  for (const int signal : {0, SIGKILL, SIGTERM}) {
    SCOPED_TRACE(signal);
    if (signal != 0) Restart(signal);
    ASSERT_EQ(Shell("losetup -d " + device), 0);
    const std::string next = RunOutput("losetup --find --show " + other);
    EXPECT_NE(next, device + "\n");
    EXPECT_EQ(Shell("losetup -d " + next), 0);
    EXPECT_EQ(LoopsHere().at(0).backing_file, Image(id));
    const std::string target = "after-" + std::to_string(signal);
    ASSERT_OK(driver().Publish(id, Staging(id), Target(target), kBlock));
    EXPECT_FALSE(LoopsHere().at(0).auto_clear) << "it would go with its last user";
    EXPECT_EQ(TryWrite(Target(target), target), 0);
    EXPECT_EQ(ReadHead(Image(id), target.size()), target);
    EXPECT_OK(driver().Unpublish(id, Target(target)));
  }
  ASSERT_EQ(Shell("losetup -d " + device), 0);
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_TRUE(LoopsHere().empty()) << "marked to go with its last user, it is taken away all the same";
  EXPECT_TRUE(HoldersOfDevice(device).empty());
}

TEST_F(KernelBlock, ADetachOnTheHostDoesNotFreeAReadOnlyTargetsDevice) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kBlock, true));
  const std::string device = DeviceAt(Target("ro"));
  const std::string other = dir() / "other";
  ASSERT_EQ(Shell("truncate -s 1M " + other), 0);
  const auto expect_held = [&](const std::string& when) {
    SCOPED_TRACE(when);
    EXPECT_EQ(HoldersOfDevice(device).size(), 1U);
    ASSERT_EQ(Shell("losetup -d " + device), 0);
    const std::string next = RunOutput("losetup --find --show " + other);
    EXPECT_NE(next, device + "\n");
    EXPECT_EQ(Shell("losetup -d " + next), 0);
    EXPECT_EQ(TryWrite(Target("ro"), "data"), EPERM);
  };
  KillHolders(device);
  Restart(SIGKILL);
  expect_held("after a start");
  ASSERT_OK(driver().Publish(id, Staging(id), Target("rw"), kBlock));
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

// As all processes of a container do: the next start holds the device again.
TEST_F(KernelBlock, ADeviceWhoseHolderEndedIsHeldAgainByTheNextStart) {
  const std::string id = Staged();
  const std::string device = LoopsHere().at(0).device;
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kBlock, true));
  ASSERT_EQ(LoopsHere().size(), 2U);
  KillHolders(device);
  Restart(SIGKILL);
  EXPECT_EQ(HoldersOfDevice(device).size(), 1U);
  EXPECT_OK(driver().Unpublish(id, Target("ro")));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_TRUE(HoldersOfDevice(device).empty());
}

TEST_F(KernelBlock, ATargetWhoseDeviceIsAnotherFilesIsNamedAndNeverHandedOn) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), kBlock));
  const std::string device = LoopsHere().at(0).device;
  KillHolders(device);
  ASSERT_EQ(Shell("losetup -d " + device), 0);
  const std::string other = Created();
  ASSERT_EQ(Shell("losetup " + device + " " + Image(other)), 0) << "somebody else took the number";
  Restart(SIGKILL);
  EXPECT_THAT(plugin().Log(), HasSubstr("a task has a device that is not its volume's"));
  EXPECT_THAT(driver().Publish(id, Staging(id), Target("a"), kBlock),
              FailsWith(Code::kFailedPrecondition, "nothing is stacked on it"));
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_TRUE(MountsAt(Target("a")).empty());
  EXPECT_EQ(Shell("losetup -d " + device), 0);
  ASSERT_OK(driver().Stage(id, Staging(id), kBlock));
  EXPECT_OK(driver().Publish(id, Staging(id), Target("a"), kBlock));
  EXPECT_EQ(DeviceAt(Target("a")), LoopsHere().at(0).device);
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
}

TEST_F(KernelBlock, TheTargetIsTheDevice) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), kBlock));
  EXPECT_EQ(DeviceAt(Target("a")), LoopsHere()[0].device);
  EXPECT_EQ(TryWrite(Target("a"), "data"), 0);
  EXPECT_EQ(ReadHead(Image(id), 4), "data");
  EXPECT_EQ(ReadHead(Target("a"), 4), "data");
}

TEST_F(KernelBlock, AReadOnlyTargetRefusesWrites) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kBlock, true));
  EXPECT_EQ(TryWrite(Target("ro"), "data"), EPERM);
  EXPECT_EQ(RunOutput("blockdev --getro " + Target("ro")), "1\n");
  EXPECT_TRUE(MountAt(Target("ro"))->Has("ro"));
  EXPECT_EQ(DeviceBytes(DeviceAt(Target("ro"))), static_cast<std::uint64_t>(kVolumeBytes));
}

TEST_F(KernelBlock, ReadOnlyAndWritableAtOnceOverOneDevice) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("rw"), kBlock));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kBlock, true));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro2"), kBlock, true));
  for (const char* data : {"one!", "two!"}) {
    EXPECT_EQ(TryWrite(Target("rw"), data), 0);
    EXPECT_EQ(ReadHead(Target("ro"), 4), data);
    EXPECT_EQ(ReadHead(Target("ro2"), 4), data);
  }
  EXPECT_EQ(TryWrite(Target("ro"), "data"), EPERM);
  EXPECT_EQ(LoopsOver(Image(id)).size(), 1U) << "two devices over one file are data loss";
  EXPECT_EQ(LoopsHere().size(), 2U) << "the read-only one is stacked, and shared";
  ASSERT_OK(driver().Unpublish(id, Target("ro")));
  EXPECT_EQ(ReadHead(Target("ro2"), 4), "two!");
  ASSERT_OK(driver().Unpublish(id, Target("ro2")));
  EXPECT_TRUE(Eventually([&] { return LoopsHere().size() == 1; })) << "the read-only one goes with its last target";
  EXPECT_EQ(TryWrite(Target("rw"), "more"), 0);
}

TEST_F(KernelBlock, ReaderOnlyModesAreReadOnly) {
  for (const auto mode : {AccessMode::SINGLE_NODE_READER_ONLY, AccessMode::MULTI_NODE_READER_ONLY}) {
    const std::string id = Created(Block(mode));
    ASSERT_OK(driver().Stage(id, Staging(id), Block(mode)));
    ASSERT_OK(driver().Publish(id, Staging(id), Target("a", id), Block(mode)));
    EXPECT_EQ(TryWrite(Target("a", id), "data"), EPERM);
  }
}

TEST_F(KernelBlock, TheDeviceGoesWithTheLastStagingAndTarget) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), kBlock));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_EQ(TryWrite(Target("a"), "data"), 0) << "unstaged before it was unpublished";
  ASSERT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
}

TEST_F(KernelBlock, DataSurvivesUnpublishUnstageRestartExpandAndStage) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), kBlock));
  ASSERT_EQ(TryWrite(Target("a"), "data"), 0);
  ASSERT_OK(driver().Unpublish(id, Target("a")));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  Restart(SIGKILL);
  ASSERT_OK(driver().Grow(id, 2 * kVolumeBytes));
  ASSERT_OK(driver().Stage(id, Staging(id), kBlock));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("b"), kBlock));
  EXPECT_EQ(ReadHead(Target("b"), 4), "data");
  EXPECT_EQ(DeviceBytes(DeviceAt(Target("b"))), static_cast<std::uint64_t>(2 * kVolumeBytes));
}

TEST_F(KernelBlock, DevicesGrowUnderTheirUsersTheReadOnlyOneToo) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("rw"), kBlock));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kBlock, true));
  ASSERT_OK(driver().Grow(id, 2 * kVolumeBytes));
  ASSERT_OK(driver().NodeExpand(id, Target("rw"), 2 * kVolumeBytes));
  for (const char* name : {"rw", "ro"}) {
    EXPECT_EQ(DeviceBytes(DeviceAt(Target(name))), static_cast<std::uint64_t>(2 * kVolumeBytes)) << name;
  }
}

// volume_path may be the staged or the published path (CSI); for block the staged one is a plain directory.
TEST_F(KernelBlock, TheStagingPathServesForFiguresAndExpansionToo) {
  const std::string id = Staged();
  ASSERT_OK(driver().Grow(id, 2 * kVolumeBytes));
  ASSERT_OK(driver().NodeExpand(id, Staging(id), 2 * kVolumeBytes));
  EXPECT_EQ(DeviceBytes(LoopsHere()[0].device), static_cast<std::uint64_t>(2 * kVolumeBytes));
  const auto stats = driver().Stats(id, Staging(id));
  ASSERT_OK(stats);
  EXPECT_EQ(stats->usage(0).total(), 2 * kVolumeBytes);
}

TEST_F(KernelBlock, FiguresAreTheSizeAndTheCondition) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), kBlock));
  const auto stats = driver().Stats(id, Target("a"));
  ASSERT_OK(stats);
  ASSERT_EQ(stats->usage_size(), 1);
  EXPECT_EQ(stats->usage(0).unit(), csi::v1::VolumeUsage::BYTES);
  EXPECT_EQ(stats->usage(0).total(), kVolumeBytes);
  EXPECT_TRUE(stats->has_volume_condition());
  EXPECT_FALSE(stats->volume_condition().abnormal());
}

TEST_F(KernelBlock, AnImageCutShortOrDeletedIsAnAbnormalCondition) {
  const std::string id = Staged();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), kBlock));
  ASSERT_EQ(::truncate(Image(id).c_str(), kMiB), 0);
  auto stats = driver().Stats(id, Target("a"));
  ASSERT_OK(stats);
  EXPECT_TRUE(stats->volume_condition().abnormal());
  EXPECT_THAT(stats->volume_condition().message(), HasSubstr("cut short"));
  ASSERT_EQ(::unlink(Image(id).c_str()), 0);
  stats = driver().Stats(id, Target("a"));
  ASSERT_OK(stats);
  EXPECT_TRUE(stats->volume_condition().abnormal());
  EXPECT_THAT(stats->volume_condition().message(), HasSubstr(Image(id)));
}

// A filesystem that a task made on its raw device is not this driver's to mount or format.
TEST_F(KernelBlock, WhatATaskWroteIsNotFormattedOver) {
  const std::string id = Created();
  ASSERT_OK(driver().Stage(id, Staging(id), kBlock));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), kBlock));
  ASSERT_EQ(Shell("head -c 1000000 /dev/urandom | dd of=" + Target("a") + " conv=fsync status=none"), 0);
  ASSERT_OK(driver().Unpublish(id, Target("a")));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  ExpectRefused([&] { return driver().Stage(id, Staging(id), Mount()); }, Code::kFailedPrecondition, "unknown data");
}

}  // namespace
}  // namespace mooring::testing

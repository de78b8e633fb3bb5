// Volumes of a device pool: each volume is a block device. Here loop devices are the disks, and the test makes the
// links that udev would make.
#include "base/file/whole_file.h"
#include "tests/rpc/support/peer_namespace.h"
#include "tests/rpc/support/rpc_test.h"
#include "tests/support/squashfs.h"

namespace mooring::testing {
namespace {

class DevicesTest : public RpcTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(::mkdir(Links().c_str(), 0755), 0);
    Plug("disk-a", 64 * kMiB);
    Plug("disk-b", 128 * kMiB);
    AddFlags({"--pool", "name=disks,backend=device,match=disk-*,path=" + Links()});
    Start();
  }
  void TearDown() override {
    RpcTest::TearDown();
    for (const std::string& device : devices_) EXPECT_EQ(Shell("losetup -d " + device), 0);
  }

  std::string Links() const { return dir() / "links"; }
  std::string Link(const std::string& name) const { return Links() + "/" + name; }
  std::string NewDisk(std::int64_t bytes) {
    const std::string file = backing_ / ("disk" + std::to_string(devices_.size()));
    EXPECT_EQ(Shell("truncate -s " + std::to_string(bytes) + " " + file), 0);
    const std::string device = AttachLoop(file);
    devices_.push_back(device);
    return device;
  }
  std::string Plug(const std::string& name, std::int64_t bytes) {
    std::string device = NewDisk(bytes);
    Link(name, device);
    return device;
  }
  void Link(const std::string& name, const std::string& device) {
    ASSERT_EQ(::symlink(device.c_str(), Link(name).c_str()), 0);
  }
  void Unlink(const std::string& name) { ASSERT_EQ(::unlink(Link(name).c_str()), 0); }
  std::string DeviceOf(const std::string& name) const { return fs::canonical(Link(name)); }

  CreateVolumeRequest Request(const std::string& name, const std::string& device = "",
                              const VolumeCapability& capability = kSharedMount) {
    Parameters parameters = {{"pool", "disks"}};
    if (!device.empty()) parameters["device"] = device;
    return CreateRequest(name, capability, 16 * kMiB, parameters);
  }
  std::string CreatedOf(const std::string& name, const std::string& device = "",
                        const VolumeCapability& capability = kSharedMount) {
    return Created(Request(name, device, capability));
  }

 private:
  TempDir backing_;
  std::vector<std::string> devices_;
};

TEST_F(DevicesTest, CreateTakesTheSmallestDeviceAndDeleteKeepsItsData) {
  const auto made = driver().Send(Request("v"));
  ASSERT_OK(made);
  const std::string id = made->volume().volume_id();
  EXPECT_EQ(made->volume().capacity_bytes(), 64 * kMiB);
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  StageAndPublish(id, Target("a"), kSharedMount);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), kSharedMount));
  EXPECT_EQ(MountAt(Target("a"))->source, DeviceOf("disk-a"));
  EXPECT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "unpublish and unstage it first"));
  UnpublishAndUnstage(id, Target("a"));
  EXPECT_THAT(MountsBelow(dir().path()), IsEmpty());
  ASSERT_OK(driver().Delete(id));
  ASSERT_OK(driver().Delete(id));

  const std::string again = CreatedOf("again", "disk-a");
  ASSERT_OK(driver().Stage(again, Staging(again), kSharedMount));
  EXPECT_EQ(ReadFile(Staging(again) + "/file"), "data");
}

// The kernel has no sign of a raw device that is only staged.
TEST_F(DevicesTest, StagedRawDeviceIsNotDeleted) {
  const std::string id = CreatedOf("raw", "disk-a", kSharedBlock);
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedBlock));
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "mooring csi unstage " + id));
  EXPECT_THAT(driver().Send(Request("other", "disk-a")), FailsWith(Code::kResourceExhausted, "another volume has it"));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_OK(driver().Delete(id));
}

TEST_F(DevicesTest, BlockTargetIsTheDeviceAndReadOnlyTargetRefusesWrites) {
  const std::string id = CreatedOf("raw");
  const std::string device = DeviceOf("disk-a");
  StageAndPublish(id, Target("ro"), kSharedBlock);
  ASSERT_OK(driver().Unpublish(id, Target("ro")));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kSharedBlock, true));
  EXPECT_NE(TryWrite(Target("ro"), "x"), 0);
  EXPECT_THAT(driver().Publish(id, Staging(id), Target("rw"), kSharedBlock),
              FailsWith(Code::kFailedPrecondition, "would see old data"));
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "in use"));
  ASSERT_OK(driver().Unpublish(id, Target("ro")));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("rw"), kSharedBlock));
  EXPECT_EQ(StatOf(Target("rw")).st_rdev, StatOf(device).st_rdev);
  EXPECT_EQ(TryWrite(Target("rw"), "data"), 0);
  EXPECT_EQ(driver().Stats(id, Target("rw"))->usage(0).total(), 64 * kMiB);
  EXPECT_THAT(driver().Stage(id, Staging(id, "mount"), kSharedMount),
              FailsWith(Code::kFailedPrecondition, "in use as a block device"));
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "in use"));
  UnpublishAndUnstage(id, Target("rw"));
  EXPECT_EQ(RunOutput("head -c 4 " + device), "data");
  EXPECT_THAT(driver().Publish(id, Staging(id), Target("rw"), kSharedBlock),
              FailsWith(Code::kFailedPrecondition, "not staged"));
}

TEST_F(DevicesTest, DeviceWithDataIsTakenOnlyByNameAndNotFormatted) {
  ASSERT_EQ(Shell("echo precious > " + DeviceOf("disk-a")), 0);
  ASSERT_EQ(Shell("mkfs.ext4 -q " + DeviceOf("disk-b")), 0);
  EXPECT_EQ(driver().Available("disks"), 0);
  ExpectRefused(Request("v"), Code::kResourceExhausted, "it holds unknown data");
  const std::string id = CreatedOf("v", "disk-a");
  EXPECT_THAT(driver().Stage(id, Staging(id), kSharedMount),
              FailsWith(Code::kFailedPrecondition, "neither mounted nor formatted"));
  EXPECT_EQ(RunOutput("head -c 8 " + DeviceOf("disk-a")), "precious");
  const std::string other = CreatedOf("other", "disk-b");
  EXPECT_THAT(driver().Stage(other, Staging(other), Mount("xfs", kMultiWriter)),
              FailsWith(Code::kFailedPrecondition, "holds an ext4"));
  EXPECT_OK(driver().Stage(other, Staging(other), kSharedMount));
}

// The data of a task is neither given to the next one nor formatted, wherever it is on the device.
TEST_F(DevicesTest, DataInTheMiddleOfARawDeviceStaysWithIt) {
  Plug("disk-large", 400 * kMiB);
  for (const std::string disk : {"disk-a", "disk-large"}) {
    const std::string middle = "seek=20M oflag=seek_bytes conv=notrunc,fsync status=none";
    const std::string id = CreatedOf("raw", disk, kSharedBlock);
    StageAndPublish(id, Target("raw"), kSharedBlock);
    ASSERT_EQ(Shell("printf secret | dd of=" + Target("raw") + " " + middle), 0);
    UnpublishAndUnstage(id, Target("raw"));
    ASSERT_OK(driver().Delete(id));
  }
  EXPECT_EQ(driver().Available("disks"), 128 * kMiB) << "only disk-b";
  EXPECT_EQ(driver().Send(Request("v"))->volume().capacity_bytes(), 128 * kMiB);
  ExpectRefused(Request("w"), Code::kResourceExhausted, "'disk-large': a deleted volume had it as a raw device");
  ExpectRefused(Request("w"), Code::kResourceExhausted, "'disk-a': it holds unknown data");
  for (const std::string disk : {"disk-a", "disk-large"}) {
    const std::string id = CreatedOf("again-" + disk, disk);
    EXPECT_THAT(driver().Stage(id, Staging(id), kSharedMount), FailsWith(Code::kFailedPrecondition, "formatted"));
    EXPECT_EQ(RunOutput("dd if=" + DeviceOf(disk) + " bs=6 count=1 skip=20M iflag=skip_bytes status=none"), "secret");
    ASSERT_OK(driver().Delete(id));
    ASSERT_EQ(Shell("blkdiscard -z " + DeviceOf(disk)), 0);
  }
  const std::string last = CreatedOf("last");
  EXPECT_OK(driver().Stage(last, Staging(last), kSharedMount)) << "disk-a is clear";
  ExpectRefused(Request("w"), Code::kResourceExhausted, "then remove /");
}

// An earlier version has published it.
TEST_F(DevicesTest, ARepeatedPublishForBlockAccessNotesTheUse) {
  const std::string id = CreatedOf("v", "disk-a"), record = state_dir() + "/devices/disks/" + id;
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedBlock));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("raw"), kSharedBlock));
  const std::string text = ReadWholeFile(record).value();
  ASSERT_TRUE(text.ends_with("\nraw\n"));
  std::ofstream(record) << text.substr(0, text.size() - 4);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("raw"), kSharedBlock));
  EXPECT_EQ(ReadWholeFile(record).value(), text);
}

// It gives the device to nobody.
TEST_F(DevicesTest, ARefusedPublishForBlockAccessIsNoUse) {
  Plug("disk-large", 400 * kMiB);
  const std::string id = CreatedOf("v", "disk-large");
  EXPECT_THAT(driver().Publish(id, Staging(id), Target("raw"), kSharedBlock),
              FailsWith(Code::kFailedPrecondition, "not staged"));
  EXPECT_OK(driver().Stage(id, Staging(id), kSharedMount)) << "it is empty, and formatted";
}

TEST_F(DevicesTest, DeviceWithSeveralLinksBelongsToASingleVolume) {
  Link("disk-also-a", DeviceOf("disk-a"));
  const std::string id = CreatedOf("v", "disk-a");
  ExpectRefused(Request("w", "disk-a"), Code::kResourceExhausted, "another volume has it");
  ExpectRefused(Request("w", "disk-also-a"), Code::kResourceExhausted, "another volume has it");
  EXPECT_EQ(CreatedOf("v", "disk-a"), id);
  ExpectRefused(Request("v", "disk-b"), Code::kAlreadyExists, "'disk-b' is asked for");
  EXPECT_EQ(driver().Available("disks"), 128 * kMiB);
}

TEST_F(DevicesTest, CapacityIsTheSizeOfTheDevice) {
  auto request = Request("v");
  request.mutable_capacity_range()->set_limit_bytes(32 * kMiB);
  ExpectRefused(request, Code::kResourceExhausted, "no device of");
  request = Request("v", "disk-b");
  request.mutable_capacity_range()->set_limit_bytes(64 * kMiB);
  ExpectRefused(request, Code::kOutOfRange, "128 MiB");
  request = Request("v");
  request.mutable_capacity_range()->set_required_bytes(65 * kMiB);
  const auto made = driver().Send(request);
  ASSERT_OK(made);
  EXPECT_EQ(made->volume().capacity_bytes(), 128 * kMiB);
  const std::string id = made->volume().volume_id();
  ExpectRefused([&] { return driver().Grow(id, 256 * kMiB); }, Code::kOutOfRange, "do not grow");
}

TEST_F(DevicesTest, DeviceOutsideThePoolIsRefused) {
  Link("system", DeviceOf("disk-a"));
  ExpectRefused(Request("v", "system"), Code::kResourceExhausted, "not the name of a device");
  ExpectRefused(Request("v", "disk-x"), Code::kResourceExhausted, "disk-x");
  auto request = Request("v", "disk-a");
  (*request.mutable_parameters())["pool"] = "default";
  ExpectRefused(request, Code::kInvalidArgument, "none to choose from");
}

TEST_F(DevicesTest, StageRefusesAnotherDeviceUnderTheSameName) {
  const std::string id = CreatedOf("v", "disk-a");
  Unlink("disk-a");
  Plug("disk-a", 96 * kMiB);
  EXPECT_THAT(driver().Stage(id, Staging(id), kSharedMount), FailsWith(Code::kInternal, "is another one now"));
  EXPECT_NE(Shell("blkid -p " + DeviceOf("disk-a")), 0);  // nothing was written to it
}

TEST_F(DevicesTest, MissingDeviceIsReportedAndVolumeCanBeUnstaged) {
  const std::string id = CreatedOf("v", "disk-a");
  const std::string device = DeviceOf("disk-a");
  StageAndPublish(id, Target("a"), kSharedMount);
  EXPECT_FALSE(driver().Stats(id, Target("a"))->volume_condition().abnormal());
  Unlink("disk-a");
  const auto stats = driver().Stats(id, Target("a"));
  EXPECT_TRUE(stats->volume_condition().abnormal());
  EXPECT_THAT(stats->volume_condition().message(), HasSubstr("is gone"));
  UnpublishAndUnstage(id, Target("a"));
  Link("disk-a", device);
  EXPECT_OK(driver().Stage(id, Staging(id), kSharedMount));
}

TEST_F(DevicesTest, StageWaitsForADeviceThatAppearsLater) {
  const std::string id = CreatedOf("v", "disk-a");
  const std::string device = DeviceOf("disk-a");
  Unlink("disk-a");
  plugin().Kill();
  Start();
  EXPECT_THAT(plugin().Log(), AllOf(HasSubstr("a volume waits for its device"), Not(HasSubstr("lost its image"))));
  std::thread udev([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    Link("disk-a", device);
  });
  EXPECT_OK(driver().Stage(id, Staging(id), kSharedMount));
  udev.join();
}

class OtherTypesTest : public DevicesTest {
 protected:
  void SetUp() override {
    DevicesTest::SetUp();
    ASSERT_EQ(Shell("mke2fs -q -F -t ext3 " + DeviceOf("disk-a")), 0);
    ASSERT_EQ(Shell("mke2fs -q -F -t ext2 " + DeviceOf("disk-b")), 0);
  }
};

TEST_F(OtherTypesTest, AreRefusedUnlessAFlagAllowsThem) {
  const std::string id = CreatedOf("v", "disk-a");
  EXPECT_THAT(driver().Stage(id, Staging(id), kSharedMount),
              FailsWith(Code::kFailedPrecondition, "holds ext3, no filesystem of ext4, xfs, btrfs: it is neither"));
  EXPECT_THAT(driver().Stage(id, Staging(id), Mount("ext3", kMultiWriter)),
              FailsWith(Code::kInvalidArgument, "fs_type 'ext3' is not one of ext4, xfs, btrfs"));
}

TEST_F(OtherTypesTest, AreStagedAndPublishedWithExactFlagsIfAFlagAllowsThem) {
  plugin().Kill();
  AddFlags({"--fs-type", "ext3,vfat"});
  Start();
  const std::string id = CreatedOf("v", "disk-a");
  const VolumeCapability named = Mount("ext3", kMultiWriter, {"noexec", "noatime"});
  ASSERT_OK(driver().Stage(id, Staging(id), named));
  ASSERT_OK(driver().Stage(id, Staging(id), named));
  EXPECT_EQ(MountAt(Staging(id))->fs_type, "ext3");
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), named, true));
  EXPECT_THAT(MountAt(Target("a"))->options, UnorderedElementsAre("ro", "nodev", "noexec", "noatime"));
  ASSERT_OK(driver().Unpublish(id, Target("a")));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), named));
  EXPECT_THAT(MountAt(Target("a"))->options, UnorderedElementsAre("rw", "nodev", "noexec", "noatime"));
  EXPECT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  EXPECT_GT(driver().Stats(id, Target("a"))->usage(0).total(), 0);
  EXPECT_THAT(driver().NodeExpand(id, Target("a")), FailsWith(Code::kFailedPrecondition, "never grown here"));
  EXPECT_THAT(driver().Stage(id, Staging(id, "raw"), kSharedBlock),
              FailsWith(Code::kFailedPrecondition, "in use as a filesystem"));
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "unpublish and unstage it first"));
  UnpublishAndUnstage(id, Target("a"));
  EXPECT_THAT(MountsBelow(dir().path()), IsEmpty());
}

// Sysfs does not show that a squashfs is mounted. The host mounts it, or somebody in another mount namespace.
TEST_F(DevicesTest, AMountOfAnotherTypeByOthersIsAUseOfItsDevice) {
  const std::string device = Plug("disk-c", 32 * kMiB), there = MakeDirectories("there");
  std::ofstream(device) << SquashfsWith("file", "text");
  const std::string mount = "mount -t squashfs -o ro " + device + " " + there, unmount = "umount " + there;
  const PeerNamespace other;
  ASSERT_EQ(other.Run("mount --make-rprivate /"), 0);
  const auto run = [&](bool here, const std::string& command) { return here ? Shell(command) : other.Run(command); };
  for (const bool here : {true, false}) {
    SCOPED_TRACE(here ? "the host" : "another namespace");
    ASSERT_EQ(run(here, mount), 0);
    ExpectRefused(Request("v", "disk-c"), Code::kResourceExhausted, "a filesystem on it is mounted");
    ASSERT_EQ(run(here, unmount), 0);
    const std::string id = CreatedOf("v", "disk-c", kSharedBlock);
    ASSERT_EQ(run(here, mount), 0);
    EXPECT_THAT(driver().Stage(id, Staging(id), kSharedBlock),
                FailsWith(Code::kFailedPrecondition, "in use as a filesystem"));
    EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "in use"));
    ASSERT_EQ(run(here, unmount), 0);
    ASSERT_OK(driver().Stage(id, Staging(id), kSharedBlock));
    {  // a task has its raw device for itself
      const UniqueFd task(::open(device.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
      ASSERT_TRUE(task.ok());
      EXPECT_OK(driver().Stage(id, Staging(id), kSharedBlock));
      EXPECT_OK(driver().Stage(id, Staging(id, "second"), kSharedBlock));
    }
    ASSERT_OK(driver().Unstage(id, Staging(id)));
    ASSERT_OK(driver().Unstage(id, Staging(id, "second")));
    ASSERT_OK(driver().Delete(id));
  }
}

// Some have no owners at all, and lost+found may be wanted.
TEST_F(OtherTypesTest, KeepTheirRootDirectory) {
  plugin().Kill();
  AddFlags({"--fs-type", "ext3"});
  Start();
  CreateVolumeRequest owned = Request("owned", "disk-a");
  (*owned.mutable_parameters())["uid"] = "5";
  const std::string id = Created(owned);
  EXPECT_THAT(driver().Stage(id, Staging(id), kSharedMount), FailsWith(Code::kFailedPrecondition, "ask for no uid"));
  ASSERT_OK(driver().Delete(id));
  *owned.mutable_volume_capabilities(0) = Mount("ext3", kMultiWriter);
  ExpectRefused(owned, Code::kInvalidArgument, "leave them out");
  const std::string plain = CreatedOf("plain", "disk-a");
  VolumeCapability grouped = kSharedMount;
  grouped.mutable_mount()->set_volume_mount_group("4000");
  EXPECT_THAT(driver().Stage(plain, Staging(plain), grouped),
              FailsWith(Code::kFailedPrecondition, "ask for no volume_mount_group"));
  ASSERT_OK(driver().Stage(plain, Staging(plain), kSharedMount));
  EXPECT_TRUE(fs::exists(Staging(plain) + "/lost+found"));
  EXPECT_THAT(driver().Publish(plain, Staging(plain), Target("a"), grouped),
              FailsWith(Code::kFailedPrecondition, "ask for no volume_mount_group"));
  EXPECT_EQ(StatOf(Staging(plain)).st_gid, 0U);
}

TEST_F(OtherTypesTest, HaveNoOptionsAndAreNeverMade) {
  plugin().Kill();
  AddFlags({"--fs-type", "ext3", "--fs-type", "vfat"});
  Start();
  const std::string id = CreatedOf("v", "disk-a");
  EXPECT_THAT(driver().Stage(id, Staging(id), Mount("ext3", kMultiWriter, {"discard"})),
              FailsWith(Code::kInvalidArgument, "'discard' is not allowed for ext3"));
  EXPECT_THAT(driver().Stage(id, Staging(id), Mount("", kMultiWriter, {"discard"})),
              FailsWith(Code::kFailedPrecondition, "mount flag 'discard' is not allowed"));
  const std::string not_allowed = CreatedOf("w", "disk-b");
  EXPECT_THAT(driver().Stage(not_allowed, Staging(not_allowed), kSharedMount),
              FailsWith(Code::kFailedPrecondition, "holds ext2, no filesystem of ext4, xfs, btrfs, ext3, vfat"));
  ExpectRefused(Request("x", "", Mount("vfat", kMultiWriter)), Code::kInvalidArgument, "is never made here");
  Plug("disk-c", 64 * kMiB);
  const std::string empty = CreatedOf("y", "disk-c", Mount("vfat", kMultiWriter));
  EXPECT_THAT(driver().Stage(empty, Staging(empty), Mount("vfat", kMultiWriter)),
              FailsWith(Code::kFailedPrecondition, "a vfat is never made here"));
  EXPECT_EQ(RunOutput("head -c 4194304 " + DeviceOf("disk-c") + " | tr -d '\\0' | wc -c"), "0\n");
  EXPECT_THAT(MountsBelow(dir().path()), IsEmpty());
}

TEST_F(DevicesTest, NextProcessAdoptsExistingMounts) {
  const std::string id = CreatedOf("v");
  const std::string raw = CreatedOf("raw", "", kSharedBlock);
  StageAndPublish(id, Target("a"), kSharedMount);
  StageAndPublish(raw, Target("raw"), kSharedBlock);
  const std::string before = RawMounts();
  for (const bool lose : {false, true}) {
    plugin().Kill();
    if (lose) ForgetRecords();
    Start();
    StageAndPublish(id, Target("a"), kSharedMount);
    StageAndPublish(raw, Target("raw"), kSharedBlock);
    EXPECT_EQ(RawMounts(), before);
  }
  UnpublishAndUnstage(id, Target("a"));
  UnpublishAndUnstage(raw, Target("raw"));
  EXPECT_THAT(MountsBelow(dir().path()), IsEmpty());
}

}  // namespace
}  // namespace mooring::testing

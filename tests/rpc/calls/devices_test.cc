// Volumes that are block devices of their own, over the socket and on the real kernel. Loop devices over files play the
// disks, and the test udev: it makes the links.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DevicesTest : public RpcTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(::mkdir(Links().c_str(), 0755), 0);
    Plug("disk-a", 64 * kMiB);
    Plug("disk-b", 128 * kMiB);
    plugin().options().flags.insert(plugin().options().flags.end(),
                                    {"--pool", "name=disks,backend=device,match=disk-*,path=" + Links()});
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
    std::string device = RunOutput("losetup --find --show " + file);
    while (!device.empty() && device.back() == '\n') device.pop_back();
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
  std::string DeviceOf(const std::string& name) const { return std::filesystem::canonical(Link(name)); }

  csi::v1::CreateVolumeRequest Request(const std::string& name, const std::string& device = "",
                                       const VolumeCapability& capability = Mount("", kMultiWriter)) {
    csi::v1::CreateVolumeRequest request;
    request.set_name(name);
    *request.add_volume_capabilities() = capability;
    request.mutable_capacity_range()->set_required_bytes(16 * kMiB);
    (*request.mutable_parameters())["pool"] = "disks";
    if (!device.empty()) (*request.mutable_parameters())["device"] = device;
    return request;
  }
  std::string CreatedOf(const std::string& name, const std::string& device = "",
                        const VolumeCapability& capability = Mount("", kMultiWriter)) {
    const auto made = driver().Send(Request(name, device, capability));
    EXPECT_OK(made);
    return made->volume().volume_id();
  }
  std::int64_t Available() {
    csi::v1::GetCapacityRequest request;
    (*request.mutable_parameters())["pool"] = "disks";
    return driver().Send(request)->available_capacity();
  }

 private:
  TempDir backing_;
  std::vector<std::string> devices_;
};

TEST_F(DevicesTest, TheSmallestThatFitsBecomesAFilesystemAndKeepsItsDataWhenTheVolumeGoes) {
  const auto made = driver().Send(Request("v"));
  ASSERT_OK(made);
  const std::string id = made->volume().volume_id();
  EXPECT_EQ(made->volume().capacity_bytes(), 64 * kMiB);
  ASSERT_OK(driver().Stage(id, Staging(id), Mount("", kMultiWriter)));
  ASSERT_OK(driver().Stage(id, Staging(id), Mount("", kMultiWriter)));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Mount("", kMultiWriter)));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Mount("", kMultiWriter)));
  EXPECT_EQ(MountAt(Target("a"))->source, DeviceOf("disk-a"));
  EXPECT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "unpublish and unstage it first"));
  ASSERT_OK(driver().Unpublish(id, Target("a")));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_THAT(MountsBelow(dir().path()), IsEmpty());
  ASSERT_OK(driver().Delete(id));
  ASSERT_OK(driver().Delete(id));

  const std::string again = CreatedOf("again", "disk-a");
  ASSERT_OK(driver().Stage(again, Staging(again), Mount("", kMultiWriter)));
  EXPECT_EQ(ReadFile(Staging(again) + "/file"), "data");
}

TEST_F(DevicesTest, ARawOneIsTheDeviceItselfAndAReadOnlyOneStopsWriters) {
  const std::string id = CreatedOf("raw");
  const std::string device = DeviceOf("disk-a");
  ASSERT_OK(driver().Stage(id, Staging(id), Block(kMultiWriter)));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("rw"), Block(kMultiWriter)));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), Block(kMultiWriter), true));
  struct stat target = {}, node = {};
  ASSERT_EQ(::stat(Target("rw").c_str(), &target), 0);
  ASSERT_EQ(::stat(device.c_str(), &node), 0);
  EXPECT_EQ(target.st_rdev, node.st_rdev);
  EXPECT_EQ(TryWrite(Target("rw"), "data"), 0);
  EXPECT_NE(TryWrite(Target("ro"), "x"), 0);
  EXPECT_EQ(driver().Stats(id, Target("rw"))->usage(0).total(), 64 * kMiB);
  EXPECT_THAT(driver().Stage(id, Staging(id, "mount"), Mount("", kMultiWriter)),
              FailsWith(Code::kFailedPrecondition, "in use as a block device"));
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "in use"));
  ASSERT_OK(driver().Unpublish(id, Target("ro")));
  ASSERT_OK(driver().Unpublish(id, Target("rw")));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_EQ(RunOutput("head -c 4 " + device), "data");
  EXPECT_THAT(driver().Publish(id, Staging(id), Target("rw"), Block(kMultiWriter)),
              FailsWith(Code::kFailedPrecondition, "not staged"));
}

TEST_F(DevicesTest, WhatHoldsSomethingIsTakenOnlyByNameAndNeverFormatted) {
  ASSERT_EQ(Shell("echo precious > " + DeviceOf("disk-a")), 0);
  ASSERT_EQ(Shell("mkfs.ext4 -q " + DeviceOf("disk-b")), 0);
  EXPECT_EQ(Available(), 0);
  ExpectRefused([&] { return driver().Send(Request("v")); }, Code::kResourceExhausted, "it holds unknown data");
  const std::string id = CreatedOf("v", "disk-a");
  EXPECT_THAT(driver().Stage(id, Staging(id), Mount("", kMultiWriter)),
              FailsWith(Code::kFailedPrecondition, "neither mounted nor formatted"));
  EXPECT_EQ(RunOutput("head -c 8 " + DeviceOf("disk-a")), "precious");
  const std::string other = CreatedOf("other", "disk-b");
  EXPECT_THAT(driver().Stage(other, Staging(other), Mount("xfs", kMultiWriter)),
              FailsWith(Code::kFailedPrecondition, "holds an ext4"));
  EXPECT_OK(driver().Stage(other, Staging(other), Mount("", kMultiWriter)));
}

TEST_F(DevicesTest, OneIsOneVolumesWhateverLinksLeadToIt) {
  Link("disk-also-a", DeviceOf("disk-a"));
  const std::string id = CreatedOf("v", "disk-a");
  ExpectRefused([&] { return driver().Send(Request("w", "disk-a")); }, Code::kResourceExhausted,
                "another volume has it");
  ExpectRefused([&] { return driver().Send(Request("w", "disk-also-a")); }, Code::kResourceExhausted,
                "another volume has it");
  EXPECT_EQ(CreatedOf("v", "disk-a"), id);
  ExpectRefused([&] { return driver().Send(Request("v", "disk-b")); }, Code::kAlreadyExists, "'disk-b' is asked for");
  EXPECT_EQ(Available(), 128 * kMiB);
}

TEST_F(DevicesTest, SizesArePromisedAsTheyAre) {
  auto request = Request("v");
  request.mutable_capacity_range()->set_limit_bytes(32 * kMiB);
  ExpectRefused([&] { return driver().Send(request); }, Code::kResourceExhausted, "no device of");
  request = Request("v", "disk-b");
  request.mutable_capacity_range()->set_limit_bytes(64 * kMiB);
  ExpectRefused([&] { return driver().Send(request); }, Code::kOutOfRange, "128 MiB");
  request = Request("v");
  request.mutable_capacity_range()->set_required_bytes(65 * kMiB);
  const auto made = driver().Send(request);
  ASSERT_OK(made);
  EXPECT_EQ(made->volume().capacity_bytes(), 128 * kMiB);
  const std::string id = made->volume().volume_id();
  ExpectRefused([&] { return driver().Grow(id, 256 * kMiB); }, Code::kOutOfRange, "do not grow");
}

TEST_F(DevicesTest, ADeviceOfNoPoolIsRefused) {
  Link("system", DeviceOf("disk-a"));
  ExpectRefused([&] { return driver().Send(Request("v", "system")); }, Code::kResourceExhausted,
                "not the name of a device");
  ExpectRefused([&] { return driver().Send(Request("v", "disk-x")); }, Code::kResourceExhausted, "disk-x");
  auto request = Request("v", "disk-a");
  (*request.mutable_parameters())["pool"] = "default";
  ExpectRefused([&] { return driver().Send(request); }, Code::kInvalidArgument, "none to choose from");
}

TEST_F(DevicesTest, AnotherDeviceInItsPlaceIsRefused) {
  const std::string id = CreatedOf("v", "disk-a");
  Unlink("disk-a");
  Plug("disk-a", 96 * kMiB);
  EXPECT_THAT(driver().Stage(id, Staging(id), Mount("", kMultiWriter)),
              FailsWith(Code::kInternal, "is another one now"));
  EXPECT_NE(Shell("blkid -p " + DeviceOf("disk-a")), 0);  // nothing was written to it
}

TEST_F(DevicesTest, OneThatIsGoneIsToldAndDoesNotHoldUpTheEnd) {
  const std::string id = CreatedOf("v", "disk-a");
  const std::string device = DeviceOf("disk-a");
  ASSERT_OK(driver().Stage(id, Staging(id), Mount("", kMultiWriter)));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Mount("", kMultiWriter)));
  EXPECT_FALSE(driver().Stats(id, Target("a"))->volume_condition().abnormal());
  Unlink("disk-a");
  const auto stats = driver().Stats(id, Target("a"));
  EXPECT_TRUE(stats->volume_condition().abnormal());
  EXPECT_THAT(stats->volume_condition().message(), HasSubstr("is gone"));
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  Link("disk-a", device);
  EXPECT_OK(driver().Stage(id, Staging(id), Mount("", kMultiWriter)));
}

TEST_F(DevicesTest, StageWaitsForOneThatIsToCome) {
  const std::string id = CreatedOf("v", "disk-a");
  const std::string device = DeviceOf("disk-a");
  Unlink("disk-a");
  std::thread udev([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    Link("disk-a", device);
  });
  EXPECT_OK(driver().Stage(id, Staging(id), Mount("", kMultiWriter)));
  udev.join();
}

TEST_F(DevicesTest, MountsThatStandAreTheNextProcesss) {
  const std::string id = CreatedOf("v");
  const std::string raw = CreatedOf("raw", "", Block(kMultiWriter));
  ASSERT_OK(driver().Stage(id, Staging(id), Mount("", kMultiWriter)));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Mount("", kMultiWriter)));
  ASSERT_OK(driver().Stage(raw, Staging(raw), Block(kMultiWriter)));
  ASSERT_OK(driver().Publish(raw, Staging(raw), Target("raw"), Block(kMultiWriter)));
  const std::string before = RawMounts();
  for (const bool lose : {false, true}) {
    plugin().Kill();
    if (lose) ForgetRecords();
    Start();
    EXPECT_OK(driver().Stage(id, Staging(id), Mount("", kMultiWriter)));
    EXPECT_OK(driver().Publish(id, Staging(id), Target("a"), Mount("", kMultiWriter)));
    EXPECT_OK(driver().Stage(raw, Staging(raw), Block(kMultiWriter)));
    EXPECT_OK(driver().Publish(raw, Staging(raw), Target("raw"), Block(kMultiWriter)));
    EXPECT_EQ(RawMounts(), before);
  }
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_OK(driver().Unpublish(raw, Target("raw")));
  EXPECT_OK(driver().Unstage(raw, Staging(raw)));
  EXPECT_THAT(MountsBelow(dir().path()), IsEmpty());
}

}  // namespace
}  // namespace mooring::testing

// The device that a volume gets, and how it is recognised later. Disks and kernel are fakes;
// tests/rpc/calls/devices_test.cc uses real ones.
#include <fcntl.h>

#include <chrono>
#include <fstream>

#include "base/deadline.h"
#include "base/file/file_lock.h"
#include "base/file/whole_file.h"
#include "tests/unit/catalog/device_backend_fixture.h"

namespace mooring::testing {
namespace {

TEST_F(DeviceBackendTest, TakesTheSmallestDeviceThatFits) {
  const std::string first = Created(), second = Created(), third = Created();
  EXPECT_EQ(LinkOf(first), "small");
  EXPECT_EQ(LinkOf(second), "middle");
  EXPECT_EQ(LinkOf(third), "large");
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = kMiB}),
              FailsWith(StatusCode::kResourceExhausted, "another volume has it"));
  EXPECT_OK(backend_.Delete(second));
  EXPECT_EQ(LinkOf(Created()), "middle");
}

TEST_F(DeviceBackendTest, TakesANonEmptyOrUnreadableDeviceOnlyByName) {
  Fill("small");
  Fill("middle");
  kernel_.Fail("Probe", Internal("read /dev/fake1: Input/output error"), 3);
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = kMiB}),
              FailsWith(StatusCode::kResourceExhausted,
                        "'small': it holds unknown data; 'middle': it holds unknown "
                        "data; 'large': read /dev/fake1: Input/output error"));
  EXPECT_EQ(LinkOf(Created("small")), "small");
}

// The file has one line less.
TEST_F(DeviceBackendTest, ARecordOfAnEarlierVersionIsRead) {
  const std::string id = Created();
  std::string text = *ReadWholeFile(Record(id));
  text.erase(text.size() - 1);
  std::ofstream(Record(id)) << text;
  EXPECT_EQ(LinkOf(id), "small");
  EXPECT_OK(backend_.NoteRawUse(id, false));
  EXPECT_TRUE(ReadDeviceRecord(Record(id))->raw);
}

// An orchestrator takes RESOURCE_EXHAUSTED for the end of its wish.
TEST_F(DeviceBackendTest, ADiskThatWasNotLookedAtIsNotCalledTaken) {
  Fill("small");
  Fill("large");
  const auto fails_with = [&](const absl::Status& status) {
    kernel_.Fail("Probe", status, 2);
    return Create({.id = NewVolumeId(), .bytes = kMiB});
  };
  const absl::Status not_tried = absl::DeadlineExceededError("not tried");
  EXPECT_THAT(fails_with(Unavailable("the helper ended")), FailsWith(StatusCode::kUnavailable, "the helper ended"));
  EXPECT_THAT(fails_with(not_tried), FailsWith(StatusCode::kResourceExhausted, "not tried")) << "the disk hangs";
  {
    const DeadlineScope over(DeadlineScope::Clock::now());
    EXPECT_THAT(fails_with(not_tried), FailsWith(StatusCode::kDeadlineExceeded, "not tried"));
  }
  kernel_.Fail("Probe", not_tried, 1);
  EXPECT_EQ(LinkOf(Created()), "middle");
}

TEST_F(DeviceBackendTest, NeverTakesADeviceInUse) {
  host_.uses["small"] = "it has partitions";
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = kMiB, .device = "small"}),
              FailsWith(StatusCode::kResourceExhausted, "it has partitions"));
  EXPECT_EQ(LinkOf(Created()), "middle");
}

// Its filesystem is one that sysfs does not show.
TEST_F(DeviceBackendTest, NeitherTakesNorDeletesADeviceThatIsMountedElsewhere) {
  const auto set_in_use = [&](bool in_use) {
    kernel_.With([&](FakeKernel& kernel) { kernel.Node("/dev/fake2").in_use = in_use; });
  };
  set_in_use(true);
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = kMiB, .device = "small"}),
              FailsWith(StatusCode::kResourceExhausted, "a filesystem on it is mounted"));
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = kMiB, .limit = 150 * kMiB}),
              FailsWith(StatusCode::kResourceExhausted, "'small': a filesystem on it is mounted"));
  EXPECT_EQ(backend_.Capacity()->available, 500 * kMiB);
  set_in_use(false);
  const std::string id = Created();
  ASSERT_EQ(LinkOf(id), "small");
  set_in_use(true);
  EXPECT_THAT(backend_.Delete(id),
              FailsWith(StatusCode::kFailedPrecondition, "mounted in another mount namespace, or claimed"));
  kernel_.Fail("IsInUse", Unavailable("the helper ended"));
  EXPECT_THAT(backend_.Delete(id), FailsWith(StatusCode::kUnavailable, "the helper ended"));
  EXPECT_EQ(LinkOf(id), "small");
  kernel_.Fail("IsInUse", Internal("open /dev/fake2: Input/output error"));
  EXPECT_OK(backend_.Delete(id)) << "a dead device";
}

TEST_F(DeviceBackendTest, TakesADeviceOnceAmongPoolsAndLinks) {
  DeviceBackend other(dir_ / "devices/other", std::make_unique<FakeDisks>(host_), kernel_);
  const std::string id = NewVolumeId();
  ASSERT_OK(other.Create({.id = id, .bytes = kMiB, .device = "small"}));
  host_.Put("alias", 2, 100 * kMiB, "SN2");
  for (const char* link : {"small", "alias"}) {
    EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = kMiB, .device = link}),
                FailsWith(StatusCode::kResourceExhausted, "another volume has it"));
  }
  EXPECT_EQ(LinkOf(Created()), "middle");
}

TEST_F(DeviceBackendTest, FindsADeviceThatHasMoved) {
  const std::string id = Created("small");
  const auto before = backend_.Locate(id);
  ASSERT_OK(before);
  EXPECT_EQ(before->path, "/dev/fake2");
  EXPECT_EQ(before->bytes, 100 * kMiB);
  EXPECT_EQ(before->device, makedev(8, 2));
  Plug("small", 7, 100 * kMiB, "SN2");
  ASSERT_OK(backend_.Locate(id));
  const std::vector<KnownDevice> known = backend_.KnownDevices();
  ASSERT_THAT(known, SizeIs(1));
  EXPECT_EQ(known.front().volume_id, id);
  EXPECT_EQ(known.front().number, makedev(8, 7));
  EXPECT_EQ(known.front().node, "/dev/fake7");
}

TEST_F(DeviceBackendTest, RefusesAnotherDeviceInItsPlace) {
  const std::string with = Created("small"), without = Created("middle");
  Plug("small", 2, 100 * kMiB, "SN9");
  EXPECT_THAT(backend_.Locate(with).status(),
              FailsWith(StatusCode::kInternal, "another one now (serial number 'SN9'; the volume's has serial"));
  Plug("small", 2, 100 * kMiB, "");
  EXPECT_THAT(backend_.Locate(with).status(), FailsWith(StatusCode::kInternal, "another one now"));
  Plug("middle", 3, 201 * kMiB, "");
  EXPECT_THAT(backend_.Locate(without).status(), FailsWith(StatusCode::kInternal, "another one now"));
}

TEST_F(DeviceBackendTest, AMissingDeviceIsKnownAndCanBeDeleted) {
  const std::string id = Created("small");
  host_.disks.erase("small");
  EXPECT_THAT(backend_.Locate(id).status(), FailsWith(StatusCode::kUnavailable, "'/links/small' is gone"));
  EXPECT_TRUE(IsKnown(backend_, id));
  EXPECT_OK(backend_.Delete(id));
  EXPECT_THAT(backend_.Locate(id).status(), FailsWith(StatusCode::kNotFound, ""));
  EXPECT_OK(backend_.Delete(id));
}

TEST_F(DeviceBackendTest, IgnoresDeviceNumbersOfAnotherBoot) {
  const std::string id = Created("small");
  auto record = ReadDeviceRecord(Record(id));
  ASSERT_OK(record);
  record->boot_id = "another";
  ASSERT_OK(WriteDeviceRecord(Record(id), *record));
  EXPECT_THAT(backend_.KnownDevices(), IsEmpty());
  const auto ids = backend_.Reconcile();
  ASSERT_OK(ids);
  EXPECT_THAT(*ids, ElementsAre(id));
  EXPECT_TRUE(IsKnown(backend_, id));
}

TEST_F(DeviceBackendTest, AMountedDeviceIsNotDeleted) {
  const std::string id = Created("small");
  kernel_.With([](FakeKernel& kernel) {
    ListedMount info;
    info.target = "/staged";
    info.root = "/";
    info.fs_type = "ext4";
    info.device = makedev(8, 2);
    kernel.AddDirectory("/staged");
    kernel.AddMount(info);
  });
  EXPECT_THAT(backend_.Delete(id), FailsWith(StatusCode::kFailedPrecondition, "mounted at '/staged'"));
  host_.disks.erase("small");
  EXPECT_THAT(backend_.Delete(id), FailsWith(StatusCode::kFailedPrecondition, "mounted at '/staged'"));
}

TEST_F(DeviceBackendTest, CapacityCountsFreeAndEmptyDevices) {
  Created("small");
  Fill("middle");
  host_.Put("alias", 1, 300 * kMiB, "SN1");
  const auto capacity = backend_.Capacity();
  ASSERT_OK(capacity);
  EXPECT_EQ(capacity->total, 600 * kMiB);
  EXPECT_EQ(capacity->available, 300 * kMiB);
  EXPECT_EQ(capacity->largest_volume, 300 * kMiB);
}

// The holder may wait for a device that hangs.
TEST_F(DeviceBackendTest, CapacityNeedsNeitherTheLockNorAVolume) {
  EXPECT_EQ(backend_.Capacity()->available, 600 * kMiB);
  Created("small");
  const std::string shared = dir_ / "devices";
  const UniqueFd held(::open(shared.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_OK(LockFile(held, shared, std::chrono::seconds(0)));
  const DeadlineScope deadline(DeadlineScope::Clock::now() + std::chrono::seconds(5));
  EXPECT_EQ(backend_.Capacity()->available, 500 * kMiB);
  EXPECT_EQ(backend_.QuickCapacity()->available, 500 * kMiB);
}

TEST_F(DeviceBackendTest, AnInvalidRecordTakesNoDevice) {
  const std::string id = Created("small");
  std::ofstream(Record(id)) << "small\n";
  EXPECT_THAT(backend_.Locate(id).status(), FailsWith(StatusCode::kFailedPrecondition, "put it back"));
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = kMiB}), FailsWith(StatusCode::kFailedPrecondition, "put it back"));
}

}  // namespace
}  // namespace mooring::testing

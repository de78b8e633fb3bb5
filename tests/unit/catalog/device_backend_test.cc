// The device that a volume gets, and how it is recognised later. Disks and kernel are fakes;
// tests/rpc/calls/devices_test.cc uses real ones.
#include "plugin/backends/device/device_backend.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <map>

#include "base/deadline.h"
#include "base/file/directory.h"
#include "base/file/file_lock.h"
#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/terminal_text.h"
#include "plugin/model/volume_id.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;

struct FakeHost {
  std::map<std::string, Disk> disks = {};        // by link
  std::map<std::string, std::string> uses = {};  // by link

  void Put(const std::string& link, unsigned number, std::uint64_t bytes, const std::string& serial) {
    Disk disk;
    disk.link = link;
    disk.node = "/dev/fake" + std::to_string(number);
    disk.number = makedev(8, number);
    disk.bytes = bytes;
    disk.serial = serial;
    disks[link] = disk;
  }
};

class FakeDisks final : public Disks {
 public:
  explicit FakeDisks(const FakeHost& host) : host_(host) {}
  absl::StatusOr<std::vector<std::string>> Links() const override {
    std::vector<std::string> links;
    for (const auto& [link, disk] : host_.disks) links.push_back(link);
    return links;
  }
  absl::StatusOr<Disk> Find(const std::string& link) const override {
    const auto found = host_.disks.find(link);
    if (found == host_.disks.end()) return NotFound("no " + link);
    return found->second;
  }
  absl::StatusOr<std::string> UseOf(const Disk& disk) const override {
    const auto found = host_.uses.find(disk.link);
    return found == host_.uses.end() ? std::string() : found->second;
  }
  void WaitFor(const std::string&, std::chrono::steady_clock::time_point) const override {}
  bool HasSerial(dev_t number, const std::string& serial) const override {
    return std::any_of(host_.disks.begin(), host_.disks.end(), [&](const auto& entry) {
      return entry.second.number == number && entry.second.serial == serial;
    });
  }
  std::string PathOf(const std::string& link) const override { return "/links/" + link; }

 private:
  const FakeHost& host_;
};

class DeviceBackendTest : public ::testing::Test {
 protected:
  DeviceBackendTest() {
    Plug("large", 1, 300 * kMiB, "SN1");
    Plug("small", 2, 100 * kMiB, "SN2");
    Plug("middle", 3, 200 * kMiB, "");
  }
  void Plug(const std::string& link, unsigned number, std::uint64_t bytes, const std::string& serial) {
    host_.Put(link, number, bytes, serial);
    kernel_.With([&](FakeKernel& kernel) { kernel.AddFile("/dev/fake" + std::to_string(number), bytes); });
  }
  void Fill(const std::string& link, FilesystemInfo::Content content = FilesystemInfo::Content::kForeign) {
    kernel_.With([&](FakeKernel& kernel) {
      FakeFilesystem& filesystem = kernel.Node(host_.disks.at(link).node).filesystem;
      filesystem.content = content;
      filesystem.type = content == FilesystemInfo::Content::kFilesystem ? "ext4" : "unknown data";
    });
  }
  std::string LinkOf(const std::string& id) const {
    const auto record = ReadDeviceRecord(Record(id));
    return record.ok() ? record->link : Message(record.status());
  }
  std::vector<std::string> Released() const {
    std::vector<std::string> ids;
    const std::vector<std::string> names = EntriesOf(dir_ / "devices/pool").value();
    for (const std::string& name : names) {
      if (!IdOfFile(name, ".released").empty()) ids.push_back(IdOfFile(name, ".released"));
    }
    return ids;
  }
  std::string IdOf(const std::string& link) const {
    const std::vector<std::string> ids = EntriesOf(dir_ / "devices/pool").value();
    const auto found = std::find_if(ids.begin(), ids.end(), [&](const std::string& id) { return LinkOf(id) == link; });
    return found == ids.end() ? "" : *found;
  }
  std::string Record(const std::string& id) const { return dir_ / "devices/pool/" + id; }
  absl::Status Create(const VolumeDraft& draft) { return backend_.Create(draft); }
  std::string Created(const std::string& device = "", std::uint64_t bytes = 50 * kMiB) {
    std::string id = NewVolumeId();
    EXPECT_OK(Create({.id = id, .bytes = bytes, .device = device}));
    return id;
  }

  static bool IsKnown(const DeviceBackend& backend, const std::string& id) {
    const std::vector<KnownDevice> known = backend.KnownDevices();
    return std::any_of(known.begin(), known.end(), [&](const KnownDevice& device) { return device.volume_id == id; });
  }

  TempDir dir_;
  FakeHost host_;
  FakeMounter kernel_;
  DeviceBackend backend_ = DeviceBackend(dir_ / "devices/pool", std::make_unique<FakeDisks>(host_), kernel_);
};

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

// Only its begin and its end are read, and a task may have written between them.
TEST_F(DeviceBackendTest, ARawDeviceIsNotTakenForEmpty) {
  const std::string id = Created();
  ASSERT_EQ(LinkOf(id), "small");
  EXPECT_FALSE(backend_.Locate(id)->raw);
  EXPECT_OK(backend_.NoteRawUse(id));
  EXPECT_TRUE(backend_.Locate(id)->raw);
  EXPECT_TRUE(backend_.HoldsData(id));
  EXPECT_EQ(backend_.Capacity()->available, 500 * kMiB);
  EXPECT_OK(backend_.Delete(id));
  const std::string mark = Record(id) + ".released";
  EXPECT_EQ(backend_.Capacity()->available, 500 * kMiB);
  EXPECT_THAT(
      Create({.id = NewVolumeId(), .bytes = kMiB, .limit = 150 * kMiB}),
      FailsWith(StatusCode::kResourceExhausted, "(blkdiscard -z /links/small), then remove " + ShellQuote(mark)));
  const std::string again = Created("small");
  EXPECT_TRUE(backend_.Locate(again)->raw) << "it may hold the data of the first volume";
  EXPECT_OK(backend_.Delete(again));
  EXPECT_EQ(LinkOf(Created()), "middle");
  ASSERT_EQ(::unlink((Record(again) + ".released").c_str()), 0);
  EXPECT_EQ(LinkOf(Created()), "small");
}

TEST_F(DeviceBackendTest, ADeviceWithoutRawUseOrWithAFilesystemNeedsNoMark) {
  const std::string unused = Created("small"), visible = Created("middle");
  EXPECT_OK(backend_.NoteRawUse(visible));
  Fill("middle", FilesystemInfo::Content::kFilesystem);
  EXPECT_OK(backend_.Delete(unused));
  EXPECT_OK(backend_.Delete(visible));
  EXPECT_THAT(Released(), IsEmpty());
}

TEST_F(DeviceBackendTest, DataThatAGrowthOfTheDeviceHidesIsNotForgotten) {
  const std::string id = Created("small");
  EXPECT_OK(backend_.NoteRawUse(id));
  Fill("small");
  EXPECT_OK(backend_.Delete(id));
  Plug("small", 2, 400 * kMiB, "SN2");  // its data lies between the begin and the end now
  Fill("small", FilesystemInfo::Content::kEmpty);
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = 400 * kMiB}),
              FailsWith(StatusCode::kResourceExhausted, "then remove"));
}

TEST_F(DeviceBackendTest, AMarkThatCannotBeReadNamesItself) {
  const std::string id = Created("small");
  EXPECT_OK(backend_.NoteRawUse(id));
  EXPECT_OK(backend_.Delete(id));
  std::ofstream(Record(id) + ".released") << "small\n";
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = kMiB}),
              FailsWith(StatusCode::kFailedPrecondition, "remove it once that is cleared"));
}

// Such a device is small. It is in the pool again as soon as it is cleared.
TEST_F(DeviceBackendTest, ADeviceThatIsReadAsAWholeNeedsNoMark) {
  const std::string id = Created();
  EXPECT_OK(backend_.NoteRawUse(id));
  EXPECT_OK(backend_.Delete(id));
  kernel_.With([](FakeKernel& kernel) { kernel.Node("/dev/fake2").filesystem.whole = true; });
  EXPECT_EQ(backend_.Capacity()->available, 600 * kMiB);
  const std::string again = Created();
  EXPECT_EQ(LinkOf(again), "small");
  EXPECT_FALSE(backend_.HoldsData(again));
  EXPECT_OK(backend_.Delete(again));
  EXPECT_THAT(Released(), IsEmpty());
}

TEST_F(DeviceBackendTest, AMarkIsForTheDeviceAndNotForItsLink) {
  const std::string id = Created();
  EXPECT_OK(backend_.NoteRawUse(id));
  EXPECT_OK(backend_.Delete(id));
  Plug("small", 9, 100 * kMiB, "SN9");
  Plug("elsewhere", 2, 100 * kMiB, "SN2");
  EXPECT_EQ(LinkOf(Created()), "small") << "a new disk in its place";
  EXPECT_EQ(LinkOf(Created()), "middle") << "the disk is at another place";
}

// Without it, a raw volume's disk would be given away while it has another name.
TEST_F(DeviceBackendTest, ADiskOfAVolumeIsItsDiskAtAnotherPlace) {
  const std::string id = Created("small");
  host_.disks.erase("small");
  Plug("elsewhere", 9, 100 * kMiB, "SN2");
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = kMiB, .limit = 150 * kMiB}),
              FailsWith(StatusCode::kResourceExhausted, "'elsewhere': another volume has it"));
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = kMiB, .device = "elsewhere"}),
              FailsWith(StatusCode::kResourceExhausted, "another volume has it"));
  EXPECT_EQ(backend_.Capacity()->available, 500 * kMiB);
  EXPECT_EQ(backend_.QuickCapacity()->available, 500 * kMiB);
  auto record = *ReadDeviceRecord(Record(id));
  record.boot_id = "another";
  record.number = makedev(8, 9);  // the number of the disk in that boot
  ASSERT_OK(WriteDeviceRecord(Record(id), record));
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = kMiB, .device = "elsewhere"}),
              FailsWith(StatusCode::kResourceExhausted, "another volume has it"));
}

// udev gives each partition the serial number of its disk.
TEST_F(DeviceBackendTest, PartitionsWithOneSerialNumberAreSeveralDevices) {
  Plug("part1", 11, 400 * kMiB, "SNP");
  Plug("part2", 12, 400 * kMiB, "SNP");
  const std::string first = Created("part1");
  EXPECT_OK(backend_.NoteRawUse(first));
  const std::string second = Created("", 400 * kMiB);
  EXPECT_EQ(LinkOf(second), "part2");
  EXPECT_FALSE(backend_.Locate(second)->raw);
  EXPECT_OK(backend_.Delete(first));
  EXPECT_OK(backend_.Delete(second));
  EXPECT_EQ(LinkOf(Created("part2")), "part2");
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = 400 * kMiB}),
              FailsWith(StatusCode::kResourceExhausted, "then remove"))
      << "part1 is kept out";

  host_.disks.erase("part1");
  const std::string third = NewVolumeId();
  EXPECT_OK(backend_.Delete(IdOf("part2")));
  EXPECT_OK(Create({.id = third, .bytes = kMiB, .device = "part2"}));
  EXPECT_TRUE(backend_.Locate(third)->raw) << "it may be the disk of the file";
  EXPECT_THAT(Released(), ElementsAre(first)) << "it may also mean another one";
}

// It is known by its link, whatever its size is now, and after a start by any link.
TEST_F(DeviceBackendTest, ADeviceWithoutASerialNumberThatMayHideDataStaysOut) {
  const std::string id = Created("middle");
  EXPECT_OK(backend_.NoteRawUse(id));
  EXPECT_OK(backend_.Delete(id));
  Plug("middle", 3, 250 * kMiB, "");
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = 250 * kMiB, .limit = 250 * kMiB}),
              FailsWith(StatusCode::kResourceExhausted, "then remove"));
  const std::string file = Record(id) + ".released";
  auto record = *ReadDeviceRecord(file);
  record.boot_id = "another";
  record.number = makedev(8, 77);
  ASSERT_OK(WriteDeviceRecord(file, record));
  Plug("alias", 3, 250 * kMiB, "");
  EXPECT_OK(backend_.Reconcile());
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = 250 * kMiB, .limit = 250 * kMiB}),
              FailsWith(StatusCode::kResourceExhausted, "'alias': a deleted volume"));
}

// The file has one line less.
TEST_F(DeviceBackendTest, ARecordOfAnEarlierVersionIsRead) {
  const std::string id = Created();
  std::string text = *ReadWholeFile(Record(id));
  text.erase(text.size() - 1);
  std::ofstream(Record(id)) << text;
  EXPECT_EQ(LinkOf(id), "small");
  EXPECT_OK(backend_.NoteRawUse(id));
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

// Devices that tasks had as raw devices, and that may hide data: plugin/backends/device/released.h.
#include <unistd.h>

#include <fstream>

#include "base/file/whole_file.h"
#include "base/text/terminal_text.h"
#include "tests/unit/catalog/device_backend_fixture.h"

namespace mooring::testing {
namespace {

class ReleasedDeviceTest : public DeviceBackendTest {};

// Only its begin and its end are read, and a task may have written between them.
TEST_F(ReleasedDeviceTest, ARawDeviceIsNotTakenForEmpty) {
  const std::string id = Created();
  ASSERT_EQ(LinkOf(id), "small");
  EXPECT_FALSE(backend_.Locate(id)->raw);
  EXPECT_OK(backend_.NoteRawUse(id, false));
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

TEST_F(ReleasedDeviceTest, ADeviceWithoutRawUseOrWithAFilesystemNeedsNoMark) {
  const std::string unused = Created("small"), visible = Created("middle");
  EXPECT_OK(backend_.NoteRawUse(visible, false));
  Fill("middle", FilesystemInfo::Content::kFilesystem);
  EXPECT_OK(backend_.Delete(unused));
  EXPECT_OK(backend_.Delete(visible));
  EXPECT_THAT(Released(), IsEmpty());
}

TEST_F(ReleasedDeviceTest, DataThatAGrowthOfTheDeviceHidesIsNotForgotten) {
  const std::string id = Created("small");
  EXPECT_OK(backend_.NoteRawUse(id, false));
  Fill("small");
  EXPECT_OK(backend_.Delete(id));
  Plug("small", 2, 400 * kMiB, "SN2");  // its data lies between the begin and the end now
  Fill("small", FilesystemInfo::Content::kEmpty);
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = 400 * kMiB}),
              FailsWith(StatusCode::kResourceExhausted, "then remove"));
}

TEST_F(ReleasedDeviceTest, AMarkThatCannotBeReadNamesItself) {
  const std::string id = Created("small");
  EXPECT_OK(backend_.NoteRawUse(id, false));
  EXPECT_OK(backend_.Delete(id));
  std::ofstream(Record(id) + ".released") << "small\n";
  EXPECT_THAT(Create({.id = NewVolumeId(), .bytes = kMiB}),
              FailsWith(StatusCode::kFailedPrecondition, "remove it once that is cleared"));
}

// Such a device is small. It is in the pool again as soon as it is cleared.
TEST_F(ReleasedDeviceTest, ADeviceThatIsReadAsAWholeNeedsNoMark) {
  const std::string id = Created();
  EXPECT_OK(backend_.NoteRawUse(id, false));
  EXPECT_OK(backend_.Delete(id));
  kernel_.With([](FakeKernel& kernel) { kernel.Node("/dev/fake2").filesystem.whole = true; });
  EXPECT_EQ(backend_.Capacity()->available, 600 * kMiB);
  const std::string again = Created();
  EXPECT_EQ(LinkOf(again), "small");
  EXPECT_FALSE(backend_.HoldsData(again));
  EXPECT_OK(backend_.Delete(again));
  EXPECT_THAT(Released(), IsEmpty());
}

TEST_F(ReleasedDeviceTest, AMarkIsForTheDeviceAndNotForItsLink) {
  const std::string id = Created();
  EXPECT_OK(backend_.NoteRawUse(id, false));
  EXPECT_OK(backend_.Delete(id));
  Plug("small", 9, 100 * kMiB, "SN9");
  Plug("elsewhere", 2, 100 * kMiB, "SN2");
  EXPECT_EQ(LinkOf(Created()), "small") << "a new disk in its place";
  EXPECT_EQ(LinkOf(Created()), "middle") << "the disk is at another place";
}

// Without it, a raw volume's disk would be given away while it has another name.
TEST_F(ReleasedDeviceTest, ADiskOfAVolumeIsItsDiskAtAnotherPlace) {
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
TEST_F(ReleasedDeviceTest, PartitionsWithOneSerialNumberAreSeveralDevices) {
  Plug("part1", 11, 400 * kMiB, "SNP");
  Plug("part2", 12, 400 * kMiB, "SNP");
  const std::string first = Created("part1");
  EXPECT_OK(backend_.NoteRawUse(first, false));
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
TEST_F(ReleasedDeviceTest, ADeviceWithoutASerialNumberThatMayHideDataStaysOut) {
  const std::string id = Created("middle");
  EXPECT_OK(backend_.NoteRawUse(id, false));
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

}  // namespace
}  // namespace mooring::testing

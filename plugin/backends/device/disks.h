// The block devices that a pool may use, and the files that say which device a volume has. The devices are the targets
// of the links in a directory, as udev makes them. It opens no device, and reads sysfs and udev's database.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

struct Disk {
  std::string link;  // its name: "ata-ACME_7_SN1"
  std::string node;  // "/dev/sdb"
  dev_t number = 0;  // of the node
  std::uint64_t bytes = 0;
  std::string serial;  // empty: unknown
};

class Disks {
 public:
  virtual ~Disks() = default;

  // The names of the existing links that match.
  virtual absl::StatusOr<std::vector<std::string>> Links() const = 0;

  // NOT_FOUND: there is no such link. INVALID_ARGUMENT: the name cannot be a link of the pool.
  virtual absl::StatusOr<Disk> Find(const std::string& link) const = 0;

  // The reason why a new volume cannot have the disk: partitions, a stacked device, a mount, swap. Empty: none.
  virtual absl::StatusOr<std::string> UseOf(const Disk& disk) const = 0;

  // Waits until the link appears, or until that time.
  virtual void WaitFor(const std::string& link, std::chrono::steady_clock::time_point until) const = 0;

  // Whether a device with this number is there, and has this serial number.
  virtual bool HasSerial(dev_t number, const std::string& serial) const = 0;

  virtual std::string PathOf(const std::string& link) const = 0;
};

class SystemDisks : public Disks {
 public:
  // `directory` may be missing now. `match` is a pattern of fnmatch(3).
  SystemDisks(std::string directory, std::string match) : directory_(std::move(directory)), match_(std::move(match)) {}

  absl::StatusOr<std::vector<std::string>> Links() const override;
  absl::StatusOr<Disk> Find(const std::string& link) const override;
  absl::StatusOr<std::string> UseOf(const Disk& disk) const override;
  void WaitFor(const std::string& link, std::chrono::steady_clock::time_point until) const override;
  bool HasSerial(dev_t number, const std::string& serial) const override;
  std::string PathOf(const std::string& link) const override { return directory_ + "/" + link; }

 private:
  const std::string directory_;
  const std::string match_;
};

// The file that says which device a volume has. It stays when the device is missing, or another device has its link.
struct DeviceRecord {
  std::string link;
  std::string serial;       // empty: it had none
  std::uint64_t bytes = 0;  // when the volume was created

  // The device node when it was last seen, and in which boot.
  std::string node;
  dev_t number = 0;
  std::string boot_id;

  // A task had the volume as a raw device. So it may hold data that neither its begin nor its end shows.
  bool raw = false;

  bool operator==(const DeviceRecord&) const = default;
};

DeviceRecord RecordOf(const Disk& disk);  // as it is now

// The record of a disk that is at another device node now, as after a boot. It keeps what identifies the disk.
DeviceRecord SeenNow(DeviceRecord record, const Disk& disk);

// By its link, or by its number in this boot. Two links may lead to one device.
bool IsTakenAs(const Disk& disk, const DeviceRecord& record);

// Whether the record may mean this disk: IsTakenAs, or the disk has moved and has another link and number now. A moved
// disk is recognised by its serial number. Partitions of one disk share that, so as long as the device of the record is
// there, the record means no other.
bool IsDiskOf(const DeviceRecord& record, const Disk& disk, const Disks& disks);

// Whether the device is still the one of the record. Without a serial number only the size can be compared.
bool IsSame(const Disk& disk, const DeviceRecord& record);

// NOT_FOUND: the file does not exist. FAILED_PRECONDITION: the file is malformed.
absl::StatusOr<DeviceRecord> ReadDeviceRecord(const std::string& path);

// Writes the file atomically, and syncs it. FAILED_PRECONDITION: a field has a line break.
absl::Status WriteDeviceRecord(const std::string& path, const DeviceRecord& record);

}  // namespace mooring

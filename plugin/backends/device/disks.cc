#include "plugin/backends/device/disks.h"

#include <fmt/format.h>
#include <libudev.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <system_error>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/file/private_file.h"
#include "base/file/whole_file.h"
#include "base/host.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/loop/loop_mounted.h"
#include "mounter/path/device_links.h"
#include "mounter/sys/device_name.h"

namespace mooring {
namespace {

struct Release {
  void operator()(udev* context) const { ::udev_unref(context); }
  void operator()(udev_device* device) const { ::udev_device_unref(device); }
  void operator()(udev_monitor* monitor) const { ::udev_monitor_unref(monitor); }
};
using Udev = std::unique_ptr<udev, Release>;
using UdevDevice = std::unique_ptr<udev_device, Release>;
using UdevMonitor = std::unique_ptr<udev_monitor, Release>;

std::string SysfsOf(dev_t number) { return fmt::format("/sys/dev/block/{}:{}", major(number), minor(number)); }

// udev's value, or else the driver's.
std::string SerialOf(dev_t number) {
  const Udev context(::udev_new());
  if (context == nullptr) return "";
  const UdevDevice device(::udev_device_new_from_devnum(context.get(), 'b', number));
  if (device == nullptr) return "";
  for (const char* property : {"ID_SERIAL", "ID_SERIAL_SHORT"}) {
    const char* const value = ::udev_device_get_property_value(device.get(), property);
    if (value != nullptr && *value != '\0') return value;
  }
  for (const char* attribute : {"device/serial", "device/wwid", "wwid"}) {
    const char* const value = ::udev_device_get_sysattr_value(device.get(), attribute);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

absl::StatusOr<bool> HasPartitions(const std::string& sysfs) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf(sysfs));
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return ::access(fmt::format("{}/{}/partition", sysfs, name).c_str(), F_OK) == 0;
  });
}

bool IsSwappedOn(const std::string& node) {
  std::ifstream file("/proc/swaps");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(node + " ") || line.starts_with(node + "\t")) return true;
  }
  return false;
}

// Null: udev messages cannot be received. Without udev none arrive.
UdevMonitor ListenFor(const Udev& context) {
  if (context == nullptr) return nullptr;
  UdevMonitor monitor(::udev_monitor_new_from_netlink(context.get(), "udev"));
  if (monitor == nullptr) return nullptr;
  ::udev_monitor_filter_add_match_subsystem_devtype(monitor.get(), "block", nullptr);
  return ::udev_monitor_enable_receiving(monitor.get()) >= 0 ? std::move(monitor) : nullptr;
}

constexpr int kLines = 7;
constexpr std::string_view kRaw = "raw";

}  // namespace

absl::StatusOr<std::vector<std::string>> SystemDisks::Links() const { return LinksIn(directory_, match_); }

absl::StatusOr<Disk> SystemDisks::Find(const std::string& link) const {
  if (!MatchesLinks(match_, link)) {
    return InvalidArgument("{} is not the name of a device of this pool, which has those that match {}", Quote(link),
                           Quote(PathOf(match_)));
  }
  std::error_code error;
  Disk disk;
  disk.link = link;
  disk.node = std::filesystem::canonical(PathOf(link), error);
  if (error) return ErrnoStatus(error.value(), "find the device", PathOf(link));
  struct stat status = {};
  if (::stat(disk.node.c_str(), &status) != 0) return ErrnoStatus(errno, "look at the device", disk.node);
  if (!S_ISBLK(status.st_mode)) return FailedPrecondition("{} is no block device", Quote(PathOf(link)));
  disk.number = status.st_rdev;
  MOORING_ASSIGN_OR_RETURN(disk.bytes, BlockDeviceBytes(disk.number));
  disk.serial = SerialOf(disk.number);
  return disk;
}

absl::StatusOr<std::string> SystemDisks::UseOf(const Disk& disk) const {
  const std::string sysfs = SysfsOf(disk.number);
  MOORING_ASSIGN_OR_RETURN(const bool partitioned, HasPartitions(sysfs));
  if (partitioned) return std::string("it has partitions");
  const absl::StatusOr<std::vector<std::string>> holders = EntriesOf(sysfs + "/holders");
  if (!holders.ok() && !absl::IsNotFound(holders.status())) return holders.status();
  if (holders.ok() && !holders->empty()) return fmt::format("{} is on it", holders->front());
  MOORING_ASSIGN_OR_RETURN(const bool mounted, IsMountedAnywhere(std::string(NameOf(disk.node))));
  if (mounted) return std::string("a filesystem on it is mounted");
  return std::string(IsSwappedOn(disk.node) ? "it is swapped on" : "");
}

// The link is udev's last step, so its message comes in time. The regular check covers systems without udev.
void SystemDisks::WaitFor(const std::string& link, std::chrono::steady_clock::time_point until) const {
  constexpr std::chrono::milliseconds kLook{250};
  const auto is_there = [&] { return ::access(PathOf(link).c_str(), F_OK) == 0; };
  if (is_there()) return;
  const Udev context(::udev_new());
  const UdevMonitor monitor = ListenFor(context);
  while (!is_there() && std::chrono::steady_clock::now() < until) {
    pollfd messages = {monitor == nullptr ? -1 : ::udev_monitor_get_fd(monitor.get()), POLLIN, 0};
    if (::poll(&messages, 1, static_cast<int>(kLook.count())) > 0) {
      UdevDevice(::udev_monitor_receive_device(monitor.get())).reset();
    }
  }
}

bool SystemDisks::HasSerial(dev_t number, const std::string& serial) const {
  return ::access(SysfsOf(number).c_str(), F_OK) == 0 && SerialOf(number) == serial;
}

DeviceRecord RecordOf(const Disk& disk) {
  return {.link = disk.link,
          .serial = disk.serial,
          .bytes = disk.bytes,
          .node = disk.node,
          .number = disk.number,
          .boot_id = BootId().value_or("")};
}

DeviceRecord SeenNow(DeviceRecord record, const Disk& disk) {
  record.node = disk.node;
  record.number = disk.number;
  record.boot_id = BootId().value_or("");
  return record;
}

bool IsTakenAs(const Disk& disk, const DeviceRecord& record) {
  return record.link == disk.link || (record.number == disk.number && record.boot_id == BootId().value_or(""));
}

bool IsDiskOf(const DeviceRecord& record, const Disk& disk, const Disks& disks) {
  if (IsTakenAs(disk, record)) return true;
  if (disk.serial.empty() || disk.serial != record.serial) return false;
  return record.boot_id != BootId().value_or("") || !disks.HasSerial(record.number, record.serial);
}

bool IsSame(const Disk& disk, const DeviceRecord& record) {
  return disk.serial == record.serial && (!disk.serial.empty() || disk.bytes == record.bytes);
}

absl::StatusOr<DeviceRecord> ReadDeviceRecord(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  DeviceRecord record;
  constexpr auto kRest = std::numeric_limits<std::streamsize>::max();
  std::istringstream file(text);
  std::getline(file, record.link);
  std::getline(file, record.serial);
  file >> record.bytes;
  file.ignore(kRest, '\n');
  std::getline(file, record.node);
  file >> record.number;
  file.ignore(kRest, '\n');
  std::getline(file, record.boot_id);
  if (file && !record.link.empty()) {
    std::string raw;
    std::getline(file, raw);  // not in the files of earlier versions
    record.raw = raw == kRaw;
    return record;
  }
  return FailedPrecondition("{} does not say which device the volume has: put it back", Quote(path));
}

absl::Status WriteDeviceRecord(const std::string& path, const DeviceRecord& record) {
  const std::string text = fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n", record.link, record.serial, record.bytes,
                                       record.node, record.number, record.boot_id, record.raw ? kRaw : "");
  if (std::count(text.begin(), text.end(), '\n') != kLines) {
    return FailedPrecondition("the device {} has a name with a line break", Quote(record.link));
  }
  return WritePrivateFile(path, text, Outlives::kAPowerCut);
}

}  // namespace mooring

#include "mounter/filesystem/mounted_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/major.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include <fstream>

#include "mounter/filesystem/filesystem.h"
#include "mounter/superblock/ext4_super.h"
#include "mounter/sys/device_name.h"

namespace mooring {
namespace {

// The name of a loop device follows from its number. Sysfs tells the names of other devices.
std::string NameOfDevice(dev_t number) {
  return major(number) == LOOP_MAJOR ? fmt::format("loop{}", minor(number)) : BlockDeviceName(number);
}

}  // namespace

std::uint64_t MountedDevice::Bytes() {
  if (bytes_) return *bytes_;
  std::uint64_t bytes = 0;
  const bool told = Node().ok() && ::ioctl(node_.get(), BLKGETSIZE64, &bytes) == 0;
  bytes_ = told ? bytes : BlockDeviceBytes(number_).value_or(0);
  return *bytes_;
}

std::uint64_t MountedDevice::Ext4Bytes() { return ReadExt4() ? ext4_->bytes : 0; }

std::uint64_t MountedDevice::Ext4Errors() {
  if (ReadExt4()) return ext4_->errors;
  std::ifstream file(fmt::format("/sys/fs/ext4/{}/errors_count", NameOfDevice(number_)));
  std::uint64_t errors = 0;
  return file >> errors ? errors : 0;
}

const std::optional<MountedDevice::Ext4>& MountedDevice::ReadExt4() {
  if (read_ || !Node().ok()) return ext4_;
  read_ = true;
  const absl::StatusOr<Ext4Super> super = ReadExt4Super(node_.get(), path_);
  if (super.ok()) ext4_ = {super->bytes, super->errors};
  return ext4_;
}

const UniqueFd& MountedDevice::Node() {
  if (opened_) return node_;
  opened_ = true;
  const std::string name = NameOfDevice(number_);
  path_ = "/dev/" + name;
  if (!name.empty()) node_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  return node_;
}

}  // namespace mooring

// The block device below a mounted filesystem, for several questions at once: its node is opened once, at the first
// one. Opening and closing a device, or a file of sysfs, costs more than all the answers.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/file/unique_fd.h"

namespace mooring {

// Not safe from several threads.
class MountedDevice {
 public:
  explicit MountedDevice(dev_t number) : number_(number) {}

  // The size of the device; 0: it is not known. Sysfs tells it where a container lacks the node.
  std::uint64_t Bytes();

  // The size of its ext4. 0: the device cannot be read.
  std::uint64_t Ext4Bytes();

  // How many errors its mounted ext4 has met since it was last checked. Sysfs tells it where a container lacks the
  // node.
  std::uint64_t Ext4Errors();

 private:
  struct Ext4 {
    std::uint64_t bytes = 0, errors = 0;
  };
  // From the superblock: the kernel keeps that of a mounted ext4 up to date in the device's page cache.
  const std::optional<Ext4>& ReadExt4();
  const UniqueFd& Node();

  dev_t number_;
  bool opened_ = false, read_ = false;
  std::string path_;
  UniqueFd node_;
  std::optional<std::uint64_t> bytes_;
  std::optional<Ext4> ext4_;
};

}  // namespace mooring

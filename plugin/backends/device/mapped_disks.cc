#include "plugin/backends/device/mapped_disks.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/device_links.h"
#include "mounter/sys/device_name.h"

namespace mooring {

// Without udev there are nodes below /dev/mapper, and no links.
absl::StatusOr<Disk> MappedDisks::Find(const std::string& link) const {
  struct stat status = {};
  const std::string path = PathOf(link);
  if (::stat(path.c_str(), &status) != 0) return ErrnoStatus(errno, "look at the device", path);
  const bool is_mapping = S_ISBLK(status.st_mode) && IsOfItsName(path, status.st_rdev);
  if (!is_mapping) return NotFound("{} was left behind, and leads to no volume", Quote(path));
  Disk disk;
  disk.link = link;
  disk.node = "/dev/" + BlockDeviceName(status.st_rdev);
  disk.number = status.st_rdev;
  MOORING_ASSIGN_OR_RETURN(disk.bytes, BlockDeviceBytes(disk.number));
  return disk;
}

}  // namespace mooring

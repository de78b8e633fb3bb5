#include "mounter/loop/loop_config.h"

#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>

namespace mooring {
namespace {

// Not in linux/magic.h of every release: fs/ceph/super.h, fs/gfs2's GFS2_MAGIC.
constexpr std::uint32_t kCeph = 0x00C36400, kGfs2 = 0x01161970;

bool HasNoChecksums(int file) {
  int flags = 0;
  return ::ioctl(file, FS_IOC_GETFLAGS, &flags) == 0 && (flags & FS_NOCOW_FL) != 0;
}

loop_config Config(int file, const LoopSpec& spec, bool direct_io) {
  loop_config config = {};
  config.fd = static_cast<unsigned>(file);
  config.block_size = 512;
  config.info.lo_sizelimit = spec.size_limit;
  if (spec.read_only) config.info.lo_flags |= LO_FLAGS_READ_ONLY;
  if (spec.auto_clear) config.info.lo_flags |= LO_FLAGS_AUTOCLEAR;
  if (direct_io) config.info.lo_flags |= LO_FLAGS_DIRECT_IO;
  SetLabel(config.info, spec.label);
  return config;
}

}  // namespace

std::string LabelIn(const loop_info64& status) {
  const char* const name = reinterpret_cast<const char*>(status.lo_file_name);
  return std::string(name, ::strnlen(name, LO_NAME_SIZE));
}

void SetLabel(loop_info64& status, const std::string& label) {
  std::memset(status.lo_file_name, 0, LO_NAME_SIZE);
  label.copy(reinterpret_cast<char*>(status.lo_file_name), LO_NAME_SIZE - 1);
}

bool MayUseDirectIo(int file) {
  struct stat status = {};
  if (::fstat(file, &status) == 0 && S_ISBLK(status.st_mode)) return true;
  struct statfs filesystem = {};
  if (::fstatfs(file, &filesystem) != 0) return false;
  switch (static_cast<std::uint32_t>(filesystem.f_type)) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case NFS_SUPER_MAGIC:
    case kCeph:
    case kGfs2:
      return true;
    case BTRFS_SUPER_MAGIC:
      return HasNoChecksums(file);
    default:
      return false;
  }
}

int ConfigureLoop(int loop, int file, const LoopSpec& spec) {
  const bool direct_io = MayUseDirectIo(file);
  loop_config config = Config(file, spec, direct_io);
  if (::ioctl(loop, LOOP_CONFIGURE, &config) == 0) return 0;
  // A disk with larger sectors, for one, takes no direct I/O of 512 bytes.
  if (errno != EINVAL || !direct_io) return errno;
  config = Config(file, spec, false);
  return ::ioctl(loop, LOOP_CONFIGURE, &config) == 0 ? 0 : errno;
}

}  // namespace mooring

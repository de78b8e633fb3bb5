// The read-ahead of loop devices. Set by ioctl(2), because sysfs may be mounted read-only in a container. Both set the
// value in the device's backing_dev_info, which a file of a filesystem on it copies when it is opened.
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "base/status.h"
#include "mounter/loop/loop_device.h"

namespace mooring {
namespace {

constexpr std::uint64_t kSector = 512;
constexpr std::uint64_t kLinuxDefault = std::uint64_t{128} << 10U;
constexpr std::uint64_t kMostReadAhead = std::uint64_t{64} << 20U;  // the plugin's limit; more only takes memory

std::uint64_t QueueNumber(const LoopInfo& loop, std::string_view name) {
  std::ifstream file(fmt::format("/sys/block/loop{}/queue/{}", minor(loop.device_number), name));
  std::uint64_t number = 0;
  file >> number;
  return file ? number : 0;
}

// The choice of blk_apply_bdi_limits() in block/blk-settings.c for an untuned device.
std::uint64_t DefaultReadAhead(const LoopInfo& loop) {
  std::uint64_t request = QueueNumber(loop, "optimal_io_size");
  if (request == 0 && QueueNumber(loop, "rotational") != 0) request = QueueNumber(loop, "max_sectors_kb") * 1024;
  return std::max(2 * request, kLinuxDefault);
}

absl::Status SetReadAhead(int fd, const LoopInfo& loop, std::uint64_t bytes) {
  long sectors = 0;  // of 512 bytes, BLKRAGET
  if (::ioctl(fd, BLKRAGET, &sectors) != 0) return ErrnoStatus(errno, "ask for the read-ahead of", loop.device);
  if (static_cast<std::uint64_t>(sectors) * kSector == bytes) return absl::OkStatus();
  if (::ioctl(fd, BLKRASET, static_cast<unsigned long>(bytes / kSector)) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, fmt::format("set the read-ahead to {} bytes of", bytes), loop.device);
}

}  // namespace

absl::Status ResetReadAhead(int fd, const LoopInfo& loop) { return SetReadAhead(fd, loop, DefaultReadAhead(loop)); }

absl::Status TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) {
  if (tuning.read_ahead_bytes % kSector != 0) {
    return InvalidArgument("a read-ahead of {} bytes is no number of sectors", tuning.read_ahead_bytes);
  }
  if (tuning.read_ahead_bytes > kMostReadAhead) {
    return InvalidArgument("a read-ahead of {} bytes: at most {} are read ahead", tuning.read_ahead_bytes,
                           kMostReadAhead);
  }
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenAsFound(loop));
  if (!fd.ok()) return NotFound("{} is no longer the device of its file", loop.device);
  if (tuning.read_ahead_bytes == 0) return ResetReadAhead(fd.get(), loop);
  return SetReadAhead(fd.get(), loop, tuning.read_ahead_bytes);
}

}  // namespace mooring

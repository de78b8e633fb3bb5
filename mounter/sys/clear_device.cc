#include "mounter/sys/clear_device.h"

#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/status.h"

namespace mooring {
namespace {

constexpr std::uint64_t kChunk = 128U << 20U;  // of one ioctl(2), which no signal ends

absl::Status Zero(const UniqueFd& device, const std::string& path, std::uint64_t from, std::uint64_t end) {
  for (; from < end; from += std::min(kChunk, end - from)) {
    std::array<std::uint64_t, 2> range = {from, std::min(kChunk, end - from)};
    if (::ioctl(device.get(), BLKZEROOUT, range.data()) != 0) {
      return ErrnoStatus(errno, fmt::format("clear {} bytes from {} on of", range[1], from), path);
    }
  }
  return absl::OkStatus();
}

absl::Status Sync(const UniqueFd& device, const std::string& path) {
  return ::fsync(device.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "write to disk", path);
}

}  // namespace

absl::StatusOr<std::uint64_t> DeviceBytes(const UniqueFd& device, const std::string& path) {
  std::uint64_t bytes = 0;
  if (::ioctl(device.get(), BLKGETSIZE64, &bytes) != 0) return ErrnoStatus(errno, "ask for the size of", path);
  return bytes;
}

absl::Status ClearFrom(const UniqueFd& device, const std::string& path, std::uint64_t from) {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, DeviceBytes(device, path));
  MOORING_RETURN_IF_ERROR(Zero(device, path, from, bytes));
  return Sync(device, path);
}

absl::Status ClearEnds(const UniqueFd& device, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, DeviceBytes(device, path));
  if (bytes <= kChunk) return ClearFrom(device, path, 0);  // all that ProbeFilesystem reads of a small device
  MOORING_RETURN_IF_ERROR(Zero(device, path, 0, kClearedEnd));
  MOORING_RETURN_IF_ERROR(Zero(device, path, bytes - kClearedEnd, bytes));
  return Sync(device, path);
}

absl::Status ClearNewEnd(const UniqueFd& device, const std::string& path, std::uint64_t had) {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, DeviceBytes(device, path));
  if (bytes <= kChunk) return ClearFrom(device, path, had);
  MOORING_RETURN_IF_ERROR(Zero(device, path, std::max(had, bytes - kClearedEnd), bytes));
  return Sync(device, path);
}

}  // namespace mooring

// The devices of logical volumes, and the clearing of what their former owners wrote.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/path/lvm_names.h"
#include "mounter/sys/clear_device.h"

namespace mooring {

class LvmDevice {
 public:
  // Opens that of an active volume. `flags` as O_WRONLY | O_EXCL. FAILED_PRECONDITION: it is in use (O_EXCL), or the
  // path leads to another device.
  static absl::StatusOr<LvmDevice> Open(const LvmPool& pool, const std::string& name, int flags);

  const UniqueFd& fd() const { return fd_; }
  const std::string& path() const { return path_; }  // has no symbolic link
  absl::StatusOr<std::uint64_t> Bytes() const { return DeviceBytes(fd_, path_); }

  // All: mounter/sys/clear_device.h.
  absl::Status Clear(std::uint64_t from) const { return ClearFrom(fd_, path_, from); }
  absl::Status ClearEnds() const { return mooring::ClearEnds(fd_, path_); }
  absl::Status ClearNewEnd(std::uint64_t had) const { return mooring::ClearNewEnd(fd_, path_, had); }

  absl::Status Sync() const;

 private:
  LvmDevice(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
};

}  // namespace mooring

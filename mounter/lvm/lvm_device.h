// The devices of logical volumes, and the clearing of what their former owners wrote.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/path/lvm_names.h"

namespace mooring {

class LvmDevice {
 public:
  // Opens that of an active volume. `flags` as O_WRONLY | O_EXCL. FAILED_PRECONDITION: it is in use (O_EXCL), or the
  // path leads to another device.
  static absl::StatusOr<LvmDevice> Open(const LvmPool& pool, const std::string& name, int flags);

  const UniqueFd& fd() const { return fd_; }
  const std::string& path() const { return path_; }  // has no symbolic link
  absl::StatusOr<std::uint64_t> Bytes() const;

  // Both end with fsync(2). Afterwards these bytes read as zeros.
  absl::Status Clear(std::uint64_t from) const;  // up to the end
  absl::Status ClearEnds() const;                // 16 MiB at each end, where filesystems have their signatures

  absl::Status Sync() const;

 private:
  LvmDevice(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  absl::Status Zero(std::uint64_t from, std::uint64_t end) const;

  UniqueFd fd_;
  std::string path_;
};

}  // namespace mooring

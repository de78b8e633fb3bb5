// Whether what was opened as a source may be used. It is asked of the open file, and that file is used then: whatever
// is swapped in at the path afterwards, or was there before, is of no importance.
#ifndef MOORING_MOUNTER_PATH_SOURCE_POLICY_H_
#define MOORING_MOUNTER_PATH_SOURCE_POLICY_H_

#include <string>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"
#include "mounter/path/target.h"

namespace mooring {

class SourcePolicy {
 public:
  virtual ~SourcePolicy() = default;

  // All take a file that may be open with O_PATH alone, and its path for the message. FAILED_PRECONDITION: no.
  virtual absl::Status CheckBindSource(const UniqueFd& source, const std::string& path) const = 0;
  virtual absl::Status CheckBackingFile(const UniqueFd& file, const std::string& path) const = 0;
  virtual absl::Status CheckDirectory(const UniqueFd& directory, const std::string& path) const = 0;  // of new ones

  // Of what may be the source of a bind: a directory that the plugin has made for tasks is to be as root makes it.
  virtual absl::Status MakeTasks(const UniqueFd& /*source*/, const std::string& /*path*/) const {
    return absl::OkStatus();
  }

  // Whether the mount at `target`, which `info` describes, may be unmounted.
  virtual absl::Status CheckUnmount(const Target& /*target*/, const PathInfo& /*info*/) const {
    return absl::OkStatus();
  }

  // As CheckBindSource, of a mount whose filesystem is to be changed as a whole.
  virtual absl::Status CheckFilesystem(const UniqueFd& mount, const std::string& path) const = 0;
};

class EverySource final : public SourcePolicy {
 public:
  absl::Status CheckBindSource(const UniqueFd&, const std::string&) const override { return absl::OkStatus(); }
  absl::Status CheckBackingFile(const UniqueFd&, const std::string&) const override { return absl::OkStatus(); }
  absl::Status CheckDirectory(const UniqueFd&, const std::string&) const override { return absl::OkStatus(); }
  absl::Status CheckFilesystem(const UniqueFd&, const std::string&) const override { return absl::OkStatus(); }
};

inline const EverySource kEverySource{};

}  // namespace mooring

#endif  // MOORING_MOUNTER_PATH_SOURCE_POLICY_H_

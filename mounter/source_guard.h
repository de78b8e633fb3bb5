// The sources that the helper was started with, and no others; see mounter/guarded_mounter.h for the table.
#ifndef MOORING_MOUNTER_SOURCE_GUARD_H_
#define MOORING_MOUNTER_SOURCE_GUARD_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/unique_fd.h"
#include "mounter/source_policy.h"

namespace mooring {

class SourceGuard final : public SourcePolicy {
 public:
  // As in Allowance: directories of backing files, and what the labels of our loop devices begin with.
  SourceGuard(std::vector<std::string> directories, std::string label_prefix)
      : directories_(std::move(directories)), label_prefix_(std::move(label_prefix)) {}

  // A loop device of ours, or the root of a mount of one.
  absl::Status CheckBindSource(const UniqueFd& source, const std::string& path) const override;

  // A regular file below a directory of sources, or a loop device of ours.
  absl::Status CheckBackingFile(const UniqueFd& file, const std::string& path) const override;

  // A directory of sources, or one below.
  absl::Status CheckDirectory(const UniqueFd& directory, const std::string& path) const override;

 private:
  absl::Status CheckDevice(dev_t device, const std::string& path) const;

  const std::vector<std::string> directories_;
  const std::string label_prefix_;
};

}  // namespace mooring

#endif  // MOORING_MOUNTER_SOURCE_GUARD_H_

// A file that is filled under a working name, and then takes its own name in one step, never over another file.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/path/source_policy.h"

namespace mooring {

// The working name is <path>.copying-<8 hex digits>. The lock of the file tells a clean-up that it is in use. The
// object removes the file unless it was kept. Everything happens in the directory that was opened and checked at first,
// whatever is put at its path later.
class NewFile {
 public:
  // ALREADY_EXISTS: something is at `path`. NOT_FOUND: no directory.
  static absl::StatusOr<std::unique_ptr<NewFile>> Make(const std::string& path, const SourcePolicy& policy);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  const UniqueFd& fd() const { return fd_; }
  const std::string& path() const { return path_; }             // after Publish
  std::string working_path() const { return path_ + suffix_; }  // until Publish

  absl::Status Publish();  // renames the file to path(); ALREADY_EXISTS: another file is there
  absl::Status SyncDirectory() const;
  void Keep() { name_.clear(); }

 private:
  NewFile(std::string path, UniqueFd directory);
  absl::Status CheckNameFree() const;

  const std::string path_;
  const std::string suffix_;
  const UniqueFd directory_;
  UniqueFd fd_;
  std::string name_;  // the present name in the directory; empty: the destructor leaves it
};

}  // namespace mooring

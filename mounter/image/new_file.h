// A file that is populated under a name of its own and then becomes visible in one step, never over another one.
#ifndef MOORING_MOUNTER_IMAGE_NEW_FILE_H_
#define MOORING_MOUNTER_IMAGE_NEW_FILE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/path/source_policy.h"

namespace mooring {

// <path>.copying-<8 hex digits>, under its own lock, so that whoever clears up knows that somebody is at it. Gone with
// the object unless it was kept. All is done in the directory that was opened and checked at first, whatever is put at
// its path later.
class NewFile {
 public:
  // ALREADY_EXISTS: something is at `path`. NOT_FOUND: no directory.
  static absl::StatusOr<std::unique_ptr<NewFile>> Make(const std::string& path, const SourcePolicy& policy);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  const UniqueFd& fd() const { return fd_; }
  const std::string& path() const { return path_; }             // where it is to be
  std::string working_path() const { return path_ + suffix_; }  // where it is until Publish

  absl::Status Publish();  // to the name that it is to have; ALREADY_EXISTS: another one has it
  absl::Status SyncDirectory() const;
  void Keep() { name_.clear(); }

 private:
  NewFile(std::string path, UniqueFd directory);
  absl::Status CheckNameFree() const;

  const std::string path_;
  const std::string suffix_;
  const UniqueFd directory_;
  UniqueFd fd_;
  std::string name_;  // in the directory, now; empty: not ours to remove
};

}  // namespace mooring

#endif  // MOORING_MOUNTER_IMAGE_NEW_FILE_H_

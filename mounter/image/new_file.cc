#include "mounter/image/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/file/path.h"
#include "base/host.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/image/image.h"
#include "mounter/path/target.h"

namespace mooring {
namespace {

absl::Status IsThere(const std::string& path) {
  return AlreadyExists("{} is there already: nothing was copied", Quote(path));
}

// Returns 0 or the errno. Some filesystems support no flags of a rename: there a hard link never replaces a file.
int RenameToNew(int directory, const std::string& from, const std::string& to) {
  if (::renameat2(directory, from.c_str(), directory, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (::linkat(directory, from.c_str(), directory, to.c_str(), 0) != 0) return errno;
  if (::unlinkat(directory, from.c_str(), 0) == 0) return 0;
  const int error = errno;
  ::unlinkat(directory, to.c_str(), 0);  // CheckOneName refuses a file with two names
  return error;
}

}  // namespace

NewFile::NewFile(std::string path, UniqueFd directory)
    : path_(std::move(path)),
      suffix_(fmt::format("{}-{}", kCopyingSuffix, RandomHex(4))),
      directory_(std::move(directory)) {}

NewFile::~NewFile() {
  if (!name_.empty()) ::unlinkat(directory_.get(), name_.c_str(), 0);
}

absl::StatusOr<std::unique_ptr<NewFile>> NewFile::Make(const std::string& path, const SourcePolicy& policy) {
  const std::string parent(ParentOf(path));
  MOORING_ASSIGN_OR_RETURN(UniqueFd directory, OpenNoSymlinks(parent, O_RDONLY | O_DIRECTORY));
  MOORING_RETURN_IF_ERROR(policy.CheckDirectory(directory, parent));
  std::unique_ptr<NewFile> file(new NewFile(path, std::move(directory)));
  MOORING_RETURN_IF_ERROR(file->CheckNameFree());
  const std::string name(NameOf(file->working_path()));
  file->fd_.reset(
      ::openat(file->directory_.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file->fd_.ok()) return ErrnoStatus(errno, "make", file->working_path());
  file->name_ = name;
  struct stat owner = {};
  if (::fstat(file->directory_.get(), &owner) != 0) return ErrnoStatus(errno, "look at", parent);
  MOORING_RETURN_IF_ERROR(GiveTo(owner, file->fd_, file->working_path()));
  MOORING_ASSIGN_OR_RETURN(file->fd_,
                           LockOpenImage(std::move(file->fd_), file->working_path(), std::chrono::milliseconds(0)));
  return file;
}

absl::Status NewFile::CheckNameFree() const {
  struct stat status = {};
  if (::fstatat(directory_.get(), std::string(NameOf(path_)).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    return IsThere(path_);
  }
  return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "look at", path_);
}

absl::Status NewFile::Publish() {
  const std::string name(NameOf(path_));
  const int error = RenameToNew(directory_.get(), name_, name);
  if (error == EEXIST) return IsThere(path_);
  if (error != 0) return ErrnoStatus(error, "put the copy at", path_);
  name_ = name;
  return absl::OkStatus();
}

absl::Status NewFile::SyncDirectory() const {
  if (::fsync(directory_.get()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "sync the directory", std::string(ParentOf(path_)));
}

}  // namespace mooring

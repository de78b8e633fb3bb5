#include "base/file/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/file/directory.h"
#include "base/file/unique_fd.h"
#include "base/status.h"

namespace mooring {
namespace {

absl::Status WriteNew(const std::string& unfinished, const std::string& contents, bool synced) {
  // Not O_TRUNC: the plugin's sandbox refuses it.
  const UniqueFd file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!file.ok() || ::ftruncate(file.get(), 0) != 0) return ErrnoStatus(errno, "create", unfinished);
  const ssize_t written = ::write(file.get(), contents.data(), contents.size());
  if (written != static_cast<ssize_t>(contents.size())) {
    return ErrnoStatus(written < 0 ? errno : ENOSPC, "write", unfinished);
  }
  if (synced && ::fsync(file.get()) != 0) return ErrnoStatus(errno, "sync", unfinished);
  return absl::OkStatus();
}

}  // namespace

absl::Status WritePrivateFile(const std::string& path, const std::string& contents, Outlives outlives) {
  const std::string unfinished = path + ".new";
  const bool synced = outlives == Outlives::kAPowerCut;
  absl::Status done = WriteNew(unfinished, contents, synced);
  if (done.ok() && std::rename(unfinished.c_str(), path.c_str()) != 0) done = ErrnoStatus(errno, "rename to", path);
  if (!done.ok()) {
    ::unlink(unfinished.c_str());
    return done;
  }
  return synced ? SyncDirectoryOf(path) : absl::OkStatus();
}

}  // namespace mooring

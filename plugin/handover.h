// Files change hands: what the plugin keeps belongs to the user that it works as (--user), now this one, now that, now
// root again.
//
// Only root does this, before it gives its privileges up, and only with what is ours: files and directories of our
// names that are root's, or that one of the users has who had the state directory before. Those are noted in the file
// `users` there, which is root's, so that nobody else can name himself. No symbolic link is followed, and a file with a
// second name (hard link) stays as it is.
#ifndef MOORING_PLUGIN_HANDOVER_H_
#define MOORING_PLUGIN_HANDOVER_H_

#include <sys/types.h>

#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/run_as.h"

namespace mooring {

// Which of a directory's entries are ours.
enum class Holding {
  kState,        // the databases, the lock, and what is below volumes, memory and devices
  kImages,       // images and what stands beside them
  kDirectories,  // nothing: a directory volume is its tasks'
};

class Handover {
 public:
  // To that user; of a process that is not root's, to itself. What is root's may change hands.
  explicit Handover(const RunAs& user = {});

  // And what those have who had the state directory before, which is there and real.
  static absl::StatusOr<Handover> Begin(const std::string& state_dir, const RunAs& user);

  bool MayTake(uid_t owner) const { return owner == user_.uid || before_.contains(owner); }

  // The directory and what of ours is in it. Its own modes have been looked at.
  absl::Status Give(const std::string& directory, Holding holding) const;

  const RunAs& user() const { return user_; }

  // The directory of --endpoint: a socket that nobody serves any more goes while this process may still do that, and a
  // directory of root's with nothing else in it becomes the user's, its group keeping what it may. FAILED_PRECONDITION:
  // the socket is served, or the directory holds more.
  absl::Status GiveSocketDirectory(const std::string& socket_path) const;

 private:
  bool has_nothing_to_do() const { return user_.is_root() && before_.size() == 1; }
  absl::Status Note(int directory, const std::string& path) const;
  absl::Status TryToGiveSocketDirectory(const std::string& socket_path) const;
  absl::Status GiveOpen(int fd, const std::string& path) const;
  absl::Status GiveFiles(int directory, const std::string& path, bool (*is_ours)(std::string_view)) const;
  absl::Status GiveBelow(int directory, const std::string& path, const std::string& name, int levels) const;

  RunAs user_;
  std::set<uid_t> before_ = {0};
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_HANDOVER_H_

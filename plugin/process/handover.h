// Files change hands: what the plugin keeps belongs to the user that it works as (--user), now this one, now that, now
// root again.
//
// Only root does this, before it gives its privileges up, and only with what is ours: files and directories of our
// names that are root's, or that one of the users has who had the state directory before. Those are noted in the file
// `users` there, which is root's, so that nobody else can name himself. A directory of root's is given only if it is
// empty or holds nothing but ours. No symbolic link is followed that another user may have made, and a file with a
// second name (hard link) stays as it is.
//
// A plugin that runs holds a shared flock(2) of its state directory, which is its user's. Who needs it to be another
// user's takes that lock alone, and so not while somebody works there.
#ifndef MOORING_PLUGIN_PROCESS_HANDOVER_H_
#define MOORING_PLUGIN_PROCESS_HANDOVER_H_

#include <sys/types.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/real_directory.h"
#include "base/file/unique_fd.h"
#include "plugin/process/run_as.h"

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

  // And what those have who had the state directory before. Until Keep, or the end of the last
  // copy, no other process begins with another user. FAILED_PRECONDITION: one works there as another user.
  static absl::StatusOr<Handover> Begin(const RealDirectory& state_dir, const RunAs& user);

  bool MayTake(uid_t owner) const { return owner == user_.uid || before_.contains(owner); }

  // FAILED_PRECONDITION: somebody else may have led the way there; or it is root's and holds what is not ours, so that
  // nothing says that it was meant to be given away. `pools` are those that may lie in it.
  absl::Status CheckMayGive(const RealDirectory& directory, Holding holding,
                            const std::vector<std::string>& pools) const;

  // The directory and what of ours is in it. Its own modes have been looked at.
  absl::Status Give(const RealDirectory& directory, Holding holding) const;

  // All has changed hands: from now on others may begin as the same user.
  absl::Status Keep() const;

  const RunAs& user() const { return user_; }

  // FAILED_PRECONDITION: the socket is served. Nothing is changed.
  static absl::Status CheckNotServed(const std::string& socket_path);

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
  std::shared_ptr<const UniqueFd> state_dir_;  // open for its lock
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_HANDOVER_H_

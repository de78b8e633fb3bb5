// Other processes and other mount namespaces.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/file/unique_fd.h"

namespace mooring::testing {

// Returns the answer of `question` in a forked child, which may change itself in any way. Expectations have no effect
// in the child, and it is killed after 20 seconds ("killed by signal 14").
std::string AskInChild(const std::function<std::string()>& question);

// A mount namespace of its own, made as a copy of this one, for as long as the object lives.
class MountNamespace {
 public:
  // The shared mounts of this namespace become peers, slaves or private in the copy.
  enum class Kind { kPeer, kSlave, kPrivate };

  explicit MountNamespace(Kind kind);
  MountNamespace(const MountNamespace&) = delete;
  MountNamespace& operator=(const MountNamespace&) = delete;
  ~MountNamespace();

  // Like AskInChild, in that namespace.
  std::string Ask(const std::function<std::string()>& question) const;

  pid_t pid() const { return pid_; }  // of the process that is there

  // The same path as seen there, for everything that takes a path.
  std::string Seen(const std::string& path) const;

 private:
  pid_t pid_ = -1;
  UniqueFd namespace_;
};

}  // namespace mooring::testing

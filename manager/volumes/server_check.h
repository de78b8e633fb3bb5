// Whether the server behind a mount (FUSE, NFS, ceph, …) is there still. The kernel answers for a dead one out of its
// caches, so Mounts::Find sees nothing of it: the server itself has to be asked, which may hang.
#ifndef MOORING_MANAGER_VOLUMES_SERVER_CHECK_H_
#define MOORING_MANAGER_VOLUMES_SERVER_CHECK_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "mounter/mounter.h"

namespace mooring::manager {

class ServerCheck {
 public:
  explicit ServerCheck(Clock::duration patience = std::chrono::seconds(1));

  // Sets `info.failure` where what is mounted at `path` has a server and that is dead: ENOTCONN, ESTALE and the like.
  // One that says nothing within the patience is slow, and not broken.
  void Check(const std::string& path, PathInfo& info);

 private:
  struct Questions;

  int Ask(const std::string& path);

  const Clock::duration patience_;
  std::shared_ptr<Questions> questions_;  // threads that hang in the kernel outlive this
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_VOLUMES_SERVER_CHECK_H_

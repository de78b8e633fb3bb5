// Checks whether the server behind a mount (FUSE, NFS, ceph, …) still runs. The kernel answers from its caches for a
// dead server, so Mounts::Find does not notice. The check asks the server itself, which may hang.
#pragma once

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

  // Sets `info.failure` if the mount at `path` has a dead server (ENOTCONN, ESTALE and the like). A server that does
  // not answer within `patience` counts as slow, not as dead.
  void Check(const std::string& path, PathInfo& info);

 private:
  struct Queries;

  int Ask(const std::string& path);

  const Clock::duration patience_;
  std::shared_ptr<Queries> queries_;  // shared with threads that hang in the kernel
};

}  // namespace mooring::manager

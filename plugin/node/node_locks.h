// The locks of volumes and of paths on this node. Calls for one volume or one path wait for each other. Other calls run
// in parallel.
//
// It owns the locks of paths. The locks of volumes are shared with the catalog, so no volume is deleted while it is
// staged. ABORTED: another call for the volume or the path is under way until Call::wait_until. UNAVAILABLE: Stop was
// called.
#pragma once

#include <string>
#include <utility>

#include "base/keyed_lock.h"
#include "base/status.h"
#include "plugin/model/call.h"

namespace mooring {

class NodeLocks {
 public:
  explicit NodeLocks(KeyedLocks& volume_locks) : volumes_(volume_locks) {}

  using Among = KeyedLocks::Among;

  absl::StatusOr<KeyedLocks::Hold> AcquireVolume(const std::string& volume_id, const Call& call,
                                                 Among among = Among::kAll) {
    return volumes_.Acquire(volume_id, "volume", call.wait_until, among);
  }

  struct Hold {
    KeyedLocks::Hold volume;
    KeyedLocks::Hold path;
  };
  // The order is fixed, so no call that holds a path waits for a volume.
  absl::StatusOr<Hold> Acquire(const std::string& volume_id, const std::string& path, const Call& call,
                               Among among = Among::kAll) {
    MOORING_ASSIGN_OR_RETURN(KeyedLocks::Hold volume, AcquireVolume(volume_id, call, among));
    MOORING_ASSIGN_OR_RETURN(KeyedLocks::Hold at_path, paths_.Acquire(path, "path", call.wait_until));
    return Hold{std::move(volume), std::move(at_path)};
  }

  // To end a use of this node. It asks nothing of a shared pool, whose server may be dead.
  absl::StatusOr<Hold> AcquireToEnd(const std::string& volume_id, const std::string& path, const Call& call) {
    return Acquire(volume_id, path, call, Among::kThisHost);
  }

  // Ends the waiting for paths, now and later. The owner of the volume locks ends the waiting for volumes.
  void Stop() { paths_.Stop(); }

 private:
  KeyedLocks& volumes_;
  KeyedLocks paths_;
};

}  // namespace mooring

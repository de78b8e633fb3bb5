// The locks of Attachments, in the order in which they are taken: request, claim, attach path.
#pragma once

#include <fmt/format.h>

#include <string>

#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "manager/csi/csi_channel.h"
#include "manager/state/keys.h"

namespace mooring::manager {

// The kinds of keys never collide, because escaped names contain no '/'.
class AttachmentLocks {
 public:
  absl::StatusOr<KeyedLocks::Hold> Request(const std::string& allocation, const std::string& request,
                                           Clock::time_point until) {
    return locks_.Acquire(fmt::format("request/{}/{}", Escape(allocation), Escape(request)), "attachment", until);
  }
  absl::StatusOr<KeyedLocks::Hold> Claim(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                                         Clock::time_point until) {
    return locks_.Acquire("claim/" + ClaimStateKey(volume, mode, allocation), "claim", until);
  }
  absl::StatusOr<KeyedLocks::Hold> AttachPath(const std::string& path, Clock::time_point until) {
    return locks_.Acquire("path" + path, "attach path", until);
  }

  void Stop() { locks_.Stop(Stopping()); }  // waiters, now and later, get CANCELLED

 private:
  KeyedLocks locks_;
};

}  // namespace mooring::manager

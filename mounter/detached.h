// A mount that is not attached anywhere yet: complete it, then attach it. It goes with the object unless it was
// attached.
#ifndef MOORING_MOUNTER_DETACHED_H_
#define MOORING_MOUNTER_DETACHED_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "mounter/target.h"

namespace mooring {

class DetachedMount {
 public:
  explicit DetachedMount(UniqueFd fd) : fd_(std::move(fd)) {}

  // The filesystem on `device`: type, options, and the source for messages, are the request's.
  static absl::StatusOr<DetachedMount> Make(const MountRequest& request, const std::string& device);

  // A copy of the mount under `source`.
  static absl::StatusOr<DetachedMount> Clone(const UniqueFd& source, const std::string& path, bool recursive);

  // Exactly these flags. The mounts below, of a recursive copy, keep theirs and get these in addition.
  absl::Status SetFlags(const MountFlags& flags, bool recursive);
  absl::Status SetPropagation(Propagation propagation, bool recursive);
  absl::Status SetGroup(gid_t group);  // see MountRequest::group

  // At the target, which is made where it is missing and removed again on failure. Propagation is set last: attaching
  // below a shared mount makes a mount shared, and only then has a slave somebody to receive from: its copies there.
  absl::Status Attach(const Target& target, TargetKind kind, Propagation propagation, bool recursive);

  const UniqueFd& fd() const { return fd_; }

 private:
  absl::Status AddFlagsBelow(MountFlags flags);

  UniqueFd fd_;
};

}  // namespace mooring

#endif  // MOORING_MOUNTER_DETACHED_H_

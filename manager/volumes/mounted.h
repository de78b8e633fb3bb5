// Interprets the kernel's answer about a path of a volume.
#pragma once

#include "absl/status/status.h"
#include "base/status.h"
#include "mounter/mounter.h"

namespace mooring::manager {

// A mount whose filesystem no longer answers (ENOTCONN, ESTALE and the like).
inline bool IsBroken(const PathInfo& info) { return info.mount && !info.failure.empty(); }

// A mount, or a device node that a plugin made by mknod(2) instead of a bind mount.
inline bool IsMountOrDevice(const PathInfo& info) { return info.mount || info.kind == PathInfo::Kind::kBlockDevice; }

// Whether two paths lead to the same directory of the same filesystem, or to the same device.
inline bool IsSame(const PathInfo& a, const PathInfo& b) {
  return IsMountOrDevice(a) && IsMountOrDevice(b) && a.kind == b.kind && a.device == b.device &&
         (a.kind == PathInfo::Kind::kBlockDevice || a.inode == b.inode);
}

// RESOURCE_EXHAUSTED is reserved for the plugin, because it marks the volume. A host without room is
// FAILED_PRECONDITION.
inline absl::Status AsHostError(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? WithCode(absl::StatusCode::kFailedPrecondition, status) : status;
}

}  // namespace mooring::manager

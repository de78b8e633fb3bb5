// What the kernel's answer about a path means for a volume.
#ifndef MOORING_MANAGER_VOLUMES_MOUNTED_H_
#define MOORING_MANAGER_VOLUMES_MOUNTED_H_

#include "absl/status/status.h"
#include "base/status.h"
#include "mounter/mounter.h"

namespace mooring::manager {

// ENOTCONN, ESTALE and the like: a mount whose filesystem answers nothing any more.
inline bool IsBroken(const PathInfo& info) { return info.mount && !info.failure.empty(); }

// A mount, or a device node, which some plugins make instead of binding one.
inline bool IsThere(const PathInfo& info) { return info.mount || info.kind == PathInfo::Kind::kBlockDevice; }

// Whether two paths lead to the same directory of the same filesystem, or to the same device.
inline bool IsSame(const PathInfo& a, const PathInfo& b) {
  return IsThere(a) && IsThere(b) && a.kind == b.kind && a.device == b.device &&
         (a.kind == PathInfo::Kind::kBlockDevice || a.inode == b.inode);
}

// RESOURCE_EXHAUSTED is the plugin's, of the volume: what the host has no room for says nothing of that.
inline absl::Status OfThisHost(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? WithCode(absl::StatusCode::kInternal, status) : status;
}

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_VOLUMES_MOUNTED_H_

// The lock of an image file that is attached: another host that mounts the same filesystem cannot attach it as well.
//
// A loop device keeps the open file description that it was given. So a lock of that description, fcntl_locking(2),
// lives as long as the device has the file, whatever becomes of the plugin and its helper. A network filesystem frees
// it when the host is dead. Callers look for a loop device of this host first.
//
// A call that works on an image without a loop device holds the same lock, so that no host attaches it meanwhile.
//
// Images on FUSE, and on filesystems without such locks, are not locked.
//
// The lock is independent of the one that calls hold while they work on the image (mounter/image/image.h).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

enum class ImageAccess { kRead, kWrite };

// Locks the file until all copies of this descriptor are closed, also the loop device's: for kRead together with other
// readers, for kWrite alone. kWrite needs a descriptor that is open for writing. FAILED_PRECONDITION: another holder
// has not gone within half a second, as a device that was just detached does.
absl::Status LockAttachment(const UniqueFd& file, const std::string& path, ImageAccess access);

// The same without waiting. False: another holder, of this host or of another, has the lock.
absl::StatusOr<bool> TryLockAttachment(const UniqueFd& file, const std::string& path, ImageAccess access);

}  // namespace mooring

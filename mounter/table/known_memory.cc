#include "mounter/table/known_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstddef>
#include <map>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "mounter/sys/file_handle.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

struct Memory {
  FileHandle root;
  std::string source;
};

// The kernel uses the lowest free device number for the next tmpfs, so there are not many entries.
struct KnownMemory {
  absl::Mutex mutex;
  std::map<dev_t, Memory> by_device;
};

KnownMemory& Known() {
  static KnownMemory known;
  return known;
}

// The device number. Empty: it is not the root of a mount of a filesystem without a device.
std::optional<dev_t> DeviceOf(const UniqueFd& root) {
  struct statx status = {};
  if (::statx(root.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) != 0) return std::nullopt;
  if ((status.stx_attributes & sys::kStatxAttrMountRoot) == 0 || status.stx_dev_major != 0) return std::nullopt;
  return makedev(status.stx_dev_major, status.stx_dev_minor);
}

}  // namespace

// The file handles of a tmpfs have three words: mm/shmem.c, shmem_encode_fh. statfs(2) would tell for sure, but it may
// hang elsewhere.
bool MayBeMemory(const UniqueFd& place) {
  constexpr int kTypeOfMemory = 1;
  constexpr std::size_t kBytesOfMemory = 12;
  const std::optional<FileHandle> handle = FileHandleOf(place.get());
  return handle && handle->type == kTypeOfMemory && handle->bytes.size() == kBytesOfMemory && DeviceOf(place);
}

void RememberMemory(const UniqueFd& root, const std::string& source) {
  const std::optional<dev_t> device = DeviceOf(root);
  std::optional<FileHandle> handle = FileHandleOf(root.get());
  if (!device || !handle) return;
  const absl::MutexLock lock(&Known().mutex);
  Known().by_device[*device] = {*std::move(handle), source};
}

std::optional<std::string> RecallMemory(const UniqueFd& place) {
  const std::optional<dev_t> device = DeviceOf(place);
  if (!device) return std::nullopt;
  const absl::MutexLock lock(&Known().mutex);
  const auto found = Known().by_device.find(*device);
  if (found == Known().by_device.end() || FileHandleOf(place.get()) != found->second.root) return std::nullopt;
  return found->second.source;
}

}  // namespace mooring

#include "mounter/sys/file_handle.h"

#include <fcntl.h>

#include <array>

namespace mooring {

std::optional<FileHandle> FileHandleOf(int place) {
  alignas(file_handle) std::array<char, sizeof(file_handle) + MAX_HANDLE_SZ> room = {};
  auto* const handle = reinterpret_cast<file_handle*>(room.data());
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mount_id = 0;
  if (::name_to_handle_at(place, "", handle, &mount_id, AT_EMPTY_PATH) != 0) return std::nullopt;
  return FileHandle{handle->handle_type, std::string(room.data() + sizeof(file_handle), handle->handle_bytes)};
}

}  // namespace mooring

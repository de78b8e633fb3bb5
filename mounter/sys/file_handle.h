// The identity of a file within its filesystem, name_to_handle_at(2).
#pragma once

#include <optional>
#include <string>

namespace mooring {

struct FileHandle {
  int type = 0;       // each kind of filesystem has its own
  std::string bytes;  // most filesystems add a random number, so that a new file with the inode of an old one differs
  friend bool operator==(const FileHandle&, const FileHandle&) = default;
};

// `place`: an open file or directory, also O_PATH. Empty: the filesystem has no handles. It asks no server of a FUSE or
// NFS mount, which may hang.
std::optional<FileHandle> FileHandleOf(int place);

}  // namespace mooring

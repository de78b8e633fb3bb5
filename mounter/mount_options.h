// Mount options as types. A mount flag from outside is looked up in a table; what is not in the table does not exist,
// so no option can name another file, device, mount or security context.
#ifndef MOORING_MOUNTER_MOUNT_OPTIONS_H_
#define MOORING_MOUNTER_MOUNT_OPTIONS_H_

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

enum class Atime { kRelatime, kNoatime, kStrictatime };

// Of one mount, mount_setattr(2).
struct MountFlags {
  bool read_only = false;
  bool nosuid = false;
  bool nodev = false;
  bool noexec = false;
  bool nodiratime = false;
  Atime atime = Atime::kRelatime;

  auto operator<=>(const MountFlags&) const = default;
};

std::string ToString(const MountFlags& flags);  // "ro,nosuid,relatime"

// Of the filesystem, shared by all its mounts: ext4(5), xfs(5), btrfs(5).
struct FilesystemOption {
  std::string key;
  std::optional<std::string> value;  // absent for a flag

  auto operator<=>(const FilesystemOption&) const = default;
};

std::string ToString(const std::vector<FilesystemOption>& options);  // "discard,commit=30"; "defaults" when empty

struct MountOptions {
  MountFlags flags;
  std::vector<FilesystemOption> options;  // sorted, each key once

  auto operator<=>(const MountOptions&) const = default;
};

// Each element is one option or several with commas, as orchestrators send both. Unknown, repeated with another value,
// contradicting another one, or out of range: INVALID_ARGUMENT, with what is allowed for `fs_type`. The value of a
// refused option is not repeated: mount flags may be sensitive.
absl::StatusOr<MountOptions> ParseMountFlags(std::string_view fs_type, const std::vector<std::string>& mount_flags);

// The table as options: every flag, every word, both ends of every range.
std::vector<FilesystemOption> AllowedOptions(std::string_view fs_type);

// True for what the table allows for `fs_type`; the side that mounts asks again.
bool IsAllowed(std::string_view fs_type, const FilesystemOption& option);

}  // namespace mooring

#endif  // MOORING_MOUNTER_MOUNT_OPTIONS_H_

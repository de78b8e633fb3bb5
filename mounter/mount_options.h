// Mount options as types. A mount flag from outside has to be in one of two tables: mount_flags.h has those of the
// mount, option_rules.h those of the filesystem. So no option can name another file, device or mount.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mount_flags.h"

namespace mooring {

// The filesystem of an export that Mooring mounts. The volumes in it have the type of their backend, "nfs".
inline constexpr std::string_view kNfsFsType = "nfs4";

// An option of the filesystem, shared by all its mounts: ext4(5), xfs(5), btrfs(5).
struct FilesystemOption {
  std::string key;
  std::optional<std::string> value;  // absent for a flag

  auto operator<=>(const FilesystemOption&) const = default;
};

std::string ToString(const std::vector<FilesystemOption>& options);  // "discard,commit=30"; "defaults" when empty

struct MountOptions {
  MountFlags flags;
  std::vector<FilesystemOption> options;       // sorted, each key once
  std::vector<FilesystemOption> of_pool = {};  // the pool of an NFS volume has them or not: they set nothing

  auto operator<=>(const MountOptions&) const = default;
};

// Each element is one option or several with commas, as orchestrators send both. Words that have no effect on a volume,
// or are for readers of fstab (mount_words.h), are left out. INVALID_ARGUMENT, with the options
// that `fs_type` allows: an option is unknown, is repeated with another value, contradicts another one, or is out of
// range. The message leaves the value of a refused option out, because mount flags may be sensitive.
absl::StatusOr<MountOptions> ParseMountFlags(std::string_view fs_type, const std::vector<std::string>& mount_flags);

// Whether there is a table of the options of this filesystem: ext4, xfs, btrfs and tmpfs.
bool HasOptionTable(std::string_view fs_type);

// The options of a filesystem without a table, from a person at the command line. A word that is no flag of
// the mount goes to the filesystem as it is, in the given order. INVALID_ARGUMENT: it would make mount(8) do something
// else than mount a filesystem (IsAnotherOrder).
absl::StatusOr<MountOptions> ParseForeignOptions(const std::vector<std::string>& mount_flags);

// Whether each filesystem has this option: sync, and the like, and the labels of SELinux.
bool IsCommonOption(const FilesystemOption& option);

// The table of the filesystem as options: every flag, every word, both ends of every range.
std::vector<FilesystemOption> AllowedOptions(std::string_view fs_type);

// Whether it is a label of SELinux: context, fscontext, defcontext or rootcontext.
bool IsLabelOption(std::string_view name);

// True where the table allows the option for `fs_type`. The mount helper asks again.
bool IsAllowed(std::string_view fs_type, const FilesystemOption& option);

}  // namespace mooring

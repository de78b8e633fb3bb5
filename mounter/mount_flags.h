// The flags of one mount, mount_setattr(2). MountFlagTable has one row per flag. All code that parses, prints, sends,
// sets, compares or merges flags goes over it. mounter/README.md says how to add a flag.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mooring {

enum class Atime { kRelatime, kNoatime, kStrictatime };

struct MountFlags {
  bool read_only = false;
  bool nosuid = false;
  bool nodev = false;
  bool noexec = false;
  bool nodiratime = false;
  bool nosymfollow = false;
  Atime atime = Atime::kRelatime;

  auto operator<=>(const MountFlags&) const = default;
};

struct MountFlagRow {
  std::string_view word;          // sets it; mount(8), and the kernel's word in mountinfo
  std::string_view opposite;      // clears it; for access times the default, relatime, comes back
  std::uint64_t attribute;        // MOUNT_ATTR_*: mount_setattr(2), statmount(2), proto/mounter.proto
  std::uint64_t mask;             // the attributes that it stands for or excludes
  std::uint64_t statfs;           // ST_*, statfs(2); 0: strictatime, the absence of others
  bool MountFlags::*member;       // null for access times: the row then stands for `atime`
  Atime atime;                    // meaningful without a member only
  std::string_view command_line;  // as `mooring doctor` prints it for `mooring mount bind`; empty: the default
};

std::span<const MountFlagRow> MountFlagTable();

bool IsSet(const MountFlags& flags, const MountFlagRow& row);
void Set(MountFlags& flags, const MountFlagRow& row);

// Applies a word or an opposite of the table, or "defaults", which changes nothing. False: the word is none of these.
bool ApplyMountFlag(std::string_view word, MountFlags& flags);

std::string ToString(const MountFlags& flags);  // "ro,nosuid,relatime"

// MOUNT_ATTR_*: those that are set, and all that Mooring knows, for mount_attr::attr_clr.
std::uint64_t AttributesOf(const MountFlags& flags);
std::uint64_t KnownAttributes();
MountFlags FlagsOfAttributes(std::uint64_t attributes);  // ignores unknown ones

// The flags in statfs::f_flags, statfs(2). `read_only` is also set if only the superblock is.
MountFlags FlagsOfStatfs(std::uint64_t flags);

// Whether the words, with commas between them, contain this one.
bool HasWord(std::string_view options, std::string_view word);

// The sixth field of mountinfo, proc(5): "rw,nosuid,relatime". Without a word for access times they are strictatime.
MountFlags FlagsOfMountInfo(std::string_view options);

// Everything that `base` or `asked` forbids is forbidden. Access times are no restriction: those of `asked` count, and
// those of `base` if `asked` has relatime.
MountFlags Stricter(const MountFlags& base, const MountFlags& asked);

}  // namespace mooring

// The flags of one mount, mount_setattr(2). MountFlagTable has one row per flag. All code that parses, prints, sends,
// sets, compares or merges flags goes over it. To add a flag: a member of MountFlags, a row, and a line in
// docs/parameters.md.
#ifndef MOORING_MOUNTER_MOUNT_FLAGS_H_
#define MOORING_MOUNTER_MOUNT_FLAGS_H_

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
  Atime atime = Atime::kRelatime;

  auto operator<=>(const MountFlags&) const = default;
};

struct MountFlagRow {
  std::string_view word;          // sets it; mount(8), and the kernel's word in mountinfo
  std::string_view opposite;      // clears it; empty: another word for access times does
  std::uint64_t attribute;        // MOUNT_ATTR_*: mount_setattr(2), statmount(2), proto/mounter.proto
  std::uint64_t mask;             // the attributes that it stands for or excludes
  bool MountFlags::*member;       // null: it is the value `atime` of MountFlags::atime
  Atime atime;                    // meaningful without a member only
  std::string_view command_line;  // of `mooring mount bind`; empty: the default there
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

// The sixth field of mountinfo, proc(5): "rw,nosuid,relatime". Without a word for access times they are strictatime.
MountFlags FlagsOfMountInfo(std::string_view options);

// Everything that `base` or `asked` forbids is forbidden. Access times restrict nobody: `asked` decides, or `base`
// where `asked` has the default.
MountFlags Stricter(const MountFlags& base, const MountFlags& asked);

}  // namespace mooring

#endif  // MOORING_MOUNTER_MOUNT_FLAGS_H_

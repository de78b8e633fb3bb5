#include "mounter/mount_flags.h"

#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <array>

namespace mooring {
namespace {

constexpr MountFlagRow Flag(std::string_view word, std::string_view opposite, std::uint64_t attribute,
                            std::uint64_t statfs, bool MountFlags::*member, std::string_view command_line) {
  return {word, opposite, attribute, attribute, statfs, member, Atime::kRelatime, command_line};
}

constexpr MountFlagRow AccessTimes(std::string_view word, std::string_view opposite, std::uint64_t attribute,
                                   std::uint64_t statfs, Atime atime, std::string_view command_line) {
  return {word, opposite, attribute, MOUNT_ATTR__ATIME, statfs, nullptr, atime, command_line};
}

constexpr std::uint64_t kStatfsNosymfollow = 0x2000;  // since Linux 5.10; glibc has no name for it

// In the order in which mountinfo prints them, so that ToString equals the kernel's text.
constexpr std::array kTable = {
    Flag("ro", "rw", MOUNT_ATTR_RDONLY, ST_RDONLY, &MountFlags::read_only, "--read-only"),
    Flag("nosuid", "suid", MOUNT_ATTR_NOSUID, ST_NOSUID, &MountFlags::nosuid, "--nosuid"),
    Flag("nodev", "dev", MOUNT_ATTR_NODEV, ST_NODEV, &MountFlags::nodev, "--nodev"),
    Flag("noexec", "exec", MOUNT_ATTR_NOEXEC, ST_NOEXEC, &MountFlags::noexec, "--noexec"),
    Flag("nodiratime", "diratime", MOUNT_ATTR_NODIRATIME, ST_NODIRATIME, &MountFlags::nodiratime,
         "--option nodiratime"),
    AccessTimes("relatime", "norelatime", MOUNT_ATTR_RELATIME, ST_RELATIME, Atime::kRelatime, ""),
    AccessTimes("noatime", "atime", MOUNT_ATTR_NOATIME, ST_NOATIME, Atime::kNoatime, "--noatime"),
    AccessTimes("strictatime", "nostrictatime", MOUNT_ATTR_STRICTATIME, 0, Atime::kStrictatime, "--option strictatime"),
    Flag("nosymfollow", "symfollow", MOUNT_ATTR_NOSYMFOLLOW, kStatfsNosymfollow, &MountFlags::nosymfollow,
         "--option nosymfollow"),
};

void Clear(MountFlags& flags, const MountFlagRow& row) {
  if (row.member != nullptr) {
    flags.*row.member = false;
  } else if (flags.atime == row.atime) {
    flags.atime = Atime::kRelatime;
  }
}

}  // namespace

std::span<const MountFlagRow> MountFlagTable() { return kTable; }

bool IsSet(const MountFlags& flags, const MountFlagRow& row) {
  return row.member != nullptr ? flags.*row.member : flags.atime == row.atime;
}

void Set(MountFlags& flags, const MountFlagRow& row) {
  if (row.member != nullptr) {
    flags.*row.member = true;
  } else {
    flags.atime = row.atime;
  }
}

bool ApplyMountFlag(std::string_view word, MountFlags& flags) {
  for (const MountFlagRow& row : kTable) {
    if (word == row.word) {
      Set(flags, row);
      return true;
    }
    if (word == row.opposite) {
      Clear(flags, row);
      return true;
    }
  }
  return word == "defaults";
}

std::string ToString(const MountFlags& flags) {
  std::string text = flags.read_only ? "" : "rw";
  for (const MountFlagRow& row : kTable) {
    if (!IsSet(flags, row)) continue;
    text += text.empty() ? "" : ",";
    text += row.word;
  }
  return text;
}

std::uint64_t AttributesOf(const MountFlags& flags) {
  std::uint64_t attributes = 0;
  for (const MountFlagRow& row : kTable) attributes |= IsSet(flags, row) ? row.attribute : 0;
  return attributes;
}

std::uint64_t KnownAttributes() {
  std::uint64_t attributes = 0;
  for (const MountFlagRow& row : kTable) attributes |= row.mask;
  return attributes;
}

MountFlags FlagsOfAttributes(std::uint64_t attributes) {
  MountFlags flags;
  for (const MountFlagRow& row : kTable) {
    if ((attributes & row.mask) == row.attribute) Set(flags, row);
  }
  return flags;
}

MountFlags FlagsOfStatfs(std::uint64_t flags) {
  MountFlags result = {.atime = Atime::kStrictatime};
  for (const MountFlagRow& row : kTable) {
    if ((flags & row.statfs) != 0) Set(result, row);
  }
  return result;
}

bool HasWord(std::string_view options, std::string_view word) {
  return fmt::format(",{},", options).find(fmt::format(",{},", word)) != std::string::npos;
}

MountFlags FlagsOfMountInfo(std::string_view options) {
  MountFlags flags = {.atime = Atime::kStrictatime};
  for (const MountFlagRow& row : kTable) {
    if (HasWord(options, row.word)) Set(flags, row);
  }
  return flags;
}

MountFlags Stricter(const MountFlags& base, const MountFlags& asked) {
  MountFlags flags = asked;
  for (const MountFlagRow& row : kTable) {
    if (row.member != nullptr && IsSet(base, row)) Set(flags, row);
  }
  if (asked.atime == Atime::kRelatime) flags.atime = base.atime;
  return flags;
}

}  // namespace mooring

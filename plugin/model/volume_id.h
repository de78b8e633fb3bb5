// The ids of volumes, snapshots and groups of snapshots. The plugin makes them, so that no text from an orchestrator
// becomes part of a path.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/host.h"

namespace mooring {

inline constexpr std::string_view kVolumeIdPrefix = "vol-";
inline constexpr std::size_t kVolumeIdBytes = 16;  // random
inline constexpr std::size_t kPoolTagBytes = 4;    // of the random tag of a shared pool

inline constexpr std::string_view kSnapshotIdPrefix = "snap-";
inline constexpr std::string_view kGroupIdPrefix = "group-";

// The id of something in a shared pool has the tag of the pool, "vol-<tag>-<24 digits>". So every host knows from the
// id alone where its record is.
inline std::string NewIdWith(std::string_view prefix, std::string_view tag) {
  std::string id(prefix);
  if (tag.empty()) return id + RandomHex(kVolumeIdBytes);
  return id.append(tag).append("-") + RandomHex(kVolumeIdBytes - kPoolTagBytes);
}
inline std::string NewVolumeId(std::string_view tag = {}) { return NewIdWith(kVolumeIdPrefix, tag); }
inline std::string NewSnapshotId(std::string_view tag = {}) { return NewIdWith(kSnapshotIdPrefix, tag); }
inline std::string NewGroupId(std::string_view tag = {}) { return NewIdWith(kGroupIdPrefix, tag); }

inline bool AreHexDigits(std::string_view text, std::size_t bytes) {
  return text.size() == 2 * bytes && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The tag in the part of an id behind its prefix. Empty: it has none.
inline std::string_view TagInDigits(std::string_view digits) {
  constexpr std::size_t kTag = 2 * kPoolTagBytes;
  const bool has_tag = digits.size() > kTag && digits[kTag] == '-' &&
                       AreHexDigits(digits.substr(0, kTag), kPoolTagBytes) &&
                       AreHexDigits(digits.substr(kTag + 1), kVolumeIdBytes - kPoolTagBytes);
  return has_tag ? digits.substr(0, kTag) : std::string_view();
}

// The prefix and 32 lower-case hexadecimal digits, or such digits with the tag of a shared pool. Nothing else.
inline bool IsIdWith(std::string_view prefix, std::string_view id) {
  if (!id.starts_with(prefix)) return false;
  const std::string_view digits = id.substr(prefix.size());
  return AreHexDigits(digits, kVolumeIdBytes) || !TagInDigits(digits).empty();
}

// The tag of the shared pool that a volume, snapshot or group lies in. Empty: it lies in no shared pool.
inline std::string_view TagOfId(std::string_view id) {
  for (const std::string_view prefix : {kVolumeIdPrefix, kSnapshotIdPrefix, kGroupIdPrefix}) {
    if (id.starts_with(prefix)) return TagInDigits(id.substr(prefix.size()));
  }
  return {};
}

// For ephemeral volumes. Kubelet uses csi- and 64 hexadecimal digits; any id with this prefix is accepted.
inline constexpr std::string_view kEphemeralIdPrefix = "csi-";
inline bool IsEphemeralId(std::string_view id) { return id.starts_with(kEphemeralIdPrefix); }

inline bool IsVolumeId(std::string_view id) { return IsIdWith(kVolumeIdPrefix, id); }
inline bool IsSnapshotId(std::string_view id) { return IsIdWith(kSnapshotIdPrefix, id); }
inline bool IsGroupId(std::string_view id) { return IsIdWith(kGroupIdPrefix, id); }
// Whether it may have files in a pool.
inline bool IsStoredId(std::string_view id) { return IsVolumeId(id) || IsSnapshotId(id); }

// The id in the name of a pool's file, which is the id with `suffix`. Empty: the file has another name.
inline std::string IdOfFile(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return "";
  name.remove_suffix(suffix.size());
  return IsStoredId(name) ? std::string(name) : "";
}

}  // namespace mooring

// The ids of volumes, snapshots and groups of snapshots. The plugin makes them, so that no text from an orchestrator
// becomes part of a path.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/host.h"

namespace mooring {

inline constexpr std::string_view kVolumeIdPrefix = "vol-";
inline constexpr std::size_t kVolumeIdBytes = 16;

inline constexpr std::string_view kSnapshotIdPrefix = "snap-";
inline constexpr std::string_view kGroupIdPrefix = "group-";

inline std::string NewVolumeId() { return std::string(kVolumeIdPrefix) + RandomHex(kVolumeIdBytes); }
inline std::string NewSnapshotId() { return std::string(kSnapshotIdPrefix) + RandomHex(kVolumeIdBytes); }
inline std::string NewGroupId() { return std::string(kGroupIdPrefix) + RandomHex(kVolumeIdBytes); }

// The prefix and 32 lower-case hexadecimal digits, nothing else.
inline bool IsIdWith(std::string_view prefix, std::string_view id) {
  if (!id.starts_with(prefix)) return false;
  const std::string_view digits = id.substr(prefix.size());
  return digits.size() == 2 * kVolumeIdBytes && digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
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

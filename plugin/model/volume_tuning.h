// The settings of a volume. These can change while it is in use, the mutable parameters of CSI:
//
//   readAhead   the read-ahead of its loop device
//   noatime     its mounts have noatime, whatever their mount flags are
//
// VolumeMaking and `idmap` never change.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/format_options.h"
#include "mounter/mount_options.h"
#include "mounter/mounter.h"
#include "plugin/model/backend_traits.h"

namespace mooring {

// The properties that a volume gets once, when it is formatted or first mounted: parameters of CreateVolume.
//
//   uid, gid, mode     of its root directory
//   inodeSize, …       options of mkfs (mounter/format_options.h)
struct VolumeMaking {
  NewRoot root = {};
  FormatOptions format = {};

  bool operator==(const VolumeMaking&) const = default;
};

// False: the key is none of these parameters. INVALID_ARGUMENT names the key, and says which values it takes.
absl::StatusOr<bool> SetMaking(const std::string& key, const std::string& value, VolumeMaking& making);

// INVALID_ARGUMENT: the filesystem does not take the options.
absl::Status CheckMaking(const VolumeMaking& making, std::string_view fs_type);

std::string MakingKeys();  // "uid, gid, mode, inodeSize, …", for messages

// "uid=1000 mode=0750 inodeSize=512", for records and messages; empty: all defaults.
std::string ToText(const VolumeMaking& making);
std::string MakingText(const VolumeMaking& making);  // for messages: ToText, or "the default owner and format"

struct VolumeTuning {
  std::uint64_t read_ahead_bytes = 0;  // 0: the kernel's default
  bool noatime = false;
  VolumeMaking making = {};
  std::string idmap = {};  // of its mounts at targets: mounter/id_mappings.h; empty: none

  bool operator==(const VolumeTuning&) const = default;
};

// The settings that a request names; the others stay.
struct TuningChange {
  std::optional<std::uint64_t> read_ahead_bytes = std::nullopt;
  std::optional<bool> noatime = std::nullopt;
};

// INVALID_ARGUMENT: a key is unknown, or its value is wrong; the error names the key.
absl::StatusOr<TuningChange> ParseTuning(const std::map<std::string, std::string>& mutable_parameters);

VolumeTuning With(VolumeTuning tuning, const TuningChange& change);

// INVALID_ARGUMENT: volumes of this kind do not have the setting.
absl::Status CheckPossible(const TuningChange& change, const BackendTraits& traits);

// The text for records; empty: all defaults. TuningIn skips unknown words.
std::string ToText(const VolumeTuning& tuning);
VolumeTuning TuningIn(const std::string& text);

// The flags of a mount of the volume, for the requested flags `asked`.
MountFlags Tuned(MountFlags asked, const VolumeTuning& tuning);

}  // namespace mooring

// The settings of a volume. These can change while it is in use, the mutable parameters of CSI:
//
//   readAhead   the read-ahead of its loop device
//   noatime     its mounts have noatime, whatever their mount flags are
//
// The settings of volume_making.h never change.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mount_options.h"
#include "plugin/model/backend_traits.h"
#include "plugin/model/volume_making.h"

namespace mooring {

struct VolumeTuning {
  std::uint64_t read_ahead_bytes = 0;  // 0: the kernel's default
  bool noatime = false;
  VolumeMaking making = {};

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

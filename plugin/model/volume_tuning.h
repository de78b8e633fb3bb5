// What of a volume can be another way while it is in use: CSI's mutable parameters.
//
//   readAhead   how far the kernel reads ahead of a reader, of its loop device
//   noatime     its mounts write down no times of access, whatever their mount flags say
#ifndef MOORING_PLUGIN_MODEL_VOLUME_TUNING_H_
#define MOORING_PLUGIN_MODEL_VOLUME_TUNING_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mount_options.h"
#include "plugin/model/backend_traits.h"

namespace mooring {

struct VolumeTuning {
  std::uint64_t read_ahead_bytes = 0;  // 0: as new devices have it
  bool noatime = false;

  bool operator==(const VolumeTuning&) const = default;
};

// What a request names; the rest stays.
struct TuningChange {
  std::optional<std::uint64_t> read_ahead_bytes = std::nullopt;
  std::optional<bool> noatime = std::nullopt;
};

// INVALID_ARGUMENT names the key that is unknown, or whose value is none.
absl::StatusOr<TuningChange> ParseTuning(const std::map<std::string, std::string>& mutable_parameters);

VolumeTuning With(VolumeTuning tuning, const TuningChange& change);

// INVALID_ARGUMENT: volumes of this kind have nothing to change there.
absl::Status CheckPossible(const TuningChange& change, BackendKind kind);

// For the records; empty: nothing was ever changed. What is unknown in it is left out.
std::string ToText(const VolumeTuning& tuning);
VolumeTuning TuningIn(const std::string& text);

// The flags of a mount of the volume for which `asked` was asked.
MountFlags Tuned(MountFlags asked, const VolumeTuning& tuning);

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_VOLUME_TUNING_H_

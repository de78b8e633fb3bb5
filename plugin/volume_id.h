// The ids of volumes: the plugin's own, so that nothing an orchestrator sends ever becomes part of a path.
#ifndef MOORING_PLUGIN_VOLUME_ID_H_
#define MOORING_PLUGIN_VOLUME_ID_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "base/host.h"

namespace mooring {

inline constexpr std::string_view kVolumeIdPrefix = "vol-";
inline constexpr std::size_t kVolumeIdBytes = 16;

inline std::string NewVolumeId() { return std::string(kVolumeIdPrefix) + RandomHex(kVolumeIdBytes); }

// "vol-" and 32 lower-case hexadecimal digits, nothing else. Whatever is not one of ours is an unknown volume.
inline bool IsVolumeId(std::string_view id) {
  if (!id.starts_with(kVolumeIdPrefix)) return false;
  const std::string_view digits = id.substr(kVolumeIdPrefix.size());
  return digits.size() == 2 * kVolumeIdBytes && digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace mooring

#endif  // MOORING_PLUGIN_VOLUME_ID_H_

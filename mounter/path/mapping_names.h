// The names of encrypted volumes: their mappings and the UUIDs of their headers.
#pragma once

#include <string>
#include <string_view>

namespace mooring {

inline constexpr std::string_view kMappingPrefix = "mooring-";

// Below /dev/mapper: "mooring-vol-<digits>". `id`: of a volume or snapshot.
inline std::string MappingName(std::string_view id) { return std::string(kMappingPrefix).append(id); }

inline std::string MappingPath(std::string_view id) { return "/dev/mapper/" + MappingName(id); }

// The 32 hexadecimal digits of an id, in the form of a UUID. Empty: `id` is no id of a volume or snapshot.
std::string HeaderUuid(std::string_view id);

}  // namespace mooring

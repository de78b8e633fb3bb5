// The tags of Mooring's logical volumes, which say all that is known of them beside their names and sizes.
//
// kLvmClearedTag is only the start of a tag: a number of bytes follows. A thick volume that is a raw device has it. If
// somebody else enlarges the volume, or a growth is interrupted, the number is less than the size. Then the volume
// shows what deleted volumes held, and the next growth clears the rest.
#pragma once

#include <string_view>

namespace mooring {

inline constexpr std::string_view kLvmTag = "mooring";                  // each volume and snapshot has it
inline constexpr std::string_view kLvmNewTag = "mooring_new";           // not finished, and holds no data
inline constexpr std::string_view kLvmRawTag = "mooring_raw";           // LogicalVolume::is_raw
inline constexpr std::string_view kLvmClearedTag = "mooring_cleared_";  // so many bytes from its start are cleared

}  // namespace mooring

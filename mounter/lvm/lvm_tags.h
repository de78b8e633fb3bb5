// The tags of Mooring's logical volumes, which say all that is known of them beside their names and sizes.
//
// kLvmClearedTag is only the start of a tag: a number of bytes follows. A thick volume that is a raw device has it. If
// the number is less than the size, the volume may show what deleted volumes held. With kLvmGrowingTag a growth was
// interrupted, nobody has had the new part, and the next growth clears it. Without that tag somebody else has enlarged
// the volume, and tasks may have written there.
#pragma once

#include <string_view>

namespace mooring {

inline constexpr std::string_view kLvmTag = "mooring";                  // each volume and snapshot has it
inline constexpr std::string_view kLvmNewTag = "mooring_new";           // not finished, and holds no data
inline constexpr std::string_view kLvmRawTag = "mooring_raw";           // LogicalVolume::is_raw
inline constexpr std::string_view kLvmGrowingTag = "mooring_growing";   // a growth of Mooring has begun
inline constexpr std::string_view kLvmClearedTag = "mooring_cleared_";  // so many bytes from its start are cleared

}  // namespace mooring

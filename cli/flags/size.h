// Sizes as people write and read them.
#ifndef MOORING_CLI_FLAGS_SIZE_H_
#define MOORING_CLI_FLAGS_SIZE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/text/size.h"

namespace mooring::cli {

using mooring::ParseSize;

// "1.0 GiB (1073741824)"; "512 B" below 1 KiB. Cut, not rounded, after one decimal place: never more than there is.
std::string FormatSize(std::int64_t bytes);

}  // namespace mooring::cli

#endif  // MOORING_CLI_FLAGS_SIZE_H_

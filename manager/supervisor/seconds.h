// Durations in messages.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "manager/csi/csi_channel.h"

namespace mooring::manager {

// "12 s"; a negative duration is "0 s".
inline std::string Seconds(Clock::duration time) {
  return fmt::format("{} s", std::max<std::int64_t>(0, std::chrono::round<std::chrono::seconds>(time).count()));
}

}  // namespace mooring::manager

// The error of a flag with a wrong value.
#ifndef MOORING_PLUGIN_CONFIG_WRONG_FLAG_H_
#define MOORING_PLUGIN_CONFIG_WRONG_FLAG_H_

#include <fmt/format.h>

#include <string_view>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {

// INVALID_ARGUMENT: "--mode 'x': use node, controller or monolith".
inline absl::Status WrongFlag(std::string_view flag, std::string_view value, std::string_view rule) {
  return InvalidArgument(fmt::format("{} {}: {}", flag, Quote(value), rule));
}

}  // namespace mooring

#endif  // MOORING_PLUGIN_CONFIG_WRONG_FLAG_H_

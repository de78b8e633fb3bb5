// Whole numbers in texts.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace mooring {

// Empty: the text is not only the decimal digits of a number, or the number does not fit. A "-" is allowed in front if
// the type has a sign. For a floating type the text is what std::from_chars takes, also "inf".
template <typename Number>
std::optional<Number> ParseWhole(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace mooring

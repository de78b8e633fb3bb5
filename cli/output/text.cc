#include "cli/output/text.h"

#include <algorithm>

namespace mooring::cli {

std::size_t Width(std::string_view text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins));
}

}  // namespace mooring::cli

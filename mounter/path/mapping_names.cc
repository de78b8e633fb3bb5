#include "mounter/path/mapping_names.h"

#include <cstddef>

namespace mooring {

std::string HeaderUuid(std::string_view id) {
  constexpr std::size_t kDigits = 32;
  std::string_view rest;
  for (const std::string_view prefix : {std::string_view("vol-"), std::string_view("snap-")}) {
    if (id.starts_with(prefix)) rest = id.substr(prefix.size());
  }
  std::string digits(rest);
  constexpr std::size_t kTag = 8;  // of a shared pool
  if (digits.size() == kDigits + 1 && digits[kTag] == '-') digits.erase(kTag, 1);
  if (digits.find_first_not_of("0123456789abcdef") != std::string::npos) return "";
  if (digits.size() != kDigits) return "";
  for (const std::size_t at : {20, 16, 12, 8}) digits.insert(at, "-");
  return digits;
}

}  // namespace mooring

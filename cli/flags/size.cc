#include "cli/flags/size.h"

#include <fmt/format.h>

namespace mooring::cli {
namespace {

constexpr std::string_view kPrefixes = "KMGTPE";

std::int64_t Power(std::size_t exponent) { return std::int64_t{1} << (10 * exponent); }  // of 1024

}  // namespace

std::string FormatSize(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);  // a negative one is the driver's mistake: shown as it is
  std::size_t prefix = 0;
  while (prefix + 1 < kPrefixes.size() && bytes / Power(prefix + 2) > 0) ++prefix;
  const auto unit = static_cast<std::uint64_t>(Power(prefix + 1));
  const auto value = static_cast<std::uint64_t>(bytes);
  return fmt::format("{}.{} {}iB ({})", value / unit, value % unit * 10 / unit, kPrefixes[prefix], bytes);
}

}  // namespace mooring::cli

#include "base/text/size.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>
#include <system_error>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

constexpr std::string_view kPrefixes = "KMGTPE";

// 1024^n or 1000^n; n is at most 6, so both fit.
std::int64_t Power(std::int64_t base, std::size_t exponent) {
  std::int64_t power = 1;
  for (std::size_t i = 0; i < exponent; ++i) power *= base;
  return power;
}

// The number of bytes of a unit: "", "B", "KiB", "Ki", "kB", "K", …
std::optional<std::int64_t> UnitBytes(std::string_view unit) {
  if (unit.empty() || unit == "B") return 1;
  const std::size_t prefix = kPrefixes.find(unit[0] == 'k' ? 'K' : unit[0]);
  const std::string_view rest = unit.substr(1);
  if (prefix == std::string_view::npos) return std::nullopt;
  if (rest == "iB" || rest == "i") return unit[0] == 'k' ? std::nullopt : std::optional(Power(1024, prefix + 1));
  if (rest.empty() || rest == "B") return Power(1000, prefix + 1);
  return std::nullopt;
}

constexpr std::int64_t kLeastWithoutUnit = 1 << 20;

absl::Status BadSize(std::string_view text, std::string_view why) {
  return InvalidArgument(
      "{} {}: write a whole number and a unit, as 512MiB or 10GiB (units: B, KiB, MiB, GiB, TiB, PiB, EiB; or kB, MB, "
      "GB, TB, PB, EB, powers of 1000)",
      Quote(text), why);
}

}  // namespace

absl::StatusOr<std::int64_t> ParseSize(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::result_out_of_range) return BadSize(text, "is more than 2^63 - 1 bytes");
  if (error != std::errc() || text[0] == '-') return BadSize(text, "is not a size");
  const std::string_view word(stop, static_cast<std::size_t>(end - stop));
  const std::optional<std::int64_t> unit = UnitBytes(word);
  if (!unit) return BadSize(text, "is not a whole number and a unit");
  if (word.empty() && number != 0 && number < kLeastWithoutUnit) return BadSize(text, "has no unit, and is few bytes");
  if (number > std::numeric_limits<std::int64_t>::max() / *unit) return BadSize(text, "is more than 2^63 - 1 bytes");
  return number * *unit;
}

std::string FormatSize(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);  // a negative size is the driver's mistake: show it unchanged
  std::size_t exponent = 1;
  while (exponent < kPrefixes.size() && bytes / Power(1024, exponent + 1) > 0) ++exponent;
  const auto unit = static_cast<std::uint64_t>(Power(1024, exponent));
  const auto value = static_cast<std::uint64_t>(bytes);
  return fmt::format("{}.{} {}iB ({})", value / unit, value % unit * 10 / unit, kPrefixes[exponent - 1], bytes);
}

std::string FormatKnownSize(std::int64_t bytes) { return bytes == 0 ? "unknown" : FormatSize(bytes); }

std::string SizeText(std::uint64_t bytes) {
  for (const std::size_t exponent : {4U, 3U, 2U}) {
    const auto unit = static_cast<std::uint64_t>(Power(1024, exponent));
    if (bytes != 0 && bytes % unit == 0) return fmt::format("{} {}iB", bytes / unit, kPrefixes[exponent - 1]);
  }
  return fmt::format("{} bytes", bytes);
}

}  // namespace mooring

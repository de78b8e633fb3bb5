#include "cli/flags/flag_values.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/size.h"
#include "base/text/whole_number.h"

namespace mooring::cli {
namespace {

template <typename Number>
absl::StatusOr<Number> ParsePositive(const std::string& text) {
  const std::optional<Number> number = ParseWhole<Number>(text);
  if (number && *number > 0) return *number;
  return InvalidArgument(Quote(text) + " is not a whole number above 0");
}

}  // namespace

absl::StatusOr<Duration> ParseSeconds(const std::string& text) {
  constexpr double kLongest = 24 * 60 * 60;
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seconds, std::chars_format::fixed);
  if (error != std::errc() || stop != end || !(seconds > 0 && seconds <= kLongest)) {
    return InvalidArgument(Quote(text) + " is not a number of seconds above 0, at most 86400");
  }
  return Duration(static_cast<Duration::rep>(std::ceil(seconds * 1000)));
}

absl::StatusOr<std::int32_t> ParseCount(const std::string& text) { return ParsePositive<std::int32_t>(text); }

absl::StatusOr<std::int64_t> ParseRevision(const std::string& text) { return ParsePositive<std::int64_t>(text); }

absl::StatusOr<std::uint32_t> ParseIndex(const std::string& text) {
  if (const auto index = ParseWhole<std::uint32_t>(text)) return *index;
  return InvalidArgument(Quote(text) + " is not a whole number from 0 on");
}

absl::StatusOr<Offset> ParseOffset(const std::string& text) {
  if (const auto bytes = ParseWhole<Bytes>(text); bytes && *bytes >= 0) return Offset{*bytes};
  MOORING_ASSIGN_OR_RETURN(const Bytes bytes, ParseSize(text));
  return Offset{bytes};
}

absl::Status CheckText(const std::string& text, bool is_sent) {
  if (text.empty()) return InvalidArgument("the value is empty");
  if (is_sent && !IsUtf8(text)) return InvalidArgument(Quote(text) + " is not UTF-8");
  return absl::OkStatus();
}

}  // namespace mooring::cli

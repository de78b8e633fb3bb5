#include "plugin/model/volume_making.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"

namespace mooring {
namespace {

// The largest number means "leave it" to chown(2).
absl::StatusOr<std::uint32_t> ParseOwner(const std::string& key, const std::string& value) {
  const auto number = ParseWhole<std::uint32_t>(value);
  if (number && *number != std::numeric_limits<std::uint32_t>::max()) return *number;
  return InvalidArgument(
      "parameter {} {}: it is a number from 0 to 4294967294; a name means another number in each image, so look the "
      "number up there (id)",
      key, Quote(value));
}

absl::StatusOr<mode_t> ParseRootMode(const std::string& value) {
  constexpr unsigned kMost = 07777, kEnter = 0111;
  unsigned mode = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), mode, 8);
  const bool is_octal = error == std::errc() && end == value.data() + value.size() && value.size() <= 5;
  if (is_octal && mode <= kMost && (mode & kEnter) != 0) return static_cast<mode_t>(mode);
  return InvalidArgument(
      "parameter mode {}: it is an octal number as 0750, at most 7777, that lets somebody enter the directory (x)",
      Quote(value));
}

}  // namespace

absl::StatusOr<bool> SetMaking(const std::string& key, const std::string& value, VolumeMaking& making) {
  if (key == "uid") {
    MOORING_ASSIGN_OR_RETURN(making.root.uid, ParseOwner(key, value));
  } else if (key == "gid") {
    MOORING_ASSIGN_OR_RETURN(making.root.gid, ParseOwner(key, value));
  } else if (key == "mode") {
    MOORING_ASSIGN_OR_RETURN(making.root.mode, ParseRootMode(value));
  } else {
    const absl::StatusOr<bool> set = SetFormatOption(key, value, making.format);
    return set.ok() ? set : InvalidArgument("parameter {}", Message(set.status()));
  }
  return true;
}

absl::Status CheckMaking(const VolumeMaking& making, std::string_view fs_type) {
  const absl::Status status = CheckFormatOptions(fs_type, making.format);
  return status.ok() ? status : InvalidArgument("parameter {}", Message(status));
}

std::string MakingKeys() { return fmt::format("uid, gid, mode, {}", fmt::join(FormatOptionNames(), ", ")); }

std::string MakingText(const VolumeMaking& making) {
  return making == VolumeMaking() ? "the default owner and format" : ToText(making);
}

std::string ToText(const VolumeMaking& making) {
  std::string text;
  const auto add = [&text](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  if (making.root.uid) add(fmt::format("uid={}", *making.root.uid));
  if (making.root.gid) add(fmt::format("gid={}", *making.root.gid));
  if (making.root.mode) add(fmt::format("mode={:04o}", *making.root.mode));
  if (making.format != FormatOptions()) add(ToString(making.format));
  return text;
}

}  // namespace mooring

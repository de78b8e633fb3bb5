#include "mounter/format_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/size.h"
#include "base/text/whole_number.h"

namespace mooring {
namespace {

struct Row {
  std::string_view name;
  std::string_view fs_type;
  std::uint32_t FormatOptions::*member;
  std::uint32_t least, most;
  bool power_of_two;
  const char* flag;    // of mkfs
  const char* prefix;  // of its value
};

// An ext4 with fewer bytes for each inode than a block has needs smaller groups, which CheckSuperblock refuses.
constexpr std::array kRows = {
    Row{"inodeSize", "ext4", &FormatOptions::inode_size, 256, 1024, true, "-I", ""},
    Row{"bytesPerInode", "ext4", &FormatOptions::bytes_per_inode, 4096, 64U << 20U, false, "-i", ""},
    Row{"inodeSize", "xfs", &FormatOptions::inode_size, 512, 2048, true, "-i", "size="},
    Row{"maxInodePercent", "xfs", &FormatOptions::max_inode_percent, 1, 100, false, "-i", "maxpct="},
};

// Numbers are bytes or percent, and may be small; "16KiB" is allowed, too.
std::optional<std::uint32_t> NumberIn(const std::string& text) {
  if (const auto number = ParseWhole<std::uint32_t>(text)) return *number != 0 ? number : std::nullopt;
  const absl::StatusOr<std::int64_t> bytes = ParseSize(text);
  const bool fits = bytes.ok() && *bytes > 0 && *bytes <= std::numeric_limits<std::uint32_t>::max();
  return fits ? std::optional(static_cast<std::uint32_t>(*bytes)) : std::nullopt;
}

absl::Status CheckRow(const Row& row, std::uint32_t value) {
  const bool fits = value >= row.least && value <= row.most && (!row.power_of_two || std::has_single_bit(value));
  if (value == 0 || fits) return absl::OkStatus();
  return InvalidArgument("{} {}: {} takes {} from {} to {}", row.name, value, row.fs_type,
                         row.power_of_two ? "a power of two" : "a number", row.least, row.most);
}

}  // namespace

std::vector<std::string_view> FormatOptionNames() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) {
    if (std::find(names.begin(), names.end(), row.name) == names.end()) names.push_back(row.name);
  }
  return names;
}

absl::StatusOr<bool> SetFormatOption(std::string_view name, const std::string& value, FormatOptions& options) {
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    const std::optional<std::uint32_t> number = NumberIn(value);
    if (!number) return InvalidArgument("{} {} is not a whole number above 0", name, Quote(value));
    options.*row.member = *number;
    return true;
  }
  return false;
}

absl::Status CheckFormatOptions(std::string_view fs_type, const FormatOptions& options) {
  FormatOptions unknown = options;
  for (const Row& row : kRows) {
    if (row.fs_type != fs_type) continue;
    MOORING_RETURN_IF_ERROR(CheckRow(row, options.*row.member));
    unknown.*row.member = 0;
  }
  for (const Row& row : kRows) {
    if (unknown.*row.member == 0) continue;
    return InvalidArgument("{} is not for {}: only {} has it", row.name, fs_type, row.fs_type);
  }
  return absl::OkStatus();
}

std::vector<std::string> FormatArguments(std::string_view fs_type, const FormatOptions& options) {
  std::vector<std::string> arguments;
  for (const Row& row : kRows) {
    if (row.fs_type != fs_type || options.*row.member == 0) continue;
    arguments.insert(arguments.end(), {row.flag, fmt::format("{}{}", row.prefix, options.*row.member)});
  }
  return arguments;
}

std::string ToString(const FormatOptions& options) {
  std::string text;
  FormatOptions left = options;  // two rows may have the same member
  for (const Row& row : kRows) {
    if (left.*row.member == 0) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", row.name, left.*row.member);
    left.*row.member = 0;
  }
  return text;
}

}  // namespace mooring

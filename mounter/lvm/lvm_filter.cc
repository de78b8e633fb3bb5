#include "mounter/lvm/lvm_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

// The numbers of raw devices, from 65536, and the names of logical volumes, as packaging/systemd/59-mooring.rules hides
// them from the host. This does not grow with the number of volumes.
constexpr const char* kAlwaysHidden =
    "loop(6553[6-9]|655[4-9][0-9]|65[6-9][0-9][0-9]|6[6-9][0-9][0-9][0-9]|[7-9][0-9][0-9][0-9][0-9]|"
    "[1-9][0-9][0-9][0-9][0-9][0-9]+)(p[0-9]+)?|"
    "mapper/mooring-(vol|snap)-.*|"
    "mapper/.+-(vol|snap)--[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f].*";

// The text after "NAME=" in its line, without brackets.
std::optional<std::string> ValueOf(std::string_view text, std::string_view name) {
  const std::string start = std::string(name) + "=";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(start)) continue;
    line.remove_prefix(start.size());
    if (line.starts_with('[') && line.ends_with(']')) line = line.substr(1, line.size() - 2);
    return std::string(line);
  }
  return std::nullopt;
}

std::string WithoutDefault(std::string patterns) {
  return patterns == "\"a|.*|\"" || patterns == "\"a/.*/\"" ? "" : patterns;
}

// A "!" stands for "/" in sysfs. "." matches any character, also those that mean something in patterns.
std::string PatternOf(const std::string& device) {
  std::string pattern;
  for (const char c : device) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    pattern += is_plain ? c : c == '!' ? '/' : '.';
  }
  const bool ends_with_digit = !device.empty() && std::isdigit(static_cast<unsigned char>(device.back())) != 0;
  return pattern + (ends_with_digit ? "(p[0-9]+)?" : "[0-9]*");
}

}  // namespace

absl::StatusOr<LvmHostFilters> ParseHostFilters(const std::string& text) {
  const std::optional<std::string> filter = ValueOf(text, "filter"), global = ValueOf(text, "global_filter");
  if (filter && global) {
    return LvmHostFilters{.filter = WithoutDefault(*filter), .global_filter = WithoutDefault(*global)};
  }
  return Internal("lvmconfig does not show the filters of the host: {}", Quote(text));
}

std::string HidingFilter(const LvmHostFilters& host, const std::vector<std::string>& devices) {
  std::string names = kAlwaysHidden;
  for (const std::string& device : devices) names += "|" + PatternOf(device);
  const std::string ours = fmt::format("\"r|^/dev/({})$|\"", names);
  if (host.filter.empty()) return fmt::format("filter=[{}]", ours);
  if (host.global_filter.empty()) return fmt::format("global_filter=[{}]", ours);
  return fmt::format("filter=[{},{}]", ours, host.filter);
}

}  // namespace mooring

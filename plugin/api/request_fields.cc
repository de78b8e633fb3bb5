#include "plugin/api/request_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"

namespace mooring {
namespace {

constexpr std::size_t kLongestName = 128;

}  // namespace

absl::StatusOr<std::string> Required(std::string_view field, const std::string& value) {
  if (value.empty()) return InvalidArgument("{} is missing", field);
  return value;
}

absl::Status CheckName(const std::string& name, std::string_view what) {
  if (name.empty()) return InvalidArgument("name is missing: a {} needs one", what);
  if (name.size() > kLongestName) {
    return InvalidArgument("name {} has {} bytes, more than {}", Quote(name, 32), name.size(), kLongestName);
  }
  if (HasControlByte(name)) return InvalidArgument("name {} has a control character in it", Quote(name));
  return absl::OkStatus();
}

absl::StatusOr<bool> ParseTruth(std::string_view parameter, const std::string& value) {
  if (value == "true" || value == "false") return value == "true";
  return InvalidArgument("parameter {} {}: it is true or false", parameter, Quote(value));
}

absl::Status CheckNoParameters(const google::protobuf::Map<std::string, std::string>& parameters,
                               std::string_view what) {
  for (const auto& [key, value] : parameters) {
    if (std::string_view(key).starts_with(kKubernetesPrefix)) continue;
    return InvalidArgument("parameter {} is unknown: a {} takes none", Quote(key), what);
  }
  return absl::OkStatus();
}

absl::StatusOr<PageSpec> ParsePage(std::int32_t max_entries, const std::string& starting_token, const PagedCall& call) {
  if (max_entries < 0) return InvalidArgument("max_entries is {}: it must not be negative", max_entries);
  PageSpec page = {.after = 0, .max_entries = static_cast<std::size_t>(max_entries)};
  const std::string& token = starting_token;
  if (token.empty()) return page;
  const std::size_t digits = std::min(call.token_prefix.size(), token.size());
  page.after = ParseWhole<std::int64_t>(std::string_view(token).substr(digits)).value_or(0);
  // The number must have no sign, no leading zero and no text behind it: formatted again, it is the same.
  if (page.after < 1 || ListToken(call, page.after) != token) {
    return Aborted("starting_token {} was not given out by {}: start again without one", Quote(token), call.name);
  }
  return page;
}

std::string ListToken(const PagedCall& call, std::int64_t after) {
  return fmt::format("{}{}", call.token_prefix, after);
}

}  // namespace mooring

#include "plugin/api/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

constexpr std::size_t kLongestName = 128;

}  // namespace

absl::Status CheckName(const std::string& name, std::string_view what) {
  if (name.empty()) return InvalidArgument(fmt::format("name is missing: a {} needs one", what));
  if (name.size() > kLongestName) {
    return InvalidArgument(
        fmt::format("name {} has {} bytes, more than {}", Quote(name, 32), name.size(), kLongestName));
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::any_of(name.begin(), name.end(), is_control)) {
    return InvalidArgument(fmt::format("name {} has a control character in it", Quote(name)));
  }
  return absl::OkStatus();
}

absl::Status CheckNoParameters(const google::protobuf::Map<std::string, std::string>& parameters,
                               std::string_view what) {
  for (const auto& [key, value] : parameters) {
    if (std::string_view(key).starts_with(kKubernetesPrefix)) continue;
    return InvalidArgument(fmt::format("parameter {} is unknown: a {} takes none", Quote(key), what));
  }
  return absl::OkStatus();
}

absl::StatusOr<PageFields> ParsePage(std::int32_t max_entries, const std::string& starting_token,
                                     const PagedCall& call) {
  if (max_entries < 0) {
    return InvalidArgument(fmt::format("max_entries is {}: it must not be negative", max_entries));
  }
  PageFields page = {.after = 0, .max_entries = static_cast<std::size_t>(max_entries)};
  const std::string& token = starting_token;
  if (token.empty()) return page;
  const std::size_t digits = std::min(call.token_prefix.size(), token.size());
  const auto [end, error] = std::from_chars(token.data() + digits, token.data() + token.size(), page.after);
  // The number must have no sign, no leading zero and no text behind it: formatted again, it is the same.
  if (error != std::errc() || page.after < 1 || ListToken(call, page.after) != token) {
    return Aborted(
        fmt::format("starting_token {} was not given out by {}: start again without one", Quote(token), call.name));
  }
  return page;
}

std::string ListToken(const PagedCall& call, std::int64_t after) {
  return fmt::format("{}{}", call.token_prefix, after);
}

}  // namespace mooring

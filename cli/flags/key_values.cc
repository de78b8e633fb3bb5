#include "cli/flags/key_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::cli {

absl::Status AddKeyValue(std::string_view text, KeyValues& pairs) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return InvalidArgument("there is no '=': write key=value");
  if (equals == 0) return InvalidArgument("there is no key before the '=': write key=value");
  if (!IsUtf8(text)) return InvalidArgument("the text is not UTF-8");
  const std::string_view key = text.substr(0, equals);
  if (pairs.emplace(key, text.substr(equals + 1)).second) return absl::OkStatus();
  return InvalidArgument("the key {} is given twice", Quote(key));
}

absl::Status AddKeyValueList(std::string_view text, KeyValues& pairs) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    MOORING_RETURN_IF_ERROR(AddKeyValue(text.substr(begin, end - begin), pairs));
    begin = end + 1;
  }
  return absl::OkStatus();
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string ToString(const KeyValues& pairs) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : pairs) parts.push_back(fmt::format("{}={}", key, value));
  return Join(parts, ", ");
}

std::string ToString(const StringMap& map) { return ToString(KeyValues(map.begin(), map.end())); }

void Fill(const KeyValues& pairs, StringMap& map) { map.insert(pairs.begin(), pairs.end()); }

}  // namespace mooring::cli

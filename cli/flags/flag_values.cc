#include "cli/flags/flag_values.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/file/unique_fd.h"
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

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;

std::string Mapped(std::string_view text, char (*map)(char)) {
  std::string mapped(text);
  std::transform(mapped.begin(), mapped.end(), mapped.begin(), map);
  return mapped;
}

std::string ToConstant(std::string_view word) {
  return Mapped(word, [](char c) {
    return c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
}

std::string AllWords(const EnumDescriptor& type) {
  std::vector<std::string> words;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) words.push_back(ToDashed(type.value(i)->name()));
  }
  return Join(words, ", ");
}

constexpr std::size_t kLargestFile = 1024 * 1024;

absl::StatusOr<std::string> ReadAll(int fd) {
  std::string content;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0) return content;
    if (got < 0 && errno != EINTR) return ErrnoStatus(errno, "read");
    if (got > 0) content.append(buffer.data(), static_cast<std::size_t>(got));
    if (content.size() > kLargestFile) return InvalidArgument("the file is larger than 1 MiB");
  }
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

std::string ToDashed(std::string_view constant) {
  return Mapped(constant, [](char c) {
    return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
}

std::string EnumWord(const EnumDescriptor& type, int number, std::string_view what) {
  const EnumValueDescriptor* value = type.FindValueByNumber(number);
  return value == nullptr ? fmt::format("{}-{}", what, number) : ToDashed(value->name());
}

absl::StatusOr<int> ParseEnumWord(const EnumDescriptor& type, std::string_view word, std::string_view what) {
  const EnumValueDescriptor* value = type.FindValueByName(ToConstant(word));
  if (value != nullptr && value->number() != 0) return value->number();
  return InvalidArgument("the {} {} is none of {}", what, Quote(word), AllWords(type));
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  if (path == "-") return ReadAll(STDIN_FILENO);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "open");
  return ReadAll(fd.get());
}

}  // namespace mooring::cli

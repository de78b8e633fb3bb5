#include "cli/flags/enum_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "cli/flags/key_values.h"

namespace mooring::cli {
namespace {

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

}  // namespace

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

}  // namespace mooring::cli

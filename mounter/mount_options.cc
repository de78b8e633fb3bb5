#include "mounter/mount_options.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"
#include "mounter/mount_words.h"
#include "mounter/option_rules.h"

namespace mooring {
namespace {

using Value = OptionRule::Value;

const OptionRule* FindRule(std::string_view fs_type, std::string_view name) {
  const std::vector<const OptionRule*> rules = RulesOf(fs_type);
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const OptionRule* r) { return r->name == name; });
  return found == rules.end() ? nullptr : *found;
}

// A number, or a size as xfs(5) writes it: "64k".
std::optional<std::uint64_t> ParseNumber(const OptionRule& rule, std::string_view text) {
  constexpr std::string_view kUnits = "kmg";
  const bool has_unit = rule.value == Value::kSize && !text.empty() && kUnits.find(text.back()) != kUnits.npos;
  const auto shift = has_unit ? 10 * (kUnits.find(text.back()) + 1) : 0;
  if (has_unit) text.remove_suffix(1);
  const auto number = ParseWhole<std::uint64_t>(text);
  return number && *number <= rule.most >> shift ? std::optional(*number << shift) : std::nullopt;
}

// The number, if it is within the range of the rule.
std::optional<std::uint64_t> NumberIn(const OptionRule& rule, const std::optional<std::string>& value) {
  const auto number = value ? ParseNumber(rule, *value) : std::nullopt;
  return number && *number >= rule.least ? number : std::nullopt;
}

bool IsWordOf(const OptionRule& rule, const std::string& value) {
  return std::find(rule.words.begin(), rule.words.end(), value) != rule.words.end();
}

// As "system_u:object_r:container_file_t:s0:c1,c2": user, role, type, and the range where the policy has levels.
bool IsLabel(std::string_view text) {
  constexpr std::size_t kLongest = 255;
  const auto is_known = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-.:,").find(c) != std::string_view::npos;
  };
  return text.size() <= kLongest && std::count(text.begin(), text.end(), ':') >= 2 &&
         std::all_of(text.begin(), text.end(), is_known);
}

bool IsAddress(const std::string& text) {
  in6_addr address = {};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 || ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool Fits(const OptionRule& rule, const std::optional<std::string>& value) {
  const std::optional<std::uint64_t> number = NumberIn(rule, value);
  switch (rule.value) {
    case Value::kNone:
      return !value;
    case Value::kNumber:
      return number.has_value();
    case Value::kPowerOfTwo:
    case Value::kSize:
      return number && (*number == 0 || std::has_single_bit(*number));
    case Value::kWord:
      return value && IsWordOf(rule, *value);
    case Value::kWordOrNone:
      return !value || IsWordOf(rule, *value);
    case Value::kLabel:
      return value && IsLabel(*value);
    case Value::kAddress:
      return value && IsAddress(*value);
  }
  return false;
}

std::vector<std::string> ValuesOf(const OptionRule& rule) {
  switch (rule.value) {
    case Value::kNone:
    case Value::kLabel:
    case Value::kAddress:
      return {};
    case Value::kNumber:
    case Value::kPowerOfTwo:
    case Value::kSize:
      return {std::to_string(rule.least), std::to_string(rule.most)};
    case Value::kWord:
    case Value::kWordOrNone:
      return {rule.words.begin(), rule.words.end()};
  }
  return {};
}

std::string ValueHint(const OptionRule& rule) {
  switch (rule.value) {
    case Value::kNone:
      return "no value";
    case Value::kNumber:
      return fmt::format("a number from {} to {}", rule.least, rule.most);
    case Value::kPowerOfTwo:
      return fmt::format("0 or a power of two up to {}", rule.most);
    case Value::kSize:
      return fmt::format("a power of two from {} to {}, also with the unit k, m or g", rule.least, rule.most);
    case Value::kWord:
      return fmt::format("one of {}", fmt::join(rule.words, ", "));
    case Value::kWordOrNone:
      return fmt::format("no value, or one of {}", fmt::join(rule.words, ", "));
    case Value::kLabel:
      return "a label of SELinux, as \"system_u:object_r:container_file_t:s0:c1,c2\", in double quotes";
    case Value::kAddress:
      return "an address of IPv4 or IPv6";
  }
  return "";
}

std::string Allowed(std::string_view fs_type) {
  std::vector<std::string_view> names;
  for (const MountFlagRow& row : MountFlagTable()) {
    names.push_back(row.word);
    names.push_back(row.opposite);
  }
  names.emplace_back("defaults");
  for (const OptionRule* rule : RulesOf(fs_type)) names.push_back(rule->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const OptionRule* FindIgnored(std::string_view name) {
  for (const OptionRule& rule : IgnoredOptions()) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

// Quotes around a value protect its commas.
FilesystemOption OptionIn(std::string_view text) {
  const std::size_t equals = text.find('=');
  FilesystemOption option{std::string(text.substr(0, equals)), std::nullopt};
  if (equals == std::string_view::npos) return option;
  std::string_view value = text.substr(equals + 1);
  if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"')) value = value.substr(1, value.size() - 2);
  option.value = value;
  return option;
}

absl::Status AddOption(std::string_view fs_type, std::string_view text, MountOptions& parsed) {
  FilesystemOption option = OptionIn(text);
  const OptionRule* rule = FindIgnored(option.key);
  if (rule == nullptr) rule = FindRule(fs_type, option.key);
  if (rule == nullptr && fs_type == "nfs") {
    if (option.key == "nfsvers") option.key = "vers";
    if (IsAllowed(kNfsFsType, option)) {
      parsed.of_pool.push_back(std::move(option));
      return absl::OkStatus();
    }
  }
  if (rule == nullptr) {
    return InvalidArgument("mount flag {} is not allowed for {}; allowed are: {}", Quote(option.key), fs_type,
                           Allowed(fs_type));
  }
  if (!Fits(*rule, option.value)) return InvalidArgument("mount flag {} takes {}", Quote(option.key), ValueHint(*rule));
  for (const FilesystemOption& other : parsed.options) {
    if (other == option) return absl::OkStatus();
    if (other.key == option.key) {
      return InvalidArgument("mount flag {} is given twice with different values", Quote(option.key));
    }
    if (Contradicts(*rule, other.key)) {
      return InvalidArgument("mount flags {} and {} contradict each other", Quote(other.key), Quote(option.key));
    }
  }
  parsed.options.push_back(std::move(option));
  return absl::OkStatus();
}

bool ApplyWord(const std::string& word, MountFlags& flags) { return ApplyMountFlag(word, flags) || IsForOthers(word); }

absl::Status AddForeignFlag(const std::string& word, MountOptions& parsed) {
  if (word.empty() || ApplyWord(word, parsed.flags)) return absl::OkStatus();
  FilesystemOption option = OptionIn(word);
  if (IsAnotherOrder(word)) return InvalidArgument("{} is no option of a filesystem", Quote(option.key));
  parsed.options.push_back(std::move(option));
  return absl::OkStatus();
}

absl::Status AddFlag(std::string_view fs_type, const std::string& text, MountOptions& parsed) {
  if (ApplyWord(text, parsed.flags)) return absl::OkStatus();
  return AddOption(fs_type, text, parsed);
}

}  // namespace

std::string ToString(const std::vector<FilesystemOption>& options) {
  std::string text;
  for (const FilesystemOption& option : options) {
    if (!text.empty()) text += ",";
    text += option.key;
    if (option.value) text += "=" + *option.value;
  }
  return text.empty() ? "defaults" : text;
}

absl::StatusOr<MountOptions> ParseMountFlags(std::string_view fs_type, const std::vector<std::string>& mount_flags) {
  MountOptions parsed;
  for (const std::string& element : mount_flags) {
    if (element.empty()) return InvalidArgument("a mount flag is empty");
    for (const std::string& word : SplitMountWords(element)) {
      MOORING_RETURN_IF_ERROR(AddFlag(fs_type, word, parsed));
    }
  }
  std::erase_if(parsed.options, [](const FilesystemOption& option) { return FindIgnored(option.key) != nullptr; });
  std::sort(parsed.options.begin(), parsed.options.end());
  return parsed;
}

bool HasOptionTable(std::string_view fs_type) { return !OwnOptions(fs_type).empty(); }

absl::StatusOr<MountOptions> ParseForeignOptions(const std::vector<std::string>& mount_flags) {
  MountOptions parsed;
  for (const std::string& element : mount_flags) {
    for (const std::string& word : SplitMountWords(element)) MOORING_RETURN_IF_ERROR(AddForeignFlag(word, parsed));
  }
  return parsed;
}

bool IsCommonOption(const FilesystemOption& option) {
  const auto has_it = [&option](std::span<const OptionRule> rules) {
    return std::any_of(rules.begin(), rules.end(), [&option](const OptionRule& rule) {
      return rule.name == option.key && Fits(rule, option.value);
    });
  };
  return has_it(CommonOptions()) || has_it(LabelOptions()) || has_it(IgnoredOptions());
}

std::vector<FilesystemOption> AllowedOptions(std::string_view fs_type) {
  std::vector<FilesystemOption> options;
  for (const OptionRule* rule : RulesOf(fs_type)) {
    if (Fits(*rule, std::nullopt)) options.push_back({std::string(rule->name), std::nullopt});
    for (const std::string& value : ValuesOf(*rule)) options.push_back({std::string(rule->name), value});
  }
  return options;
}

bool IsLabelOption(std::string_view name) {
  const std::span<const OptionRule> labels = LabelOptions();
  return std::any_of(labels.begin(), labels.end(), [&](const auto& rule) { return rule.name == name; });
}

bool IsAllowed(std::string_view fs_type, const FilesystemOption& option) {
  const OptionRule* rule = FindRule(fs_type, option.key);
  return rule != nullptr && Fits(*rule, option.value);
}

}  // namespace mooring

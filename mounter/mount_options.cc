#include "mounter/mount_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <span>

#include "base/quote.h"
#include "base/status.h"

namespace mooring {
namespace {

// A flag of the mount itself, and what it does to the typed flags.
struct MountFlagRule {
  std::string_view name;
  void (*apply)(MountFlags&);
};

constexpr std::array kMountFlags = {
    MountFlagRule{"ro", [](MountFlags& f) { f.read_only = true; }},
    MountFlagRule{"rw", [](MountFlags& f) { f.read_only = false; }},
    MountFlagRule{"nosuid", [](MountFlags& f) { f.nosuid = true; }},
    MountFlagRule{"suid", [](MountFlags& f) { f.nosuid = false; }},
    MountFlagRule{"nodev", [](MountFlags& f) { f.nodev = true; }},
    MountFlagRule{"dev", [](MountFlags& f) { f.nodev = false; }},
    MountFlagRule{"noexec", [](MountFlags& f) { f.noexec = true; }},
    MountFlagRule{"exec", [](MountFlags& f) { f.noexec = false; }},
    MountFlagRule{"noatime", [](MountFlags& f) { f.atime = Atime::kNoatime; }},
    MountFlagRule{"relatime", [](MountFlags& f) { f.atime = Atime::kRelatime; }},
    MountFlagRule{"strictatime", [](MountFlags& f) { f.atime = Atime::kStrictatime; }},
    MountFlagRule{"nodiratime", [](MountFlags& f) { f.nodiratime = true; }},
    MountFlagRule{"diratime", [](MountFlags& f) { f.nodiratime = false; }},
    MountFlagRule{"defaults", [](MountFlags&) {}},
};

// A filesystem's own option. Left out on purpose: whatever names another device or file (journal_path, logdev, rtdev,
// quota files), weakens what the plugin promises (nouuid, norecovery, noload, abort, debug) or needs another kernel
// module.
struct OptionRule {
  std::string_view name;
  enum class Value { kNone, kNumber, kWord } value = Value::kNone;
  std::uint64_t most = 0;                      // of a number
  std::array<std::string_view, 4> words = {};  // the only ones
};

using Value = OptionRule::Value;

constexpr std::array kCommonOptions = {
    OptionRule{"sync"}, OptionRule{"dirsync"}, OptionRule{"lazytime"}, OptionRule{"discard"}, OptionRule{"nodiscard"},
};

constexpr std::array kExt4Options = {
    OptionRule{"acl"},
    OptionRule{"noacl"},
    OptionRule{"user_xattr"},
    OptionRule{"auto_da_alloc"},
    OptionRule{"noauto_da_alloc"},
    OptionRule{"delalloc"},
    OptionRule{"nodelalloc"},
    OptionRule{"dioread_lock"},
    OptionRule{"dioread_nolock"},
    OptionRule{"block_validity"},
    OptionRule{"noblock_validity"},
    OptionRule{"barrier", Value::kNumber, 1},
    OptionRule{"commit", Value::kNumber, 900},
    OptionRule{"init_itable", Value::kNumber, 1000},
    OptionRule{"noinit_itable"},
    OptionRule{"inode_readahead_blks", Value::kNumber, 1048576},
    OptionRule{"stripe", Value::kNumber, 1048576},
    OptionRule{"max_batch_time", Value::kNumber, 1000000},
    OptionRule{"min_batch_time", Value::kNumber, 1000000},
    OptionRule{"journal_ioprio", Value::kNumber, 7},
    OptionRule{"data", Value::kWord, 0, {"ordered", "journal", "writeback"}},
    OptionRule{"errors", Value::kWord, 0, {"remount-ro", "continue"}},
};

constexpr std::array kXfsOptions = {
    OptionRule{"inode32"},
    OptionRule{"inode64"},
    OptionRule{"largeio"},
    OptionRule{"nolargeio"},
    OptionRule{"swalloc"},
    OptionRule{"noalign"},
    OptionRule{"filestreams"},
    OptionRule{"logbufs", Value::kNumber, 8},
    OptionRule{"logbsize", Value::kWord, 0, {"32k", "64k", "128k", "256k"}},
    OptionRule{"allocsize", Value::kWord, 0, {"64k", "1m", "64m", "1g"}},
};

std::span<const OptionRule> OwnOptions(std::string_view fs_type) {
  if (fs_type == "ext4") return kExt4Options;
  if (fs_type == "xfs") return kXfsOptions;
  return {};
}

const OptionRule* FindRule(std::string_view fs_type, std::string_view name) {
  for (const std::span<const OptionRule> rules : {std::span<const OptionRule>(kCommonOptions), OwnOptions(fs_type)}) {
    const auto found = std::find_if(rules.begin(), rules.end(), [&](const OptionRule& r) { return r.name == name; });
    if (found != rules.end()) return &*found;
  }
  return nullptr;
}

bool IsNumberUpTo(std::string_view text, std::uint64_t most) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && error == std::errc() && end == text.data() + text.size() && number <= most;
}

bool Fits(const OptionRule& rule, const std::optional<std::string>& value) {
  switch (rule.value) {
    case Value::kNone:
      return !value;
    case Value::kNumber:
      return value && IsNumberUpTo(*value, rule.most);
    case Value::kWord:
      return value && !value->empty() && std::find(rule.words.begin(), rule.words.end(), *value) != rule.words.end();
  }
  return false;
}

std::string ValueHint(const OptionRule& rule) {
  switch (rule.value) {
    case Value::kNone:
      return "no value";
    case Value::kNumber:
      return fmt::format("a number from 0 to {}", rule.most);
    case Value::kWord: {
      std::vector<std::string_view> words;
      for (const std::string_view word : rule.words) {
        if (!word.empty()) words.push_back(word);
      }
      return fmt::format("one of {}", fmt::join(words, ", "));
    }
  }
  return "";
}

std::string Allowed(std::string_view fs_type) {
  std::vector<std::string_view> names;
  for (const MountFlagRule& rule : kMountFlags) names.push_back(rule.name);
  for (const OptionRule& rule : kCommonOptions) names.push_back(rule.name);
  for (const OptionRule& rule : OwnOptions(fs_type)) names.push_back(rule.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

absl::Status AddOption(std::string_view fs_type, std::string_view text, MountOptions& parsed) {
  const std::size_t equals = text.find('=');
  FilesystemOption option{std::string(text.substr(0, equals)), std::nullopt};
  if (equals != std::string_view::npos) option.value = text.substr(equals + 1);
  const OptionRule* rule = FindRule(fs_type, option.key);
  if (rule == nullptr) {
    return InvalidArgument(fmt::format("mount flag {} is not allowed for {}; allowed are: {}", Quote(option.key),
                                       fs_type, Allowed(fs_type)));
  }
  if (!Fits(*rule, option.value)) {
    return InvalidArgument(fmt::format("mount flag {} takes {}", Quote(option.key), ValueHint(*rule)));
  }
  for (const FilesystemOption& other : parsed.options) {
    if (other == option) return absl::OkStatus();
    if (other.key == option.key) {
      return InvalidArgument(fmt::format("mount flag {} is given twice with different values", Quote(option.key)));
    }
  }
  parsed.options.push_back(std::move(option));
  return absl::OkStatus();
}

absl::Status AddFlag(std::string_view fs_type, std::string_view text, MountOptions& parsed) {
  const auto flag = std::find_if(kMountFlags.begin(), kMountFlags.end(),
                                 [&](const MountFlagRule& rule) { return rule.name == text; });
  if (flag == kMountFlags.end()) return AddOption(fs_type, text, parsed);
  flag->apply(parsed.flags);
  return absl::OkStatus();
}

}  // namespace

std::string ToString(const MountFlags& flags) {
  std::string text = flags.read_only ? "ro" : "rw";
  if (flags.nosuid) text += ",nosuid";
  if (flags.nodev) text += ",nodev";
  if (flags.noexec) text += ",noexec";
  if (flags.nodiratime) text += ",nodiratime";
  switch (flags.atime) {
    case Atime::kRelatime:
      return text + ",relatime";
    case Atime::kNoatime:
      return text + ",noatime";
    case Atime::kStrictatime:
      return text + ",strictatime";
  }
  return text;
}

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
    for (std::string_view rest = element; !rest.empty();) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      MOORING_RETURN_IF_ERROR(AddFlag(fs_type, rest.substr(0, comma), parsed));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  std::sort(parsed.options.begin(), parsed.options.end());
  return parsed;
}

bool IsAllowed(std::string_view fs_type, const FilesystemOption& option) {
  const OptionRule* rule = FindRule(fs_type, option.key);
  return rule != nullptr && Fits(*rule, option.value);
}

}  // namespace mooring

#include "mounter/mount_options.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"
#include "mounter/mount_words.h"

namespace mooring {
namespace {

// An option of one filesystem. The tables leave three kinds out:
//   - options that name another device or file: journal_path, logdev, rtdev, quota files
//   - options that weaken what the plugin promises: norecovery, noload, abort, debug
//   - options that need another kernel module
struct OptionRule {
  std::string_view name;
  enum class Value { kNone, kNumber, kPowerOfTwo, kWord, kWordOrNone, kLabel, kAddress } value = Value::kNone;
  std::uint64_t least = 0, most = 0;           // the range of a number
  std::array<std::string_view, 8> words = {};  // the allowed words
  std::string_view opposite = "";              // the option that contradicts this one
};

using Value = OptionRule::Value;

constexpr OptionRule Flag(std::string_view name, std::string_view opposite = "") {
  return {.name = name, .opposite = opposite};
}

constexpr OptionRule Number(std::string_view name, std::uint64_t least, std::uint64_t most,
                            std::string_view opposite = "") {
  return {.name = name, .value = Value::kNumber, .least = least, .most = most, .opposite = opposite};
}

constexpr OptionRule Words(std::string_view name, std::array<std::string_view, 8> words) {
  return {.name = name, .value = Value::kWord, .words = words};
}

constexpr OptionRule FlagOrWords(std::string_view name, std::array<std::string_view, 8> words,
                                 std::string_view opposite = "") {
  return {.name = name, .value = Value::kWordOrNone, .words = words, .opposite = opposite};
}

constexpr OptionRule Label(std::string_view name, std::string_view opposite = "") {
  return {.name = name, .value = Value::kLabel, .opposite = opposite};
}

// Taken and left out: they are defaults of every filesystem, or have no effect on a volume. A copy has a UUID of its
// own, and no filesystem here has quotas.
constexpr std::array kIgnoredOptions = {
    Flag("async", "sync"), Flag("nolazytime", "lazytime"),
    Flag("norelatime"),    Flag("nostrictatime"),
    Flag("nomand"),        Flag("noiversion"),
    Flag("noquota"),       Flag("nouuid"),
    Flag("silent"),        Flag("loud"),
    Flag("_rnetdev"),
};

// SELinux labels of all files, mount(8).
constexpr std::array kLabelOptions = {
    Label("context", "defcontext"),
    Label("fscontext"),
    Label("defcontext", "context"),
    Label("rootcontext"),
};

constexpr std::array kCommonOptions = {
    Flag("sync", "async"),        Flag("dirsync"), Flag("lazytime", "nolazytime"), Flag("discard", "nodiscard"),
    Flag("nodiscard", "discard"),
};

constexpr std::array kExt4Options = {
    Flag("acl"),
    Flag("user_xattr"),
    Flag("auto_da_alloc", "noauto_da_alloc"),
    Flag("noauto_da_alloc", "auto_da_alloc"),
    Flag("delalloc", "nodelalloc"),
    Flag("nodelalloc", "delalloc"),
    Flag("dioread_lock", "dioread_nolock"),
    Flag("dioread_nolock", "dioread_lock"),
    Flag("block_validity", "noblock_validity"),
    Flag("noblock_validity", "block_validity"),
    Number("barrier", 0, 1),
    Number("commit", 0, 900),
    Number("init_itable", 0, 1000, "noinit_itable"),
    Flag("noinit_itable", "init_itable"),
    OptionRule{.name = "inode_readahead_blks", .value = Value::kPowerOfTwo, .least = 0, .most = 1048576},
    Number("stripe", 0, 1048576),
    Number("max_batch_time", 0, 1000000),
    Number("min_batch_time", 0, 1000000),
    Number("journal_ioprio", 0, 7),
    Words("data", {"ordered", "journal", "writeback"}),
    Words("errors", {"remount-ro", "continue"}),
};

constexpr std::array kXfsOptions = {
    Flag("inode32", "inode64"),
    Flag("inode64", "inode32"),
    Flag("largeio", "nolargeio"),
    Flag("nolargeio", "largeio"),
    Flag("swalloc"),
    Flag("noalign"),
    Flag("filestreams"),
    Number("logbufs", 2, 8),
    Words("logbsize", {"32k", "64k", "128k", "256k"}),
    Words("allocsize", {"64k", "1m", "64m", "1g"}),
};

// Left out as well:
//   - options that name a part of the filesystem or another device: subvol, device
//   - options that mount a damaged filesystem: degraded, rescue
//   - options that keep it slow or busy: skip_balance, enospc_debug
//   - an option that loses data in a power cut: nobarrier
constexpr std::array kBtrfsOptions = {
    Flag("acl", "noacl"),
    Flag("noacl", "acl"),
    Flag("autodefrag", "noautodefrag"),
    Flag("noautodefrag", "autodefrag"),
    Flag("flushoncommit", "noflushoncommit"),
    Flag("noflushoncommit", "flushoncommit"),
    Flag("ssd", "nossd"),
    Flag("nossd", "ssd"),
    FlagOrWords("discard", {"sync", "async"}, "nodiscard"),
    FlagOrWords("compress", {"zlib", "lzo", "zstd", "zstd:1", "zstd:3", "zstd:9", "zstd:15", "no"}, "compress-force"),
    FlagOrWords("compress-force", {"zlib", "lzo", "zstd", "zstd:1", "zstd:3", "zstd:9", "zstd:15", "no"}, "compress"),
    Words("space_cache", {"v2"}),
    Number("commit", 1, 300),
    Number("max_inline", 0, 2048),
    Number("thread_pool", 1, 64),
};

// The options of a pool that Mooring mounts from a server, nfs(5). Left out are options that
//   - lose data or locks: soft, nolock, local_lock
//   - need a program beside the kernel: other versions, sec=krb5, xprtsec=tls
//   - make a second cache of the same files: nosharecache
constexpr std::array kNfsOptions = {
    OptionRule{.name = "addr", .value = Value::kAddress},
    Words("vers", {"4.1", "4.2"}),
    Words("proto", {"tcp", "tcp6", "rdma"}),
    Words("sec", {"sys"}),
    Words("lookupcache", {"all", "none", "pos", "positive"}),
    Flag("hard", "softerr"),
    Flag("softerr", "hard"),  // of the plugin's own files; pools refuse it
    Flag("nosoftreval"),
    Flag("ac", "noac"),
    Flag("noac", "ac"),
    Flag("noresvport"),
    Number("port", 1, 65535),
    Number("rsize", 1024, 1048576),
    Number("wsize", 1024, 1048576),
    Number("timeo", 1, 6000),
    Number("retrans", 0, 100),
    Number("nconnect", 1, 16),
    Number("max_connect", 1, 16),
    Number("actimeo", 0, 86400),
    Number("acregmin", 0, 86400),
    Number("acregmax", 0, 86400),
    Number("acdirmin", 0, 86400),
    Number("acdirmax", 0, 86400),
};

std::span<const OptionRule> OwnOptions(std::string_view fs_type) {
  if (fs_type == kNfsFsType) return kNfsOptions;
  if (fs_type == "ext4") return kExt4Options;
  if (fs_type == "xfs") return kXfsOptions;
  if (fs_type == "btrfs") return kBtrfsOptions;
  return {};
}

// A rule of the filesystem replaces the common one of the same name.
std::vector<const OptionRule*> RulesOf(std::string_view fs_type) {
  std::vector<const OptionRule*> rules;
  for (const OptionRule& rule : OwnOptions(fs_type)) rules.push_back(&rule);
  // The filesystem of a directory or subvolume is the host's or the pool's. The plugin itself sets the other options of
  // a tmpfs.
  if (fs_type == kNfsFsType || !HasOptionTable(fs_type)) return rules;
  for (const OptionRule& rule : kLabelOptions) rules.push_back(&rule);
  if (fs_type == "tmpfs") return rules;
  const std::size_t own = rules.size();
  for (const OptionRule& rule : kCommonOptions) {
    const auto is_own = [&rule](const OptionRule* other) { return other->name == rule.name; };
    if (std::none_of(rules.begin(), rules.begin() + static_cast<std::ptrdiff_t>(own), is_own)) rules.push_back(&rule);
  }
  return rules;
}

const OptionRule* FindRule(std::string_view fs_type, std::string_view name) {
  const std::vector<const OptionRule*> rules = RulesOf(fs_type);
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const OptionRule* r) { return r->name == name; });
  return found == rules.end() ? nullptr : *found;
}

// The number, if it is within the range of the rule.
std::optional<std::uint64_t> NumberIn(const OptionRule& rule, const std::optional<std::string>& value) {
  const auto number = value ? ParseWhole<std::uint64_t>(*value) : std::nullopt;
  return number && *number >= rule.least && *number <= rule.most ? number : std::nullopt;
}

bool IsWordOf(const OptionRule& rule, const std::string& value) {
  return !value.empty() && std::find(rule.words.begin(), rule.words.end(), value) != rule.words.end();
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

std::vector<std::string> WordsOf(const OptionRule& rule) {
  std::vector<std::string> words(rule.words.begin(), rule.words.end());
  std::erase(words, "");
  return words;
}

std::vector<std::string> ValuesOf(const OptionRule& rule) {
  switch (rule.value) {
    case Value::kNone:
    case Value::kLabel:
    case Value::kAddress:
      return {};
    case Value::kNumber:
    case Value::kPowerOfTwo:
      return {std::to_string(rule.least), std::to_string(rule.most)};
    case Value::kWord:
    case Value::kWordOrNone:
      return WordsOf(rule);
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
    case Value::kWord:
      return fmt::format("one of {}", fmt::join(WordsOf(rule), ", "));
    case Value::kWordOrNone:
      return fmt::format("no value, or one of {}", fmt::join(WordsOf(rule), ", "));
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
    if (!row.opposite.empty()) names.push_back(row.opposite);
  }
  names.emplace_back("defaults");
  for (const OptionRule* rule : RulesOf(fs_type)) names.push_back(rule->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const OptionRule* FindIgnored(std::string_view name) {
  const auto* const found = std::find_if(kIgnoredOptions.begin(), kIgnoredOptions.end(),
                                         [&](const OptionRule& rule) { return rule.name == name; });
  return found == kIgnoredOptions.end() ? nullptr : found;
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
    if (other.key == rule->opposite) {
      return InvalidArgument("mount flags {} and {} contradict each other", Quote(other.key), Quote(option.key));
    }
  }
  parsed.options.push_back(std::move(option));
  return absl::OkStatus();
}

absl::Status AddForeignFlag(const std::string& word, MountOptions& parsed) {
  if (word.empty() || ApplyMountFlag(word, parsed.flags) || IsForOthers(word)) return absl::OkStatus();
  FilesystemOption option = OptionIn(word);
  if (IsAnotherOrder(word)) return InvalidArgument("{} is no option of a filesystem", Quote(option.key));
  parsed.options.push_back(std::move(option));
  return absl::OkStatus();
}

absl::Status AddFlag(std::string_view fs_type, const std::string& text, MountOptions& parsed) {
  if (ApplyMountFlag(text, parsed.flags) || IsForOthers(text)) return absl::OkStatus();
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

bool HasOptionTable(std::string_view fs_type) { return fs_type == "tmpfs" || !OwnOptions(fs_type).empty(); }

absl::StatusOr<MountOptions> ParseForeignOptions(const std::vector<std::string>& mount_flags) {
  MountOptions parsed;
  for (const std::string& element : mount_flags) {
    for (const std::string& word : SplitMountWords(element)) MOORING_RETURN_IF_ERROR(AddForeignFlag(word, parsed));
  }
  return parsed;
}

bool IsCommonOption(const FilesystemOption& option) {
  const auto is_it = [&option](const OptionRule& rule) { return rule.name == option.key && Fits(rule, option.value); };
  return std::any_of(kCommonOptions.begin(), kCommonOptions.end(), is_it) ||
         std::any_of(kLabelOptions.begin(), kLabelOptions.end(), is_it) ||
         std::any_of(kIgnoredOptions.begin(), kIgnoredOptions.end(), is_it);
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
  return std::any_of(kLabelOptions.begin(), kLabelOptions.end(), [&](const auto& rule) { return rule.name == name; });
}

bool IsAllowed(std::string_view fs_type, const FilesystemOption& option) {
  const OptionRule* rule = FindRule(fs_type, option.key);
  return rule != nullptr && Fits(*rule, option.value);
}

}  // namespace mooring

#include "cli/mount_csi/helper_line.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mount_words.h"

namespace mooring::cli::mount_csi {
namespace {

using manager_area::Arguments;

constexpr std::string_view kWithValue = "ot";

void AddOptions(const std::string& list, std::vector<std::string>& options) {
  for (std::string& word : SplitMountWords(list)) {
    if (!word.empty()) options.push_back(std::move(word));
  }
}

void SetLetter(char letter, HelperLine& line) {
  if (letter == 'f') line.fake = true;
  if (letter == 'n') line.no_table = true;
  if (letter == 'v') line.verbose = true;
  if (letter == 'a') line.all = true;
}

// Parses "-fv" or "-ofor=web". `next` is the next argument, null at the end. Returns whether `next` was used.
absl::StatusOr<bool> AddLetters(std::string_view cluster, const char* next, std::string_view letters,
                                HelperLine& line) {
  for (; !cluster.empty(); cluster.remove_prefix(1)) {
    const char letter = cluster[0];
    if (kWithValue.find(letter) != std::string_view::npos) {
      const std::string_view rest = cluster.substr(1);
      if (rest.empty() && next == nullptr) return InvalidArgument("-{} has no value", letter);
      if (letter == 'o') AddOptions(rest.empty() ? next : std::string(rest), line.options);
      return rest.empty();
    }
    if (letter == 'N') {
      return InvalidArgument("-N is not supported: the manager attaches volumes in its own mount namespace");
    }
    if (letters.find(letter) == std::string_view::npos) return InvalidArgument("there is no option -{}", letter);
    SetLetter(letter, line);
  }
  return false;
}

// Options for mount(8), systemd and other readers of fstab, and options that change nothing.
bool HasNoEffect(const std::string& option) {
  constexpr std::array<std::string_view, 5> kWords = {"defaults", "rw", "_rnetdev", "silent", "loud"};
  return IsForOthers(option) || std::find(kWords.begin(), kWords.end(), option) != kWords.end();
}

constexpr std::array<std::pair<std::string_view, std::string Arguments::*>, 8> kTexts = {{
    {"plugin", &Arguments::plugin},
    {"propagation", &Arguments::propagation},
    {"for", &Arguments::allocation},
    {"request", &Arguments::request},
    {"namespace", &Arguments::ns},
    {"mode", &Arguments::mode},
    {"fs-type", &Arguments::fs_type},
    {"manager", &Arguments::socket},
}};

// Whether the option is one of mount.csi; if so, sets it.
absl::StatusOr<bool> SetNamed(std::string_view name, const std::string& value, MountOptions& result) {
  if (name == "wait") {
    MOORING_ASSIGN_OR_RETURN(result.wait, ParseSeconds(value));
    return true;
  }
  if (name == "per-alloc") {
    MOORING_ASSIGN_OR_RETURN(result.arguments.per_alloc, ParseIndex(value));
    return true;
  }
  if (name == "access") {
    result.arguments.access.push_back(value);
    return true;
  }
  // mount(8) treats dev and suid as defaults and does not pass them on, so mount-flag= passes them.
  if (name == "mount-flag") {
    result.arguments.mount_flags.push_back(value);
    return true;
  }
  for (const auto& [text, slot] : kTexts) {
    if (name != text) continue;
    result.arguments.*slot = value;
    return true;
  }
  return false;
}

absl::Status SetOption(const std::string& option, MountOptions& result) {
  if (HasNoEffect(option)) return absl::OkStatus();
  if (option == "remount") {
    result.remount = true;
    return absl::OkStatus();
  }
  if (option == "ro") {
    result.arguments.read_only = true;
    return absl::OkStatus();
  }
  const std::size_t equals = option.find('=');
  if (equals != std::string::npos) {
    const std::string name = option.substr(0, equals);
    const std::string value = option.substr(equals + 1);
    const absl::Status checked = CheckText(value, /*is_sent=*/true);
    if (!checked.ok()) return Annotate(checked, name + "=");
    const absl::StatusOr<bool> set = SetNamed(name, value, result);
    if (!set.ok()) return Annotate(set.status(), name + "=");
    if (*set) return absl::OkStatus();
  }
  result.arguments.mount_flags.push_back(option);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HelperLine> ParseHelperLine(int argc, const char* const* argv, std::string_view letters,
                                           std::size_t count) {
  HelperLine line;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.size() < 2 || argument[0] != '-') {
      line.words.emplace_back(argument);
      continue;
    }
    const char* const next = i + 1 < argc ? argv[i + 1] : nullptr;
    MOORING_ASSIGN_OR_RETURN(const bool taken, AddLetters(argument.substr(1), next, letters, line));
    if (taken) ++i;
  }
  if (line.words.size() == (line.all ? 0 : count)) return line;
  if (line.all) return InvalidArgument("-a unmounts all volumes: give no path with it");
  return InvalidArgument(count == 2 ? "give a volume and a directory"
                                    : "give one directory, or csi:VOLUME, to unmount");
}

absl::StatusOr<MountOptions> ParseMountOptions(const std::vector<std::string>& options) {
  MountOptions result;
  for (const std::string& option : options) MOORING_RETURN_IF_ERROR(SetOption(option, result));
  return result;
}

}  // namespace mooring::cli::mount_csi

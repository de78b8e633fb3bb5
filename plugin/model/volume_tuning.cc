#include "plugin/model/volume_tuning.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <sstream>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/size.h"
#include "base/text/whole_number.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

// The largest number means "leave it" to chown(2).
absl::StatusOr<std::uint32_t> ParseOwner(const std::string& key, const std::string& value) {
  const auto number = ParseWhole<std::uint32_t>(value);
  if (number && *number != std::numeric_limits<std::uint32_t>::max()) return *number;
  return InvalidArgument(
      "parameter {} {}: it is a number from 0 to 4294967294; a name means another number in each image, so look the "
      "number up there (id)",
      key, Quote(value));
}

absl::StatusOr<mode_t> ParseRootMode(const std::string& value) {
  constexpr unsigned kMost = 07777, kEnter = 0111;
  unsigned mode = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), mode, 8);
  const bool is_octal = error == std::errc() && end == value.data() + value.size() && value.size() <= 5;
  if (is_octal && mode <= kMost && (mode & kEnter) != 0) return static_cast<mode_t>(mode);
  return InvalidArgument(
      "parameter mode {}: it is an octal number as 0750, at most 7777, that lets somebody enter the directory (x)",
      Quote(value));
}

constexpr std::string_view kOnDelete = "onDelete";
constexpr std::array kOnDeleteWords = {std::pair("delete", OnDelete::kDelete), std::pair("retain", OnDelete::kRetain),
                                       std::pair("archive", OnDelete::kArchive)};

absl::StatusOr<OnDelete> ParseOnDelete(const std::string& value) {
  for (const auto& [word, on_delete] : kOnDeleteWords) {
    if (value == word) return on_delete;
  }
  return InvalidArgument("parameter {} {}: it is delete, retain or archive", kOnDelete, Quote(value));
}

constexpr std::string_view kReadAhead = "readAhead", kNoatime = "noatime", kIdMap = "idmap", kSubDir = "subDir";
constexpr std::string_view kRetained = "retained-", kArchived = "archived-";

constexpr std::int64_t kReadAheadUnit = 4096;  // the kernel counts pages
constexpr std::int64_t kMostReadAhead = std::int64_t{64} << 20;

absl::StatusOr<std::uint64_t> ParseReadAhead(const std::string& text) {
  const absl::StatusOr<std::int64_t> bytes = ParseSize(text);
  if (!bytes.ok()) return Annotate(bytes.status(), "mutable parameter readAhead");
  if (*bytes % kReadAheadUnit != 0 || *bytes > kMostReadAhead) {
    return InvalidArgument(
        "mutable parameter readAhead: {} is not 0 (as new devices have it) or a multiple of 4KiB up to 64MiB",
        Quote(text));
  }
  return static_cast<std::uint64_t>(*bytes);
}

absl::StatusOr<bool> ParseNoatime(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return InvalidArgument("mutable parameter noatime: {} is neither true nor false", Quote(text));
}

// Neither has both characters, and the words of a text have spaces between them.
std::string Exchanged(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

}  // namespace

absl::StatusOr<bool> SetMaking(const std::string& key, const std::string& value, VolumeMaking& making) {
  if (key == "uid") {
    MOORING_ASSIGN_OR_RETURN(making.root.uid, ParseOwner(key, value));
  } else if (key == "gid") {
    MOORING_ASSIGN_OR_RETURN(making.root.gid, ParseOwner(key, value));
  } else if (key == "mode") {
    MOORING_ASSIGN_OR_RETURN(making.root.mode, ParseRootMode(value));
  } else if (key == kOnDelete) {
    MOORING_ASSIGN_OR_RETURN(making.on_delete, ParseOnDelete(value));
  } else {
    const absl::StatusOr<bool> set = SetFormatOption(key, value, making.format);
    return set.ok() ? set : InvalidArgument("parameter {}", Message(set.status()));
  }
  return true;
}

absl::Status CheckMaking(const VolumeMaking& making, std::string_view fs_type) {
  const absl::Status status = CheckFormatOptions(fs_type, making.format);
  return status.ok() ? status : InvalidArgument("parameter {}", Message(status));
}

std::string MakingKeys() {
  return fmt::format("uid, gid, mode, {}, {}", kOnDelete, fmt::join(FormatOptionNames(), ", "));
}

bool IsSubDir(std::string_view name) {
  constexpr std::size_t kLongest = 128;
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  const bool is_word = !name.empty() && name.size() <= kLongest && name.front() != '.' &&
                       std::all_of(name.begin(), name.end(), is_plain);
  const bool is_made =
      IsStoredId(name.substr(0, name.find('.'))) || name.starts_with(kRetained) || name.starts_with(kArchived);
  return is_word && !is_made;
}

std::string KeptName(const std::string& id, const VolumeTuning& tuning) {
  const std::string& name = tuning.sub_dir;
  switch (tuning.making.on_delete) {
    case OnDelete::kDelete:
      return "";
    case OnDelete::kRetain:
      return name.empty() ? std::string(kRetained) + id : name;
    case OnDelete::kArchive:
      return std::string(kArchived) + (name.empty() ? id : name);
  }
  return "";
}

std::string MakingText(const VolumeMaking& making) {
  return making == VolumeMaking() ? "the default owner and format" : ToText(making);
}

std::string ToText(const VolumeMaking& making) {
  std::string text;
  const auto add = [&text](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  if (making.root.uid) add(fmt::format("uid={}", *making.root.uid));
  if (making.root.gid) add(fmt::format("gid={}", *making.root.gid));
  if (making.root.mode) add(fmt::format("mode={:04o}", *making.root.mode));
  for (const auto& [word, on_delete] : kOnDeleteWords) {
    const bool is_told = making.on_delete == on_delete && on_delete != OnDelete::kDelete;
    if (is_told) add(fmt::format("{}={}", kOnDelete, word));
  }
  if (making.format != FormatOptions()) add(ToString(making.format));
  return text;
}

absl::StatusOr<TuningChange> ParseTuning(const std::map<std::string, std::string>& mutable_parameters) {
  TuningChange change;
  for (const auto& [key, value] : mutable_parameters) {
    if (key == kReadAhead) {
      MOORING_ASSIGN_OR_RETURN(change.read_ahead_bytes, ParseReadAhead(value));
    } else if (key == kNoatime) {
      MOORING_ASSIGN_OR_RETURN(change.noatime, ParseNoatime(value));
    } else {
      return InvalidArgument("mutable parameter {} is unknown: this driver knows {} and {}", Quote(key), kReadAhead,
                             kNoatime);
    }
  }
  return change;
}

VolumeTuning With(VolumeTuning tuning, const TuningChange& change) {
  tuning.read_ahead_bytes = change.read_ahead_bytes.value_or(tuning.read_ahead_bytes);
  tuning.noatime = change.noatime.value_or(tuning.noatime);
  return tuning;
}

absl::Status CheckPossible(const TuningChange& change, const BackendTraits& traits) {
  if (!change.read_ahead_bytes || traits.tunes) return absl::OkStatus();
  return InvalidArgument(
      "mutable parameter readAhead: volumes of this pool have no device of their own that could be told");
}

std::string ToText(const VolumeTuning& tuning) {
  std::string text = tuning.noatime ? "noatime" : "";
  const auto add = [&text](const std::string& words) { text += (text.empty() ? "" : " ") + words; };
  if (tuning.read_ahead_bytes != 0) add(fmt::format("readAhead={}", tuning.read_ahead_bytes));
  if (tuning.making != VolumeMaking()) add(ToText(tuning.making));
  if (!tuning.idmap.empty()) add(fmt::format("{}={}", kIdMap, Exchanged(tuning.idmap, ' ', ',')));
  if (!tuning.sub_dir.empty()) add(fmt::format("{}={}", kSubDir, tuning.sub_dir));
  return text;
}

VolumeTuning TuningIn(const std::string& text) {
  VolumeTuning tuning;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (key == kNoatime) tuning.noatime = true;
    if (equals == std::string::npos) continue;
    const std::string value = word.substr(equals + 1);
    if (key == kReadAhead) {
      tuning.read_ahead_bytes = ParseWhole<std::uint64_t>(value).value_or(0);
    } else if (key == kIdMap) {
      tuning.idmap = Exchanged(value, ',', ' ');
    } else if (key == kSubDir) {
      if (IsSubDir(value)) tuning.sub_dir = value;
    } else {
      if (key == kOnDelete) tuning.making.on_delete = OnDelete::kRetain;  // also for a word of a newer program
      SetMaking(key, value, tuning.making).IgnoreError();
    }
  }
  return tuning;
}

MountFlags Tuned(MountFlags asked, const VolumeTuning& tuning) {
  if (tuning.noatime) asked.atime = Atime::kNoatime;
  return asked;
}

}  // namespace mooring

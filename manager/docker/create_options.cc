#include "manager/docker/create_options.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/size.h"
#include "manager/records/names.h"
#include "mounter/mount_words.h"

namespace mooring::manager {
namespace {

constexpr std::string_view kParameter = "param.";
constexpr std::string_view kSecret = "secret.";

// The options read so far. Finish sets secrets and propagation once all options are known.
struct Reading {
  DockerCreateOptions options;
  std::string propagation;
  StringMap secrets;
};

using Take = absl::Status (*)(const std::string& value, Reading& into);

absl::Status TakeSize(const std::string& value, std::uint64_t& into) {
  MOORING_ASSIGN_OR_RETURN(const std::int64_t bytes, ParseSize(value));
  into = static_cast<std::uint64_t>(bytes);
  return absl::OkStatus();
}

absl::Status TakeWord(const std::string& value, std::string& into) {
  if (value.empty()) return InvalidArgument("the value is missing");
  into = value;
  return absl::OkStatus();
}

absl::Status TakeFlags(const std::string& value, Reading& into) {
  for (const std::string& flag : SplitMountWords(value)) {
    if (flag.empty()) return InvalidArgument("a flag is empty: separate flags by one comma");
    into.options.mount_options.flags.push_back(flag);
  }
  return absl::OkStatus();
}

absl::Status TakeAccess(const std::string& value, Reading& into) {
  MOORING_ASSIGN_OR_RETURN(into.options.access, ParseAccessMode(value));
  return absl::OkStatus();
}

absl::Status TakeReadOnly(const std::string& value, Reading& into) {
  if (!value.empty() && value != "true" && value != "false") {
    return InvalidArgument("{} is neither true nor false", Quote(value));
  }
  into.options.read_only = value != "false";
  return absl::OkStatus();
}

// Errors do not show the line, which may be a secret.
absl::Status TakeSecretLines(std::istream& lines, StringMap& into) {
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidArgument("line {} of the file is not KEY=VALUE", number);
    }
    if (!into.emplace(line.substr(0, equals), line.substr(equals + 1)).second) {
      return InvalidArgument("line {} of the file repeats a secret", number);
    }
  }
  return absl::OkStatus();
}

absl::Status TakeSecretsFile(const std::string& value, Reading& into) {
  MOORING_ASSIGN_OR_RETURN(const std::string path, NormalisePath("secrets-file", value));
  errno = 0;
  std::ifstream file(path);
  if (!file) return ErrnoStatus(errno, "open", path);
  MOORING_RETURN_IF_ERROR(TakeSecretLines(file, into.secrets));
  return file.bad() ? ErrnoStatus(EIO, "read", path) : absl::OkStatus();
}

constexpr std::array<std::pair<std::string_view, Take>, 11> kOptions = {{
    {"size", [](const std::string& value, Reading& into) { return TakeSize(value, into.options.min_bytes); }},
    {"max-size", [](const std::string& value, Reading& into) { return TakeSize(value, into.options.max_bytes); }},
    {"plugin", [](const std::string& value, Reading& into) { return TakeWord(value, into.options.plugin); }},
    {"fs-type",
     [](const std::string& value, Reading& into) { return TakeWord(value, into.options.mount_options.fs_type); }},
    {"mount-flags", TakeFlags},
    {"access", TakeAccess},
    {"propagation", [](const std::string& value, Reading& into) { return TakeWord(value, into.propagation); }},
    {"ro", TakeReadOnly},
    {"from-snapshot",
     [](const std::string& value, Reading& into) { return TakeWord(value, into.options.from_snapshot); }},
    {"from-volume", [](const std::string& value, Reading& into) { return TakeWord(value, into.options.from_volume); }},
    {"secrets-file", TakeSecretsFile},
}};

// "fsType", "fs_type" and "fs-type" become "fstype".
std::string Plain(std::string_view key) {
  std::string plain;
  for (const char c : key) {
    if (c != '-' && c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

// Parameters of mooring-plugin that Docker users know as options of a volume.
constexpr std::array<std::string_view, 3> kOwnerParameters = {"uid", "gid", "mode"};

absl::Status UnknownOption() {
  std::string known;
  for (const auto& [key, take] : kOptions) known += fmt::format("{}, ", key);
  for (const std::string_view key : kOwnerParameters) known += fmt::format("{}, ", key);
  return InvalidArgument("unknown option: use one of {}param.KEY and secret.KEY", known);
}

absl::Status TakePair(std::string_view key, const std::string& value, StringMap& into) {
  if (key.empty()) return InvalidArgument("the key after the dot is missing");
  if (into.emplace(key, value).second) return absl::OkStatus();
  return InvalidArgument("it is given twice");
}

absl::Status TakeOption(const std::string& key, const std::string& value, Reading& into) {
  const std::string_view view = key;
  if (view.starts_with(kParameter)) return TakePair(view.substr(kParameter.size()), value, into.options.parameters);
  if (view.starts_with(kSecret)) return TakePair(view.substr(kSecret.size()), value, into.secrets);
  for (const auto& [known, take] : kOptions) {
    if (Plain(known) == Plain(key)) return take(value, into);
  }
  for (const std::string_view known : kOwnerParameters) {
    if (known == Plain(key)) return TakePair(known, value, into.options.parameters);
  }
  return UnknownOption();
}

// Checks the options against each other.
absl::Status Finish(Reading& reading, std::vector<std::string>& wrong) {
  DockerCreateOptions& options = reading.options;
  if (!options.from_snapshot.empty() && !options.from_volume.empty()) {
    wrong.emplace_back("from-snapshot and from-volume: a volume can have only one source");
  }
  if (options.max_bytes != 0 && options.max_bytes < options.min_bytes) {
    wrong.emplace_back("max-size is less than size");
  }
  if (options.access && IsReader(*options.access)) options.read_only = true;
  options.secrets = Secrets(std::move(reading.secrets));
  const auto propagation = ParsePropagationFor(reading.propagation, options.read_only);
  if (!propagation.ok()) return propagation.status();
  options.propagation = *propagation;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DockerCreateOptions> ParseDockerOptions(const StringMap& options) {
  Reading reading;
  std::vector<std::string> wrong;
  for (const auto& [key, value] : options) {
    const absl::Status status = TakeOption(key, value, reading);
    if (!status.ok()) wrong.push_back(fmt::format("-o {}: {}", Quote(key), Message(status)));
  }
  if (const absl::Status status = Finish(reading, wrong); !status.ok()) wrong.push_back(Message(status));
  if (wrong.empty()) return std::move(reading.options);
  return InvalidArgument("{}", fmt::join(wrong, "; "));
}

}  // namespace mooring::manager

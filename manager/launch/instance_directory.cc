#include "manager/launch/instance_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/file/directory.h"
#include "base/file/private_file.h"
#include "base/file/whole_file.h"
#include "base/host.h"
#include "base/log.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/launch/engine_client.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

using nlohmann::json;

// The part of the plugin's name in the directory's name is for people; the digits make it unique. It is short because
// the path of a socket has at most 107 bytes (unix(7)).
constexpr std::size_t kNameBytes = 20;
constexpr std::size_t kDigitBytes = 4;

constexpr const char* kOwnFiles[] = {"csi.sock", "log", "log.1", "process", "process.new", "instance.new", "instance"};

std::string NotePath(const std::string& directory) { return directory + "/instance"; }

json Describe(const InstanceDirectory& directory) {
  return {{"plugin", directory.plugin},
          {"generation", directory.generation},
          {"kind", directory.kind == PluginRecord::Run::Kind::kContainer ? "container" : "exec"},
          {"engine", directory.engine}};
}

// Whether the name ends in '-' and 8 hex digits, as MakeInstanceDirectory makes it.
bool IsInstanceName(const std::string& name) {
  constexpr std::size_t kDigits = 2 * kDigitBytes;
  if (name.size() <= kDigits || name[name.size() - kDigits - 1] != '-') return false;
  return name.find_first_not_of("0123456789abcdef", name.size() - kDigits) == std::string::npos;
}

// Gives "" if the instance was never launched: the note is written before the launch, whole or not at all.
absl::StatusOr<std::string> ReadNote(const std::string& path) {
  absl::StatusOr<std::string> note = ReadWholeFile(NotePath(path));
  return absl::IsNotFound(note.status()) ? "" : note;
}

std::optional<InstanceDirectory> Parse(const std::string& path, const std::string& text) {
  const json note = json::parse(text, nullptr, /*allow_exceptions=*/false);
  InstanceDirectory directory;
  directory.path = path;
  directory.id = std::filesystem::path(path).filename();
  directory.plugin = Text(note, "plugin");
  if (directory.plugin.empty()) return std::nullopt;
  const auto generation = note.find("generation");
  if (generation != note.end() && generation->is_number_unsigned()) {
    directory.generation = generation->get<std::uint64_t>();
  }
  directory.engine = Text(note, "engine");
  if (Text(note, "kind") == "container") directory.kind = PluginRecord::Run::Kind::kContainer;
  return directory;
}

}  // namespace

absl::StatusOr<InstanceDirectory> MakeInstanceDirectory(const std::string& socket_root, const std::string& plugin,
                                                        const PluginRecord::Run& run) {
  InstanceDirectory directory;
  directory.id = fmt::format("{}-{}", Escape(plugin).substr(0, kNameBytes), RandomHex(kDigitBytes));
  directory.path = fmt::format("{}/{}", socket_root, directory.id);
  directory.plugin = plugin;
  directory.generation = run.generation;
  directory.kind = run.kind;
  directory.engine = run.engine;
  MOORING_RETURN_IF_ERROR(ParseSocketPath(directory.SocketPath()).status());

  std::error_code error;
  std::filesystem::create_directories(socket_root, error);
  if (error) return ErrnoStatus(error.value(), "make the directory for the sockets of plugins", socket_root);
  if (::mkdir(directory.path.c_str(), S_IRWXU) != 0) {
    return ErrnoStatus(errno, "make the socket directory", directory.path);
  }
  MOORING_RETURN_IF_ERROR(
      WritePrivateFile(NotePath(directory.path), Describe(directory).dump(), Outlives::kTheProcess));
  return directory;
}

absl::StatusOr<std::vector<InstanceDirectory>> FindInstanceDirectories(const std::string& socket_root) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOrNone(socket_root));
  std::vector<InstanceDirectory> found;
  for (const std::string& name : names) {
    if (!IsInstanceName(name)) continue;
    const std::string path = fmt::format("{}/{}", socket_root, name);
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) continue;
    MOORING_ASSIGN_OR_RETURN(const std::string note, ReadNote(path));
    if (auto directory = Parse(path, note)) {
      found.push_back(*std::move(directory));
    } else if (note.empty()) {
      RemoveInstanceDirectory(path);
    } else {
      log::Warning("the note of an instance cannot be parsed; its directory is left alone", {{"note", NotePath(path)}});
    }
  }
  return found;
}

bool IsInstanceOnRecord(const std::string& socket_root, const std::string& id) {
  if (!IsInstanceName(id) || id.find('/') != std::string::npos) return true;
  return ::access(NotePath(fmt::format("{}/{}", socket_root, id)).c_str(), F_OK) == 0 ||
         (errno != ENOENT && errno != ENOTDIR);
}

void RemoveInstanceDirectory(const std::string& path) {
  // The note goes last, so that a directory that is removed half-way is found again.
  for (const char* name : kOwnFiles) ::unlink(fmt::format("{}/{}", path, name).c_str());
  ::rmdir(path.c_str());  // fails if others have put files there, which stay
}

}  // namespace mooring::manager

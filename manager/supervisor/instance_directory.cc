#include "manager/supervisor/instance_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/directory.h"
#include "base/host.h"
#include "base/quote.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "manager/state/keys.h"
#include "manager/supervisor/private_file.h"

namespace mooring::manager {
namespace {

using nlohmann::json;

// Of the plugin's name, for people who look there; the digits behind it make it one of a kind. A socket's path has 107
// bytes in all.
constexpr std::size_t kNameBytes = 32;
constexpr std::size_t kDigitBytes = 4;

std::string NotePath(const std::string& directory) { return directory + "/instance"; }

json Describe(const InstanceDirectory& directory) {
  return {{"plugin", directory.plugin},
          {"generation", directory.generation},
          {"kind", directory.kind == PluginRecord::Run::Kind::kContainer ? "container" : "exec"},
          {"engine", directory.engine}};
}

std::optional<InstanceDirectory> Read(const std::string& path) {
  std::ifstream file(NotePath(path));
  const json note = json::parse(std::string{std::istreambuf_iterator<char>(file), {}}, nullptr, false);
  if (!note.is_object()) return std::nullopt;
  InstanceDirectory directory;
  directory.path = path;
  directory.id = std::filesystem::path(path).filename();
  directory.plugin = note.value("plugin", "");
  directory.generation = note.value("generation", std::uint64_t{0});
  directory.engine = note.value("engine", "");
  if (note.value("kind", "") == "container") directory.kind = PluginRecord::Run::Kind::kContainer;
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
  if (error) return ErrnoStatus(error.value(), "make the directory of plugins' sockets", socket_root);
  if (::mkdir(directory.path.c_str(), S_IRWXU) != 0) {
    return ErrnoStatus(errno, "make the socket directory", directory.path);
  }
  MOORING_RETURN_IF_ERROR(WritePrivateFile(NotePath(directory.path), Describe(directory).dump()));
  return directory;
}

absl::StatusOr<std::vector<InstanceDirectory>> FindInstanceDirectories(const std::string& socket_root) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOrNone(socket_root));
  std::vector<InstanceDirectory> found;
  for (const std::string& name : names) {
    const std::string path = fmt::format("{}/{}", socket_root, name);
    if (auto directory = Read(path)) {
      found.push_back(*std::move(directory));
    } else if (std::filesystem::is_directory(path)) {
      MOORING_RETURN_IF_ERROR(RemoveInstanceDirectory(path));
    }
  }
  return found;
}

absl::Status RemoveInstanceDirectory(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOrNone(path));
  // The note last: one that was left half-way is found again.
  for (const std::string& name : names) {
    if (name != "instance") ::unlink(fmt::format("{}/{}", path, name).c_str());
  }
  ::unlink(NotePath(path).c_str());
  if (::rmdir(path.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, "remove the socket directory", path);
  return absl::OkStatus();
}

}  // namespace mooring::manager

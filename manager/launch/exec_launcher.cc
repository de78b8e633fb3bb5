#include "manager/launch/exec_launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file/private_file.h"
#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/launch/held_child.h"
#include "manager/launch/placeholders.h"
#include "manager/launch/plugin_process.h"
#include "manager/launch/process_log.h"

namespace mooring::manager {
namespace {

constexpr char kDefaultPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::string LogPath(const LaunchSpec& spec) { return spec.socket_directory + "/log"; }
std::string IdentityPath(const LaunchSpec& spec) { return spec.socket_directory + "/process"; }

std::string Path() {
  const char* path = std::getenv("PATH");
  return path == nullptr || *path == '\0' ? kDefaultPath : path;
}

// The program is looked up before the fork, so that a wrong name is reported before anything is started.
absl::StatusOr<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (name.front() == '/' && ::access(name.c_str(), X_OK) == 0) return name;
    return InvalidArgument("{} is not an executable file: give a name in PATH, or a full path", Quote(name));
  }
  std::istringstream directories(Path());
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string path = fmt::format("{}/{}", directory, name);
    if (directory.starts_with('/') && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return InvalidArgument("program {} is not in PATH ({})", Quote(name), Path());
}

// The manager's own settings, its sockets and NOTIFY_SOCKET are left out.
std::vector<std::string> EnvironmentFor(const LaunchSpec& spec) {
  StringMap environment = {{"PATH", Path()}};
  for (const char* name : {"HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  environment[kMountRootVariable] = spec.root;
  for (const auto& [name, value] : spec.run.environment) environment[name] = value;
  environment["CSI_ENDPOINT"] = EndpointOf(spec.socket_directory + "/csi.sock");
  std::vector<std::string> lines;
  lines.reserve(environment.size());
  for (const auto& [name, value] : environment) lines.push_back(fmt::format("{}={}", name, value));
  return lines;
}

absl::Status Remember(const LaunchSpec& spec, const ProcessIdentity& identity) {
  return WritePrivateFile(IdentityPath(spec),
                          fmt::format("{} {} {}\n", identity.pid, identity.start_time, identity.boot),
                          Outlives::kTheProcess);
}

absl::StatusOr<ProcessIdentity> Recall(const LaunchSpec& spec) {
  const absl::StatusOr<std::string> text = ReadWholeFile(IdentityPath(spec));
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  ProcessIdentity identity;
  std::istringstream file(text.value_or(""));
  file >> identity.pid >> identity.start_time >> identity.boot;
  if (!file) return NotFound("no process was started for instance {}", Quote(spec.instance_id));
  return identity;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Launched>> ExecLauncher::Launch(const LaunchSpec& spec, Clock::time_point /*until*/) {
  if (spec.run.command.empty()) return InvalidArgument("no program is given for plugin " + Quote(spec.plugin));
  MOORING_ASSIGN_OR_RETURN(const std::string program, FindProgram(spec.run.command.front()));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd log, OpenProcessLog(LogPath(spec)));
  MOORING_ASSIGN_OR_RETURN(HeldChild child,
                           HeldChild::Fork({program, spec.run.command, EnvironmentFor(spec), log.get()}));
  MOORING_ASSIGN_OR_RETURN(const ProcessIdentity identity, IdentityOf(child.pid()));
  MOORING_RETURN_IF_ERROR(Remember(spec, identity));
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<PluginProcess> process,
                           PluginProcess::Open(identity, spec.socket_directory));
  if (const absl::Status released = child.Release(); !released.ok()) return Annotate(released, Quote(program));
  return process;
}

absl::StatusOr<std::unique_ptr<Launched>> ExecLauncher::Adopt(const LaunchSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const ProcessIdentity identity, Recall(spec));
  absl::StatusOr<std::unique_ptr<PluginProcess>> process = PluginProcess::Open(identity, spec.socket_directory);
  if (absl::IsNotFound(process.status())) KillServerLeft(spec.socket_directory + "/csi.sock");
  MOORING_RETURN_IF_ERROR(process.status());
  if (!(*process)->IsAlive()) return NotFound("{} has ended", (*process)->Handle());
  return *std::move(process);
}

absl::Status ExecLauncher::EndStrays(const std::string& /*engine*/, Clock::time_point /*until*/,
                                     std::stop_token /*stop*/) {
  return absl::OkStatus();
}

}  // namespace mooring::manager

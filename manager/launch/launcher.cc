#include "manager/launch/launcher.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::manager {
namespace {

// Works in a single pass: placeholders in a value are not filled in.
std::string Fill(std::string_view text, const PlaceholderValues& values) {
  const std::string endpoint = EndpointOf(values.socket);
  const std::array<std::pair<std::string_view, std::string_view>, 6> table = {{
      {"{{endpoint}}", "{endpoint}"},
      {"{{socket}}", "{socket}"},
      {"{{node}}", "{node}"},
      {"{endpoint}", endpoint},
      {"{socket}", values.socket},
      {"{node}", values.node},
  }};
  std::string filled;
  while (!text.empty()) {
    std::string_view found = text.substr(0, 1), value = found;
    for (const auto& [name, with] : table) {
      if (!text.starts_with(name)) continue;
      found = name;
      value = with;
      break;
    }
    filled += value;
    text.remove_prefix(found.size());
  }
  return filled;
}

bool HasNul(const std::string& text) { return text.find('\0') != std::string::npos; }

absl::Status CheckEnvironment(const StringMap& environment) {
  for (const auto& [name, value] : environment) {
    if (name.empty() || name.find('=') != std::string::npos || HasNul(name)) {
      return InvalidArgument("{} is not the name of an environment variable", Quote(name));
    }
    if (HasNul(value)) return InvalidArgument("the value of environment variable {} contains a NUL byte", Quote(name));
    if (name == "CSI_ENDPOINT") return InvalidArgument("the manager sets CSI_ENDPOINT itself: leave it out");
  }
  return absl::OkStatus();
}

absl::Status CheckProgram(const PluginRecord::Run& run) {
  switch (run.kind) {
    case PluginRecord::Run::Kind::kExec:
      return run.command.empty() || run.command.front().empty()
                 ? InvalidArgument("a plugin to run needs a command (--exec) or an image (--image)")
                 : absl::OkStatus();
    case PluginRecord::Run::Kind::kContainer:
      return run.image.empty() ? InvalidArgument("a plugin that runs as a container needs an image (--image)")
                               : absl::OkStatus();
  }
  return InvalidArgument("the kind of run is missing: give a program or a container");
}

// Engines write a mount as fields with ':' between them; Podman's API uses ',' and '"' too.
absl::StatusOr<std::string> CheckPath(std::string_view field, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(std::string normal, NormalisePath(field, path));
  if (normal.find_first_of(":,\"") == std::string::npos) return normal;
  return InvalidArgument("{} {} contains ':', ',' or '\"': container engines use these characters as separators", field,
                         Quote(path));
}

// A mount that the engine makes on a shared mount appears on the host too. So the manager's own binds must not lie on
// one.
absl::Status CheckShared(const PluginRecord::Bind& bind, const std::vector<std::string>& own) {
  if (bind.propagation != Propagation::kShared) return absl::OkStatus();
  if (bind.read_only) {
    return InvalidArgument("bind at {}: propagation rshared needs write access, and this bind is read-only",
                           Quote(bind.target));
  }
  for (const std::string& path : own) {
    if (!IsBelow(path, bind.target)) continue;
    return InvalidArgument(
        "bind at {}: the manager binds {} into every container, and with rshared that mount would appear on the host "
        "too; use rslave, or another path in the container",
        Quote(bind.target), Quote(path));
  }
  return absl::OkStatus();
}

absl::Status CheckBind(PluginRecord::Bind& bind, const ManagerPaths& paths) {
  if (bind.source != "/") {  // "/" is a valid source as it is
    MOORING_ASSIGN_OR_RETURN(bind.source, CheckPath("the host path of a bind", bind.source));
  }
  MOORING_ASSIGN_OR_RETURN(bind.target, CheckPath("the container path of a bind", bind.target));
  // The root is shared: a bind below it would appear on the host.
  if (bind.target == "/dev" || IsBelow(bind.target, paths.root)) {
    return InvalidArgument(
        "bind at {}: the manager binds the host's directory there for every plugin; choose another path",
        Quote(bind.target));
  }
  return CheckShared(bind, {paths.root, paths.socket_root});
}

absl::Status CheckBinds(PluginRecord::Run& run, const ManagerPaths& paths) {
  if (run.kind == PluginRecord::Run::Kind::kExec && !run.binds.empty()) {
    return InvalidArgument("binds are for containers: a program sees every path of the host");
  }
  std::vector<std::string> targets;
  for (PluginRecord::Bind& bind : run.binds) {
    MOORING_RETURN_IF_ERROR(CheckBind(bind, paths));
    if (std::find(targets.begin(), targets.end(), bind.target) != targets.end()) {
      return InvalidArgument("two binds are at {} in the container: leave one out", Quote(bind.target));
    }
    targets.push_back(bind.target);
  }
  return absl::OkStatus();
}

}  // namespace

std::string EndpointOf(const std::string& socket) { return "unix://" + socket; }

PluginRecord::Run FillPlaceholders(PluginRecord::Run run, const PlaceholderValues& values) {
  for (std::string& word : run.command) word = Fill(word, values);
  for (auto& [name, value] : run.environment) value = Fill(value, values);
  return run;
}

absl::StatusOr<PluginRecord::Run> CheckRun(PluginRecord::Run run, const ManagerPaths& paths) {
  MOORING_RETURN_IF_ERROR(CheckProgram(run));
  if (std::any_of(run.command.begin(), run.command.end(), HasNul)) {
    return InvalidArgument("the command contains a NUL byte");
  }
  if (run.start_deadline < std::chrono::seconds(1) || run.start_deadline > std::chrono::hours(24)) {
    return InvalidArgument("the start deadline must be between 1 second and 1 day");
  }
  MOORING_RETURN_IF_ERROR(CheckBinds(run, paths));
  MOORING_RETURN_IF_ERROR(CheckEnvironment(run.environment));
  return run;
}

}  // namespace mooring::manager

#include "manager/supervisor/run_check.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::manager {
namespace {

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

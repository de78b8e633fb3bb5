#include "manager/supervisor/run_check.h"

#include <fmt/format.h>

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
      return InvalidArgument(fmt::format("{} is no name of an environment variable", Quote(name)));
    }
    if (HasNul(value)) return InvalidArgument(fmt::format("the value of {} holds a NUL byte", Quote(name)));
    if (name == "CSI_ENDPOINT") return InvalidArgument("CSI_ENDPOINT is set by the manager: leave it out");
  }
  return absl::OkStatus();
}

absl::Status CheckWhatIsRun(const PluginRecord::Run& run) {
  switch (run.kind) {
    case PluginRecord::Run::Kind::kExec:
      return run.command.empty() || run.command.front().empty() ? InvalidArgument("say which program is to be run")
                                                                : absl::OkStatus();
    case PluginRecord::Run::Kind::kContainer:
      return run.image.empty() ? InvalidArgument("say of which image the container is to be") : absl::OkStatus();
  }
  return InvalidArgument("say whether it is a program or a container");
}

// Engines write a mount as a line of fields: with the first between them, with the others in Podman's API.
absl::StatusOr<std::string> CheckPath(std::string_view field, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(std::string normal, NormalisePath(field, path));
  if (normal.find_first_of(":,\"") == std::string::npos) return normal;
  return InvalidArgument(fmt::format(
      "{} {}: ':', ',' and '\"' are not allowed in it, for engines part its fields by them", field, Quote(path)));
}

// What the engine mounts on a shared mount arrives on the host: the manager's own binds must not lie on one.
absl::Status CheckShared(const PluginRecord::Bind& bind, const std::vector<std::string>& own) {
  if (bind.propagation != Propagation::kShared) return absl::OkStatus();
  if (bind.read_only) {
    return InvalidArgument(fmt::format(
        "a bind at {}: rshared propagation needs write access, and it is to be read-only", Quote(bind.target)));
  }
  for (const std::string& path : own) {
    if (!IsBelow(path, bind.target)) continue;
    return InvalidArgument(fmt::format(
        "a bind at {}: the manager binds {} for every plugin, and with rshared that would be mounted on the host, too; "
        "use rslave, or another path in the container",
        Quote(bind.target), Quote(path)));
  }
  return absl::OkStatus();
}

absl::Status CheckBind(PluginRecord::Bind& bind, const ManagerPaths& paths) {
  if (bind.source != "/") {  // the whole host is a source as any other
    MOORING_ASSIGN_OR_RETURN(bind.source, CheckPath("the path of the host in a bind", bind.source));
  }
  MOORING_ASSIGN_OR_RETURN(bind.target, CheckPath("the path in the container of a bind", bind.target));
  // The root is shared: what is bound below it would be mounted on the host.
  if (bind.target == "/dev" || IsBelow(bind.target, paths.root)) {
    return InvalidArgument(
        fmt::format("a bind at {}: the manager puts the host's own there for every plugin", Quote(bind.target)));
  }
  return CheckShared(bind, {paths.root, paths.socket_root});
}

absl::Status CheckBinds(PluginRecord::Run& run, const ManagerPaths& paths) {
  if (run.kind == PluginRecord::Run::Kind::kExec && !run.binds.empty()) {
    return InvalidArgument("binds are for containers: a program sees every path of the host as it is");
  }
  std::vector<std::string> targets;
  for (PluginRecord::Bind& bind : run.binds) {
    MOORING_RETURN_IF_ERROR(CheckBind(bind, paths));
    if (std::find(targets.begin(), targets.end(), bind.target) != targets.end()) {
      return InvalidArgument(fmt::format("two binds are at {} of the container", Quote(bind.target)));
    }
    targets.push_back(bind.target);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PluginRecord::Run> CheckRun(PluginRecord::Run run, const ManagerPaths& paths) {
  MOORING_RETURN_IF_ERROR(CheckWhatIsRun(run));
  if (std::any_of(run.command.begin(), run.command.end(), HasNul)) {
    return InvalidArgument("the command holds a NUL byte");
  }
  if (run.start_deadline < std::chrono::seconds(1) || run.start_deadline > std::chrono::hours(24)) {
    return InvalidArgument("the start deadline is to be from 1 second to 1 day");
  }
  MOORING_RETURN_IF_ERROR(CheckBinds(run, paths));
  MOORING_RETURN_IF_ERROR(CheckEnvironment(run.environment));
  return run;
}

}  // namespace mooring::manager

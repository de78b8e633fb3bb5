#include "manager/supervisor/instance_launch.h"

#include <system_error>
#include <utility>

#include "base/status.h"
#include "manager/launch/placeholders.h"

namespace mooring::manager {
namespace {

Launcher& LauncherOf(const SupervisorDependencies& deps, PluginRecord::Run::Kind kind) {
  return kind == PluginRecord::Run::Kind::kContainer ? deps.container : deps.exec;
}

LaunchSpec SpecOf(const SupervisorSettings& settings, const InstanceDirectory& directory, const PluginRecord::Run& run,
                  std::stop_token stop) {
  return {.plugin = directory.plugin,
          .instance_id = directory.id,
          .run = FillPlaceholders(run, {.socket = directory.SocketPath(), .node = settings.host}),
          .socket_directory = directory.path,
          .root = settings.root,
          .stop = std::move(stop)};
}

LaunchedInstance LaunchInstance(const SupervisorDependencies& deps, const PluginRecord& wanted,
                                const std::stop_token& stop) {
  const SupervisorSettings& settings = deps.settings;
  MOORING_ASSIGN_OR_RETURN(InstanceDirectory directory,
                           MakeInstanceDirectory(settings.socket_root, wanted.name, *wanted.run));
  auto process = LauncherOf(deps, directory.kind)
                     .Launch(SpecOf(settings, directory, *wanted.run, stop), Clock::now() + wanted.run->start_deadline);
  if (!process.ok()) {
    RemoveInstanceDirectory(directory.path);
    return process.status();
  }
  return std::make_unique<SupervisedInstance>(std::move(directory), *std::move(process));
}

}  // namespace

LaunchedInstance AdoptInstance(const SupervisorDependencies& deps, const InstanceDirectory& directory) {
  PluginRecord::Run run;
  run.engine = directory.engine;
  MOORING_ASSIGN_OR_RETURN(auto process,
                           LauncherOf(deps, directory.kind).Adopt(SpecOf(deps.settings, directory, run, {})));
  return std::make_unique<SupervisedInstance>(directory, std::move(process));
}

void PendingLaunch::Begin(const PluginRecord& wanted, const std::stop_token& stop) {
  wanted_ = wanted;
  over_ = false;
  try {
    launch_ = std::async(std::launch::async, [this, stop] {
      LaunchedInstance launched = LaunchInstance(deps_, wanted_, stop);
      over_ = true;
      wake_.Wake();
      return launched;
    });
  } catch (const std::system_error& error) {
    std::promise<LaunchedInstance> failed;
    failed.set_value(Unavailable("cannot start a thread: {}", error.what()));
    launch_ = failed.get_future();
    over_ = true;
    wake_.Wake();
  }
}

}  // namespace mooring::manager

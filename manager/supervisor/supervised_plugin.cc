#include "manager/supervisor/supervised_plugin.h"

#include <utility>

#include "manager/supervisor/plugin_worker.h"

namespace mooring::manager {

SupervisedPlugin::SupervisedPlugin(const SupervisorDependencies& deps, const PluginRecord& wanted,
                                   std::vector<InstanceDirectory> left)
    : name_(wanted.name),
      state_(wanted),
      terminator_(deps, name_, [this] { wake_.Wake(); }),
      thread_([this, &deps, left = std::move(left)](const std::stop_token& stop) mutable {
        PluginWorker(deps, name_, state_, terminator_, wake_, std::move(left), stop).Run();
      }) {}

SupervisedPlugin::~SupervisedPlugin() { Stop(); }

void SupervisedPlugin::Want(const PluginRecord& record) {
  state_.Want(record);
  wake_.Wake();
}

void SupervisedPlugin::EndSupervision() {
  thread_.request_stop();
  wake_.Wake();
}

absl::Status SupervisedPlugin::Terminate(Clock::time_point until) {
  const int tried = state_.BeginTermination();
  EndSupervision();
  terminator_.EndBy(until);
  return state_.WaitUntilTerminated(tried);
}

void SupervisedPlugin::BeginStop() {
  state_.BeginStop();
  terminator_.BeginStop();
  EndSupervision();
}

void SupervisedPlugin::Stop() {
  BeginStop();
  const std::lock_guard<std::mutex> lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

}  // namespace mooring::manager

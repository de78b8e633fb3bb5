// Where instances go that are stopped: the last look at one may take a second, which holds up nobody here.
#ifndef MOORING_MANAGER_PLUGINS_INSTANCE_REAPER_H_
#define MOORING_MANAGER_PLUGINS_INSTANCE_REAPER_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "manager/plugins/instance_manager.h"

namespace mooring::manager {

class InstanceReaper {
 public:
  InstanceReaper();
  ~InstanceReaper();  // Finish

  // All at once; each is stopped at its last look's end. Does not wait.
  void Stop(std::vector<std::shared_ptr<InstanceManager>> instances);

  void Finish();  // all of them are stopped; takes no more

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<InstanceManager>> stopping_;
  bool finishing_ = false;
  std::thread thread_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_PLUGINS_INSTANCE_REAPER_H_

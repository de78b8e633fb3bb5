// Inspects one running plugin instance of one type, every 30 s. It has a thread of its own, so that a plugin that hangs
// delays no other.
#ifndef MOORING_MANAGER_PLUGINS_INSTANCE_MANAGER_H_
#define MOORING_MANAGER_PLUGINS_INSTANCE_MANAGER_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "manager/plugins/plugin_directory.h"

namespace mooring::manager {

class InstanceManager {
 public:
  struct Settings {
    Clock::duration interval = std::chrono::seconds(30);
    Clock::duration interval_sick = std::chrono::seconds(5);  // shorter, because callers wait for the plugin
    Clock::duration deadline = std::chrono::seconds(30);
    Clock::duration last_inspection = std::chrono::seconds(1);
    Clock::duration retry_incomplete = std::chrono::milliseconds(500);  // until the first success
  };
  // Called only when health, error or description differ from `before`. Called from the instance's thread, with no lock
  // held; must return soon. The first call has a `before` whose `at` is Time().
  using OnChange =
      std::function<void(const InstanceInfo& instance, const Fingerprint& found, const Fingerprint& before)>;

  InstanceManager(InstanceInfo instance, std::shared_ptr<CsiChannel> channel, Settings settings, OnChange on_change);
  ~InstanceManager();  // Stop

  // Inspects once more, for at most `last_inspection`; then the instance is unhealthy for good. Waits for the thread.
  // If the plugin does not answer, its channel is closed, so that hanging calls end. Otherwise calls under way may
  // finish.
  void Stop();
  void BeginStop();  // starts the time of the last inspection, and does not wait

  const InstanceInfo& instance() const { return instance_; }
  Fingerprint fingerprint() const;
  ReadyPlugin Now() const;

 private:
  void Run();
  void InspectLast();
  bool IsStopping() const;
  void Store(Fingerprint found);
  Clock::duration Pause() const;  // under mutex_

  const InstanceInfo instance_;
  const std::shared_ptr<CsiChannel> channel_;
  const Settings settings_;
  const OnChange on_change_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Fingerprint fingerprint_;
  bool stopping_ = false;
  Clock::time_point stop_until_ = {};  // set once, with stopping_
  bool done_ = false;
  std::mutex joining_;  // held during thread_.join()
  std::thread thread_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_PLUGINS_INSTANCE_MANAGER_H_

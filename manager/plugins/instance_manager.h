// One running plugin of one type: looked at every 30 s, (c). A thread of its own does the looking, so that a plugin
// that hangs holds up nobody.
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
    Clock::duration interval_sick = std::chrono::seconds(5);  // what waits for it is to go on soon
    Clock::duration deadline = std::chrono::seconds(30);
    Clock::duration last_look = std::chrono::seconds(1);
    Clock::duration retry_unsettled = std::chrono::milliseconds(500);  // until the first full success
  };
  // Called from its thread, with no lock held, when health, words or description have changed; never for what is
  // unchanged. Must return soon.
  using OnChange = std::function<void(const InstanceInfo& instance, const Fingerprint& fingerprint)>;

  InstanceManager(InstanceInfo instance, std::shared_ptr<CsiChannel> channel, Settings settings, OnChange on_change);
  ~InstanceManager();  // Stop

  // One last look, at most `last_look`, then unhealthy for good. Blocks until its thread has ended. The channel is
  // closed where the plugin did not answer, so that calls that hang there end; at one that answers, calls under way may
  // end by themselves.
  void Stop();
  void BeginStop();  // without waiting: the time of the last look begins

  const InstanceInfo& instance() const { return instance_; }
  Fingerprint fingerprint() const;
  ReadyPlugin Now() const;

 private:
  void Run();
  void LookForTheLastTime();
  bool IsStopping() const;
  void Settle(Fingerprint found);
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
  std::mutex joining_;  // around thread_.join()
  std::thread thread_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_PLUGINS_INSTANCE_MANAGER_H_

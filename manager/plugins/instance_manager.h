// The health of one plugin instance in one role, and its channel for calls. It has no thread: PluginWatch inspects the
// instance and stores what it finds.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "manager/plugins/plugin_directory.h"

namespace mooring::manager {

class InstanceManager {
 public:
  // Called only when health, error or description differ from `before`. Called from the thread that stores, with no
  // lock held; must return soon. The first call has a `before` whose `at` is Time().
  using OnChange =
      std::function<void(const InstanceInfo& instance, const Fingerprint& found, const Fingerprint& before)>;

  InstanceManager(InstanceInfo instance, std::shared_ptr<CsiChannel> channel, Clock::duration last_inspection,
                  OnChange on_change);

  void Store(Fingerprint found);  // does nothing once BeginStop was called

  // Inspects once more, for at most `last_inspection`; then the instance is unhealthy for good. If the plugin does not
  // answer, its channel is closed, so that hanging calls end. Otherwise calls under way may finish.
  void Stop();
  void BeginStop();  // starts the time of the last inspection, and does not wait

  const InstanceInfo& instance() const { return instance_; }
  Fingerprint fingerprint() const;
  ReadyPlugin Now() const;

 private:
  void Replace(Fingerprint found, bool is_last);

  const InstanceInfo instance_;
  const std::shared_ptr<CsiChannel> channel_;
  const Clock::duration last_inspection_;
  const OnChange on_change_;

  mutable std::mutex mutex_;
  Fingerprint fingerprint_;
  std::optional<Clock::time_point> stop_until_;
  std::once_flag stopped_;
};

}  // namespace mooring::manager

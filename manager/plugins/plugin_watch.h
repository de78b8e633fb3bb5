// The watch over one plugin: one schedule of Probes, and one verdict for all roles of each registered instance.
//
// The thread of the plugin calls it (supervisor/plugin_worker.h). Probe decides on the health of the instance, and so
// on a restart. While Probe succeeds, the capabilities of each role decide whether that role is healthy, too.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "manager/csi/csi_channel.h"
#include "manager/plugins/instance_manager.h"

namespace mooring::manager {

class PluginWatch {
 public:
  // docs/manager.md, "Plugins that the manager runs", has the intervals. They count from the end of an inspection.
  struct Settings {
    Clock::duration probe_interval = std::chrono::seconds(5);
    Clock::duration probe_time = std::chrono::seconds(5);  // deadline of one Probe
    Clock::duration describe_interval =
        std::chrono::seconds(30);                              // between reads of the capabilities of a healthy role
    Clock::duration describe_time = std::chrono::seconds(30);  // deadline of all such reads of an instance
    Clock::duration retry = std::chrono::milliseconds(500);    // while Probe fails, or a role was never described
  };
  struct Verdict {
    Clock::time_point at;  // of the inspection
    absl::Status probed;   // outcome of its Probe
  };
  using Instances = std::vector<std::shared_ptr<InstanceManager>>;

  // `in_use` gives the roles of the plugin's registered instances that are in use.
  PluginWatch(std::function<Instances()> in_use, CsiConnector connect, const Settings& settings);

  // Inspects the instances that are due; a new one is due at once. Stores nothing after `stop` was requested, which
  // ends the call under way.
  void Inspect(const std::stop_token& stop);

  Clock::time_point Next() const;                          // when the next instance is due
  const Verdict* Find(const std::string& instance) const;  // null: not inspected yet, or not in use

 private:
  struct Watched {
    std::shared_ptr<CsiChannel> channel;  // of the watch alone: its calls are ended without those of others
    Clock::time_point next = Clock::time_point::min();
    Clock::time_point describe_at = Clock::time_point::min();
    Verdict verdict = {};
  };

  void InspectOne(Watched& watched, const Instances& roles, const std::stop_token& stop);

  const std::function<Instances()> in_use_;
  const CsiConnector connect_;
  const Settings settings_;
  std::map<std::string, Watched> watched_;  // by instance id
};

}  // namespace mooring::manager

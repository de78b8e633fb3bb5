// The watch over one plugin: one schedule of Probes, and one verdict for all roles of each instance in use.
//
// The thread of the plugin calls it (supervisor/plugin_worker.h). Probe decides on the health of the instance, and so
// on a restart. While Probe succeeds, the capabilities of each role decide whether that role is healthy, too. They are
// read as work of the WorkQueue, separately for each role. So a service that hangs delays neither a Probe nor the other
// role.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "manager/csi/csi_channel.h"
#include "manager/plugins/plugin_set.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

class PluginWatch {
 public:
  // docs/manager.md, "Plugins that the manager runs", has the intervals. They count from the end of a Probe.
  struct Settings {
    Clock::duration probe_interval = std::chrono::seconds(5);
    Clock::duration probe_time = std::chrono::seconds(5);  // deadline of one Probe
    Clock::duration describe_interval =
        std::chrono::seconds(30);                              // between reads of the capabilities of a healthy role
    Clock::duration describe_time = std::chrono::seconds(30);  // deadline of one such read
    Clock::duration retry = std::chrono::milliseconds(500);    // while Probe fails, or a role was never described
  };
  struct Verdict {
    Clock::time_point at;  // of the Probe
    absl::Status probed;   // its outcome
  };

  // The references outlive the watch.
  PluginWatch(PluginSet& plugins, std::string plugin, CsiConnector connect, WorkQueue& work, const Settings& settings);
  ~PluginWatch();  // ends the calls under way

  // Probes the instances that are due; a new one is due at once. `stop` ends the calls under way, and nothing is stored
  // after it.
  void Inspect(const std::stop_token& stop);

  Clock::time_point Next() const;                          // when the next instance is due
  const Verdict* Find(const std::string& instance) const;  // null: not probed yet, or not in use

  // Until no capabilities are being read. False: not by `until`.
  bool WaitUntilDescribed(Clock::time_point until) { return descriptions_.WaitUntilTried(until); }

 private:
  using Roles = std::vector<PluginSet::InUse>;
  struct Watched {
    std::string socket_path;
    std::shared_ptr<CsiChannel> channel;  // of the watch alone: its calls are ended without those of others
    std::stop_source ended;               // nothing is stored after it
    std::set<std::uint64_t> uses;         // of the roles
    Clock::time_point next = Clock::time_point::min();
    Clock::time_point describe_at = Clock::time_point::min();
    Verdict verdict = {};
  };

  static void End(Watched& watched);
  bool NoteRoles(Watched& watched, const Roles& roles);
  void Probe(Watched& watched, const Roles& roles, const std::stop_token& stop);
  void BeginDescription(const Watched& watched, const PluginSet::InUse& role);

  PluginSet& plugins_;
  const std::string plugin_;
  const CsiConnector connect_;
  const Settings settings_;
  std::map<std::string, Watched> watched_;  // by instance id
  WorkKind descriptions_;
};

}  // namespace mooring::manager

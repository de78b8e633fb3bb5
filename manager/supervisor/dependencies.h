// The settings and collaborators that all supervised plugins share.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "manager/csi/csi_channel.h"
#include "manager/launch/launcher.h"
#include "manager/plugins/plugin_set.h"
#include "manager/plugins/plugin_watch.h"
#include "manager/records/events.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

struct SupervisorSettings {
  std::string host;
  std::string socket_root;  // each instance has a directory of its own below it: <socket_root>/<plugin>-<8 hex>
  std::string root;         // staging and target paths lie below it
  Clock::duration probe_interval = std::chrono::milliseconds(500);  // between Probes until the plugin is ready
  Clock::duration report_interval = std::chrono::seconds(30);       // between events that say why a start takes long
  PluginWatch::Settings watch;                                      // while the plugin serves
  Clock::duration sick_for = std::chrono::seconds(60);              // a plugin unhealthy for this long is restarted
  Clock::duration first_backoff = std::chrono::seconds(1);
  Clock::duration longest_backoff = std::chrono::seconds(60);
  Clock::duration end_time = std::chrono::seconds(30);   // from SIGTERM to SIGKILL
  Clock::duration end_again = std::chrono::seconds(10);  // between tries to end or to adopt an instance
};

// All members outlive the supervised plugins.
struct SupervisorDependencies {
  PluginSet& plugins;
  Events& events;
  CsiConnector connect;
  WorkQueue& work;
  Launcher& exec;
  Launcher& container;
  SupervisorSettings settings;
  // Called from the thread of a plugin with the services that it was found to have.
  std::function<void(const std::string& plugin, const std::vector<PluginType>& types)> on_types;
};

}  // namespace mooring::manager

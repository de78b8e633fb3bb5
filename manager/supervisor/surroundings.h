// What all supervised plugins share.
#ifndef MOORING_MANAGER_SUPERVISOR_SURROUNDINGS_H_
#define MOORING_MANAGER_SUPERVISOR_SURROUNDINGS_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "manager/csi/csi_channel.h"
#include "manager/launch/launcher.h"
#include "manager/plugins/registry.h"
#include "manager/records/events.h"

namespace mooring::manager {

struct SupervisorSettings {
  std::string host;
  std::string socket_root;  // a directory for each instance is made below it: <socket_root>/<plugin>-<8 hex>
  std::string root;         // of staging and target paths
  Clock::duration probe_interval = std::chrono::milliseconds(500);  // until it is ready
  Clock::duration probe_time = std::chrono::seconds(5);             // one Probe
  Clock::duration tell_interval = std::chrono::seconds(30);         // an event that says what is waited for
  Clock::duration watch_interval = std::chrono::seconds(5);         // Probe while it serves
  Clock::duration sick_for = std::chrono::seconds(60);              // unhealthy so long: restarted
  Clock::duration first_backoff = std::chrono::seconds(1);
  Clock::duration longest_backoff = std::chrono::seconds(60);
  Clock::duration end_time = std::chrono::seconds(30);   // SIGTERM to SIGKILL
  Clock::duration end_again = std::chrono::seconds(10);  // what could not be ended, or looked at, is tried again
};

// All outlive the supervised.
struct Surroundings {
  Registry& registry;
  Events& events;
  CsiConnector connect;
  Launcher& exec;
  Launcher& container;
  SupervisorSettings settings;
  // Which types a plugin turned out to be of, from its thread.
  std::function<void(const std::string& plugin, const std::vector<PluginType>& types)> on_types;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_SURROUNDINGS_H_

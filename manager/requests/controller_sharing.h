// All that a host needs to call controllers of other hosts through the shared state, and to be called for them.
//
//   Volumes, Claims, … ──▶ ClusterPlugins ──▶ RequestSender ──▶ shared state ──▶ RequestWorker ──▶ local controller
//                                └───────────▶ ControllerOffers ◀──────────────────┘
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "manager/plugins/plugin_directory.h"
#include "manager/records/events.h"
#include "manager/requests/cluster_plugins.h"
#include "manager/requests/controller_offers.h"
#include "manager/requests/request_sender.h"
#include "manager/requests/request_table.h"
#include "manager/requests/request_worker.h"
#include "manager/state/state.h"

namespace mooring::manager {

class ControllerSharing {
 public:
  struct Settings {
    ControllerOffers::Settings offers;
    RequestSender::Settings sender;
    RequestWorker::Settings worker;
  };
  struct Metrics {
    RequestSender::Counts sent;      // requests of this host
    RequestWorker::Counts worked;    // requests of others
    Clock::duration watch_age = {};  // since the store last gave a list or a change; minutes, if nothing changes
  };

  // `local`: finds plugins of this host only. The references outlive the object. Starts at once.
  ControllerSharing(State& shared, PluginDirectory& local, Events& events, WorkQueue& queue, const std::string& host,
                    const Settings& settings = {});
  ~ControllerSharing() { Stop(); }

  PluginDirectory& plugins() { return plugins_; }  // with the controllers of all hosts

  void LeaseChanged() { offers_.LeaseChanged(); }      // the number of the lease has changed
  void PluginsChanged() { offers_.PluginsChanged(); }  // the health of a plugin of this host has changed

  // As ControllerOffers::OnChange. `changed` must not wait.
  void OnChange(std::function<void(const std::string& plugin)> changed) { offers_.OnChange(std::move(changed)); }

  // Ends all waits for other hosts with CANCELLED, and takes no more requests. Returns at once.
  void BeginStop();

  // BeginStop, then waits for the calls under way to local plugins, so close their channels. Withdraws the offers. The
  // watches end at once after State::EndWatches, and otherwise in a second.
  void Stop();

  Metrics metrics() const;

 private:
  ControllerOffers offers_;
  RequestTable table_;
  RequestSender sender_;
  RequestWorker worker_;
  ClusterPlugins plugins_;
};

}  // namespace mooring::manager

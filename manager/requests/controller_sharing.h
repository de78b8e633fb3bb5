// All that a host needs to call controllers of other hosts through the shared state, and to be called for them.
//
//   Volumes, Claims, … ──▶ ClusterPlugins ──▶ RequestSender ──▶ shared state ──▶ RequestWorker ──▶ local controller
//                                └───────────▶ ControllerOffers ◀──────────────────┘
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "manager/plugins/plugin_directory.h"
#include "manager/records/events.h"
#include "manager/requests/controller_offers.h"
#include "manager/requests/request_sender.h"
#include "manager/requests/request_table.h"
#include "manager/requests/request_worker.h"
#include "manager/state/state.h"

namespace mooring::manager {

// The plugins of this host, with the controllers that other hosts offer.
class ClusterPlugins final : public PluginDirectory {
 public:
  // The references outlive the directory and its channels.
  ClusterPlugins(PluginDirectory& local, ControllerOffers& offers, RequestSender& sender, RequestTable& table)
      : local_(local), offers_(offers), sender_(sender), table_(table) {}

  // Looks on this host only, because a volume is mounted where its node service is.
  absl::StatusOr<ReadyPlugin> WaitForNode(const std::string& plugin, Clock::time_point until) override {
    return local_.WaitForNode(plugin, until);
  }

  // A healthy controller of this host, or else one of another host, each host in turn. Only hosts that can reach the
  // volume are asked. A call about a volume (ControllerFor::is_known) that one refuses goes on to other hosts, because
  // it may lack the storage below the volume. If all refuse: the error of the host that knows most about the volume, so
  // NOT_FOUND only if all of them say so. A few hosts are asked in one call, and the next ones in the next call. The
  // error of PickController has the last errors of the instances on this host.
  absl::StatusOr<ReadyPlugin> PickController(const ControllerFor& call, Clock::time_point until) override;

  // The status on this host. Each host that offers a controller counts as one more instance. A plugin that only other
  // hosts have is found, too.
  absl::StatusOr<PluginStatus> Find(const std::string& plugin) override;
  std::vector<PluginStatus> List() override;

 private:
  absl::StatusOr<ReadyPlugin> PickLocal(const ControllerFor& call, Clock::time_point until);

  PluginDirectory& local_;
  ControllerOffers& offers_;
  RequestSender& sender_;
  RequestTable& table_;
};

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

  void LeaseChanged() { offers_.Refresh(); }    // the number of the lease has changed
  void PluginsChanged() { offers_.Refresh(); }  // the health of a plugin of this host has changed

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

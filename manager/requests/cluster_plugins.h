// The plugins of this host, with the controllers that other hosts offer.
#pragma once

#include <string>
#include <vector>

#include "manager/plugins/plugin_directory.h"
#include "manager/requests/controller_offers.h"
#include "manager/requests/request_sender.h"
#include "manager/requests/request_table.h"

namespace mooring::manager {

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
  // volume are asked. A call about a volume that it refuses goes on to other hosts (controller_with_others.h). The
  // error has the last errors of the instances on this host.
  absl::StatusOr<ReadyPlugin> PickController(const ControllerFor& call, Clock::time_point until) override;

  // The status on this host. Each host that offers a controller counts as one more instance. A plugin that only other
  // hosts have is found, too.
  absl::StatusOr<PluginStatus> Find(const std::string& plugin) override;
  std::vector<PluginStatus> List() override;

 private:
  absl::StatusOr<ReadyPlugin> PickLocal(const ControllerFor& call, Clock::time_point until);
  ReadyPlugin WithOthers(const ControllerFor& call, ReadyPlugin first, const std::string& host);

  PluginDirectory& local_;
  ControllerOffers& offers_;
  RequestSender& sender_;
  RequestTable& table_;
};

}  // namespace mooring::manager

#include "manager/requests/cluster_plugins.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/requests/controller_with_others.h"
#include "manager/requests/remote_controller.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::milliseconds kLookAtOthers{200};

void AddOffer(const ControllerOffer& offer, PluginStatus& status) {
  status.name = offer.plugin;
  ++status.controllers.healthy;
  ++status.controllers.expected;
  status.controller_required |= offer.fingerprint.traits.controller_service;
  status.instances.push_back({.instance = InstanceOf(offer), .front = false, .fingerprint = offer.fingerprint});
}

}  // namespace

absl::StatusOr<ReadyPlugin> ClusterPlugins::PickController(const ControllerFor& call, Clock::time_point until) {
  Clock::time_point wait_until = Clock::now();  // at first, the local directory does not wait
  for (;;) {
    absl::StatusOr<ReadyPlugin> local = PickLocal(call, wait_until);
    if (local.ok()) return WithOthers(call, *std::move(local), offers_.host());
    if (!absl::IsUnavailable(local.status())) return local;
    if (table_.stopping()) return Stopping();
    if (std::optional<ControllerOffer> offer = offers_.NextOfOthers(call)) {
      auto channel = std::make_shared<RemoteController>(sender_, table_, RequestSender::Target{call, offer->host});
      return WithOthers(call, {InstanceOf(*offer), std::move(offer->fingerprint), std::move(channel)}, offer->host);
    }
    const Clock::time_point now = Clock::now();
    if (now >= until) {
      return absl::Status(local.status().code(),
                          fmt::format("{}; and no other host offers a controller of it", Message(local.status())));
    }
    wait_until = std::min(until, now + kLookAtOthers);
  }
}

ReadyPlugin ClusterPlugins::WithOthers(const ControllerFor& call, ReadyPlugin first, const std::string& host) {
  if (call.is_known) {
    first.channel =
        std::make_shared<ControllerWithOthers>(offers_, sender_, table_, call, std::move(first.channel), host);
  }
  return first;
}

absl::StatusOr<ReadyPlugin> ClusterPlugins::PickLocal(const ControllerFor& call, Clock::time_point until) {
  const auto status = call.reaches.empty() ? absl::StatusOr<PluginStatus>(PluginStatus()) : local_.Find(call.plugin);
  const bool reaches = !status.ok() || (IsTopologyKnown(*status) && IsReachable(call.reaches, NodeTopology(*status)));
  if (reaches) return local_.PickController(call, until);
  SleepUntil({}, until);
  return Unavailable("plugin {} on this host cannot reach the volume", Quote(call.plugin));
}

absl::StatusOr<PluginStatus> ClusterPlugins::Find(const std::string& plugin) {
  absl::StatusOr<PluginStatus> local = local_.Find(plugin);
  const std::vector<ControllerOffer> offers = offers_.OfOthers(plugin);
  if (absl::IsNotFound(local.status()) && !offers.empty()) local = PluginStatus();
  if (!local.ok()) return local;
  for (const ControllerOffer& offer : offers) AddOffer(offer, *local);
  return local;
}

std::vector<PluginStatus> ClusterPlugins::List() {
  std::map<std::string, PluginStatus> all;
  for (PluginStatus& status : local_.List()) {
    const std::string name = status.name;
    all[name] = std::move(status);
  }
  for (const ControllerOffer& offer : offers_.OfOthers()) AddOffer(offer, all[offer.plugin]);
  std::vector<PluginStatus> sorted;
  for (auto& [name, status] : all) sorted.push_back(std::move(status));
  return sorted;
}

}  // namespace mooring::manager

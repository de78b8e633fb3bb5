#include "manager/plugins/controller_call.h"

#include <algorithm>

#include "base/text/terminal_text.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kFirstAnswer{10};
constexpr std::chrono::milliseconds kLookForAnswer{100};

bool HasController(const PluginStatus& plugin) {
  return plugin.controller_required || plugin.controllers.expected > 0 || plugin.controllers.healthy > 0;
}

bool HasAnswered(const PluginStatus& plugin) {
  return std::any_of(plugin.instances.begin(), plugin.instances.end(),
                     [](const InstanceStatus& each) { return each.fingerprint.complete; });
}

// Waits a while for the first answer of a plugin, which tells its services.
absl::StatusOr<PluginStatus> FindAnswered(PluginDirectory& plugins, const std::string& plugin, const RetryPolicy& retry,
                                          Clock::time_point until) {
  const Clock::time_point patience = std::min(until, Clock::now() + kFirstAnswer);
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(PluginStatus status, FindKnown(plugins, plugin));
    if (HasController(status) || HasAnswered(status)) return status;
    if (retry.stop.stop_requested()) return Stopping();
    if (Clock::now() >= patience) {
      std::string words;
      for (const InstanceStatus& each : status.instances) words += "; " + LastErrorOf(each.instance, each.fingerprint);
      return Unavailable(
          "plugin {} has not been ready yet, so its services are not known: try again when it is "
          "('mooring plugin status {}'){}",
          Quote(plugin), ShellQuote(plugin), words);
    }
    SleepUntil(retry.stop, std::min(patience, Clock::now() + kLookForAnswer));
  }
}

}  // namespace

absl::StatusOr<PluginStatus> FindKnown(PluginDirectory& plugins, const std::string& name) {
  auto status = plugins.Find(name);
  if (!absl::IsNotFound(status.status())) return status;
  return FailedPrecondition("plugin {} is unknown on this host: run or register it first", Quote(name));
}

absl::StatusOr<PluginTraits> ControllerTraits(PluginDirectory& plugins, const ControllerFor& of,
                                              const RetryPolicy& retry, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const PluginStatus status, FindAnswered(plugins, of.plugin, retry, until));
  if (!HasController(status)) {
    return FailedPrecondition(
        "plugin {} has no controller, so it cannot create or change volumes: register its volumes instead",
        Quote(of.plugin));
  }
  MOORING_ASSIGN_OR_RETURN(const ReadyPlugin controller, plugins.PickController(of, until));
  return controller.fingerprint.traits;
}

}  // namespace mooring::manager

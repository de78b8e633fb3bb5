// The identity, readiness and capabilities of the driver.
#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "cli/csi/command.h"
#include "cli/csi/messages.h"
#include "cli/output/report.h"
#include "cli/output/table.h"

namespace mooring::cli::csi_area {
namespace {

using csi::v1::Controller;
using csi::v1::GetPluginCapabilitiesResponse;
using csi::v1::GroupController;
using csi::v1::Identity;
using csi::v1::Node;
using csi::v1::PluginCapability;
using csi::v1::ProbeResponse;

constexpr std::chrono::milliseconds kProbeInterval{50};

// An absent `ready` means ready: CSI 1.12, Probe.
bool IsReady(const ProbeResponse& response) { return !response.has_ready() || response.ready().value(); }

std::string NameOr(const std::string& name, int number) { return name.empty() ? fmt::format("{}", number) : name; }

std::string NameOf(const PluginCapability& capability) {
  switch (capability.type_case()) {
    case PluginCapability::kService: {
      const PluginCapability::Service::Type type = capability.service().type();
      return NameOr(PluginCapability::Service::Type_Name(type), type);
    }
    case PluginCapability::kVolumeExpansion: {
      const PluginCapability::VolumeExpansion::Type type = capability.volume_expansion().type();
      return "VOLUME_EXPANSION_" + NameOr(PluginCapability::VolumeExpansion::Type_Name(type), type);
    }
    case PluginCapability::TYPE_NOT_SET:
      return "UNKNOWN";
  }
  return "UNKNOWN";
}

std::vector<std::string> NamesOf(const GetPluginCapabilitiesResponse& response) {
  std::vector<std::string> names;
  for (const PluginCapability& capability : response.capabilities()) names.push_back(NameOf(capability));
  return names;
}

// The capabilities of the controller, the node and the group controller have the same form.
template <typename Response>
std::vector<std::string> RpcNamesOf(const Response& response) {
  std::vector<std::string> names;
  for (const auto& capability : response.capabilities()) {
    const auto type = capability.rpc().type();
    names.push_back(NameOr(capability.rpc().Type_Name(type), type));
  }
  return names;
}

bool Serves(const GetPluginCapabilitiesResponse& plugin, PluginCapability::Service::Type service) {
  return std::any_of(plugin.capabilities().begin(), plugin.capabilities().end(),
                     [service](const PluginCapability& capability) { return capability.service().type() == service; });
}

absl::Status ShowPluginInfo(Session& session) {
  const Client& client = session.client;
  MOORING_ASSIGN_OR_RETURN(const csi::v1::GetPluginInfoResponse info, client.Call(&Identity::Stub::GetPluginInfo, {}));
  MOORING_ASSIGN_OR_RETURN(const GetPluginCapabilitiesResponse capabilities,
                           client.Call(&Identity::Stub::GetPluginCapabilities, {}));
  MOORING_ASSIGN_OR_RETURN(const ProbeResponse probe, client.Call(&Identity::Stub::Probe, {}));
  Details details;
  details.Add("name", info.name());
  details.Add("version", info.vendor_version());
  details.Add("ready", IsReady(probe) ? "yes" : "no");
  details.Add("capabilities", Join(NamesOf(capabilities), ", "));
  details.AddIf("manifest", ToString(info.manifest()));
  return session.output.Show({{"plugin_info", &info}, {"capabilities", &capabilities}, {"probe", &probe}},
                             details.ToString());
}

// Whether another call cannot change the answer: the driver is ready, or it does not know the call. With --liveness,
// any answer of the driver is final.
bool IsFinal(const absl::StatusOr<ProbeResponse>& answer, bool liveness) {
  if (answer.ok()) return liveness || IsReady(*answer);
  return absl::IsUnimplemented(answer.status()) || (liveness && !IsUnanswered(answer.status()));
}

// Calls Probe until the answer is final or the time is over. Returns the last answer.
absl::StatusOr<ProbeResponse> ProbeUntilFinal(const Client& client, Duration wait, bool liveness) {
  const Client::Limit limit{Client::Clock::now() + wait, wait, "--wait"};
  std::optional<absl::StatusOr<ProbeResponse>> last;
  for (;;) {
    absl::StatusOr<ProbeResponse> response = client.CallWhenServed(&Identity::Stub::Probe, {}, limit);
    if (IsFinal(response, liveness)) return response;
    const bool cut_short = absl::IsDeadlineExceeded(response.status()) && IsUnanswered(response.status());
    const bool over = Client::Clock::now() + kProbeInterval >= limit.deadline;
    // The answer before tells more than a call that the end of the wait cut short.
    if (over) return cut_short && last ? *last : response;
    if (!cut_short) last = response;
    std::this_thread::sleep_for(kProbeInterval);
  }
}

absl::StatusOr<ProbeResponse> ProbeOnce(const Client& client) { return client.Call(&Identity::Stub::Probe, {}); }

// A driver that answers with an error is alive: a restart does not repair what it reports.
absl::Status ShowAlive(Session& session, const absl::StatusOr<ProbeResponse>& answer) {
  if (answer.ok()) {
    return session.output.Show(*answer, IsReady(*answer) ? "alive, ready\n" : "alive, not ready\n");
  }
  if (IsUnanswered(answer.status())) return answer.status();
  return session.output.ShowLine(ToJson(answer.status()),
                                 fmt::format("alive, not ready: {}\n", ToLine(answer.status())));
}

absl::Status Probe(Session& session) {
  const Arguments& arguments = session.arguments;
  const absl::StatusOr<ProbeResponse> answer =
      arguments.wait ? ProbeUntilFinal(session.client, *arguments.wait, arguments.liveness) : ProbeOnce(session.client);
  if (arguments.liveness) return ShowAlive(session, answer);
  MOORING_RETURN_IF_ERROR(answer.status());
  if (!IsReady(*answer)) session.exit_status = kExitFailed;
  return session.output.Show(*answer, IsReady(*answer) ? "ready\n" : "not ready\n");
}

// A plugin need not have a node service, so UNIMPLEMENTED is not an error of `capabilities`.
absl::StatusOr<std::optional<csi::v1::NodeGetCapabilitiesResponse>> NodeCapabilities(const Client& client) {
  const auto response = client.Call(&Node::Stub::NodeGetCapabilities, {});
  if (response.ok()) return std::optional(*response);
  if (absl::IsUnimplemented(response.status())) return std::optional<csi::v1::NodeGetCapabilitiesResponse>();
  return response.status();
}

struct AllCapabilities {
  GetPluginCapabilitiesResponse plugin;
  std::optional<csi::v1::ControllerGetCapabilitiesResponse> controller;
  std::optional<csi::v1::NodeGetCapabilitiesResponse> node;
  std::optional<csi::v1::GroupControllerGetCapabilitiesResponse> group;
};

absl::StatusOr<AllCapabilities> FetchCapabilities(const Client& client) {
  AllCapabilities all;
  MOORING_ASSIGN_OR_RETURN(all.plugin, client.Call(&Identity::Stub::GetPluginCapabilities, {}));
  if (Serves(all.plugin, PluginCapability::Service::CONTROLLER_SERVICE)) {
    MOORING_ASSIGN_OR_RETURN(all.controller, client.Call(&Controller::Stub::ControllerGetCapabilities, {}));
  }
  MOORING_ASSIGN_OR_RETURN(all.node, NodeCapabilities(client));
  if (Serves(all.plugin, PluginCapability::Service::GROUP_CONTROLLER_SERVICE)) {
    MOORING_ASSIGN_OR_RETURN(all.group, client.Call(&GroupController::Stub::GroupControllerGetCapabilities, {}));
  }
  return all;
}

void AddRows(std::string_view service, const std::vector<std::string>& names, Table& table) {
  for (const std::string& name : names) table.Add({std::string(service), name});
}

template <typename Message>
const Message* PointerTo(const std::optional<Message>& message) {
  return message ? &*message : nullptr;
}

absl::Status ShowCapabilities(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const AllCapabilities all, FetchCapabilities(session.client));
  Table table({"SERVICE", "CAPABILITY"});
  AddRows("plugin", NamesOf(all.plugin), table);
  if (all.controller) AddRows("controller", RpcNamesOf(*all.controller), table);
  if (all.node) AddRows("node", RpcNamesOf(*all.node), table);
  if (all.group) AddRows("group-controller", RpcNamesOf(*all.group), table);
  return session.output.Show({{"plugin", &all.plugin},
                              {"controller", PointerTo(all.controller)},
                              {"node", PointerTo(all.node)},
                              {"group_controller", PointerTo(all.group)}},
                             table.ToString());
}

}  // namespace

Commands IdentityCommands() {
  return {
      {"info", "Show the name, version, readiness and services of the driver", {}, {}, ShowPluginInfo},
      {"probe", "Check whether the driver is ready; exit status 0 or 1", {}, {&kWait, &kLiveness}, Probe},
      {"capabilities", "List all capabilities that the driver reports", {}, {}, ShowCapabilities},
  };
}

}  // namespace mooring::cli::csi_area

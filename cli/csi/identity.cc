// What the driver is, whether it is ready, what it can do.
#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "cli/csi/command.h"
#include "cli/csi/messages.h"
#include "cli/output/failure.h"
#include "cli/output/table.h"
#include "cli/run.h"

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

// An absent `ready` means ready: the specification says so.
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

// The controller's, the node's and the group controller's capabilities look alike.
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
  MOORING_ASSIGN_OR_RETURN(const csi::v1::GetPluginInfoResponse info,
                           client.Call<Identity>(&Identity::Stub::GetPluginInfo, csi::v1::GetPluginInfoRequest()));
  MOORING_ASSIGN_OR_RETURN(
      const GetPluginCapabilitiesResponse capabilities,
      client.Call<Identity>(&Identity::Stub::GetPluginCapabilities, csi::v1::GetPluginCapabilitiesRequest()));
  MOORING_ASSIGN_OR_RETURN(const ProbeResponse probe,
                           client.Call<Identity>(&Identity::Stub::Probe, csi::v1::ProbeRequest()));
  Details details;
  details.Add("name", info.name());
  details.Add("version", info.vendor_version());
  details.Add("ready", IsReady(probe) ? "yes" : "no");
  details.Add("capabilities", Join(NamesOf(capabilities), ", "));
  details.AddIf("manifest", ToString(info.manifest()));
  return session.output.Show({{"plugin_info", &info}, {"capabilities", &capabilities}, {"probe", &probe}},
                             details.ToString());
}

// Whether asking again cannot tell more: the driver is ready, or does not know the call; or it has answered, where it
// only has to be alive.
bool IsFinal(const absl::StatusOr<ProbeResponse>& answer, bool liveness) {
  if (answer.ok()) return liveness || IsReady(*answer);
  return absl::IsUnimplemented(answer.status()) || (liveness && !IsUnanswered(answer.status()));
}

// Asks again until the answer is final or the time is up; what came last is the answer.
absl::StatusOr<ProbeResponse> ProbeUntilFinal(const Client& client, Duration wait, bool liveness) {
  const Client::Limit limit{Client::Clock::now() + wait, wait, "--wait"};
  std::optional<absl::StatusOr<ProbeResponse>> last;
  for (;;) {
    absl::StatusOr<ProbeResponse> response =
        client.CallWhenServed<Identity>(&Identity::Stub::Probe, csi::v1::ProbeRequest(), limit);
    if (IsFinal(response, liveness)) return response;
    const bool cut_short = absl::IsDeadlineExceeded(response.status()) && IsUnanswered(response.status());
    const bool over = Client::Clock::now() + kProbeInterval >= limit.deadline;
    // One that the end of the wait cut short says less than the answer before it.
    if (over) return cut_short && last ? *last : response;
    if (!cut_short) last = response;
    std::this_thread::sleep_for(kProbeInterval);
  }
}

absl::StatusOr<ProbeResponse> ProbeOnce(const Client& client) {
  return client.Call<Identity>(&Identity::Stub::Probe, csi::v1::ProbeRequest());
}

// A driver that says what it lacks is alive: to start it again would mend nothing.
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

// A plugin may serve no node side at all; that is no failure of a command that asks what there is.
absl::StatusOr<std::optional<csi::v1::NodeGetCapabilitiesResponse>> NodeCapabilities(const Client& client) {
  const auto response = client.Call<Node>(&Node::Stub::NodeGetCapabilities, csi::v1::NodeGetCapabilitiesRequest());
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
  MOORING_ASSIGN_OR_RETURN(all.plugin, client.Call<Identity>(&Identity::Stub::GetPluginCapabilities,
                                                             csi::v1::GetPluginCapabilitiesRequest()));
  if (Serves(all.plugin, PluginCapability::Service::CONTROLLER_SERVICE)) {
    MOORING_ASSIGN_OR_RETURN(all.controller, client.Call<Controller>(&Controller::Stub::ControllerGetCapabilities,
                                                                     csi::v1::ControllerGetCapabilitiesRequest()));
  }
  MOORING_ASSIGN_OR_RETURN(all.node, NodeCapabilities(client));
  if (Serves(all.plugin, PluginCapability::Service::GROUP_CONTROLLER_SERVICE)) {
    MOORING_ASSIGN_OR_RETURN(all.group,
                             client.Call<GroupController>(&GroupController::Stub::GroupControllerGetCapabilities,
                                                          csi::v1::GroupControllerGetCapabilitiesRequest()));
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
      {"info", "the driver's name and version, whether it is ready, what it serves", {}, {}, ShowPluginInfo},
      {"probe", "whether the driver is ready: exit status 0 or 1", {}, {&kWait, &kLiveness}, Probe},
      {"capabilities", "everything the driver says it can do", {}, {}, ShowCapabilities},
  };
}

}  // namespace mooring::cli::csi_area

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/api/handlers.h"
#include "manager/api/messages.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::milliseconds kEventPoll{100};  // how soon the end of a start is noticed

}  // namespace

// Adds who declared the plugin and how the manager runs it.
v1::PluginStatus PluginHandlers::Described(const PluginStatus& status, const std::vector<PluginRecord>& declared) {
  v1::PluginStatus shown = Shown(status);
  const auto found = std::find_if(declared.begin(), declared.end(),
                                  [&](const PluginRecord& plugin) { return plugin.name == status.name; });
  if (found == declared.end()) return shown;
  shown.mutable_declared_by()->Add(found->declared_by.begin(), found->declared_by.end());
  shown.set_endpoint(found->endpoint);
  if (!found->run) return shown;
  shown.set_supervision(supervisor.StatusText(status.name));
  for (const PluginRecord::Bind& bind : found->run->binds) *shown.add_binds() = ToProto(bind);
  return shown;
}

v1::PluginStatus PluginHandlers::StatusOf(const std::string& name) {
  absl::StatusOr<PluginStatus> status = plugins.Find(name);
  if (!status.ok()) {
    status = PluginStatus();
    status->name = name;
  }
  return Described(*status, supervisor.Declared());
}

// With `wait`, not before the plugin's health is known.
absl::StatusOr<v1::PluginStatus> PluginHandlers::StatusAfter(bool wait, const std::string& name,
                                                             Clock::time_point until) {
  if (wait) MOORING_RETURN_IF_ERROR(plugins.WaitUntilInspected(name, until).status());
  return StatusOf(name);
}

// Sends the events of the plugin as steps until `start` has ended.
void PluginHandlers::SendEventsUntilStarted(const std::string& name, std::uint64_t from,
                                            std::future<absl::Status>& start, const Send<v1::RunPluginReply>& send) {
  while (start.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    const absl::StatusOr<std::vector<Event>> batch = events.Next(from, Clock::now() + kEventPoll);
    if (!batch.ok()) return;
    for (const Event& event : *batch) {
      from = event.number + 1;
      if (event.plugin != name) continue;
      v1::RunPluginReply reply;
      reply.mutable_step()->set_text(fmt::format("{}: {}", event.kind, event.text));
      send(reply);
    }
  }
}

absl::Status PluginHandlers::RunPlugin(const v1::RunPluginRequest& request, const ApiCall& call,
                                       const Send<v1::RunPluginReply>& send) {
  MOORING_RETURN_IF_ERROR(CheckName("the plugin's name", request.name()));
  MOORING_ASSIGN_OR_RETURN(const PluginRecord::Run run, ParseRun(request.run()));
  const std::uint64_t from = events.last() + 1;
  std::future<absl::Status> start = std::async(std::launch::async, [&] {
    return supervisor.RunPlugin(request.name(), run, request.declared_by(), request.wait(), call.until);
  });
  SendEventsUntilStarted(request.name(), from, start, send);
  MOORING_RETURN_IF_ERROR(start.get());
  v1::RunPluginReply reply;
  MOORING_ASSIGN_OR_RETURN(*reply.mutable_done(), StatusAfter(request.wait(), request.name(), call.until));
  send(reply);
  return absl::OkStatus();
}

absl::StatusOr<v1::RegisterPluginResponse> PluginHandlers::RegisterPlugin(const v1::RegisterPluginRequest& request,
                                                                          const ApiCall& call) {
  if (!request.name().empty()) MOORING_RETURN_IF_ERROR(CheckName("the plugin's name", request.name()));
  MOORING_ASSIGN_OR_RETURN(const std::string socket, ParseSocketPath(request.endpoint()));
  if (!socket.starts_with('/')) {
    return InvalidArgument("the endpoint {}: give the whole path, as unix:///run/plugin/csi.sock",
                           Quote(request.endpoint()));
  }
  MOORING_ASSIGN_OR_RETURN(
      const std::string name,
      supervisor.RegisterEndpoint(request.name(), socket, request.declared_by(), request.wait(), call.until));
  v1::RegisterPluginResponse response;
  MOORING_ASSIGN_OR_RETURN(*response.mutable_plugin(), StatusAfter(request.wait(), name, call.until));
  return response;
}

absl::StatusOr<v1::StopPluginResponse> PluginHandlers::StopPlugin(const v1::StopPluginRequest& request,
                                                                  const ApiCall& call) {
  MOORING_RETURN_IF_ERROR(CheckName("the plugin's name", request.name()));
  MOORING_RETURN_IF_ERROR(supervisor.StopPlugin(request.name(), request.declared_by(), call.until));
  return v1::StopPluginResponse();
}

absl::StatusOr<v1::ListPluginsResponse> PluginHandlers::ListPlugins(const v1::ListPluginsRequest& request) {
  v1::ListPluginsResponse response;
  const std::vector<PluginRecord> declared = supervisor.Declared();
  std::set<std::string> seen;
  const auto wanted = [&](const std::string& name) {
    return (request.name().empty() || request.name() == name) && seen.insert(name).second;
  };
  for (const PluginStatus& status : plugins.List()) {
    if (wanted(status.name)) *response.add_plugins() = Described(status, declared);
  }
  for (const PluginRecord& plugin : declared) {
    if (wanted(plugin.name)) *response.add_plugins() = StatusOf(plugin.name);
  }
  if (!request.name().empty() && response.plugins().empty()) {
    return NotFound("there is no plugin {} on this host: run or register it first", Quote(request.name()));
  }
  return response;
}

}  // namespace mooring::manager

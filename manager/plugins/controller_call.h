// Calls to the controller service of a plugin, about a volume.
#pragma once

#include <fmt/format.h>
#include <google/protobuf/message.h>

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/csi/csi_channel.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/names.h"
#include "manager/records/records.h"
#include "manager/state/keys.h"

namespace mooring::manager {

// Lets one controller call at a time run for a volume.
inline absl::StatusOr<KeyedLocks::Hold> LockController(KeyedLocks& locks, const VolumeKey& volume,
                                                       Clock::time_point until) {
  return locks.Acquire(VolumeStateKey(volume), "volume " + ToString(volume), until);
}

// FAILED_PRECONDITION: this host does not know the plugin.
absl::StatusOr<PluginStatus> FindKnown(PluginDirectory& plugins, const std::string& name);

// Gives the traits of the plugin's controller, which may have to answer for the first time. FAILED_PRECONDITION: the
// plugin is unknown, or has no controller. UNAVAILABLE: no healthy controller can be reached.
absl::StatusOr<PluginTraits> ControllerTraits(PluginDirectory& plugins, const ControllerFor& of,
                                              const RetryPolicy& retry, Clock::time_point until);

// Names the call and the plugin in an error: "CreateVolume of plugin 'p': no". CANCELLED, with which the calls of a
// replaced instance end, becomes UNAVAILABLE, so that its successor is called.
inline absl::Status AnnotateCall(const std::string& plugin, std::string_view call, const absl::Status& status) {
  if (status.ok()) return status;
  return Annotate(absl::IsCancelled(status) ? WithCode(absl::StatusCode::kUnavailable, status) : status,
                  fmt::format("{} of plugin {}", call, Quote(plugin)));
}

// Calls the controller, with the tries of Retry. Each try takes the instance whose turn it is, so a try after a
// replacement goes to another one. RESOURCE_EXHAUSTED is not tried again: from a controller it means that there is no
// room, which does not pass in a minute. `make_request` gets the traits of the instance, to leave out fields that it
// does not know.
template <typename MakeRequest>
requires std::invocable<MakeRequest&, const PluginTraits&>
auto CallController(PluginDirectory& plugins, const ControllerFor& of, MakeRequest&& make_request,
                    const RetryPolicy& retry, Clock::time_point until) {
  using Call = CsiCall<std::remove_cvref_t<std::invoke_result_t<MakeRequest&, const PluginTraits&>>>;
  using Response = typename Call::Response;
  Response response;
  absl::Status no_room;
  const absl::Status called = Retry(retry, until, [&](Clock::time_point try_until) -> absl::Status {
    MOORING_ASSIGN_OR_RETURN(const ReadyPlugin controller, plugins.PickController(of, try_until));
    const auto& request = make_request(controller.fingerprint.traits);
    const absl::Status answer = controller.channel->Call(Call::kMethod, request, response, try_until);
    absl::Status status = AnnotateCall(of.plugin, Call::kName, answer);
    if (absl::IsResourceExhausted(status)) no_room = std::exchange(status, absl::OkStatus());
    return status;
  });
  if (!called.ok()) return absl::StatusOr<Response>(called);
  if (!no_room.ok()) return absl::StatusOr<Response>(no_room);
  return absl::StatusOr<Response>(std::move(response));
}

template <typename Request>
requires std::derived_from<Request, google::protobuf::Message>
auto CallController(PluginDirectory& plugins, const ControllerFor& of, const Request& request, const RetryPolicy& retry,
                    Clock::time_point until) {
  const auto as_it_is = [&](const PluginTraits&) -> const Request& { return request; };
  return CallController(plugins, of, as_it_is, retry, until);
}

}  // namespace mooring::manager

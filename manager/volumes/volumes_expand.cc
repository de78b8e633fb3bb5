#include <fmt/format.h>

#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/claims/claim_rules.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/controller_call.h"
#include "manager/records/names.h"
#include "manager/volumes/volumes.h"

namespace mooring::manager {
namespace {

// Codes that mean that the node refused, and has expanded nothing.
bool ExpandedNothing(const absl::Status& status) {
  return absl::IsOutOfRange(status) || absl::IsResourceExhausted(status) || absl::IsFailedPrecondition(status) ||
         absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) || absl::IsPermissionDenied(status) ||
         absl::IsUnauthenticated(status);
}

}  // namespace

absl::StatusOr<Volume> Volumes::Expand(const VolumeKey& key, std::uint64_t min_bytes, std::uint64_t max_bytes,
                                       Clock::time_point until) {
  if (min_bytes == 0) return InvalidArgument("the size to expand to is missing");
  MOORING_RETURN_IF_ERROR(CheckSizes(min_bytes, max_bytes));
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, key, until));
  MOORING_ASSIGN_OR_RETURN(Volume volume, GetReady(key));
  MOORING_ASSIGN_OR_RETURN(const Expansion asked, ExpandAtController(volume, min_bytes, max_bytes, until));
  const Volume before = volume;
  // Stored before the call to the node, which may be repeated.
  MOORING_ASSIGN_OR_RETURN(volume, ChangeReady(key, [&](Volume& record) {
                             record.capacity_bytes = asked.bytes;
                             record.node_expansion_owed = record.node_expansion_owed || asked.node_too;
                           }));
  if (volume.node_expansion_owed && volume.in_use) {
    MOORING_ASSIGN_OR_RETURN(volume, ExpandOnNode(std::move(volume), before, asked.at_controller, until));
  }
  Report(volume, false,
         fmt::format("expanded to {} bytes{}", asked.bytes,
                     volume.node_expansion_owed ? ": its filesystem grows with the next attach" : ""));
  return volume;
}

// Only the node expands, and it refused: restores the old size.
absl::Status Volumes::NotExpanded(const Volume& before, const absl::Status& why) {
  const auto stored = ChangeReady(before.key, [&](Volume& record) {
    record.capacity_bytes = before.capacity_bytes;
    record.node_expansion_owed = before.node_expansion_owed;
  });
  if (stored.ok()) return why;
  return Annotate(why, fmt::format("(and the old size cannot be stored, so each attach tries to expand: {})",
                                   Message(stored.status())));
}

// A volume that is not mounted here is expanded by the next mount.
absl::StatusOr<Volume> Volumes::ExpandOnNode(Volume volume, const Volume& before, bool at_controller,
                                             Clock::time_point until) {
  const auto expanded = node_.Expand(volume.key, volume.capacity_bytes, volume.secrets, until);
  if (!expanded.ok() && !at_controller && ExpandedNothing(expanded.status())) {
    return NotExpanded(before, expanded.status());
  }
  if (!expanded.ok()) {
    return Annotate(expanded.status(),
                    fmt::format("volume {} has {} bytes at its plugin, but its filesystem has not "
                                "grown yet; repeat the request to continue, else the next mount does it",
                                ToString(volume.key), volume.capacity_bytes));
  }
  if (!*expanded) return volume;
  return ChangeReady(volume.key, [](Volume& record) { record.node_expansion_owed = false; });
}

// Makes no call if only the node of this plugin expands.
absl::StatusOr<Volumes::Expansion> Volumes::ExpandAtController(const Volume& volume, std::uint64_t min_bytes,
                                                               std::uint64_t max_bytes, Clock::time_point until) {
  const auto plugin = plugins_.Find(volume.plugin);
  const bool has_controller = plugin.ok() && (plugin->controller_required || plugin->controllers.healthy > 0);
  PluginTraits traits;
  if (has_controller) {
    MOORING_ASSIGN_OR_RETURN(traits, Traits(ControllerFor(volume), until));
  }
  if (!traits.controller_expands) {
    MOORING_ASSIGN_OR_RETURN(const ReadyPlugin node, plugins_.WaitForNode(volume.plugin, until));
    if (!node.fingerprint.traits.node_expands) {
      return FailedPrecondition("plugin {} cannot expand volumes", Quote(volume.plugin));
    }
    if (!volume.in_use) {
      return FailedPrecondition("plugin {} expands only volumes that are attached: attach {} first",
                                Quote(volume.plugin), ToString(volume.key));
    }
    return Expansion{.bytes = min_bytes, .at_controller = false, .node_too = true};
  }
  if (volume.in_use && traits.expands_offline && !traits.expands_online) {
    return FailedPrecondition("plugin {} expands only volumes that are detached: detach {} first", Quote(volume.plugin),
                              ToString(volume.key));
  }
  csi::v1::ControllerExpandVolumeRequest request;
  request.set_volume_id(IdForPlugin(volume));
  request.mutable_capacity_range()->set_required_bytes(static_cast<std::int64_t>(min_bytes));
  request.mutable_capacity_range()->set_limit_bytes(static_cast<std::int64_t>(max_bytes));
  volume.secrets.CopyTo(*request.mutable_secrets());
  if (volume.in_use)
    *request.mutable_volume_capability() = ToCsi(*volume.in_use, volume.mount_options, traits.controller_single_writer);
  MOORING_ASSIGN_OR_RETURN(const auto answer, CallController(plugins_, ControllerFor(volume), request, retry_, until));
  return Expansion{.bytes = static_cast<std::uint64_t>(answer.capacity_bytes()),
                   .at_controller = true,
                   .node_too = answer.node_expansion_required()};
}

}  // namespace mooring::manager

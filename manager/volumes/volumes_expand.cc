#include <fmt/format.h>

#include <utility>

#include "base/quote.h"
#include "base/status.h"
#include "manager/claims/claim_rules.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/controller_call.h"
#include "manager/volumes/volumes.h"
#include "manager/words.h"

namespace mooring::manager {

absl::StatusOr<Volume> Volumes::Expand(const VolumeKey& key, std::uint64_t min_bytes, std::uint64_t max_bytes,
                                       Clock::time_point until) {
  if (min_bytes == 0) return InvalidArgument("the size to expand to is missing");
  MOORING_RETURN_IF_ERROR(CheckSizes(min_bytes, max_bytes));
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, key, until));
  MOORING_ASSIGN_OR_RETURN(Volume volume, GetReady(key));
  bool node_too = false;
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                           ExpandAtController(volume, min_bytes, max_bytes, node_too, until));
  for (;;) {  // stored before the node's part, which may be done again
    volume.capacity_bytes = bytes;
    auto stored = Stored(std::move(volume));
    if (stored.ok()) {
      volume = *std::move(stored);
      break;
    }
    if (!absl::IsAborted(stored.status())) return stored.status();
    MOORING_ASSIGN_OR_RETURN(volume, GetReady(key));  // claimed or released since
  }
  if (node_too && volume.in_use) {
    const absl::Status status = node_.Expand(key, bytes, volume.secrets, until);
    if (!status.ok()) {
      return Annotate(status, fmt::format("volume {} has {} bytes at its plugin, but what is mounted of it does not "
                                          "have them yet; the same request again goes on",
                                          ToString(key), bytes));
    }
  }
  Tell(volume, false, fmt::format("expanded to {} bytes", bytes));
  return volume;
}

// Gives the new size, and whether the node has a part in it. A plugin that leaves it all to the node has no call here.
absl::StatusOr<std::uint64_t> Volumes::ExpandAtController(const Volume& volume, std::uint64_t min_bytes,
                                                          std::uint64_t max_bytes, bool& node_too,
                                                          Clock::time_point until) {
  const auto plugin = plugins_.Find(volume.plugin);
  const bool has_controller = plugin.ok() && (plugin->controller_required || plugin->controllers.healthy > 0);
  PluginTraits traits;
  if (has_controller) {
    MOORING_ASSIGN_OR_RETURN(traits, Controller(volume.plugin, until));
  }
  if (!traits.controller_expands) {
    MOORING_ASSIGN_OR_RETURN(const ReadyPlugin node, plugins_.WaitForNode(volume.plugin, until));
    if (!node.fingerprint.traits.node_expands) {
      return FailedPrecondition(fmt::format("plugin {} expands no volumes", Quote(volume.plugin)));
    }
    if (!volume.in_use) {
      return FailedPrecondition(fmt::format("plugin {} expands volumes only where they are in use: attach {} first",
                                            Quote(volume.plugin), ToString(volume.key)));
    }
    node_too = true;
    return min_bytes;
  }
  if (volume.in_use && traits.expands_offline && !traits.expands_online) {
    return FailedPrecondition(fmt::format("plugin {} expands no volume that is in use: detach {} first",
                                          Quote(volume.plugin), ToString(volume.key)));
  }
  csi::v1::ControllerExpandVolumeRequest request;
  request.set_volume_id(IdForPlugin(volume));
  request.mutable_capacity_range()->set_required_bytes(static_cast<std::int64_t>(min_bytes));
  request.mutable_capacity_range()->set_limit_bytes(static_cast<std::int64_t>(max_bytes));
  volume.secrets.CopyTo(*request.mutable_secrets());
  if (volume.in_use)
    *request.mutable_volume_capability() = ToCsi(*volume.in_use, volume.mount_options, traits.controller_single_writer);
  MOORING_ASSIGN_OR_RETURN(const auto answer, CallController(plugins_, volume.plugin, request, retry_, until));
  node_too = answer.node_expansion_required();
  return static_cast<std::uint64_t>(answer.capacity_bytes());
}

}  // namespace mooring::manager

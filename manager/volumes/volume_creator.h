// Creates volumes through the controller of their plugin, and registers those that it has already.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "manager/csi/csi_channel.h"
#include "manager/hosts/host_directory.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"
#include "manager/volumes/snapshots.h"

namespace mooring::manager {

class VolumeCreator {
 public:
  // All outlive it.
  VolumeCreator(RecordsStore& store, PluginDirectory& plugins, HostDirectory& hosts, Snapshots& snapshots,
                KeyedLocks& controller_locks, Events& events, RetryPolicy retry)
      : store_(store),
        plugins_(plugins),
        hosts_(hosts),
        snapshots_(snapshots),
        controller_locks_(controller_locks),
        events_(events),
        retry_(std::move(retry)) {}

  // See Volumes.
  absl::StatusOr<Volume> Create(Volume volume, Clock::time_point until, const IsAbandoned& is_abandoned);
  absl::StatusOr<Volume> Register(Volume volume, Clock::time_point until);

  // Finds out the id of a volume whose creation was cut short, by CreateVolume with the same name, and stores it.
  // nullopt: the plugin has no such volume, or another key has it.
  absl::StatusOr<std::optional<Volume>> FindCreated(Volume volume, Clock::time_point until);

 private:
  absl::StatusOr<Volume> BeginCreate(Volume volume, Clock::time_point until, const IsAbandoned& is_abandoned);
  enum class Since { kNow, kBefore };  // begun by this request, or by an earlier one
  absl::StatusOr<Volume> FinishCreate(Volume volume, Since begun, Clock::time_point until);
  absl::StatusOr<Volume> CallCreate(Volume volume, Clock::time_point until);
  // The controller that can create it: where its source is, if the request does not say from where it is to be reached.
  absl::StatusOr<ControllerFor> Creator(const Volume& volume);
  absl::Status Validate(const Volume& volume, Clock::time_point until);
  // A damaged record may be the same volume under another key. It is ignored only for a name that was unique.
  enum class Damaged { kRefused, kIgnored };
  absl::Status RefuseTwin(const Volume& volume, Damaged damaged);
  absl::StatusOr<Volume> StoredAlone(Volume volume, Damaged damaged);
  void Report(const Volume& volume, const std::string& text);

  RecordsStore& store_;
  PluginDirectory& plugins_;
  HostDirectory& hosts_;
  Snapshots& snapshots_;
  KeyedLocks& controller_locks_;
  Events& events_;
  const RetryPolicy retry_;
};

}  // namespace mooring::manager

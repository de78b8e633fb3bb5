// Snapshots as the controllers of a plugin know them. A plugin with local storage has a controller on each host. It
// knows only the snapshots there, and answers OK if it is to delete another one.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/records.h"

namespace mooring::manager {

void CopyFromCsi(const csi::v1::Snapshot& message, Snapshot& snapshot);

ControllerFor ControllerOf(const Snapshot& snapshot);

class PluginSnapshots {
 public:
  // The directory outlives it.
  PluginSnapshots(PluginDirectory& plugins, RetryPolicy retry) : plugins_(plugins), retry_(std::move(retry)) {}

  // FAILED_PRECONDITION: the plugin has no snapshots.
  absl::StatusOr<PluginTraits> Traits(const ControllerFor& of, Clock::time_point until);

  struct Taken {
    absl::StatusOr<csi::v1::CreateSnapshotResponse> answer;
    bool none = false;  // no try of this call can have taken it
  };
  Taken Take(const Snapshot& record, const Secrets& secrets, Clock::time_point until);

  // OK if it does not exist.
  absl::Status Delete(const ControllerFor& controller, const std::string& id, const Secrets& secrets,
                      Clock::time_point until);
  // Nobody knows which host has it, so all are asked, also after an error.
  absl::Status DeleteEverywhere(const std::string& plugin, const std::string& id, const Secrets& secrets,
                                Clock::time_point until);

  // NOT_FOUND: the plugin lists its snapshots without it. OK: it exists, or the plugin cannot tell.
  absl::Status CheckExists(const std::string& plugin, const std::string& id, const Secrets& secrets,
                           Clock::time_point until);

  // All controllers are asked at the same time.
  struct Listed {
    std::map<std::string, Snapshot> snapshots;  // by id
    std::vector<ControllerFor> asked;           // those that have answered
    absl::Status problem;                       // why others have not
  };
  // `waits`: until `until`, also if no controller is healthy; otherwise 20 s at most.
  Listed List(const std::string& plugin, bool waits, Clock::time_point until);

 private:
  absl::StatusOr<std::vector<ControllerFor>> Places(const std::string& plugin);
  absl::StatusOr<std::vector<Snapshot>> ListAt(const ControllerFor& place, Clock::time_point until);

  PluginDirectory& plugins_;
  const RetryPolicy retry_;
};

}  // namespace mooring::manager

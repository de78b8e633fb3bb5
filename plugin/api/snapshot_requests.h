// Parses the requests about snapshots, with the rules of controller_requests.h.
#ifndef MOORING_PLUGIN_API_SNAPSHOT_REQUESTS_H_
#define MOORING_PLUGIN_API_SNAPSHOT_REQUESTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "csi.pb.h"
#include "plugin/model/snapshot_specs.h"

namespace mooring {

absl::StatusOr<CreateSnapshotSpec> ParseCreateSnapshot(const csi::v1::CreateSnapshotRequest& request);
absl::StatusOr<std::string> ParseSnapshotId(const std::string& snapshot_id);
absl::StatusOr<ListSnapshotsSpec> ParseListSnapshots(const csi::v1::ListSnapshotsRequest& request);

absl::StatusOr<CreateGroupSpec> ParseCreateGroup(const csi::v1::CreateVolumeGroupSnapshotRequest& request);
absl::StatusOr<GroupSpec> ParseGetGroup(const csi::v1::GetVolumeGroupSnapshotRequest& request);
absl::StatusOr<GroupSpec> ParseDeleteGroup(const csi::v1::DeleteVolumeGroupSnapshotRequest& request);

// Conversions to answers.
void Pack(const SnapshotInfo& info, csi::v1::Snapshot& snapshot);
void Pack(const GroupInfo& info, csi::v1::VolumeGroupSnapshot& group);

}  // namespace mooring

#endif  // MOORING_PLUGIN_API_SNAPSHOT_REQUESTS_H_

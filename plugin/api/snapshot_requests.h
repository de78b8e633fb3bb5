// Parses the requests about snapshots, with the rules of controller_requests.h.
#pragma once

#include "absl/status/statusor.h"
#include "csi.pb.h"
#include "plugin/catalog/snapshot_sets.h"
#include "plugin/model/volume_specs.h"

namespace mooring {

absl::StatusOr<CreateSnapshotSpec> ParseCreateSnapshot(const csi::v1::CreateSnapshotRequest& request);
absl::StatusOr<ListSnapshotsSpec> ParseListSnapshots(const csi::v1::ListSnapshotsRequest& request);

absl::StatusOr<CreateGroupSpec> ParseCreateGroup(const csi::v1::CreateVolumeGroupSnapshotRequest& request);
absl::StatusOr<GroupSpec> ParseGetGroup(const csi::v1::GetVolumeGroupSnapshotRequest& request);
absl::StatusOr<GroupSpec> ParseDeleteGroup(const csi::v1::DeleteVolumeGroupSnapshotRequest& request);

// Conversions to answers.
void Pack(const SnapshotRecord& info, csi::v1::Snapshot& snapshot);
void Pack(const SnapshotSet& info, csi::v1::VolumeGroupSnapshot& group);

}  // namespace mooring

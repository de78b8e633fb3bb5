// Parses the requests of the node service into structs, without lookups.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "csi.pb.h"
#include "plugin/ephemeral/ephemeral_volumes.h"
#include "plugin/node/node_volumes.h"

namespace mooring {

struct VolumePath {
  std::string volume_id;
  std::string path;
};

absl::StatusOr<StageSpec> ParseStage(const csi::v1::NodeStageVolumeRequest& request);
absl::StatusOr<VolumePath> ParseUnstage(const csi::v1::NodeUnstageVolumeRequest& request);
absl::StatusOr<PublishSpec> ParsePublish(const csi::v1::NodePublishVolumeRequest& request);

// An ephemeral volume, which the orchestrator has not created. Its volume_context has the parameters of CreateVolume
// and `size`, and its secrets are those of CreateVolume.
bool AsksForEphemeral(const csi::v1::NodePublishVolumeRequest& request);
absl::StatusOr<EphemeralSpec> ParseEphemeral(const csi::v1::NodePublishVolumeRequest& request, const Pools& pools);

absl::StatusOr<VolumePath> ParseUnpublish(const csi::v1::NodeUnpublishVolumeRequest& request);

// NOT_FOUND: volume_path is no absolute path (csi-sanity expects this code).
absl::StatusOr<VolumePath> ParseStats(const csi::v1::NodeGetVolumeStatsRequest& request);
absl::StatusOr<ExpandSpec> ParseNodeExpand(const csi::v1::NodeExpandVolumeRequest& request);

}  // namespace mooring

// Node requests as plain specs. Pure: nothing is looked up, so the checks here come before every look-up.
#ifndef MOORING_PLUGIN_API_NODE_REQUESTS_H_
#define MOORING_PLUGIN_API_NODE_REQUESTS_H_

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

// A volume that the orchestrator has not created: its volume_context says how to make it, as parameters of CreateVolume
// do, and with `size`.
bool AsksForEphemeral(const csi::v1::NodePublishVolumeRequest& request);
absl::StatusOr<EphemeralSpec> ParseEphemeral(const csi::v1::NodePublishVolumeRequest& request, const Pools& pools);

absl::StatusOr<VolumePath> ParseUnpublish(const csi::v1::NodeUnpublishVolumeRequest& request);

// A volume_path that is no absolute path is NOT_FOUND: no volume is there (csi-sanity).
absl::StatusOr<VolumePath> ParseStats(const csi::v1::NodeGetVolumeStatsRequest& request);
absl::StatusOr<ExpandSpec> ParseNodeExpand(const csi::v1::NodeExpandVolumeRequest& request);

}  // namespace mooring

#endif  // MOORING_PLUGIN_API_NODE_REQUESTS_H_

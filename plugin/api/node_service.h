// csi.v1.Node. NodeVolumes does the work of the calls.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/file/path_link.h"
#include "csi.grpc.pb.h"
#include "plugin/api/rpc.h"
#include "plugin/ephemeral/ephemeral_volumes.h"
#include "plugin/model/volume_specs.h"
#include "plugin/node/node_volumes.h"

namespace mooring {

struct NodeIdentity {
  std::string node_id;
  std::int64_t max_volumes = 0;  // 0: no limit
  std::map<std::string, std::string> topology;
  std::vector<std::string> mount_roots = {"/"};  // targets elsewhere are refused before any work
  std::vector<PathLink> root_links = {};         // orchestrators may send paths through these; records have real ones
  bool grows = true;                             // at least one pool has volumes that grow
  bool mount_group = false;                      // VOLUME_MOUNT_GROUP is offered
  // Grows the volume itself. Empty unless NodeExpandVolume does that, too.
  std::function<absl::Status(const ControllerExpandSpec&, const Call&)> grow = nullptr;
};

class NodeService final : public csi::v1::Node::Service {
 public:
  NodeService(Rpc& rpc, NodeVolumes& volumes, EphemeralVolumes& ephemeral, NodeIdentity identity)
      : rpc_(rpc), volumes_(volumes), ephemeral_(ephemeral), identity_(std::move(identity)) {}

 private:
  MOORING_CSI_CALL(NodeStageVolume, Stage, kWhenReady);
  MOORING_CSI_CALL(NodeUnstageVolume, Unstage, kWhenReady);
  MOORING_CSI_CALL(NodePublishVolume, Publish, kWhenReady);
  MOORING_CSI_CALL(NodeUnpublishVolume, Unpublish, kWhenReady);
  MOORING_CSI_CALL(NodeGetVolumeStats, Stats, kWhenReady);
  MOORING_CSI_CALL(NodeExpandVolume, Expand, kWhenReady);
  MOORING_CSI_CALL(NodeGetCapabilities, Capabilities, kAlways);
  MOORING_CSI_CALL(NodeGetInfo, Info, kAlways);

  absl::Status PublishEphemeral(const csi::v1::NodePublishVolumeRequest& request, const Call& call);
  void Resolve(std::string& path) const { path = WithoutLinks(path, identity_.root_links); }
  absl::Status CheckRoots(const std::string& field, const std::string& path) const;

  Rpc& rpc_;
  NodeVolumes& volumes_;
  EphemeralVolumes& ephemeral_;
  const NodeIdentity identity_;
};

}  // namespace mooring

// CSI's Node service: a table. What a call does stands in NodeVolumes.
#ifndef MOORING_PLUGIN_API_NODE_SERVICE_H_
#define MOORING_PLUGIN_API_NODE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

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
  std::vector<std::string> mount_roots = {"/"};  // where the mounter will mount: asked before anything is made for it
  bool grows = true;                             // some pool's volumes do
  bool mount_group = false;                      // VOLUME_MOUNT_GROUP is offered
  // What makes a volume itself larger, where NodeExpandVolume is to do that, too.
  std::function<absl::Status(const ControllerExpandSpec&, const Call&)> grow = nullptr;
};

class NodeService final : public csi::v1::Node::Service {
 public:
  NodeService(Rpc& rpc, NodeVolumes& volumes, EphemeralVolumes& ephemeral, NodeIdentity identity)
      : rpc_(rpc), volumes_(volumes), ephemeral_(ephemeral), identity_(std::move(identity)) {}

  grpc::Status NodeStageVolume(grpc::ServerContext* context, const csi::v1::NodeStageVolumeRequest* request,
                               csi::v1::NodeStageVolumeResponse* response) override;
  grpc::Status NodeUnstageVolume(grpc::ServerContext* context, const csi::v1::NodeUnstageVolumeRequest* request,
                                 csi::v1::NodeUnstageVolumeResponse* response) override;
  grpc::Status NodePublishVolume(grpc::ServerContext* context, const csi::v1::NodePublishVolumeRequest* request,
                                 csi::v1::NodePublishVolumeResponse* response) override;
  grpc::Status NodeUnpublishVolume(grpc::ServerContext* context, const csi::v1::NodeUnpublishVolumeRequest* request,
                                   csi::v1::NodeUnpublishVolumeResponse* response) override;
  grpc::Status NodeGetVolumeStats(grpc::ServerContext* context, const csi::v1::NodeGetVolumeStatsRequest* request,
                                  csi::v1::NodeGetVolumeStatsResponse* response) override;
  grpc::Status NodeExpandVolume(grpc::ServerContext* context, const csi::v1::NodeExpandVolumeRequest* request,
                                csi::v1::NodeExpandVolumeResponse* response) override;
  grpc::Status NodeGetCapabilities(grpc::ServerContext* context, const csi::v1::NodeGetCapabilitiesRequest* request,
                                   csi::v1::NodeGetCapabilitiesResponse* response) override;
  grpc::Status NodeGetInfo(grpc::ServerContext* context, const csi::v1::NodeGetInfoRequest* request,
                           csi::v1::NodeGetInfoResponse* response) override;

 private:
  absl::StatusOr<csi::v1::NodeStageVolumeResponse> Stage(const csi::v1::NodeStageVolumeRequest& request,
                                                         const Call& call);
  absl::StatusOr<csi::v1::NodeUnstageVolumeResponse> Unstage(const csi::v1::NodeUnstageVolumeRequest& request,
                                                             const Call& call);
  absl::StatusOr<csi::v1::NodePublishVolumeResponse> Publish(const csi::v1::NodePublishVolumeRequest& request,
                                                             const Call& call);
  absl::StatusOr<csi::v1::NodePublishVolumeResponse> PublishEphemeral(const csi::v1::NodePublishVolumeRequest& request,
                                                                      const Call& call);
  absl::StatusOr<csi::v1::NodeUnpublishVolumeResponse> Unpublish(const csi::v1::NodeUnpublishVolumeRequest& request,
                                                                 const Call& call);
  absl::StatusOr<csi::v1::NodeGetVolumeStatsResponse> Stats(const csi::v1::NodeGetVolumeStatsRequest& request);
  absl::StatusOr<csi::v1::NodeExpandVolumeResponse> Expand(const csi::v1::NodeExpandVolumeRequest& request,
                                                           const Call& call);
  csi::v1::NodeGetInfoResponse Info() const;
  absl::Status CheckRoots(const std::string& field, const std::string& path) const;

  Rpc& rpc_;
  NodeVolumes& volumes_;
  EphemeralVolumes& ephemeral_;
  const NodeIdentity identity_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_API_NODE_SERVICE_H_

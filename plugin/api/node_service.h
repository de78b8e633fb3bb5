// csi.v1.Node. NodeVolumes does the work of the calls.
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
  std::vector<std::string> mount_roots = {"/"};  // targets elsewhere are refused before any work
  bool grows = true;                             // at least one pool has volumes that grow
  bool mount_group = false;                      // VOLUME_MOUNT_GROUP is offered
  // Grows the volume itself. Empty unless NodeExpandVolume does that, too.
  std::function<absl::Status(const ControllerExpandSpec&, const Call&)> grow = nullptr;
};

class NodeService final : public csi::v1::Node::Service {
 public:
  NodeService(Rpc& rpc, NodeVolumes& volumes, EphemeralVolumes& ephemeral, NodeIdentity identity)
      : rpc_(rpc), volumes_(volumes), ephemeral_(ephemeral), identity_(std::move(identity)) {}

  grpc::Status NodeStageVolume(grpc::ServerContext* context, const csi::v1::NodeStageVolumeRequest* request,
                               csi::v1::NodeStageVolumeResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return Stage(*request, call); });
  }
  grpc::Status NodeUnstageVolume(grpc::ServerContext* context, const csi::v1::NodeUnstageVolumeRequest* request,
                                 csi::v1::NodeUnstageVolumeResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return Unstage(*request, call); });
  }
  grpc::Status NodePublishVolume(grpc::ServerContext* context, const csi::v1::NodePublishVolumeRequest* request,
                                 csi::v1::NodePublishVolumeResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return Publish(*request, call); });
  }
  grpc::Status NodeUnpublishVolume(grpc::ServerContext* context, const csi::v1::NodeUnpublishVolumeRequest* request,
                                   csi::v1::NodeUnpublishVolumeResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return Unpublish(*request, call); });
  }
  grpc::Status NodeGetVolumeStats(grpc::ServerContext* context, const csi::v1::NodeGetVolumeStatsRequest* request,
                                  csi::v1::NodeGetVolumeStatsResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call&) { return Stats(*request); });
  }
  grpc::Status NodeExpandVolume(grpc::ServerContext* context, const csi::v1::NodeExpandVolumeRequest* request,
                                csi::v1::NodeExpandVolumeResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return Expand(*request, call); });
  }
  grpc::Status NodeGetCapabilities(grpc::ServerContext* context, const csi::v1::NodeGetCapabilitiesRequest* request,
                                   csi::v1::NodeGetCapabilitiesResponse* response) override {
    return rpc_.Serve(
        context, *request, response, [this](const Call&) { return Capabilities(); }, Rpc::When::kAlways);
  }
  grpc::Status NodeGetInfo(grpc::ServerContext* context, const csi::v1::NodeGetInfoRequest* request,
                           csi::v1::NodeGetInfoResponse* response) override {
    return rpc_.Serve(
        context, *request, response,
        [this](const Call&) { return absl::StatusOr<csi::v1::NodeGetInfoResponse>(Info()); }, Rpc::When::kAlways);
  }

 private:
  absl::StatusOr<csi::v1::NodeGetCapabilitiesResponse> Capabilities() const;
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

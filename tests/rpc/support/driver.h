// A CSI client for tests. It sends each RPC by its request, and has short names for calls that tests make often.
// It checks each answer: an error without a message, with details, or with code UNKNOWN fails the test.
#pragma once

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "csi.grpc.pb.h"
#include "tests/support/status_matchers.h"

namespace mooring::testing {

using Code = absl::StatusCode;
using csi::v1::ControllerExpandVolumeRequest;
using csi::v1::ControllerPublishVolumeRequest;
using csi::v1::CreateVolumeRequest;
using csi::v1::GetCapacityRequest;
using csi::v1::GetPluginInfoRequest;
using csi::v1::ListVolumesRequest;
using csi::v1::NodeExpandVolumeRequest;
using csi::v1::NodeGetCapabilitiesRequest;
using csi::v1::NodeGetInfoRequest;
using csi::v1::NodePublishVolumeRequest;
using csi::v1::NodeStageVolumeRequest;
using csi::v1::ProbeRequest;
using csi::v1::ValidateVolumeCapabilitiesRequest;
using csi::v1::VolumeCapability;
using AccessMode = csi::v1::VolumeCapability::AccessMode;
inline constexpr auto kMultiWriter = AccessMode::SINGLE_NODE_MULTI_WRITER;

inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;
inline constexpr std::int64_t kVolumeBytes = 64 * kMiB;  // large enough for ext4
inline constexpr std::int64_t kXfsBytes = 320 * kMiB;    // mkfs.xfs wants 300 MiB

// A status for the matchers IsOk and FailsWith, and the response.
template <typename Response>
struct Answer {
  absl::Status status;
  Response response;
  const Response* operator->() const { return &response; }
};
template <typename Response>
const absl::Status& StatusOf(const Answer<Response>& answer) {
  return answer.status;
}

VolumeCapability Mount(const std::string& fs_type = "", AccessMode::Mode mode = AccessMode::SINGLE_NODE_WRITER,
                       const std::vector<std::string>& flags = {});
VolumeCapability Block(AccessMode::Mode mode = AccessMode::SINGLE_NODE_WRITER);
VolumeCapability WithGroup(VolumeCapability capability, const std::string& group);
inline const VolumeCapability kSharedMount = Mount("", kMultiWriter);  // several targets may be writable
inline const VolumeCapability kSharedBlock = Block(kMultiWriter);

using Parameters = std::map<std::string, std::string>;

// `bytes` 0: the request has no capacity_range.
csi::v1::CreateVolumeRequest CreateRequest(const std::string& name, const VolumeCapability& capability = Mount(),
                                           std::int64_t bytes = kVolumeBytes, const Parameters& parameters = {});
// `source`: the id of a snapshot or a volume.
csi::v1::CreateVolumeRequest CopyRequest(const std::string& name, const std::string& source,
                                         const VolumeCapability& capability = Mount(), std::int64_t bytes = 0,
                                         const Parameters& parameters = {});
csi::v1::NodeStageVolumeRequest StageRequest(const std::string& id, const std::string& path,
                                             const VolumeCapability& capability = Mount());
csi::v1::NodePublishVolumeRequest PublishRequest(const std::string& id, const std::string& staging,
                                                 const std::string& target,
                                                 const VolumeCapability& capability = Mount(), bool read_only = false);
csi::v1::ValidateVolumeCapabilitiesRequest ValidateRequest(const std::string& id, const VolumeCapability& capability);

// Each RPC of CSI 1.12 that is no stream: the stub, the service and the method.
#define MOORING_CSI_RPCS(RPC)                                  \
  RPC(identity_, Identity, GetPluginInfo)                      \
  RPC(identity_, Identity, GetPluginCapabilities)              \
  RPC(identity_, Identity, Probe)                              \
  RPC(controller_, Controller, CreateVolume)                   \
  RPC(controller_, Controller, DeleteVolume)                   \
  RPC(controller_, Controller, ControllerPublishVolume)        \
  RPC(controller_, Controller, ControllerUnpublishVolume)      \
  RPC(controller_, Controller, ValidateVolumeCapabilities)     \
  RPC(controller_, Controller, ListVolumes)                    \
  RPC(controller_, Controller, GetCapacity)                    \
  RPC(controller_, Controller, ControllerGetCapabilities)      \
  RPC(controller_, Controller, ControllerExpandVolume)         \
  RPC(controller_, Controller, ControllerGetVolume)            \
  RPC(controller_, Controller, ControllerModifyVolume)         \
  RPC(controller_, Controller, CreateSnapshot)                 \
  RPC(controller_, Controller, DeleteSnapshot)                 \
  RPC(controller_, Controller, ListSnapshots)                  \
  RPC(controller_, Controller, GetSnapshot)                    \
  RPC(group_, GroupController, GroupControllerGetCapabilities) \
  RPC(group_, GroupController, CreateVolumeGroupSnapshot)      \
  RPC(group_, GroupController, DeleteVolumeGroupSnapshot)      \
  RPC(group_, GroupController, GetVolumeGroupSnapshot)         \
  RPC(node_, Node, NodeStageVolume)                            \
  RPC(node_, Node, NodeUnstageVolume)                          \
  RPC(node_, Node, NodePublishVolume)                          \
  RPC(node_, Node, NodeUnpublishVolume)                        \
  RPC(node_, Node, NodeGetVolumeStats)                         \
  RPC(node_, Node, NodeExpandVolume)                           \
  RPC(node_, Node, NodeGetCapabilities)                        \
  RPC(node_, Node, NodeGetInfo)

class Driver {
 public:
  explicit Driver(std::string socket) : socket_(std::move(socket)) { Connect(); }

  void Connect();     // makes a new connection, as after a restart of the plugin
  void Disconnect();  // so that a plugin that stops need not wait for this client
  void set_deadline(std::chrono::milliseconds deadline) { deadline_ = deadline; }

  Answer<csi::v1::CreateVolumeResponse> Create(const std::string& name, const VolumeCapability& capability = Mount(),
                                               std::int64_t bytes = kVolumeBytes);
  Answer<csi::v1::DeleteVolumeResponse> Delete(const std::string& id);
  Answer<csi::v1::ControllerPublishVolumeResponse> Attach(const std::string& id, const std::string& node,
                                                          const VolumeCapability& capability = Mount(),
                                                          bool read_only = false);
  Answer<csi::v1::ControllerUnpublishVolumeResponse> Detach(const std::string& id, const std::string& node);
  Answer<csi::v1::ControllerExpandVolumeResponse> Grow(const std::string& id, std::int64_t bytes);
  Answer<csi::v1::ListVolumesResponse> List();
  Answer<csi::v1::NodeStageVolumeResponse> Stage(const std::string& id, const std::string& path,
                                                 const VolumeCapability& capability = Mount());
  Answer<csi::v1::NodeUnstageVolumeResponse> Unstage(const std::string& id, const std::string& path);
  Answer<csi::v1::NodePublishVolumeResponse> Publish(const std::string& id, const std::string& staging,
                                                     const std::string& target,
                                                     const VolumeCapability& capability = Mount(),
                                                     bool read_only = false);
  Answer<csi::v1::NodeUnpublishVolumeResponse> Unpublish(const std::string& id, const std::string& target);
  Answer<csi::v1::NodeGetVolumeStatsResponse> Stats(const std::string& id, const std::string& path);
  Answer<csi::v1::NodeExpandVolumeResponse> NodeExpand(const std::string& id, const std::string& path,
                                                       std::int64_t bytes = 0);
  Answer<csi::v1::ControllerGetVolumeResponse> Get(const std::string& id);
  Answer<csi::v1::CreateSnapshotResponse> Snap(const std::string& name, const std::string& volume);
  Answer<csi::v1::DeleteSnapshotResponse> DeleteSnapshot(const std::string& id);
  std::int64_t Available(const std::string& pool);  // GetCapacity

#define MOORING_DECLARE_SEND(stub, service, method) \
  Answer<csi::v1::method##Response> Send(const csi::v1::method##Request& request);
  MOORING_CSI_RPCS(MOORING_DECLARE_SEND)
#undef MOORING_DECLARE_SEND

  // The calls that succeeded, each once. The fixture undoes them at the end of a test.
  struct Done {
    std::vector<std::pair<std::string, std::string>> published, staged;  // volume and path
    std::vector<std::string> created, snapshots;
  };
  Done TakeDone();

 private:
  template <typename Stub, typename Request, typename Response>
  Answer<Response> Invoke(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                          const Request& request);
  template <typename Entry>
  void NoteOnce(std::vector<Entry>& list, const Entry& entry);
  void Note(const csi::v1::CreateVolumeRequest& request, const csi::v1::CreateVolumeResponse& response);
  void Note(const csi::v1::CreateSnapshotRequest& request, const csi::v1::CreateSnapshotResponse& response);
  void Note(const csi::v1::NodeStageVolumeRequest& request, const csi::v1::NodeStageVolumeResponse& response);
  void Note(const csi::v1::NodePublishVolumeRequest& request, const csi::v1::NodePublishVolumeResponse& response);
  static void Note(const google::protobuf::Message&, const google::protobuf::Message&) {}  // nothing to undo

  std::string socket_;
  std::chrono::milliseconds deadline_{60'000};
  std::unique_ptr<csi::v1::Identity::Stub> identity_;
  std::unique_ptr<csi::v1::Controller::Stub> controller_;
  std::unique_ptr<csi::v1::GroupController::Stub> group_;
  std::unique_ptr<csi::v1::Node::Stub> node_;
  std::mutex mutex_;
  Done done_;
};

}  // namespace mooring::testing

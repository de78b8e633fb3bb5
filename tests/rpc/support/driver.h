// A CSI client for tests: every RPC by its request, and short names for what tests call often. Every answer is looked
// at on the way: an error without a message, with details, or UNKNOWN fails the test, wherever it comes from.
#ifndef MOORING_TESTS_RPC_SUPPORT_DRIVER_H_
#define MOORING_TESTS_RPC_SUPPORT_DRIVER_H_

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
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
using csi::v1::VolumeCapability;
using AccessMode = csi::v1::VolumeCapability::AccessMode;
inline constexpr auto kMultiWriter = AccessMode::SINGLE_NODE_MULTI_WRITER;

inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;
inline constexpr std::int64_t kVolumeBytes = 64 * kMiB;  // large enough for ext4
inline constexpr std::int64_t kXfsBytes = 320 * kMiB;    // mkfs.xfs wants 300 MiB

// What IsOk and FailsWith take, with the response beside it.
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

class Driver {
 public:
  explicit Driver(std::string socket) : socket_(std::move(socket)) { Connect(); }

  void Connect();     // anew, as after a restart of the plugin
  void Disconnect();  // a plugin that stops need not wait for this client to notice
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

  // Every RPC of CSI 1.12 but the streams.
  Answer<csi::v1::GetPluginInfoResponse> Send(const csi::v1::GetPluginInfoRequest& request);
  Answer<csi::v1::GetPluginCapabilitiesResponse> Send(const csi::v1::GetPluginCapabilitiesRequest& request);
  Answer<csi::v1::ProbeResponse> Send(const csi::v1::ProbeRequest& request);
  Answer<csi::v1::CreateVolumeResponse> Send(const csi::v1::CreateVolumeRequest& request);
  Answer<csi::v1::DeleteVolumeResponse> Send(const csi::v1::DeleteVolumeRequest& request);
  Answer<csi::v1::ControllerPublishVolumeResponse> Send(const csi::v1::ControllerPublishVolumeRequest& request);
  Answer<csi::v1::ControllerUnpublishVolumeResponse> Send(const csi::v1::ControllerUnpublishVolumeRequest& request);
  Answer<csi::v1::ValidateVolumeCapabilitiesResponse> Send(const csi::v1::ValidateVolumeCapabilitiesRequest& request);
  Answer<csi::v1::ListVolumesResponse> Send(const csi::v1::ListVolumesRequest& request);
  Answer<csi::v1::GetCapacityResponse> Send(const csi::v1::GetCapacityRequest& request);
  Answer<csi::v1::ControllerGetCapabilitiesResponse> Send(const csi::v1::ControllerGetCapabilitiesRequest& request);
  Answer<csi::v1::ControllerExpandVolumeResponse> Send(const csi::v1::ControllerExpandVolumeRequest& request);
  Answer<csi::v1::ControllerGetVolumeResponse> Send(const csi::v1::ControllerGetVolumeRequest& request);
  Answer<csi::v1::ControllerModifyVolumeResponse> Send(const csi::v1::ControllerModifyVolumeRequest& request);
  Answer<csi::v1::CreateSnapshotResponse> Send(const csi::v1::CreateSnapshotRequest& request);
  Answer<csi::v1::DeleteSnapshotResponse> Send(const csi::v1::DeleteSnapshotRequest& request);
  Answer<csi::v1::ListSnapshotsResponse> Send(const csi::v1::ListSnapshotsRequest& request);
  Answer<csi::v1::GetSnapshotResponse> Send(const csi::v1::GetSnapshotRequest& request);
  Answer<csi::v1::GroupControllerGetCapabilitiesResponse> Send(
      const csi::v1::GroupControllerGetCapabilitiesRequest& request);
  Answer<csi::v1::CreateVolumeGroupSnapshotResponse> Send(const csi::v1::CreateVolumeGroupSnapshotRequest& request);
  Answer<csi::v1::DeleteVolumeGroupSnapshotResponse> Send(const csi::v1::DeleteVolumeGroupSnapshotRequest& request);
  Answer<csi::v1::GetVolumeGroupSnapshotResponse> Send(const csi::v1::GetVolumeGroupSnapshotRequest& request);
  Answer<csi::v1::NodeStageVolumeResponse> Send(const csi::v1::NodeStageVolumeRequest& request);
  Answer<csi::v1::NodeUnstageVolumeResponse> Send(const csi::v1::NodeUnstageVolumeRequest& request);
  Answer<csi::v1::NodePublishVolumeResponse> Send(const csi::v1::NodePublishVolumeRequest& request);
  Answer<csi::v1::NodeUnpublishVolumeResponse> Send(const csi::v1::NodeUnpublishVolumeRequest& request);
  Answer<csi::v1::NodeGetVolumeStatsResponse> Send(const csi::v1::NodeGetVolumeStatsRequest& request);
  Answer<csi::v1::NodeExpandVolumeResponse> Send(const csi::v1::NodeExpandVolumeRequest& request);
  Answer<csi::v1::NodeGetCapabilitiesResponse> Send(const csi::v1::NodeGetCapabilitiesRequest& request);
  Answer<csi::v1::NodeGetInfoResponse> Send(const csi::v1::NodeGetInfoRequest& request);

  // What succeeded and is to be taken back at the end of a test, each once.
  struct Done {
    std::vector<std::pair<std::string, std::string>> published, staged;  // volume and path
    std::vector<std::string> created;
  };
  Done TakeDone();

 private:
  template <typename Stub, typename Request, typename Response>
  Answer<Response> Invoke(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                          const Request& request);
  void Note(std::vector<std::pair<std::string, std::string>>& list, const std::string& id, const std::string& path);

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

#endif  // MOORING_TESTS_RPC_SUPPORT_DRIVER_H_

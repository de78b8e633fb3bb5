// The state of a CSI plugin: volumes, snapshots, and where they are attached, staged and published. It checks CSI's
// rules of order and idempotence; FakeCsiPlugin adds channels and injected errors. Several plugins may share one
// object, as an old and a new version do. Safe from several threads.
//
// It does not model access modes and the contents of volumes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "csi.pb.h"
#include "tests/fakes/fake_mounter.h"

namespace mooring::testing {

struct FakeCsiFeatures {
  std::string name = "fake.csi";
  std::string version = "1.0";
  std::string node_id = "node-1";
  std::map<std::string, std::string> topology;  // empty: it has no topology
  std::int64_t max_volumes = 0;
  bool ready = true;
  bool says_ready = true;  // false: Probe leaves `ready` out
  bool controller = true;  // serves the Controller service
  bool attaches = true;    // ControllerPublishVolume
  bool stages = true;      // NodeStageVolume
  bool expands = true;     // at the controller, online
  bool node_expands = true;
  bool snapshots = true;
  bool clones = true;
  bool single_writer = true;   // SINGLE_NODE_MULTI_WRITER, both services
  bool obeys_readonly = true;  // of NodePublishVolume
};

struct FakeCsiVolume {
  struct Published {
    std::string staging_path;
    bool read_only = false;
    std::string capability;  // as text
  };
  std::string id, name;
  std::int64_t bytes = 0;
  std::set<std::string> attached;                // node ids
  std::map<std::string, std::string> staged;     // path -> capability as text
  std::map<std::string, Published> published;    // by target path
  std::map<std::string, std::int64_t> expanded;  // by volume path: the size that NodeExpandVolume was asked for
};

class FakeCsiVolumes {
 public:
  // From now on staging and publishing mount and unmount in this kernel, which the manager reads. The mounter outlives
  // this object.
  void MirrorInto(FakeMounter& kernel);

  // Adds a volume without CreateVolume, to be registered or staged.
  void Add(const std::string& id, std::int64_t bytes = std::int64_t{1} << 30);

  // Queries for tests. Find gives none if the volume does not exist.
  std::optional<FakeCsiVolume> Find(const std::string& id);
  std::vector<std::string> Ids();
  std::size_t staged_count();     // staging paths, of all volumes
  std::size_t published_count();  // target paths, of all volumes

  // The calls, answered as a plugin with `features` does.
  absl::Status Create(const FakeCsiFeatures& features, const csi::v1::CreateVolumeRequest& request,
                      csi::v1::CreateVolumeResponse& response);
  absl::Status Delete(const csi::v1::DeleteVolumeRequest& request);
  absl::Status Attach(const csi::v1::ControllerPublishVolumeRequest& request,
                      csi::v1::ControllerPublishVolumeResponse& response);
  absl::Status Detach(const csi::v1::ControllerUnpublishVolumeRequest& request);
  absl::Status Validate(const csi::v1::ValidateVolumeCapabilitiesRequest& request,
                        csi::v1::ValidateVolumeCapabilitiesResponse& response);
  absl::Status List(csi::v1::ListVolumesResponse& response);
  absl::Status Expand(const FakeCsiFeatures& features, const csi::v1::ControllerExpandVolumeRequest& request,
                      csi::v1::ControllerExpandVolumeResponse& response);
  absl::Status CreateSnapshot(const csi::v1::CreateSnapshotRequest& request, csi::v1::CreateSnapshotResponse& response);
  absl::Status DeleteSnapshot(const csi::v1::DeleteSnapshotRequest& request);
  absl::Status ListSnapshots(csi::v1::ListSnapshotsResponse& response);
  absl::Status Stage(const FakeCsiFeatures& features, const csi::v1::NodeStageVolumeRequest& request);
  absl::Status Unstage(const csi::v1::NodeUnstageVolumeRequest& request);
  absl::Status Publish(const FakeCsiFeatures& features, const csi::v1::NodePublishVolumeRequest& request);
  absl::Status Unpublish(const csi::v1::NodeUnpublishVolumeRequest& request);
  absl::Status NodeExpand(const csi::v1::NodeExpandVolumeRequest& request, csi::v1::NodeExpandVolumeResponse& response);
  absl::Status Stats(const csi::v1::NodeGetVolumeStatsRequest& request, csi::v1::NodeGetVolumeStatsResponse& response);

 private:
  absl::StatusOr<FakeCsiVolume*> Get(const std::string& id);
  absl::Status CheckAttached(const FakeCsiFeatures& features, const FakeCsiVolume& volume,
                             const google::protobuf::Map<std::string, std::string>& publish_context);
  void Mirror(const FakeCsiVolume& volume, const std::string& path, const csi::v1::VolumeCapability& capability,
              bool read_only);
  absl::Status Unmirror(const std::string& path, bool remove);

  std::mutex mutex_;
  std::map<std::string, FakeCsiVolume> volumes_;
  std::map<std::string, csi::v1::Snapshot> snapshots_;
  std::map<std::string, std::string> snapshot_names_;  // name -> id
  int next_id_ = 1;
  FakeMounter* kernel_ = nullptr;
};

}  // namespace mooring::testing

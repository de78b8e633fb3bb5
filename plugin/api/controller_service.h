// csi.v1.Controller: parses requests, calls the catalogs, converts the results. NodeVolumes knows the mounts of this
// node.
#pragma once

#include "csi.grpc.pb.h"
#include "plugin/api/rpc.h"
#include "plugin/catalog/snapshot_catalog.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/node/node_volumes.h"

namespace mooring {

class ControllerService final : public csi::v1::Controller::Service {
 public:
  // Optional features. `grows`: ControllerExpandVolume is offered. The others: at least one pool makes them.
  struct Offers {
    bool grows = true, snapshots = true, clones = true;
  };

  // All references outlive the service.
  ControllerService(VolumeCatalog& catalog, SnapshotCatalog& snapshots, NodeVolumes& uses, Offers offers, Rpc& rpc)
      : catalog_(catalog), snapshots_(snapshots), uses_(uses), offers_(offers), rpc_(rpc) {}

 private:
  MOORING_CSI_CALL(CreateVolume, Create, kWhenReady);
  MOORING_CSI_CALL(DeleteVolume, Delete, kWhenReady);
  MOORING_CSI_CALL(ControllerPublishVolume, Publish, kWhenReady);
  MOORING_CSI_CALL(ControllerUnpublishVolume, Unpublish, kWhenReady);
  MOORING_CSI_CALL(ValidateVolumeCapabilities, Validate, kWhenReady);
  MOORING_CSI_CALL(ListVolumes, List, kWhenReady);
  MOORING_CSI_CALL(GetCapacity, Capacity, kWhenReady);
  MOORING_CSI_CALL(ControllerGetCapabilities, Capabilities, kAlways);
  MOORING_CSI_CALL(ControllerExpandVolume, Expand, kWhenReady);
  MOORING_CSI_CALL(ControllerGetVolume, Get, kWhenReady);
  MOORING_CSI_CALL(ControllerModifyVolume, Modify, kWhenReady);
  MOORING_CSI_CALL(CreateSnapshot, CreateSnapshot, kWhenReady);
  MOORING_CSI_CALL(DeleteSnapshot, DeleteSnapshot, kWhenReady);
  MOORING_CSI_CALL(ListSnapshots, ListSnapshots, kWhenReady);
  MOORING_CSI_CALL(GetSnapshot, GetSnapshot, kWhenReady);

  void Pack(const VolumeInfo& info, csi::v1::Volume& volume) const;

  VolumeCatalog& catalog_;
  SnapshotCatalog& snapshots_;
  NodeVolumes& uses_;
  const Offers offers_;
  Rpc& rpc_;
};

}  // namespace mooring

// csi.v1.GroupController: unpacks, calls the catalog of the snapshots, packs.
#pragma once

#include "csi.grpc.pb.h"
#include "plugin/api/rpc.h"
#include "plugin/catalog/snapshot_catalog.h"

namespace mooring {

class GroupControllerService final : public csi::v1::GroupController::Service {
 public:
  // Both outlive the service.
  GroupControllerService(SnapshotCatalog& snapshots, Rpc& rpc) : snapshots_(snapshots), rpc_(rpc) {}

 private:
  MOORING_CSI_CALL(GroupControllerGetCapabilities, Capabilities, kAlways);
  MOORING_CSI_CALL(CreateVolumeGroupSnapshot, Create, kWhenReady);
  MOORING_CSI_CALL(DeleteVolumeGroupSnapshot, Delete, kWhenReady);
  MOORING_CSI_CALL(GetVolumeGroupSnapshot, Get, kWhenReady);

  SnapshotCatalog& snapshots_;
  Rpc& rpc_;
};

}  // namespace mooring

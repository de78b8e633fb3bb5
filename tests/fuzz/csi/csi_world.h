// The services of the plugin over a kernel in memory, and what must hold for each call.
#pragma once

#include <google/protobuf/message.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugin/api/controller_service.h"
#include "plugin/api/group_controller_service.h"
#include "plugin/api/identity_service.h"
#include "plugin/api/node_service.h"
#include "plugin/backends/pools.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/fuzz/csi/csi_records.h"

namespace mooring::fuzz {

class CsiWorld {
 public:
  CsiWorld();

  // Sends the request, a message of csi.v1, after replacing "@volume0" and the like. It checks:
  //   no error is INTERNAL or UNKNOWN, and none contains a secret
  //   a refused call, and one that only reads, changes nothing
  //   the same call again succeeds, answers the same, and changes nothing.
  // With `failing` that call of the mounter fails once, so the error may be INTERNAL, and only stages and publishes
  // have to undo everything.
  void Send(google::protobuf::Message& request, const std::string& failing);

 private:
  template <typename Service, typename Request, typename Response>
  void SendTo(Service& service, grpc::Status (Service::*method)(grpc::ServerContext*, const Request*, Response*),
              const google::protobuf::Message& request, bool reads);
  template <typename Response>
  void Remember(const Response& response);
  void Replace(google::protobuf::Message& message);
  std::string State();

  CsiRecords& records_ = CsiRecords::Empty();
  testing::FakeMounter mounter_;
  KeyedLocks locks_;
  Pools pools_;
  VolumeCatalog catalog_;
  SnapshotCatalog snapshots_;
  NodeVolumes node_volumes_;
  EphemeralVolumes ephemeral_;
  Readiness readiness_;
  Rpc rpc_;
  IdentityService identity_;
  ControllerService controller_;
  GroupControllerService groups_;
  NodeService node_;
  std::map<std::string, std::string> ids_;  // by "@volume0"
  std::string state_;                       // after the last call
  bool has_failed_ = false;                 // a call of the mounter, in this call
};

}  // namespace mooring::fuzz

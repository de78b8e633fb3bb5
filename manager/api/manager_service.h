// The manager's gRPC service. Each method names its handler (handlers.h) and its Length (calls.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manager.grpc.pb.h"
#include "manager/api/handlers.h"
#include "manager/csi/csi_channel.h"
#include "metrics/call_recorder.h"

namespace mooring::manager {

class ManagerService : public v1::Manager::Service {
 public:
  // Refuses new calls, ends the streams, and waits until `until` for the calls that run. Returns the calls that still
  // run then.
  virtual std::vector<std::string> Drain(Clock::time_point until) = 0;
};

// `recorder` counts every call, and outlives the service; null: calls are not counted.
std::unique_ptr<ManagerService> MakeManagerService(ApiHandlers handlers, CallRecorder* recorder);

}  // namespace mooring::manager

// The manager's gRPC service: a table of the handlers (handlers.h).
#ifndef MOORING_MANAGER_API_MANAGER_SERVICE_H_
#define MOORING_MANAGER_API_MANAGER_SERVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "manager.grpc.pb.h"
#include "manager/csi/csi_channel.h"

namespace mooring::manager {

struct Parts;  // manager.h

class ManagerService : public v1::Manager::Service {
 public:
  // Takes no new call from now on, ends the streams, and waits for the calls under way until `until`: gives those that
  // are left.
  virtual std::vector<std::string> Drain(Clock::time_point until) = 0;
};

std::unique_ptr<ManagerService> MakeManagerService(Parts& parts);  // `parts` outlives it

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_API_MANAGER_SERVICE_H_

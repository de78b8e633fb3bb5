// proto/manager.proto as a service: a table. It unpacks, calls, packs; what around every call has to happen (a
// deadline, one log line, the conversion of the error) happens once.
#ifndef MOORING_MANAGER_API_MANAGER_SERVICE_H_
#define MOORING_MANAGER_API_MANAGER_SERVICE_H_

#include <memory>

#include "manager.grpc.pb.h"

namespace mooring::manager {

struct Parts;  // manager.h

// `parts` outlives it. Stop of the parts ends its streams.
std::unique_ptr<v1::Manager::Service> MakeManagerService(Parts& parts);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_API_MANAGER_SERVICE_H_

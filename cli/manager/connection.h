// The connection to the manager, and the secret fields of its requests.
#ifndef MOORING_CLI_MANAGER_CONNECTION_H_
#define MOORING_CLI_MANAGER_CONNECTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/client/client.h"

namespace mooring::cli::manager_area {

// `socket`: a path, or unix:///path.
absl::StatusOr<ClientOptions> ClientOptionsFor(const std::string& socket, std::chrono::milliseconds timeout);

// Secrets, environments (which may contain secrets) and mount flags.
Sensitivity Classify(const google::protobuf::FieldDescriptor& field);

}  // namespace mooring::cli::manager_area

#endif  // MOORING_CLI_MANAGER_CONNECTION_H_

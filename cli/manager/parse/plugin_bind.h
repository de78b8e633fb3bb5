// A bind of a plugin's container: HOST:CONTAINER[:OPTION[,OPTION]], the form of Docker's --volume.
#ifndef MOORING_CLI_MANAGER_PARSE_PLUGIN_BIND_H_
#define MOORING_CLI_MANAGER_PARSE_PLUGIN_BIND_H_

#include <string>

#include "absl/status/statusor.h"
#include "manager.pb.h"

namespace mooring::cli::manager_area {

// Options: ro, rw, and the propagation (private, rslave, rshared). INVALID_ARGUMENT quotes the text.
absl::StatusOr<manager::v1::PluginBind> ParseBind(const std::string& text);

std::string ToString(const manager::v1::PluginBind& bind);

}  // namespace mooring::cli::manager_area

#endif  // MOORING_CLI_MANAGER_PARSE_PLUGIN_BIND_H_

#include "cli/manager/connection.h"

#include "base/socket_path.h"
#include "base/status.h"
#include "manager.pb.h"

namespace mooring::cli::manager_area {
namespace {

constexpr ServerDescription kManagerDescription{.name = "manager",
                                                .socket = "the manager's socket",
                                                .start = "start the manager (systemctl start mooring-manager)",
                                                .flag = "--manager",
                                                .user = "as root, or as a member of the manager's group"};

}  // namespace

absl::StatusOr<ClientOptions> ClientOptionsFor(const std::string& socket, std::chrono::milliseconds timeout) {
  MOORING_ASSIGN_OR_RETURN(std::string path, ParseSocketPath(socket));
  return ClientOptions{
      .socket_path = std::move(path), .timeout = timeout, .server = kManagerDescription, .classify = Classify};
}

Sensitivity Classify(const google::protobuf::FieldDescriptor& field) {
  if (field.is_map() && (field.name() == "secrets" || field.name() == "environment")) return Sensitivity::kSecret;
  using Options = manager::v1::MountOptions;
  const bool is_flags =
      field.containing_type() == Options::descriptor() && field.number() == Options::kFlagsFieldNumber;
  return is_flags ? Sensitivity::kFlags : Sensitivity::kPlain;
}

}  // namespace mooring::cli::manager_area

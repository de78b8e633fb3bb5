// The connection to the manager, the secret fields of its requests, and calls that report their steps.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/text/terminal_text.h"
#include "cli/client/client.h"
#include "manager.grpc.pb.h"

namespace mooring::cli::manager_area {

inline constexpr char kDefaultSocket[] = "/run/mooring/manager.sock";

// `socket`: a path, or unix:///path.
absl::StatusOr<ClientOptions> ClientOptionsFor(const std::string& socket, std::chrono::milliseconds timeout);

// Secrets, environments (which may contain secrets) and mount flags.
Sensitivity Classify(const google::protobuf::FieldDescriptor& field);

// Calls a method that reports its steps: "stage", "publish", … A terminal shows the current step; --verbose prints
// each. Returns the last message that is not a step. INTERNAL: there is none.
template <typename Request, typename Reply>
absl::StatusOr<Reply> CallWithSteps(const Client& client,
                                    StreamMethod<mooring::manager::v1::Manager::Stub, Request, Reply> method,
                                    const Request& request) {
  std::optional<Reply> last;
  const std::unique_ptr<Progress> progress = client.ShowProgress(request);
  const auto take = [&](const Reply& reply) {
    if (!reply.has_step()) {
      last = reply;
    } else if (client.verbose()) {
      client.trace() << "mooring: " << Visible(reply.step().text()) << '\n';
    } else if (progress != nullptr) {
      progress->Say(reply.step().text());
    }
    return absl::OkStatus();
  };
  MOORING_RETURN_IF_ERROR(client.Stream(method, request, take));
  if (!last) return Internal("the manager ended the call without an answer");
  return *last;
}

}  // namespace mooring::cli::manager_area

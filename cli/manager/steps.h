// Calls that report their steps: "stage", "publish", … A terminal shows the current step; --verbose prints each.
#ifndef MOORING_CLI_MANAGER_STEPS_H_
#define MOORING_CLI_MANAGER_STEPS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "cli/client/client.h"
#include "cli/output/text.h"
#include "manager.grpc.pb.h"

namespace mooring::cli::manager_area {

// Returns the last message of the stream that is not a step. INTERNAL: there is none.
template <typename Reply, typename Request>
absl::StatusOr<Reply> CallWithSteps(const Client& client,
                                    StreamMethod<mooring::manager::v1::Manager, Request, Reply> method,
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
  MOORING_RETURN_IF_ERROR((client.Stream<mooring::manager::v1::Manager>(method, request, take)));
  if (!last) return Internal("the manager ended the call without an answer");
  return *last;
}

}  // namespace mooring::cli::manager_area

#endif  // MOORING_CLI_MANAGER_STEPS_H_

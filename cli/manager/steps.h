// Calls that tell what they do: "stage", "publish", … each shown on a terminal while it lasts, and with --verbose.
#ifndef MOORING_CLI_MANAGER_STEPS_H_
#define MOORING_CLI_MANAGER_STEPS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "cli/client.h"
#include "cli/output/text.h"
#include "manager.grpc.pb.h"

namespace mooring::cli::manager_area {

// The last answer of the stream, which is the one that is no step. INTERNAL: there was none.
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

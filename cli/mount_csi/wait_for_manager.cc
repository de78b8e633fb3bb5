#include "cli/mount_csi/wait_for_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager.grpc.pb.h"

namespace mooring::cli::mount_csi {
namespace {

constexpr std::chrono::seconds kPromptAnswer{2};

absl::Status Ask(const Client& client, const Client::Limit& limit) {
  using manager::v1::Manager;
  return client.CallWhenServed(&Manager::Stub::GetManagerInfo, manager::v1::GetManagerInfoRequest(), limit).status();
}

// Systemd holds the socket of a manager that does not start.
std::string NoAnswer(const std::string& socket) {
  return fmt::format(
      "the manager does not answer at {}; 'systemctl status mooring-manager' and 'journalctl -u mooring-manager' tell "
      "why",
      Quote(socket));
}

}  // namespace

void TellWait(std::string_view program, const Client::Limit& limit, std::string_view reason, std::ostream& err) {
  const auto left = std::chrono::ceil<std::chrono::seconds>(limit.deadline - Client::Clock::now());
  err << fmt::format("{}: waiting up to {} s: {}\n", program, left.count(), reason) << std::flush;
}

absl::Status WaitForManager(std::string_view program, const ClientOptions& options, const Client::Limit& limit,
                            std::ostream& err) {
  const Client client(options, err);
  std::string problem = SocketProblem(options.socket_path, options.server);
  if (!problem.empty() && !MayComeUp(options.socket_path)) return Unavailable(problem);
  if (problem.empty()) {
    Client::Limit prompt = limit;
    prompt.deadline = std::min(limit.deadline, Client::Clock::now() + kPromptAnswer);
    const absl::Status status = Ask(client, prompt);
    const bool is_over = Client::Clock::now() + kPromptAnswer / 10 >= limit.deadline;
    if ((!absl::IsDeadlineExceeded(status) && !absl::IsUnavailable(status)) || is_over) return status;
    problem = NoAnswer(options.socket_path);
  }
  TellWait(program, limit, problem, err);
  return Ask(client, limit);
}

}  // namespace mooring::cli::mount_csi

#include "cli/doctor/unfinished_work.h"

#include <fmt/format.h>

#include <chrono>
#include <sstream>
#include <utility>

#include "base/status.h"
#include "cli/client/client.h"
#include "cli/manager/connection.h"
#include "cli/manager/parse/value_text.h"
#include "cli/manager/show.h"

namespace mooring::cli::doctor_area {
namespace {

namespace v1 = mooring::manager::v1;

constexpr std::chrono::seconds kPatience{2};

Finding FindingOf(const v1::OwedWork& work) {
  std::string what = fmt::format("the manager has not finished this {} since {}: {}", work.kind(),
                                 manager_area::TimeText(work.since_ms()), work.what());
  if (!work.plugin().empty()) what += fmt::format(" ({})", work.plugin());
  what += fmt::format(". The next try: {}", manager_area::NextTryText(work));
  if (work.problem().empty()) return {"unfinished-work", Severity::kNote, what, {}};
  if (work.tries() > 0) what += fmt::format(". Tries that failed: {}", work.tries());
  return {"unfinished-work", Severity::kProblem, what + ". It has failed: " + work.problem(), {}};
}

}  // namespace

absl::StatusOr<Findings> FindUnfinishedWork(const std::string& socket) {
  MOORING_ASSIGN_OR_RETURN(const ClientOptions options, manager_area::ClientOptionsFor(socket, kPatience));
  std::ostringstream no_trace;
  const Client client(options, no_trace);
  const auto info = client.Call(&v1::Manager::Stub::GetManagerInfo, v1::GetManagerInfoRequest());
  if (!info.ok()) {
    const Severity severity = MayBeServed(options.socket_path) ? Severity::kNote : Severity::kProblem;
    return Findings{{"unanswered-manager", severity, Message(info.status()), {}}};
  }
  Findings findings;
  for (const v1::OwedWork& work : info->owed()) findings.push_back(FindingOf(work));
  return findings;
}

}  // namespace mooring::cli::doctor_area

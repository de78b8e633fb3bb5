// Events, and the state of the manager.
#include <fmt/format.h>

#include "base/status.h"
#include "cli/manager/command.h"
#include "cli/manager/parse/value_text.h"
#include "cli/output/failure.h"
#include "cli/output/table.h"
#include "cli/output/text.h"

namespace mooring::cli::manager_area {
namespace {

constexpr std::uint64_t kOldestEvent = 1;

// "2026-11-22T04:05:06Z  17  Mount volume  volume db, allocation web-1: …"
std::string EventLine(const v1::Event& event) {
  std::vector<std::string> subjects;
  if (!event.plugin().empty()) subjects.push_back("plugin " + event.plugin());
  if (!event.instance().empty()) subjects.push_back("instance " + event.instance());
  if (!event.volume().id().empty()) subjects.push_back("volume " + ToString(event.volume()));
  if (!event.allocation().empty()) subjects.push_back("allocation " + event.allocation());
  const std::string about = Join(subjects, ", ");
  return Visible(fmt::format("{}  {}  {}{}  {}{}{}", TimeText(event.time_ms()), event.number(),
                             event.bad() ? "FAILED: " : "", event.kind(), about,
                             about.empty() || event.text().empty() ? "" : ": ", event.text())) +
         "\n";
}

std::uint64_t FirstOf(const Arguments& arguments) {
  if (arguments.from > 0) return static_cast<std::uint64_t>(arguments.from);
  return arguments.follow ? 0 : kOldestEvent;
}

Client::Limit LimitOf(const Session& session) {
  if (!session.arguments.follow) return session.client.CallLimit();
  return {Client::Clock::time_point::max(), {}, ""};
}

absl::Status Events(Session& session) {
  v1::StreamEventsRequest request;
  request.set_from(FirstOf(session.arguments));
  request.set_follow(session.arguments.follow);
  const auto take = [&session](const v1::Event& event) {
    MOORING_RETURN_IF_ERROR(session.Show(event, EventLine(event)));
    return session.output.Flush();
  };
  return session.client.Stream<Manager, v1::Event>(&Manager::Stub::StreamEvents, request, take, LimitOf(session));
}

absl::Status Info(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const v1::GetManagerInfoResponse info,
                           session.Call(&Manager::Stub::GetManagerInfo, v1::GetManagerInfoRequest()));
  Details details;
  details.Add("version", info.version());
  details.Add("host", info.host());
  details.Add("mounts below", info.root());
  details.Add("started", TimeText(info.started_at_ms()));
  details.AddIf("restoring",
                info.restoring() == 0 ? "" : fmt::format("{} attachments wait for their plugin", info.restoring()));
  return session.Show(info, details.ToString());
}

}  // namespace

Commands EventCommands() {
  return {
      {"events",
       "Print past events, or follow new ones",
       {},
       {&kFollow, &kFrom},
       Events,
       "Examples:\n  mooring events\n  mooring events --follow --json | jq 'select(.bad)'"},
      {"manager", "Show the version and the state of the manager", {}, {}, Info},
  };
}

}  // namespace mooring::cli::manager_area

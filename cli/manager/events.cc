// Events, changes of volumes and claims, and the state of the manager.
#include <fmt/format.h>

#include "base/status.h"
#include "base/text/terminal_text.h"
#include "cli/manager/command.h"
#include "cli/manager/host_filter.h"
#include "cli/manager/parse/value_text.h"
#include "cli/manager/show.h"
#include "cli/output/report.h"
#include "cli/output/table.h"

namespace mooring::cli::manager_area {
namespace {

constexpr std::uint64_t kOldestEvent = 1;
constexpr Client::Limit kUntilStopped{Client::Clock::time_point::max(), {}, ""};

// "2026-11-22T04:05:06Z  17  Mount volume  host a, volume db, allocation web-1: …"
std::string EventLine(const v1::Event& event) {
  std::vector<std::string> subjects;
  if (!event.host().empty()) subjects.push_back("host " + event.host());
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
  return kUntilStopped;
}

absl::Status Events(Session& session) {
  MOORING_RETURN_IF_ERROR(CheckHost(session, session.arguments.host));
  v1::StreamEventsRequest request;
  request.set_from(FirstOf(session.arguments));
  request.set_follow(session.arguments.follow);
  const auto take = [&session](const v1::Event& event) -> absl::Status {
    if (!session.arguments.host.empty() && event.host() != session.arguments.host) return absl::OkStatus();
    MOORING_RETURN_IF_ERROR(session.Show(event, EventLine(event)));
    return session.output.Flush();
  };
  return session.client.Stream(&Manager::Stub::StreamEvents, request, take, LimitOf(session));
}

std::string VolumeLine(const v1::Volume& volume, bool deleted) {
  const std::string name = "volume " + ToString(volume.key());
  if (deleted) return name + ": deleted";
  return fmt::format("{}: {}, {}, {}, plugin {}", name, StateText(volume),
                     volume.has_in_use() ? "in use as " + ToString(volume.in_use().access()) : "not in use",
                     CapacityText(volume.capacity_bytes()), volume.plugin());
}

std::string ClaimLine(const v1::Claim& claim, bool deleted) {
  const std::string name = fmt::format("claim of volume {} to {} for {}", ToString(claim.volume()),
                                       ToString(claim.mode()), claim.allocation());
  if (deleted) return name + ": freed";
  return fmt::format("{}: {} on {}{}{}", name, StateText(claim), claim.node(), claim.problem().empty() ? "" : ": ",
                     claim.problem());
}

// "42  claim of volume db to write for web-1: taken on host-1": one line for each change.
std::string Lines(const v1::WatchReply& reply) {
  std::string lines;
  for (const auto& change : reply.changes()) {
    const std::string text = change.has_volume() ? VolumeLine(change.volume(), change.deleted())
                                                 : ClaimLine(change.claim(), change.deleted());
    lines += Visible(fmt::format("{}  {}", reply.revision(), text)) + "\n";
  }
  return lines;
}

// Keeps the changes that the flags select: without flags, all.
v1::WatchReply Selected(v1::WatchReply reply, const Arguments& arguments) {
  const bool all = arguments.only_volumes == arguments.only_claims;
  auto& changes = *reply.mutable_changes();
  for (int i = changes.size() - 1; i >= 0 && !all; --i) {
    if (changes[i].has_volume() != arguments.only_volumes) changes.DeleteSubrange(i, 1);
  }
  return reply;
}

absl::Status Watch(Session& session) {
  MOORING_RETURN_IF_ERROR(CheckHost(session, session.arguments.host));
  v1::WatchRequest request;
  request.set_from_revision(session.arguments.from_revision);
  MOORING_ASSIGN_OR_RETURN(HostFilter filter, HostFilter::Make(session, session.arguments.host));
  const auto take = [&session, &filter](const v1::WatchReply& reply) {
    // The first reply has no changes: it carries the revision from which no change is missed, for readers of JSON.
    const v1::WatchReply selected = Selected(filter.Narrowed(reply), session.arguments);
    if (selected.changes().empty() && !reply.changes().empty()) return absl::OkStatus();
    MOORING_RETURN_IF_ERROR(session.Show(selected, Lines(selected)));
    return session.output.Flush();
  };
  return session.client.Stream(&Manager::Stub::Watch, request, take, kUntilStopped);
}

absl::Status Info(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto info, session.Call(&Manager::Stub::GetManagerInfo, v1::GetManagerInfoRequest()));
  Details details;
  details.Add("version", info.version());
  details.Add("host", info.host());
  details.Add("mounts below", info.root());
  details.Add("started", TimeText(info.started_at_ms()));
  details.AddIf("restoring",
                info.restoring() == 0 ? "" : fmt::format("{} attachments wait for their plugin", info.restoring()));
  if (info.owed().empty()) return session.Show(info, details.ToString());
  Table owed({"NOT DONE YET", "RECORD", "PLUGIN", "SINCE", "TRIES", "NEXT TRY", "PROBLEM"});
  for (const v1::OwedWork& work : info.owed()) {
    owed.Add({work.kind(), work.what(), work.plugin(), TimeText(work.since_ms()), std::to_string(work.tries()),
              NextTryText(work), work.problem()});
  }
  return session.Show(info, details.ToString() + "\n" + owed.ToString());
}

}  // namespace

Commands EventCommands() {
  return {
      {"events",
       "Print past events, or follow new ones",
       {},
       {&kFollow, &kEventsOfHost, &kFrom},
       Events,
       "Managers that share a state show the events of all their hosts.\n\n"
       "Examples:\n  mooring events\n  mooring events --follow --json | jq 'select(.bad)'"},
      {"manager", "Show the version and the state of the manager", {}, {}, Info},
      {"watch",
       "Print changes of volumes and claims, until interrupted",
       {},
       {&kOnlyVolumes, &kOnlyClaims, &kChangesOfHost, &kFromRevision},
       Watch,
       "Each line begins with the revision. To miss no change, give --from the revision after the last one seen.\n\n"
       "Examples:\n  mooring watch --claims\n  mooring watch --json | jq -c '.changes[]'"},
  };
}

}  // namespace mooring::cli::manager_area

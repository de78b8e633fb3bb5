// Changes of volumes and claims, when they happen.
#include <fmt/format.h>

#include "base/status.h"
#include "cli/manager/command.h"
#include "cli/manager/parse/value_text.h"
#include "cli/manager/show.h"
#include "cli/output/text.h"

namespace mooring::cli::manager_area {
namespace {

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
  v1::WatchRequest request;
  request.set_from_revision(session.arguments.from_revision);
  const auto take = [&session](const v1::WatchReply& reply) {
    // The first reply has no changes: it carries the revision from which no change is missed, for readers of JSON.
    const v1::WatchReply selected = Selected(reply, session.arguments);
    if (selected.changes().empty() && !reply.changes().empty()) return absl::OkStatus();
    MOORING_RETURN_IF_ERROR(session.Show(selected, Lines(selected)));
    return session.output.Flush();
  };
  const Client::Limit until_stopped{Client::Clock::time_point::max(), {}, ""};
  return session.client.Stream<Manager, v1::WatchReply>(&Manager::Stub::Watch, request, take, until_stopped);
}

}  // namespace

Commands WatchCommands() {
  return {
      {"watch",
       "Print changes of volumes and claims, until interrupted",
       {},
       {&kOnlyVolumes, &kOnlyClaims, &kFromRevision},
       Watch,
       "Each line begins with the revision. To miss no change, give --from the revision after the last one seen.\n\n"
       "Examples:\n  mooring watch --claims\n  mooring watch --json | jq -c '.changes[]'"},
  };
}

}  // namespace mooring::cli::manager_area

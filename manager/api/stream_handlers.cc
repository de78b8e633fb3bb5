#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "manager/api/handlers.h"
#include "manager/api/messages.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kStreamPoll{1};  // how soon a stream notices its client leaving or a stop of the manager

Clock::time_point NextLook(const ApiCall& call) { return std::min(call.until, Clock::now() + kStreamPoll); }

bool GoesOn(const ApiCall& call) { return !call.is_over() && Clock::now() < call.until; }

absl::StatusOr<v1::WatchReply::Changed> VolumeChange(const Change& change) {
  v1::Volume stored;
  if (!stored.ParseFromString(change.value.value)) return Internal("a stored volume cannot be read");
  v1::WatchReply::Changed changed;
  changed.set_deleted(change.kind == Change::Kind::kDelete);
  if (changed.deleted()) {
    *changed.mutable_volume()->mutable_key() = stored.key();
    return changed;
  }
  MOORING_ASSIGN_OR_RETURN(Volume volume, FromProto(stored));
  volume.revisions = {change.value.create_revision, change.value.modify_revision};
  *changed.mutable_volume() = Shown(volume);
  return changed;
}

absl::StatusOr<v1::WatchReply::Changed> ClaimChange(const Change& change) {
  v1::Claim stored;
  if (!stored.ParseFromString(change.value.value)) return Internal("a stored claim cannot be read");
  v1::WatchReply::Changed changed;
  changed.set_deleted(change.kind == Change::Kind::kDelete);
  v1::Claim& claim = *changed.mutable_claim();
  if (changed.deleted()) {
    *claim.mutable_volume() = stored.volume();
    claim.set_mode(stored.mode());
    claim.set_allocation(stored.allocation());
    claim.set_node(stored.node());
    return changed;
  }
  claim = stored;
  claim.set_create_revision(change.value.create_revision);
  claim.set_modify_revision(change.value.modify_revision);
  return changed;
}

// nullopt: the change is not shown to callers (secrets).
absl::StatusOr<std::optional<v1::WatchReply::Changed>> Changed(const Change& change) {
  const std::string& key = change.value.key;
  std::optional<v1::WatchReply::Changed> changed;
  if (key.starts_with(VolumesPrefix())) {
    MOORING_ASSIGN_OR_RETURN(changed, VolumeChange(change));
  }
  if (key.starts_with(ClaimsPrefix())) {
    MOORING_ASSIGN_OR_RETURN(changed, ClaimChange(change));
  }
  return changed;
}

// Makes a reply per revision: changes of one transaction are sent together. A damaged record is left out.
std::vector<v1::WatchReply> RepliesOf(const std::vector<Change>& changes) {
  std::vector<v1::WatchReply> replies;
  for (const Change& change : changes) {
    absl::StatusOr<std::optional<v1::WatchReply::Changed>> read = Changed(change);
    if (!read.ok()) {
      log::Warning("a damaged record is not shown to a watch",
                   {{"key", change.value.key}, {"cause", Message(read.status())}});
      continue;
    }
    std::optional<v1::WatchReply::Changed>& changed = *read;
    if (!changed) continue;
    const std::int64_t revision = change.value.modify_revision;
    if (replies.empty() || replies.back().revision() != revision) replies.emplace_back().set_revision(revision);
    *replies.back().add_changes() = *std::move(changed);
  }
  return replies;
}

// A stream that follows has no end of its own: the client has to learn that it should ask again.
absl::Status EndOf(const ApiCall& call) {
  if (!call.is_over()) return absl::OkStatus();
  return Unavailable("the manager is stopping; follow again when it is back");
}

// Event numbers start at 1 each time the manager starts.
absl::Status CheckFrom(std::uint64_t from, std::uint64_t last) {
  if (from <= last + 1) return absl::OkStatus();
  return OutOfRange("there is no event {} yet, the newest is {}: the manager was restarted; follow from 1", from, last);
}

// From 1 means "all events that are kept".
absl::Status CheckKept(std::uint64_t from, std::uint64_t first) {
  if (from <= 1 || first <= from) return absl::OkStatus();
  return OutOfRange("event {} is no longer kept, the oldest is {}: follow from there", from, first);
}

}  // namespace

absl::Status StreamHandlers::StreamEvents(const v1::StreamEventsRequest& request, const ApiCall& call,
                                          const Send<v1::Event>& send) {
  const std::uint64_t last = events.last();
  std::uint64_t from = request.from() == 0 ? last + 1 : request.from();
  MOORING_RETURN_IF_ERROR(CheckFrom(from, last));
  while (GoesOn(call) && (request.follow() || from <= last)) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<Event> batch, events.Next(from, NextLook(call)));
    if (!batch.empty()) MOORING_RETURN_IF_ERROR(CheckKept(from, batch.front().number));
    for (const Event& event : batch) {
      from = event.number + 1;
      if (!send(ToProto(event))) return absl::OkStatus();
    }
  }
  return EndOf(call);
}

absl::Status StreamHandlers::Watch(const v1::WatchRequest& request, const ApiCall& call,
                                   const Send<v1::WatchReply>& send) {
  std::int64_t from = request.from_revision();
  if (from == 0) {
    MOORING_ASSIGN_OR_RETURN(const Listing now, state.List(RegistryStateKey(host)));
    from = now.revision + 1;
  }
  MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<manager::Watch> watch, state.StartWatch(SharedPrefix(), from));
  v1::WatchReply standing;
  standing.set_revision(from - 1);
  if (!send(standing)) return absl::OkStatus();
  while (GoesOn(call)) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<Change> changes, watch->Next(NextLook(call)));
    for (const v1::WatchReply& reply : RepliesOf(changes)) {
      if (!send(reply)) return absl::OkStatus();
    }
  }
  return EndOf(call);
}

}  // namespace mooring::manager

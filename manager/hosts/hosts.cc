#include "manager/hosts/hosts.h"

#include <fmt/format.h>

#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/state/keys.h"

namespace mooring::manager {

Hosts::Hosts(RecordsStore& store, Events& events, WorkQueue& queue, Settings settings)
    : store_(store),
      events_(events),
      settings_(std::move(settings)),
      work_(queue, {.kind = "hosts",
                    .first_retry = settings_.look_every,
                    .longest_retry = settings_.look_every,
                    .is_routine = true}) {
  LookNow();
}

void Hosts::LookNow() {
  work_.Repeat("records and leases", settings_.look_every, [this] { return Look(); });
}

std::vector<HostStatus> Hosts::List() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<HostStatus> all;
  for (const auto& [name, status] : hosts_) all.push_back(status);
  return all;
}

std::optional<HostStatus> Hosts::Find(const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = hosts_.find(name);
  return found == hosts_.end() ? std::nullopt : std::optional(found->second);
}

Clock::duration Hosts::AwayFor(const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = away_since_.find(name);
  return found == away_since_.end() ? Clock::duration::zero() : Clock::now() - found->second;
}

void Hosts::LeaseChanged() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    joined_ = false;
  }
  LookNow();
}

absl::Status Hosts::Look() {
  bool joined = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    joined = std::exchange(joined_, true);
  }
  absl::Status status = joined ? absl::OkStatus() : Join();
  const bool is_up_to_date = status.ok();
  if (status.ok()) status = Refresh();
  if (status.ok()) {
    NoteAbsences();
    return status;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_up_to_date) joined_ = false;
  away_since_.clear();  // while the state is away, nobody can renew a lease
  return status;
}

// Puts the record of this host, or brings it up to date. It is neither away nor lost any more.
absl::Status Hosts::Join() {
  const auto update = [&](Host& host) -> absl::StatusOr<bool> {
    const bool differs = host.lost || host.away_since || host.version != settings_.version;
    host.lost = false;
    host.away_since.reset();
    host.version = settings_.version;
    return differs;
  };
  const absl::Status changed = store_.ChangeHost(settings_.self, update).status();
  const bool is_damaged = !changed.ok() && store_.IsUnreadable(HostStateKey(settings_.self));
  if (!absl::IsNotFound(changed) && !is_damaged) return changed;
  Host host;
  if (is_damaged) {  // it may have said that others have freed the claims of this host
    MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> damaged, store_.shared().Get(HostStateKey(settings_.self)));
    host.revisions.modify = damaged ? damaged->modify_revision : 0;
    host.gave_up_claims = true;
  }
  host.name = settings_.self;
  host.version = settings_.version;
  host.joined_at = std::chrono::system_clock::now();
  return store_.Commit(Changes().Put(host)).status();
}

absl::Status Hosts::Refresh() {
  // The leases are read first: a host that joins between has a record, and counts as away until the next look.
  MOORING_ASSIGN_OR_RETURN(const Listing live, store_.shared().List(LivePrefix()));
  MOORING_ASSIGN_OR_RETURN(const std::vector<Host> records, store_.ListHosts());
  std::map<std::string, std::int64_t> revisions;
  for (const KeyValue& value : live.values) revisions.emplace(value.key, value.modify_revision);
  const std::lock_guard<std::mutex> lock(mutex_);
  hosts_.clear();
  for (const Host& host : records) {
    const auto found = revisions.find(LiveKey(host.name));
    const bool alive = found != revisions.end();
    hosts_[host.name] = {.host = host, .alive = alive, .live_revision = alive ? found->second : 0};
    if (alive) {
      away_since_.erase(host.name);
    } else {
      away_since_.emplace(host.name, Clock::now());
    }
  }
  if (!hosts_.contains(settings_.self)) joined_ = false;  // its record is damaged or was deleted: Join makes a new one
  std::erase_if(away_since_, [&](const auto& away) { return !hosts_.contains(away.first); });
  return absl::OkStatus();
}

void Hosts::NoteAbsences() {
  for (const HostStatus& status : List()) {
    if (status.alive || status.host.away_since || AwayFor(status.host.name) < settings_.note_after) continue;
    Host host = status.host;
    host.away_since = std::chrono::system_clock::now();
    // Only one host notes it, and only while the other is still away.
    if (!store_.Commit(Changes().Put(host).If(LiveKey(host.name), 0)).ok()) continue;
    Report(host.name, true,
           "unreachable: its lease has ended; only claims that a controller can detach are freed (docs/hosts.md)");
  }
}

absl::StatusOr<HostStatus> Hosts::Drain(const std::string& name, bool draining) {
  const auto change = [&](Host& host) { return std::exchange(host.draining, draining) != draining; };
  MOORING_RETURN_IF_ERROR(store_.ChangeHost(name, change).status());
  MOORING_RETURN_IF_ERROR(Refresh());
  const auto status = Find(name);
  if (!status) return NotFound("there is no host {}", Quote(name));
  Report(name, false, draining ? "draining: it takes no new claims" : "no longer draining");
  return *status;
}

// Without a lease, a host commits nothing. So after this commit it cannot take a claim under its old lease.
absl::StatusOr<HostStatus> Hosts::DeclareLost(const std::string& name) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> live, store_.shared().Get(LiveKey(name)));
    MOORING_ASSIGN_OR_RETURN(Host host, store_.GetHost(name));
    if (live) {
      return FailedPrecondition(
          "host {} is alive, so its claims cannot be freed: to move its work away, use 'mooring host drain'. If it "
          "was just turned off, repeat this when 'mooring host list' shows it as unreachable",
          Quote(name));
    }
    host.lost = true;
    if (!host.away_since) host.away_since = std::chrono::system_clock::now();
    const absl::Status status = store_.Commit(Changes().Put(host).If(LiveKey(name), 0)).status();
    if (absl::IsAborted(status)) continue;
    MOORING_RETURN_IF_ERROR(status);
    Report(name, true, "declared lost: its claims are freed");
    MOORING_RETURN_IF_ERROR(Refresh());
    return Find(name).value_or(HostStatus{.host = host});
  }
}

void Hosts::Report(const std::string& host, bool bad, const std::string& text) {
  events_.Add({.bad = bad, .kind = "host", .text = fmt::format("host {}: {}", Quote(host), text)});
}

}  // namespace mooring::manager

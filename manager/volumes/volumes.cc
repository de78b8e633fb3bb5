#include "manager/volumes/volumes.h"

#include <fmt/format.h>

#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/claims/claim_rules.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/controller_call.h"
#include "manager/records/names.h"
#include "manager/volumes/volume_records.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::minutes kAttempt{1};  // for one try in the background

// Takes from `next` the fields that may change.
void Merge(Volume& now, const Volume& next) {
  now.capabilities = next.capabilities;
  now.mount_options = next.mount_options;
  now.flags_left_out = next.flags_left_out;
  now.secrets = next.secrets;
  now.has_secrets = next.has_secrets;
  if (!next.context.empty()) now.context = next.context;
}

}  // namespace

Volumes::Volumes(RecordsStore& store, PluginDirectory& plugins, HostDirectory& hosts, VolumeMounter& node,
                 Snapshots& snapshots, KeyedLocks& controller_locks, Events& events, WorkQueue& queue,
                 RetryPolicy retry)
    : store_(store),
      plugins_(plugins),
      hosts_(hosts),
      node_(node),
      snapshots_(snapshots),
      controller_locks_(controller_locks),
      events_(events),
      retry_(std::move(retry)),
      creator_(store, plugins, hosts, snapshots, controller_locks, events, retry_),
      work_(queue, {.kind = "volume"}) {}

absl::StatusOr<Volume> Volumes::Update(const Volume& volume) {
  MOORING_RETURN_IF_ERROR(CheckVolume(volume));
  return store_.ChangeVolume(volume.key, [&](Volume& now) -> absl::StatusOr<bool> {
    MOORING_RETURN_IF_ERROR(CheckReady(now));
    if (volume.revisions.modify != 0 && volume.revisions.modify != now.revisions.modify) {
      return Aborted("volume {} was changed meanwhile: it has revision {}, not {}; read it again", ToString(volume.key),
                     now.revisions.modify, volume.revisions.modify);
    }
    MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> claims, store_.ListClaims(volume.key));
    MOORING_RETURN_IF_ERROR(CheckUpdate(now, volume, claims));
    Merge(now, volume);
    return true;
  });
}

absl::StatusOr<Volume> Volumes::ChangeReady(const VolumeKey& key, const std::function<void(Volume&)>& change) {
  return store_.ChangeVolume(key, [&](Volume& volume) -> absl::StatusOr<bool> {
    MOORING_RETURN_IF_ERROR(CheckReady(volume));
    change(volume);
    return true;
  });
}

absl::Status Volumes::Delete(const VolumeKey& key, Clock::time_point until, const IsAbandoned& is_abandoned) {
  return DeleteIf(key, Which::kAny, until, is_abandoned).status();
}

absl::StatusOr<bool> Volumes::DeleteIf(const VolumeKey& key, Which which, Clock::time_point until,
                                       const IsAbandoned& is_abandoned) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, key, until));
  MOORING_ASSIGN_OR_RETURN(const auto there, ToDelete(key, which));
  if (!there) return false;
  MOORING_RETURN_IF_ERROR(CheckUnclaimed(key));
  MOORING_ASSIGN_OR_RETURN(const PluginTraits traits, ControllerTraits(plugins_, ControllerFor(*there), retry_, until));
  if (!traits.creates) {
    return FailedPrecondition("plugin {} cannot delete volumes: deregister it instead", Quote(there->plugin));
  }
  MOORING_RETURN_IF_ERROR(CheckAwaited(is_abandoned));
  MOORING_ASSIGN_OR_RETURN(auto volume, BeginDelete(key, which));
  if (!volume) return false;
  MOORING_RETURN_IF_ERROR(FinishDelete(*std::move(volume), until));
  return true;
}

// Reads the record again: an interrupted volume may have been completed since it was listed.
absl::StatusOr<std::optional<Volume>> Volumes::ToDelete(const VolumeKey& key, Which which) {
  auto volume = store_.GetVolume(key);
  if (absl::IsNotFound(volume.status())) return std::nullopt;
  MOORING_RETURN_IF_ERROR(volume.status());
  if (which == Which::kInterrupted && volume->state == Volume::State::kReady) return std::nullopt;
  MOORING_RETURN_IF_ERROR(CheckNotElsewhere(store_, hosts_, *volume));
  MOORING_RETURN_IF_ERROR(CheckSecrets(*volume));
  return *std::move(volume);
}

absl::Status Volumes::CheckUnclaimed(const VolumeKey& key) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> claims, store_.ListClaims(key));
  if (claims.empty()) return absl::OkStatus();
  return FailedPrecondition("volume {} is in use by {}: release it first", ToString(key), Holders(claims));
}

// A claim that comes between the check and the commit changes the volume, so that the commit fails.
absl::StatusOr<std::optional<Volume>> Volumes::BeginDelete(const VolumeKey& key, Which which) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(std::optional<Volume> volume, ToDelete(key, which));
    if (!volume) return volume;
    MOORING_RETURN_IF_ERROR(CheckUnclaimed(key));
    volume->state = Volume::State::kDeleting;
    volume->worker = hosts_.self();
    auto stored = store_.PutVolume(*std::move(volume));
    if (stored.ok()) return *std::move(stored);
    if (!absl::IsAborted(stored.status())) return stored.status();
  }
}

absl::Status Volumes::FinishDelete(Volume volume, Clock::time_point until) {
  const std::string kept = fmt::format(
      "volume {} stays in state deleting: delete it again to continue; the next start of the manager continues it, too",
      ToString(volume.key));
  if (!HasPluginId(volume)) {
    auto found = creator_.FindCreated(volume, until);
    if (!found.ok()) return Annotate(found.status(), kept);
    if (!*found) return DeleteRecord(volume);
    volume = **std::move(found);
  }
  csi::v1::DeleteVolumeRequest request;
  request.set_volume_id(IdForPlugin(volume));
  volume.secrets.CopyTo(*request.mutable_secrets());
  const absl::Status status = CallController(plugins_, ControllerFor(volume), request, retry_, until).status();
  if (IsRefusal(status) && !absl::IsNotFound(status)) {
    const auto make_ready = [&](Volume& record) {
      if (record.revisions.create != volume.revisions.create || record.worker != hosts_.self()) return false;
      record.state = Volume::State::kReady;
      record.worker.clear();
      return true;
    };
    const absl::Status ready = store_.ChangeVolume(volume.key, make_ready).status();
    return ready.ok() ? status
                      : Annotate(status, fmt::format("{} (its state cannot be reset: {})", kept, Message(ready)));
  }
  if (!status.ok() && !absl::IsNotFound(status)) return Annotate(status, kept);
  MOORING_RETURN_IF_ERROR(DeleteRecord(volume));
  Report(volume, false, "deleted");
  return absl::OkStatus();
}

// Another host may have finished the deletion, and the key may have a new volume since.
absl::Status Volumes::DeleteRecord(const Volume& of) {
  for (;;) {
    const auto volume = store_.GetVolume(of.key);
    if (absl::IsNotFound(volume.status())) return absl::OkStatus();
    MOORING_RETURN_IF_ERROR(volume.status());
    if (volume->revisions.create != of.revisions.create) return absl::OkStatus();
    MOORING_RETURN_IF_ERROR(CheckUnclaimed(of.key));
    const absl::Status status = store_.Commit(Changes().Delete(*volume)).status();
    if (status.ok()) node_.RemoveDirectories(*volume);
    if (!absl::IsAborted(status)) return status;
  }
}

absl::Status Volumes::Deregister(const VolumeKey& key, Clock::time_point until, const IsAbandoned& is_abandoned) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, key, until));
  MOORING_RETURN_IF_ERROR(CheckAwaited(is_abandoned));
  auto volume = store_.GetVolume(key);
  if (absl::IsNotFound(volume.status())) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(volume.status());
  MOORING_RETURN_IF_ERROR(DeleteRecord(*volume));
  Report(*volume, false,
         fmt::format("deregistered: plugin {} keeps {}", Quote(volume->plugin), Quote(IdForPlugin(*volume))));
  return absl::OkStatus();
}

// `said`: the last error that was reported.
absl::Status Volumes::ResumeOne(const Volume& interrupted, std::string& said) {
  const auto deleted = DeleteIf(interrupted.key, Which::kInterrupted, Clock::now() + kAttempt);
  if (deleted.ok() && !*deleted) return absl::OkStatus();  // it was requested again or deleted meanwhile
  if (absl::IsCancelled(deleted.status())) return deleted.status();
  const bool creating = interrupted.state == Volume::State::kCreating;
  const std::string outcome = deleted.ok() ? (creating ? ": it was undone" : " and is complete now")
                                           : ", and the volume still exists: " + Message(deleted.status());
  const bool is_news = WithoutTries(said) != WithoutTries(outcome);
  said = outcome;
  if (is_news) {
    Report(interrupted, !deleted.ok(),
           fmt::format("its {} was interrupted{}", creating ? "creation" : "deletion", outcome));
  }
  return deleted.status();
}

absl::Status Volumes::Resume(const std::string& host) {
  MOORING_RETURN_IF_ERROR(snapshots_.Resume(host));
  MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> volumes, store_.ListVolumes());
  for (const Volume& volume : volumes) {
    if (volume.state == Volume::State::kReady || (hosts_.is_shared() && volume.worker != host)) continue;
    work_.Push({.key = ToString(volume.key),
                .lane = volume.plugin,
                .attempt = [this, volume, said = std::string()]() mutable { return ResumeOne(volume, said); }});
  }
  return absl::OkStatus();
}

absl::StatusOr<Volume> Volumes::Expand(const VolumeKey& key, std::uint64_t min_bytes, std::uint64_t max_bytes,
                                       Clock::time_point until) {
  if (min_bytes == 0) return InvalidArgument("the size to expand to is missing");
  MOORING_RETURN_IF_ERROR(CheckSizes(min_bytes, max_bytes));
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, key, until));
  MOORING_ASSIGN_OR_RETURN(Volume volume, store_.GetVolume(key));
  MOORING_RETURN_IF_ERROR(CheckReady(volume));
  MOORING_RETURN_IF_ERROR(CheckSecrets(volume));
  MOORING_ASSIGN_OR_RETURN(const Expansion asked, ExpandAtController(volume, min_bytes, max_bytes, until));
  const Volume before = volume;
  // Stored before the call to the node, which may be repeated.
  MOORING_ASSIGN_OR_RETURN(volume, ChangeReady(key, [&](Volume& record) {
                             record.capacity_bytes = asked.bytes;
                             record.node_expansion_owed = record.node_expansion_owed || asked.node_too;
                           }));
  if (volume.node_expansion_owed && volume.in_use) {
    MOORING_ASSIGN_OR_RETURN(volume, ExpandOnNode(std::move(volume), before, asked.at_controller, until));
  }
  Report(volume, false,
         fmt::format("expanded to {} bytes{}", asked.bytes,
                     volume.node_expansion_owed ? ": its filesystem grows with the next attach" : ""));
  return volume;
}

// Only the node expands, and it refused: restores the old size.
absl::Status Volumes::NotExpanded(const Volume& before, const absl::Status& why) {
  const auto stored = ChangeReady(before.key, [&](Volume& record) {
    record.capacity_bytes = before.capacity_bytes;
    record.node_expansion_owed = before.node_expansion_owed;
  });
  if (stored.ok()) return why;
  return Annotate(why, fmt::format("(and the old size cannot be stored, so each attach tries to expand: {})",
                                   Message(stored.status())));
}

// A volume that is not mounted here is expanded by the next mount.
absl::StatusOr<Volume> Volumes::ExpandOnNode(Volume volume, const Volume& before, bool at_controller,
                                             Clock::time_point until) {
  const auto expanded = node_.Expand(volume.key, volume.capacity_bytes, volume.secrets, until);
  if (!expanded.ok() && !at_controller && ChangedNothing(expanded.status())) {
    return NotExpanded(before, expanded.status());
  }
  if (!expanded.ok()) {
    return Annotate(expanded.status(),
                    fmt::format("volume {} has {} bytes at its plugin, but its filesystem has not "
                                "grown yet; repeat the request to continue, else the next mount does it",
                                ToString(volume.key), volume.capacity_bytes));
  }
  if (!*expanded) return volume;
  return ChangeReady(volume.key, [](Volume& record) { record.node_expansion_owed = false; });
}

// Makes no call if only the node of this plugin expands.
absl::StatusOr<Volumes::Expansion> Volumes::ExpandAtController(const Volume& volume, std::uint64_t min_bytes,
                                                               std::uint64_t max_bytes, Clock::time_point until) {
  const auto plugin = plugins_.Find(volume.plugin);
  const bool has_controller = plugin.ok() && (plugin->controller_required || plugin->controllers.healthy > 0);
  PluginTraits traits;
  if (has_controller) {
    MOORING_ASSIGN_OR_RETURN(traits, ControllerTraits(plugins_, ControllerFor(volume), retry_, until));
  }
  if (!traits.controller_expands) {
    MOORING_ASSIGN_OR_RETURN(const ReadyPlugin node, plugins_.WaitForNode(volume.plugin, until));
    if (!node.fingerprint.traits.node_expands) {
      return FailedPrecondition("plugin {} cannot expand volumes", Quote(volume.plugin));
    }
    if (!volume.in_use) {
      return FailedPrecondition("plugin {} expands only volumes that are attached: attach {} first",
                                Quote(volume.plugin), ToString(volume.key));
    }
    return Expansion{.bytes = min_bytes, .at_controller = false, .node_too = true};
  }
  if (volume.in_use && traits.expands_offline && !traits.expands_online) {
    return FailedPrecondition("plugin {} expands only volumes that are detached: detach {} first", Quote(volume.plugin),
                              ToString(volume.key));
  }
  csi::v1::ControllerExpandVolumeRequest request;
  request.set_volume_id(IdForPlugin(volume));
  request.mutable_capacity_range()->set_required_bytes(static_cast<std::int64_t>(min_bytes));
  request.mutable_capacity_range()->set_limit_bytes(static_cast<std::int64_t>(max_bytes));
  volume.secrets.CopyTo(*request.mutable_secrets());
  if (volume.in_use)
    *request.mutable_volume_capability() = ToCsi(*volume.in_use, volume.mount_options, traits.controller_single_writer);
  MOORING_ASSIGN_OR_RETURN(const auto answer, CallController(plugins_, ControllerFor(volume), request, retry_, until));
  return Expansion{.bytes = static_cast<std::uint64_t>(answer.capacity_bytes()),
                   .at_controller = true,
                   .node_too = answer.node_expansion_required()};
}

void Volumes::Report(const Volume& volume, bool bad, const std::string& text) {
  events_.Add({.bad = bad, .kind = "volume", .plugin = volume.plugin, .volume = volume.key, .text = text});
}

}  // namespace mooring::manager

#include <fmt/format.h>

#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/claims/claim_rules.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/controller_call.h"
#include "manager/records/names.h"
#include "manager/volumes/volumes.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::minutes kAttempt{1};  // for one try in the background

// Codes that mean that the plugin refused, and has deleted nothing.
bool DeletedNothing(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ||
         absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status);
}

}  // namespace

absl::Status Volumes::Delete(const VolumeKey& key, Clock::time_point until, const IsAbandoned& is_abandoned) {
  return DeleteIf(key, Which::kAny, until, is_abandoned).status();
}

absl::StatusOr<bool> Volumes::DeleteIf(const VolumeKey& key, Which which, Clock::time_point until,
                                       const IsAbandoned& is_abandoned) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, key, until));
  MOORING_ASSIGN_OR_RETURN(const auto there, ToDelete(key, which));
  if (!there) return false;
  MOORING_RETURN_IF_ERROR(CheckUnclaimed(key));
  MOORING_ASSIGN_OR_RETURN(const PluginTraits traits, Traits(ControllerFor(*there), until));
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
  MOORING_RETURN_IF_ERROR(CheckNotElsewhere(*volume));
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
  if (!HasPluginId(volume)) {  // CreateVolume with the same name tells it
    auto created = CallCreate(volume, until);
    if (MadeNothing(created.status())) return DeleteRecord(volume);
    if (!created.ok()) return Annotate(created.status(), kept);
    auto settled = StoredAlone(*std::move(created), Damaged::kRefused);
    if (absl::IsAlreadyExists(settled.status())) return DeleteRecord(volume);  // the volume belongs to another key
    MOORING_RETURN_IF_ERROR(settled.status());
    volume = *std::move(settled);
  }
  csi::v1::DeleteVolumeRequest request;
  request.set_volume_id(IdForPlugin(volume));
  volume.secrets.CopyTo(*request.mutable_secrets());
  const absl::Status status = CallController(plugins_, ControllerFor(volume), request, retry_, until).status();
  if (DeletedNothing(status)) {
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

}  // namespace mooring::manager

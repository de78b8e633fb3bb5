#include "plugin/ephemeral/ephemeral_volumes.h"

#include <chrono>
#include <vector>

#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/call.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

constexpr std::chrono::seconds kPatience{2};

// CreateVolume accepts no name with a control character, so the names never collide.
std::string NameOfEphemeral(const std::string& id) { return "ephemeral\n" + id; }

}  // namespace

absl::StatusOr<KeyedLocks::Hold> EphemeralVolumes::Lock(const std::string& ephemeral_id, const Call& call) {
  return locks_.Acquire("ephemeral:" + ephemeral_id, "volume", call.wait_until);
}

absl::StatusOr<std::optional<VolumeRecord>> EphemeralVolumes::Find(const std::string& ephemeral_id) {
  return store_.FindByName(NameOfEphemeral(ephemeral_id));
}

absl::Status EphemeralVolumes::CheckNoOtherTarget(const EphemeralSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> there, Find(spec.volume.ephemeral));
  if (!there) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> paths, uses_.LivePaths(there->id));
  for (const std::string& path : paths) {
    if (path == spec.publish.target_path) continue;
    return FailedPrecondition("ephemeral volume {} is published at {} already, and it has one target",
                              Quote(spec.volume.ephemeral), Quote(path));
  }
  return absl::OkStatus();
}

absl::Status EphemeralVolumes::Publish(const EphemeralSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(spec.volume.ephemeral, call));
  MOORING_RETURN_IF_ERROR(CheckNoOtherTarget(spec));
  CreateVolumeSpec wanted = spec.volume;
  wanted.name = NameOfEphemeral(wanted.ephemeral);
  MOORING_ASSIGN_OR_RETURN(const VolumeInfo volume, catalog_.Create(wanted, call));
  PublishSpec publish = spec.publish;
  publish.volume_id = volume.id;
  absl::Status published = uses_.PublishAlone(publish, call);
  if (published.ok()) return published;
  const DeadlineScope fresh = DeadlineScope::Fresh(kRollback);  // the call's own deadline may be over
  const absl::Status deleted = DeleteUnused(volume.id, Call::WithLongestWait());
  log::WarningIfFailed(
      deleted, "an ephemeral volume that could not be published stays until it is unpublished, or the next start",
      {{"volume", spec.volume.ephemeral}, {"own_id", volume.id}});
  return published;
}

absl::Status EphemeralVolumes::Unpublish(const std::string& volume_id, const std::string& target_path,
                                         const Call& call) {
  if (IsEphemeralId(volume_id)) {
    MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(volume_id, call));
    MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> record, Find(volume_id));
    if (record) {
      MOORING_RETURN_IF_ERROR(uses_.Unpublish(record->id, target_path, call).status());
      return DeleteUnused(record->id, call);
    }
  }
  MOORING_ASSIGN_OR_RETURN(const std::string ended, uses_.Unpublish(volume_id, target_path, call));
  return DeleteIfEphemeral(volume_id, ended, call);
}

absl::Status EphemeralVolumes::Unstage(const std::string& volume_id, const std::string& staging_path,
                                       const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const std::string ended, uses_.Unstage(volume_id, staging_path, call));
  return DeleteIfEphemeral(volume_id, ended, call);
}

// NodeVolumes::Unpublish ends the use of another volume only if `asked_id` is unknown.
absl::Status EphemeralVolumes::DeleteIfEphemeral(const std::string& asked_id, const std::string& ended_id,
                                                 const Call& call) {
  if (ended_id.empty() || ended_id == asked_id) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> record, store_.FindById(ended_id));
  if (!record || record->ephemeral.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(record->ephemeral, call));
  return DeleteUnused(ended_id, call);
}

// A volume that is still mounted at another target stays.
absl::Status EphemeralVolumes::DeleteUnused(const std::string& own_id, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> paths, uses_.LivePaths(own_id));
  return paths.empty() ? catalog_.Delete(own_id, call) : absl::OkStatus();
}

absl::StatusOr<std::string> EphemeralVolumes::OwnIdOf(const std::string& volume_id) {
  if (!IsEphemeralId(volume_id)) return volume_id;
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> record, Find(volume_id));
  return record ? record->id : volume_id;
}

absl::Status EphemeralVolumes::Reconcile() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeRecord> records, store_.ListEphemeral());
  for (const VolumeRecord& record : records) {
    const DeadlineScope patience(std::chrono::steady_clock::now() + kPatience);
    log::WarningIfFailed(ReconcileVolume(record), "an ephemeral volume cannot be cleaned up: it is left as it is",
                         {{"volume", record.ephemeral}, {"own_id", record.id}});
  }
  return absl::OkStatus();
}

// The image may be mounted in another mount namespace. Its loop device shows that, and Delete refuses then.
absl::Status EphemeralVolumes::ReconcileVolume(const VolumeRecord& listed) {
  const Call at_once = {std::chrono::steady_clock::now()};
  const auto hold = Lock(listed.ephemeral, at_once);
  if (!hold.ok()) return absl::OkStatus();  // another process has locked it
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> paths, uses_.LivePaths(listed.id));
  if (!paths.empty()) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(catalog_.Delete(listed.id, at_once));
  log::Info("deleted an ephemeral volume that was not mounted", {{"volume", listed.ephemeral}, {"own_id", listed.id}});
  return absl::OkStatus();
}

}  // namespace mooring

#include "manager/volumes/volumes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/claims/claim_rules.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/controller_call.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

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

absl::Status CheckReady(const Volume& volume) {
  if (volume.state == Volume::State::kReady) return absl::OkStatus();
  return FailedPrecondition("volume {} is being {}", ToString(volume.key),
                            volume.state == Volume::State::kCreating ? "created" : "deleted");
}

bool AreSameVolume(const Volume& a, const Volume& b) {
  if (a.plugin != b.plugin || a.key == b.key) return false;
  if (!a.name.empty() && a.name == b.name) return true;
  return HasPluginId(a) && HasPluginId(b) && IdForPlugin(a) == IdForPlugin(b);
}

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
      work_(queue, {.kind = "volume"}) {}

absl::StatusOr<Volume> Volumes::Get(const VolumeKey& key) { return store_.GetVolume(key); }

absl::StatusOr<std::vector<Volume>> Volumes::List(const std::string& ns) { return store_.ListVolumes(ns); }

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

// The claims on two records of the same volume would not exclude each other.
absl::Status Volumes::RefuseTwin(const Volume& volume, Damaged damaged) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> volumes, store_.ListVolumes());
  for (const Volume& other : volumes) {
    if (!AreSameVolume(volume, other)) continue;
    return AlreadyExists("volume {} would be the same volume of plugin {} as {}", ToString(volume.key),
                         Quote(volume.plugin), ToString(other.key));
  }
  if (damaged == Damaged::kIgnored) return absl::OkStatus();
  return Annotate(store_.CheckReadable(VolumesPrefix()),
                  fmt::format("volume {} may have a record under another name already", ToString(volume.key)));
}

// Every commit that gives a volume its external id also puts the key NewVolumesKey. It compares that this key has not
// changed since the other volumes were read. So of two records with the same id only one is stored, whichever hosts
// they come from.
absl::StatusOr<Volume> Volumes::StoredAlone(Volume volume, Damaged damaged) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> last, store_.shared().Get(NewVolumesKey()));
    const std::int64_t before = last ? last->modify_revision : 0;
    MOORING_RETURN_IF_ERROR(RefuseTwin(volume, damaged));
    const auto revision = store_.Commit(Changes().Put(volume).IfAndTouch(NewVolumesKey(), before));
    if (absl::IsAborted(revision.status())) {
      MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> now, store_.shared().Get(NewVolumesKey()));
      if ((now ? now->modify_revision : 0) != before) continue;  // another volume was stored
    }
    MOORING_RETURN_IF_ERROR(revision.status());
    volume.revisions.SetStored(*revision);
    volume.has_secrets = volume.has_secrets || !volume.secrets.empty();
    return volume;
  }
}

// INTERNAL: its record is damaged, so it may be at work.
absl::StatusOr<bool> Volumes::IsGone(const std::string& host) {
  if (const auto status = hosts_.Find(host)) return !status->alive;
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> live, store_.shared().Get(LiveKey(host)));
  if (live) return false;
  const absl::Status record = store_.GetHost(host).status();
  if (!record.ok() && !absl::IsNotFound(record)) return record;
  return !record.ok();
}

// Two hosts must not work at a volume at the same time: one would undo what the other does.
absl::Status Volumes::CheckNotElsewhere(const Volume& volume) {
  if (volume.state == Volume::State::kReady || hosts_.IsOurs(volume.worker)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool is_gone, IsGone(volume.worker));
  if (is_gone) return absl::OkStatus();
  const char* const what = volume.state == Volume::State::kCreating ? "created" : "deleted";
  return Unavailable("volume {} is being {} by host {}: try again, or repeat the request there", ToString(volume.key),
                     what, Quote(volume.worker));
}

absl::StatusOr<Volume> Volumes::GetReady(const VolumeKey& key) {
  MOORING_ASSIGN_OR_RETURN(Volume volume, store_.GetVolume(key));
  MOORING_RETURN_IF_ERROR(CheckReady(volume));
  MOORING_RETURN_IF_ERROR(CheckSecrets(volume));
  return volume;
}

void Volumes::Report(const Volume& volume, bool bad, const std::string& text) {
  events_.Add({.bad = bad, .kind = "volume", .plugin = volume.plugin, .volume = volume.key, .text = text});
}

}  // namespace mooring::manager

#include "manager/volumes/volumes.h"

#include <fmt/format.h>

#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/claims/claim_rules.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/controller_call.h"
#include "manager/records/names.h"

namespace mooring::manager {
namespace {

absl::Status CheckReady(const Volume& volume) {
  if (volume.state == Volume::State::kReady) return absl::OkStatus();
  return FailedPrecondition("volume {} is being {}", ToString(volume.key),
                            volume.state == Volume::State::kCreating ? "created" : "deleted");
}

// Takes from `next` the fields that may change.
void Merge(Volume& now, const Volume& next) {
  now.capabilities = next.capabilities;
  now.mount_options = next.mount_options;
  now.secrets = next.secrets;
  now.has_secrets = next.has_secrets;
  if (!next.context.empty()) now.context = next.context;
}

bool AreSameVolume(const Volume& a, const Volume& b) {
  if (a.plugin != b.plugin || a.key == b.key) return false;
  if (!a.name.empty() && a.name == b.name) return true;
  // A volume that is being created has no external id yet.
  const auto has_id = [](const Volume& volume) { return !volume.external_id.empty() || !volume.created_here; };
  return has_id(a) && has_id(b) && IdForPlugin(a) == IdForPlugin(b);
}

}  // namespace

Volumes::Volumes(RecordsStore& store, PluginDirectory& plugins, VolumeMounter& node, KeyedLocks& controller_locks,
                 Events& events, RetryPolicy retry)
    : store_(store),
      plugins_(plugins),
      node_(node),
      controller_locks_(controller_locks),
      events_(events),
      retry_(retry) {}

void Volumes::Stop() { twin_locks_.Stop(Stopping()); }

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
absl::Status Volumes::RefuseTwin(const Volume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> volumes, store_.ListVolumes());
  for (const Volume& other : volumes) {
    if (!AreSameVolume(volume, other)) continue;
    return AlreadyExists("volume {} would be the same volume of plugin {} as {}", ToString(volume.key),
                         Quote(volume.plugin), ToString(other.key));
  }
  return absl::OkStatus();
}

// Under a lock, so that of two keys with the same volume only one is stored.
absl::StatusOr<Volume> Volumes::StoredAlone(Volume volume, Clock::time_point until) {
  const std::string key = volume.plugin + '\0' + IdForPlugin(volume);
  const std::string what = fmt::format("volume {} of plugin {}", Quote(IdForPlugin(volume)), Quote(volume.plugin));
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, twin_locks_.Acquire(key, what, until));
  MOORING_RETURN_IF_ERROR(RefuseTwin(volume));
  return store_.PutVolume(std::move(volume));
}

absl::StatusOr<PluginStatus> Volumes::FindPlugin(const std::string& name) {
  auto status = plugins_.Find(name);
  if (!absl::IsNotFound(status.status())) return status;
  return FailedPrecondition("plugin {} is unknown on this host: run or register it first", Quote(name));
}

absl::StatusOr<PluginTraits> Volumes::Controller(const std::string& plugin, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const PluginStatus status, FindPlugin(plugin));
  if (!status.controller_required && status.controllers.expected == 0 && status.controllers.healthy == 0) {
    return FailedPrecondition(
        "plugin {} has no controller, so it cannot create or change volumes: register its volumes instead",
        Quote(plugin));
  }
  MOORING_ASSIGN_OR_RETURN(const ReadyPlugin controller, plugins_.PickController(plugin, until));
  return controller.fingerprint.traits;
}

absl::StatusOr<Volume> Volumes::GetReady(const VolumeKey& key) {
  MOORING_ASSIGN_OR_RETURN(Volume volume, store_.GetVolume(key));
  MOORING_RETURN_IF_ERROR(CheckReady(volume));
  return volume;
}

void Volumes::Report(const Volume& volume, bool bad, const std::string& text) {
  events_.Add({.bad = bad, .kind = "volume", .plugin = volume.plugin, .volume = volume.key, .text = text});
}

}  // namespace mooring::manager

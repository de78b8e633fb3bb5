#include "plugin/catalog/volume_reconciler.h"

#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <optional>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/catalog/catalog_locks.h"
#include "plugin/model/call.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

std::string FirstOf(const std::set<std::string>& ids) {
  constexpr std::size_t kNamed = 5;
  std::string text;
  std::size_t count = 0;
  for (auto id = ids.begin(); id != ids.end() && count < kNamed; ++id, ++count)
    text += (text.empty() ? "" : ", ") + *id;
  return ids.size() > kNamed ? text + ", …" : text;
}

absl::Status ClearNameOf(Backend& backend, const VolumeRecord& record) {
  const std::string& name = record.tuning.sub_dir;
  return name.empty() ? absl::OkStatus() : backend.ClearName(record.id, name);
}

}  // namespace

bool MayAdopt(const VolumeRecord& record) {
  const VolumeTuning& tuning = record.tuning;
  return !tuning.sub_dir.empty() && record.source.empty() && tuning.making.on_delete != OnDelete::kDelete;
}

absl::Status VolumeRemover::MarkDeleting(const VolumeRecord& record) {
  if (record.state == VolumeState::kDeleting) return absl::OkStatus();
  const absl::StatusOr<bool> moved = store_.Move(record.id, record.state, VolumeState::kDeleting);
  // Only deletion makes room on a full disk, so it goes on without the state. A process that is killed then leaves a
  // ready row without an image, which the next Delete removes.
  if (absl::IsResourceExhausted(moved.status()) && record.state == VolumeState::kReady) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(moved.status());
  return *moved ? absl::OkStatus()
                : Aborted("another process is changing volume {}: call again later", Quote(record.id));
}

// Backend::Delete is never called for such a volume.
absl::Status VolumeRemover::SetAside(Backend& backend, const VolumeRecord& record, const std::string& kept,
                                     const std::function<absl::Status()>& begin) {
  MOORING_RETURN_IF_ERROR(backend.CheckUnused(record.id));
  MOORING_RETURN_IF_ERROR(begin());
  MOORING_RETURN_IF_ERROR(ClearNameOf(backend, record));
  MOORING_RETURN_IF_ERROR(backend.SetAside(record.id, kept));
  if (record.state == VolumeState::kCreating) return absl::OkStatus();
  log::Info("kept the data of a deleted volume",
            {{"volume", record.id}, {"name", record.name}, {"pool", record.pool}, {"kept", kept}});
  return absl::OkStatus();
}

absl::Status VolumeRemover::DeleteWithName(Backend& backend, const VolumeRecord& record,
                                           const std::function<absl::Status()>& begin) {
  MOORING_RETURN_IF_ERROR(backend.DeleteIfUnused(record.id, begin));
  return ClearNameOf(backend, record);
}

absl::Status VolumeRemover::Remove(Backend& backend, const VolumeRecord& record) {
  if (!MayAdopt(record)) MOORING_RETURN_IF_ERROR(backend.Delete(record.id));
  MOORING_RETURN_IF_ERROR(ClearNameOf(backend, record));
  return MayAdopt(record) ? backend.SetAside(record.id, record.tuning.sub_dir) : absl::OkStatus();
}

void VolumeRemover::RestoreName(const VolumeRecord& record) {
  const std::string& name = record.tuning.sub_dir;
  const absl::StatusOr<const Pool*> pool = PoolOf(pools_, record);
  if (name.empty() || !pool.ok()) return;
  log::WarningIfFailed((*pool)->backend->SetName(record.id, name), "a volume has lost its name (subDir)",
                       {{"volume", record.id}, {"name", record.name}});
}

// ListVolumes must not omit a volume in use, not even for a moment. So the row changes once the volume is unused.
absl::Status VolumeRemover::Delete(const VolumeRecord& record, const std::function<absl::Status()>& check) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  bool began = false;
  const auto begin = [&]() -> absl::Status {
    MOORING_RETURN_IF_ERROR(check());
    MOORING_RETURN_IF_ERROR(MarkDeleting(record));
    began = true;
    return absl::OkStatus();
  };
  const std::string kept = KeptName(record.id, record.tuning);
  const absl::Status deleted = Unexpected(kept.empty() ? DeleteWithName(*pool->backend, record, begin)
                                                       : SetAside(*pool->backend, record, kept, begin));
  if (deleted.ok()) return store_.Delete(record.id);
  // Another process may still work on a row that was `deleting` before: only a volume in use becomes ready then.
  const bool ours = began && record.state == VolumeState::kReady;
  const bool in_use = absl::IsFailedPrecondition(deleted) && record.state == VolumeState::kDeleting;
  if ((ours || in_use) && pool->backend->Locate(record.id).ok()) {
    MOORING_RETURN_IF_ERROR(store_.Move(record.id, VolumeState::kDeleting, VolumeState::kReady).status());
    RestoreName(record);
    return deleted;
  }
  const bool begun_before = record.state == VolumeState::kDeleting;
  const std::string partly = fmt::format("volume {} may be deleted in part, call again to go on", Quote(record.id));
  return began || begun_before ? Unfinished(deleted, partly) : deleted;
}

// It deletes the image before the row becomes `deleting`, because VolumeReconciler keeps an image beside such a row.
absl::Status VolumeRemover::RollBack(const VolumeRecord& record, bool may_be_frozen) {
  if (record.state != VolumeState::kCreating) return Delete(record);
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> now, store_.FindById(record.id));
  if (now && now->state != VolumeState::kCreating) {
    return Aborted("another process is changing volume {}: call again later", Quote(record.id));
  }
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  const absl::Status deleted = Unexpected(Remove(*pool->backend, record));
  if (absl::IsAborted(deleted)) return deleted;
  if (may_be_frozen) MOORING_RETURN_IF_ERROR(ThawSource(record));
  MOORING_RETURN_IF_ERROR(deleted);
  return Delete(record);
}

// Snapshots are never mounted, so they are never frozen.
absl::Status VolumeRemover::ThawSource(const VolumeRecord& record) {
  if (!IsVolumeId(record.source)) return absl::OkStatus();
  const absl::StatusOr<NodeVolume> source = lookup_.Find(record.source);
  return source.ok() && MayBeFrozen(source->kind) ? Unexpected(contents_.Thaw(StorageOf(*source))) : absl::OkStatus();
}

absl::Status VolumeReconciler::Reconcile() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeRecord> unfinished, store_.ListUnfinished());
  for (const VolumeRecord& record : unfinished) {
    const absl::StatusOr<const Pool*> pool = PoolOf(pools_, record);
    if (pool.ok() && (*pool)->traits().many_nodes) continue;
    log::WarningIfFailed(FinishInterrupted(record),
                         "cannot clean up after an interrupted call: one volume is left as it is",
                         {{"volume", record.id}, {"name", record.name}});
  }
  return CompareWithPools();
}

absl::Status VolumeReconciler::ReconcilePool(const std::string& pool) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const found, pools_.Find(pool));
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeRecord> unfinished, store_.ListUnfinishedIn(pool));
  absl::Status done;
  for (const VolumeRecord& record : unfinished) {
    done.Update(Annotate(FinishInterrupted(record), "volume " + record.id + " is left by an interrupted call"));
  }
  done.Update(found->backend->Reconcile().status());
  return done;
}

// While this process holds the locks of the name and the id, no other process works on the volume.
absl::Status VolumeReconciler::FinishInterrupted(const VolumeRecord& listed) {
  const Call at_once = {std::chrono::steady_clock::now()};
  const auto name = LockName(locks_, kVolumeName, listed.name, at_once, TagOfId(listed.id));
  const auto hold = lookup_.Lock(listed.id, at_once);
  const bool copies = listed.state == VolumeState::kCreating;
  const auto source = lookup_.LockSource(copies ? listed.source : "", at_once);
  for (const absl::Status& locked : {name.status(), hold.status(), source.status()}) {
    if (!locked.ok()) return absl::IsAborted(locked) ? absl::OkStatus() : locked;
  }
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> now, store_.FindById(listed.id));
  if (!now || now->state == VolumeState::kReady) return absl::OkStatus();
  const Call patient = {std::chrono::steady_clock::now() + kHelperEnds};
  return RepeatWhileAborted(patient, [&] { return Settle(*now); });
}

absl::StatusOr<bool> VolumeReconciler::HasDataToKeep(const VolumeRecord& unfinished) const {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, unfinished));
  const absl::Status found = LocateIn(*pool, unfinished.id).status();
  if (absl::IsNotFound(found)) return false;
  if (absl::IsUnavailable(found) && !pool->traits().whole_devices) return found;  // the pool is not there
  const bool creating = unfinished.state == VolumeState::kCreating;
  if (creating && found.ok()) {
    MOORING_ASSIGN_OR_RETURN(const bool finished, pool->backend->IsFinished(unfinished.id));
    if (!finished) return false;
  }
  const bool made_empty = creating && unfinished.source.empty();
  return !made_empty || pool->backend->HoldsData(unfinished.id);
}

absl::Status VolumeReconciler::Settle(const VolumeRecord& unfinished) {
  const log::Fields fields = {{"volume", unfinished.id}, {"name", unfinished.name}};
  const bool creating = unfinished.state == VolumeState::kCreating;
  MOORING_ASSIGN_OR_RETURN(const bool keep, HasDataToKeep(unfinished));
  if (!keep) {
    MOORING_RETURN_IF_ERROR(remover_.RollBack(unfinished, true));
    log::Info(creating ? "rolled back an interrupted creation" : "finished an interrupted deletion", fields);
    return absl::OkStatus();
  }
  if (creating) MOORING_RETURN_IF_ERROR(remover_.ThawSource(unfinished));
  remover_.RestoreName(unfinished);
  MOORING_RETURN_IF_ERROR(store_.Move(unfinished.id, unfinished.state, VolumeState::kReady).status());
  CompareSize(unfinished);
  log::Info(creating ? "finished an interrupted creation" : "rolled back an interrupted deletion", fields);
  return absl::OkStatus();
}

// A pool that cannot be read does not stop the comparison of the others.
std::set<std::string> VolumeReconciler::IdsInPools() const {
  std::set<std::string> found;
  for (const Pool& pool : pools_.all()) {
    if (pool.traits().many_nodes) continue;
    const absl::StatusOr<std::vector<std::string>> ids = pool.backend->Reconcile();
    if (ids.ok()) {
      found.insert(ids->begin(), ids->end());
    } else {
      log::Error("a pool cannot be read", {{"pool", pool.name}, {"cause", Message(ids.status())}});
    }
  }
  return found;
}

absl::Status VolumeReconciler::CompareWithPools() {
  std::set<std::string> unknown_ids = IdsInPools();
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeRecord> unfinished, store_.ListUnfinished());
  for (const VolumeRecord& record : unfinished) unknown_ids.erase(record.id);
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> snapshots, snapshots_.AllIds());
  for (const std::string& id : snapshots) unknown_ids.erase(id);
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeRecord> ephemeral, store_.ListEphemeral());
  for (const VolumeRecord& record : ephemeral) unknown_ids.erase(record.id);
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedVolume> volumes,
                           store_.ListReady(0, std::numeric_limits<std::int64_t>::max(), IfAway::kSkip));
  for (const ListedVolume& listed : volumes) {
    unknown_ids.erase(listed.volume.id);
    CompareSize(listed.volume);
  }
  if (!unknown_ids.empty()) {
    log::Warning("the pools have volumes or snapshots without a record: restore the catalog, or remove them",
                 {{"count", std::to_string(unknown_ids.size())}, {"ids", FirstOf(unknown_ids)}});
  }
  return absl::OkStatus();
}

void VolumeReconciler::CompareSize(const VolumeRecord& record) {
  const absl::StatusOr<const Pool*> pool = PoolOf(pools_, record);
  if (pool.ok() && (*pool)->traits().enforces_size) {
    const absl::Status held = (*pool)->backend->HoldToSize(record.id, record.bytes);
    if (!absl::IsNotFound(held))
      log::WarningIfFailed(held, "a volume may not be held to its size", {{"volume", record.id}});
  }
  const absl::StatusOr<VolumeLocation> found = pool.ok() ? (*pool)->backend->Locate(record.id) : pool.status();
  if (!found.ok()) {
    const log::Fields fields = {{"volume", record.id}, {"name", record.name}, {"cause", Message(found.status())}};
    // At boot udev may link a disk after the start of the plugin.
    if (absl::IsUnavailable(found.status())) return log::Info("a volume waits for its device", fields);
    return log::Error(absl::IsNotFound(found.status())
                          ? "a volume has lost its image: put it back, or delete the volume"
                          : "the image of a volume cannot be looked at",
                      fields);
  }
  const std::uint64_t bytes = SizeOf(**pool, *found, record.bytes);
  if (bytes < record.bytes) {
    log::Error("the image of a volume has become smaller: restore it before the volume is used",
               {{"volume", record.id},
                {"image", StorageOf(*found)},
                {"has", SizeText(bytes)},
                {"should_have", SizeText(record.bytes)}});
  }
  if (bytes <= record.bytes) return;
  // An expansion was interrupted between the image and the record. A full disk does not stop the start.
  log::WarningIfFailed(store_.SetBytes(record.id, bytes), "the new size of an expanded volume is not recorded yet",
                       {{"volume", record.id}});
}

}  // namespace mooring

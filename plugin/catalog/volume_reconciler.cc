#include "plugin/catalog/volume_reconciler.h"

#include <chrono>
#include <limits>
#include <optional>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "plugin/catalog/catalog_locks.h"
#include "plugin/model/repeat.h"
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

}  // namespace

absl::Status VolumeReconciler::Reconcile() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeRecord> unfinished, store_.ListUnfinished());
  for (const VolumeRecord& record : unfinished) FinishInterrupted(record);
  return CompareWithPools();
}

// While this process holds the locks of the name and the id, no other process works on the volume.
void VolumeReconciler::FinishInterrupted(const VolumeRecord& listed) {
  const Call at_once = {std::chrono::steady_clock::now()};
  const auto name = LockName(locks_, kVolumeName, listed.name, at_once, TagOfId(listed.id));
  const auto hold = lookup_.Lock(listed.id, at_once);
  const bool copies = listed.state == VolumeState::kCreating;
  const auto source = lookup_.LockSource(copies ? listed.source : "", at_once);
  if (!name.ok() || !hold.ok() || !source.ok()) return;
  const absl::StatusOr<std::optional<VolumeRecord>> now = store_.FindById(listed.id);
  if (now.ok() && (!*now || (*now)->state == VolumeState::kReady)) return;
  const Call patient = {std::chrono::steady_clock::now() + kHelperEnds};
  const absl::Status settled = now.ok() ? RepeatWhileAborted(patient, [&] { return Settle(**now); }) : now.status();
  log::WarningIfFailed(settled, "cannot clean up after an interrupted call: one volume is left as it is",
                       {{"volume", listed.id}, {"name", listed.name}});
}

absl::StatusOr<bool> VolumeReconciler::HasDataToKeep(const VolumeRecord& unfinished) const {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, unfinished));
  if (absl::IsNotFound(pool->backend->Locate(unfinished.id).status())) return false;
  const bool made_empty = unfinished.state == VolumeState::kCreating && unfinished.source.empty();
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
  MOORING_RETURN_IF_ERROR(store_.Move(unfinished.id, unfinished.state, VolumeState::kReady).status());
  CompareSize(unfinished);
  log::Info(creating ? "finished an interrupted creation" : "rolled back an interrupted deletion", fields);
  return absl::OkStatus();
}

// A pool that cannot be read does not stop the comparison of the others.
std::set<std::string> VolumeReconciler::IdsInPools() const {
  std::set<std::string> found;
  for (const Pool& pool : pools_.all()) {
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
                           store_.ListReady(0, std::numeric_limits<std::int64_t>::max()));
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
  if (!(*pool)->traits().enforces_size) return;
  if (found->bytes < record.bytes) {
    log::Error("the image of a volume has become smaller: restore it before the volume is used",
               {{"volume", record.id},
                {"image", found->path},
                {"has", SizeText(found->bytes)},
                {"should_have", SizeText(record.bytes)}});
  }
  if (found->bytes <= record.bytes) return;
  // An expansion was interrupted between the image and the record. A full disk does not stop the start.
  log::WarningIfFailed(store_.SetBytes(record.id, found->bytes),
                       "the new size of an expanded volume is not recorded yet", {{"volume", record.id}});
}

}  // namespace mooring

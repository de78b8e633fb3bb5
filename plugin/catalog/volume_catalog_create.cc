// Creates and deletes volumes.
#include <fmt/format.h>

#include <utility>

#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "mounter/propagation.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/model/repeat.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

// The attempts of Create while other processes change the volume of that name.
constexpr int kAttempts = 5;

std::string SegmentsText(const Segments& segments) {
  std::string text;
  for (const auto& [key, value] : segments) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, value);
  return text.empty() ? "none" : text;
}

std::string SourceText(const std::string& id) {
  return id.empty() ? "no content source" : "content source " + Quote(id);
}

std::string PropagationWord(const std::optional<Propagation>& propagation) {
  return propagation ? std::string(ToString(*propagation)) : "none";
}

}  // namespace

// The key is no id. Errors name the volume, not the key.
absl::StatusOr<KeyedLocks::Hold> VolumeCatalog::LockName(const std::string& name, const Call& call) {
  absl::StatusOr<KeyedLocks::Hold> hold = locks_.Acquire("name:" + name, "name", call.wait_until);
  if (!absl::IsAborted(hold.status())) return hold;
  return Aborted(fmt::format("another CreateVolume for {} is still under way: call again later", Quote(name)));
}

absl::StatusOr<VolumeInfo> VolumeCatalog::Create(const CreateVolumeSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold name, LockName(spec.name, call));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    MOORING_ASSIGN_OR_RETURN(std::optional<VolumeRecord> there, store_.FindByName(spec.name));
    if (!there) {
      MOORING_ASSIGN_OR_RETURN(const auto source, LockSource(spec.source.id, call));
      MOORING_ASSIGN_OR_RETURN(VolumeRecord record, NewRecord(spec));
      MOORING_ASSIGN_OR_RETURN(const bool inserted, InsertWithRoom(record, call));
      if (!inserted) continue;
      MOORING_RETURN_IF_ERROR(Finish(record, spec));
      return ToInfo({record, {}});
    }
    const absl::Status matches = CheckMatches(*there, spec);
    if (there->state == VolumeState::kReady) {
      MOORING_RETURN_IF_ERROR(matches);
      MOORING_RETURN_IF_ERROR(CheckSameDevice(*there, spec));
      return ToInfo({*there, {}});
    }
    // A copy is never finished later, because its source may have changed. Mutable parameters are compared for an
    // unfinished volume only: those of a ready volume may have been changed.
    const bool tuned_alike = there->tuning == With({}, spec.tuning);
    if (there->state == VolumeState::kCreating && matches.ok() && tuned_alike && there->source.empty()) {
      MOORING_ASSIGN_OR_RETURN(const bool keep, HasDataToKeep(*there));
      // A failed creation is rolled back, with its image. ClearName keeps an image that has data.
      if (!keep) {
        MOORING_RETURN_IF_ERROR(Finish(*there, spec));
        return ToInfo({*there, {}});
      }
    }
    MOORING_RETURN_IF_ERROR(ClearName(*there, call));
  }
  return Aborted(
      fmt::format("another process is creating or deleting the volume {}: call again later", Quote(spec.name)));
}

absl::Status VolumeCatalog::CheckMatches(const VolumeRecord& existing, const CreateVolumeSpec& spec) const {
  const auto differs = [&](const std::string& how) {
    return AlreadyExists(
        fmt::format("a volume named {} exists with {}: delete it, or use another name", Quote(spec.name), how));
  };
  if (existing.source != spec.source.id) {
    return differs(fmt::format("{}, and {} is asked for", SourceText(existing.source), SourceText(spec.source.id)));
  }
  if (!spec.pool.empty() && existing.pool != spec.pool) {
    return differs(fmt::format("pool {}, and {} is asked for", existing.pool, Quote(spec.pool)));
  }
  if (!spec.fs_type.empty() && existing.fs_type != spec.fs_type) {
    return differs(fmt::format("filesystem {}, and {} is asked for", existing.fs_type, spec.fs_type));
  }
  if (existing.propagation != spec.propagation) {
    return differs(fmt::format("propagation {}, and {} is asked for", PropagationWord(existing.propagation),
                               PropagationWord(spec.propagation)));
  }
  if (existing.block_only && !spec.block_only) {
    return differs("block access only, and another use is asked for");
  }
  if (!Satisfies(existing.bytes, spec.range)) {
    return differs(fmt::format("{}, and {} is asked for", SizeText(existing.bytes), RangeText(spec.range)));
  }
  if (existing.bytes < spec.minimum_bytes) {
    return differs(fmt::format("{}, and such a volume as is asked for needs at least {}", SizeText(existing.bytes),
                               SizeText(spec.minimum_bytes)));
  }
  if (!IsReachable(spec.topologies)) {
    return differs(fmt::format("topology {}, and another one is asked for", SegmentsText(settings_.topology)));
  }
  return absl::OkStatus();
}

absl::StatusOr<VolumeRecord> VolumeCatalog::NewRecord(const CreateVolumeSpec& spec) {
  if (!IsReachable(spec.topologies)) {
    return ResourceExhausted(
        fmt::format("accessibility_requirements name no place where this plugin can make volumes: "
                    "volumes of node {} are reachable only at {}",
                    Quote(settings_.node_id), SegmentsText(settings_.topology)));
  }
  if (spec.source.exists()) return NewClone(spec);
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, pools_.Find(spec.pool));
  MOORING_RETURN_IF_ERROR(CheckPossible(spec.tuning, pool->traits()));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, ChooseSize(spec.range, spec.minimum_bytes));
  return VolumeRecord{.id = NewVolumeId(),
                      .name = spec.name,
                      .state = VolumeState::kCreating,
                      .bytes = bytes,
                      .fs_type = spec.fs_type,
                      .propagation = spec.propagation,
                      .pool = spec.pool,
                      .tuning = With({}, spec.tuning),
                      .ephemeral = spec.ephemeral,
                      .block_only = spec.block_only,
                      .asked_bytes = spec.range.required};
}

// The size of a device becomes the size of the volume.
absl::Status VolumeCatalog::MakeIn(const Pool& pool, VolumeRecord& record, const CreateVolumeSpec& spec) {
  MOORING_RETURN_IF_ERROR(
      pool.backend->Create({.id = record.id, .bytes = record.bytes, .device = spec.device, .limit = spec.range.limit}));
  if (!pool.traits().whole_devices) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const VolumeLocation made, pool.backend->Locate(record.id));
  if (made.bytes == record.bytes) return absl::OkStatus();
  record.bytes = made.bytes;
  return store_.SetBytes(record.id, made.bytes);
}

// The backend knows which device a volume has.
absl::Status VolumeCatalog::CheckSameDevice(const VolumeRecord& existing, const CreateVolumeSpec& spec) {
  if (spec.device.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(existing));
  return Unexpected(
      pool->backend->Create({.id = existing.id, .bytes = existing.bytes, .device = spec.device, .limit = 0}));
}

// Moves the row from creating to ready, or rolls it back.
absl::Status VolumeCatalog::Finish(VolumeRecord& record, const CreateVolumeSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  const bool is_copy = !record.source.empty();
  const absl::Status made = is_copy ? Populate(record, spec) : MakeIn(*pool, record, spec);
  if (!made.ok()) {
    GiveUp(record, MayHaveLeftFrozen(made));
    return Unexpected(made);
  }
  const absl::StatusOr<bool> ready = store_.Move(record.id, VolumeState::kCreating, VolumeState::kReady);
  if (!ready.ok() && is_copy) GiveUp(record, false);  // it takes room, and no later call uses it
  if (!ready.ok()) return ready.status();
  if (*ready) return absl::OkStatus();
  // Another process worked on the same row: it finished the volume or rolled it back.
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> now, store_.FindById(record.id));
  if (now && now->state == VolumeState::kReady) return absl::OkStatus();
  if (!now) MOORING_RETURN_IF_ERROR(Unexpected(pool->backend->Delete(record.id)));
  return Aborted(fmt::format("another process rolled back the creation of volume {}: call again", Quote(record.name)));
}

// A row that cannot be deleted now, on a full disk, does no harm: Create of that name or Reconcile clears it.
void VolumeCatalog::GiveUp(const VolumeRecord& record, bool may_be_frozen) {
  const DeadlineScope fresh = DeadlineScope::Fresh(kRollback);
  if (const absl::Status erased = RollBack(record, may_be_frozen); !erased.ok()) {
    log::Warning("a volume that could not be created is not cleaned up yet",
                 {{"volume", record.id}, {"cause", Message(erased)}});
  }
}

// An unfinished volume holds the name. If it becomes ready, because another process finished it or because it has data,
// Create finds it in its next attempt.
absl::Status VolumeCatalog::ClearName(const VolumeRecord& unfinished, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(unfinished.id, call));
  MOORING_ASSIGN_OR_RETURN(const auto source, LockSource(unfinished.source, call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> now, store_.FindById(unfinished.id));
  if (!now || now->state == VolumeState::kReady) return absl::OkStatus();
  return RepeatWhileAborted(call, [&] { return Settle(*now); });
}

// Whether the image of an unfinished row stays. A copy gets its name when it is whole, so the orchestrator may know it.
// A volume that was created empty stays if something was written to it.
absl::StatusOr<bool> VolumeCatalog::HasDataToKeep(const VolumeRecord& unfinished) const {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(unfinished));
  if (absl::IsNotFound(pool->backend->Locate(unfinished.id).status())) return false;
  const bool made_empty = unfinished.state == VolumeState::kCreating && unfinished.source.empty();
  return !made_empty || pool->backend->HoldsData(unfinished.id);
}

// creating or deleting -> ready if there is data to keep; otherwise the row is deleted. ABORTED as RollBack.
absl::Status VolumeCatalog::Settle(const VolumeRecord& unfinished) {
  const log::Fields fields = {{"volume", unfinished.id}, {"name", unfinished.name}};
  const bool creating = unfinished.state == VolumeState::kCreating;
  MOORING_ASSIGN_OR_RETURN(const bool keep, HasDataToKeep(unfinished));
  if (!keep) {
    MOORING_RETURN_IF_ERROR(RollBack(unfinished, true));
    log::Info(creating ? "rolled back an interrupted creation" : "finished an interrupted deletion", fields);
    return absl::OkStatus();
  }
  if (creating) MOORING_RETURN_IF_ERROR(ThawSource(unfinished));
  MOORING_RETURN_IF_ERROR(store_.Move(unfinished.id, unfinished.state, VolumeState::kReady).status());
  CompareSize(unfinished);
  log::Info(creating ? "finished an interrupted creation" : "rolled back an interrupted deletion", fields);
  return absl::OkStatus();
}

// Deletes the volume of an unfinished row. ABORTED: the mount helper of a killed plugin still copies it, so the source
// stays as it is.
//
// It deletes the image before the row becomes `deleting`, because Settle keeps an image beside a `deleting` row.
absl::Status VolumeCatalog::RollBack(const VolumeRecord& record, bool may_be_frozen) {
  if (record.state != VolumeState::kCreating) return DeleteVolume(record);
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> now, store_.FindById(record.id));
  if (now && now->state != VolumeState::kCreating) {
    return Aborted(fmt::format("another process is changing volume {}: call again later", Quote(record.id)));
  }
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  const absl::Status deleted = Unexpected(pool->backend->Delete(record.id));
  if (absl::IsAborted(deleted)) return deleted;
  if (may_be_frozen) MOORING_RETURN_IF_ERROR(ThawSource(record));
  MOORING_RETURN_IF_ERROR(deleted);
  return DeleteVolume(record);
}

absl::Status VolumeCatalog::Delete(const std::string& id, const Call& call) {
  if (!IsVolumeId(id)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(id, call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> record, store_.FindById(id));
  if (!record) return absl::OkStatus();
  // This comes before the state `deleting`, because ListVolumes must not omit a volume in use, not even for a moment.
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(*record));
  if (record->state == VolumeState::kReady) {
    const absl::Status unused = Unexpected(pool->backend->CheckUnused(id)), unpublished = CheckUnpublished(id);
    if (absl::IsFailedPrecondition(unused) && absl::IsFailedPrecondition(unpublished)) {
      return FailedPrecondition(fmt::format("{}. Then: {}", Message(unused), Message(unpublished)));
    }
    MOORING_RETURN_IF_ERROR(unused);
    MOORING_RETURN_IF_ERROR(unpublished);
  }
  return DeleteVolume(*record);
}

// Some orchestrators never unpublish a volume whose plugin was down, so the error has the command for it.
absl::Status VolumeCatalog::CheckUnpublished(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<PublicationRecord> publications, store_.Publications(id));
  if (publications.empty()) return absl::OkStatus();
  std::string nodes, commands;
  for (const PublicationRecord& publication : publications) {
    nodes += (nodes.empty() ? "" : ", ") + Quote(publication.node_id);
    commands += fmt::format("{}mooring csi controller-unpublish {} --node {}", commands.empty() ? "" : "; ", id,
                            ShellQuote(publication.node_id));
  }
  return FailedPrecondition(
      fmt::format("volume {} is published to node {}: unpublish it first (ControllerUnpublishVolume). If the "
                  "orchestrator has forgotten it, run where the plugin runs: {}",
                  Quote(id), nodes, commands));
}

// Moves the row to `deleting` and deletes the volume and the row. A volume in use becomes ready again.
absl::Status VolumeCatalog::DeleteVolume(const VolumeRecord& record) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  if (record.state != VolumeState::kDeleting) {
    const absl::StatusOr<bool> moved = store_.Move(record.id, record.state, VolumeState::kDeleting);
    // Only deletion makes room on a full disk, so it goes on without the state. A process that is killed then leaves a
    // ready row without an image, which the next Delete removes.
    const bool full = absl::IsResourceExhausted(moved.status()) && record.state == VolumeState::kReady;
    if (!full && !moved.ok()) return moved.status();
    if (!full && !*moved) {
      return Aborted(fmt::format("another process is changing volume {}: call again later", Quote(record.id)));
    }
  }
  const absl::Status deleted = Unexpected(pool->backend->Delete(record.id));
  if (deleted.ok()) return store_.Delete(record.id);
  // Another process may still work on a row that was `deleting` before: only a volume in use becomes ready then.
  const bool ours = record.state == VolumeState::kReady;
  if ((ours || absl::IsFailedPrecondition(deleted)) && pool->backend->Locate(record.id).ok()) {
    MOORING_RETURN_IF_ERROR(store_.Move(record.id, VolumeState::kDeleting, VolumeState::kReady).status());
  }
  return deleted;
}

}  // namespace mooring

// Creating and deleting volumes.
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

// How often Create looks again when another process changes the volume of that name under it.
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

// By a key that is no volume's id; whoever reads the error knows the volume by its name.
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
    // A copy is never finished later: its source may have changed since. And an existing volume is not held to mutable
    // parameters, which may have changed, too; but this one nobody knows.
    const bool tuned_alike = there->tuning == With({}, spec.tuning);
    if (there->state == VolumeState::kCreating && matches.ok() && tuned_alike && there->source.empty()) {
      MOORING_ASSIGN_OR_RETURN(const bool keep, HasDataToKeep(*there));
      // A creation that fails is given up, and its image deleted. ClearName keeps an image that holds data.
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
  MOORING_RETURN_IF_ERROR(CheckPossible(spec.tuning, pool->kind));
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

// A device has a size of its own, which becomes the volume's.
absl::Status VolumeCatalog::MakeIn(const Pool& pool, VolumeRecord& record, const CreateVolumeSpec& spec) {
  MOORING_RETURN_IF_ERROR(
      pool.backend->Create({.id = record.id, .bytes = record.bytes, .device = spec.device, .limit = spec.range.limit}));
  if (pool.kind != BackendKind::kDevice) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const VolumeLocation made, pool.backend->Locate(record.id));
  if (made.bytes == record.bytes) return absl::OkStatus();
  record.bytes = made.bytes;
  return store_.SetBytes(record.id, made.bytes);
}

// Which device a volume has its backend knows.
absl::Status VolumeCatalog::CheckSameDevice(const VolumeRecord& existing, const CreateVolumeSpec& spec) {
  if (spec.device.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(existing));
  return Unexpected(
      pool->backend->Create({.id = existing.id, .bytes = existing.bytes, .device = spec.device, .limit = 0}));
}

// creating -> ready, or away.
absl::Status VolumeCatalog::Finish(VolumeRecord& record, const CreateVolumeSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  const bool is_copy = !record.source.empty();
  const absl::Status made = is_copy ? Populate(record, spec) : MakeIn(*pool, record, spec);
  if (!made.ok()) {
    GiveUp(record, MayHaveLeftFrozen(made));
    return Unexpected(made);
  }
  const absl::StatusOr<bool> ready = store_.Move(record.id, VolumeState::kCreating, VolumeState::kReady);
  if (!ready.ok() && is_copy) GiveUp(record, false);  // it takes room, and no later call makes use of it
  if (!ready.ok()) return ready.status();
  if (*ready) return absl::OkStatus();
  // Another process had the same row in its hands: it has finished it, which is as good, or has given it up.
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> now, store_.FindById(record.id));
  if (now && now->state == VolumeState::kReady) return absl::OkStatus();
  if (!now) MOORING_RETURN_IF_ERROR(Unexpected(pool->backend->Delete(record.id)));
  return Aborted(fmt::format("another process gave the creation of volume {} up: call again", Quote(record.name)));
}

// A row that cannot be taken back now (the disk is full) does no harm: Create of that name or Reconcile clears it.
void VolumeCatalog::GiveUp(const VolumeRecord& record, bool may_be_frozen) {
  const DeadlineScope fresh = DeadlineScope::Fresh(kRollback);
  if (const absl::Status erased = TakeBack(record, may_be_frozen); !erased.ok()) {
    log::Warning("a volume that could not be created is not cleaned up yet",
                 {{"volume", record.id}, {"cause", Message(erased)}});
  }
}

// A volume that was half created for other arguments, or is half deleted, holds the name. If it turns out to be alive
// after all, or is kept for its data, Create sees that when it looks again.
absl::Status VolumeCatalog::ClearName(const VolumeRecord& unfinished, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(unfinished.id, call));
  MOORING_ASSIGN_OR_RETURN(const auto source, LockSource(unfinished.source, call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> now, store_.FindById(unfinished.id));
  if (!now || now->state == VolumeState::kReady) return absl::OkStatus();
  return RepeatWhileAborted(call, [&] { return Settle(*now); });
}

// Whether the image of a row in `creating` or `deleting` is to stay. A copy gets its name when it is whole, so it is
// one the orchestrator may have been told of. A volume that was made empty counts once something was written to it.
absl::StatusOr<bool> VolumeCatalog::HasDataToKeep(const VolumeRecord& unfinished) const {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(unfinished));
  if (absl::IsNotFound(pool->backend->Locate(unfinished.id).status())) return false;
  const bool made_empty = unfinished.state == VolumeState::kCreating && unfinished.source.empty();
  return !made_empty || pool->backend->HoldsData(unfinished.id);
}

// creating or deleting -> ready where there is data to keep, else away. ABORTED as TakeBack.
absl::Status VolumeCatalog::Settle(const VolumeRecord& unfinished) {
  const log::Fields fields = {{"volume", unfinished.id}, {"name", unfinished.name}};
  const bool creating = unfinished.state == VolumeState::kCreating;
  MOORING_ASSIGN_OR_RETURN(const bool keep, HasDataToKeep(unfinished));
  if (!keep) {
    MOORING_RETURN_IF_ERROR(TakeBack(unfinished, true));
    log::Info(creating ? "took back a creation that was interrupted" : "finished a deletion that was interrupted",
              fields);
    return absl::OkStatus();
  }
  if (creating) MOORING_RETURN_IF_ERROR(ThawSource(unfinished));
  MOORING_RETURN_IF_ERROR(store_.Move(unfinished.id, unfinished.state, VolumeState::kReady).status());
  CompareSize(unfinished);
  log::Info(creating ? "finished a creation that was interrupted" : "took back a deletion that was interrupted",
            fields);
  return absl::OkStatus();
}

// creating or deleting -> away. A copy that a mount helper is still at (its plugin was killed, it was not) is ABORTED,
// and its source stays as it is.
//
// The image goes before the row says `deleting`: an image beside such a row counts as one that somebody was told of.
absl::Status VolumeCatalog::TakeBack(const VolumeRecord& record, bool may_be_frozen) {
  if (record.state != VolumeState::kCreating) return Erase(record);
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> now, store_.FindById(record.id));
  if (now && now->state != VolumeState::kCreating) {
    return Aborted(fmt::format("another process is changing volume {}: call again later", Quote(record.id)));
  }
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  const absl::Status deleted = Unexpected(pool->backend->Delete(record.id));
  if (absl::IsAborted(deleted)) return deleted;
  if (may_be_frozen) MOORING_RETURN_IF_ERROR(ThawSource(record));
  MOORING_RETURN_IF_ERROR(deleted);
  return Erase(record);
}

absl::Status VolumeCatalog::Delete(const std::string& id, const Call& call) {
  if (!IsVolumeId(id)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(id, call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> record, store_.FindById(id));
  if (!record) return absl::OkStatus();
  // Before the record says "deleting": a volume in use is not to vanish from anybody's sight, not for a moment.
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(*record));
  if (record->state == VolumeState::kReady) {
    const absl::Status unused = Unexpected(pool->backend->CheckUnused(id)), unpublished = CheckUnpublished(id);
    if (absl::IsFailedPrecondition(unused) && absl::IsFailedPrecondition(unpublished)) {
      return FailedPrecondition(fmt::format("{}. Then: {}", Message(unused), Message(unpublished)));
    }
    MOORING_RETURN_IF_ERROR(unused);
    MOORING_RETURN_IF_ERROR(unpublished);
  }
  return Erase(*record);
}

// Some orchestrators never unpublish a volume whose plugin was away, so the error says how to do that by hand.
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

// any state -> deleting -> away; back to ready where the volume is in use.
absl::Status VolumeCatalog::Erase(const VolumeRecord& record) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  if (record.state != VolumeState::kDeleting) {
    const absl::StatusOr<bool> moved = store_.Move(record.id, record.state, VolumeState::kDeleting);
    // On a full disk only deleting makes room: then without the intent. Killed before the end, the volume is a record
    // without an image, and Delete takes that away, too.
    const bool full = absl::IsResourceExhausted(moved.status()) && record.state == VolumeState::kReady;
    if (!full && !moved.ok()) return moved.status();
    if (!full && !*moved) {
      return Aborted(fmt::format("another process is changing volume {}: call again later", Quote(record.id)));
    }
  }
  const absl::Status deleted = Unexpected(pool->backend->Delete(record.id));
  if (deleted.ok()) return store_.Remove(record.id);
  // One that was found in `deleting` may be another process's, which is at work on it: only a volume in use comes back.
  const bool ours = record.state == VolumeState::kReady;
  if ((ours || absl::IsFailedPrecondition(deleted)) && pool->backend->Locate(record.id).ok()) {
    MOORING_RETURN_IF_ERROR(store_.Move(record.id, VolumeState::kDeleting, VolumeState::kReady).status());
  }
  return deleted;
}

}  // namespace mooring

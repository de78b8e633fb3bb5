#include "plugin/catalog/volume_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/propagation.h"
#include "plugin/catalog/catalog_locks.h"
#include "plugin/model/call.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

// The attempts of Create while other processes change the volume of that name.
constexpr int kCreateAttempts = 5;

std::string SegmentsText(const Segments& segments) {
  std::string text;
  for (const auto& [key, value] : segments) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, value);
  return text.empty() ? "none" : text;
}

std::string MadeInPart(const VolumeRecord& record) {
  return fmt::format("volume {} may be made in part, call again to go on", Quote(record.name));
}

std::string SourceText(const std::string& id) {
  return id.empty() ? "no content source" : "content source " + Quote(id);
}

std::string PropagationWord(const std::optional<Propagation>& propagation) {
  return propagation ? std::string(ToString(*propagation)) : "none";
}

// A copy that names nothing else has the properties of its source, which may not have been formatted yet.
VolumeTuning TuningOf(const CreateVolumeSpec& spec, const VolumeMaking& of_source = {}) {
  const bool inherits = spec.source.exists() && spec.making == VolumeMaking();
  return With({.making = inherits ? of_source : spec.making, .idmap = spec.idmap, .sub_dir = spec.sub_dir},
              spec.tuning);
}

absl::StatusOr<std::uint64_t> ChooseCloneSize(const CreateVolumeSpec& spec, std::uint64_t source_bytes) {
  if (spec.range.limit != 0 && spec.range.limit < source_bytes) {
    return OutOfRange("capacity_range asks for {}, and volume_content_source {} has {}: raise limit_bytes",
                      RangeText(spec.range), Quote(spec.source.id), SizeText(source_bytes));
  }
  const SizeRange range = {.required = std::max(spec.range.required, source_bytes), .limit = spec.range.limit};
  return ChooseSize(range, spec.minimum_bytes);
}

absl::Status CheckCanClone(const Pool& pool, std::string_view what) {
  if (pool.traits().clones) return absl::OkStatus();
  return FailedPrecondition("{} pool {}, whose backend copies no volumes (docs/backends.md says which do)", what,
                            Quote(pool.name));
}

absl::Status CheckSameKind(BackendKind source, BackendKind wanted, const std::string& pool) {
  if (source == wanted) return absl::OkStatus();
  return FailedPrecondition("volume_content_source has the backend {}, and pool {} has {}: a copy keeps its source's",
                            ToString(source), Quote(pool), ToString(wanted));
}

absl::Status CheckMayKeep(const CreateVolumeSpec& spec, const Pool& pool) {
  const bool keeps = spec.making.on_delete != OnDelete::kDelete;
  if (pool.traits().sets_aside || (spec.sub_dir.empty() && !keeps)) return absl::OkStatus();
  return InvalidArgument(
      "parameter {}: pool {} has the backend {}, which gives volumes no names, and keeps nothing of a deleted one: "
      "leave it out (Kubernetes: reclaimPolicy: Retain), or ask for a pool on an NFS server",
      keeps ? "onDelete" : "subDir", pool.name, ToString(pool.kind));
}

// Kubernetes calls it "prevention of volume mode conversion".
absl::Status CheckConversion(bool source_block_only, const CreateVolumeSpec& spec) {
  if (!source_block_only || !spec.is_mounted || spec.allows_conversion) return absl::OkStatus();
  return InvalidArgument(
      "mount access is asked for, and volume_content_source {} was made for block access only: whoever had it wrote "
      "every byte of what would be mounted; ask for block access, or set the parameter {}=true where that user is "
      "trusted",
      Quote(spec.source.id), kConversionKey);
}

}  // namespace

bool VolumeMaker::Node::HasAll(const Segments& wanted) const {
  return std::includes(topology.begin(), topology.end(), wanted.begin(), wanted.end());
}

bool VolumeMaker::Node::HasOneOf(const std::vector<Segments>& topologies) const {
  return topologies.empty() ||
         std::any_of(topologies.begin(), topologies.end(), [this](const Segments& wanted) { return HasAll(wanted); });
}

absl::StatusOr<VolumeRecord> VolumeMaker::Create(const CreateVolumeSpec& spec, const Call& call) {
  const std::string tag = TagFor(spec);
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold name, LockName(locks_, kVolumeName, spec.name, call, tag));
  for (int attempt = 0; attempt < kCreateAttempts; ++attempt) {
    MOORING_ASSIGN_OR_RETURN(std::optional<VolumeRecord> there, store_.FindByName(spec.name, tag));
    if (!there) {
      MOORING_ASSIGN_OR_RETURN(const auto source, lookup_.LockSource(spec.source.id, call));
      MOORING_ASSIGN_OR_RETURN(VolumeRecord record, NewRecord(spec));
      MOORING_ASSIGN_OR_RETURN(const bool inserted, InsertWithRoom(record, call));
      if (!inserted) continue;
      return Finish(std::move(record), spec);
    }
    const absl::Status matches = CheckMatches(*there, spec);
    if (there->state == VolumeState::kReady) {
      MOORING_RETURN_IF_ERROR(matches);
      MOORING_RETURN_IF_ERROR(CheckSameDevice(*there, spec));
      MOORING_RETURN_IF_ERROR(CheckSameAccess(*there, spec));
      RestoreName(*there);
      return *std::move(there);
    }
    // A copy is never finished later, because its source may have changed. Mutable parameters are compared for an
    // unfinished volume only: those of a ready volume may have been changed.
    const bool tuned_alike = there->tuning == TuningOf(spec, there->tuning.making);
    if (there->state == VolumeState::kCreating && matches.ok() && tuned_alike && there->source.empty()) {
      MOORING_ASSIGN_OR_RETURN(const bool keep, reconciler_.HasDataToKeep(*there));
      // A failed creation is rolled back, with its image. ClearName keeps an image that has data.
      if (!keep) return Finish(*std::move(there), spec);
    }
    MOORING_RETURN_IF_ERROR(ClearName(*there, call));
  }
  return Aborted("another process is creating or deleting the volume {}: call again later", Quote(spec.name));
}

// The tag of the shared pool that the volume is to lie in; empty: none. A copy lies beside its source, unless the call
// names a pool.
std::string VolumeMaker::TagFor(const CreateVolumeSpec& spec) const {
  if (spec.pool.empty()) return std::string(TagOfId(spec.source.id));
  const absl::StatusOr<const Pool*> pool = pools_.Find(spec.pool);
  return pool.ok() ? (*pool)->tag : "";
}

// The volumes of a shared pool are reachable from everywhere.
absl::Status VolumeMaker::CheckMatches(const VolumeRecord& existing, const CreateVolumeSpec& spec) const {
  const auto differs = [&](const std::string& how) {
    return AlreadyExists("a volume named {} exists with {}: delete it, or use another name", Quote(spec.name), how);
  };
  if (existing.source != spec.source.id) {
    return differs(fmt::format("{}, and {} is asked for", SourceText(existing.source), SourceText(spec.source.id)));
  }
  if (!spec.pool.empty() && existing.pool != spec.pool) {
    return differs(fmt::format("pool {}, and {} is asked for", existing.pool, Quote(spec.pool)));
  }
  if (const absl::StatusOr<const Pool*> pool = pools_.Find(existing.pool); pool.ok()) {
    MOORING_RETURN_IF_ERROR(CheckEncryption(spec.encrypted, !spec.passphrase.empty(), **pool, pools_));
  }
  if (!spec.fs_type.empty() && existing.fs_type != spec.fs_type) {
    return differs(fmt::format("filesystem {}, and {} is asked for", existing.fs_type, spec.fs_type));
  }
  if (existing.propagation != spec.propagation) {
    return differs(fmt::format("propagation {}, and {} is asked for", PropagationWord(existing.propagation),
                               PropagationWord(spec.propagation)));
  }
  const bool inherits = spec.source.exists() && spec.making == VolumeMaking();
  if (!inherits && existing.tuning.making != spec.making) {
    return differs(fmt::format("{}, and {} is asked for", MakingText(existing.tuning.making), MakingText(spec.making)));
  }
  if (existing.tuning.idmap != spec.idmap) {
    return differs(fmt::format("idmap {}, and {} is asked for", Quote(existing.tuning.idmap), Quote(spec.idmap)));
  }
  if (existing.tuning.sub_dir != spec.sub_dir) {
    return differs(fmt::format("subDir {}, and {} is asked for", Quote(existing.tuning.sub_dir), Quote(spec.sub_dir)));
  }
  if (existing.block_only && !spec.block_only) return differs("block access only, and another use is asked for");
  if (!Satisfies(existing.bytes, spec.range)) {
    return differs(fmt::format("{}, and {} is asked for", SizeText(existing.bytes), RangeText(spec.range)));
  }
  if (existing.bytes < spec.minimum_bytes) {
    return differs(fmt::format("{}, and such a volume as is asked for needs at least {}", SizeText(existing.bytes),
                               SizeText(spec.minimum_bytes)));
  }
  if (TagOfId(existing.id).empty() && !node_.HasOneOf(spec.topologies)) {
    return differs(fmt::format("topology {}, and another one is asked for", SegmentsText(node_.topology)));
  }
  return absl::OkStatus();
}

absl::StatusOr<VolumeRecord> VolumeMaker::NewRecord(const CreateVolumeSpec& spec) {
  if (TagFor(spec).empty() && !node_.HasOneOf(spec.topologies)) {
    return ResourceExhausted(
        "accessibility_requirements name no place where this plugin can make volumes: volumes of node {} are reachable "
        "only at {}",
        Quote(node_.id), SegmentsText(node_.topology));
  }
  if (spec.source.exists()) return NewCopy(spec);
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, pools_.Find(spec.pool));
  MOORING_RETURN_IF_ERROR(CheckPossible(spec.tuning, pool->traits()));
  MOORING_RETURN_IF_ERROR(CheckMayKeep(spec, *pool));
  if (pool->shared() && !spec.ephemeral.empty()) {
    return InvalidArgument("an inline volume lives on one node, and pool {} is shared by several: take another pool",
                           pool->name);
  }
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t chosen, ChooseSize(spec.range, spec.minimum_bytes));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, SizeIn(*pool, chosen, spec.range, spec.minimum_bytes));
  return VolumeRecord{.id = NewVolumeId(pool->tag),
                      .name = spec.name,
                      .state = VolumeState::kCreating,
                      .bytes = bytes,
                      .fs_type = spec.fs_type,
                      .propagation = spec.propagation,
                      .pool = spec.pool,
                      .tuning = TuningOf(spec),
                      .ephemeral = spec.ephemeral,
                      .block_only = spec.block_only,
                      .asked_bytes = spec.range.required};
}

absl::StatusOr<VolumeRecord> VolumeMaker::NewCopy(const CreateVolumeSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const CopySource source, lookup_.FindSource(spec.source));
  MOORING_ASSIGN_OR_RETURN(const Pool* const source_pool, pools_.Find(source.pool));
  MOORING_RETURN_IF_ERROR(CheckCanClone(*source_pool, "volume_content_source lies in"));
  const std::string pool_name = spec.pool.empty() ? source.pool : spec.pool;
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, pools_.Find(pool_name));
  MOORING_RETURN_IF_ERROR(CheckCanClone(*pool, "the volume is asked for in"));
  MOORING_RETURN_IF_ERROR(CheckSameKind(source.kind, pool->kind, pool_name));
  MOORING_RETURN_IF_ERROR(CheckEncryption(spec.encrypted, !spec.passphrase.empty(), *pool, pools_));
  MOORING_RETURN_IF_ERROR(CheckPossible(spec.tuning, pool->traits()));
  MOORING_RETURN_IF_ERROR(CheckMayKeep(spec, *pool));
  if (!spec.fs_type.empty() && spec.fs_type != source.fs_type) {
    return InvalidArgument(
        "filesystem {} is asked for, and volume_content_source {} was made for {}: a copy keeps its source's",
        spec.fs_type, Quote(spec.source.id), source.fs_type);
  }
  const bool is_volume = spec.source.kind == ContentSource::Kind::kVolume;
  if (is_volume && spec.making != VolumeMaking() && spec.making != source.making) {
    return InvalidArgument("{} is asked for, and volume_content_source {} has {}: a copy keeps its source's",
                           MakingText(spec.making), Quote(spec.source.id), MakingText(source.making));
  }
  MOORING_RETURN_IF_ERROR(CheckConversion(source.block_only, spec));
  if (TraitsOf(source.kind).clones_unused) MOORING_RETURN_IF_ERROR(publications_.CheckNone(spec.source.id));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t chosen, ChooseCloneSize(spec, source.bytes));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                           SizeIn(*pool, chosen, spec.range, std::max(spec.minimum_bytes, source.bytes)));
  if (spec.is_mounted) MOORING_RETURN_IF_ERROR(CheckCanGrow(source.fs_type, source.bytes, bytes));
  return VolumeRecord{.id = NewVolumeId(pool->tag),
                      .name = spec.name,
                      .state = VolumeState::kCreating,
                      .bytes = bytes,
                      .fs_type = source.fs_type,
                      .propagation = spec.propagation,
                      .pool = pool_name,
                      .source = spec.source.id,
                      .tuning = TuningOf(spec, source.making),
                      .block_only = spec.block_only,
                      .asked_bytes = std::max(spec.range.required, source.asked_bytes)};
}

absl::StatusOr<bool> VolumeMaker::InsertWithRoom(const VolumeRecord& record, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  MOORING_ASSIGN_OR_RETURN(const auto room, room_.Lock(*pool, record.bytes, call));
  return store_.Insert(record);
}

// The size of a device becomes the size of the volume.
absl::Status VolumeMaker::MakeIn(const Pool& pool, VolumeRecord& record, const CreateVolumeSpec& spec) {
  MOORING_RETURN_IF_ERROR(pool.backend->Create({.id = record.id,
                                                .bytes = record.bytes,
                                                .device = spec.device,
                                                .limit = spec.range.limit,
                                                .raw = spec.is_raw,
                                                .passphrase = spec.passphrase}));
  if (!pool.traits().whole_devices) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const VolumeLocation made, pool.backend->Locate(record.id));
  if (made.bytes == record.bytes) return absl::OkStatus();
  record.bytes = made.bytes;
  return store_.SetBytes(record.id, made.bytes);
}

// The backend knows which device a volume has.
absl::Status VolumeMaker::CheckSameDevice(const VolumeRecord& existing, const CreateVolumeSpec& spec) {
  if (spec.device.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, existing));
  return Unexpected(
      pool->backend->Create({.id = existing.id, .bytes = existing.bytes, .device = spec.device, .limit = 0}));
}

// The backend knows whether a volume may be used as a raw device.
absl::Status VolumeMaker::CheckSameAccess(const VolumeRecord& existing, const CreateVolumeSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, existing));
  if (!spec.is_raw || !pool->traits().reuses_space) return absl::OkStatus();
  const absl::Status may = CheckMayBeRaw(*pool, existing.id);
  if (absl::IsUnavailable(may)) return absl::OkStatus();  // it waits for a repair, or lvm does not answer
  if (!absl::IsFailedPrecondition(may)) return may;
  return AlreadyExists("a volume named {} exists that was made without block access: delete it, or use another name",
                       Quote(spec.name));
}

absl::Status VolumeMaker::Make(const Pool& pool, VolumeRecord& record, const CreateVolumeSpec& spec) {
  const std::string& name = record.tuning.sub_dir;
  if (!name.empty()) MOORING_RETURN_IF_ERROR(TakeName(pool, record));
  MOORING_RETURN_IF_ERROR(record.source.empty() ? MakeIn(pool, record, spec) : Copy(pool, record, spec));
  return name.empty() ? absl::OkStatus() : pool.backend->SetName(record.id, name);
}

// The name belongs to the first record that has it. So two calls cannot both take it, on any hosts, and a killed one
// does not lose it.
absl::Status VolumeMaker::TakeName(const Pool& pool, const VolumeRecord& record) {
  const std::string& name = record.tuning.sub_dir;
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> first, store_.FindBySubDir(pool.name, name));
  if (first && first->id != record.id) {
    return AlreadyExists("subDir {} is the directory of volume {} ({}): use that, or take another name", Quote(name),
                         first->id, Quote(first->name));
  }
  return pool.backend->TakeName(record.id, name, MayAdopt(record));
}

// A deletion may be under way.
void VolumeMaker::RestoreName(const VolumeRecord& existing) {
  if (existing.tuning.sub_dir.empty()) return;
  const auto hold = lookup_.Lock(existing.id, {std::chrono::steady_clock::now()});
  const auto now = store_.FindById(existing.id);
  if (hold.ok() && now.ok() && *now && (*now)->state == VolumeState::kReady) remover_.RestoreName(**now);
}

// Moves the row from creating to ready, or rolls it back.
absl::StatusOr<VolumeRecord> VolumeMaker::Finish(VolumeRecord record, const CreateVolumeSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  const bool is_copy = !record.source.empty();
  const absl::Status made = Make(*pool, record, spec);
  if (!made.ok()) {
    const bool undone = GiveUp(record, MayHaveLeftFrozen(made));
    return undone ? Unexpected(made) : Unfinished(Unexpected(made), MadeInPart(record));
  }
  const absl::StatusOr<bool> ready = store_.Move(record.id, VolumeState::kCreating, VolumeState::kReady);
  if (!ready.ok()) {
    const bool undone = is_copy && GiveUp(record, false);  // it takes room, and no later call uses it
    return undone ? ready.status() : Unfinished(ready.status(), MadeInPart(record));
  }
  if (*ready) return record;
  // Another process worked on the same row: it finished the volume or rolled it back.
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> now, store_.FindById(record.id));
  if (now && now->state == VolumeState::kReady) return record;
  if (!now) MOORING_RETURN_IF_ERROR(Unexpected(remover_.Remove(*pool->backend, record)));
  return Aborted("another process rolled back the creation of volume {}: call again", Quote(record.name));
}

// A row that cannot be deleted now, on a full disk, does no harm: Create of that name or Reconcile clears it.
bool VolumeMaker::GiveUp(const VolumeRecord& record, bool may_be_frozen) {
  const DeadlineScope fresh = DeadlineScope::Fresh(kRollback);
  const absl::Status undone = remover_.RollBack(record, may_be_frozen);
  log::WarningIfFailed(undone, "a volume that could not be created is not cleaned up yet", {{"volume", record.id}});
  return undone.ok();
}

// An unfinished volume holds the name. If it becomes ready, because another process finished it or because it has data,
// Create finds it in its next attempt.
absl::Status VolumeMaker::ClearName(const VolumeRecord& unfinished, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, lookup_.Lock(unfinished.id, call));
  MOORING_ASSIGN_OR_RETURN(const auto source, lookup_.LockSource(unfinished.source, call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> now, store_.FindById(unfinished.id));
  if (!now || now->state == VolumeState::kReady) return absl::OkStatus();
  return RepeatWhileAborted(call, [&] { return reconciler_.Settle(*now); });
}

absl::Status VolumeMaker::Copy(const Pool& pool, const VolumeRecord& record, const CreateVolumeSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const CopySource source, lookup_.FindSource(spec.source));
  MOORING_RETURN_IF_ERROR(pool.backend->Copy({{.id = record.id,
                                               .source = source.path,
                                               .bytes = record.bytes,
                                               .renew_fs_type = spec.is_mounted ? record.fs_type : "",
                                               .source_id = source.id,
                                               .passphrase = spec.passphrase}}));
  // A file server gives the locks of a host away that was silent, and another host may use the source since then.
  return TraitsOf(source.kind).clones_unused ? publications_.CheckNone(spec.source.id) : absl::OkStatus();
}

}  // namespace mooring

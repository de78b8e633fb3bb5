#include "plugin/catalog/volume_lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/catalog/catalog_locks.h"
#include "plugin/catalog/store/catalog_files.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

absl::Status NoSuchVolume(const std::string& id) { return NotFound("volume {} does not exist", Quote(id)); }

absl::StatusOr<const Pool*> PoolNamed(const Pools& pools, const std::string& name, std::string_view kind,
                                      const std::string& id) {
  absl::StatusOr<const Pool*> pool = pools.Find(name);
  if (pool.ok()) return pool;
  return FailedPrecondition("{} {} lies in a pool that this plugin was not started with: {}", kind, id,
                            Message(pool.status()));
}

}  // namespace

absl::Status Unfinished(const absl::Status& why, const std::string& what) {
  const absl::Status told = Annotate(why, what);
  const bool is_misleading = absl::IsFailedPrecondition(told) || absl::IsAlreadyExists(told);
  return is_misleading ? WithCode(absl::StatusCode::kUnavailable, told) : told;
}

absl::Status LostImage(const std::string& what, const absl::Status& why) {
  if (!absl::IsNotFound(why)) return Annotate(why, what);
  return Internal("{} is in the catalog, but {}: put it back, or delete the {}", what, Message(why),
                  what.substr(0, what.find(' ')));
}

std::uint64_t SizeOf(const Pool& pool, const VolumeLocation& found, std::uint64_t recorded) {
  return pool.traits().enforces_size && found.is_limited ? found.bytes : recorded;
}

absl::StatusOr<std::uint64_t> SizeIn(const Pool& pool, std::uint64_t bytes, const SizeRange& range,
                                     std::uint64_t minimum) {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t rounded, pool.backend->RoundUp(bytes));
  if (range.limit == 0 || rounded <= range.limit) return rounded;
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t unit, pool.backend->RoundUp(1));
  const std::uint64_t below = range.limit - range.limit % unit;
  if (below != 0 && below >= std::max(range.required, minimum)) return below;
  return OutOfRange("capacity_range asks for {}, and the next size that pool {} has is {}: raise limit_bytes",
                    RangeText(range), pool.name, SizeText(rounded));
}

absl::StatusOr<VolumeLocation> LocateIn(const Pool& pool, const std::string& id) {
  absl::StatusOr<VolumeLocation> location = pool.backend->Locate(id);
  if (!absl::IsUnavailable(location.status())) return location;
  pool.backend->WaitFor(id, std::chrono::steady_clock::now());
  return pool.backend->Locate(id);
}

absl::StatusOr<const Pool*> PoolOf(const Pools& pools, const VolumeRecord& record) {
  return PoolNamed(pools, record.pool, "volume", record.id);
}

absl::StatusOr<const Pool*> PoolOf(const Pools& pools, const SnapshotRecord& record) {
  return PoolNamed(pools, record.pool, "snapshot", record.id);
}

absl::StatusOr<KeyedLocks::Hold> VolumeLookup::Lock(const std::string& id, const Call& call) {
  if (!IsVolumeId(id)) return NoSuchVolume(id);
  return LockId(locks_, id, call);
}

absl::StatusOr<std::vector<KeyedLocks::Hold>> VolumeLookup::LockSource(const std::string& id, const Call& call) {
  return LockIds(locks_, IsStoredId(id) ? std::vector{id} : std::vector<std::string>(), call);
}

absl::StatusOr<VolumeRecord> VolumeLookup::FindReady(const std::string& id) {
  if (!IsVolumeId(id)) return NoSuchVolume(id);
  MOORING_ASSIGN_OR_RETURN(std::optional<VolumeRecord> record, store_.FindById(id));
  if (!record || record->state == VolumeState::kCreating) return NoSuchVolume(id);
  if (record->state == VolumeState::kDeleting) return NotFound("volume {} is being deleted", Quote(id));
  return *std::move(record);
}

absl::Status VolumeLookup::Knows(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const VolumeRecord record, FindReady(id));
  return PoolOf(pools_, record).status();
}

absl::Status VolumeLookup::NoteRawUse(const std::string& id, bool read_only) {
  MOORING_ASSIGN_OR_RETURN(const VolumeRecord record, FindReady(id));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  return pool->backend->NoteRawUse(id, read_only);
}

absl::StatusOr<std::string> VolumeLookup::PassphraseOf(const std::string& id, const std::string& given) {
  MOORING_ASSIGN_OR_RETURN(const VolumeRecord record, FindReady(id));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  return pool->traits().encrypted ? pool->backend->PassphraseOr(given) : given;
}

absl::Status VolumeLookup::CheckAnswers(const std::string& id) const {
  const absl::Status answers = store_.files()->OfId(id).status();
  return absl::IsUnavailable(answers) ? answers : absl::OkStatus();
}

absl::StatusOr<NodeVolume> VolumeLookup::Find(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(VolumeRecord record, FindReady(id));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  absl::StatusOr<VolumeLocation> location = LocateIn(*pool, id);
  if (!location.ok()) return LostImage(fmt::format("volume {}", Quote(id)), location.status());
  return NodeVolume{.id = id,
                    .kind = pool->kind,
                    .path = location->path,
                    .inode = location->inode,
                    .inode_device = location->inode_device,
                    .device = location->device,
                    .raw = location->raw,
                    .bytes = SizeOf(*pool, *location, record.bytes),
                    .made_bytes = record.bytes,
                    .fs_type = std::move(record.fs_type),
                    .propagation = record.propagation,
                    .tuning = record.tuning,
                    .block_only = record.block_only,
                    .problem = std::move(location->problem),
                    .unfinished = std::move(location->unfinished),
                    .carrier = std::move(location->carrier)};
}

absl::StatusOr<CopySource> VolumeLookup::FindSource(const ContentSource& wanted) {
  if (wanted.kind == ContentSource::Kind::kVolume) {
    MOORING_ASSIGN_OR_RETURN(VolumeRecord record, FindReady(wanted.id));
    MOORING_ASSIGN_OR_RETURN(NodeVolume volume, Find(wanted.id));
    MOORING_RETURN_IF_ERROR(CheckWhole(volume));
    return CopySource{.kind = volume.kind,
                      .path = StorageOf(volume),
                      .bytes = volume.bytes,
                      .asked_bytes = record.asked_bytes,
                      .fs_type = std::move(record.fs_type),
                      .pool = std::move(record.pool),
                      .id = wanted.id,
                      .block_only = record.block_only,
                      .making = record.tuning.making};
  }
  MOORING_ASSIGN_OR_RETURN(const std::optional<SnapshotRecord> record, snapshots_.FindById(wanted.id));
  if (!record || record->state != SnapshotState::kReady) {
    return NotFound("snapshot {} does not exist", Quote(wanted.id));
  }
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, *record));
  const absl::StatusOr<VolumeLocation> image = pool->backend->Locate(record->id);
  if (!image.ok()) return Unexpected(image.status());
  const std::uint64_t bytes = SizeOf(*pool, *image, record->bytes);
  MOORING_RETURN_IF_ERROR(CheckWhole("snapshot " + record->id, StorageOf(*image), bytes, record->bytes));
  return CopySource{.kind = pool->kind,
                    .path = StorageOf(*image),
                    .bytes = bytes,
                    .asked_bytes = record->restore_bytes,
                    .fs_type = record->fs_type,
                    .pool = record->pool,
                    .id = wanted.id,
                    .block_only = record->block_only};
}

}  // namespace mooring

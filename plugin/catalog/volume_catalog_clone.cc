// Creates volumes as copies of a snapshot or of another volume.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

absl::StatusOr<std::uint64_t> ChooseCloneSize(const CreateVolumeSpec& spec, std::uint64_t source_bytes) {
  if (spec.range.limit != 0 && spec.range.limit < source_bytes) {
    return OutOfRange(fmt::format("capacity_range asks for {}, and volume_content_source {} has {}: raise limit_bytes",
                                  RangeText(spec.range), Quote(spec.source.id), SizeText(source_bytes)));
  }
  const SizeRange range = {.required = std::max(spec.range.required, source_bytes), .limit = spec.range.limit};
  return ChooseSize(range, spec.minimum_bytes);
}

absl::Status CheckCanClone(BackendKind kind, const std::string& pool, std::string_view what) {
  if (TraitsOf(kind).clones) return absl::OkStatus();
  return FailedPrecondition(
      fmt::format("{} pool {}, whose backend copies no volumes: only images can be copied", what, Quote(pool)));
}

// Kubernetes calls it "prevention of volume mode conversion".
absl::Status CheckConversion(bool source_block_only, const CreateVolumeSpec& spec) {
  if (!source_block_only || !spec.is_mounted || spec.allows_conversion) return absl::OkStatus();
  return InvalidArgument(
      fmt::format("mount access is asked for, and volume_content_source {} was made for block access only: whoever had "
                  "it wrote every byte of what would be mounted; ask for block access, or set the parameter "
                  "{}=true where that user is trusted",
                  Quote(spec.source.id), kConversionKey));
}

}  // namespace

absl::StatusOr<std::optional<KeyedLocks::Hold>> VolumeCatalog::LockSource(const std::string& id, const Call& call) {
  if (!IsStoredId(id)) return std::optional<KeyedLocks::Hold>();  // there is no source, or its id is not of this plugin
  MOORING_ASSIGN_OR_RETURN(KeyedLocks::Hold hold,
                           locks_.Acquire(id, IsVolumeId(id) ? "volume" : "snapshot", call.wait_until));
  return std::optional<KeyedLocks::Hold>(std::move(hold));
}

absl::StatusOr<VolumeCatalog::Source> VolumeCatalog::FindSource(const ContentSource& wanted) {
  if (wanted.kind == ContentSource::Kind::kVolume) {
    MOORING_ASSIGN_OR_RETURN(const VolumeRecord record, FindReady(wanted.id));
    MOORING_ASSIGN_OR_RETURN(NodeVolume volume, Find(wanted.id));
    MOORING_RETURN_IF_ERROR(CheckWhole(volume));
    return Source{.kind = volume.kind,
                  .path = std::move(volume.path),
                  .bytes = volume.bytes,
                  .asked_bytes = record.asked_bytes,
                  .fs_type = record.fs_type,
                  .pool = record.pool,
                  .block_only = record.block_only};
  }
  MOORING_ASSIGN_OR_RETURN(const std::optional<SnapshotRecord> record, snapshots_.FindById(wanted.id));
  if (!record || record->state != SnapshotState::kReady) {
    return NotFound(fmt::format("snapshot {} does not exist", Quote(wanted.id)));
  }
  const absl::StatusOr<const Pool*> pool = pools_.Find(record->pool);
  if (!pool.ok()) return WithCode(absl::StatusCode::kFailedPrecondition, pool.status());
  const absl::StatusOr<VolumeLocation> image = (*pool)->backend->Locate(record->id);
  if (!image.ok()) return Unexpected(image.status());
  MOORING_RETURN_IF_ERROR(CheckWhole("snapshot " + record->id, image->path, image->bytes, record->bytes));
  return Source{.kind = (*pool)->kind,
                .path = image->path,
                .bytes = image->bytes,
                .asked_bytes = record->restore_bytes,
                .fs_type = record->fs_type,
                .pool = record->pool,
                .block_only = record->block_only};
}

absl::StatusOr<VolumeRecord> VolumeCatalog::NewClone(const CreateVolumeSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const Source source, FindSource(spec.source));
  MOORING_RETURN_IF_ERROR(CheckCanClone(source.kind, source.pool, "volume_content_source lies in"));
  const std::string pool_name = spec.pool.empty() ? source.pool : spec.pool;
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, pools_.Find(pool_name));
  MOORING_RETURN_IF_ERROR(CheckCanClone(pool->kind, pool_name, "the volume is asked for in"));
  MOORING_RETURN_IF_ERROR(CheckPossible(spec.tuning, pool->traits()));
  if (!spec.fs_type.empty() && spec.fs_type != source.fs_type) {
    return InvalidArgument(
        fmt::format("filesystem {} is asked for, and volume_content_source {} was made for {}: a "
                    "copy keeps its source's",
                    spec.fs_type, Quote(spec.source.id), source.fs_type));
  }
  MOORING_RETURN_IF_ERROR(CheckConversion(source.block_only, spec));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, ChooseCloneSize(spec, source.bytes));
  if (spec.is_mounted) MOORING_RETURN_IF_ERROR(CheckCanGrow(source.fs_type, source.bytes, bytes));
  return VolumeRecord{.id = NewVolumeId(),
                      .name = spec.name,
                      .state = VolumeState::kCreating,
                      .bytes = bytes,
                      .fs_type = source.fs_type,
                      .propagation = spec.propagation,
                      .pool = pool_name,
                      .source = spec.source.id,
                      .tuning = With({}, spec.tuning),
                      .block_only = spec.block_only,
                      .asked_bytes = std::max(spec.range.required, source.asked_bytes)};
}

absl::Status VolumeCatalog::Populate(const VolumeRecord& record, const CreateVolumeSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  MOORING_ASSIGN_OR_RETURN(const Source source, FindSource(spec.source));
  return pool->backend->Copy({{.id = record.id,
                               .source = source.path,
                               .bytes = record.bytes,
                               .renew_fs_type = spec.is_mounted ? record.fs_type : ""}});
}

// An interrupted copy may have left its source frozen. Snapshots are never mounted.
absl::Status VolumeCatalog::ThawSource(const VolumeRecord& record) {
  if (!IsVolumeId(record.source)) return absl::OkStatus();
  const absl::StatusOr<NodeVolume> source = Find(record.source);
  return source.ok() ? Unexpected(contents_.Thaw(source->path)) : absl::OkStatus();
}

}  // namespace mooring

#include "plugin/catalog/volume_catalog.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/catalog/page.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

absl::Status CannotGrow(const Pool& pool, std::uint64_t bytes) {
  return OutOfRange("the volume has {} and stays so: pool {} has the backend {}, whose volumes do not grow",
                    SizeText(bytes), pool.name, ToString(pool.kind));
}

// Finds the problems of the volumes of one answer. It is fast, because lists ask it for every volume: it does not look
// at filesystems in use, and asks each pool once.
class VolumeProblems {
 public:
  explicit VolumeProblems(const Pools& pools) : pools_(pools) {}

  VolumeInfo InfoWithProblem(ListedVolume listed) {
    VolumeInfo info = {{std::move(listed.volume)}, std::move(listed.nodes)};
    const absl::StatusOr<const Pool*> pool = pools_.Find(info.pool);
    if (pool.ok()) info.kind = (*pool)->kind;
    info.problem = ProblemOf(info);
    return info;
  }

 private:
  struct PoolProblem {
    bool hides_volumes = false;  // a look at one of its volumes could hang
    std::string text = {};
  };

  std::string ProblemOf(const VolumeRecord& record) {
    const absl::StatusOr<const Pool*> pool = PoolOf(pools_, record);
    if (!pool.ok()) return Message(pool.status());
    const PoolProblem& of_pool = ProblemOf(**pool);
    if (of_pool.hides_volumes) return of_pool.text;
    const absl::StatusOr<VolumeLocation> location = (*pool)->backend->Locate(record.id);
    if (!location.ok()) return Message(LostImage(fmt::format("volume {}", Quote(record.id)), location.status()));
    if (!location->problem.empty()) return location->problem;
    if (!location->path.empty() && SizeOf(**pool, *location, record.bytes) < record.bytes) {
      return fmt::format("{} is cut short: {} bytes of {}; restore it", Quote(StorageOf(*location)), location->bytes,
                         record.bytes);
    }
    return of_pool.text;
  }

  const PoolProblem& ProblemOf(const Pool& pool) {
    const auto known = pools_asked_.find(pool.name);
    if (known != pools_asked_.end()) return known->second;
    const absl::StatusOr<BackendCapacity> capacity = pool.backend->Capacity();
    return pools_asked_[pool.name] = {.hides_volumes = absl::IsUnavailable(capacity.status()),
                                      .text = capacity.ok() ? capacity->shortage : Message(capacity.status())};
  }

  const Pools& pools_;
  std::map<std::string, PoolProblem> pools_asked_;  // by name
};

}  // namespace

VolumeCatalog::VolumeCatalog(CatalogStore& store, SnapshotStore& snapshots, const Pools& pools,
                             KeyedLocks& volume_locks, Contents& contents, Settings settings)
    : store_(store),
      pools_(pools),
      lookup_(store, snapshots, pools, volume_locks),
      room_(store, snapshots, volume_locks),
      publications_(store, lookup_, pools, settings.node_id, settings.max_volumes, settings.serves_node),
      remover_(store, lookup_, pools, contents),
      reconciler_(store, snapshots, pools, volume_locks, lookup_, remover_),
      maker_(store, pools, volume_locks, lookup_, room_, publications_, remover_, reconciler_,
             {std::move(settings.node_id), std::move(settings.topology)}) {}

std::vector<KnownDevice> VolumeCatalog::KnownDevices() {
  std::vector<KnownDevice> devices;
  for (const Pool& pool : pools_.all()) {
    if (pool.backend == nullptr) continue;
    const std::vector<KnownDevice> here = pool.backend->KnownDevices();
    devices.insert(devices.end(), here.begin(), here.end());
  }
  return devices;
}

void VolumeCatalog::WaitFor(const std::string& id, std::chrono::steady_clock::time_point until) {
  const absl::StatusOr<VolumeRecord> record = lookup_.FindReady(id);
  if (!record.ok()) return;
  const absl::StatusOr<const Pool*> pool = PoolOf(pools_, *record);
  if (pool.ok()) (*pool)->backend->WaitFor(id, until);
}

absl::StatusOr<VolumeInfo> VolumeCatalog::Create(const CreateVolumeSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(VolumeRecord record, maker_.Create(spec, call));
  return VolumeInfo{{std::move(record)}};
}

absl::Status VolumeCatalog::Delete(const std::string& id, const Call& call, const IsStaged& is_staged) {
  if (!IsVolumeId(id)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, lookup_.Lock(id, call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> record, store_.FindById(id));
  if (!record) return absl::OkStatus();
  const bool ready = record->state == VolumeState::kReady;
  const absl::Status unpublished = ready ? publications_.CheckNone(id) : absl::OkStatus();
  const absl::Status deleted = remover_.Delete(*record, [&]() -> absl::Status {
    if (!is_staged) return unpublished;
    MOORING_ASSIGN_OR_RETURN(const bool staged, is_staged(id));
    return staged ? FailedPrecondition("the volume is staged on this host: unstage it first") : unpublished;
  });
  if (deleted == unpublished) return deleted;  // it is unused on this host
  if (!absl::IsFailedPrecondition(deleted) || !absl::IsFailedPrecondition(unpublished)) return deleted;
  return FailedPrecondition("{}. Then: {}", Message(deleted), Message(unpublished));
}

absl::StatusOr<VolumeInfo> VolumeCatalog::Get(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(VolumeRecord record, lookup_.FindReady(id));
  MOORING_ASSIGN_OR_RETURN(const std::vector<PublicationRecord> publications, store_.Publications(id));
  ListedVolume listed{std::move(record), {}};
  for (const PublicationRecord& publication : publications) listed.nodes.push_back(publication.node_id);
  return VolumeProblems(pools_).InfoWithProblem(std::move(listed));
}

absl::StatusOr<VolumePage> VolumeCatalog::List(const PageSpec& spec) {
  VolumePage page;
  VolumeProblems problems(pools_);
  const auto list = [this](std::int64_t after, std::size_t most) { return store_.ListReady(after, most); };
  const auto add = [&](ListedVolume& listed) {
    const std::int64_t seq = listed.volume.seq;
    page.volumes.push_back(problems.InfoWithProblem(std::move(listed)));
    return seq;
  };
  MOORING_ASSIGN_OR_RETURN(page.next, ReadPage(spec.after, spec.max_entries, list, add));
  return page;
}

absl::StatusOr<CapacityInfo> VolumeCatalog::Capacity(const CapacitySpec& spec) {
  const absl::StatusOr<const Pool*> pool = pools_.Find(spec.pool);
  if (!spec.possible || !pool.ok()) return CapacityInfo();
  if (!(*pool)->shared() && !maker_.node().HasAll(spec.topology)) return CapacityInfo();
  return room_.Capacity(**pool, spec.minimum_bytes);
}

// The new space of a raw device is cleared before a task sees it, and the device may have another number then.
static absl::Status CheckNotStaged(const std::string& id, const VolumeCatalog::IsStaged& is_staged) {
  if (!is_staged) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool staged, is_staged(id));
  if (!staged) return absl::OkStatus();
  return FailedPrecondition(
      "volume {} is staged as a raw device, and grows only unused: unpublish and unstage it first", id);
}

absl::StatusOr<std::uint64_t> VolumeCatalog::Expand(const ControllerExpandSpec& spec, const Call& call,
                                                    const IsStaged& is_staged) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, lookup_.Lock(spec.volume_id, call));
  MOORING_RETURN_IF_ERROR(Find(spec.volume_id).status());  // only an existing image is expanded
  MOORING_ASSIGN_OR_RETURN(const VolumeRecord record, lookup_.FindReady(spec.volume_id));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t chosen, ChooseGrownSize(spec.range, record.bytes));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  // Where space has to be cleared, an earlier growth may have been interrupted after the size had changed.
  const bool is_done = chosen == record.bytes;
  if (is_done && (!pool->traits().reuses_space || CheckMayBeRaw(*pool, spec.volume_id).ok())) return chosen;
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                           is_done ? chosen : SizeIn(*pool, chosen, spec.range, record.bytes + 1));
  if (!pool->traits().grows) return CannotGrow(*pool, record.bytes);
  if (pool->traits().reuses_space) MOORING_RETURN_IF_ERROR(CheckNotStaged(spec.volume_id, is_staged));
  if (!record.block_only) MOORING_RETURN_IF_ERROR(CheckCanGrow(record.fs_type, record.bytes, bytes));
  MOORING_ASSIGN_OR_RETURN(const auto room, room_.Lock(*pool, bytes - record.bytes, call));
  MOORING_RETURN_IF_ERROR(Unexpected(pool->backend->Grow(spec.volume_id, bytes)));
  if (is_done) return bytes;
  // If the process is killed here, the image is larger than its record. The same call or Reconcile corrects that.
  MOORING_RETURN_IF_ERROR(store_.SetBytes(spec.volume_id, bytes, spec.range.required));
  return bytes;
}

// The record is changed first, so every later stage uses it. After a kill the same call or the next stage applies the
// rest.
absl::Status VolumeCatalog::Modify(const ModifySpec& spec, const Apply& apply, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, lookup_.Lock(spec.volume_id, call));
  MOORING_ASSIGN_OR_RETURN(const VolumeRecord record, lookup_.FindReady(spec.volume_id));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  MOORING_RETURN_IF_ERROR(CheckPossible(spec.change, pool->traits()));
  MOORING_ASSIGN_OR_RETURN(NodeVolume volume, Find(spec.volume_id));
  volume.tuning = With(record.tuning, spec.change);
  const bool is_new = volume.tuning != record.tuning;
  if (is_new) MOORING_RETURN_IF_ERROR(store_.SetTuning(record.id, volume.tuning));
  absl::Status applied = Unexpected(apply(volume));
  if (applied.ok() || !is_new) return applied;
  volume.tuning = record.tuning;
  absl::Status undone = store_.SetTuning(record.id, record.tuning);
  if (undone.ok()) undone = apply(volume);
  log::WarningIfFailed(undone, "a failed change of a volume is not rolled back everywhere", {{"volume", record.id}});
  return applied;
}

}  // namespace mooring

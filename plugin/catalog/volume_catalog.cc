// Looks up, publishes and expands volumes. volume_catalog_create.cc creates and deletes them, volume_catalog_clone.cc
// copies them, and volume_catalog_reconcile.cc runs at the start.
#include "plugin/catalog/volume_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

constexpr std::size_t kListChunk = 500;  // other reads can run between the chunks of a long list

absl::Status NoSuchVolume(const std::string& id) {
  return NotFound(fmt::format("volume {} does not exist", Quote(id)));
}

PublicationRecord ToRecord(const ControllerPublishSpec& spec) {
  return {.volume_id = spec.volume_id,
          .node_id = spec.node_id,
          .access_type = ToString(spec.capability.access_type),
          .capability = ToString(spec.capability),
          .read_only = spec.read_only};
}

std::string HowPublished(const PublicationRecord& record) {
  return fmt::format("{}, {}", record.access_type, record.read_only ? "read-only" : "read-write");
}

// The capability of a record begins with the access type and the mode.
bool IsForSeveral(const PublicationRecord& record) {
  for (const AccessMode mode : {AccessMode::kMultiNodeReaderOnly, AccessMode::kMultiNodeSingleWriter,
                                AccessMode::kMultiNodeMultiWriter, AccessMode::kSingleNodeMultiWriter}) {
    if (record.capability.starts_with(record.access_type + " " + ToString(mode))) return true;
  }
  return false;
}

// Whether a repeated publish agrees with the existing one. Access modes and mount flags may differ, because Nomad
// publishes a volume once for each way in which a group of tasks uses it. In multi-writer modes it publishes read-only
// and read-write at the same time.
absl::Status CheckCompatible(const PublicationRecord& there, const PublicationRecord& wanted) {
  if (there.node_id != wanted.node_id) {
    return FailedPrecondition(fmt::format(
        "volume {} is published to node {}: unpublish it there (ControllerUnpublishVolume) before it goes to node {}",
        Quote(wanted.volume_id), Quote(there.node_id), Quote(wanted.node_id)));
  }
  const bool mixes = IsForSeveral(there) && IsForSeveral(wanted);
  if (there.access_type == wanted.access_type && (mixes || there.read_only == wanted.read_only))
    return absl::OkStatus();
  return AlreadyExists(
      fmt::format("volume {} is published to node {} already, as {}; now {} is asked for: unpublish it first",
                  Quote(wanted.volume_id), Quote(wanted.node_id), HowPublished(there), HowPublished(wanted)));
}

absl::Status CannotGrow(const Pool& pool, std::uint64_t bytes) {
  return OutOfRange(fmt::format("the volume has {} and stays so: pool {} has the backend {}, whose volumes do not grow",
                                SizeText(bytes), pool.name, ToString(pool.kind)));
}

}  // namespace

VolumeInfo VolumeCatalog::ToInfo(ListedVolume listed) {
  return {.id = std::move(listed.volume.id),
          .bytes = listed.volume.bytes,
          .fs_type = std::move(listed.volume.fs_type),
          .propagation = listed.volume.propagation,
          .pool = std::move(listed.volume.pool),
          .source = std::move(listed.volume.source),
          .published_nodes = std::move(listed.nodes),
          .block_only = listed.volume.block_only,
          .asked_bytes = listed.volume.asked_bytes};
}

VolumeCatalog::VolumeCatalog(CatalogStore& store, SnapshotStore& snapshots, const Pools& pools,
                             KeyedLocks& volume_locks, Contents& contents, Settings settings)
    : store_(store),
      snapshots_(snapshots),
      pools_(pools),
      locks_(volume_locks),
      contents_(contents),
      settings_(std::move(settings)) {}

absl::StatusOr<const Pool*> VolumeCatalog::PoolOf(const VolumeRecord& record) const {
  absl::StatusOr<const Pool*> pool = pools_.Find(record.pool);
  if (pool.ok()) return pool;
  return FailedPrecondition(fmt::format("volume {} lies in a pool that this plugin was not started with: {}", record.id,
                                        Message(pool.status())));
}

absl::Status VolumeCatalog::CheckAccess(const VolumeRecord& record, const Capability& capability) const {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  if (capability.access_type == AccessType::kMount || pool->traits().block) return absl::OkStatus();
  return InvalidArgument(NoBlockAccess(pool->name, pool->kind));
}

absl::StatusOr<KeyedLocks::Hold> VolumeCatalog::Lock(const std::string& id, const Call& call) {
  if (!IsVolumeId(id)) return NoSuchVolume(id);
  return locks_.Acquire(id, "volume", call.wait_until);
}

absl::StatusOr<VolumeRecord> VolumeCatalog::FindReady(const std::string& id) {
  if (!IsVolumeId(id)) return NoSuchVolume(id);
  MOORING_ASSIGN_OR_RETURN(std::optional<VolumeRecord> record, store_.FindById(id));
  if (!record || record->state == VolumeState::kCreating) return NoSuchVolume(id);
  if (record->state == VolumeState::kDeleting) {
    return NotFound(fmt::format("volume {} is being deleted", Quote(id)));
  }
  return *std::move(record);
}

absl::StatusOr<NodeVolume> VolumeCatalog::Find(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(VolumeRecord record, FindReady(id));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  absl::StatusOr<VolumeLocation> location = pool->backend->Locate(id);
  if (!location.ok()) {
    return Internal(fmt::format("volume {} is in the catalog, but {}: put it back, or delete the volume", Quote(id),
                                Message(location.status())));
  }
  return NodeVolume{.id = id,
                    .kind = pool->kind,
                    .path = location->path,
                    .inode = location->inode,
                    .device = location->device,
                    .bytes = pool->traits().enforces_size ? location->bytes : record.bytes,
                    .made_bytes = record.bytes,
                    .fs_type = std::move(record.fs_type),
                    .propagation = record.propagation,
                    .tuning = record.tuning,
                    .block_only = record.block_only};
}

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
  const absl::StatusOr<VolumeRecord> record = FindReady(id);
  if (!record.ok()) return;
  const absl::StatusOr<const Pool*> pool = PoolOf(*record);
  if (pool.ok()) (*pool)->backend->WaitFor(id, until);
}

absl::StatusOr<VolumeInfo> VolumeCatalog::Get(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(VolumeRecord record, FindReady(id));
  MOORING_ASSIGN_OR_RETURN(const std::vector<PublicationRecord> publications, store_.Publications(id));
  ListedVolume listed{std::move(record), {}};
  for (const PublicationRecord& publication : publications) listed.nodes.push_back(publication.node_id);
  Shortages shortages;
  return InfoWithProblem(std::move(listed), shortages);
}

absl::StatusOr<VolumePage> VolumeCatalog::List(const ListVolumesSpec& spec) {
  const std::size_t most = spec.max_entries == 0 ? std::numeric_limits<std::size_t>::max() : spec.max_entries;
  VolumePage page;
  Shortages shortages;
  std::int64_t after = spec.after;
  while (true) {
    const std::size_t wanted = std::min(kListChunk, most - page.volumes.size());
    // An additional entry shows whether there is a next page.
    MOORING_ASSIGN_OR_RETURN(std::vector<ListedVolume> chunk, store_.ListReady(after, wanted + 1));
    const bool more = chunk.size() > wanted;
    if (more) chunk.pop_back();
    if (!chunk.empty()) after = chunk.back().volume.seq;
    for (ListedVolume& listed : chunk) page.volumes.push_back(InfoWithProblem(std::move(listed), shortages));
    if (!more) return page;
    if (page.volumes.size() == most) {
      page.next = after;
      return page;
    }
  }
}

// It is fast, because lists ask it for every volume. It does not look at filesystems in use.
std::string VolumeCatalog::ProblemOf(const VolumeRecord& record, Shortages& shortages) const {
  const absl::StatusOr<const Pool*> pool = PoolOf(record);
  if (!pool.ok()) return Message(pool.status());
  const absl::StatusOr<VolumeLocation> location = (*pool)->backend->Locate(record.id);
  if (!location.ok()) return Message(location.status()) + ": put it back, or delete the volume";
  if (!location->path.empty() && (*pool)->traits().enforces_size && location->bytes < record.bytes) {
    return fmt::format("{} is cut short: {} bytes of {}; restore it", Quote(location->path), location->bytes,
                       record.bytes);
  }
  const auto known = shortages.find(record.pool);
  if (known != shortages.end()) return known->second;
  const absl::StatusOr<BackendCapacity> capacity = (*pool)->backend->Capacity();
  return shortages[record.pool] = capacity.ok() ? capacity->shortage : Message(capacity.status());
}

VolumeInfo VolumeCatalog::InfoWithProblem(ListedVolume listed, Shortages& shortages) const {
  std::string problem = ProblemOf(listed.volume, shortages);
  VolumeInfo info = ToInfo(std::move(listed));
  const absl::StatusOr<const Pool*> pool = pools_.Find(info.pool);
  if (pool.ok()) info.kind = (*pool)->kind;
  info.problem = std::move(problem);
  return info;
}

absl::StatusOr<std::uint64_t> VolumeCatalog::Expand(const ControllerExpandSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(spec.volume_id, call));
  MOORING_RETURN_IF_ERROR(Find(spec.volume_id).status());  // only an existing image is expanded
  MOORING_ASSIGN_OR_RETURN(const VolumeRecord record, FindReady(spec.volume_id));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, ChooseGrownSize(spec.range, record.bytes));
  if (bytes == record.bytes) return bytes;
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  if (!pool->traits().grows) return CannotGrow(*pool, record.bytes);
  if (!record.block_only) MOORING_RETURN_IF_ERROR(CheckCanGrow(record.fs_type, record.bytes, bytes));
  MOORING_ASSIGN_OR_RETURN(const auto room, HoldRoom(*pool, bytes - record.bytes, call));
  MOORING_RETURN_IF_ERROR(Unexpected(pool->backend->Grow(spec.volume_id, bytes)));
  // If the process is killed here, the image is larger than its record. The same call or Reconcile corrects that.
  MOORING_RETURN_IF_ERROR(store_.SetBytes(spec.volume_id, bytes, spec.range.required));
  return bytes;
}

absl::Status VolumeCatalog::Publish(const ControllerPublishSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(spec.volume_id, call));
  MOORING_ASSIGN_OR_RETURN(const VolumeRecord record, FindReady(spec.volume_id));
  MOORING_RETURN_IF_ERROR(CheckAccess(record, spec.capability));
  if (spec.node_id != settings_.node_id) {
    return NotFound(fmt::format("node {} is not known here: volume {} lives on node {} and can be published only there",
                                Quote(spec.node_id), Quote(spec.volume_id), Quote(settings_.node_id)));
  }
  PublicationRecord wanted = ToRecord(spec);
  MOORING_ASSIGN_OR_RETURN(const std::vector<PublicationRecord> there, store_.Publications(spec.volume_id));
  for (const PublicationRecord& publication : there) {
    MOORING_RETURN_IF_ERROR(CheckCompatible(publication, wanted));
    if (publication.capability == wanted.capability && publication.read_only == wanted.read_only)
      return absl::OkStatus();
    wanted.read_only = wanted.read_only && publication.read_only;  // read-write wins over read-only
  }
  // A volume that is already published to the node keeps its place.
  const std::int64_t most = there.empty() ? settings_.max_volumes : 0;
  MOORING_ASSIGN_OR_RETURN(const bool done, store_.PutPublication(wanted, most));
  if (done) return absl::OkStatus();
  return ResourceExhausted(
      fmt::format("node {} has {} volumes published to it, as many as --max-volumes allows: "
                  "unpublish one first, or raise the limit",
                  Quote(spec.node_id), settings_.max_volumes));
}

absl::Status VolumeCatalog::Unpublish(const ControllerUnpublishSpec& spec, const Call& call) {
  if (!IsVolumeId(spec.volume_id)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(spec.volume_id, call));
  return store_.DeletePublications(spec.volume_id, spec.node_id);
}

bool VolumeCatalog::IsHere(const Segments& wanted) const {
  return std::all_of(wanted.begin(), wanted.end(), [this](const auto& segment) {
    const auto ours = settings_.topology.find(segment.first);
    return ours != settings_.topology.end() && ours->second == segment.second;
  });
}

bool VolumeCatalog::IsReachable(const std::vector<Segments>& topologies) const {
  return topologies.empty() ||
         std::any_of(topologies.begin(), topologies.end(), [this](const Segments& wanted) { return IsHere(wanted); });
}

}  // namespace mooring

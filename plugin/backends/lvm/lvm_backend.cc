#include "plugin/backends/lvm/lvm_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/device_links.h"
#include "mounter/path/lvm_names.h"
#include "plugin/backends/device/device_use.h"
#include "plugin/backends/device/mapped_disks.h"
#include "plugin/model/volume_id.h"
#include "plugin/model/volume_mount.h"
#include "plugin/model/volume_size.h"

namespace mooring {
namespace {

constexpr char kGroup[] = "vg", kThinPool[] = "thinpool";
// The age of an answer that is good enough.
constexpr std::chrono::seconds kForMetrics{30}, kForSnapshots{5}, kForFailures{1};

constexpr std::chrono::seconds kPatienceOfMetrics{2};

std::string PoolText(const PoolConfig& pool) {
  const auto thin = pool.own_keys.find(kThinPool);
  return pool.own_keys.at(kGroup) + (thin == pool.own_keys.end() ? "" : "/" + thin->second);
}

bool IsThin(const PoolConfig& pool) { return pool.own_keys.contains(kThinPool); }

// fnmatch(3), of the links to the devices: no other name has the form of an id.
std::string LinksOf(const std::string& group) {
  return LvmDeviceName(group, kVolumeIdPrefix) + HexDigitsPattern(2 * kVolumeIdBytes);
}

const LogicalVolume* FindIn(const LvmReport& report, const std::string& id) {
  const auto found = std::find_if(report.volumes.begin(), report.volumes.end(),
                                  [&id](const LogicalVolume& volume) { return volume.name == id; });
  return found == report.volumes.end() ? nullptr : &*found;
}

// False: it was made for a filesystem.
bool MayBecomeRaw(const LogicalVolume& volume) { return volume.is_cleared || volume.is_growing || volume.is_enlarged; }

std::string UnfinishedGrowth(const LogicalVolume& volume) {
  if (!volume.is_growing) return "";
  return fmt::format(
      "the growth of volume {} was interrupted, and its new part is not cleared yet: expand it again (mooring csi "
      "expand "
      "--size {})",
      volume.name, SizeText(volume.bytes));
}

BackendCapacity CapacityOf(const LvmReport& report) {
  const std::uint64_t extent = std::max<std::uint64_t>(report.extent_bytes, 1);
  const std::uint64_t usable = report.problem.empty() ? report.free_bytes : 0;
  return {.total = report.bytes,
          .available = usable,
          .largest_volume = std::min(usable - usable % extent, kLargestVolumeBytes),
          .shortage = report.problem};
}

}  // namespace

LvmBackend::LvmBackend(std::string pool, std::unique_ptr<Disks> disks, Mounter& mounter)
    : pool_(std::move(pool)),
      group_(pool_.substr(0, pool_.find('/'))),
      is_thin_(group_.size() != pool_.size()),
      disks_(std::move(disks)),
      mounter_(mounter) {}

std::string LvmBackend::LinkOf(const std::string& id) const { return LvmDeviceName(group_, id); }

// Ids have no doubled dashes, and lvm doubles each of theirs.
std::string LvmBackend::IdOfLink(const std::string& link) const {
  std::string id;
  for (std::size_t at = LvmDeviceName(group_, "").size(); at < link.size(); ++at) {
    id += link[at];
    if (link.compare(at, 2, "--") == 0) ++at;
  }
  return IsVolumeId(id) && LinkOf(id) == link ? id : "";
}

// ---- reports

// A report that a change overtook is not kept.
absl::StatusOr<LvmReport> LvmBackend::Ask() const {
  std::uint64_t changes = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok() && Clock::now() - failed_ < kForFailures) return failure_;
    changes = changes_;
  }
  absl::StatusOr<LvmReport> report = mounter_.ReportLvm(pool_);
  const std::lock_guard<std::mutex> lock(mutex_);
  failure_ = absl::IsUnavailable(report.status()) ? report.status() : absl::OkStatus();
  failed_ = Clock::now();
  if (!report.ok()) return report;
  problem_ = report->problem;
  if (changes_ != changes) return report;
  finished_.clear();
  for (const LogicalVolume& volume : report->volumes) {
    if (!volume.is_new && !volume.is_growing) finished_[volume.name] = {.bytes = volume.bytes, .is_raw = volume.is_raw};
  }
  last_ = *report;
  asked_ = Clock::now();
  return report;
}

absl::StatusOr<LvmReport> LvmBackend::AskUnlessYounger(Clock::duration age) const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (last_ && Clock::now() - asked_ < age) return *last_;
  }
  return Ask();
}

void LvmBackend::Forget(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++changes_;
  last_.reset();
  finished_.erase(id);
}

// A report that is made meanwhile may know the volume as it was before.
absl::Status LvmBackend::Change(const std::string& id, const std::function<absl::Status()>& call) {
  Forget(id);
  const absl::Status changed = call();
  Forget(id);
  return changed;
}

absl::Status LvmBackend::Make(const NewLogicalVolume& volume) {
  return Change(volume.name, [&] { return mounter_.MakeLogicalVolume(volume); });
}

absl::Status LvmBackend::Remove(const std::string& id) {
  return Change(id, [&] { return mounter_.RemoveLogicalVolume({pool_, id}); });
}

// Empty: no report had it as finished since its last change. Another process may have changed its size.
std::optional<VolumeLocation> LvmBackend::KnownLocation(const std::string& id, const Disk& disk) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = finished_.find(id);
  if (known == finished_.end() || known->second.bytes != disk.bytes) return std::nullopt;
  return VolumeLocation{
      .path = disk.node, .bytes = disk.bytes, .device = disk.number, .raw = known->second.is_raw, .problem = problem_};
}

// ---- sizes

absl::StatusOr<std::uint64_t> LvmBackend::RoundUp(std::uint64_t bytes) const {
  MOORING_ASSIGN_OR_RETURN(const LvmReport report, AskUnlessYounger(kForMetrics));
  const std::uint64_t extent = std::max<std::uint64_t>(report.extent_bytes, 1);
  return (bytes + extent - 1) / extent * extent;
}

absl::Status LvmBackend::CheckRoom(const LvmReport& report, std::uint64_t more_bytes) const {
  if (is_thin_ && !report.problem.empty()) return ResourceExhausted("{}", report.problem);
  if (more_bytes <= report.free_bytes) return absl::OkStatus();
  return OutOfRange("{} are needed, and {} {} has {} left: ask for less, or extend it (lvextend, vgextend)",
                    SizeText(more_bytes), is_thin_ ? "thin pool" : "volume group", Quote(pool_),
                    SizeText(report.free_bytes));
}

absl::StatusOr<BackendCapacity> LvmBackend::Capacity() const {
  MOORING_ASSIGN_OR_RETURN(const LvmReport report, Ask());
  return CapacityOf(report);
}

absl::StatusOr<BackendCapacity> LvmBackend::QuickCapacity() const {
  const DeadlineScope soon(Clock::now() + kPatienceOfMetrics);
  MOORING_ASSIGN_OR_RETURN(const LvmReport report, AskUnlessYounger(kForMetrics));
  return CapacityOf(report);
}

// ---- volumes

absl::Status LvmBackend::Create(const VolumeDraft& draft) {
  if (!IsVolumeId(draft.id)) return Internal("{} is no id of a volume", Quote(draft.id));
  MOORING_ASSIGN_OR_RETURN(const LvmReport report, Ask());
  const LogicalVolume* const there = FindIn(report, draft.id);
  if (there == nullptr) MOORING_RETURN_IF_ERROR(CheckRoom(report, draft.bytes));
  if (there != nullptr && !there->is_new && draft.raw && !MayBecomeRaw(*there)) {
    return AlreadyExists("the volume was made without block access");
  }
  return Make({.pool = pool_, .name = draft.id, .bytes = draft.bytes, .clear = draft.raw && !is_thin_});
}

// A raw device that is published counts before its task has opened it.
bool LvmBackend::IsUsed(const LogicalVolume& volume) {
  return volume.is_open || (IsVolumeId(volume.name) && !CheckUnused(volume.name).ok());
}

// Each snapshot is of an instant of its own. Two volumes that nobody writes to have every instant in common.
absl::Status LvmBackend::CheckSources(const LvmReport& report, const std::vector<CopyDraft>& drafts) {
  const bool is_group = drafts.size() > 1;  // alone, each volume may be in use
  std::size_t in_use = 0;
  for (const CopyDraft& draft : drafts) {
    if (!IsStoredId(draft.id)) return Internal("{} is no id of a volume or snapshot", Quote(draft.id));
    const LogicalVolume* const source = FindIn(report, draft.source_id);
    if (source == nullptr || source->is_new) {
      return FailedPrecondition("{} does not lie in {}: a copy lies in the thin pool of its source",
                                Quote(draft.source_id), Quote(pool_));
    }
    const LogicalVolume* const there = FindIn(report, draft.id);
    if (there != nullptr && !there->is_new) return AlreadyExists("{} exists", Quote(draft.id));
    if (is_group && IsUsed(*source)) ++in_use;
  }
  if (in_use < 2) return absl::OkStatus();
  return FailedPrecondition(
      "{} of the volumes are in use: snapshots of logical volumes are made in turn, so they would not be of one "
      "instant; unpublish and unstage all of them but one, or make single snapshots",
      in_use);
}

absl::Status LvmBackend::Copy(const std::vector<CopyDraft>& drafts) {
  if (!is_thin_) {
    return FailedPrecondition("{} has no thin pool, and thick logical volumes are not copied: use a pool with {}",
                              Quote(pool_), kThinPool);
  }
  MOORING_ASSIGN_OR_RETURN(const LvmReport report, Ask());
  MOORING_RETURN_IF_ERROR(CheckRoom(report, 0));
  MOORING_RETURN_IF_ERROR(CheckSources(report, drafts));
  return MakeAll(drafts);
}

absl::Status LvmBackend::MakeAll(const std::vector<CopyDraft>& drafts) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const CopyDraft& draft = drafts[i];
    const absl::Status made = Make({.pool = pool_,
                                    .name = draft.id,
                                    .bytes = draft.bytes,
                                    .source = draft.source_id,
                                    .is_snapshot = IsSnapshotId(draft.id),
                                    .renew_fs_type = draft.renew_fs_type});
    if (made.ok()) continue;
    for (std::size_t before = 0; before < i; ++before) {
      log::WarningIfFailed(Remove(drafts[before].id), "a part of a group that could not be made is left",
                           {{"volume", drafts[before].id}});
    }
    return made;
  }
  return absl::OkStatus();
}

// A snapshot has no device. Nobody uses an inactive volume.
absl::Status LvmBackend::CheckUnused(const std::string& id) {
  if (!IsVolumeId(id)) return Ask().status();
  const absl::StatusOr<Disk> disk = disks_->Find(LinkOf(id));
  if (absl::IsNotFound(disk.status())) return Ask().status();
  MOORING_RETURN_IF_ERROR(disk.status());
  const KnownDevice device = {.volume_id = id, .number = disk->number, .node = disk->node};
  MOORING_RETURN_IF_ERROR(CheckDeviceNotMounted(mounter_, device));
  return CheckDeviceNotClaimed(mounter_, device);
}

absl::Status LvmBackend::Delete(const std::string& id) {
  if (!IsStoredId(id)) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckUnused(id));
  const absl::StatusOr<Disk> disk = IsVolumeId(id) ? disks_->Find(LinkOf(id)) : NotFound("no volume");
  // Its holder may have outlived the records of its use.
  if (disk.ok()) MOORING_RETURN_IF_ERROR(mounter_.ReleaseDevice(disk->node));
  return Remove(id);
}

// New extents hold what others wrote until they are cleared. A task could read it in a raw device that is published.
absl::Status LvmBackend::Grow(const std::string& id, std::uint64_t bytes) {
  MOORING_ASSIGN_OR_RETURN(const LvmReport report, Ask());
  const LogicalVolume* const volume = FindIn(report, id);
  if (volume == nullptr) return NotFound("volume {} does not exist", Quote(id));
  if (bytes > volume->bytes) MOORING_RETURN_IF_ERROR(CheckRoom(report, bytes - volume->bytes));
  const bool clears = !is_thin_ && (volume->is_growing || (volume->is_cleared && bytes > volume->bytes));
  if (clears) MOORING_RETURN_IF_ERROR(CheckUnused(id));
  return Change(id, [&] { return mounter_.GrowLogicalVolume({pool_, id}, bytes); });
}

// A device that is not finished is no volume yet.
absl::StatusOr<VolumeLocation> LvmBackend::Locate(const std::string& id) const {
  if (!IsStoredId(id)) return NotFound("volume {} does not exist", Quote(id));
  const bool is_volume = IsVolumeId(id);
  const absl::StatusOr<Disk> disk = is_volume ? disks_->Find(LinkOf(id)) : NotFound("a snapshot has no device");
  const std::optional<VolumeLocation> known = disk.ok() ? KnownLocation(id, *disk) : std::nullopt;
  if (known) return *known;
  MOORING_ASSIGN_OR_RETURN(const LvmReport report, is_volume ? Ask() : AskUnlessYounger(kForSnapshots));
  const LogicalVolume* const found = FindIn(report, id);
  if (found == nullptr || found->is_new) return NotFound("{} has no logical volume {}", Quote(pool_), Quote(id));
  if (!is_volume) return VolumeLocation{.path = "", .bytes = found->bytes, .raw = found->is_raw};
  if (disk.ok()) {
    return VolumeLocation{.path = disk->node,
                          .bytes = disk->bytes,
                          .device = disk->number,
                          .raw = found->is_raw,
                          .problem = report.problem.empty() ? UnfinishedGrowth(*found) : report.problem,
                          .unfinished = UnfinishedGrowth(*found)};
  }
  return Unavailable("its logical volume {}/{} is not active: call again, or activate it (lvchange -ay -K {}/{})",
                     group_, id, group_, id);
}

bool LvmBackend::HoldsData(const std::string& id) const { return DeviceHoldsData(mounter_, Locate(id)); }

std::vector<KnownDevice> LvmBackend::KnownDevices() const {
  const absl::StatusOr<std::vector<std::string>> links = disks_->Links();
  std::vector<KnownDevice> devices;
  if (!links.ok()) return devices;
  for (const std::string& link : *links) {
    const std::string id = IdOfLink(link);
    const absl::StatusOr<Disk> disk = id.empty() ? NotFound("no volume") : disks_->Find(link);
    if (disk.ok()) devices.push_back({.volume_id = id, .number = disk->number, .node = disk->node});
  }
  return devices;
}

// The caller looks again, and says why the device is not there.
void LvmBackend::WaitFor(const std::string& id, std::chrono::steady_clock::time_point /*until*/) const {
  if (!IsVolumeId(id) || disks_->Find(LinkOf(id)).ok()) return;
  const absl::StatusOr<LvmReport> report = Ask();
  const LogicalVolume* const found = report.ok() ? FindIn(*report, id) : nullptr;
  if (found == nullptr || found->is_new) return;
  log::WarningIfFailed(mounter_.ActivateLogicalVolume({pool_, id}), "a logical volume cannot be activated",
                       {{"volume", id}});
}

// Before a task can read what the disk held, or write what no signature shows.
absl::Status LvmBackend::NoteRawUse(const std::string& id, bool read_only) {
  MOORING_ASSIGN_OR_RETURN(const LvmReport report, Ask());
  const LogicalVolume* const found = FindIn(report, id);
  if (found == nullptr) return NotFound("{} has no logical volume {}", Quote(pool_), Quote(id));
  if (found->is_growing) return Unavailable("{}", UnfinishedGrowth(*found));
  if (found->is_enlarged) {
    return Unavailable(
        "the logical volume of {} was enlarged by another program, so its device may show what deleted volumes held: "
        "the error of an expansion (mooring csi expand) says how to accept that",
        id);
  }
  if (!found->is_cleared) {
    return FailedPrecondition(
        "volume {} was made for a filesystem, so its device may show what deleted volumes held: ask for block access "
        "when the volume is created",
        id);
  }
  if (read_only || found->is_raw) return absl::OkStatus();
  return Change(id, [&] { return mounter_.NoteRawLogicalVolume({pool_, id}); });
}

// A volume is active from its start on, so that no call has to wait for it.
absl::StatusOr<std::vector<std::string>> LvmBackend::Reconcile() {
  MOORING_ASSIGN_OR_RETURN(const LvmReport report, Ask());
  std::vector<std::string> ids;
  for (const LogicalVolume& volume : report.volumes) {
    if (!IsStoredId(volume.name)) continue;
    ids.push_back(volume.name);
    if (IsVolumeId(volume.name) && !volume.is_new && !volume.is_active) {
      log::WarningIfFailed(mounter_.ActivateLogicalVolume({pool_, volume.name}), "a logical volume cannot be activated",
                           {{"volume", volume.name}});
    }
  }
  return ids;
}

// ---- the type

namespace {

absl::Status CompleteLvmPool(PoolConfig& pool) {
  if (!pool.own_keys.contains(kGroup)) return InvalidArgument("vg is missing: name the volume group (vgs)");
  return ParseLvmPool(PoolText(pool)).status();
}

std::unique_ptr<Backend> MakeLvmBackend(const PoolConfig& pool, const std::string& /*directory*/,
                                        const BackendParts& parts) {
  auto disks = std::make_unique<MappedDisks>(LinksOf(pool.own_keys.at(kGroup)));
  return std::make_unique<LvmBackend>(PoolText(pool), std::move(disks), parts.mounter);
}

void AllowLvm(const PoolConfig& pool, PoolAccess& access) {
  access.lvm_pools.push_back(PoolText(pool));
  access.link_directories.emplace_back(kMapperDirectory);
  access.device_links.push_back(LinksText(std::string(kMapperDirectory), LinksOf(pool.own_keys.at(kGroup))));
}

}  // namespace

const BackendType& LvmBackendType() {
  static const BackendType kType = {.traits = {.name = "lvm",
                                               .staging = Staging::kBlockDevice,
                                               .block = true,
                                               .snapshots = true,
                                               .clones = true,
                                               .grows = true,
                                               .enforces_size = true,
                                               .fs_types = {"ext4", "xfs", "btrfs"},
                                               .reuses_space = true},
                                    .adapt =
                                        [](const PoolConfig& pool, BackendTraits& traits) {
                                          traits.snapshots = IsThin(pool);
                                          traits.clones = IsThin(pool);
                                          traits.reuses_space = !IsThin(pool);
                                        },
                                    .pool_keys = {kGroup, kThinPool, "overcommit"},
                                    .complete = CompleteLvmPool,
                                    .make = MakeLvmBackend,
                                    .allow = AllowLvm};
  return kType;
}

}  // namespace mooring

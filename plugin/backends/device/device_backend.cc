#include "plugin/backends/device/device_backend.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/deadline.h"
#include "base/file/directory.h"
#include "base/file/file_lock.h"
#include "base/file/path.h"
#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "mounter/image/image.h"
#include "mounter/path/device_links.h"
#include "plugin/backends/device/device_use.h"
#include "plugin/model/call.h"
#include "plugin/model/volume_id.h"
#include "plugin/model/volume_mount.h"
#include "plugin/model/volume_size.h"

namespace mooring {
namespace {

constexpr std::chrono::seconds kLockPatience{60};  // the holder reads devices
constexpr std::chrono::seconds kLongestWait{10};   // for a device that appears late

bool Fits(const Disk& disk, const VolumeDraft& draft) {
  return disk.bytes >= draft.bytes && (draft.limit == 0 || disk.bytes <= draft.limit);
}

std::string WantedText(const VolumeDraft& draft) { return RangeText({.required = draft.bytes, .limit = draft.limit}); }

constexpr char kInUse[] = "a filesystem on it is mounted, or another program has claimed it";

std::string MayHideData(const std::string& device, const std::string& file) {
  return fmt::format(
      "a deleted volume had it as a raw device, so it may hold data: clear all of it (blkdiscard -z {}), then remove "
      "{}",
      ShellQuote(device), ShellQuote(file));
}

std::string Identity(const std::string& serial, std::uint64_t bytes) {
  return serial.empty() ? fmt::format("no serial number, {}", SizeText(bytes)) : "serial number " + Quote(serial);
}

}  // namespace

absl::StatusOr<UniqueFd> DeviceBackend::Lock() const {
  const std::string shared(ParentOf(directory_));
  MOORING_RETURN_IF_ERROR(MakePrivateDirectory(shared));
  MOORING_RETURN_IF_ERROR(MakePrivateDirectory(directory_));
  UniqueFd fd(::open(shared.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "open", shared);
  MOORING_RETURN_IF_ERROR(LockFile(fd, shared, kLockPatience));
  return fd;
}

absl::StatusOr<std::vector<DeviceRecord>> DeviceBackend::AllTaken() const {
  const std::string shared(ParentOf(directory_));
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> pools, EntriesOrNone(shared));
  std::vector<DeviceRecord> taken;
  for (const std::string& pool : pools) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> ids, EntriesOf(shared + "/" + pool));
    for (const std::string& id : ids) {
      if (!IsVolumeId(id)) continue;
      absl::StatusOr<DeviceRecord> record = ReadDeviceRecord(fmt::format("{}/{}/{}", shared, pool, id));
      if (absl::IsNotFound(record.status())) continue;  // deleted meanwhile, if this call holds no lock
      MOORING_RETURN_IF_ERROR(record.status());
      taken.push_back(*std::move(record));
    }
  }
  return taken;
}

absl::StatusOr<std::vector<Disk>> DeviceBackend::Present() const {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> links, disks_->Links());
  std::vector<Disk> disks;
  for (const std::string& link : links) {
    const absl::StatusOr<Disk> disk = disks_->Find(link);
    if (!disk.ok()) continue;  // no device, or removed meanwhile
    const bool known =
        std::any_of(disks.begin(), disks.end(), [&](const Disk& other) { return other.number == disk->number; });
    if (!known) disks.push_back(*disk);
  }
  return disks;
}

bool DeviceBackend::IsTaken(const Disk& disk, const std::vector<DeviceRecord>& taken) const {
  return std::any_of(taken.begin(), taken.end(),
                     [&](const DeviceRecord& record) { return IsDiskOf(record, disk, *disks_); });
}

// Empty: the disk is free, whatever its content is.
absl::StatusOr<std::string> DeviceBackend::WhyNotFree(const Disk& disk, const std::vector<DeviceRecord>& taken) const {
  return IsTaken(disk, taken) ? std::string("another volume has it") : disks_->UseOf(disk);
}

// Sysfs, which Disks::UseOf reads, does not show each user of a disk. Only an empty disk is a candidate.
absl::StatusOr<FilesystemInfo> DeviceBackend::ProbeUnused(const Disk& disk) const {
  MOORING_ASSIGN_OR_RETURN(FilesystemInfo found, mounter_.Probe(disk.node));
  if (found.content != FilesystemInfo::Content::kEmpty) return found;
  MOORING_ASSIGN_OR_RETURN(const bool in_use, mounter_.IsInUse(disk.node));
  if (in_use) return FailedPrecondition(kInUse);
  return found;
}

absl::StatusOr<Disk> DeviceBackend::Named(const VolumeDraft& draft) const {
  absl::StatusOr<Disk> disk = disks_->Find(draft.device);
  if (absl::IsNotFound(disk.status()) || absl::IsInvalidArgument(disk.status())) {
    return ResourceExhausted("there is no such device to take: {}", Message(disk.status()));
  }
  if (!disk.ok()) return disk;
  if (!Fits(*disk, draft)) {
    return OutOfRange("device {} has {}, and {} is asked for", Quote(draft.device), SizeText(disk->bytes),
                      WantedText(draft));
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<DeviceRecord> taken, AllTaken());
  MOORING_ASSIGN_OR_RETURN(std::string why, WhyNotFree(*disk, taken));
  if (why.empty()) {
    MOORING_ASSIGN_OR_RETURN(const bool in_use, mounter_.IsInUse(disk->node));
    if (!in_use) return disk;
    why = kInUse;
  }
  return ResourceExhausted("device {} cannot be taken: {}", Quote(draft.device), why);
}

absl::StatusOr<Disk> DeviceBackend::SmallestFree(const VolumeDraft& draft) const {
  MOORING_ASSIGN_OR_RETURN(std::vector<Disk> disks, Present());
  MOORING_ASSIGN_OR_RETURN(const std::vector<DeviceRecord> taken, AllTaken());
  std::stable_sort(disks.begin(), disks.end(), [](const Disk& a, const Disk& b) { return a.bytes < b.bytes; });
  std::string reasons;
  absl::Status not_looked_at;  // a repeated call may find that this disk is free
  for (const Disk& disk : disks) {
    if (!Fits(disk, draft)) continue;
    MOORING_ASSIGN_OR_RETURN(std::string why, WhyNotFree(disk, taken));
    if (why.empty()) {
      const absl::StatusOr<FilesystemInfo> found = ProbeUnused(disk);
      const bool is_empty = found.ok() && found->content == FilesystemInfo::Content::kEmpty;
      const bool may_hide = is_empty && !found->whole;
      MOORING_ASSIGN_OR_RETURN(const ReleasedFile mark, may_hide ? MarkOf(disk) : ReleasedFile());
      if (is_empty && mark.path.empty()) return disk;
      // A disk that hangs by itself is a reason like any other.
      const bool hangs = absl::IsDeadlineExceeded(found.status()) && !DeadlineScope::HasPassed();
      if (MaySucceedLater(found.status()) && !hangs) not_looked_at = found.status();
      why = is_empty     ? MayHideData(disks_->PathOf(disk.link), mark.path)
            : found.ok() ? fmt::format("it holds {}", found->type)
                         : Message(found.status());
    }
    reasons += fmt::format("; {}: {}", Quote(disk.link), why);
  }
  MOORING_RETURN_IF_ERROR(not_looked_at);
  return ResourceExhausted(
      "no device of {} is free and empty ({} of any size are there{}): parameter device takes one as it is",
      WantedText(draft), disks.size(), reasons);
}

absl::Status DeviceBackend::Create(const VolumeDraft& draft) {
  if (!IsVolumeId(draft.id)) return Internal("{} is no id of a volume", Quote(draft.id));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd lock, Lock());
  const absl::StatusOr<DeviceRecord> there = ReadDeviceRecord(PathOf(draft.id));
  if (there.ok()) {
    if (draft.device.empty() || draft.device == there->link) return absl::OkStatus();
    return AlreadyExists("the volume has the device {}, and {} is asked for", Quote(there->link), Quote(draft.device));
  }
  MOORING_ASSIGN_OR_RETURN(const Disk disk, draft.device.empty() ? SmallestFree(draft) : Named(draft));
  return Take(draft.id, disk);
}

absl::Status DeviceBackend::Take(const std::string& id, const Disk& disk) {
  MOORING_ASSIGN_OR_RETURN(const ReleasedFile mark, MarkOf(disk));
  DeviceRecord record = RecordOf(disk);
  record.raw = !mark.path.empty();
  MOORING_RETURN_IF_ERROR(WriteDeviceRecord(PathOf(id), record));
  // The file of a disk with the same serial number stays: it may mean another disk.
  if (mark.path.empty() || !IsTakenAs(disk, mark.record)) return absl::OkStatus();
  return ::unlink(mark.path.c_str()) == 0 || errno == ENOENT ? absl::OkStatus()
                                                             : ErrnoStatus(errno, "remove", mark.path);
}

absl::StatusOr<ReleasedFile> DeviceBackend::MarkOf(const Disk& disk) const {
  return FindReleased(std::string(ParentOf(directory_)), disk, *disks_);
}

absl::Status DeviceBackend::NoteRawUse(const std::string& id, bool read_only) {
  if (read_only) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const UniqueFd lock, Lock());
  MOORING_ASSIGN_OR_RETURN(DeviceRecord record, ReadDeviceRecord(PathOf(id)));
  record.raw = true;
  return WriteDeviceRecord(PathOf(id), record);
}

// Whether a task may have written to the device of the volume, and an empty look proves nothing later. A growth of the
// device hides data that only its end, or a look at all of it, has shown. ext4, xfs and btrfs show at the begin.
bool DeviceBackend::HidesData(const std::string& id) const {
  const absl::StatusOr<DeviceRecord> record = ReadDeviceRecord(PathOf(id));
  if (!record.ok() || !record->raw) return false;
  const absl::StatusOr<VolumeLocation> location = Locate(id);
  if (!location.ok()) return true;
  const absl::StatusOr<FilesystemInfo> found = mounter_.Probe(location->path);
  if (!found.ok()) return true;
  const bool is_proven_empty = found->content == FilesystemInfo::Content::kEmpty && found->whole;
  return !is_proven_empty && found->content != FilesystemInfo::Content::kFilesystem;
}

absl::Status DeviceBackend::CheckUnused(const std::string& id) {
  const absl::StatusOr<DeviceRecord> record = ReadDeviceRecord(PathOf(id));
  if (!IsVolumeId(id) || absl::IsNotFound(record.status())) return absl::OkStatus();
  if (!record.ok()) return record.status();
  const KnownDevice device = {.volume_id = id, .number = record->number, .node = record->node};
  MOORING_RETURN_IF_ERROR(CheckDeviceNotMounted(mounter_, device));
  if (!Locate(id).ok()) return absl::OkStatus();  // another device has its link now
  return CheckDeviceNotClaimed(mounter_, device);
}

absl::Status DeviceBackend::Delete(const std::string& id) {
  if (!IsVolumeId(id)) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckUnused(id));
  const absl::StatusOr<VolumeLocation> place = Locate(id);
  // Its holder may have outlived the records of its use.
  if (place.ok()) MOORING_RETURN_IF_ERROR(mounter_.ReleaseDevice(place->path));
  const bool hides_data = HidesData(id);
  MOORING_ASSIGN_OR_RETURN(const UniqueFd lock, Lock());
  const std::string path = PathOf(id);
  if (hides_data) {
    log::Warning("a deleted volume had a raw device that may hold data: it is not taken again, even if it looks empty",
                 {{"volume", id}, {"until_removed", ReleasedPathOf(directory_, id)}});
    return RenameToReleased(directory_, id);
  }
  if (::unlink(path.c_str()) != 0) return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "remove", path);
  return SyncDirectoryOf(path);
}

absl::StatusOr<VolumeLocation> DeviceBackend::Locate(const std::string& id) const {
  if (!IsVolumeId(id)) return NotFound("volume {} does not exist", Quote(id));
  MOORING_ASSIGN_OR_RETURN(const DeviceRecord record, ReadDeviceRecord(PathOf(id)));
  const std::string path = disks_->PathOf(record.link);
  const absl::StatusOr<Disk> disk = disks_->Find(record.link);
  if (absl::IsNotFound(disk.status())) {
    return Unavailable("its device {} is gone: connect it, and call again", Quote(path));
  }
  if (!disk.ok()) return Annotate(disk.status(), "its device");
  if (!IsSame(*disk, record)) {
    return Internal("its device {} is another one now ({}; the volume's has {})", Quote(path),
                    Identity(disk->serial, disk->bytes), Identity(record.serial, record.bytes));
  }
  const bool moved =
      record.number != disk->number || record.node != disk->node || record.boot_id != BootId().value_or("");
  if (moved) MOORING_RETURN_IF_ERROR(UpdateRecord(id, *disk));
  return VolumeLocation{.path = disk->node, .bytes = disk->bytes, .device = disk->number, .raw = record.raw};
}

// Updates the device node of an existing record, which changes with a boot or when the device is plugged in again.
absl::Status DeviceBackend::UpdateRecord(const std::string& id, const Disk& disk) const {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd lock, Lock());
  MOORING_ASSIGN_OR_RETURN(const DeviceRecord before, ReadDeviceRecord(PathOf(id)));
  return WriteDeviceRecord(PathOf(id), SeenNow(before, disk));
}

// Without the lock, which a device that hangs would keep from all other calls.
absl::StatusOr<BackendCapacity> DeviceBackend::Count(
    const std::function<absl::StatusOr<bool>(const Disk&)>& is_free) const {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Disk> disks, Present());
  MOORING_ASSIGN_OR_RETURN(const std::vector<DeviceRecord> taken, AllTaken());
  BackendCapacity capacity;
  for (const Disk& disk : disks) {
    capacity.total += disk.bytes;
    if (IsTaken(disk, taken)) continue;
    MOORING_ASSIGN_OR_RETURN(const bool free, is_free(disk));
    if (!free) continue;
    capacity.available += disk.bytes;
    capacity.largest_volume = std::max(capacity.largest_volume, disk.bytes);
  }
  return capacity;
}

absl::StatusOr<BackendCapacity> DeviceBackend::Capacity() const {
  return Count([this](const Disk& disk) -> absl::StatusOr<bool> {
    const absl::StatusOr<std::string> use = disks_->UseOf(disk);
    if (!use.ok() || !use->empty()) return false;
    const absl::StatusOr<FilesystemInfo> found = ProbeUnused(disk);
    if (!found.ok() || found->content != FilesystemInfo::Content::kEmpty) return false;
    MOORING_ASSIGN_OR_RETURN(const ReleasedFile mark, found->whole ? ReleasedFile() : MarkOf(disk));
    return mark.path.empty();
  });
}

bool DeviceBackend::HoldsData(const std::string& id) const { return DeviceHoldsData(mounter_, Locate(id)); }

absl::StatusOr<BackendCapacity> DeviceBackend::QuickCapacity() const {
  return Count([](const Disk&) { return true; });
}

std::vector<KnownDevice> DeviceBackend::KnownDevices() const {
  const absl::StatusOr<std::vector<std::string>> ids = EntriesOf(directory_);
  std::vector<KnownDevice> devices;
  if (!ids.ok()) return devices;  // no volume was created yet
  for (const std::string& id : *ids) {
    if (!IsVolumeId(id)) continue;
    const absl::StatusOr<DeviceRecord> record = ReadDeviceRecord(PathOf(id));
    if (!record.ok() || record->boot_id != BootId().value_or("")) continue;
    devices.push_back({.volume_id = id, .number = record->number, .node = record->node});
  }
  return devices;
}

void DeviceBackend::WaitFor(const std::string& id, std::chrono::steady_clock::time_point until) const {
  const absl::StatusOr<DeviceRecord> record = ReadDeviceRecord(PathOf(id));
  if (!record.ok()) return;
  disks_->WaitFor(record->link, std::min(until, std::chrono::steady_clock::now() + kLongestWait));
}

absl::StatusOr<std::vector<std::string>> DeviceBackend::Reconcile() {
  {
    MOORING_ASSIGN_OR_RETURN(const UniqueFd lock, Lock());
    log::WarningIfFailed(RefreshReleased(directory_, *disks_), "the files of released devices are not up to date");
  }
  MOORING_ASSIGN_OR_RETURN(std::vector<std::string> ids, EntriesOf(directory_));
  std::erase_if(ids, [](const std::string& id) { return !IsVolumeId(id); });
  // Updates the device nodes for this boot, so that no other link gives a device to a second volume. The catalog logs
  // missing devices.
  for (const std::string& id : ids) Locate(id).IgnoreError();
  return ids;
}

}  // namespace mooring

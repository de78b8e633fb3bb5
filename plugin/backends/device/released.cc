#include "plugin/backends/device/released.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "base/file/directory.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

constexpr std::string_view kReleased = ".released";

// Its link leads to a disk with another serial number: the disk of the file was replaced there.
bool IsReplaced(const Disk& disk, const DeviceRecord& record) {
  return !disk.serial.empty() && !record.serial.empty() && disk.serial != record.serial;
}

absl::StatusOr<std::vector<ReleasedFile>> FilesIn(const std::string& directory) {
  std::vector<ReleasedFile> files;
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf(directory));
  for (const std::string& name : names) {
    if (!IsVolumeId(IdOfFile(name, kReleased))) continue;
    std::string path = directory + "/" + name;
    absl::StatusOr<DeviceRecord> record = ReadDeviceRecord(path);
    if (absl::IsNotFound(record.status())) continue;  // removed meanwhile
    if (absl::IsFailedPrecondition(record.status())) {
      return FailedPrecondition("{} does not say which device it keeps out of the pool: remove it once that is cleared",
                                Quote(path));
    }
    MOORING_RETURN_IF_ERROR(record.status());
    files.push_back({std::move(path), *std::move(record)});
  }
  return files;
}

}  // namespace

std::string ReleasedPathOf(const std::string& directory, const std::string& id) {
  return fmt::format("{}/{}{}", directory, id, kReleased);
}

absl::Status RenameToReleased(const std::string& directory, const std::string& id) {
  const std::string from = directory + "/" + id, to = ReleasedPathOf(directory, id);
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "rename to " + to + " the file", from);
  }
  return SyncDirectoryOf(to);
}

absl::StatusOr<ReleasedFile> FindReleased(const std::string& shared, const Disk& disk, const Disks& disks) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> pools, EntriesOrNone(shared));
  for (const std::string& pool : pools) {
    MOORING_ASSIGN_OR_RETURN(std::vector<ReleasedFile> files, FilesIn(fmt::format("{}/{}", shared, pool)));
    for (ReleasedFile& file : files) {
      if (!IsReplaced(disk, file.record) && IsDiskOf(file.record, disk, disks)) return std::move(file);
    }
  }
  return ReleasedFile();
}

absl::Status RefreshReleased(const std::string& directory, const Disks& disks) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<ReleasedFile> files, FilesIn(directory));
  for (const ReleasedFile& file : files) {
    const absl::StatusOr<Disk> disk = disks.Find(file.record.link);
    if (!disk.ok() || IsReplaced(*disk, file.record)) continue;
    const DeviceRecord record = SeenNow(file.record, *disk);
    if (record != file.record) MOORING_RETURN_IF_ERROR(WriteDeviceRecord(file.path, record));
  }
  return absl::OkStatus();
}

}  // namespace mooring

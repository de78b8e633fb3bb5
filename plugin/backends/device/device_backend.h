// Each volume is a block device. A small file, <directory>/<id>, says which device a volume has. The backend neither
// writes nor opens the device. Deleting a volume removes the file and keeps the data; a new volume that names the
// device has the data again.
//
// Only the begin and the end of a large device are read to see whether it is empty. A task that had it as a raw device
// may have written between them. So the file of a deleted volume becomes <id>.released unless its device is proven
// empty or has an ext4, xfs or btrfs. It keeps the device out of the pool. A person clears the device and then removes
// the file.
//
//   device named in the request   accepted with any content; the node side formats it only if it is proven empty
//   no device named               the smallest device that fits, is proven empty, unused, and of no other volume
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file/unique_fd.h"
#include "mounter/mounter.h"
#include "plugin/backends/device/disks.h"
#include "plugin/backends/device/released.h"
#include "plugin/backends/interface/backend.h"
#include "plugin/backends/interface/backend_type.h"

namespace mooring {

class DeviceBackend final : public Backend {
 public:
  // `directory` is absolute. All device pools of the plugin share its parent, so that a device has one volume.
  DeviceBackend(std::string directory, std::unique_ptr<Disks> disks, Mounter& mounter)
      : directory_(std::move(directory)), disks_(std::move(disks)), mounter_(mounter) {}

  // ALREADY_EXISTS: the volume has another device than the request names. OUT_OF_RANGE: the named device has another
  // size.
  absl::Status Create(const VolumeDraft& draft) override;
  absl::Status CheckUnused(const std::string& id) override;
  absl::Status Delete(const std::string& id) override;

  // FAILED_PRECONDITION: the device is missing, or another device has its link.
  absl::StatusOr<VolumeLocation> Locate(const std::string& id) const override;
  absl::StatusOr<BackendCapacity> Capacity() const override;
  absl::Status NoteRawUse(const std::string& id, bool read_only) override;
  bool HoldsData(const std::string& id) const override;
  absl::StatusOr<BackendCapacity> QuickCapacity() const override;  // `available` counts all devices without a volume
  std::vector<KnownDevice> KnownDevices() const override;
  void WaitFor(const std::string& id, std::chrono::steady_clock::time_point until) const override;
  absl::StatusOr<std::vector<std::string>> Reconcile() override;

 private:
  std::string PathOf(const std::string& id) const { return directory_ + "/" + id; }
  bool HidesData(const std::string& id) const;
  absl::StatusOr<ReleasedFile> MarkOf(const Disk& disk) const;
  absl::Status Take(const std::string& id, const Disk& disk);
  absl::StatusOr<UniqueFd> Lock() const;
  absl::StatusOr<std::vector<DeviceRecord>> AllTaken() const;  // by volumes of all pools
  absl::StatusOr<std::vector<Disk>> Present() const;           // each device once
  bool IsTaken(const Disk& disk, const std::vector<DeviceRecord>& taken) const;
  absl::StatusOr<std::string> WhyNotFree(const Disk& disk, const std::vector<DeviceRecord>& taken) const;
  absl::StatusOr<FilesystemInfo> ProbeUnused(const Disk& disk) const;
  absl::StatusOr<BackendCapacity> Count(const std::function<absl::StatusOr<bool>(const Disk&)>& is_free) const;
  absl::StatusOr<Disk> Named(const VolumeDraft& draft) const;
  absl::StatusOr<Disk> SmallestFree(const VolumeDraft& draft) const;
  absl::Status UpdateRecord(const std::string& id, const Disk& disk) const;

  const std::string directory_;
  const std::unique_ptr<Disks> disks_;
  Mounter& mounter_;
};

const BackendType& DeviceBackendType();

}  // namespace mooring

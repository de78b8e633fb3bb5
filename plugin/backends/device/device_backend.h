// Volumes that are block devices of their own. What a volume took is in a small file, <directory>/<id>; the device is
// neither written nor opened here. Deleting a volume removes the file: the data stays, and whoever is to have it again
// names the device.
//
//   asked for by name   whatever it holds; never formatted unless it is proven empty (the node side does that)
//   else                the smallest that fits, is proven empty, in no use, and no other volume's
#ifndef MOORING_PLUGIN_BACKENDS_DEVICE_DEVICE_BACKEND_H_
#define MOORING_PLUGIN_BACKENDS_DEVICE_DEVICE_BACKEND_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file/unique_fd.h"
#include "mounter/mounter.h"
#include "plugin/backends/backend.h"
#include "plugin/backends/device/device_record.h"
#include "plugin/backends/device/disks.h"

namespace mooring {

class DeviceBackend final : public Backend {
 public:
  // `directory` is absolute, in one that all pools of devices of this plugin share: a device is one volume's.
  DeviceBackend(std::string directory, std::unique_ptr<Disks> disks, Mounter& mounter)
      : directory_(std::move(directory)), disks_(std::move(disks)), mounter_(mounter) {}

  // ALREADY_EXISTS: with another device than is asked for. OUT_OF_RANGE: the one that is asked for has another size.
  absl::Status Create(const VolumeDraft& draft) override;
  absl::Status Copy(const std::vector<CopyDraft>& drafts) override;
  absl::Status CheckUnused(const std::string& id) override;
  absl::Status Delete(const std::string& id) override;
  absl::Status Grow(const std::string& id, std::uint64_t bytes) override;

  // FAILED_PRECONDITION: the device is gone, or another one is in its place.
  absl::StatusOr<VolumeLocation> Locate(const std::string& id) const override;
  absl::StatusOr<BackendCapacity> Capacity() const override;
  bool HoldsData(const std::string& id) const override;
  absl::StatusOr<BackendCapacity> Glance() const override;  // available: what no volume has, whatever is on it
  std::vector<KnownDevice> KnownDevices() const override;
  void WaitFor(const std::string& id, std::chrono::steady_clock::time_point until) const override;
  absl::StatusOr<std::vector<std::string>> Reconcile() override;

 private:
  std::string PathOf(const std::string& id) const { return directory_ + "/" + id; }
  absl::StatusOr<UniqueFd> Lock() const;
  absl::StatusOr<std::vector<DeviceRecord>> AllTaken() const;  // by all pools
  absl::StatusOr<std::vector<Disk>> Present() const;           // each device once
  absl::StatusOr<std::string> WhyNotFree(const Disk& disk, const std::vector<DeviceRecord>& taken) const;
  absl::StatusOr<Disk> Named(const VolumeDraft& draft) const;
  absl::StatusOr<Disk> SmallestFree(const VolumeDraft& draft) const;
  absl::Status Follow(const std::string& id, const Disk& disk) const;

  const std::string directory_;
  const std::unique_ptr<Disks> disks_;
  Mounter& mounter_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_BACKENDS_DEVICE_DEVICE_BACKEND_H_

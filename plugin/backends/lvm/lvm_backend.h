// Each volume is a logical volume, named by its id, in a volume group or in a thin pool of it. The metadata of the
// group says all that is known of it (mounter/logical_volumes.h), so the state directory has no file of it.
//
//   thick   VG            grows; no snapshots, no clones
//   thin    VG/THINPOOL   grows; snapshots and clones share blocks with their source
//
// A device that is there answers Locate without lvm. Every other question runs lvm in the mount helper.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mounter/mounter.h"
#include "plugin/backends/device/disks.h"
#include "plugin/backends/interface/backend.h"
#include "plugin/backends/interface/backend_type.h"

namespace mooring {

class LvmBackend final : public Backend {
 public:
  // `pool`: "GROUP" or "GROUP/THINPOOL". `disks`: the active devices of the pool's volumes.
  LvmBackend(std::string pool, std::unique_ptr<Disks> disks, Mounter& mounter);

  absl::StatusOr<std::uint64_t> RoundUp(std::uint64_t bytes) const override;

  // OUT_OF_RANGE: larger than the free space.
  absl::Status Create(const VolumeDraft& draft) override;

  // FAILED_PRECONDITION: a source lies in another pool; several volumes in use are asked for, whose snapshots would not
  // be of one instant.
  absl::Status Copy(const std::vector<CopyDraft>& drafts) override;
  absl::Status CheckUnused(const std::string& id) override;
  absl::Status Delete(const std::string& id) override;

  // FAILED_PRECONDITION: a thick volume that may be used as a raw device is in use.
  absl::Status Grow(const std::string& id, std::uint64_t bytes) override;
  absl::StatusOr<VolumeLocation> Locate(const std::string& id) const override;
  absl::StatusOr<BackendCapacity> Capacity() const override;
  absl::StatusOr<BackendCapacity> QuickCapacity() const override;
  std::vector<KnownDevice> KnownDevices() const override;
  void WaitFor(const std::string& id, std::chrono::steady_clock::time_point until) const override;
  absl::Status NoteRawUse(const std::string& id, bool read_only) override;
  bool HoldsData(const std::string& id) const override;
  absl::StatusOr<std::vector<std::string>> Reconcile() override;

 private:
  using Clock = std::chrono::steady_clock;

  std::string LinkOf(const std::string& id) const;
  std::string IdOfLink(const std::string& link) const;  // empty: no volume's
  absl::StatusOr<LvmReport> Ask() const;
  absl::StatusOr<LvmReport> AskUnlessYounger(Clock::duration age) const;
  void Forget(const std::string& id);
  std::optional<VolumeLocation> KnownLocation(const std::string& id, const Disk& disk) const;
  absl::Status Change(const std::string& id, const std::function<absl::Status()>& call);
  absl::Status Make(const NewLogicalVolume& volume);
  absl::Status Remove(const std::string& id);
  absl::Status CheckRoom(const LvmReport& report, std::uint64_t more_bytes) const;
  bool IsUsed(const LogicalVolume& volume);
  absl::Status CheckSources(const LvmReport& report, const std::vector<CopyDraft>& drafts);
  absl::Status MakeAll(const std::vector<CopyDraft>& drafts);

  const std::string pool_, group_;
  const bool is_thin_;
  const std::unique_ptr<Disks> disks_;
  Mounter& mounter_;

  mutable std::mutex mutex_;
  mutable std::optional<LvmReport> last_;  // at `asked_`, if nothing was changed since
  mutable Clock::time_point asked_{};
  struct Known {
    std::uint64_t bytes = 0;
    bool is_raw = false;
  };
  mutable std::map<std::string, Known> finished_;  // volumes and snapshots
  mutable absl::Status failure_;                   // UNAVAILABLE, at `failed_`, so that not each call waits for it
  mutable Clock::time_point failed_{};
  mutable std::string problem_;  // of the pool, in the last report
  std::uint64_t changes_ = 0;
};

const BackendType& LvmBackendType();

}  // namespace mooring

// The calls of a GuardedMounter for the volumes of one kind of pool.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/guard/guarded_mounter.h"
#include "mounter/guard/refusal.h"

namespace mooring {

// ---- directories

absl::StatusOr<std::string> GuardedMounter::CheckVolume(const std::string& directory) const {
  MOORING_ASSIGN_OR_RETURN(std::string normal, NormalisePath("path", directory));
  if (IsVolumeDirectory(normal)) return normal;
  return Refuse(
      "refused a directory that is no volume",
      fmt::format("{} lies directly below none of the volume directories that the mount helper was started with",
                  Quote(normal)));
}

absl::Status GuardedMounter::CopyTree(const std::string& source, const std::string& destination) {
  MOORING_ASSIGN_OR_RETURN(const std::string from, CheckVolume(source));
  MOORING_ASSIGN_OR_RETURN(const std::string to, CheckVolume(destination));
  return mounter_.CopyTree(from, to);
}

absl::Status GuardedMounter::RemoveTree(const std::string& directory) {
  MOORING_ASSIGN_OR_RETURN(const std::string normal, CheckVolume(directory));
  return mounter_.RemoveTree(normal);
}

absl::Status GuardedMounter::LimitDirectory(const std::string& directory, std::uint64_t bytes) {
  MOORING_ASSIGN_OR_RETURN(const std::string normal, NormalisePath("path", directory));
  const auto& pools = policy_.sized_pools;
  if (normal == directory && std::find(pools.begin(), pools.end(), ParentOf(normal)) != pools.end()) {
    return mounter_.LimitDirectory(normal, bytes);
  }
  return Refuse("refused to limit what is no volume",
                fmt::format("{} lies directly below none of the pools of sized directories that the mount helper was "
                            "started with",
                            Quote(directory)));
}

// ---- subvolumes

absl::Status GuardedMounter::CheckSubvolumePool(std::string_view pool) const {
  const auto& pools = policy_.subvolume_pools;
  if (std::find(pools.begin(), pools.end(), pool) != pools.end()) return absl::OkStatus();
  return Refuse("refused a directory that is no pool of subvolumes",
                fmt::format("{} is none of the pools of subvolumes that the mount helper was started with",
                            Quote(std::string(pool))));
}

absl::Status GuardedMounter::CheckSubvolume(const std::string& path) const {
  MOORING_ASSIGN_OR_RETURN(const std::string normal, NormalisePath("path", path));
  return normal == path ? CheckSubvolumePool(ParentOf(normal)) : InvalidArgument("{} is not normalised", Quote(path));
}

absl::Status GuardedMounter::PrepareSubvolumes(const std::string& pool) {
  MOORING_RETURN_IF_ERROR(CheckSubvolumePool(pool));
  return mounter_.PrepareSubvolumes(pool);
}

absl::Status GuardedMounter::MakeSubvolumes(const std::vector<NewSubvolume>& subvolumes) {
  for (const NewSubvolume& each : subvolumes) {
    MOORING_RETURN_IF_ERROR(CheckSubvolume(each.path));
    if (!each.source.empty()) MOORING_RETURN_IF_ERROR(CheckSubvolume(each.source));
  }
  return mounter_.MakeSubvolumes(subvolumes);
}

absl::Status GuardedMounter::LimitSubvolume(const std::string& path, std::uint64_t bytes) {
  MOORING_RETURN_IF_ERROR(CheckSubvolume(path));
  return mounter_.LimitSubvolume(path, bytes);
}

absl::Status GuardedMounter::RemoveSubvolume(const std::string& path) {
  MOORING_RETURN_IF_ERROR(CheckSubvolume(path));
  return mounter_.RemoveSubvolume(path);
}

// ---- logical volumes

absl::Status GuardedMounter::CheckLvmPool(const std::string& pool) const {
  const auto& pools = policy_.lvm_pools;
  if (std::find(pools.begin(), pools.end(), pool) != pools.end()) return absl::OkStatus();
  return Refuse("refused a volume group that is no pool",
                fmt::format("{} is none of the pools of LVM that the mount helper was started with", Quote(pool)));
}

absl::StatusOr<LvmReport> GuardedMounter::ReportLvm(const std::string& pool) {
  MOORING_RETURN_IF_ERROR(CheckLvmPool(pool));
  return mounter_.ReportLvm(pool);
}

absl::Status GuardedMounter::MakeLogicalVolume(const NewLogicalVolume& volume) {
  MOORING_RETURN_IF_ERROR(CheckLvmPool(volume.pool));
  if (!volume.renew_fs_type.empty()) MOORING_RETURN_IF_ERROR(CheckFsType(volume.renew_fs_type));
  return mounter_.MakeLogicalVolume(volume);
}

absl::Status GuardedMounter::GrowLogicalVolume(const LogicalVolumeName& volume, std::uint64_t bytes) {
  MOORING_RETURN_IF_ERROR(CheckLvmPool(volume.pool));
  return mounter_.GrowLogicalVolume(volume, bytes);
}

absl::Status GuardedMounter::ActivateLogicalVolume(const LogicalVolumeName& volume) {
  MOORING_RETURN_IF_ERROR(CheckLvmPool(volume.pool));
  return mounter_.ActivateLogicalVolume(volume);
}

absl::Status GuardedMounter::RemoveLogicalVolume(const LogicalVolumeName& volume) {
  MOORING_RETURN_IF_ERROR(CheckLvmPool(volume.pool));
  return mounter_.RemoveLogicalVolume(volume);
}

absl::Status GuardedMounter::NoteRawLogicalVolume(const LogicalVolumeName& volume) {
  MOORING_RETURN_IF_ERROR(CheckLvmPool(volume.pool));
  return mounter_.NoteRawLogicalVolume(volume);
}

// ---- encrypted volumes

absl::Status GuardedMounter::CheckEncrypts() const {
  if (!policy_.encrypted_pools.empty()) return absl::OkStatus();
  return Refuse("refused an encrypted volume", "the mount helper was started without a pool of encrypted volumes");
}

absl::Status GuardedMounter::CheckCarrier(const EncryptedVolume& volume) const {
  const auto& pools = policy_.encrypted_pools;
  const bool lies_in_pool = std::find(pools.begin(), pools.end(), ParentOf(volume.carrier)) != pools.end();
  if (lies_in_pool && NameOf(volume.carrier) == volume.id + ".img") return absl::OkStatus();
  return Refuse("refused an encrypted volume",
                fmt::format("{} is not the image of {} in one of the pools of encrypted volumes that the mount helper "
                            "was started with",
                            Quote(volume.carrier), Quote(volume.id)));
}

absl::Status GuardedMounter::MakeEncrypted(const NewEncryptedVolume& volume) {
  MOORING_RETURN_IF_ERROR(CheckCarrier(volume.volume));
  MOORING_RETURN_IF_ERROR(CheckLabel(volume.label));
  if (!volume.renew_fs_type.empty()) MOORING_RETURN_IF_ERROR(CheckFsType(volume.renew_fs_type));
  return mounter_.MakeEncrypted(volume);
}

absl::StatusOr<EncryptedState> GuardedMounter::ReportEncrypted(const EncryptedVolume& volume) {
  MOORING_RETURN_IF_ERROR(CheckCarrier(volume));
  return mounter_.ReportEncrypted(volume);
}

absl::StatusOr<EncryptedState> GuardedMounter::OpenEncrypted(const OpenRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckCarrier(request.volume));
  MOORING_RETURN_IF_ERROR(CheckLabel(request.label));
  return mounter_.OpenEncrypted(request);
}

absl::Status GuardedMounter::CloseEncrypted(const std::string& id) {
  MOORING_RETURN_IF_ERROR(CheckEncrypts());
  return mounter_.CloseEncrypted(id);
}

absl::Status GuardedMounter::ResizeEncrypted(const std::string& id) {
  MOORING_RETURN_IF_ERROR(CheckEncrypts());
  return mounter_.ResizeEncrypted(id);
}

absl::Status GuardedMounter::NoteRawEncrypted(const EncryptedVolume& volume) {
  MOORING_RETURN_IF_ERROR(CheckCarrier(volume));
  return mounter_.NoteRawEncrypted(volume);
}

}  // namespace mooring

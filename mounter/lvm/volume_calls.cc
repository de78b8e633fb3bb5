#include "mounter/lvm/volume_calls.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/filesystem/filesystem.h"
#include "mounter/filesystem/identity.h"
#include "mounter/lvm/lvm_device.h"
#include "mounter/lvm/lvm_program.h"
#include "mounter/lvm/lvm_report.h"
#include "mounter/lvm/volume_steps.h"

namespace mooring {
namespace {

absl::Status Delete(const Lvm& lvm, const LvmVolume& volume) {
  MOORING_RETURN_IF_ERROR(TakeDevice(lvm, volume));
  return lvm.Change(fmt::format("remove the logical volume {}", volume.path()), {"lvremove", "-y", volume.path()});
}

bool HasStranger(const LvmState& state, const LvmVolume& volume) {
  const auto& others = state.other_names;
  return std::find(others.begin(), others.end(), volume.name) != others.end();
}

absl::Status StrangerError(const LvmVolume& volume) {
  return FailedPrecondition(
      "the logical volume {} has no tag {}, or is of another pool, so it is left alone. If it is Mooring's, add the "
      "tag: "
      "lvchange --addtag {} {}",
      volume.path(), kLvmTag, kLvmTag, volume.path());
}

absl::Status CheckThinPool(const LvmState& state, const LvmPool& pool) {
  if (!state.is_thin_pool_active) return Unavailable("nothing is made: {}", state.report.problem);
  if (!state.report.problem.empty()) return ResourceExhausted("nothing is made: {}", state.report.problem);
  if (state.report.zeroes) return absl::OkStatus();
  return FailedPrecondition(
      "thin pool {}/{} does not clear new blocks, so volumes would show the data of others: lvchange -Zy {}/{}",
      pool.group, pool.thin_pool, pool.group, pool.thin_pool);
}

absl::Status CheckSource(const LvmState& state, const LvmVolume& volume, const NewLogicalVolume& wanted) {
  if (wanted.source.empty()) {
    return wanted.is_snapshot ? InvalidArgument("a snapshot has a source") : absl::OkStatus();
  }
  if (!volume.pool.is_thin()) return InvalidArgument("there are no snapshots and clones without a thin pool");
  MOORING_RETURN_IF_ERROR(CheckCanRenew(wanted.renew_fs_type));
  MOORING_ASSIGN_OR_RETURN(const LvmVolume source, ParseLvmVolume(wanted.pool, wanted.source));
  if (FindFinished(state, source.name) != nullptr) return absl::OkStatus();
  return NotFound("logical volume {} does not exist", source.path());
}

absl::Status CheckCanMake(const LvmState& state, const LvmVolume& volume, const NewLogicalVolume& wanted,
                          std::uint64_t bytes) {
  MOORING_RETURN_IF_ERROR(CheckDisks(state, volume.pool));
  if (HasStranger(state, volume)) return StrangerError(volume);
  MOORING_RETURN_IF_ERROR(CheckSource(state, volume, wanted));
  return volume.pool.is_thin() ? CheckThinPool(state, volume.pool) : CheckRoom(state, volume.pool, bytes);
}

// lvcreate refuses --setautoactivation with thin volumes: Finish sets it.
LvmCommand CommandThatMakes(const LvmState& state, const LvmVolume& volume, const NewLogicalVolume& wanted,
                            std::uint64_t bytes) {
  LvmCommand command = {"lvcreate", "-y", "-n", volume.name};
  const auto add = [&](std::initializer_list<std::string> more) { command.insert(command.end(), more); };
  add({"--addtag", std::string(kLvmTag), "--addtag", std::string(kLvmNewTag)});
  const LvmVolumeState* const source = FindFinished(state, wanted.source);
  if (source != nullptr && source->volume.is_raw) add({"--addtag", std::string(kLvmRawTag)});
  const std::string size = fmt::format("{}b", bytes);
  if (!wanted.source.empty()) {
    // With -s, lvm wants the kernel's module for thick snapshots, and may not load it.
    add({"--type", "thin", wanted.is_snapshot ? "-ky" : "-kn", volume.pool.group + "/" + wanted.source});
  } else if (volume.pool.is_thin()) {
    add({"-V", size, "--thinpool", volume.pool.thin_pool, volume.pool.group});
  } else {
    add({"-L", size, "--setautoactivation", "n", "--wipesignatures", "y", "--zero", "y", volume.pool.group});
  }
  return command;
}

// A volume that was never staged holds no filesystem yet. A raw volume may hold another one, or other data. Neither is
// renewed.
absl::Status Renew(const LvmVolume& volume, const std::string& fs_type) {
  if (fs_type.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const LvmDevice device, LvmDevice::Open(volume.pool, volume.name, O_RDONLY));
  MOORING_ASSIGN_OR_RETURN(const FilesystemInfo found, ProbeFilesystem(device.path()));
  if (found.content != FilesystemInfo::Content::kFilesystem || found.type != fs_type) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(RenewIdentity(device.path(), fs_type, device.fd()));
  return device.Sync();
}

absl::Status FillClone(const Lvm& lvm, const LvmState& state, const LvmVolume& volume, const NewLogicalVolume& wanted,
                       std::uint64_t bytes) {
  const LvmVolumeState* const source = FindFinished(state, wanted.source);
  if (source != nullptr && source->volume.bytes < bytes) MOORING_RETURN_IF_ERROR(Extend(lvm, volume, bytes));
  return Renew(volume, wanted.renew_fs_type);
}

// Options for Finish.
absl::StatusOr<std::vector<std::string>> FillThin(const Lvm& lvm, const LvmState& state, const LvmVolume& volume,
                                                  const NewLogicalVolume& wanted, std::uint64_t bytes) {
  const bool is_clone = !wanted.source.empty() && !wanted.is_snapshot;
  if (is_clone) MOORING_RETURN_IF_ERROR(FillClone(lvm, state, volume, wanted, bytes));
  return std::vector<std::string>{"--setautoactivation", "n"};
}

absl::StatusOr<std::vector<std::string>> FillThick(const LvmVolume& volume, bool clear) {
  MOORING_ASSIGN_OR_RETURN(const LvmDevice device, LvmDevice::Open(volume.pool, volume.name, O_WRONLY | O_EXCL));
  if (!clear) {
    MOORING_RETURN_IF_ERROR(device.ClearEnds());
    return std::vector<std::string>();
  }
  MOORING_RETURN_IF_ERROR(device.Clear(0));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, device.Bytes());
  return std::vector<std::string>{"--addtag", ClearedTag(bytes)};
}

// The host gives no volume a device by itself: lvm2 would do it at each boot, also for those that no task uses.
absl::Status Finish(const Lvm& lvm, const LvmVolume& volume, std::vector<std::string> changes) {
  changes.insert(changes.end(), {"--deltag", std::string(kLvmNewTag)});
  return ChangeMetadata(lvm, volume, changes);
}

absl::Status FillAndFinish(const Lvm& lvm, const LvmState& state, const LvmVolume& volume,
                           const NewLogicalVolume& wanted, std::uint64_t bytes) {
  absl::StatusOr<std::vector<std::string>> changes =
      volume.pool.is_thin() ? FillThin(lvm, state, volume, wanted, bytes) : FillThick(volume, wanted.clear);
  if (!changes.ok()) return changes.status();
  return Finish(lvm, volume, *std::move(changes));
}

absl::Status MakeAnew(const Lvm& lvm, const LvmState& state, const LvmVolume& volume, const NewLogicalVolume& wanted,
                      std::uint64_t bytes) {
  MOORING_RETURN_IF_ERROR(lvm.Change(fmt::format("make the logical volume {}", volume.path()),
                                     CommandThatMakes(state, volume, wanted, bytes)));
  const absl::Status done = FillAndFinish(lvm, state, volume, wanted, bytes);
  // After its limit lvm still works on the volume. Its tag lets the next call remove it.
  if (!done.ok() && !absl::IsDeadlineExceeded(done)) {
    log::WarningIfFailed(Delete(lvm, volume), "an unfinished logical volume is not removed yet",
                         {{"volume", volume.path()}});
  }
  return done;
}

const LvmVolumeState* FindAny(const LvmState& state, const std::string& name) {
  const auto found = std::find_if(state.volumes.begin(), state.volumes.end(),
                                  [&](const LvmVolumeState& each) { return each.volume.name == name; });
  return found == state.volumes.end() ? nullptr : &*found;
}

}  // namespace

absl::StatusOr<LvmReport> ReportLvmPool(const Lvm& lvm, const std::string& pool) {
  MOORING_ASSIGN_OR_RETURN(const LvmPool parsed, ParseLvmPool(pool));
  MOORING_ASSIGN_OR_RETURN(LvmState state, ReadFully(lvm, parsed));
  return std::move(state.report);
}

absl::Status MakeVolumeIn(const Lvm& lvm, const NewLogicalVolume& wanted) {
  MOORING_ASSIGN_OR_RETURN(const LvmVolume volume, ParseLvmVolume(wanted.pool, wanted.name));
  MOORING_RETURN_IF_ERROR(CheckNoLvmLingers());
  MOORING_ASSIGN_OR_RETURN(LvmState state, ReadFully(lvm, volume.pool));
  if (FindFinished(state, volume.name) != nullptr) {
    return wanted.source.empty() ? absl::OkStatus() : AlreadyExists("logical volume {} exists", volume.path());
  }
  if (FindAny(state, volume.name) != nullptr) {
    MOORING_RETURN_IF_ERROR(Delete(lvm, volume));
    MOORING_ASSIGN_OR_RETURN(state, ReadFully(lvm, volume.pool));
  }
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, RoundUpToExtents(wanted.bytes, state));
  MOORING_RETURN_IF_ERROR(CheckCanMake(state, volume, wanted, bytes));
  return MakeAnew(lvm, state, volume, wanted, bytes);
}

absl::Status ActivateVolumeIn(const Lvm& lvm, const LogicalVolumeName& name) {
  MOORING_ASSIGN_OR_RETURN(const LvmVolume volume, ParseLvmVolume(name.pool, name.name));
  MOORING_ASSIGN_OR_RETURN(const LvmState state, ReadFully(lvm, volume.pool));
  const LvmVolumeState* const found = FindFinished(state, volume.name);
  if (found == nullptr) return NotFound("logical volume {} does not exist", volume.path());
  if (found->is_suspended) {
    return FailedPrecondition("the logical volume {} is suspended: {}", volume.path(), state.report.problem);
  }
  if (found->volume.is_active) return absl::OkStatus();
  // A growth ended before it had added anything. With its note, what somebody adds later would count as its part.
  if (found->has_growth_note && !found->volume.is_growing) {
    MOORING_RETURN_IF_ERROR(ChangeMetadata(lvm, volume, {"--deltag", std::string(kLvmGrowingTag)}));
  }
  return GiveDevice(lvm, volume);
}

absl::Status NoteRawVolumeIn(const Lvm& lvm, const LogicalVolumeName& name) {
  MOORING_ASSIGN_OR_RETURN(const LvmVolume volume, ParseLvmVolume(name.pool, name.name));
  MOORING_RETURN_IF_ERROR(CheckNoLvmLingers());
  MOORING_ASSIGN_OR_RETURN(const LvmState state, ReadFully(lvm, volume.pool));
  const LvmVolumeState* const found = FindFinished(state, volume.name);
  if (found == nullptr) return NotFound("logical volume {} does not exist", volume.path());
  if (found->volume.is_raw) return absl::OkStatus();
  return ChangeMetadata(lvm, volume, {"--addtag", std::string(kLvmRawTag)});
}

absl::Status RemoveVolumeIn(const Lvm& lvm, const LogicalVolumeName& name) {
  MOORING_ASSIGN_OR_RETURN(const LvmVolume volume, ParseLvmVolume(name.pool, name.name));
  MOORING_RETURN_IF_ERROR(CheckNoLvmLingers());
  MOORING_ASSIGN_OR_RETURN(const LvmState state, ReadFully(lvm, volume.pool));
  if (HasStranger(state, volume)) return StrangerError(volume);
  const LvmVolumeState* const found = FindAny(state, volume.name);
  if (found == nullptr) return absl::OkStatus();
  if (found->has_dependents) {
    return FailedPrecondition(
        "the logical volume {} has snapshots that are not Mooring's, and lvm would remove them with it: remove them "
        "first (lvs -o lv_name,origin {})",
        volume.path(), volume.pool.group);
  }
  return Delete(lvm, volume);
}

}  // namespace mooring

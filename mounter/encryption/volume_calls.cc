#include "mounter/encryption/volume_calls.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/file/directory.h"
#include "base/file/unique_fd.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/encryption/cryptsetup.h"
#include "mounter/encryption/luks_header.h"
#include "mounter/encryption/mapping.h"
#include "mounter/filesystem/filesystem.h"
#include "mounter/filesystem/identity.h"
#include "mounter/image/image.h"
#include "mounter/loop/device_holder.h"
#include "mounter/loop/loop_device.h"
#include "mounter/loop/settle.h"
#include "mounter/path/mapping_names.h"
#include "mounter/path/target.h"
#include "mounter/sys/clear_device.h"
#include "mounter/sys/device_name.h"

namespace mooring {
namespace {

absl::StatusOr<std::string> UuidOf(const std::string& id) {
  std::string uuid = HeaderUuid(id);
  if (!uuid.empty()) return uuid;
  return InvalidArgument("{} is no id of a volume or snapshot", Quote(id));
}

absl::StatusOr<LockedImage> LockCarrier(const EncryptedVolume& volume, const SourcePolicy& sources) {
  MOORING_ASSIGN_OR_RETURN(LockedImage carrier, LockImage(volume.carrier));
  MOORING_RETURN_IF_ERROR(sources.CheckBackingFile(carrier.fd, volume.carrier));
  if (S_ISREG(carrier.status.st_mode)) return carrier;
  return FailedPrecondition("{} is no image file", Quote(volume.carrier));
}

// DATA_LOSS: there is no header, or it has another UUID than `uuid`.
absl::StatusOr<LuksHeader> HeaderIn(const LockedImage& carrier, const std::string& uuid) {
  MOORING_ASSIGN_OR_RETURN(LuksHeader header, ReadLuksHeader(carrier.fd.get(), carrier.path));
  if (header.is_second_alone) {
    log::Warning("the first copy of a header is damaged: mend it while the volume is not in use (cryptsetup repair)",
                 {{"image", carrier.path}});
  }
  if (header.uuid == uuid) return header;
  return absl::DataLossError(fmt::format(
      "the header in {} has the UUID {}, and that of this volume is {}: it is the header of another volume. Restore "
      "the header from its backup (cryptsetup luksHeaderRestore), or the image. It is never made again, because that "
      "would destroy the data",
      Quote(carrier.path), header.uuid, uuid));
}

// INTERNAL: its MakeEncrypted has not ended.
absl::StatusOr<LuksHeader> FinishedHeaderIn(const LockedImage& carrier, const std::string& uuid) {
  MOORING_ASSIGN_OR_RETURN(LuksHeader header, HeaderIn(carrier, uuid));
  if (header.state.is_finished) return header;
  return Internal(
      "the header in {} is not complete: create the volume again if that was interrupted. If the volume was in use, a "
      "change of its header was: cryptsetup luksDump repairs it, and {} has to be noted in it (cryptsetup config "
      "--subsystem)",
      Quote(carrier.path), Quote(SubsystemFor({.is_finished = true})));
}

// The mapping of this header, in use or not.
absl::StatusOr<std::optional<Mapping>> MappingOf(const std::string& id, const std::string& uuid) {
  const std::string name = MappingName(id);
  MOORING_ASSIGN_OR_RETURN(std::optional<Mapping> found, FindMapping(name));
  if (!found) return found;
  if (!found->has_table) {  // a killed cryptsetup left it
    MOORING_RETURN_IF_ERROR(RemoveMapping(name));
    return std::optional<Mapping>();
  }
  std::string digits = uuid;
  std::erase(digits, '-');
  if (found->uuid != fmt::format("CRYPT-LUKS2-{}-{}", digits, name)) {
    return FailedPrecondition("there is a mapping {} of somebody else ({}): remove it (dmsetup remove {})", name,
                              found->uuid, name);
  }
  if (found->is_suspended) MOORING_RETURN_IF_ERROR(ResumeMapping(name));
  return found;
}

// As MappingOf. From now on the mapping does not go with its last user. A mapping that is going already is waited for.
absl::StatusOr<std::optional<Mapping>> StayingMappingOf(const std::string& id, const std::string& uuid) {
  const std::string name = MappingName(id);
  const auto is_going = [&name](const std::optional<Mapping>& found) {
    return found && found->is_leaving && !KeepMapping(name).value_or(false);
  };
  MOORING_ASSIGN_OR_RETURN(const auto found, AskUntilSettled([&] { return FindMapping(name); }, is_going));
  if (!found) return found;
  MOORING_ASSIGN_OR_RETURN(std::optional<Mapping> stays, MappingOf(id, uuid));
  if (!stays || !stays->is_leaving) return stays;
  return Aborted("the mapping {} is being removed at this moment: call again", name);
}

// Keeps a loop device that this call attached, until the mapping does.
absl::Status MakeMapping(const LockedImage& carrier, const OpenRequest& request) {
  const std::string name = MappingName(request.volume.id);
  MOORING_ASSIGN_OR_RETURN(const OpenLoop loop,
                           OpenOrAttachLoop({.label = request.label, .auto_clear = true}, carrier));
  if (!loop.made) {
    MOORING_RETURN_IF_ERROR(Relabel(loop, request.label, true));
    MOORING_RETURN_IF_ERROR(ResizeLoopDevice(loop.info));
  }
  return Cryptsetup(carrier).Open(loop.info.device, loop.fd, name, request.passphrase);
}

// The loop device below the mapping. Empty: it is not known.
absl::StatusOr<std::optional<LoopInfo>> LoopBelow(const Mapping& mapping) {
  const std::string below = fmt::format("/sys/dev/block/{}:{}/slaves", major(mapping.number), minor(mapping.number));
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOrNone(below));
  const std::optional<dev_t> number = names.size() == 1 ? BlockDeviceNumber(names.front()) : std::nullopt;
  return number ? LoopByNumber(*number, true) : absl::StatusOr<std::optional<LoopInfo>>(std::nullopt);
}

// The image of an open volume may have been exchanged: what is written to the mapping would not reach the new file.
// Another node on this kernel may have opened it.
absl::Status CheckIsOurs(const LockedImage& carrier, const Mapping& mapping, const OpenRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<LoopInfo> loop, LoopBelow(mapping));
  if (!loop || !IsOver(*loop, carrier.status)) {
    return FailedPrecondition(
        "the volume is open already, and not over the file that is at {} now: end each use of it, also in other mount "
        "namespaces (mooring doctor {})",
        Quote(carrier.path), request.volume.id);
  }
  if (loop->label == request.label) return absl::OkStatus();
  return FailedPrecondition("the volume in {} is in use by another node of this host, through {} ({})",
                            Quote(carrier.path), loop->device, Quote(loop->label));
}

// The volume may have grown since it was opened.
absl::Status GrowMapping(const LockedImage& carrier, const Mapping& mapping, const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, BlockDeviceBytes(mapping.number));
  if (static_cast<std::uint64_t>(carrier.status.st_size) <= kEncryptionHeader + bytes) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::optional<LoopInfo> loop, LoopBelow(mapping));
  if (loop) MOORING_RETURN_IF_ERROR(ResizeLoopDevice(*loop));
  return ResizeByCryptsetup(MappingName(id));
}

// An open device. Its number cannot become another mapping's.
struct OpenDevice {
  std::string path;
  UniqueFd fd;
};

// While a volume is made. It is closed when the call ends.
absl::StatusOr<OpenDevice> OpenForMoment(const LockedImage& carrier, const NewEncryptedVolume& volume,
                                         const std::string& uuid) {
  const OpenRequest request = {.volume = volume.volume, .passphrase = volume.passphrase, .label = volume.label};
  MOORING_RETURN_IF_ERROR(MakeMapping(carrier, request));
  MOORING_ASSIGN_OR_RETURN(const std::optional<Mapping> mapping, MappingOf(volume.volume.id, uuid));
  if (!mapping) return Aborted("the mapping of {} was removed meanwhile: call again", Quote(carrier.path));
  OpenDevice device = {.path = mapping->Device(), .fd = {}};
  MOORING_ASSIGN_OR_RETURN(device.fd, OpenNoSymlinks(device.path, O_RDWR));
  MOORING_ASSIGN_OR_RETURN(const std::optional<Mapping> now, MappingOf(volume.volume.id, uuid));
  if (now && now->number == mapping->number) return device;
  return Aborted("the mapping of {} was exchanged meanwhile: call again", Quote(carrier.path));
}

// A volume that was never staged holds no filesystem yet, and a raw one may hold anything. Neither is renewed.
absl::Status RenewContent(const LockedImage& carrier, const OpenDevice& device, const std::string& fs_type) {
  MOORING_ASSIGN_OR_RETURN(const FilesystemInfo found, ProbeFilesystem(device.path));
  if (found.content != FilesystemInfo::Content::kFilesystem || found.type != fs_type) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(RenewIdentity(device.path, fs_type, carrier.fd));
  return ::fsync(device.fd.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "write to disk", device.path);
}

// Writes over a header of an earlier call, unless that has ended.
absl::Status Make(const LockedImage& carrier, const NewEncryptedVolume& volume, const std::string& uuid) {
  const Cryptsetup cryptsetup(carrier);
  const absl::StatusOr<LuksHeader> earlier = ReadLuksHeader(carrier.fd.get(), carrier.path);
  if (earlier.ok() && earlier->uuid != uuid) return HeaderIn(carrier, uuid).status();
  if (earlier.ok() && earlier->state.is_finished) {
    return cryptsetup.CheckPassphrase(volume.passphrase);
  }
  MOORING_RETURN_IF_ERROR(cryptsetup.Format(uuid, volume.passphrase));
  MOORING_ASSIGN_OR_RETURN(const OpenDevice device, OpenForMoment(carrier, volume, uuid));
  // With another key, what is there reads as random bytes. Zeros at both ends read as an empty volume.
  MOORING_RETURN_IF_ERROR(ClearEnds(device.fd, device.path));
  return cryptsetup.SetSubsystem(SubsystemFor({.is_finished = true}));
}

// Until the last step the header says that the copy is not finished.
absl::Status MakeOfCopy(const LockedImage& carrier, const NewEncryptedVolume& volume, const std::string& uuid) {
  MOORING_ASSIGN_OR_RETURN(const std::string of_source, UuidOf(volume.source));
  const Cryptsetup cryptsetup(carrier);
  MOORING_ASSIGN_OR_RETURN(const LuksHeader header, FinishedHeaderIn(carrier, of_source));
  if (!volume.renew_fs_type.empty()) MOORING_RETURN_IF_ERROR(cryptsetup.CheckPassphrase(volume.passphrase));
  MOORING_RETURN_IF_ERROR(cryptsetup.SetSubsystem(""));
  MOORING_RETURN_IF_ERROR(cryptsetup.SetUuid(uuid));
  if (!volume.renew_fs_type.empty()) {
    MOORING_ASSIGN_OR_RETURN(const OpenDevice device, OpenForMoment(carrier, volume, uuid));
    MOORING_RETURN_IF_ERROR(RenewContent(carrier, device, volume.renew_fs_type));
  }
  return cryptsetup.SetSubsystem(SubsystemFor(header.state));
}

}  // namespace

absl::Status MakeEncryptedVolume(const NewEncryptedVolume& volume, const SourcePolicy& sources) {
  MOORING_ASSIGN_OR_RETURN(const std::string uuid, UuidOf(volume.volume.id));
  MOORING_RETURN_IF_ERROR(CheckCanRenew(volume.renew_fs_type));
  MOORING_ASSIGN_OR_RETURN(const LockedImage carrier, LockCarrier(volume.volume, sources));
  // A mapping that an interrupted call left goes. A mapping in use stays, and its loop device with it.
  MOORING_RETURN_IF_ERROR(CloseEncryptedVolume(volume.volume.id));
  MOORING_ASSIGN_OR_RETURN(UniqueFd unattached, LockUnattached(carrier));
  unattached.reset();  // the loop device of this call takes the same lock
  const absl::Cleanup close = [&volume] {
    log::WarningIfFailed(CloseEncryptedVolume(volume.volume.id), "a mapping may be left",
                         {{"volume", volume.volume.id}});
  };
  MOORING_RETURN_IF_ERROR(volume.source.empty() ? Make(carrier, volume, uuid) : MakeOfCopy(carrier, volume, uuid));
  return ::fsync(carrier.fd.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "write to disk", carrier.path);
}

absl::StatusOr<EncryptedState> ReportEncryptedVolume(const EncryptedVolume& volume, const SourcePolicy& sources) {
  MOORING_ASSIGN_OR_RETURN(const std::string uuid, UuidOf(volume.id));
  MOORING_ASSIGN_OR_RETURN(const LockedImage carrier, LockCarrier(volume, sources));
  MOORING_ASSIGN_OR_RETURN(const LuksHeader header, HeaderIn(carrier, uuid));
  return header.state;
}

absl::StatusOr<EncryptedState> OpenEncryptedVolume(const OpenRequest& request, const SourcePolicy& sources) {
  MOORING_ASSIGN_OR_RETURN(const std::string uuid, UuidOf(request.volume.id));
  MOORING_ASSIGN_OR_RETURN(const LockedImage carrier, LockCarrier(request.volume, sources));
  MOORING_ASSIGN_OR_RETURN(const LuksHeader header, FinishedHeaderIn(carrier, uuid));
  MOORING_ASSIGN_OR_RETURN(const std::optional<Mapping> there, MappingOf(request.volume.id, uuid));
  if (there) {
    MOORING_RETURN_IF_ERROR(CheckIsOurs(carrier, *there, request));
    MOORING_RETURN_IF_ERROR(Cryptsetup(carrier).CheckPassphrase(request.passphrase));
    MOORING_RETURN_IF_ERROR(GrowMapping(carrier, *there, request.volume.id));
  }
  // Nothing fails after it: the mapping would stay although its users may have gone.
  MOORING_ASSIGN_OR_RETURN(const std::optional<Mapping> stays, StayingMappingOf(request.volume.id, uuid));
  if (!stays) MOORING_RETURN_IF_ERROR(MakeMapping(carrier, request));
  return header.state;
}

absl::Status CloseEncryptedVolume(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const std::string uuid, UuidOf(id));
  MOORING_ASSIGN_OR_RETURN(const std::optional<Mapping> there, MappingOf(id, uuid));
  if (!there) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(ReleaseDevice(there->number));  // a holder would keep it for ever
  return RemoveMapping(MappingName(id));
}

absl::Status ResizeEncryptedVolume(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const std::string uuid, UuidOf(id));
  MOORING_ASSIGN_OR_RETURN(const std::optional<Mapping> there, MappingOf(id, uuid));
  if (!there) return NotFound("the encrypted volume {} is not open", id);
  return ResizeByCryptsetup(MappingName(id));
}

absl::Status NoteRawEncryptedVolume(const EncryptedVolume& volume, const SourcePolicy& sources) {
  MOORING_ASSIGN_OR_RETURN(const std::string uuid, UuidOf(volume.id));
  MOORING_ASSIGN_OR_RETURN(const LockedImage carrier, LockCarrier(volume, sources));
  MOORING_ASSIGN_OR_RETURN(const LuksHeader header, FinishedHeaderIn(carrier, uuid));
  if (header.has_both_notes) return absl::OkStatus();
  return Cryptsetup(carrier).SetSubsystem(SubsystemFor({.is_finished = true, .is_raw = true}));
}

}  // namespace mooring

#include "plugin/backends/luks/luks_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/deadline.h"
#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/device_links.h"
#include "mounter/path/mapping_names.h"
#include "plugin/backends/device/mapped_disks.h"
#include "plugin/backends/image/image_backend.h"
#include "plugin/backends/luks/key_file.h"
#include "plugin/model/call.h"
#include "plugin/model/secrets.h"
#include "plugin/model/volume_id.h"
#include "plugin/model/volume_mount.h"

namespace mooring {
namespace {

constexpr char kKeyFile[] = "keyfile";

std::string KeyFileOf(const PoolConfig& pool) {
  const auto found = pool.own_keys.find(kKeyFile);
  return found == pool.own_keys.end() ? "" : found->second;
}

// The mappings of volumes. All ids of a shared pool have its tag, and no others have one.
std::string MappingsOf(const PoolConfig& pool) {
  constexpr std::size_t kTag = 2 * kPoolTagBytes, kDigits = 2 * kVolumeIdBytes;
  const std::string prefix = MappingName(kVolumeIdPrefix);
  return pool.shared ? prefix + HexDigitsPattern(kTag) + "-" + HexDigitsPattern(kDigits - kTag)
                     : prefix + HexDigitsPattern(kDigits);
}

BackendCapacity WithoutHeader(BackendCapacity capacity) {
  capacity.largest_volume -= std::min(capacity.largest_volume, kEncryptionHeader);
  return capacity;
}

}  // namespace

LuksBackend::LuksBackend(std::unique_ptr<Backend> carrier, std::unique_ptr<Disks> disks, EncryptedVolumes& encrypted,
                         std::string key_file)
    : carrier_(std::move(carrier)), disks_(std::move(disks)), encrypted_(encrypted), key_file_(std::move(key_file)) {}

// ---- sizes

// In whole sectors of the mapping.
absl::StatusOr<std::uint64_t> LuksBackend::RoundUp(std::uint64_t bytes) const {
  const std::uint64_t sectors = bytes / kEncryptionSector + (bytes % kEncryptionSector == 0 ? 0 : 1);
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t rounded,
                           carrier_->RoundUp(sectors * kEncryptionSector + kEncryptionHeader));
  return rounded - kEncryptionHeader;
}

absl::Status LuksBackend::Grow(const std::string& id, std::uint64_t bytes) {
  return carrier_->Grow(id, bytes + kEncryptionHeader);
}

absl::StatusOr<BackendCapacity> LuksBackend::Capacity() const {
  MOORING_ASSIGN_OR_RETURN(const BackendCapacity capacity, carrier_->Capacity());
  return WithoutHeader(capacity);
}

// ---- passphrases

absl::StatusOr<std::string> LuksBackend::PassphraseOr(const std::string& given) const {
  if (given.size() > kLongestPassphrase) {
    return InvalidArgument("secret {} has more than {} bytes", kPassphraseSecret, kLongestPassphrase);
  }
  if (!given.empty()) return given;
  if (!key_file_.empty()) return ReadKeyFile(key_file_);
  return absl::UnauthenticatedError(fmt::format(
      "the pool encrypts its volumes, and the request has no passphrase: give it the secret {} (a StorageClass of "
      "Kubernetes: csi.storage.k8s.io/provisioner-secret-name and csi.storage.k8s.io/node-stage-secret-name), or give "
      "the pool a file with its passphrase (--pool …,{}=PATH)",
      kPassphraseSecret, kKeyFile));
}

// ---- volumes

absl::StatusOr<EncryptedVolume> LuksBackend::VolumeOf(const std::string& id) const {
  MOORING_ASSIGN_OR_RETURN(VolumeLocation image, carrier_->Locate(id));
  return EncryptedVolume{.carrier = std::move(image.path), .id = id};
}

// NOT_FOUND: it is not open. Snapshots never are.
absl::StatusOr<Disk> LuksBackend::MappingOf(const std::string& id) const {
  return IsVolumeId(id) ? disks_->Find(MappingName(id)) : NotFound("{} is never open", Quote(id));
}

absl::Status LuksBackend::Create(const VolumeDraft& draft) {
  MOORING_ASSIGN_OR_RETURN(const std::string passphrase, PassphraseOr(draft.passphrase));
  MOORING_RETURN_IF_ERROR(carrier_->Create({.id = draft.id, .bytes = draft.bytes + kEncryptionHeader}));
  MOORING_ASSIGN_OR_RETURN(EncryptedVolume volume, VolumeOf(draft.id));
  return encrypted_.MakeEncrypted({.volume = std::move(volume), .passphrase = passphrase, .label = LabelFor(draft.id)});
}

absl::StatusOr<CopyDraft> LuksBackend::CarrierCopy(const CopyDraft& draft) const {
  absl::StatusOr<VolumeLocation> source = carrier_->Locate(draft.source_id);
  if (absl::IsNotFound(source.status())) {
    return FailedPrecondition(
        "{} does not lie in this pool: a copy of an encrypted volume lies in the pool of its source",
        Quote(draft.source_id));
  }
  MOORING_RETURN_IF_ERROR(source.status());
  return CopyDraft{.id = draft.id,
                   .source = std::move(source->path),
                   .bytes = draft.bytes + kEncryptionHeader,
                   .source_id = draft.source_id};
}

absl::Status LuksBackend::Encrypt(const CopyDraft& copy) {
  MOORING_ASSIGN_OR_RETURN(EncryptedVolume volume, VolumeOf(copy.id));
  return encrypted_.MakeEncrypted({.volume = std::move(volume),
                                   .passphrase = copy.passphrase,
                                   .label = LabelFor(copy.id),
                                   .source = copy.source_id,
                                   .renew_fs_type = copy.renew_fs_type});
}

// The carrier makes all of its copies or none.
absl::Status LuksBackend::Copy(const std::vector<CopyDraft>& drafts) {
  std::vector<CopyDraft> wanted = drafts, on_carrier;
  for (CopyDraft& draft : wanted) {
    MOORING_ASSIGN_OR_RETURN(CopyDraft copy, CarrierCopy(draft));
    on_carrier.push_back(std::move(copy));
    if (draft.renew_fs_type.empty()) continue;
    MOORING_ASSIGN_OR_RETURN(draft.passphrase, PassphraseOr(draft.passphrase));
  }
  MOORING_RETURN_IF_ERROR(carrier_->Copy(on_carrier));
  absl::Status made;
  for (const CopyDraft& draft : wanted) {
    made = Encrypt(draft);
    if (!made.ok()) break;
  }
  if (made.ok()) return made;
  const DeadlineScope fresh = DeadlineScope::Fresh(kRollback);  // the call's own deadline may be over
  for (const CopyDraft& draft : wanted) {
    log::WarningIfFailed(Delete(draft.id), "a part of a copy that could not be made is left", {{"volume", draft.id}});
  }
  return made;
}

// The mapping of an open volume holds the loop device over its image, which the carrier finds.
absl::Status LuksBackend::CheckUnused(const std::string& id) { return carrier_->CheckUnused(id); }

absl::Status LuksBackend::Delete(const std::string& id) {
  if (MappingOf(id).ok()) MOORING_RETURN_IF_ERROR(encrypted_.CloseEncrypted(id));
  return carrier_->Delete(id);
}

absl::Status LuksBackend::DeleteIfUnused(const std::string& id, const std::function<absl::Status()>& begin) {
  return carrier_->DeleteIfUnused(id, begin);
}

absl::StatusOr<VolumeLocation> LuksBackend::Locate(const std::string& id) const {
  MOORING_ASSIGN_OR_RETURN(VolumeLocation found, carrier_->Locate(id));
  found.carrier = std::move(found.path);
  found.path = MappingPath(id);
  found.bytes -= std::min(found.bytes, kEncryptionHeader);
  if (const absl::StatusOr<Disk> mapping = MappingOf(id); mapping.ok()) {
    found.path = mapping->node;
    found.device = mapping->number;
  }
  return found;
}

// Without its own header a copy has still that of its source.
absl::StatusOr<bool> LuksBackend::IsFinished(const std::string& id) const {
  MOORING_ASSIGN_OR_RETURN(const EncryptedVolume volume, VolumeOf(id));
  const absl::StatusOr<EncryptedState> state = encrypted_.ReportEncrypted(volume);
  if (absl::IsDataLoss(state.status())) return false;
  MOORING_RETURN_IF_ERROR(state.status());
  return state->is_finished;
}

// Nobody has written to an unfinished volume.
bool LuksBackend::HoldsData(const std::string& id) const { return IsFinished(id).value_or(true); }

std::vector<KnownDevice> LuksBackend::KnownDevices() const {
  const absl::StatusOr<std::vector<std::string>> links = disks_->Links();
  std::vector<KnownDevice> devices;
  if (!links.ok()) return devices;
  for (const std::string& link : *links) {
    if (!link.starts_with(kMappingPrefix)) continue;
    const std::string id = link.substr(kMappingPrefix.size());
    const absl::StatusOr<Disk> mapping = MappingOf(id);
    if (!mapping.ok()) continue;
    devices.push_back({.volume_id = id, .number = mapping->number, .node = mapping->node, .is_mapping = true});
  }
  return devices;
}

absl::Status LuksBackend::NoteRawUse(const std::string& id, bool read_only) {
  if (read_only) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const EncryptedVolume volume, VolumeOf(id));
  return encrypted_.NoteRawEncrypted(volume);
}

absl::StatusOr<std::vector<std::string>> LuksBackend::Reconcile() { return carrier_->Reconcile(); }

// ---- the type

namespace {

absl::Status CompleteLuksPool(PoolConfig& pool) {
  if (pool.path.empty()) return InvalidArgument("path is missing: name the directory of the encrypted images");
  const auto key_file = pool.own_keys.find(kKeyFile);
  if (key_file == pool.own_keys.end()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(key_file->second, NormalisePath(kKeyFile, key_file->second));
  // PoolAccess::key_files
  if (ParentOf(key_file->second) != "/") return absl::OkStatus();
  return InvalidArgument("keyfile {} lies in the root directory: put it into a directory, such as /etc/mooring",
                         Quote(key_file->second));
}

absl::Status CheckLuksHost(const PoolConfig& pool, bool /*is_first_start*/) {
  const std::string key_file = KeyFileOf(pool);
  return key_file.empty() ? absl::OkStatus() : Annotate(CheckKeyFile(key_file), "pool " + pool.name);
}

std::unique_ptr<Backend> MakeLuksBackend(const PoolConfig& pool, const std::string& directory,
                                         const BackendParts& parts) {
  auto carrier = std::make_unique<ImageBackend>(directory, parts.mounter, parts.mounter, parts.if_missing, pool.shared);
  return std::make_unique<LuksBackend>(std::move(carrier), std::make_unique<MappedDisks>(MappingsOf(pool)),
                                       parts.mounter, KeyFileOf(pool));
}

void AllowLuks(const PoolConfig& pool, PoolAccess& access) {
  access.image_directories.push_back(pool.path);
  access.encrypted_pools.push_back(pool.path);
  access.link_directories.emplace_back(kMapperDirectory);
  access.device_links.push_back(LinksText(std::string(kMapperDirectory), MappingsOf(pool)));
  if (const std::string key_file = KeyFileOf(pool); !key_file.empty()) access.key_files.push_back(key_file);
}

}  // namespace

const BackendType& LuksBackendType() {
  static const BackendType kType = {.traits = {.name = "luks",
                                               .staging = Staging::kBlockDevice,
                                               .block = true,
                                               .snapshots = true,
                                               .clones = true,
                                               .grows = true,
                                               .enforces_size = true,
                                               .fs_types = {"ext4", "xfs", "btrfs"},
                                               .encrypted = true},
                                    .pool_keys = {"path", "overcommit", "shared", kKeyFile},
                                    .complete = CompleteLuksPool,
                                    .owns_path = true,
                                    .check_host = CheckLuksHost,
                                    .entry_suffix = kImageSuffix,
                                    .make = MakeLuksBackend,
                                    .allow = AllowLuks};
  return kType;
}

}  // namespace mooring

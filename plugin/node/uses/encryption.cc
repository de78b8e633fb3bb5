#include "plugin/node/uses/encryption.h"

#include <algorithm>
#include <vector>

#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "plugin/model/call.h"
#include "plugin/model/volume_mount.h"

namespace mooring {

absl::Status Encryption::WhileOpen(const NodeVolume& volume, const std::string& passphrase, const Action& stage) {
  if (volume.carrier.empty()) return stage(volume);
  MOORING_ASSIGN_OR_RETURN(const std::string key, source_.PassphraseOf(volume.id, passphrase));
  const absl::StatusOr<EncryptedState> state = Open(volume, key);
  if (!state.ok() && !MaySucceedLater(state.status())) return state.status();  // a refused call has opened nothing
  const absl::StatusOr<NodeVolume> open = state.ok() ? FindOpen(volume, *state) : state.status();
  absl::Status staged = open.ok() ? stage(*open) : open.status();
  const DeadlineScope fresh = DeadlineScope::Fresh(kRollback);  // the call's own deadline may be over
  // A cryptsetup that has outlived its mount helper has locked the image. This call waits for its end.
  if (!state.ok()) volumes_.ReportEncrypted({.carrier = volume.carrier, .id = volume.id}).IgnoreError();
  absl::Status closed = CloseUnlessRaw(volume.id);
  // The mount helper has ended. Its successor closes the volume: no other call would, until the volume is unstaged.
  if (absl::IsUnavailable(closed)) closed = CloseUnlessRaw(volume.id);
  log::WarningIfFailed(
      closed,
      "the mapping of an encrypted volume stays until the volume is unstaged or staged again, or the next start",
      {{"volume", volume.id}});
  return staged;
}

absl::StatusOr<EncryptedState> Encryption::Open(const NodeVolume& volume, const std::string& passphrase) {
  absl::StatusOr<EncryptedState> state = volumes_.OpenEncrypted(
      {.volume = {.carrier = volume.carrier, .id = volume.id}, .passphrase = passphrase, .label = LabelFor(volume.id)});
  return state.ok() ? state : Unexpected(state.status());
}

absl::StatusOr<NodeVolume> Encryption::FindOpen(const NodeVolume& volume, const EncryptedState& state) {
  MOORING_ASSIGN_OR_RETURN(NodeVolume open, source_.Find(volume.id));
  if (open.device == 0) {
    return Aborted("volume {} was opened, and has no mapping: another program may have removed it; call again",
                   volume.id);
  }
  open.raw = state.is_raw;
  return open;
}

// The kernel removes a mapping that has users later, so a volume that is mounted can be closed at any time.
absl::Status Encryption::CloseUnlessRaw(const std::string& volume_id) {
  const absl::StatusOr<NodeVolume> volume = source_.Find(volume_id);
  if (!volume.ok() || volume->device != 0) return devices_.ReleaseUnwritten(volume_id);
  // Without a node, nobody can have bound it.
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  const bool is_raw =
      std::any_of(uses.begin(), uses.end(), [](const VolumeUse& use) { return use.access_type == AccessType::kBlock; });
  return is_raw ? absl::OkStatus() : volumes_.CloseEncrypted(volume_id);
}

}  // namespace mooring

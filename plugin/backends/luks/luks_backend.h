// Each volume is an image with a LUKS2 header and the ciphertext behind it. The carrier, which is another backend,
// stores the images. An open volume has a mapping, /dev/mapper/mooring-<id>, which is its device.
//
//   id.img   │ header, kEncryptionHeader │ ciphertext: as many bytes as the volume has │
//
// The node opens and closes volumes (mounter/encrypted_volumes.h). Copies are made of the ciphertext, so that they need
// no passphrase unless their filesystem gets a new UUID.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mounter/mounter.h"
#include "plugin/backends/device/disks.h"
#include "plugin/backends/interface/backend.h"
#include "plugin/backends/interface/backend_type.h"

namespace mooring {

class LuksBackend final : public Backend {
 public:
  // `disks`: the mappings of the pool's volumes. `encrypted` outlives the backend. `key_file`: a path; empty: only the
  // secrets of requests give passphrases.
  LuksBackend(std::unique_ptr<Backend> carrier, std::unique_ptr<Disks> disks, EncryptedVolumes& encrypted,
              std::string key_file);

  absl::StatusOr<std::uint64_t> RoundUp(std::uint64_t bytes) const override;

  // UNAUTHENTICATED: there is no passphrase, or the volume was made with another one.
  absl::Status Create(const VolumeDraft& draft) override;

  // UNAUTHENTICATED as Create, for a filesystem that gets a new UUID. FAILED_PRECONDITION: a source lies in another
  // pool. DATA_LOSS: a source has lost its header.
  absl::Status Copy(const std::vector<CopyDraft>& drafts) override;
  absl::Status CheckUnused(const std::string& id) override;

  // For what an interrupted Create or Copy left, and for snapshots: a mapping that is left open is closed. No raw
  // device may be staged.
  absl::Status Delete(const std::string& id) override;
  absl::Status DeleteIfUnused(const std::string& id, const std::function<absl::Status()>& begin) override;
  absl::Status Grow(const std::string& id, std::uint64_t bytes) override;

  // Also of an unfinished volume. VolumeLocation::raw is unknown here: the node learns it from OpenEncrypted.
  absl::StatusOr<VolumeLocation> Locate(const std::string& id) const override;
  absl::StatusOr<bool> IsFinished(const std::string& id) const override;
  absl::StatusOr<BackendCapacity> Capacity() const override;
  std::vector<KnownDevice> KnownDevices() const override;
  absl::Status NoteRawUse(const std::string& id, bool read_only) override;

  // FAILED_PRECONDITION: the key file is missing, empty or too long.
  absl::StatusOr<std::string> PassphraseOr(const std::string& given) const override;
  bool HoldsData(const std::string& id) const override;
  absl::StatusOr<std::vector<std::string>> Reconcile() override;

 private:
  absl::StatusOr<EncryptedVolume> VolumeOf(const std::string& id) const;
  absl::StatusOr<Disk> MappingOf(const std::string& id) const;
  absl::StatusOr<CopyDraft> CarrierCopy(const CopyDraft& draft) const;
  absl::Status Encrypt(const CopyDraft& copy);

  const std::unique_ptr<Backend> carrier_;
  const std::unique_ptr<Disks> disks_;
  EncryptedVolumes& encrypted_;
  const std::string key_file_;
};

const BackendType& LuksBackendType();

}  // namespace mooring

// Opens encrypted volumes before they are staged, and closes them afterwards (mounter/encrypted_volumes.h).
//
//   image ◀─ loop device ◀─ mapping ◀─┬─ mounted filesystem     a user: what is closed goes with the last one
//                                     ├─ writable targets       only nodes: the mapping must stay open for them
//                                     └─ read-only device       a user (VolumeDevices)
//
// So the end of a mounted filesystem needs no call, in whichever mount namespace it is. The mapping of a raw volume
// stays open until VolumeDevices::Release finds that no staging path and no target needs it.
//
// It keeps no state. The caller holds the volume's lock.
#pragma once

#include <functional>
#include <string>

#include "plugin/model/volume_source.h"
#include "plugin/node/uses/node_store.h"
#include "plugin/node/uses/volume_devices.h"

namespace mooring {

class Encryption {
 public:
  Encryption(EncryptedVolumes& volumes, VolumeSource& source, NodeStore& store, VolumeDevices& devices)
      : volumes_(volumes), source_(source), store_(store), devices_(devices) {}

  // Opens the volume, calls `stage` with its mapping, and closes it again unless there is a raw use. A volume that is
  // not encrypted is passed on as it is. `passphrase`: of the request; empty: that of the pool. It is checked even
  // if the volume is open.
  //
  // UNAUTHENTICATED: there is no passphrase, or it is wrong. DATA_LOSS: the image has not the header of the volume.
  // Nothing has changed then.
  using Action = std::function<absl::Status(const NodeVolume& open)>;
  absl::Status WhileOpen(const NodeVolume& volume, const std::string& passphrase, const Action& stage);

 private:
  absl::StatusOr<EncryptedState> Open(const NodeVolume& volume, const std::string& passphrase);
  absl::StatusOr<NodeVolume> FindOpen(const NodeVolume& volume, const EncryptedState& state);
  absl::Status CloseUnlessRaw(const std::string& volume_id);

  EncryptedVolumes& volumes_;
  VolumeSource& source_;
  NodeStore& store_;
  VolumeDevices& devices_;
};

}  // namespace mooring

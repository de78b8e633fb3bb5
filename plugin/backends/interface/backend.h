// The storage of volumes and snapshots. A backend creates, copies, finds, grows and deletes them by an id that the
// plugin makes. It knows neither CSI nor records. The catalog sees to it that calls for one id do not overlap. Calls
// for different ids may overlap.
//
// The plugin has one backend for each pool (plugin/backends/pools.h). Callers check TraitsOf, and never ask a backend
// for an ability that its kind does not have.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "plugin/model/backend_traits.h"

namespace mooring {

struct VolumeLocation {
  std::string path;             // an image file, a directory, or a block device; empty: memory
  std::uint64_t bytes = 0;      // its size now; 0: the kind does not enforce it (TraitsOf)
  ino_t inode = 0;              // of a directory; identifies its mounts, together with its name
  dev_t inode_device = 0;       // PathInfo::inode_device of a subvolume, whose inode is that of all; 0: any
  dev_t device = 0;             // of a block device; identifies its mounts
  bool raw = false;             // BackendTraits::whole_devices: see Backend::NoteRawUse
  bool is_limited = true;       // false: nothing holds it to a size, and `bytes` says nothing, whatever its kind can
  std::string problem = {};     // a sentence for the condition of the volume; empty: none
  std::string unfinished = {};  // a sentence: why it cannot be staged now, and what to do; empty: it can
  // BackendTraits::encrypted: the image of the volume. `path` is its mapping then, which is there while it is open;
  // while it is not, `device` is 0.
  std::string carrier = {};
};

struct VolumeDraft {
  std::string id;
  std::uint64_t bytes = 0;
  std::string device = {};      // BackendTraits::whole_devices: the requested device; empty: any that fits
  std::uint64_t limit = 0;      // BackendTraits::whole_devices: bytes at most; 0: no limit
  bool raw = false;             // it may be used as a raw device
  std::string passphrase = {};  // BackendTraits::encrypted: as given; empty: that of the pool
};

// A new volume or snapshot with the content of another one.
struct CopyDraft {
  std::string id;
  std::string source = {};         // VolumeLocation::path, in this or another pool of the same kind
  std::uint64_t bytes = 0;         // the size of the source or more
  std::string renew_fs_type = {};  // the type of the filesystem that gets a new UUID; empty: none does
  std::string source_id = {};      // of the volume or snapshot at `source`
  std::string passphrase = {};     // BackendTraits::encrypted: of the source, as given; empty: that of the pool
};

struct BackendCapacity {
  std::uint64_t total = 0;           // bytes, used and free
  std::uint64_t available = 0;       // bytes
  std::uint64_t largest_volume = 0;  // bytes
  std::string shortage = {};         // a sentence: why writes to existing volumes will fail soon; empty: they will not
};

class Backend {
 public:
  virtual ~Backend() = default;

  // The size that a volume gets if it is asked to have this many bytes.
  virtual absl::StatusOr<std::uint64_t> RoundUp(std::uint64_t bytes) const { return bytes; }

  // Creates the volume, or finishes an unfinished one. OK if it exists with this size. RESOURCE_EXHAUSTED: no room.
  virtual absl::Status Create(const VolumeDraft& draft) = 0;

  // Makes all copies, at one instant, or none. ALREADY_EXISTS: one of them exists. FAILED_PRECONDITION:
  // BackendTraits::clones_unused, and this host uses the source. UNIMPLEMENTED: the kind has no clones.
  virtual absl::Status Copy(const std::vector<CopyDraft>& /*drafts*/) {
    return Unimplemented("volumes of this backend cannot be copied");
  }

  // FAILED_PRECONDITION: something on this host still uses the volume, or another host has attached it. OK if it does
  // not exist. UNAVAILABLE: the pool is not there now, so nobody knows.
  virtual absl::Status CheckUnused(const std::string& id) = 0;

  // OK if it does not exist. FAILED_PRECONDITION: it is in use, as for CheckUnused, while no new use can begin.
  virtual absl::Status Delete(const std::string& id) = 0;

  // Delete, after a call of `begin` once the volume is known to be unused. An error of `begin` ends the call.
  virtual absl::Status DeleteIfUnused(const std::string& id, const std::function<absl::Status()>& begin) {
    MOORING_RETURN_IF_ERROR(CheckUnused(id));
    MOORING_RETURN_IF_ERROR(begin());
    return Delete(id);
  }

  // BackendTraits::sets_aside: renames the volume, whose data then belongs to no volume. OK if it does not exist.
  virtual absl::Status SetAside(const std::string& /*id*/, const std::string& /*name*/) {
    return Unimplemented("volumes of this backend cannot keep their data when they are deleted");
  }

  // BackendTraits::sets_aside: `name` in the pool leads to the volume, for people and programs beside Mooring. The
  // caller knows that no other volume is to have it.
  //
  // TakeName comes before Create or Copy. With `adopts`, a directory of that name becomes the volume. ALREADY_EXISTS:
  // something else has the name.
  virtual absl::Status TakeName(const std::string& /*id*/, const std::string& /*name*/, bool /*adopts*/) {
    return HasNoNames();
  }
  virtual absl::Status SetName(const std::string& /*id*/, const std::string& /*name*/) { return HasNoNames(); }
  // OK if the name leads elsewhere, or does not exist.
  virtual absl::Status ClearName(const std::string& /*id*/, const std::string& /*name*/) { return HasNoNames(); }

  // Never shrinks. OK if the volume has this size or more. UNIMPLEMENTED: the kind's volumes do not grow.
  virtual absl::Status Grow(const std::string& /*id*/, std::uint64_t /*bytes*/) {
    return Unimplemented("volumes of this backend do not grow");
  }

  // BackendTraits::enforces_size: gives an existing volume back what holds it to its size. A restored backup or a check
  // of the filesystem may have taken that away. `bytes`: as recorded; a size that is larger stays. It is called at each
  // start, before Locate.
  virtual absl::Status HoldToSize(const std::string& /*id*/, std::uint64_t /*bytes*/) { return absl::OkStatus(); }

  // NOT_FOUND: the volume does not exist. UNAVAILABLE: its device is not there now, and may come back. It is fast, and
  // waits for nothing that may hang.
  virtual absl::StatusOr<VolumeLocation> Locate(const std::string& id) const = 0;

  // UNAVAILABLE: the pool does not answer, so Locate could hang as well.
  virtual absl::StatusOr<BackendCapacity> Capacity() const = 0;

  // Capacity for metrics, which ask every few seconds: it takes no lock that calls wait for, and reads no device.
  virtual absl::StatusOr<BackendCapacity> QuickCapacity() const { return Capacity(); }

  // Staging::kBlockDevice: the devices of all volumes, which identify their mounts, also of missing devices.
  virtual std::vector<KnownDevice> KnownDevices() const { return {}; }

  // Waits until the volume's device appears, or until that time.
  virtual void WaitFor(const std::string& /*id*/, std::chrono::steady_clock::time_point /*until*/) const {}

  // Staging::kBlockDevice: a task is about to get the volume as a raw device. It may read everything, and write
  // anywhere unless it is `read_only`. From then on a whole device is taken for empty only if all of it was read
  // (FilesystemInfo::whole). FAILED_PRECONDITION: the device may still hold what others wrote.
  virtual absl::Status NoteRawUse(const std::string& /*id*/, bool /*read_only*/) { return absl::OkStatus(); }

  // BackendTraits::encrypted: `given` if it is not empty, else the passphrase of the pool's key file. UNAUTHENTICATED:
  // there is none. INVALID_ARGUMENT: it is too long.
  virtual absl::StatusOr<std::string> PassphraseOr(const std::string& /*given*/) const {
    return Unimplemented("volumes of this backend are not encrypted");
  }

  // Whether Create or Copy of an existing volume or snapshot has ended. Where Locate finds only finished ones: true.
  virtual absl::StatusOr<bool> IsFinished(const std::string& /*id*/) const { return true; }

  // Whether something was written to an existing volume; true if it is unknown.
  virtual bool HoldsData(const std::string& /*id*/) const { return true; }

  // Removes the unfinished files of killed programs. Returns the ids that have files here, whole or unfinished ones. It
  // is called at the start, and after an interrupted copy. With an Availability it is called until it leaves nothing.
  virtual absl::StatusOr<std::vector<std::string>> Reconcile() = 0;

 private:
  static absl::Status HasNoNames() { return Unimplemented("volumes of this backend have no names"); }
};

}  // namespace mooring

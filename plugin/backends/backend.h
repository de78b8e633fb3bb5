// Where volumes and snapshots lie. A backend makes, copies, finds, grows and deletes them by an id of the plugin's own;
// it knows neither CSI nor records. Calls for one id do not overlap (the catalog sees to it); for different ids they
// may.
//
// The plugin has one backend for each pool (plugin/backends/pools.h). What a kind of backend can is in TraitsOf, and
// what it cannot is refused before it is asked.
#ifndef MOORING_PLUGIN_BACKENDS_BACKEND_H_
#define MOORING_PLUGIN_BACKENDS_BACKEND_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/model/backend_traits.h"

namespace mooring {

struct VolumeLocation {
  std::string path;         // an image file, a directory, or a block device; empty: memory
  std::uint64_t bytes = 0;  // its size now; 0 where TraitsOf does not enforce it
  ino_t inode = 0;          // of a directory: with its name, what its mounts are known by
  dev_t device = 0;         // of a block device: what its mounts are known by
};

struct VolumeDraft {
  std::string id;
  std::uint64_t bytes = 0;
  std::string device = {};  // the one that is asked for, where the backend has several; empty: any that fits
  std::uint64_t limit = 0;  // for a backend that has sizes of its own: bytes at most; 0: none
};

// A volume, or a snapshot, that is to hold what another one holds now.
struct CopyDraft {
  std::string id;
  std::string source;              // VolumeLocation::path, in this or another pool of the same kind
  std::uint64_t bytes = 0;         // the source's size or more
  std::string renew_fs_type = {};  // the filesystem that gets an identity of its own; empty: none does
};

struct BackendCapacity {
  std::uint64_t total = 0;           // bytes, of what has volumes and of what has not
  std::uint64_t available = 0;       // bytes
  std::uint64_t largest_volume = 0;  // bytes
  std::string shortage = {};  // why writes to volumes that are there will fail soon, a sentence; empty: they will not
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Makes the volume, or finishes one half made; an existing one of this size is OK. RESOURCE_EXHAUSTED: no room.
  virtual absl::Status Create(const VolumeDraft& draft) = 0;

  // All of one instant, all or none; one that is there already is ALREADY_EXISTS. UNIMPLEMENTED where TraitsOf has no
  // snapshots.
  virtual absl::Status Copy(const std::vector<CopyDraft>& drafts) = 0;

  // FAILED_PRECONDITION: something on this host still uses it. Gone is unused.
  virtual absl::Status CheckUnused(const std::string& id) = 0;

  // Gone already is OK. FAILED_PRECONDITION as CheckUnused, which is asked again where nobody can begin a use.
  virtual absl::Status Delete(const std::string& id) = 0;

  // Never shrinks; a volume of this size or larger is OK.
  virtual absl::Status Grow(const std::string& id, std::uint64_t bytes) = 0;

  // NOT_FOUND for an id that is not there or could never be. Quick, and without waiting for what hangs.
  virtual absl::StatusOr<VolumeLocation> Locate(const std::string& id) const = 0;

  virtual absl::StatusOr<BackendCapacity> Capacity() const = 0;

  // The same at a glance, for who looks every few seconds: takes no lock that calls wait for, and reads no device.
  virtual absl::StatusOr<BackendCapacity> Glance() const { return Capacity(); }

  // Of volumes that are devices of their own: how their mounts are told from others, also when the device is gone.
  virtual std::vector<KnownDevice> KnownDevices() const { return {}; }

  // Until the volume's device is there, or that time.
  virtual void WaitFor(const std::string& /*id*/, std::chrono::steady_clock::time_point /*until*/) const {}

  // Whether anything was written to a volume that is there; true where that cannot be told.
  virtual bool HoldsData(const std::string& /*id*/) const { return true; }

  // For the start, and after a copy that was cut short: removes what killed programs left half done, and gives the ids
  // that have something here, whole or half made.
  virtual absl::StatusOr<std::vector<std::string>> Reconcile() = 0;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_BACKENDS_BACKEND_H_

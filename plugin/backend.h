// Where volumes come from. A backend makes, finds, grows and deletes them by an id of the plugin's own; it knows
// neither CSI nor mounts. Calls for one id do not overlap (the catalog sees to it); for different ids they may.
#ifndef MOORING_PLUGIN_BACKEND_H_
#define MOORING_PLUGIN_BACKEND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

struct VolumeLocation {
  std::string path;         // an image file, or a block device
  std::uint64_t bytes = 0;  // its size now
};

struct BackendCapacity {
  std::uint64_t available = 0;       // bytes
  std::uint64_t largest_volume = 0;  // bytes
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Makes the volume, or finishes one half made; an existing one of this size is OK. RESOURCE_EXHAUSTED: no room.
  virtual absl::Status Create(const std::string& id, std::uint64_t bytes) = 0;

  // FAILED_PRECONDITION: something on this host still uses it. Gone is unused.
  virtual absl::Status CheckUnused(const std::string& id) = 0;

  // Gone already is OK. FAILED_PRECONDITION as CheckUnused, which is asked again where nobody can begin a use.
  virtual absl::Status Delete(const std::string& id) = 0;

  // Never shrinks; a volume of this size or larger is OK.
  virtual absl::Status Grow(const std::string& id, std::uint64_t bytes) = 0;

  // NOT_FOUND for an id that is not there or could never be.
  virtual absl::StatusOr<VolumeLocation> Locate(const std::string& id) const = 0;

  virtual absl::StatusOr<BackendCapacity> Capacity() const = 0;

  // The ids that have something on disk, finished or not. For reconciling.
  virtual absl::StatusOr<std::vector<std::string>> List() const = 0;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_BACKEND_H_

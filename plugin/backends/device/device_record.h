// Which device a volume has: a small file. It is what stays of a volume when its device is gone, or another one is in
// its place.
#ifndef MOORING_PLUGIN_BACKENDS_DEVICE_DEVICE_RECORD_H_
#define MOORING_PLUGIN_BACKENDS_DEVICE_DEVICE_RECORD_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

struct DeviceRecord {
  std::string link;
  std::string serial;       // empty: it had none
  std::uint64_t bytes = 0;  // when it was taken

  // Where it was when it was last seen, in that boot.
  std::string node;
  dev_t number = 0;
  std::string boot_id;

  bool operator==(const DeviceRecord&) const = default;
};

// NOT_FOUND; or FAILED_PRECONDITION: it makes no sense.
absl::StatusOr<DeviceRecord> ReadDeviceRecord(const std::string& path);

// Whole or not at all, and on disk. FAILED_PRECONDITION: a name with a line break.
absl::Status WriteDeviceRecord(const std::string& path, const DeviceRecord& record);

}  // namespace mooring

#endif  // MOORING_PLUGIN_BACKENDS_DEVICE_DEVICE_RECORD_H_

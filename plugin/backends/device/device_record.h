// The file that says which device a volume has. It stays when the device is missing, or another device has its link.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

struct DeviceRecord {
  std::string link;
  std::string serial;       // empty: it had none
  std::uint64_t bytes = 0;  // when the volume was created

  // The device node when it was last seen, and in which boot.
  std::string node;
  dev_t number = 0;
  std::string boot_id;

  bool operator==(const DeviceRecord&) const = default;
};

// NOT_FOUND: the file does not exist. FAILED_PRECONDITION: the file is malformed.
absl::StatusOr<DeviceRecord> ReadDeviceRecord(const std::string& path);

// Writes the file atomically, and syncs it. FAILED_PRECONDITION: a field has a line break.
absl::Status WriteDeviceRecord(const std::string& path, const DeviceRecord& record);

}  // namespace mooring

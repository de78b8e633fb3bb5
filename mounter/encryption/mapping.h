// The mappings of encrypted volumes, through ioctl(2) of /dev/mapper/control (linux/dm-ioctl.h). cryptsetup makes them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

struct Mapping {
  std::string uuid;  // "CRYPT-LUKS2-<digits of the header's UUID>-<name>"
  dev_t number = 0;
  bool has_table = false;     // false: its cryptsetup was killed
  bool is_suspended = false;  // users wait
  bool is_leaving = false;    // it goes with its last user

  std::string Device() const;  // "/dev/dm-3"
};

// Empty: there is none. FAILED_PRECONDITION: the kernel has no device mapper.
absl::StatusOr<std::optional<Mapping>> FindMapping(const std::string& name);

// Now, or with its last user. OK if there is none.
absl::Status RemoveMapping(const std::string& name);

// It does not go with its last user any more. False: there is none, or it is going already.
absl::StatusOr<bool> KeepMapping(const std::string& name);

// Ends a suspension, and lets the users go on.
absl::Status ResumeMapping(const std::string& name);

}  // namespace mooring

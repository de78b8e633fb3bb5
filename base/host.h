// Facts of this host and this boot.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring {

std::string HostName();                // gethostname(2); "localhost" where that fails
absl::StatusOr<std::string> BootId();  // /proc/sys/kernel/random/boot_id, see random(4)
// The programs that run as descendants of this process, without Mooring's own: "mkfs.ext4 (4711)".
std::vector<std::string> RunningPrograms();

// Raises RLIMIT_NOFILE as far as this process may, up to 65536: each call under way has a connection, a channel and
// files of its own.
void RaiseOpenFileLimit();

std::string RandomHex(std::size_t bytes);  // 2 * bytes lower-case digits from getrandom(2)

}  // namespace mooring

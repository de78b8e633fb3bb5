// Facts of this host and this boot.
#ifndef MOORING_BASE_HOST_H_
#define MOORING_BASE_HOST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring {

std::string HostName();                     // gethostname(2); "localhost" where that fails
absl::StatusOr<std::string> BootId();       // /proc/sys/kernel/random/boot_id, see random(4)
std::vector<std::string> ChildProcesses();  // of this process, as "mkfs.ext4 (4711)"
std::string RandomHex(std::size_t bytes);   // 2 * bytes lower-case digits from getrandom(2)

}  // namespace mooring

#endif  // MOORING_BASE_HOST_H_

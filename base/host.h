// Facts of this host and this boot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring {

std::string HostName();                // uname(2): at most 64 bytes; "localhost" where that fails
absl::StatusOr<std::string> BootId();  // /proc/sys/kernel/random/boot_id, see random(4)
// The programs that run as descendants of this process, without Mooring's own: "mkfs.ext4 (4711)".
std::vector<std::string> RunningPrograms();

// Raises RLIMIT_NOFILE as far as this process may, up to 65536: each call under way has a connection, a channel and
// files of its own.
void RaiseOpenFileLimit();

// Occupies the numbers of standard files that are closed. Otherwise another file would get the number, and receive the
// log. Reading and writing fail as before.
void FillStandardFiles();

// Ignores the signals of a write to a pipe without a reader, and beyond RLIMIT_FSIZE (ulimit -f). So the write fails
// instead, and the error names the file.
void IgnoreWriteSignals();

// Raises RLIMIT_FSIZE as far as this process may. The limit that is left, in bytes. Empty: none.
std::optional<std::uint64_t> RaiseFileSizeLimit();

std::string RandomHex(std::size_t bytes);  // 2 * bytes lower-case digits from getrandom(2)

}  // namespace mooring

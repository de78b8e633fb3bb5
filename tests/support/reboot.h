// A reboot of the host for a test's own directory: only what is on disk stays.
//
//   stays   directories, files (also empty mount points), sockets that nobody serves, lock files, records
//   goes    mounts, loop devices, processes, the contents of `run` (the host's /run), and the boot id
//
// Mounts and the boot id are those of the caller's mount namespace, which must be private.
#pragma once

#include <string>
#include <vector>

namespace mooring::testing {

// `directory`: of a TempDir. Ends every other process that has its path on the command line, or a file, working
// directory or root below it. `run`: directories that are on a tmpfs on a real host. The test fails if anything remains
// that a reboot removes.
void Reboot(const std::string& directory, const std::vector<std::string>& run = {});

}  // namespace mooring::testing

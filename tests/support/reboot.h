// A reboot of the host, as far as a test's own directory is concerned: everything on disk stays, and nothing else does.
//
//   stays   directories, files, empty files that were mounted on, sockets that nobody serves, lock files, records
//   goes    mounts, loop devices, processes, the contents of `run` (the host's /run), and the boot id, which is new
//
// Mounts and the boot id are those of the caller's mount namespace, which has to be private.
#ifndef MOORING_TESTS_SUPPORT_REBOOT_H_
#define MOORING_TESTS_SUPPORT_REBOOT_H_

#include <string>
#include <vector>

namespace mooring::testing {

// `directory`: what a TempDir made. The processes are those that have its path on their command line, or a file, a
// working directory or a root below it; the calling process is not among them. `run`: directories that are on a tmpfs
// on a real host. Where anything remains that a reboot takes away, the test fails.
void Reboot(const std::string& directory, const std::vector<std::string>& run = {});

}  // namespace mooring::testing

#endif  // MOORING_TESTS_SUPPORT_REBOOT_H_

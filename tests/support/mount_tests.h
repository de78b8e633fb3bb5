// Runs tests that mount for real. The caller is in a mount namespace of its own, where all mounts are private.
#pragma once

namespace mooring::testing {

// Whether the environment has MOORING_TEST_ROOT=shared. Then "/" and all other mounts become shared, as on each host
// with systemd, before a test begins. A second namespace receives their mounts, as a container would.
bool RootIsShared();

// Returns the status for main(). It is not 0 if a test failed. Nor is it if one left a loop device, or a mount in the
// second namespace.
int RunMountTests();

}  // namespace mooring::testing

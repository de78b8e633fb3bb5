// main() of the tests on the real kernel. Runs them as root in a mount namespace of their own, so that no mount is
// left. Loop devices are the host's: one that is left fails the test.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "tests/support/kernel.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (::testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  if (::geteuid() != 0 || ::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    std::fprintf(stderr, "these tests mount for real: they need root (%s)\n", std::strerror(errno));
    return 1;
  }
  const int result = RUN_ALL_TESTS();
  int left = 0;
  const std::string own = "/mooring-test-" + std::to_string(::getpid()) + "-";  // TempDir
  for (const auto& loop : mooring::testing::LoopsOver("/")) {
    if (loop.backing_file.find(own) == std::string::npos) continue;
    std::fprintf(stderr, "left attached: %s over %s\n", loop.device.c_str(), loop.backing_file.c_str());
    ++left;
  }
  return left == 0 ? result : 1;
}

#include "tests/support/mount_tests.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/file/unique_fd.h"
#include "tests/support/kernel.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace mooring::testing {
namespace {

std::string PathOfTests() { return "/" + TempDirPrefix(); }

std::vector<LoopLine> LoopsLeft(const std::string& path) {
  std::vector<LoopLine> loops = LoopsOver("/");
  std::erase_if(loops, [&](const LoopLine& loop) { return loop.backing_file.find(path) == std::string::npos; });
  return loops;
}

// Another process, such as blkid(8), may have had a device open when it was detached. The kernel lets go of it when
// that process closes it, so this waits.
bool LoopsAreGone(const std::string& path) {
  const auto has_detached = [&] {
    const std::vector<LoopLine> loops = LoopsLeft(path);
    return std::any_of(loops.begin(), loops.end(), [](const LoopLine& loop) { return loop.auto_clear; });
  };
  WaitUntil([&] { return !has_detached(); }, std::chrono::seconds(30));
  const std::vector<LoopLine> left = LoopsLeft(path);
  for (const LoopLine& loop : left) {
    std::fprintf(stderr, "left attached: %s over %s\n", loop.device.c_str(), loop.backing_file.c_str());
  }
  return left.empty();
}

int CountMountsLeft(const std::string& path) {
  int left = 0;
  for (const MountLine& line : Mounts()) {
    if (line.target.find(path) == std::string::npos) continue;
    std::fprintf(stderr, "left mounted in the second namespace: %s\n", line.target.c_str());
    ++left;
  }
  return left;
}

// Shares all mounts, moves to a copy of this namespace, and returns the namespace that was left. No process is in that
// one, so tests can count their children and the namespaces of all processes.
UniqueFd ShareRoot() {
  UniqueFd second(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  if (::mount("none", "/", nullptr, MS_REC | MS_SHARED, nullptr) != 0 || ::unshare(CLONE_NEWNS) != 0) second.reset();
  if (!second.ok()) std::fprintf(stderr, "cannot share '/': %s\n", std::strerror(errno));
  return second;
}

bool IsLeftClean(const UniqueFd& second) {
  const std::string path = PathOfTests();
  const pid_t pid = ::fork();  // a process with threads cannot enter
  if (pid == 0) ::_exit(::setns(second.get(), CLONE_NEWNS) == 0 && CountMountsLeft(path) == 0 ? 0 : 1);
  int status = 1;
  return ::waitpid(pid, &status, 0) == pid && status == 0;
}

}  // namespace

bool RootIsShared() {
  const char* const asked = std::getenv("MOORING_TEST_ROOT");
  return asked != nullptr && std::strcmp(asked, "shared") == 0;
}

int RunMountTests() {
  UniqueFd second;
  if (RootIsShared()) {
    second = ShareRoot();
    if (!second.ok()) return 1;
  }
  const int result = RUN_ALL_TESTS();
  const bool clean = LoopsAreGone(PathOfTests()) && (!second.ok() || IsLeftClean(second));
  return clean ? result : 1;
}

}  // namespace mooring::testing

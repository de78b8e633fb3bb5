#include "tests/support/reboot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/file/unique_fd.h"
#include "base/host.h"
#include "tests/support/kernel.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";
constexpr char kAnyUuid[] = "/proc/sys/kernel/random/uuid";

bool Eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

bool LeadsBelow(const fs::path& link, const std::string& directory) {
  std::error_code gone;
  const std::string place = fs::read_symlink(link, gone).string();
  return !gone && (place == directory || place.starts_with(directory + "/"));
}

bool Uses(const fs::path& process, const std::string& directory) {
  if (ReadFile(process / "cmdline").find(directory) != std::string::npos) return true;
  if (LeadsBelow(process / "cwd", directory) || LeadsBelow(process / "root", directory)) return true;
  std::error_code gone;
  for (fs::directory_iterator fd(process / "fd", gone), end; !gone && fd != end; fd.increment(gone)) {
    if (LeadsBelow(fd->path(), directory)) return true;
  }
  return false;
}

std::vector<pid_t> ProcessesOf(const std::string& directory) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::stoi(name);
    if (pid != ::getpid() && pid != ::getppid() && Runs(pid) && Uses(entry.path(), directory)) found.push_back(pid);
  }
  return found;
}

void EndProcesses(const std::string& directory) {
  const bool ended = Eventually([&] {
    const std::vector<pid_t> left = ProcessesOf(directory);
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    return left.empty();
  });
  ASSERT_TRUE(ended) << "processes survive the reboot";
}

void EndMounts(const std::string& directory) {
  const bool ended = Eventually([&] {
    const std::vector<MountLine> mounts = MountsBelow(directory);
    for (auto line = mounts.rbegin(); line != mounts.rend(); ++line) {
      ::umount2(line->target.c_str(), UMOUNT_NOFOLLOW);
    }
    return MountsBelow(directory).empty();
  });
  ASSERT_TRUE(ended) << "a mount survives the reboot: " << MountsBelow(directory).front().target;
}

// Includes devices over other devices of the list. The kernel lists them in any order.
std::vector<LoopLine> LoopsOfTest(const std::string& directory) {
  std::vector<LoopLine> found, others = Loops();
  const auto is_ours = [&](const LoopLine& line) {
    return line.backing_file.starts_with(directory + "/") ||
           std::any_of(found.begin(), found.end(),
                       [&](const LoopLine& below) { return line.backing_file == below.device; });
  };
  for (auto next = std::find_if(others.begin(), others.end(), is_ours); next != others.end();
       next = std::find_if(others.begin(), others.end(), is_ours)) {
    found.push_back(*next);
    others.erase(next);
  }
  return found;
}

void EndLoops(const std::string& directory) {
  const bool ended = Eventually([&] {
    const std::vector<LoopLine> loops = LoopsOfTest(directory);
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) DetachLoop(*loop);
    return LoopsOfTest(directory).empty();
  });
  ASSERT_TRUE(ended) << "a loop device survives the reboot";
}

bool Answers(const std::string& socket) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket.size() >= sizeof(address.sun_path)) return false;
  socket.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

void ExpectNoSocketAnswers(const std::string& directory) {
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    EXPECT_FALSE(entry.is_socket() && Answers(entry.path())) << entry.path() << " answers after the reboot";
  }
}

void MakeBootId(const std::string& directory) {
  const std::string file = directory + "/.boot-id", before = BootId().value_or("");
  ::umount2(kBootId, UMOUNT_NOFOLLOW);  // from an earlier reboot
  fs::remove(file);
  std::ofstream(file) << ReadFile(kAnyUuid);
  ASSERT_EQ(::mount(file.c_str(), kBootId, nullptr, MS_BIND, nullptr), 0);
  fs::remove(file);
  ASSERT_NE(BootId().value_or(""), before);
}

}  // namespace

void Reboot(const std::string& directory, const std::vector<std::string>& run) {
  ASSERT_NO_FATAL_FAILURE(EndProcesses(directory));
  ASSERT_NO_FATAL_FAILURE(EndMounts(directory));
  ASSERT_NO_FATAL_FAILURE(EndLoops(directory));
  for (const std::string& path : run) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path, error)) fs::remove_all(entry.path());
  }
  ExpectNoSocketAnswers(directory);
  ASSERT_NO_FATAL_FAILURE(MakeBootId(directory));
}

}  // namespace mooring::testing

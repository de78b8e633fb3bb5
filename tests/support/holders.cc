#include "tests/support/holders.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kFirstRaw = 65536;

unsigned NumberIn(const std::string& name) {
  return name.starts_with("loop") ? static_cast<unsigned>(std::atoi(name.c_str() + 4)) : 0;
}

// The holder may have opened the device by another path than `device`.
bool Holds(const fs::path& process, dev_t device) {
  std::string name;
  std::ifstream file(process / "comm");
  if (!std::getline(file, name) || name != "mooring-hold") return false;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(process / "fd", error)) {
    struct stat open = {};
    if (::stat(entry.path().c_str(), &open) == 0 && S_ISBLK(open.st_mode) && open.st_rdev == device) return true;
  }
  return false;
}

}  // namespace

bool IsHold(const std::string& name) {
  const unsigned number = NumberIn(name);
  return number >= kFirstRaw && number % 2 == 1;
}

std::string HoldOfDevice(const std::string& device) {
  const unsigned number = NumberIn(fs::path(device).filename());
  return number >= kFirstRaw && number % 2 == 0 ? "/dev/loop" + std::to_string(number + 1) : "";
}

bool HasHold(const std::string& device) {
  const std::string hold = HoldOfDevice(device);
  return !hold.empty() && fs::exists("/sys/block/" + fs::path(hold).filename().string() + "/loop");
}

void DetachHold(const std::string& device) {
  if (!HasHold(device)) return;
  const int fd = ::open(HoldOfDevice(device).c_str(), O_RDONLY | O_CLOEXEC);
  ::ioctl(fd, LOOP_CLR_FD);
  ::close(fd);
  for (int left = 2000; left > 0 && HasHold(device); --left) ::usleep(1000);
}

std::vector<pid_t> HoldersOfDevice(const std::string& device) {
  const unsigned number = NumberIn(fs::path(device).filename());
  std::vector<pid_t> holders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && Holds(entry.path(), makedev(LOOP_MAJOR, number))) holders.push_back(pid);
  }
  return holders;
}

void KillHolders(const std::string& device) {
  for (const pid_t pid : HoldersOfDevice(device)) ::kill(pid, SIGKILL);
  for (int left = 2000; left > 0 && !HoldersOfDevice(device).empty(); --left) ::usleep(1000);
}

}  // namespace mooring::testing

#include "tests/support/holders.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;

bool Holds(const fs::path& process, const std::string& device) {
  std::string name;
  std::ifstream file(process / "comm");
  if (!std::getline(file, name) || name != "mooring-hold") return false;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(process / "fd", error)) {
    if (fs::read_symlink(entry.path(), error) == device) return true;
  }
  return false;
}

}  // namespace

std::vector<pid_t> HoldersOfDevice(const std::string& device) {
  std::vector<pid_t> holders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && Holds(entry.path(), device)) holders.push_back(pid);
  }
  return holders;
}

void KillHolders(const std::string& device) {
  for (const pid_t pid : HoldersOfDevice(device)) ::kill(pid, SIGKILL);
  for (int left = 2000; left > 0 && !HoldersOfDevice(device).empty(); --left) ::usleep(1000);
}

}  // namespace mooring::testing

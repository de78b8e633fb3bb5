#include "base/host.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <fstream>
#include <vector>

#include "base/directory.h"
#include "base/status.h"

namespace mooring {

std::string HostName() {
  std::array<char, HOST_NAME_MAX + 1> name = {};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

absl::StatusOr<std::string> BootId() {
  constexpr char kPath[] = "/proc/sys/kernel/random/boot_id";
  errno = 0;
  std::ifstream file(kPath);
  std::string id;
  if (std::getline(file, id) && !id.empty()) return id;
  return ErrnoStatus(errno == 0 ? EIO : errno, "read", kPath);  // an empty one sets none
}

std::vector<std::string> ChildProcesses() {
  std::vector<std::string> children;
  constexpr char kThreads[] = "/proc/self/task";
  const absl::StatusOr<std::vector<std::string>> threads = EntriesOf(kThreads);
  if (!threads.ok()) return children;
  for (const std::string& thread : *threads) {
    std::ifstream pids(fmt::format("{}/{}/children", kThreads, thread));
    for (std::string pid; pids >> pid;) {
      std::string name;
      std::getline(std::ifstream("/proc/" + pid + "/comm"), name);
      children.push_back(fmt::format("{} ({})", name, pid));
    }
  }
  return children;
}

std::string RandomHex(std::size_t bytes) {
  std::vector<unsigned char> raw(bytes);
  std::size_t have = 0;
  while (have < bytes) {
    const ssize_t got = ::getrandom(raw.data() + have, bytes - have, 0);
    if (got > 0) have += static_cast<std::size_t>(got);
    if (got < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return fmt::format("{:02x}", fmt::join(raw, ""));
}

}  // namespace mooring

#include "base/host.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <fstream>
#include <vector>

#include "base/file/directory.h"
#include "base/status.h"

namespace mooring {
namespace {

// The mount helper and its spawner run programs; they are none themselves.
bool IsOurs(const std::string& name) { return name.starts_with("mooring-"); }

void CollectPrograms(const std::string& process, std::vector<std::string>& programs) {
  const std::string tasks = "/proc/" + process + "/task";
  const absl::StatusOr<std::vector<std::string>> threads = EntriesOf(tasks);
  if (!threads.ok()) return;
  for (const std::string& thread : *threads) {
    std::ifstream pids(fmt::format("{}/{}/children", tasks, thread));
    for (std::string pid; pids >> pid;) {
      std::string name;
      std::getline(std::ifstream("/proc/" + pid + "/comm"), name);
      if (!IsOurs(name)) programs.push_back(fmt::format("{} ({})", name, pid));
      if (IsOurs(name)) CollectPrograms(pid, programs);
    }
  }
}

}  // namespace

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

std::vector<std::string> RunningPrograms() {
  std::vector<std::string> programs;
  CollectPrograms("self", programs);
  return programs;
}

void RaiseOpenFileLimit() {
  constexpr rlim_t kEnough = 65536;  // some hosts know no limit, and some programs close all that could be open
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kEnough));
  ::setrlimit(RLIMIT_NOFILE, &limit);
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

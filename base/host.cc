#include "base/host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <fstream>
#include <vector>

#include "base/file/directory.h"
#include "base/file/whole_file.h"
#include "base/status.h"

namespace mooring {
namespace {

// The mount helper and its spawner are Mooring's own processes. Only their children are programs.
bool IsOurs(const std::string& name) { return name.starts_with("mooring-"); }

void CollectPrograms(const std::string& process, std::vector<std::string>& programs) {
  const std::string tasks = "/proc/" + process + "/task";
  const absl::StatusOr<std::vector<std::string>> threads = EntriesOf(tasks);
  if (!threads.ok()) return;
  for (const std::string& thread : *threads) {
    std::ifstream pids(fmt::format("{}/{}/children", tasks, thread));
    for (std::string pid; pids >> pid;) {
      const std::string name = FirstLine("/proc/" + pid + "/comm");
      if (!IsOurs(name)) programs.push_back(fmt::format("{} ({})", name, pid));
      if (IsOurs(name)) CollectPrograms(pid, programs);
    }
  }
}

}  // namespace

std::string HostName() {
  utsname names = {};  // gethostname(2) of some C libraries fails for the longest name
  if (::uname(&names) != 0 || names.nodename[0] == '\0') return "localhost";
  return names.nodename;
}

absl::StatusOr<std::string> BootId() {
  constexpr char kPath[] = "/proc/sys/kernel/random/boot_id";
  errno = 0;
  std::ifstream file(kPath);
  std::string id;
  if (std::getline(file, id) && !id.empty()) return id;
  return ErrnoStatus(errno == 0 ? EIO : errno, "read", kPath);  // an empty file sets no errno
}

std::vector<std::string> RunningPrograms() {
  std::vector<std::string> programs;
  CollectPrograms("self", programs);
  return programs;
}

void RaiseOpenFileLimit() {
  constexpr rlim_t kEnough = 65536;  // not the hard limit, which may be huge: some programs close every possible fd
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kEnough));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::optional<std::uint64_t> RaiseFileSizeLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) return std::nullopt;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  return limit.rlim_max == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(limit.rlim_max);
}

// Also runs before main(), and before the static initializers: gRPC opens files there. A call of it from main() makes
// the linker take it.
__attribute__((constructor(101))) void FillStandardFiles() {
  int fd = ::open("/", O_PATH);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = ::open("/", O_PATH);
  if (fd >= 0) ::close(fd);
}

void IgnoreWriteSignals() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
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

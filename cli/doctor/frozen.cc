#include "cli/doctor/frozen.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

#include "base/path.h"
#include "base/quote.h"
#include "base/unique_fd.h"

namespace mooring::cli::doctor_area {
namespace {

namespace fs = std::filesystem;

std::string FirstLineOf(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Documentation/filesystems/ext4/super.rst: s_feature_compat and s_feature_incompat, in one read of two numbers.
bool IsFrozenExt4(const LoopFacts& loop) {
  const std::string name(NameOf(loop.device));
  if (FirstLineOf("/proc/fs/ext4/" + name + "/options") != "rw") return false;
  constexpr off_t kFeatures = 1024 + 0x5C;
  constexpr std::uint32_t kHasJournal = 0x4, kNeedsRecovery = 0x4;
  struct {
    std::uint32_t compatible, incompatible;
  } features = {};
  const UniqueFd fd(::open(loop.device.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok() || ::pread(fd.get(), &features, sizeof(features), kFeatures) != sizeof(features)) return false;
  return (features.compatible & kHasJournal) != 0 && (features.incompatible & kNeedsRecovery) == 0;
}

// The processes that wait for a thaw, by the filesystems in which they have a file or their directory open. Neither
// look waits: nothing is written.
std::map<dev_t, pid_t> Waiting() {
  std::map<dev_t, pid_t> waiting;
  std::error_code error;
  for (const fs::directory_entry& process : fs::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(process.path().filename().c_str());
    if (pid <= 0 || FirstLineOf(process.path() / "wchan") != "percpu_rwsem_wait") continue;
    std::vector<fs::path> places = {process.path() / "cwd"};
    for (const fs::directory_entry& file : fs::directory_iterator(process.path() / "fd", error)) {
      places.push_back(file.path());
    }
    for (const fs::path& place : places) {
      struct stat status = {};
      if (::stat(place.c_str(), &status) == 0) waiting[status.st_dev] = pid;
    }
  }
  return waiting;
}

Finding Frozen(const LoopFacts& loop, const std::string& who, const MountGraph& graph) {
  const std::vector<std::string> paths = PathsOf(loop, graph.views.front());
  std::vector<std::string> commands;
  if (!paths.empty()) commands.push_back("fsfreeze -u " + paths.front());
  return {
      "frozen-filesystem", Severity::kProblem,
      fmt::format("the filesystem of {} on {} is frozen: whoever writes to it waits{}. A copy that is under way ends "
                  "that by itself within seconds; else thaw it{}",
                  Quote(loop.backing_file), loop.device, who,
                  paths.empty() ? " where it is mounted, with fsfreeze -u, or start the plugin again" : ""),
      std::move(commands)};
}

}  // namespace

Findings FindFrozen(const std::vector<LoopFacts>& loops, const MountGraph& graph) {
  Findings findings;
  const std::map<dev_t, pid_t> waiting = Waiting();
  for (const LoopFacts& loop : loops) {
    if (!IsLabelledFor(loop, "") || !loop.mounted) continue;
    const auto waits = waiting.find(loop.number);
    if (waits == waiting.end() && !IsFrozenExt4(loop)) continue;
    const std::string who = waits == waiting.end() ? "" : fmt::format(", process {} does", waits->second);
    findings.push_back(Frozen(loop, who, graph));
  }
  return findings;
}

}  // namespace mooring::cli::doctor_area

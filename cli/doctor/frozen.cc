#include "cli/doctor/frozen.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/text/quote.h"

namespace mooring::cli::doctor_area {
namespace {

namespace fs = std::filesystem;

std::string FirstLineOf(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Reads s_feature_compat and s_feature_incompat at once, Documentation/filesystems/ext4/super.rst.
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

// The filesystems of `ours` in which the process has open files or its working directory. AT_STATX_DONT_SYNC avoids a
// request to a server that hangs.
std::set<dev_t> UsedBy(const fs::path& process, const std::set<dev_t>& ours) {
  std::error_code error;
  std::vector<fs::path> places = {process / "cwd"};
  for (const fs::directory_entry& file : fs::directory_iterator(process / "fd", error)) places.push_back(file.path());
  std::set<dev_t> used;
  for (const fs::path& place : places) {
    struct statx status = {};
    if (::statx(AT_FDCWD, place.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE, &status) != 0) continue;
    const dev_t device = makedev(status.stx_dev_major, status.stx_dev_minor);
    if (ours.contains(device)) used.insert(device);
  }
  return used;
}

// The processes that wait for a thaw, by the filesystem of `ours` that they use. A process that uses several is left
// out, because it does not show which of them it waits for.
std::map<dev_t, pid_t> Waiting(const std::set<dev_t>& ours) {
  std::map<dev_t, pid_t> waiting;
  for (const pid_t pid : Processes()) {
    const fs::path process = fmt::format("/proc/{}", pid);
    if (FirstLineOf(process / "wchan") != "percpu_rwsem_wait") continue;
    const std::set<dev_t> used = UsedBy(process, ours);
    if (used.size() == 1) waiting[*used.begin()] = pid;
  }
  return waiting;
}

Finding Frozen(const LoopFacts& loop, std::string_view is, const std::string& who, const MountGraph& graph) {
  const std::vector<std::string> paths = PathsOf(loop, graph.views.front());
  std::vector<std::string> commands;
  if (!paths.empty()) commands.push_back("fsfreeze -u " + paths.front());
  return {
      "frozen-filesystem", Severity::kProblem,
      fmt::format("the filesystem of {} on {} {} frozen: writers wait{}. A copy under way thaws it by itself within "
                  "seconds; otherwise thaw it{}",
                  Quote(loop.backing_file), loop.device, is, who,
                  paths.empty() ? " with fsfreeze -u where it is mounted, or restart the plugin" : ""),
      std::move(commands)};
}

}  // namespace

Findings FindFrozen(const std::vector<LoopFacts>& loops, const MountGraph& graph) {
  Findings findings;
  const auto is_ours = [](const LoopFacts& loop) { return loop.mounted && IsLabelledFor(loop, ""); };
  std::set<dev_t> ours;
  for (const LoopFacts& loop : loops) {
    if (is_ours(loop)) ours.insert(loop.number);
  }
  const std::map<dev_t, pid_t> waiting = Waiting(ours);
  for (const LoopFacts& loop : loops) {
    if (!is_ours(loop)) continue;
    const auto waits = waiting.find(loop.number);
    const bool certain = IsFrozenExt4(loop);
    if (waits == waiting.end() && !certain) continue;
    const std::string who = waits == waiting.end() ? "" : fmt::format(" (process {} does)", waits->second);
    findings.push_back(Frozen(loop, certain ? "is" : "may be", who, graph));
  }
  return findings;
}

}  // namespace mooring::cli::doctor_area

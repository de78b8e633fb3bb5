#include "cli/doctor/loops.h"

#include <fmt/format.h>
#include <linux/major.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file/path.h"
#include "base/text/quote.h"
#include "cli/mounts/describe.h"
#include "mounter/loop/device_holder.h"
#include "mounter/loop/loop_device.h"
#include "mounter/loop/loop_node.h"
#include "mounter/loop/raw_device.h"

namespace mooring::cli::doctor_area {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDeleted = " (deleted)";

// A device with partitions counts as used: this code does not look at mounts of partitions.
bool HasPartitions(const fs::path& directory, const std::string& name) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().filename().string().starts_with(name + "p")) return true;
  }
  return false;
}

// Each line of /proc/swaps begins with the name of the device and blanks, proc(5).
bool IsSwap(const std::string& device) {
  std::ifstream swaps("/proc/swaps");
  for (std::string line; std::getline(swaps, line);) {
    if (line.substr(0, line.find_first_of(" \t")) == device) return true;
  }
  return false;
}

std::optional<LoopFacts> FactsOf(const fs::path& directory) {
  const std::string name = directory.filename();
  const std::optional<unsigned> number = LoopNumber(name);
  LoopFacts loop;
  std::ifstream file(directory / "loop/backing_file");
  if (!number || !std::getline(file, loop.backing_file)) return std::nullopt;
  if (IsInRawRange(*number) && !IsRawNumber(*number)) return std::nullopt;  // it is shown with the device that it holds
  loop.device = "/dev/" + name;
  loop.number = makedev(LOOP_MAJOR, *number);
  if (loop.backing_file.ends_with(kDeleted)) {
    loop.deleted = true;
    loop.backing_file.resize(loop.backing_file.size() - kDeleted.size());
  }
  std::error_code error;
  loop.held =
      (!fs::is_empty(directory / "holders", error) && !error) || HasPartitions(directory, name) || IsSwap(loop.device);
  for (const char* type : {"ext4", "xfs"}) {
    loop.mounted = loop.mounted || ::access(fmt::format("/sys/fs/{}/{}", type, name).c_str(), F_OK) == 0;
  }
  return loop;
}

void AddLabels(std::vector<LoopFacts>& loops) {
  const absl::StatusOr<std::vector<LoopInfo>> infos = ListLoops();
  if (!infos.ok()) return;  // not root: only the paths of sysfs are known
  for (LoopFacts& loop : loops) {
    for (const LoopInfo& info : *infos) {
      if (info.device_number == loop.number) loop.label = info.label;
    }
  }
}

// Whether the mount shows the filesystem on the device, or its device node.
bool IsOf(const TableMount& mount, const LoopFacts& loop) {
  if (mount.device == loop.number) return true;
  const bool of_nodes = mount.fs_type == "devtmpfs" || mount.fs_type == "tmpfs";
  return of_nodes && mount.root != "/" && NameOf(mount.root) == NameOf(loop.device);
}

// A process and a device on top hold the device of a block volume: mounter/loop/raw_device.h. When the last of them has
// gone, the kernel writes what it has not written yet.
std::vector<std::string> CommandsToDetach(const LoopFacts& loop) {
  std::vector<std::string> commands;
  const absl::StatusOr<std::vector<pid_t>> holders = HoldersOf(loop.number);
  for (const pid_t pid : holders.ok() ? *holders : std::vector<pid_t>()) {
    commands.push_back(fmt::format("kill -KILL {}", pid));
  }
  const unsigned number = minor(loop.number);
  if (IsRawNumber(number)) commands.push_back("losetup -d " + LoopPath(HoldOf(number)));
  commands.push_back("losetup -d " + loop.device);
  return commands;
}

}  // namespace

std::vector<LoopFacts> CollectLoops() {
  std::vector<LoopFacts> loops;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/sys/block", error)) {
    if (auto loop = FactsOf(entry.path())) loops.push_back(*std::move(loop));
  }
  AddLabels(loops);
  std::sort(loops.begin(), loops.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  return loops;
}

bool IsLabelledFor(const LoopFacts& loop, const std::string& volume_id) {
  for (const std::string_view prefix : {"mooring:", "mooring-ro:"}) {
    if (!loop.label.starts_with(prefix)) continue;
    const std::string_view owner = std::string_view(loop.label).substr(prefix.size());
    return volume_id.empty() ||
           owner.substr(0, owner.find('@')) == volume_id;  // behind it: plugin/model/volume_mount.h
  }
  return false;
}

bool IsUsed(const LoopFacts& loop, const std::vector<LoopFacts>& all, const MountGraph& graph) {
  if (loop.held || loop.mounted) return true;
  // The backing file of a loop device on another one is "/loop3" or "/dev/loop3" in sysfs.
  const auto is_below = [&](const LoopFacts& upper) {
    return upper.backing_file == loop.device || upper.backing_file == "/" + std::string(NameOf(loop.device));
  };
  if (std::any_of(all.begin(), all.end(), is_below)) return true;
  // A btrfs mount has another device number, so its source is compared.
  const auto is_source = [&loop](const TableMount& mount) { return mount.source == loop.device; };
  return std::any_of(graph.views.begin(), graph.views.end(), [&](const NamespaceView& view) {
    return !PathsOf(loop, view).empty() || std::any_of(view.mounts.begin(), view.mounts.end(), is_source);
  });
}

Findings FindLeakedLoops(const std::vector<LoopFacts>& loops, const MountGraph& graph, const std::string& volumes) {
  Findings findings;
  for (const LoopFacts& loop : loops) {
    const bool of_volume = IsBelow(loop.backing_file, volumes) || IsLabelledFor(loop, "");
    if ((!loop.deleted && !of_volume) || IsUsed(loop, loops, graph)) continue;
    // A device that another program attached may be wanted. The same goes for a volume that is staged as a block device
    // and not yet published.
    const bool ours = IsLabelledFor(loop, "");
    const char* const why = loop.deleted
                                ? "a file that was deleted. Its space stays in use until the device is detached"
                                : "the image of a volume, and nothing mounts it. It may be staged as a block device "
                                  "and not yet published; otherwise it was left behind: unstage it";
    std::vector<std::string> commands;
    if (loop.deleted && ours) commands = CommandsToDetach(loop);
    findings.push_back({"leaked-loop", loop.deleted && ours ? Severity::kProblem : Severity::kNote,
                        fmt::format("{} is bound to {}: {}", loop.device, Quote(loop.backing_file), why),
                        std::move(commands)});
  }
  return findings;
}

std::vector<std::string> PathsOf(const LoopFacts& loop, const NamespaceView& view) {
  std::vector<std::string> paths;
  for (const TableMount& mount : view.mounts) {
    if (IsOf(mount, loop)) paths.push_back(mount.target);
  }
  return paths;
}

}  // namespace mooring::cli::doctor_area

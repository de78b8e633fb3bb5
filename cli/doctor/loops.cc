#include "cli/doctor/loops.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <linux/major.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/file/whole_file.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/mounts/describe.h"
#include "mounter/loop/device_holder.h"
#include "mounter/loop/loop_device.h"
#include "mounter/loop/loop_node.h"
#include "mounter/loop/raw_device.h"
#include "mounter/path/mapping_names.h"
#include "mounter/sys/device_name.h"

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

void AddHolders(LoopFacts& loop, const fs::path& directory) {
  for (const std::string& holder : EntriesOrNone(directory).value_or(std::vector<std::string>())) {
    const std::string name = FirstLine(directory / holder / "dm/name");
    const std::optional<dev_t> number = BlockDeviceNumber(holder);
    if (!name.starts_with(kMappingPrefix) || !number) {
      loop.held = true;
      continue;
    }
    loop.mapping = name;
    loop.mapping_device = "/dev/" + holder;
    loop.mapping_number = *number;
  }
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
  loop.held = HasPartitions(directory, name) || IsSwap(loop.device);
  AddHolders(loop, directory / "holders");
  for (const char* type : {"ext4", "xfs"}) {
    const std::string shown = fmt::format("/sys/fs/{}/{}", type, NameOf(loop.content_device()));
    loop.mounted = loop.mounted || ::access(shown.c_str(), F_OK) == 0;
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
  if (mount.device == loop.content_number()) return true;
  const bool of_nodes = mount.fs_type == "devtmpfs" || mount.fs_type == "tmpfs";
  const std::string_view node = NameOf(mount.root);
  return of_nodes && mount.root != "/" && (node == NameOf(loop.content_device()) || node == loop.mapping);
}

// A process and a device on top hold the device of a block volume: mounter/loop/raw_device.h. When the last of them has
// gone, the kernel writes what it has not written yet.
std::vector<std::string> CommandsToDetach(const LoopFacts& loop) {
  std::vector<std::string> commands;
  const absl::StatusOr<std::vector<pid_t>> holders = HoldersOf(loop.number);
  for (const pid_t pid : holders.ok() ? *holders : std::vector<pid_t>()) {
    commands.push_back(fmt::format("kill -KILL {}", pid));
  }
  if (!loop.mapping.empty()) commands.push_back("cryptsetup close " + ShellQuote(loop.mapping));
  const unsigned number = minor(loop.number);
  if (IsRawNumber(number)) commands.push_back("losetup -d " + LoopPath(HoldOf(number)));
  commands.push_back("losetup -d " + loop.device);
  return commands;
}

namespace fs = std::filesystem;

// Reads s_feature_compat and s_feature_incompat at once, Documentation/filesystems/ext4/super.rst.
bool IsFrozenExt4(const LoopFacts& loop) {
  const std::string name(NameOf(loop.content_device()));
  if (FirstLine("/proc/fs/ext4/" + name + "/options") != "rw") return false;
  constexpr off_t kFeatures = 1024 + 0x5C;
  constexpr std::uint32_t kHasJournal = 0x4, kNeedsRecovery = 0x4;
  struct {
    std::uint32_t compatible, incompatible;
  } features = {};
  const UniqueFd fd(::open(loop.content_device().c_str(), O_RDONLY | O_CLOEXEC));
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
    if (FirstLine(process / "wchan") != "percpu_rwsem_wait") continue;
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
                  Quote(loop.backing_file), loop.content_device(), is, who,
                  paths.empty() ? " with fsfreeze -u where it is mounted, or restart the plugin" : ""),
      std::move(commands)};
}

enum class Role { kTarget, kStaging, kUnknown };

struct Shape {
  const char* end;  // pattern for the end of a path, fnmatch(3)
  Role role;
};

constexpr std::array<Shape, 6> kShapes = {{
    {"per-alloc/*/*/r[ow]-*", Role::kTarget},
    {"staging/*/*/r[ow]-*", Role::kStaging},
    {"pods/*/volumes/kubernetes.io~csi/*/mount", Role::kTarget},
    {"plugins/kubernetes.io/csi/*/*/globalmount", Role::kStaging},
    {"plugins/kubernetes.io/csi/volumeDevices/publish/*/*", Role::kTarget},
    {"plugins/kubernetes.io/csi/volumeDevices/staging/*", Role::kStaging},
}};

bool EndsLike(const std::string& path, const char* end) {
  for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    if (::fnmatch(end, path.c_str() + at + 1, FNM_PATHNAME) == 0) return true;
  }
  return false;
}

Role RoleOf(const std::string& path) {
  const auto* const shape =
      std::find_if(kShapes.begin(), kShapes.end(), [&path](const Shape& known) { return EndsLike(path, known.end); });
  return shape == kShapes.end() ? Role::kUnknown : shape->role;
}

std::vector<std::string> WithRole(const std::vector<std::string>& paths, Role role) {
  std::vector<std::string> found;
  for (const std::string& path : paths) {
    if (RoleOf(path) == role) found.push_back(path);
  }
  return found;
}

std::string Described(const std::string& id, const std::vector<std::string>& unknown) {
  std::string text = fmt::format(
      "volume {} is mounted here. If its tasks are gone and the orchestrator has forgotten it, free it with these "
      "commands, one by one, in the namespace of the plugin (nomad alloc exec ALLOC …). They fail while a process uses "
      "it",
      Quote(id));
  if (unknown.empty()) return text;
  text += ". A path that follows neither the names of kubelet nor those of Nomad has no command here:";
  for (const std::string& path : unknown) text += " " + Quote(path);
  return text + ". Run `mooring csi unpublish` for each target first, then `mooring csi unstage` for the staging path";
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
  const std::string mapping = loop.mapping.empty() ? "" : "/dev/mapper/" + loop.mapping;
  const auto is_source = [&](const TableMount& mount) {
    return mount.source == loop.content_device() || (!mapping.empty() && mount.source == mapping);
  };
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

Findings FindFrozen(const std::vector<LoopFacts>& loops, const MountGraph& graph) {
  Findings findings;
  const auto is_ours = [](const LoopFacts& loop) { return loop.mounted && IsLabelledFor(loop, ""); };
  std::set<dev_t> ours;
  for (const LoopFacts& loop : loops) {
    if (is_ours(loop)) ours.insert(loop.content_number());
  }
  const std::map<dev_t, pid_t> waiting = Waiting(ours);
  for (const LoopFacts& loop : loops) {
    if (!is_ours(loop)) continue;
    const auto waits = waiting.find(loop.content_number());
    const bool certain = IsFrozenExt4(loop);
    if (waits == waiting.end() && !certain) continue;
    const std::string who = waits == waiting.end() ? "" : fmt::format(" (process {} does)", waits->second);
    findings.push_back(Frozen(loop, certain ? "is" : "may be", who, graph));
  }
  return findings;
}

Finding InUse(const std::string& volume_id, const std::vector<std::string>& paths) {
  const std::vector<std::string> unknown = WithRole(paths, Role::kUnknown);
  Finding finding = {"in-use", Severity::kNote, Described(volume_id, unknown), {}};
  for (const std::string& path : WithRole(paths, Role::kTarget)) {
    finding.commands.push_back(
        fmt::format("mooring csi unpublish {} --target-path {}", ShellQuote(volume_id), ShellQuote(path)));
  }
  if (!unknown.empty()) return finding;  // an unknown path may be a target
  for (const std::string& path : WithRole(paths, Role::kStaging)) {
    finding.commands.push_back(
        fmt::format("mooring csi unstage {} --staging-path {}", ShellQuote(volume_id), ShellQuote(path)));
  }
  return finding;
}

Finding HeldElsewhere(const std::string& volume_id, const NamespaceView& view, const std::string& path) {
  return {"held-elsewhere",
          Severity::kNote,
          fmt::format("volume {} is mounted nowhere here, and in the mount namespace of {} at {}: while it is, the "
                      "volume is in use, and cannot be deleted. If its tasks are gone, end that process, or unmount "
                      "it there: mooring umount {} --pid {}",
                      Quote(volume_id), ProcessText(view), Quote(path), ShellQuote(path), view.pid),
          {}};
}

}  // namespace mooring::cli::doctor_area

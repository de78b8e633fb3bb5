// `mooring list` and `mooring show`.
#include <fmt/format.h>

#include <algorithm>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/mounts/arguments.h"
#include "cli/mounts/describe.h"
#include "cli/mounts/paths.h"
#include "cli/output/table.h"
#include "mounter/kernel/kernel_mounter.h"

namespace mooring::cli::mounts_area {
namespace {

std::vector<TableMount> Below(std::vector<TableMount> mounts, const std::string& directory) {
  if (!directory.empty()) {
    std::erase_if(mounts, [&](const TableMount& mount) { return !IsBelow(mount.target, directory); });
  }
  std::stable_sort(mounts.begin(), mounts.end(), [](const auto& a, const auto& b) { return a.target < b.target; });
  return mounts;
}

std::string ListJson(const std::vector<TableMount>& mounts) {
  std::vector<std::string> all;
  for (const TableMount& mount : mounts) all.push_back(MountJson(mount).ToString());
  return JsonObject().AddRaw("mounts", JsonArray(all)).ToString();
}

std::string ListText(const std::vector<TableMount>& mounts) {
  Table table({"TARGET", "TYPE", "SOURCE", "FLAGS", "PROPAGATION"});
  for (const TableMount& mount : mounts) {
    table.Add({mount.target, mount.fs_type, SourceText(mount), ToString(mount.flags), PropagationText(mount)});
  }
  return table.ToString();
}

std::string ToText(Relation relation) {
  switch (relation) {
    case Relation::kPeer:
      return "peer";
    case Relation::kReceives:
      return "receives";
    case Relation::kMaster:
      return "master";
    case Relation::kCopy:
      return "copy";
  }
  return "";
}

std::string SeenText(const std::vector<OtherSight>& others) {
  if (others.empty()) return "no other mount is tied to it\n";
  Table table({"SEEN BY", "COMMAND", "AT", "AS"});
  for (const OtherSight& other : others) {
    table.Add(
        {fmt::format("pid {}", other.view->pid), other.view->command, other.mount->target, ToText(other.relation)});
  }
  return table.ToString();
}

std::string SeenJson(const std::vector<OtherSight>& others) {
  std::vector<std::string> all;
  for (const OtherSight& other : others) {
    JsonObject json;
    json.AddNumber("namespace", other.view->id).AddNumber("pid", static_cast<std::uint64_t>(other.view->pid));
    json.Add("command", other.view->command).Add("target", other.mount->target);
    all.push_back(json.Add("relation", ToText(other.relation)).ToString());
  }
  return JsonArray(all);
}

// Why the filesystem of a mount in this namespace does not answer. Empty if it does, or if that cannot be found out.
std::string FailureAt(const Arguments& arguments, const std::string& path) {
  if (arguments.pid != 0) return "";
  const absl::StatusOr<PathInfo> info = KernelMounter().Find(path);
  return info.ok() ? info->failure : "";
}

std::string NumberOrNone(std::uint64_t number) { return number == 0 ? "none" : fmt::format("{}", number); }

std::string DetailsText(const TableMount& mount, const std::string& failure) {
  Details details;
  details.Add("target", mount.target);
  details.AddIf("broken", failure);
  details.Add("source", mount.source);
  details.Add("root", mount.root);
  details.Add("filesystem", fmt::format("{} on device {}", mount.fs_type, NumberText(mount.device)));
  details.Add("flags", ToString(mount.flags));
  details.Add("superblock", mount.superblock_read_only ? "read-only" : "read-write");
  details.Add("propagation", PropagationText(mount));
  details.Add("peer group", NumberOrNone(mount.peer_group));
  details.Add("master", NumberOrNone(mount.master));
  if (const auto loop = LoopBehindMount(mount)) {
    details.Add("loop device", loop->device);
    details.Add("backing file", loop->backing_file);
  }
  return details.ToString();
}

std::string ShowJson(const TableMount& mount, const std::string& failure, const std::vector<OtherSight>& others) {
  JsonObject json = MountJson(mount);
  if (const auto loop = LoopBehindMount(mount)) {
    json.Add("loop_device", loop->device).Add("backing_file", loop->backing_file);
  }
  json.Add("failure", failure);
  return JsonObject().AddRaw("mount", json.ToString()).AddRaw("seen_by", SeenJson(others)).ToString();
}

// The view of the namespace that --pid names.
const NamespaceView& Asked(const MountGraph& graph, const Arguments& arguments) {
  if (arguments.pid == 0) return graph.views.front();
  const auto found = std::find_if(graph.views.begin(), graph.views.end(),
                                  [&](const NamespaceView& view) { return view.pid == arguments.pid; });
  return found == graph.views.end() ? graph.views.front() : *found;  // not found: the process is in this namespace
}

absl::Status NotMounted(const NamespaceView& view, const std::string& path) {
  const TableMount* holding = MountHolding(view, path);
  const std::string where =
      holding == nullptr ? "" : fmt::format("; it lies in the mount at {}", Quote(holding->target));
  return NotFound("nothing is mounted at {}{}", Quote(path), where);
}

}  // namespace

absl::StatusOr<Answer> List(const Arguments& arguments, std::ostream&) {
  std::string below;
  if (!arguments.below.empty()) {
    MOORING_ASSIGN_OR_RETURN(below, ResolvePathIn(arguments.pid, arguments.below));
  }
  MOORING_ASSIGN_OR_RETURN(const NamespaceView view, ViewOf(arguments.pid));
  const std::vector<TableMount> mounts = Below(view.mounts, below);
  return Answer{ListText(mounts), ListJson(mounts)};
}

absl::StatusOr<Answer> Show(const Arguments& arguments, std::ostream&) {
  MOORING_ASSIGN_OR_RETURN(const std::string path, ResolvePathIn(arguments.pid, arguments.target));
  MOORING_ASSIGN_OR_RETURN(const MountGraph graph, CollectMountGraph(arguments.pid));
  const NamespaceView& view = Asked(graph, arguments);
  const TableMount* mount = MountAtPath(view, path);
  if (mount == nullptr) return NotMounted(view, path);
  const std::vector<OtherSight> others = WhoElseSees(graph, {&view, mount});
  const std::string failure = FailureAt(arguments, path);
  return Answer{DetailsText(*mount, failure) + SeenText(others), ShowJson(*mount, failure, others)};
}

}  // namespace mooring::cli::mounts_area

#include "cli/mounts/mount_graph.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>

#include "base/file/path.h"
#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/whole_number.h"

namespace mooring {
namespace {

std::string CommandOf(pid_t pid) { return FirstLine(fmt::format("/proc/{}/comm", pid)); }

// The members of each peer group of all views, and which group receives from which.
struct Groups {
  std::map<std::uint64_t, std::vector<Sight>> peers, slaves;
  std::map<std::uint64_t, std::set<std::uint64_t>> below;
  std::map<std::uint64_t, std::uint64_t> master;

  explicit Groups(const MountGraph& graph) {
    for (const NamespaceView& view : graph.views) {
      for (const TableMount& mount : view.mounts) Add({&view, &mount});
    }
  }

 private:
  void Add(const Sight& sight) {
    const TableMount& mount = *sight.mount;
    if (mount.shared()) peers[mount.peer_group].push_back(sight);
    if (mount.master == 0) return;
    if (!mount.shared()) {
      slaves[mount.master].push_back(sight);
      return;
    }
    below[mount.master].insert(mount.peer_group);
    master[mount.peer_group] = mount.master;
  }
};

template <typename Map>
typename Map::mapped_type Find(const Map& map, std::uint64_t key) {
  const auto found = map.find(key);
  return found == map.end() ? typename Map::mapped_type() : found->second;
}

// The tables are read one after the other while mounts change, so together they may contain a cycle.
std::uint64_t Outermost(const Groups& groups, std::uint64_t group) {
  for (std::set<std::uint64_t> seen; seen.insert(group).second;) {
    if (const std::uint64_t master = Find(groups.master, group); master != 0) group = master;
  }
  return group;
}

PropagationGroup TreeBelow(const Groups& groups, std::uint64_t id, std::set<std::uint64_t>& seen) {
  PropagationGroup group{.id = id, .peers = Find(groups.peers, id), .slaves = Find(groups.slaves, id), .below = {}};
  for (const std::uint64_t below : Find(groups.below, id)) {
    if (seen.insert(below).second) group.below.push_back(TreeBelow(groups, below, seen));
  }
  return group;
}

void AddBelow(const Groups& groups, std::uint64_t group, std::set<std::uint64_t>& all) {
  if (group == 0 || !all.insert(group).second) return;
  for (const std::uint64_t below : Find(groups.below, group)) AddBelow(groups, below, all);
}

std::set<std::uint64_t> MastersOf(const Groups& groups, std::uint64_t master) {
  std::set<std::uint64_t> masters;
  while (master != 0 && masters.insert(master).second) master = Find(groups.master, master);
  return masters;
}

std::optional<Relation> RelationTo(const Sight& mount, const Sight& other, const std::set<std::uint64_t>& below,
                                   const std::set<std::uint64_t>& masters) {
  if (mount.mount->shared() && other.mount->peer_group == mount.mount->peer_group) return Relation::kPeer;
  if (below.contains(other.mount->master)) return Relation::kReceives;
  if (other.mount->shared() && masters.contains(other.mount->peer_group)) return Relation::kMaster;
  const bool same = other.mount->device == mount.mount->device && other.mount->root == mount.mount->root;
  if (same && other.view != mount.view) return Relation::kCopy;
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::uint64_t> MountNamespaceId(pid_t pid) {
  struct stat status = {};
  if (::stat(fmt::format("/proc/{}/ns/mnt", pid).c_str(), &status) == 0) return status.st_ino;
  if (errno == ENOENT || errno == ESRCH) return NotFound("there is no process {}", pid);
  return ErrnoStatus(errno, fmt::format("find the mount namespace of process {}", pid));
}

std::vector<pid_t> Processes() {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    if (const auto pid = ParseWhole<pid_t>(entry.path().filename().native())) pids.push_back(*pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

absl::StatusOr<NamespaceView> ViewOf(pid_t pid) {
  NamespaceView view;
  if (pid == 0) pid = ::getpid();
  view.pid = pid;
  MOORING_ASSIGN_OR_RETURN(view.id, MountNamespaceId(pid));
  view.command = CommandOf(pid);
  MOORING_ASSIGN_OR_RETURN(view.mounts, ReadMountInfo(fmt::format("/proc/{}/mountinfo", pid)));
  return view;
}

absl::StatusOr<MountGraph> CollectMountGraph(pid_t first) {
  MountGraph graph;
  MOORING_ASSIGN_OR_RETURN(graph.views.emplace_back(), ViewOf(0));
  if (first != 0) {
    MOORING_ASSIGN_OR_RETURN(NamespaceView view, ViewOf(first));
    if (view.id != graph.views.front().id) graph.views.push_back(std::move(view));
  }
  std::set<std::uint64_t> seen;
  for (const NamespaceView& view : graph.views) seen.insert(view.id);
  for (const pid_t pid : Processes()) {
    const absl::StatusOr<std::uint64_t> id = MountNamespaceId(pid);
    if (!id.ok() || seen.contains(*id)) continue;
    absl::StatusOr<NamespaceView> view = ViewOf(pid);
    if (!view.ok() || view->mounts.empty()) continue;  // another process may represent the namespace
    seen.insert(view->id);
    graph.views.push_back(*std::move(view));
  }
  return graph;
}

const TableMount* ParentIn(const NamespaceView& view, const TableMount& mount) {
  return MountWalk(view).ParentOf(mount);
}

const TableMount* MountHolding(const NamespaceView& view, const std::string& path) {
  return MountWalk(view).Holding(path);
}

const TableMount* MountAtPath(const NamespaceView& view, const std::string& path) { return MountWalk(view).At(path); }

std::string PathInFilesystem(const TableMount& mount, const std::string& path) {
  const std::string rest = mount.target == "/" ? (path == "/" ? "" : path) : path.substr(mount.target.size());
  if (mount.root == "/") return rest.empty() ? "/" : rest;
  return mount.root + rest;
}

std::string PathInNamespace(const TableMount& mount, const std::string& path_in_filesystem) {
  if (!IsBelow(path_in_filesystem, mount.root)) return "";
  std::string rest = mount.root == "/" ? path_in_filesystem : path_in_filesystem.substr(mount.root.size());
  if (rest == "/") rest.clear();
  if (mount.target == "/") return rest.empty() ? "/" : rest;
  return mount.target + rest;
}

MountWalk::MountWalk(const NamespaceView& view) : most_steps_(view.mounts.size()) {
  for (const TableMount& mount : view.mounts) by_id_.emplace(mount.id, &mount);
  for (const TableMount& mount : view.mounts) {
    if (ParentOf(mount) == nullptr) {
      first_.push_back(&mount);
    } else {
      children_[mount.parent].emplace(mount.target, &mount);  // the first of two
    }
  }
}

const TableMount* MountWalk::ParentOf(const TableMount& mount) const {
  const auto found = by_id_.find(mount.parent);
  return mount.parent == mount.id || found == by_id_.end() ? nullptr : found->second;
}

// The child of `at` whose target is the shortest prefix of `path`.
const TableMount* MountWalk::Next(const TableMount& at, const std::string& path) const {
  const auto children = children_.find(at.id);
  if (children == children_.end()) return nullptr;
  const std::string_view whole = path;
  for (std::size_t end = at.target == "/" ? 1 : at.target.size(); end <= whole.size();) {
    const auto found = children->second.find(whole.substr(0, end));
    if (found != children->second.end() && found->second != &at) return found->second;
    if (end == whole.size()) break;
    const std::size_t slash = whole.find('/', end + (end == 1 ? 0U : 1U));
    end = slash == std::string_view::npos ? whole.size() : slash;
  }
  return nullptr;
}

const TableMount* MountWalk::Holding(const std::string& path) const {
  const TableMount* at = nullptr;
  for (const TableMount* first : first_) {
    if (!IsBelow(path, first->target)) continue;
    if (at == nullptr || first->target.size() < at->target.size()) at = first;
  }
  for (std::size_t steps = 0; at != nullptr && steps < most_steps_; ++steps) {
    const TableMount* next = Next(*at, path);
    if (next == nullptr) break;
    at = next;
  }
  return at;
}

const TableMount* MountWalk::At(const std::string& path) const {
  const TableMount* mount = Holding(path);
  return mount != nullptr && mount->target == path ? mount : nullptr;
}

bool MountWalk::Reaches(const TableMount& mount) const { return Holding(mount.target) == &mount; }

PropagationGroup PropagationTree(const MountGraph& graph, const Sight& mount) {
  const Groups groups(graph);
  const std::uint64_t start = mount.mount->shared() ? mount.mount->peer_group : mount.mount->master;
  if (start == 0) return {.id = 0, .peers = {mount}, .slaves = {}, .below = {}};
  const std::uint64_t outermost = Outermost(groups, start);
  std::set<std::uint64_t> seen{outermost};
  return TreeBelow(groups, outermost, seen);
}

std::set<std::uint64_t> GroupsBelow(const MountGraph& graph, std::uint64_t group) {
  std::set<std::uint64_t> all;
  AddBelow(Groups(graph), group, all);
  return all;
}

std::set<std::uint64_t> GroupsAbove(const MountGraph& graph, std::uint64_t master) {
  return MastersOf(Groups(graph), master);
}

std::vector<OtherSight> WhoElseSees(const MountGraph& graph, const Sight& mount) {
  const Groups groups(graph);
  std::set<std::uint64_t> below;
  AddBelow(groups, mount.mount->peer_group, below);
  const std::set<std::uint64_t> masters = MastersOf(groups, mount.mount->master);
  std::vector<OtherSight> others;
  for (const NamespaceView& view : graph.views) {
    for (const TableMount& other : view.mounts) {
      if (&other == mount.mount) continue;
      const auto relation = RelationTo(mount, {&view, &other}, below, masters);
      if (relation) others.push_back({{&view, &other}, *relation});
    }
  }
  return others;
}

}  // namespace mooring

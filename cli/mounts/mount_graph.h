// The mounts of several mount namespaces and what ties them together: peer groups and their masters,
// mount_namespaces(7). Peer groups are numbered for the whole system, so the same number in two namespaces is the same
// group.
//
// Collecting (ViewOf, CollectMountGraph) reads /proc; all the rest is a pure function of what was collected.
#ifndef MOORING_CLI_MOUNTS_MOUNT_GRAPH_H_
#define MOORING_CLI_MOUNTS_MOUNT_GRAPH_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "mounter/table/mount_info_file.h"

namespace mooring {

// A mount namespace as one of its processes sees it.
struct NamespaceView {
  std::uint64_t id = 0;  // the inode of /proc/PID/ns/mnt
  pid_t pid = 0;
  std::string command;  // of that process, /proc/PID/comm
  std::vector<TableMount> mounts;
};

struct MountGraph {
  std::vector<NamespaceView> views;  // one a namespace; the first is this process's own
};

// Pointers into a graph: valid as long as that is neither changed nor moved.
struct Sight {
  const NamespaceView* view = nullptr;
  const TableMount* mount = nullptr;
};

// NOT_FOUND: no such process. Others' need root (ptrace(2)'s PTRACE_MODE_READ).
absl::StatusOr<NamespaceView> ViewOf(pid_t pid);

// This process's namespace and that of every other process, each once; `first`, where not 0, stands for its namespace.
// Those of processes that end meanwhile or that this user may not look at are left out, as are namespaces without a
// process.
absl::StatusOr<MountGraph> CollectMountGraph(pid_t first = 0);

// The mount that a path lies in, found as the kernel walks: what a later mount covers is not seen. nullptr: no mount of
// the view holds the path. `path` is normalised, or "/".
const TableMount* MountHolding(const NamespaceView& view, const std::string& path);

// The same, where the path is that mount's root; else nullptr.
const TableMount* MountAtPath(const NamespaceView& view, const std::string& path);

const TableMount* ParentIn(const NamespaceView& view, const TableMount& mount);  // nullptr: the first of the view

// The same walk for many paths, each in as many steps as it has components. Holds pointers into `view`, which must
// outlive it.
class MountWalk {
 public:
  explicit MountWalk(const NamespaceView& view);

  const TableMount* Holding(const std::string& path) const;   // MountHolding
  const TableMount* ParentOf(const TableMount& mount) const;  // ParentIn
  bool Reaches(const TableMount& mount) const;                // by its path: nothing covers it

 private:
  const TableMount* Next(const TableMount& at, const std::string& path) const;

  std::unordered_map<std::uint64_t, const TableMount*> by_id_;
  std::unordered_map<std::uint64_t, std::unordered_map<std::string_view, const TableMount*>> children_;
  std::vector<const TableMount*> first_;  // without a parent here
  std::size_t most_steps_ = 0;
};

// Where `path`, which lies in `mount`, is within the filesystem: "/volumes/a" for the path /srv/a in a mount of
// /volumes at /srv.
std::string PathInFilesystem(const TableMount& mount, const std::string& path);

// The way back; empty: the mount does not show that part of its filesystem.
std::string PathInNamespace(const TableMount& mount, const std::string& path_in_filesystem);

// A peer group, or (id 0) a single mount in none.
struct PropagationGroup {
  std::uint64_t id = 0;
  std::vector<Sight> peers;             // empty: the group has no mount that was collected
  std::vector<Sight> slaves;            // receive from it and pass on to nobody
  std::vector<PropagationGroup> below;  // groups that receive from it
};

// All that is tied to `mount`, from the outermost master on.
PropagationGroup PropagationTree(const MountGraph& graph, const Sight& mount);

// The group, and all that receive from it, directly or not. Empty for 0.
std::set<std::uint64_t> GroupsBelow(const MountGraph& graph, std::uint64_t group);

// The group that a mount receives from, its master, and so on. Empty for 0.
std::set<std::uint64_t> GroupsAbove(const MountGraph& graph, std::uint64_t master);

// What else shows what `mount` shows.
enum class Relation {
  kPeer,      // the same peer group
  kReceives,  // a slave of it, directly or not
  kMaster,    // it receives from that one
  kCopy,      // the same part of the same filesystem in another namespace, tied by nothing
};
struct OtherSight : Sight {
  Relation relation = Relation::kCopy;
};
std::vector<OtherSight> WhoElseSees(const MountGraph& graph, const Sight& mount);

}  // namespace mooring

#endif  // MOORING_CLI_MOUNTS_MOUNT_GRAPH_H_

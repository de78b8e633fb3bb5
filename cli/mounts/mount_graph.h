// The mounts of several mount namespaces and their propagation: peer groups and their masters, mount_namespaces(7). The
// number of a peer group is the same in all namespaces.
//
// The functions up to CollectMountGraph read /proc. All others are pure functions of their result.
#pragma once

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

// A mount namespace from the view of one of its processes.
struct NamespaceView {
  std::uint64_t id = 0;  // the inode of /proc/PID/ns/mnt
  pid_t pid = 0;
  std::string command;  // /proc/PID/comm
  std::vector<TableMount> mounts;
};

struct MountGraph {
  std::vector<NamespaceView> views;  // one for each namespace; the first is the one of this process
};

// A mount in a namespace. The pointers are valid as long as the graph is neither changed nor moved.
struct Sight {
  const NamespaceView* view = nullptr;
  const TableMount* mount = nullptr;
};

// The view of a process; 0 is this one. NOT_FOUND: no such process. Processes of other users need root
// (PTRACE_MODE_READ, ptrace(2)).
absl::StatusOr<NamespaceView> ViewOf(pid_t pid);
absl::StatusOr<std::uint64_t> MountNamespaceId(pid_t pid);

std::vector<pid_t> Processes();  // of this host, as far as /proc shows them, sorted

// The namespace of this process and those of all other processes, each once. If `first` is not 0, that process
// represents its namespace. Left out are namespaces without a process, and those of processes that end meanwhile or
// that this user may not inspect.
absl::StatusOr<MountGraph> CollectMountGraph(pid_t first = 0);

// The mount that contains the path, found in the order in which the kernel walks, so that covered mounts do not count.
// nullptr: no mount of the view contains the path. `path` is normalised, or "/".
const TableMount* MountHolding(const NamespaceView& view, const std::string& path);

// The mount at exactly this path; nullptr if there is none.
const TableMount* MountAtPath(const NamespaceView& view, const std::string& path);

const TableMount* ParentIn(const NamespaceView& view, const TableMount& mount);  // nullptr for the root mount

// The same walk for many paths, with one step for each component of a path. `view` must outlive the object.
class MountWalk {
 public:
  explicit MountWalk(const NamespaceView& view);

  const TableMount* Holding(const std::string& path) const;   // MountHolding
  const TableMount* At(const std::string& path) const;        // MountAtPath
  const TableMount* ParentOf(const TableMount& mount) const;  // ParentIn
  bool Reaches(const TableMount& mount) const;                // whether its path leads to it: no mount covers it

 private:
  const TableMount* Next(const TableMount& at, const std::string& path) const;

  std::unordered_map<std::uint64_t, const TableMount*> by_id_;
  std::unordered_map<std::uint64_t, std::unordered_map<std::string_view, const TableMount*>> children_;
  std::vector<const TableMount*> first_;  // mounts without a parent in the view
  std::size_t most_steps_ = 0;
};

// The path within the filesystem of `path`, which is in `mount`: "/volumes/a" for /srv/a in a mount of /volumes at
// /srv.
std::string PathInFilesystem(const TableMount& mount, const std::string& path);

// The reverse. Empty: the mount does not show that part of its filesystem.
std::string PathInNamespace(const TableMount& mount, const std::string& path_in_filesystem);

// A peer group, or (id 0) a single mount without one.
struct PropagationGroup {
  std::uint64_t id = 0;
  std::vector<Sight> peers;             // empty: none of its mounts was collected
  std::vector<Sight> slaves;            // mounts that receive from it and are in no peer group
  std::vector<PropagationGroup> below;  // groups that receive from it
};

// The groups and mounts that are tied to `mount`, from the outermost master on.
PropagationGroup PropagationTree(const MountGraph& graph, const Sight& mount);

// The group and all groups that receive from it, directly or not. Empty for 0.
std::set<std::uint64_t> GroupsBelow(const MountGraph& graph, std::uint64_t group);

// The group `master`, its master, and so on. Empty for 0.
std::set<std::uint64_t> GroupsAbove(const MountGraph& graph, std::uint64_t master);

// How another mount is related to a mount.
enum class Relation {
  kPeer,      // the same peer group
  kReceives,  // the other one receives from the mount, directly or not
  kMaster,    // the mount receives from the other one
  kCopy,      // the same part of the same filesystem in another namespace, without propagation
};
struct OtherSight : Sight {
  Relation relation = Relation::kCopy;
};
std::vector<OtherSight> WhoElseSees(const MountGraph& graph, const Sight& mount);

}  // namespace mooring

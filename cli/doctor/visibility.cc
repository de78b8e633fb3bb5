#include "cli/doctor/visibility.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/path.h"
#include "base/quote.h"
#include "cli/mounts/describe.h"
#include "cli/text.h"

namespace mooring::cli::doctor_area {
namespace {

bool IsReached(const NamespaceView& view, const TableMount& mount) { return MountAtPath(view, mount.target) == &mount; }

// The mount of the view through which `path_in_filesystem` of `device` can be reached: of several, the narrowest.
const TableMount* ShowingPart(const NamespaceView& view, dev_t device, const std::string& path_in_filesystem) {
  const TableMount* best = nullptr;
  for (const TableMount& mount : view.mounts) {
    if (mount.device != device || !IsBelow(path_in_filesystem, mount.root) || !IsReached(view, mount)) continue;
    if (best == nullptr || mount.root.size() > best->root.size()) best = &mount;
  }
  return best;
}

const TableMount* SameMount(const NamespaceView& view, const TableMount& mount) {
  for (const TableMount& other : view.mounts) {
    if (other.device == mount.device && other.root == mount.root && IsReached(view, other)) return &other;
  }
  return nullptr;
}

bool HasMountsBelow(const NamespaceView& view, const TableMount& mount) {
  return std::any_of(view.mounts.begin(), view.mounts.end(), [&](const TableMount& other) {
    return other.target != mount.target && IsBelow(other.target, mount.target);
  });
}

std::string BindCommand(const std::string& source, const std::string& target, const std::string& flags,
                        bool recursive) {
  return fmt::format("mooring mount bind {} {} {} --propagation rslave{}", ShellQuote(source), ShellQuote(target),
                     flags, recursive ? " --recursive" : "");
}

// One question under way: the names the rules below speak of.
class Explanation {
 public:
  Explanation(const MountGraph& graph, const VisibilityQuestion& question)
      : graph_(graph), here_(graph.views.front()), path_(question.path), other_(question.other) {
    result_.mount = MountAtPath(here_, path_);
    result_.carrier = result_.mount == nullptr ? MountHolding(here_, path_) : ParentIn(here_, *result_.mount);
    if (result_.carrier == nullptr) result_.carrier = result_.mount;  // "/" was made in nothing
  }

  Visibility Run() {
    if (result_.carrier == nullptr) return result_;  // a process in a chroot may not see where it is
    if (other_ != nullptr) {
      if (other_ != &here_) ExplainOther();
      return result_;
    }
    ExplainHere();
    return result_;
  }

 private:
  const TableMount& carrier() const { return *result_.carrier; }
  std::string Who() const { return ProcessText(*other_); }

  void Add(std::string kind, std::string what, std::vector<std::string> commands) {
    result_.findings.push_back({std::move(kind), Severity::kProblem, std::move(what), std::move(commands)});
  }

  // A mount that is shared has its peers and slaves, wherever it was made. One that is not needs a carrier that is, and
  // shows nobody what is mounted in it: as it should be for a volume, but not for the directory of an orchestrator.
  void ExplainHere() {
    if (result_.mount == nullptr) FindElsewhere();
    if (result_.mount != nullptr && result_.mount->shared()) return;
    if (!carrier().shared()) AddNotShared(carrier());
    const bool holds_mounts = result_.mount != nullptr && HasMountsBelow(here_, *result_.mount);
    if (holds_mounts && result_.mount != result_.carrier) AddNotShared(*result_.mount);
  }

  void AddNotShared(const TableMount& mount) {
    const std::string receives =
        mount.master != 0 ? fmt::format("only receives from peer group {}", mount.master) : "is private";
    Add("not-shared",
        fmt::format("the mount at {} is not a shared mount, it {}: what is mounted below it appears in no other mount "
                    "namespace. Once it is shared, start the tasks again that are to see it",
                    Quote(mount.target), receives),
        {fmt::format("mooring propagation {} rshared", ShellQuote(mount.target))});
  }

  void ExplainOther() {
    if (result_.mount == nullptr) {
      ExplainDirectory();
    } else if (const TableMount* seen = SameMount(*other_, *result_.mount)) {
      result_.seen_at = seen->target;
      ExplainSeen(*seen);
    } else {
      ExplainMissingMount();
    }
  }

  // It is there: but is what will be mounted in it? Of no weight while nothing is, for most tasks are to have it so.
  void ExplainSeen(const TableMount& seen) {
    const TableMount& mount = *result_.mount;
    if (!mount.shared() || IsTied(seen, mount)) return;
    AddPrivateCopy(seen, mount, RemountCommands(seen, mount));
    if (!HasMountsBelow(here_, mount)) result_.findings.back().severity = Severity::kNote;
  }

  std::string CarriedPart() const { return PathInFilesystem(carrier(), path_); }

  // The path is a directory: it is to be seen there, and so is what is mounted in it from now on.
  void ExplainDirectory() {
    const TableMount* copy = ShowingPart(*other_, carrier().device, CarriedPart());
    const std::string there = copy == nullptr ? path_ : PathInNamespace(*copy, CarriedPart());
    if (const TableMount* mount = MountAtPath(*other_, there); mount != nullptr && mount != copy) {
      AddOnlyElsewhere(*other_, *mount, 0);
      return;
    }
    if (copy == nullptr) return AddNotThere();
    result_.seen_at = there;
    if (!carrier().shared()) return AddNotShared(carrier());
    if (!IsTied(*copy, carrier())) AddPrivateCopy(*copy, carrier(), RemountCommands(*copy, carrier()));
  }

  void ExplainMissingMount() {
    const TableMount* copy = ShowingPart(*other_, carrier().device, CarriedPart());
    if (copy == nullptr) return AddNotThere();
    const std::string there = PathInNamespace(*copy, CarriedPart());
    if (!carrier().shared()) AddNotShared(carrier());
    if (!IsTied(*copy, carrier())) return AddPrivateCopy(*copy, carrier(), {BindThere(there)});
    Add("not-recursive",
        fmt::format("the mount at {} in the namespace of {} receives from here, but not what was mounted before it was "
                    "made, where it was not made recursively (rbind); or somebody has unmounted {} there",
                    Quote(copy->target), Who(), Quote(there)),
        {BindThere(there)});
  }

  bool IsTied(const TableMount& copy, const TableMount& mount) const {
    if (!mount.shared()) return false;
    return copy.peer_group == mount.peer_group || GroupsBelow(graph_, mount.peer_group).contains(copy.master);
  }

  std::string BindThere(const std::string& target) const {
    const bool recursive = result_.mount != nullptr && HasMountsBelow(here_, *result_.mount);
    return BindCommand(path_, target, fmt::format("--pid {}", other_->pid), recursive);
  }

  void AddPrivateCopy(const TableMount& copy, const TableMount& mount, std::vector<std::string> commands) {
    const std::string state = copy.master != 0 ? fmt::format("receives from another peer group ({})", copy.master)
                                               : fmt::format("is {}", PropagationText(copy));
    Add("private-copy",
        fmt::format("the mount at {} in the namespace of {} {}, not a slave of the mount at {} here: what is mounted "
                    "here after the task was started does not reach it. Start the task with propagation rslave "
                    "(Nomad: host-to-task, Kubernetes: HostToContainer); for the one that runs:",
                    Quote(copy.target), Who(), state, Quote(mount.target)),
        std::move(commands));
  }

  // Its mount made anew, as a slave. The root of a namespace cannot be taken away under it.
  std::vector<std::string> RemountCommands(const TableMount& copy, const TableMount& mount) const {
    const std::string source = PathInNamespace(mount, copy.root);
    if (copy.target == "/" || source.empty()) {
      return {fmt::format("mooring propagation {} rshared", ShellQuote(mount.target))};
    }
    return {fmt::format("mooring umount {} --pid {}", ShellQuote(copy.target), other_->pid),
            BindCommand(source, copy.target, fmt::format("--pid {}", other_->pid), HasMountsBelow(here_, mount))};
  }

  void AddNotThere() {
    const std::string parent(path_ == "/" ? "/" : ParentOf(path_));
    Add("not-there",
        fmt::format("the namespace of {} has no mount that shows {}: the task was not given the directory", Who(),
                    Quote(path_)),
        {fmt::format("mkdir -p {}", ShellQuote(fmt::format("/proc/{}/root{}", other_->pid, parent))),
         BindThere(path_)});
  }

  // Not mounted here, but at the same path in another namespace.
  void FindElsewhere() {
    const NamespaceView* first = nullptr;
    std::size_t more = 0;
    for (const NamespaceView& view : graph_.views) {
      if (&view == &here_ || MountAtPath(view, path_) == nullptr) continue;
      if (first == nullptr) {
        first = &view;
      } else {
        ++more;
      }
    }
    if (first != nullptr) AddOnlyElsewhere(*first, *MountAtPath(*first, path_), more);
  }

  void AddOnlyElsewhere(const NamespaceView& view, const TableMount& mount, std::size_t more) {
    const TableMount* holder = ParentIn(view, mount);
    const std::string why =
        holder == nullptr ? "it is its own"
                          : fmt::format("the mount at {} there is {}", Quote(holder->target), PropagationText(*holder));
    Add("only-elsewhere",
        fmt::format(
            "nothing is mounted at {} here; in the namespace of {}{} {} is, at {}: {}. What is to come from there "
            "needs propagation rshared (Nomad: bidirectional, Kubernetes: Bidirectional); for what is there:",
            Quote(path_), ProcessText(view), more == 0 ? "" : fmt::format(" and {} more", more), SourceText(mount),
            Quote(mount.target), why),
        {BindCommand(mount.target, path_, fmt::format("--source-pid {}", view.pid), HasMountsBelow(view, mount))});
  }

  const MountGraph& graph_;
  const NamespaceView& here_;
  const std::string path_;
  const NamespaceView* other_;
  Visibility result_;
};

}  // namespace

Visibility ExplainVisibility(const MountGraph& graph, const VisibilityQuestion& question) {
  return Explanation(graph, question).Run();
}

}  // namespace mooring::cli::doctor_area

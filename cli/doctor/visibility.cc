#include "cli/doctor/visibility.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/file/path.h"
#include "base/text/quote.h"
#include "cli/mounts/describe.h"
#include "cli/output/text.h"

namespace mooring::cli::doctor_area {
namespace {

bool IsReached(const NamespaceView& view, const TableMount& mount) { return MountAtPath(view, mount.target) == &mount; }

bool HasMountsBelow(const NamespaceView& view, const TableMount& mount) {
  return std::any_of(view.mounts.begin(), view.mounts.end(), [&](const TableMount& other) {
    return other.target != mount.target && IsBelow(other.target, mount.target);
  });
}

// The flags for `mooring mount bind`, which gives a mount these and no others.
std::string FlagWords(const MountFlags& flags) {
  std::string words;
  for (const MountFlagRow& row : MountFlagTable()) {
    if (IsSet(flags, row) && !row.command_line.empty()) words += fmt::format(" {}", row.command_line);
  }
  return words;
}

std::string BindCommand(const std::string& source, const std::string& target, const std::string& where,
                        const MountFlags& flags, bool recursive) {
  return fmt::format("mooring mount bind {} {} {} --propagation rslave{}{}", ShellQuote(source), ShellQuote(target),
                     where, FlagWords(flags), recursive ? " --recursive" : "");
}

// One question under way: the names the rules below speak of.
class Explanation {
 public:
  Explanation(const MountGraph& graph, const VisibilityQuestion& question)
      : graph_(graph),
        here_(graph.views.front()),
        path_(question.path),
        other_(question.other),
        empty_directory_(question.empty_directory) {
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

  // What of several copies counts: first those that receive from `mount`, then those it receives from.
  int Rank(const TableMount& copy, const TableMount& mount) const {
    if (IsTied(copy, mount)) return 2;
    return IsUpstream(copy, mount) ? 1 : 0;
  }

  // The mount there through which `path_in_filesystem` can be reached that `mount` shows here: of several, the one that
  // is tied to it, then the narrowest.
  const TableMount* ShowingPart(const TableMount& mount, const std::string& path_in_filesystem) const {
    const TableMount* best = nullptr;
    for (const TableMount& other : other_->mounts) {
      if (other.device != mount.device || !IsBelow(path_in_filesystem, other.root) || !IsReached(*other_, other)) {
        continue;
      }
      const auto rank = [&](const TableMount& one) { return std::pair(Rank(one, mount), one.root.size()); };
      if (best == nullptr || rank(other) > rank(*best)) best = &other;
    }
    return best;
  }

  // The same part of the same filesystem.
  const TableMount* SameMount(const TableMount& mount) const {
    const TableMount* best = nullptr;
    for (const TableMount& other : other_->mounts) {
      if (other.device != mount.device || other.root != mount.root || !IsReached(*other_, other)) continue;
      if (best == nullptr || Rank(other, mount) > Rank(*best, mount)) best = &other;
    }
    return best;
  }

  void AddNotShared(const TableMount& mount) {
    const std::string receives =
        mount.master != 0 ? fmt::format("only receives from peer group {}", mount.master) : "is private";
    Add("not-shared",
        fmt::format("the mount at {} is not a shared mount, it {}: what is mounted below it appears in no other mount "
                    "namespace. Once it is shared, start the tasks again that are to see it",
                    Quote(mount.target), receives),
        {fmt::format("mooring propagation {} shared", ShellQuote(mount.target))});
  }

  void ExplainOther() {
    if (result_.mount == nullptr) {
      ExplainDirectory();
    } else if (const TableMount* seen = SameMount(*result_.mount)) {
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
    if (IsUpstream(seen, mount)) return AddReceivesOnly(seen, mount);
    AddPrivateCopy(seen, mount, RemountCommands(seen, mount));
    if (!HasMountsBelow(here_, mount)) result_.findings.back().severity = Severity::kNote;
  }

  std::string CarriedPart() const { return PathInFilesystem(carrier(), path_); }

  // The path is a directory: it is to be seen there, and so is what is mounted in it from now on.
  void ExplainDirectory() {
    const TableMount* copy = ShowingPart(carrier(), CarriedPart());
    const std::string there = copy == nullptr ? path_ : PathInNamespace(*copy, CarriedPart());
    if (const TableMount* mount = MountAtPath(*other_, there); mount != nullptr && mount != copy) {
      AddOnlyElsewhere(*other_, *mount, 0);
      return;
    }
    if (copy == nullptr) return AddNotThere();
    result_.seen_at = there;
    if (IsUpstream(*copy, carrier())) return AddReceivesOnly(*copy, carrier());
    if (!carrier().shared()) return AddNotShared(carrier());
    if (!IsTied(*copy, carrier())) AddPrivateCopy(*copy, carrier(), RemountCommands(*copy, carrier()));
  }

  void ExplainMissingMount() {
    const TableMount* copy = ShowingPart(carrier(), CarriedPart());
    if (copy == nullptr) return AddNotThere();
    const std::string there = PathInNamespace(*copy, CarriedPart());
    if (IsUpstream(*copy, carrier())) return AddReceivesOnly(*copy, carrier());
    if (!carrier().shared()) AddNotShared(carrier());
    if (!IsTied(*copy, carrier())) return AddPrivateCopy(*copy, carrier(), {BindThere(there, copy->flags)});
    Add("not-recursive",
        fmt::format("the mount at {} in the namespace of {} receives from here, but not what was mounted before it was "
                    "made, where it was not made recursively (rbind); or somebody has unmounted {} there",
                    Quote(copy->target), Who(), Quote(there)),
        {BindThere(there, copy->flags)});
  }

  bool IsTied(const TableMount& copy, const TableMount& mount) const {
    if (!mount.shared()) return false;
    if (copy.peer_group == mount.peer_group) return true;
    const auto [below, is_new] = below_.try_emplace(mount.peer_group);
    if (is_new) below->second = GroupsBelow(graph_, mount.peer_group);
    return below->second.contains(copy.master);
  }

  // `mount` receives from the copy's group, and passes nothing on to it.
  bool IsUpstream(const TableMount& copy, const TableMount& mount) const {
    if (!copy.shared() || mount.master == 0) return false;
    const auto [above, is_new] = above_.try_emplace(mount.master);
    if (is_new) above->second = GroupsAbove(graph_, mount.master);
    return above->second.contains(copy.peer_group);
  }

  // To change the copy would take the source of all that is here away.
  void AddReceivesOnly(const TableMount& copy, const TableMount& mount) {
    Add("receives-only",
        fmt::format("the mount at {} here only receives from the one at {} in the namespace of {}: what is mounted "
                    "there arrives here, what is mounted here does not arrive there. Start this container again with "
                    "propagation rshared (Nomad: bidirectional, Kubernetes: Bidirectional)",
                    Quote(mount.target), Quote(copy.target), Who()),
        {});
  }

  // The mount gets the flags that it has here, and the restrictions of the task's mount at the target.
  std::string BindThere(const std::string& target, const MountFlags& least) const {
    const bool recursive = result_.mount != nullptr && HasMountsBelow(here_, *result_.mount);
    const MountFlags& own = result_.mount != nullptr ? result_.mount->flags : carrier().flags;
    return BindCommand(path_, target, fmt::format("--pid {}", other_->pid), Stricter(least, own), recursive);
  }

  void AddPrivateCopy(const TableMount& copy, const TableMount& mount, std::vector<std::string> commands) {
    const std::string state = copy.master != 0 ? fmt::format("receives from another peer group ({})", copy.master)
                                               : fmt::format("is {}", PropagationText(copy));
    const char* const now = commands.empty()       ? "; the one that runs cannot be mended from outside"
                            : commands.size() == 1 ? "; for the one that runs:"
                                                   : "; for the one that runs, while nothing in it uses the directory:";
    Add("private-copy",
        fmt::format("the mount at {} in the namespace of {} {}, not a slave of the mount at {} here: what is mounted "
                    "here after the task was started does not reach it. Start the task again with propagation rslave "
                    "(Nomad: host-to-task, Kubernetes: HostToContainer){}",
                    Quote(copy.target), Who(), state, Quote(mount.target), now),
        std::move(commands));
  }

  // Its mount made anew, as a slave. Empty: that would take away what would not come back.
  std::vector<std::string> RemountCommands(const TableMount& copy, const TableMount& mount) const {
    const std::string source = PathInNamespace(mount, copy.root);
    if (copy.target == "/") return BindIntoRoot(copy);
    std::vector<std::string> commands;
    if (source.empty() || !AddUnmountsBelow(copy, source, commands)) return {};
    commands.push_back(UmountThere(copy.target));
    commands.push_back(BindCommand(source, copy.target, fmt::format("--pid {}", other_->pid), copy.flags,
                                   HasMountsBelow(here_, mount)));
    return commands;
  }

  std::string UmountThere(const std::string& target) const {
    return fmt::format("mooring umount {} --pid {}", ShellQuote(target), other_->pid);
  }

  // The root of a namespace cannot be taken away under it: the directory alone is bound over itself, where it is one
  // that mooring mounts at.
  std::vector<std::string> BindIntoRoot(const TableMount& copy) const {
    const std::string there = PathInNamespace(copy, CarriedPart());
    if (result_.mount != nullptr || !empty_directory_ || there.empty() || there == "/") return {};
    return {BindThere(there, copy.flags)};
  }

  // What the task has below `copy` goes first, the deepest before all; false where one of those is not here, too, below
  // `source`, and so would not come back, or where more is stacked there than its paths lead to.
  bool AddUnmountsBelow(const TableMount& copy, const std::string& source, std::vector<std::string>& commands) const {
    std::vector<std::string> targets;
    for (const TableMount& below : other_->mounts) {
      if (&below == &copy || !IsBelow(below.target, copy.target)) continue;
      const std::string path = source + below.target.substr(copy.target.size());
      const TableMount* same = MountAtPath(here_, source == "/" ? path.substr(1) : path);
      if (!IsReached(*other_, below) || same == nullptr) return false;
      if (same->device != below.device || same->root != below.root) return false;
      targets.push_back(below.target);
    }
    std::stable_sort(targets.begin(), targets.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
    for (const std::string& target : targets) commands.push_back(UmountThere(target));
    return true;
  }

  // No path below /proc/PID/root is printed: what the task has put there as links would lead to the host's directories.
  void AddNotThere() {
    Add("not-there",
        fmt::format("the namespace of {} has no mount that shows {}: the task was not given the directory. Start it "
                    "again with it; for the one that runs (the directory above it must be there):",
                    Who(), Quote(path_)),
        {BindThere(path_, MountFlags())});
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
        {BindCommand(mount.target, path_, fmt::format("--source-pid {}", view.pid), mount.flags,
                     HasMountsBelow(view, mount))});
  }

  const MountGraph& graph_;
  const NamespaceView& here_;
  const std::string path_;
  const NamespaceView* other_;
  const bool empty_directory_;
  Visibility result_;
  mutable std::map<std::uint64_t, std::set<std::uint64_t>> above_, below_;  // of a group, once it was asked for
};

}  // namespace

Visibility ExplainVisibility(const MountGraph& graph, const VisibilityQuestion& question) {
  return Explanation(graph, question).Run();
}

}  // namespace mooring::cli::doctor_area

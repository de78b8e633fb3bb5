#include "cli/doctor/visibility.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/file/path.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/mounts/describe.h"

namespace mooring::cli::doctor_area {
namespace {

bool HasMountsBelow(const NamespaceView& view, const TableMount& mount) {
  return std::any_of(view.mounts.begin(), view.mounts.end(), [&](const TableMount& other) {
    return other.target != mount.target && IsBelow(other.target, mount.target);
  });
}

// The flags of `mooring mount bind` for these mount flags.
std::string FlagsText(const MountFlags& flags) {
  std::string text;
  for (const MountFlagRow& row : MountFlagTable()) {
    if (IsSet(flags, row) && !row.command_line.empty()) text += fmt::format(" {}", row.command_line);
  }
  return text;
}

std::string BindCommand(const std::string& source, const std::string& target, const std::string& where,
                        const MountFlags& flags, bool recursive) {
  return fmt::format("mooring mount bind {} {} {} --propagation rslave{}{}", ShellQuote(source), ShellQuote(target),
                     where, FlagsText(flags), recursive ? " --recursive" : "");
}

// A question under way, with the mounts that the rules below compare.
class Explanation {
 public:
  Explanation(const MountGraph& graph, const VisibilityQuestion& question)
      : graph_(graph),
        here_(graph.views.front()),
        path_(question.path),
        other_(question.other),
        empty_directory_(question.empty_directory) {
    if (other_ != nullptr) there_walk_.emplace(*other_);
    result_.mount = here_walk_.At(path_);
    result_.carrier = result_.mount == nullptr ? here_walk_.Holding(path_) : here_walk_.ParentOf(*result_.mount);
    if (result_.carrier == nullptr) result_.carrier = result_.mount;  // "/" has no parent
  }

  Visibility Run() {
    if (result_.carrier == nullptr) return result_;  // a process in a chroot may not see its own root mount
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

  // A shared mount reaches its peers and slaves. A mount that is not shared needs a shared carrier to be visible
  // elsewhere. Mounts inside it stay invisible: that is right for a volume, and wrong for the directory of an
  // orchestrator.
  void ExplainHere() {
    if (result_.mount == nullptr) FindElsewhere();
    if (result_.mount != nullptr && result_.mount->shared()) return;
    if (!carrier().shared()) AddNotShared(carrier());
    const bool holds_mounts = result_.mount != nullptr && HasMountsBelow(here_, *result_.mount);
    if (holds_mounts && result_.mount != result_.carrier) AddNotShared(*result_.mount);
  }

  // The order of several copies: first those that receive from `mount`, then those that `mount` receives from.
  int Rank(const TableMount& copy, const TableMount& mount) const {
    if (IsTied(copy, mount)) return 2;
    return IsUpstream(copy, mount) ? 1 : 0;
  }

  // The mount there that shows `path_in_filesystem`, which `mount` shows here. If there are several, the one with the
  // best rank counts, then the one with the longest root.
  const TableMount* ShowingPart(const TableMount& mount, const std::string& path_in_filesystem) const {
    const TableMount* best = nullptr;
    for (const TableMount& other : other_->mounts) {
      if (other.device != mount.device || !IsBelow(path_in_filesystem, other.root) || !there_walk_->Reaches(other)) {
        continue;
      }
      const auto rank = [&](const TableMount& one) { return std::pair(Rank(one, mount), one.root.size()); };
      if (best == nullptr || rank(other) > rank(*best)) best = &other;
    }
    return best;
  }

  // The mount there that shows the same part of the same filesystem.
  const TableMount* SameMount(const TableMount& mount) const {
    const TableMount* best = nullptr;
    for (const TableMount& other : other_->mounts) {
      if (other.device != mount.device || other.root != mount.root || !there_walk_->Reaches(other)) continue;
      if (best == nullptr || Rank(other, mount) > Rank(*best, mount)) best = &other;
    }
    return best;
  }

  void AddNotShared(const TableMount& mount) {
    const std::string receives =
        mount.master != 0 ? fmt::format("only receives from peer group {}", mount.master) : "is private";
    Add("not-shared",
        fmt::format("the mount at {} is not a shared mount, it {}: mounts below it appear in no other mount namespace. "
                    "Make it shared, then restart the tasks that should see them",
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

  // The mount is visible. Later mounts below it may not be. That is only a note while there are none: most tasks are
  // isolated on purpose.
  void ExplainSeen(const TableMount& seen) {
    const TableMount& mount = *result_.mount;
    if (!mount.shared() || IsTied(seen, mount)) return;
    if (IsUpstream(seen, mount)) return AddReceivesOnly(seen, mount);
    AddPrivateCopy(seen, mount, RemountCommands(seen, mount));
    if (!HasMountsBelow(here_, mount)) result_.findings.back().severity = Severity::kNote;
  }

  std::string CarriedPart() const { return PathInFilesystem(carrier(), path_); }

  // The path is a directory: it should be visible there, and so should later mounts in it.
  void ExplainDirectory() {
    const TableMount* copy = ShowingPart(carrier(), CarriedPart());
    const std::string there = copy == nullptr ? path_ : PathInNamespace(*copy, CarriedPart());
    if (const TableMount* mount = there_walk_->At(there); mount != nullptr && mount != copy) {
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
        fmt::format("the mount at {} in the namespace of {} receives new mounts from here, but lacks {}. Either it was "
                    "bound after that mount and not recursively (rbind), or the mount was unmounted there",
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

  // Whether `mount` receives from the group of the copy, and propagates nothing to it.
  bool IsUpstream(const TableMount& copy, const TableMount& mount) const {
    if (!copy.shared() || mount.master == 0) return false;
    const auto [above, is_new] = above_.try_emplace(mount.master);
    if (is_new) above->second = GroupsAbove(graph_, mount.master);
    return above->second.contains(copy.peer_group);
  }

  // There is no command: a change of the copy would cut off the source of all mounts here.
  void AddReceivesOnly(const TableMount& copy, const TableMount& mount) {
    Add("receives-only",
        fmt::format(
            "the mount at {} here only receives from the one at {} in the namespace of {}: mounts made there "
            "arrive here, mounts made here do not arrive there. Restart this container with propagation rshared "
            "(Nomad: bidirectional, Kubernetes: Bidirectional)",
            Quote(mount.target), Quote(copy.target), Who()),
        {});
  }

  // Binds with the flags of the mount here, and the restrictions `least` of the task at the target.
  std::string BindThere(const std::string& target, const MountFlags& least) const {
    const bool recursive = result_.mount != nullptr && HasMountsBelow(here_, *result_.mount);
    const MountFlags& own = result_.mount != nullptr ? result_.mount->flags : carrier().flags;
    return BindCommand(path_, target, fmt::format("--pid {}", other_->pid), Stricter(least, own), recursive);
  }

  void AddPrivateCopy(const TableMount& copy, const TableMount& mount, std::vector<std::string> commands) {
    const std::string state = copy.master != 0 ? fmt::format("receives from another peer group ({})", copy.master)
                                               : fmt::format("is {}", PropagationText(copy));
    const char* const now = commands.empty()       ? "; the running task cannot be repaired from outside"
                            : commands.size() == 1 ? "; for the running task:"
                                                   : "; for the running task, while nothing in it uses the directory:";
    Add("private-copy",
        fmt::format("the mount at {} in the namespace of {} {}, not a slave of the mount at {} here: mounts made here "
                    "after the start of the task do not reach it. Restart the task with propagation rslave (Nomad: "
                    "host-to-task, Kubernetes: HostToContainer){}",
                    Quote(copy.target), Who(), state, Quote(mount.target), now),
        std::move(commands));
  }

  // Replaces the mount of the task by a slave. Empty if that would remove mounts that do not come back.
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

  // The root of a namespace cannot be unmounted, so the directory is bound over itself if `mooring mount` accepts it as
  // a mount point.
  std::vector<std::string> BindIntoRoot(const TableMount& copy) const {
    const std::string there = PathInNamespace(copy, CarriedPart());
    if (result_.mount != nullptr || !empty_directory_ || there.empty() || there == "/") return {};
    return {BindThere(there, copy.flags)};
  }

  // Adds commands that unmount the task's mounts below `copy`, the deepest first. False if such a mount would not come
  // back because it is not below `source` here, too, or if mounts are stacked at its path.
  bool AddUnmountsBelow(const TableMount& copy, const std::string& source, std::vector<std::string>& commands) const {
    std::vector<std::string> targets;
    for (const TableMount& below : other_->mounts) {
      if (&below == &copy || !IsBelow(below.target, copy.target)) continue;
      const std::string path = source + below.target.substr(copy.target.size());
      const TableMount* same = here_walk_.At(source == "/" ? path.substr(1) : path);
      if (!there_walk_->Reaches(below) || same == nullptr) return false;
      if (same->device != below.device || same->root != below.root) return false;
      targets.push_back(below.target);
    }
    std::stable_sort(targets.begin(), targets.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
    for (const std::string& target : targets) commands.push_back(UmountThere(target));
    return true;
  }

  // The command has no path below /proc/PID/root: symbolic links of the task there would lead to directories of the
  // host.
  void AddNotThere() {
    Add("not-there",
        fmt::format(
            "the namespace of {} has no mount that shows {}: the task was started without the directory. Restart "
            "it with the directory; for the running task (the parent directory must exist):",
            Who(), Quote(path_)),
        {BindThere(path_, MountFlags())});
  }

  // Finds a mount at the same path in another namespace.
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
        holder == nullptr ? "it is the root mount there"
                          : fmt::format("the mount at {} there is {}", Quote(holder->target), PropagationText(*holder));
    Add("only-elsewhere",
        fmt::format(
            "nothing is mounted at {} here; in the namespace of {}{}, {} is mounted at {}: {}. To receive mounts from "
            "there, use propagation rshared (Nomad: bidirectional, Kubernetes: Bidirectional); for the existing mount:",
            Quote(path_), ProcessText(view), more == 0 ? "" : fmt::format(" and {} more", more), SourceText(mount),
            Quote(mount.target), why),
        {BindCommand(mount.target, path_, fmt::format("--source-pid {}", view.pid), mount.flags,
                     HasMountsBelow(view, mount))});
  }

  const MountGraph& graph_;
  const NamespaceView& here_;
  const MountWalk here_walk_{here_};
  const std::string path_;
  const NamespaceView* other_;
  std::optional<MountWalk> there_walk_;  // of other_
  const bool empty_directory_;
  Visibility result_;
  mutable std::map<std::uint64_t, std::set<std::uint64_t>> above_, below_;  // results, by peer group
};

}  // namespace

Visibility ExplainVisibility(const MountGraph& graph, const VisibilityQuestion& question) {
  return Explanation(graph, question).Run();
}

}  // namespace mooring::cli::doctor_area

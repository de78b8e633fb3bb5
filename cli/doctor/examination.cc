#include "cli/doctor/examination.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/file/path.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/client/socket_problem.h"
#include "cli/doctor/container.h"
#include "cli/doctor/frozen.h"
#include "cli/doctor/health.h"
#include "cli/doctor/host_facts.h"
#include "cli/doctor/in_use.h"
#include "cli/doctor/loops.h"
#include "cli/doctor/subject.h"
#include "cli/doctor/visibility.h"
#include "cli/mounts/describe.h"

namespace mooring::cli::doctor_area {
namespace {

constexpr std::chrono::seconds kPatience{2};

void Append(Findings& all, Findings more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string Counted(std::size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

absl::StatusOr<pid_t> ProcessOf(const Question& question) {
  if (question.container.empty()) return question.pid;
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t own, MountNamespaceId(::getpid()));
  return FindContainer(CollectProcesses(), question.container, own);
}

// An examination under way.
class Examiner {
 public:
  Examiner(const Question& question, std::string state_dir)
      : question_(question), volumes_(std::move(state_dir) + "/volumes") {}

  absl::StatusOr<Examination> Run() {
    MOORING_ASSIGN_OR_RETURN(const pid_t pid, ProcessOf(question_));
    MOORING_ASSIGN_OR_RETURN(result_.graph, CollectMountGraph(pid));
    if (pid != 0) FindOther(pid);
    CheckHost();
    MOORING_RETURN_IF_ERROR(CheckSocket());
    MOORING_RETURN_IF_ERROR(CheckSubject());
    std::stable_partition(result_.findings.begin(), result_.findings.end(),
                          [](const Finding& finding) { return finding.severity == Severity::kProblem; });
    return std::move(result_);
  }

 private:
  const NamespaceView& here() const { return result_.graph.views.front(); }

  // Sets `other_`, the view of the process that should see the mount: the second view, unless the process is in this
  // namespace.
  void FindOther(pid_t pid) {
    other_ = &result_.graph.views.front();
    for (const NamespaceView& view : result_.graph.views) {
      if (view.pid == pid) other_ = &view;
    }
    if (other_ == &here() && pid != here().pid) {
      result_.seen.push_back(fmt::format("process {} is in this mount namespace and sees the same mounts", pid));
    }
  }

  bool IsElsewhere() const { return other_ != nullptr && other_ != &here(); }

  void CheckHost() {
    Append(result_.findings, FindMissing(CollectHostFacts()));
    result_.checked.insert(result_.checked.end(), {"capabilities", "kernel features"});
  }

  absl::Status CheckSocket() {
    if (question_.endpoint.empty()) return absl::OkStatus();
    const absl::StatusOr<std::string> path = ParseSocketPath(question_.endpoint);
    const char* const environment = std::getenv("CSI_ENDPOINT");
    if (!path.ok() && environment != nullptr && question_.endpoint == environment) {
      result_.findings.push_back(
          {"bad-endpoint",
           Severity::kNote,
           fmt::format("CSI_ENDPOINT in the environment is not a socket: {}", Message(path.status())),
           {}});
      return absl::OkStatus();
    }
    if (!path.ok()) return path.status();
    const std::string& socket = *path;
    const std::string state_dir(ParentOf(volumes_));
    if (MayBeServed(socket)) {
      result_.findings.push_back({"unanswered-socket", Severity::kProblem, SocketProblem(socket), {}});
      return absl::OkStatus();
    }
    Append(result_.findings, FindDeadSocket(socket, SocketProblem(socket), state_dir));
    result_.checked.push_back("socket " + Quote(socket));
    return absl::OkStatus();
  }

  absl::Status CheckSubject() {
    if (question_.subject.empty()) {
      MOORING_RETURN_IF_ERROR(AddHealth("/", "/"));
      CheckLoops();
      return absl::OkStatus();
    }
    MOORING_ASSIGN_OR_RETURN(const Subject subject, ResolveSubject(question_.subject, kPatience));
    if (subject.is_volume) return CheckVolume(question_.subject);
    MOORING_ASSIGN_OR_RETURN(const std::vector<int> answers, AskPlaces({{subject.path, 0}}, kPatience));
    if (answers.front() == ENOENT) return NotFound("there is no {}", Quote(subject.path));
    return CheckPath(subject.path, subject.empty_directory);
  }

  absl::Status CheckPath(const std::string& path, bool empty_directory) {
    const Visibility visibility =
        ExplainVisibility(result_.graph, {path, IsElsewhere() ? other_ : nullptr, empty_directory});
    Append(result_.findings, visibility.findings);
    if (!visibility.seen_at.empty()) {
      result_.seen.push_back(fmt::format("{} sees it at {}", ProcessText(*other_), Quote(visibility.seen_at)));
    }
    MOORING_RETURN_IF_ERROR(AddHealth(path, visibility.seen_at));
    result_.checked.push_back(fmt::format("propagation of {}", Quote(path)));
    AddTrees(visibility);
    return absl::OkStatus();
  }

  void AddTrees(const Visibility& visibility) {
    if (visibility.carrier == nullptr) return;
    const bool apart = visibility.mount != nullptr && visibility.mount != visibility.carrier;
    AddTree(apart ? "the parent mount," : "the mount that contains the path,", *visibility.carrier);
    if (apart) AddTree("the mount itself,", *visibility.mount);
  }

  void AddTree(const char* role, const TableMount& mount) {
    result_.trees.push_back(
        {fmt::format("{} at {}", role, Quote(mount.target)), PropagationTree(result_.graph, {&here(), &mount})});
  }

  // `there` is the path in the other namespace; empty if the mount is not visible there.
  absl::Status AddHealth(const std::string& path, const std::string& there) {
    MOORING_ASSIGN_OR_RETURN(Health health, CheckHealth(here(), path, 0, kPatience));
    std::size_t count = health.mounts;
    Append(result_.findings, std::move(health.findings));
    if (IsElsewhere() && !there.empty()) {
      MOORING_ASSIGN_OR_RETURN(health, CheckHealth(*other_, there, other_->pid, kPatience));
      count += health.mounts;
      Append(result_.findings, std::move(health.findings));
    }
    result_.checked.push_back(Counted(count, "mount", "mounts"));
    return absl::OkStatus();
  }

  // The kernel frees a device some milliseconds after its last unmount, so a leaked device is looked for twice.
  void CheckLoops() {
    std::vector<LoopFacts> loops = CollectLoops();
    Findings leaked = FindLeakedLoops(loops, result_.graph, volumes_);
    if (!leaked.empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      const std::vector<LoopFacts> now = CollectLoops();
      std::erase_if(loops, [&now](const LoopFacts& loop) {
        return std::none_of(now.begin(), now.end(), [&loop](const LoopFacts& other) {
          return other.device == loop.device && other.backing_file == loop.backing_file;
        });
      });
      const absl::StatusOr<MountGraph> mounts = CollectMountGraph();  // a device may have been mounted meanwhile
      leaked = mounts.ok() ? FindLeakedLoops(loops, *mounts, volumes_) : Findings();
    }
    Append(result_.findings, std::move(leaked));
    CheckFrozen(loops);
    result_.checked.push_back(Counted(loops.size(), "loop device", "loop devices"));
  }

  // A copy that shares extents freezes the filesystem for some milliseconds, so a frozen one is looked for twice.
  void CheckFrozen(const std::vector<LoopFacts>& loops) {
    if (FindFrozen(loops, result_.graph).empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    Append(result_.findings, FindFrozen(loops, result_.graph));
  }

  absl::Status CheckVolume(const std::string& id) {
    const std::string image = fmt::format("{}/{}.img", volumes_, id);
    std::vector<LoopFacts> loops = CollectLoops();
    std::erase_if(loops, [&](const LoopFacts& loop) { return loop.backing_file != image && !IsLabelledFor(loop, id); });
    std::vector<std::string> paths;
    for (const LoopFacts& loop : loops) {
      for (std::string& path : PathsOf(loop, here())) paths.push_back(std::move(path));
    }
    for (const std::string& path : paths) MOORING_RETURN_IF_ERROR(CheckPath(path, false));
    CheckFrozen(loops);
    result_.checked.push_back(fmt::format("volume {}", Quote(id)));
    if (!paths.empty()) result_.findings.push_back(InUse(id, paths));
    return paths.empty() ? ExplainUnmounted(id, image, loops) : absl::OkStatus();
  }

  // For a volume without a mount in this namespace.
  absl::Status ExplainUnmounted(const std::string& id, const std::string& image, const std::vector<LoopFacts>& loops) {
    for (const LoopFacts& loop : loops) {
      for (const NamespaceView& view : result_.graph.views) {
        for (const std::string& path : PathsOf(loop, view)) {
          result_.findings.push_back(HeldElsewhere(id, view, path));
          return CheckPath(path, false);  // finds "only-elsewhere"
        }
      }
    }
    Append(result_.findings, FindLeakedLoops(loops, result_.graph, volumes_));
    if (!loops.empty()) return absl::OkStatus();
    MOORING_ASSIGN_OR_RETURN(const std::vector<int> answers, AskPlaces({{image, 0}}, kPatience));
    if (answers.front() == 0) {
      result_.findings.push_back(
          {"not-staged",
           Severity::kProblem,
           fmt::format("volume {} is not staged on this node: its image {} exists, but no loop device uses it. An "
                       "orchestrator stages a volume before it publishes it; by hand:",
                       Quote(id), Quote(image)),
           {fmt::format("mooring csi stage {} --staging-path DIRECTORY", ShellQuote(id))}});
      return absl::OkStatus();
    }
    result_.findings.push_back(
        {"unknown-volume",
         Severity::kProblem,
         fmt::format("there is no volume {} below {}. It is on another node, it was deleted, the plugin has another "
                     "--state-dir, or its pool has no image files. Only the plugin knows where such a volume is used: "
                     "its errors to the next publish and to the delete name the paths",
                     Quote(id), Quote(volumes_)),
         {"mooring csi list"}});
    return absl::OkStatus();
  }

  const Question& question_;
  const std::string volumes_;
  const NamespaceView* other_ = nullptr;
  Examination result_;
};

}  // namespace

absl::StatusOr<Examination> Examine(const Question& question) {
  return Examiner(question, ResolveStateDir(question.state_dir, kPatience)).Run();
}

}  // namespace mooring::cli::doctor_area

#include "cli/doctor/examination.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/path.h"
#include "base/quote.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "cli/doctor/container.h"
#include "cli/doctor/health.h"
#include "cli/doctor/loops.h"
#include "cli/doctor/surroundings.h"
#include "cli/doctor/visibility.h"
#include "cli/mounts/describe.h"
#include "cli/mounts/paths.h"
#include "cli/socket_problem.h"
#include "cli/text.h"

namespace mooring::cli::doctor_area {
namespace {

constexpr std::chrono::seconds kPatience{2};

void Append(Findings& all, Findings more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string Counted(std::size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// A word without a slash is a volume, unless it is something in the working directory.
bool IsVolume(const std::string& subject) {
  struct stat status = {};
  return !subject.empty() && subject.find('/') == std::string::npos && subject != "." && subject != ".." &&
         ::lstat(subject.c_str(), &status) != 0;
}

absl::StatusOr<pid_t> ProcessOf(const Question& question) {
  if (question.container.empty()) return question.pid;
  struct stat own = {};
  if (::stat("/proc/self/ns/mnt", &own) != 0) return ErrnoStatus(errno, "look at this process's mount namespace");
  return FindContainer(CollectProcesses(), question.container, own.st_ino);
}

// One examination under way.
class Examiner {
 public:
  Examiner(const Question& question, std::string state_dir)
      : question_(question), volumes_(std::move(state_dir) + "/volumes") {}

  absl::StatusOr<Examination> Run() {
    MOORING_ASSIGN_OR_RETURN(const pid_t pid, ProcessOf(question_));
    MOORING_ASSIGN_OR_RETURN(result_.graph, CollectMountGraph(pid));
    if (pid != 0) FindOther(pid);
    CheckSurroundings();
    MOORING_RETURN_IF_ERROR(CheckSocket());
    MOORING_RETURN_IF_ERROR(CheckSubject());
    std::stable_partition(result_.findings.begin(), result_.findings.end(),
                          [](const Finding& finding) { return finding.severity == Severity::kProblem; });
    return std::move(result_);
  }

 private:
  const NamespaceView& here() const { return result_.graph.views.front(); }

  // Where it should be seen: the second view, unless the process is in the same namespace.
  void FindOther(pid_t pid) {
    other_ = &result_.graph.views.front();
    for (const NamespaceView& view : result_.graph.views) {
      if (view.pid == pid) other_ = &view;
    }
    if (other_ == &here() && pid != here().pid) {
      result_.seen.push_back(fmt::format("process {} is in this mount namespace: it sees what you see", pid));
    }
  }

  bool IsElsewhere() const { return other_ != nullptr && other_ != &here(); }

  void CheckSurroundings() {
    Append(result_.findings, FindMissing(CollectSurroundings()));
    result_.checked.insert(result_.checked.end(), {"capabilities", "kernel features"});
  }

  absl::Status CheckSocket() {
    if (question_.endpoint.empty()) return absl::OkStatus();
    MOORING_ASSIGN_OR_RETURN(const std::string socket, ParseSocketPath(question_.endpoint));
    const std::string state_dir(ParentOf(volumes_));
    Append(result_.findings, FindDeadSocket(socket, SocketProblem(socket), state_dir));
    result_.checked.push_back("socket " + Quote(socket));
    return absl::OkStatus();
  }

  absl::Status CheckSubject() {
    if (question_.subject.empty()) {
      CheckHealth("/", "/");
      CheckLoops();
      return absl::OkStatus();
    }
    if (IsVolume(question_.subject)) {
      CheckVolume(question_.subject);
      return absl::OkStatus();
    }
    MOORING_ASSIGN_OR_RETURN(const std::string path, mounts_area::ResolvePath(question_.subject));
    if (AskMounts({path}, kPatience).front() == ENOENT) {  // in a child: it may hang
      return NotFound(fmt::format("there is no {}", Quote(path)));
    }
    CheckPath(path);
    return absl::OkStatus();
  }

  void CheckPath(const std::string& path) {
    const Visibility visibility = ExplainVisibility(result_.graph, {path, IsElsewhere() ? other_ : nullptr});
    Append(result_.findings, visibility.findings);
    if (!visibility.seen_at.empty()) {
      result_.seen.push_back(fmt::format("{} sees it at {}", ProcessText(*other_), Quote(visibility.seen_at)));
    }
    CheckHealth(path, visibility.seen_at);
    result_.checked.push_back(fmt::format("propagation of {}", Quote(path)));
    AddTrees(visibility);
  }

  void AddTrees(const Visibility& visibility) {
    if (visibility.carrier == nullptr) return;
    const bool apart = visibility.mount != nullptr && visibility.mount != visibility.carrier;
    AddTree(apart ? "the mount it was made in," : "the mount that holds it,", *visibility.carrier);
    if (apart) AddTree("the mount itself,", *visibility.mount);
  }

  void AddTree(const char* role, const TableMount& mount) {
    result_.trees.push_back(
        {fmt::format("{} at {}", role, Quote(mount.target)), PropagationTree(result_.graph, {&here(), &mount})});
  }

  // `there`: in the other namespace, empty where it is not seen.
  void CheckHealth(const std::string& path, const std::string& there) {
    std::size_t count = CheckHealthIn(here(), path, "", 0);
    if (IsElsewhere() && !there.empty()) {
      count += CheckHealthIn(*other_, there, fmt::format("/proc/{}/root", other_->pid), other_->pid);
    }
    result_.checked.push_back(Counted(count, "mount", "mounts"));
  }

  std::size_t CheckHealthIn(const NamespaceView& view, const std::string& path, const std::string& prefix, pid_t pid) {
    std::vector<const TableMount*> mounts;
    std::vector<std::string> paths;
    const TableMount* const holding = MountHolding(view, path);
    for (const TableMount& mount : view.mounts) {
      if (!IsBelow(mount.target, path) && &mount != holding) continue;
      mounts.push_back(&mount);
      paths.push_back(prefix + mount.target);
    }
    const std::vector<int> answers = AskMounts(paths, kPatience);
    for (std::size_t i = 0; i < mounts.size(); ++i) Append(result_.findings, FindBroken(*mounts[i], answers[i], pid));
    return mounts.size();
  }

  // A device outlives its last mount by some milliseconds: what is there twice is there.
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
      leaked = FindLeakedLoops(loops, result_.graph, volumes_);
    }
    Append(result_.findings, std::move(leaked));
    result_.checked.push_back(Counted(loops.size(), "loop device", "loop devices"));
  }

  void CheckVolume(const std::string& id) {
    const std::string image = fmt::format("{}/{}.img", volumes_, id);
    std::vector<LoopFacts> loops = CollectLoops();
    std::erase_if(loops, [&](const LoopFacts& loop) { return loop.backing_file != image && !IsLabelledFor(loop, id); });
    std::vector<std::string> paths;
    for (const LoopFacts& loop : loops) {
      for (std::string& path : PathsOf(loop, here())) paths.push_back(std::move(path));
    }
    for (const std::string& path : paths) CheckPath(path);
    result_.checked.push_back(fmt::format("volume {}", Quote(id)));
    if (paths.empty()) ExplainUnmounted(id, image, loops);
  }

  // A volume that is not mounted here at all.
  void ExplainUnmounted(const std::string& id, const std::string& image, const std::vector<LoopFacts>& loops) {
    for (const LoopFacts& loop : loops) {
      for (const NamespaceView& view : result_.graph.views) {
        for (const std::string& path : PathsOf(loop, view)) {
          CheckPath(path);  // says that it is mounted elsewhere only
          return;
        }
      }
    }
    Append(result_.findings, FindLeakedLoops(loops, result_.graph, volumes_));
    if (!loops.empty()) return;
    struct stat status = {};
    const bool there = ::stat(image.c_str(), &status) == 0;
    if (there) {
      result_.findings.push_back(
          {"not-staged",
           Severity::kProblem,
           fmt::format("volume {} is not staged on this node: its image {} is there, and no loop "
                       "device is on it. An orchestrator stages it before it publishes it; by hand:",
                       Quote(id), Quote(image)),
           {fmt::format("mooring csi stage {} --staging-path DIRECTORY", ShellQuote(id))}});
      return;
    }
    result_.findings.push_back(
        {"unknown-volume",
         Severity::kProblem,
         fmt::format("there is no volume {} below {}: it lives on another node, was deleted, or the "
                     "plugin has another --state-dir",
                     Quote(id), Quote(volumes_)),
         {"mooring csi list"}});
  }

  const Question& question_;
  const std::string volumes_;
  const NamespaceView* other_ = nullptr;
  Examination result_;
};

}  // namespace

absl::StatusOr<Examination> Examine(const Question& question) {
  std::error_code error;
  const std::filesystem::path state_dir = std::filesystem::weakly_canonical(question.state_dir, error);
  return Examiner(question, error ? question.state_dir : state_dir.string()).Run();
}

}  // namespace mooring::cli::doctor_area

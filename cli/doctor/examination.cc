#include "cli/doctor/examination.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/client/client.h"
#include "cli/doctor/child.h"
#include "cli/doctor/container.h"
#include "cli/doctor/health.h"
#include "cli/doctor/host_facts.h"
#include "cli/doctor/loops.h"
#include "cli/doctor/unfinished_work.h"
#include "cli/doctor/visibility.h"
#include "cli/manager/connection.h"
#include "cli/mounts/describe.h"
#include "cli/mounts/paths.h"

namespace mooring::cli::doctor_area {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience{2};

// The subject of `mooring doctor` from the command line. A child process resolves it, because every look at a path may
// hang.
struct Subject {
  bool is_volume = false;  // a word without a slash that is not a file in the working directory
  std::string path;        // absolute, without symbolic links; if resolving hangs, the given path made absolute
  bool empty_directory = false;
};

// The first byte of the child's answer. Text follows.
constexpr char kVolume = 'v', kDirectory = 'd', kOther = 'o', kError = 'e';

bool IsVolume(const std::string& given) {
  struct stat status = {};
  return given.find('/') == std::string::npos && given != "." && given != ".." && ::lstat(given.c_str(), &status) != 0;
}

std::string ErrorText(const absl::Status& status) {
  return std::string{kError, static_cast<char>(status.code())} + std::string(status.message());
}

void Say(int fd, const std::string& text) {
  // A path fits into one write to a pipe, pipe(7). The reader notices an answer that is cut short.
  if (::write(fd, text.data(), text.size()) < 0) ::_exit(1);
}

// Opening a directory triggers an automount; open(2) with O_PATH does not.
bool IsAutomount(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct statfs filesystem = {};
  return fd.ok() && ::fstatfs(fd.get(), &filesystem) == 0 && filesystem.f_type == AUTOFS_SUPER_MAGIC;
}

void Resolve(const std::string& given, int fd) {
  if (IsVolume(given)) return Say(fd, std::string{kVolume});
  const absl::StatusOr<std::string> path = mounts_area::ResolvePath(given);
  if (!path.ok()) return Say(fd, ErrorText(path.status()));
  Say(fd, kOther + *path);
  std::error_code error;
  if (IsAutomount(*path) || !fs::is_directory(*path, error)) return;
  if (fs::is_empty(*path, error) && !error) Say(fd, {'\0', kDirectory});
}

// The absolute path without a look at the disk, for a path that hangs.
std::string Lexical(const std::string& given) {
  std::error_code error;
  std::string path = fs::absolute(given, error).lexically_normal();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

absl::StatusOr<Subject> FromText(std::string text) {
  Subject subject;
  if (text[0] == kError) return absl::Status(static_cast<absl::StatusCode>(text.at(1)), text.substr(2));
  subject.is_volume = text[0] == kVolume;
  if (subject.is_volume) return subject;
  const std::size_t end = text.find('\0');
  subject.empty_directory = end != std::string::npos;
  subject.path = text.substr(1, end == std::string::npos ? end : end - 1);
  return subject;
}

// Errors are those of mounts_area::ResolvePath and of creating the child process.
absl::StatusOr<Subject> ResolveSubject(const std::string& given, std::chrono::milliseconds patience) {
  MOORING_ASSIGN_OR_RETURN(ChildOutput output, ReadFromChild([&given](int fd) { Resolve(given, fd); }, patience));
  if (!output.bytes.empty()) return FromText(std::move(output.bytes));
  if (!output.hung) return Internal("the process that resolves the path was killed: try again");
  return Subject{.is_volume = false, .path = Lexical(given), .empty_directory = false};
}

// The directory without symbolic links, or as given if it cannot be resolved.
std::string ResolveStateDir(const std::string& given, std::chrono::milliseconds patience) {
  const auto resolve = [&given](int fd) {
    std::error_code error;
    const fs::path path = fs::weakly_canonical(given, error);
    if (!error) Say(fd, path.string());
  };
  const absl::StatusOr<ChildOutput> output = ReadFromChild(resolve, patience);
  return output.ok() && !output->bytes.empty() ? output->bytes : given;
}

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
      return CheckManager();
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

  absl::Status CheckManager() {
    std::error_code error;
    if (question_.manager.empty() && !fs::exists(manager_area::kDefaultSocket, error)) return absl::OkStatus();
    absl::StatusOr<Findings> findings =
        FindUnfinishedWork(question_.manager.empty() ? manager_area::kDefaultSocket : question_.manager);
    const char* const environment = std::getenv("MOORING_MANAGER_SOCKET");
    if (!findings.ok() && environment != nullptr && question_.manager == environment) {
      result_.findings.push_back(
          {"bad-endpoint",
           Severity::kNote,
           fmt::format("MOORING_MANAGER_SOCKET in the environment is not a socket: {}", Message(findings.status())),
           {}});
      return absl::OkStatus();
    }
    MOORING_RETURN_IF_ERROR(findings.status());
    Append(result_.findings, *std::move(findings));
    result_.checked.push_back("unfinished work of the manager");
    return absl::OkStatus();
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

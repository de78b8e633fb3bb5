#include "mounter/process/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/child.h"
#include "base/file/pipe.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/process/child_output.h"
#include "mounter/process/helper_calls.h"
#include "mounter/process/privileges.h"
#include "mounter/process/root_cgroup.h"

namespace mooring {
namespace {

constexpr std::chrono::milliseconds kKillGrace{1000};
constexpr std::size_t kTailBytes = 2048;  // CommandResult::output

// Adds the sbin directories to PATH, because the PATH of a service or a container may lack them.
std::string SearchPath() {
  const char* path = std::getenv("PATH");
  if (path == nullptr || *path == '\0') return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  // Only after a bin directory that is on the path: a PATH without the system's programs is left alone.
  std::string search = path;
  for (const char* prefix : {"/usr", ""}) {
    const std::string bin = fmt::format(":{}/bin:", prefix);
    const std::string sbin = fmt::format(":{}/sbin:", prefix);
    const std::string have = ":" + search + ":";
    if (have.find(bin) != std::string::npos && have.find(sbin) == std::string::npos)
      search += sbin.substr(0, sbin.size() - 1);
  }
  return search;
}

// The program's full path, or empty. posix_spawnp(3) would search the PATH of this process instead.
std::string Locate(const std::string& program) {
  const std::string path = SearchPath();
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string candidate = path.substr(at, end - at) + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    at = end + 1;
  }
  return "";
}

bool MapsDevices(ProgramKind kind) { return kind != ProgramKind::kTool; }

// A report suspends nothing.
bool MayBeKilled(ProgramKind kind) {
  switch (kind) {
    case ProgramKind::kTool:
    case ProgramKind::kLvmReport:
      return true;
    case ProgramKind::kLvm:
    case ProgramKind::kCryptsetup:
      return false;
  }
  return false;
}

struct Child {
  pid_t pid = -1;
  UniqueFd output;  // a pipe that does not block, or the file of lvm
  UniqueFd pidfd;
};

// Spawns from a new thread, whose system calls are limited to those of programs. It can become no other user, and cp(1)
// cannot exceed a project quota of ext4. The child inherits the limits of that thread. The other threads of this
// process keep their own.
absl::StatusOr<pid_t> SpawnConfined(const SpawnSpec& spec, ProgramKind kind) {
  absl::StatusOr<pid_t> pid = -1;
  std::thread([&] {
    absl::Status confined = ConfineProgramCalls(kind);
    if (confined.ok()) confined = GiveUp({CAP_SETUID, CAP_SETGID, CAP_SYS_RESOURCE});
    pid = confined.ok() ? SpawnProgram(spec) : confined;
  }).join();
  return pid;
}

// The output of lvm and cryptsetup goes to a file in memory. The end of this process, or of the call, would break a
// pipe, and the program with it.
absl::StatusOr<Pipe> MakeOutput(ProgramKind kind) {
  if (!MapsDevices(kind)) {
    MOORING_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
    ::fcntl(pipe.reader.get(), F_SETFL, O_NONBLOCK);
    return pipe;
  }
  Pipe file;
  file.writer.reset(::memfd_create("output", MFD_CLOEXEC));
  file.reader.reset(::fcntl(file.writer.get(), F_DUPFD_CLOEXEC, 0));
  if (!file.reader.ok()) return ErrnoStatus(errno, "make a file in memory for the output of a program");
  return file;
}

// lvm locks its memory while devices are suspended, and cryptsetup keys. They lack CAP_IPC_LOCK, and the usual limit is
// 8 MiB. This process locks none, so the limit is not put back. Without the lock lvm warns, and goes on.
void AllowToLockMemory() {
  constexpr rlimit kAll = {RLIM_INFINITY, RLIM_INFINITY};
  ::prlimit(0, RLIMIT_MEMLOCK, &kAll, nullptr);
}

absl::StatusOr<Child> Spawn(const std::string& program, const std::vector<std::string>& command,
                            const std::vector<int>& held, const std::vector<std::string>& environment,
                            ProgramKind kind) {
  MOORING_ASSIGN_OR_RETURN(Pipe output, MakeOutput(kind));
  SpawnSpec spec = {.program = program,
                    .arguments = command,
                    .variables = std::vector<std::string>{"PATH=" + SearchPath(), "LC_ALL=C"},
                    .descriptors = {{output.writer.get(), STDOUT_FILENO}, {output.writer.get(), STDERR_FILENO}},
                    .leads_group = true};
  spec.variables->insert(spec.variables->end(), environment.begin(), environment.end());
  for (const int file : held) {
    if (file >= 0) spec.descriptors.emplace_back(file, static_cast<int>(spec.descriptors.size()) + 1);
  }
  Child child;
  if (MapsDevices(kind)) AllowToLockMemory();
  MOORING_ASSIGN_OR_RETURN(child.pid, SpawnConfined(spec, kind));
  if (!MayBeKilled(kind)) MoveToRootCgroup(child.pid);
  child.output = std::move(output.reader);
  child.pidfd = OpenPidFd(child.pid);
  if (child.pidfd.ok()) return child;
  const absl::Status failure = ErrnoStatus(errno, "watch", program);
  if (MayBeKilled(kind)) ::kill(-child.pid, SIGKILL);
  AwaitChild(child.pid);
  return failure;
}

// Programs that outlive their call. A killed program that waits for a device in the kernel ends when the device
// answers. lvm and cryptsetup are not killed.
class Lingering {
 public:
  void Add(pid_t pid, ProgramKind kind) {
    const std::lock_guard<std::mutex> lock(mutex_);
    (kind == ProgramKind::kLvm ? changes_ : others_).push_back(pid);
  }
  void Reap() {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto reaped = [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; };
    std::erase_if(others_, reaped);
    std::erase_if(changes_, reaped);
  }
  std::optional<pid_t> FirstChange() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return changes_.empty() ? std::nullopt : std::optional<pid_t>(changes_.front());
  }

 private:
  std::mutex mutex_;
  std::vector<pid_t> others_, changes_;  // by lvm
};

Lingering& TheLingering() {
  static Lingering lingering;
  return lingering;
}

int ExitCode(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string TailOf(const UniqueFd& file) {
  std::string tail(kTailBytes, '\0');
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return "";
  const off_t skipped = std::max<off_t>(0, status.st_size - static_cast<off_t>(tail.size()));
  const ssize_t got = ::pread(file.get(), tail.data(), tail.size(), skipped);
  tail.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return tail;
}

// False: the limit came first.
bool AwaitEndOf(const Child& child, ProgramKind kind, std::chrono::seconds limit, std::string& output) {
  if (MapsDevices(kind)) {
    const bool ended = EndsWithin(child.pidfd, limit);
    output = TailOf(child.output);
    return ended;
  }
  const bool ended = AwaitEnd(child.pidfd, child.output, std::chrono::steady_clock::now() + limit, output);
  output = OneLine(std::move(output));
  return ended;
}

absl::Status EndAtLimit(const Child& child, ProgramKind kind, const std::string& name, std::chrono::seconds limit) {
  if (!MayBeKilled(kind)) {
    TheLingering().Add(child.pid, kind);
    return absl::DeadlineExceededError(
        fmt::format("{} still runs after {} s. It is never killed, because that could leave devices suspended: look "
                    "for a disk that does not answer{}, and call again",
                    name, limit.count(), kind == ProgramKind::kLvm ? ", or a full thin pool" : ""));
  }
  ::kill(-child.pid, SIGKILL);
  if (EndsWithin(child.pidfd, kKillGrace)) {
    AwaitChild(child.pid);
    return absl::DeadlineExceededError(fmt::format("{} was killed after {} s", name, limit.count()));
  }
  TheLingering().Add(child.pid, kind);
  return absl::DeadlineExceededError(fmt::format(
      "{} was killed after {} s and has not ended yet: it waits for the kernel, or for a device that does not answer",
      name, limit.count()));
}

absl::StatusOr<CommandResult> Await(const Child& child, ProgramKind kind, const std::string& name,
                                    std::chrono::seconds limit) {
  CommandResult result;
  if (!AwaitEndOf(child, kind, limit, result.output)) return EndAtLimit(child, kind, name, limit);
  // Its children: the group exists until the program is reaped.
  if (MayBeKilled(kind)) ::kill(-child.pid, SIGKILL);
  result.exit_code = ExitCode(AwaitChild(child.pid));
  return result;
}

}  // namespace

absl::Status ProgramWasKilled(std::string_view program, const std::string& path, const CommandResult& result) {
  const int signal = result.exit_code - 128;
  return Aborted(
      "{} on {} was killed before its end by signal {} ({}): this tells nothing about {}; call again. If nobody killed "
      "it, a limit did: of memory (the kernel's log says so), of time or of file sizes (ulimit)",
      program, Quote(path), signal, ::strsignal(signal), Quote(path));
}

absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& command, const std::string& package,
                                         std::chrono::seconds limit, const std::vector<int>& held,
                                         const std::vector<std::string>& environment, ProgramKind kind) {
  const std::string program = Locate(command[0]);
  if (program.empty()) {
    return FailedPrecondition("{} is not installed (looked in {}): install the package {}", command[0], SearchPath(),
                              package);
  }
  TheLingering().Reap();
  if (kind == ProgramKind::kLvm) MOORING_RETURN_IF_ERROR(CheckNoLvmLingers());
  MOORING_ASSIGN_OR_RETURN(const Child child, Spawn(program, command, held, environment, kind));
  return Await(child, kind, command[0], limit);
}

absl::Status CheckNoLvmLingers() {
  TheLingering().Reap();
  const std::optional<pid_t> running = TheLingering().FirstChange();
  if (!running) return absl::OkStatus();
  return Unavailable(
      "an earlier lvm still runs (process {}): look for a disk that does not answer, or a full thin pool, and call "
      "again",
      *running);
}

}  // namespace mooring

#include "mounter/process/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/child.h"
#include "base/file/pipe.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/process/child_output.h"
#include "mounter/process/helper_calls.h"
#include "mounter/process/privileges.h"

namespace mooring {
namespace {

constexpr std::chrono::milliseconds kKillGrace{1000};

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

struct Child {
  pid_t pid = -1;
  UniqueFd output;  // not blocking
  UniqueFd pidfd;
};

// Spawns from a new thread, whose system calls are limited to those of programs. It can become no other user, and cp(1)
// cannot exceed a project quota of ext4. The child inherits the limits of that thread. The other threads of this
// process keep their own.
absl::StatusOr<pid_t> SpawnConfined(const SpawnSpec& spec) {
  absl::StatusOr<pid_t> pid = -1;
  std::thread([&] {
    absl::Status confined = ConfineProgramCalls();
    if (confined.ok()) confined = GiveUp({CAP_SETUID, CAP_SETGID, CAP_SYS_RESOURCE});
    pid = confined.ok() ? SpawnProgram(spec) : confined;
  }).join();
  return pid;
}

absl::StatusOr<Child> Spawn(const std::string& program, const std::vector<std::string>& command,
                            const std::vector<int>& held, const std::vector<std::string>& environment) {
  MOORING_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  SpawnSpec spec = {.program = program,
                    .arguments = command,
                    .variables = std::vector<std::string>{"PATH=" + SearchPath(), "LC_ALL=C"},
                    .descriptors = {{pipe.writer.get(), STDOUT_FILENO}, {pipe.writer.get(), STDERR_FILENO}},
                    .leads_group = true};
  spec.variables->insert(spec.variables->end(), environment.begin(), environment.end());
  for (const int file : held) {
    if (file >= 0) spec.descriptors.emplace_back(file, static_cast<int>(spec.descriptors.size()) + 1);
  }
  Child child;
  MOORING_ASSIGN_OR_RETURN(child.pid, SpawnConfined(spec));
  ::fcntl(pipe.reader.get(), F_SETFL, O_NONBLOCK);
  child.output = std::move(pipe.reader);
  child.pidfd = OpenPidFd(child.pid);
  if (child.pidfd.ok()) return child;
  const absl::Status failure = ErrnoStatus(errno, "watch", program);
  ::kill(-child.pid, SIGKILL);
  AwaitChild(child.pid);
  return failure;
}

// Killed programs that have not ended: a program that waits for a device in the kernel ends when the device answers.
class Lingering {
 public:
  void Add(pid_t pid) {
    const std::lock_guard<std::mutex> lock(mutex_);
    pids_.push_back(pid);
  }
  void Reap() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(pids_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
  }

 private:
  std::mutex mutex_;
  std::vector<pid_t> pids_;
};

Lingering& TheLingering() {
  static Lingering lingering;
  return lingering;
}

int ExitCode(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
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
                                         const std::vector<std::string>& environment) {
  const std::string program = Locate(command[0]);
  if (program.empty()) {
    return FailedPrecondition("{} is not installed (looked in {}): install the package {}", command[0], SearchPath(),
                              package);
  }
  TheLingering().Reap();
  MOORING_ASSIGN_OR_RETURN(const Child child, Spawn(program, command, held, environment));
  CommandResult result;
  const bool ended = AwaitEnd(child.pidfd, child.output, std::chrono::steady_clock::now() + limit, result.output);
  ::kill(-child.pid, SIGKILL);  // also its children: the group exists until the program is reaped
  if (!ended && !EndsWithin(child.pidfd, kKillGrace)) {
    TheLingering().Add(child.pid);
    return absl::DeadlineExceededError(fmt::format(
        "{} was killed after {} s and has not ended yet: it waits for the kernel, or for a device that does not answer",
        command[0], limit.count()));
  }
  result.exit_code = ExitCode(AwaitChild(child.pid));
  result.output = OneLine(std::move(result.output));
  if (!ended) return absl::DeadlineExceededError(fmt::format("{} was killed after {} s", command[0], limit.count()));
  return result;
}

}  // namespace mooring

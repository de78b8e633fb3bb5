#include "mounter/process/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "base/empty_input.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "mounter/process/helper_calls.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kKillGrace{1000};

// The tools live in sbin, which the PATH of a service or a container may leave out.
std::string SearchPath() {
  const char* path = std::getenv("PATH");
  if (path == nullptr || *path == '\0') return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  // Whoever has the system's programs on the path means the system's administration programs, too.
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

// The program's full path: looked up here, since posix_spawnp takes the PATH of the child's environment from ours.
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
  UniqueFd ended;   // a pidfd: readable when the program has ended
};

// A group of its own, so that all of it can be killed; no signal blocked that we block.
int SpawnInGroup(pid_t& pid, const std::string& program, const posix_spawn_file_actions_t& actions,
                 char* const* arguments, char* const* environment) {
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  const auto destroy = absl::MakeCleanup([&attributes] { ::posix_spawnattr_destroy(&attributes); });
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  return ::posix_spawn(&pid, program.c_str(), &actions, &attributes, arguments, environment);
}

// `spawn` in a thread of its own, whose system calls are those of programs: the child inherits the thread's filter, and
// the other threads of this process keep theirs.
absl::Status InConfinedThread(const std::string& program, const std::function<int()>& spawn) {
  absl::Status status;
  std::thread([&] {
    status = ConfineProgramCalls();
    if (!status.ok()) return;
    const int error = spawn();
    if (error != 0) status = ErrnoStatus(error, "start", program);
  }).join();
  return status;
}

absl::StatusOr<Child> Spawn(const std::string& program, const std::vector<std::string>& command, const UniqueFd& held,
                            const std::vector<std::string>& more) {
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe");
  UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const auto destroy = absl::MakeCleanup([&actions] { ::posix_spawn_file_actions_destroy(&actions); });
  const UniqueFd input = OpenEmptyInput();
  if (input.ok()) ::posix_spawn_file_actions_adddup2(&actions, input.get(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, writer.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, writer.get(), 2);
  if (held.ok()) ::posix_spawn_file_actions_adddup2(&actions, held.get(), 3);  // not closed on exec, as all others are
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::vector<std::string> variables = {"PATH=" + SearchPath(), "LC_ALL=C"};
  variables.insert(variables.end(), more.begin(), more.end());
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  Child child;
  MOORING_RETURN_IF_ERROR(InConfinedThread(
      program, [&] { return SpawnInGroup(child.pid, program, actions, arguments.data(), environment.data()); }));
  ::fcntl(reader.get(), F_SETFL, O_NONBLOCK);
  child.output = std::move(reader);
  child.ended.reset(sys::PidFdOpen(child.pid));
  if (child.ended.ok()) return child;
  const absl::Status failure = ErrnoStatus(errno, "watch", program);
  ::kill(-child.pid, SIGKILL);
  ::waitpid(child.pid, nullptr, 0);
  return failure;
}

void Keep(std::string& tail, std::string_view more) {
  constexpr std::size_t kMost = 2048;
  tail += more;
  if (tail.size() > kMost) tail.erase(0, tail.size() - kMost);
}

// What there is to read now, at least a pipe full of it. False: there will be no more.
bool ReadSome(const UniqueFd& output, std::string& tail) {
  std::array<char, 65536> chunk = {};
  for (int reads = 0; reads < 4; ++reads) {
    const ssize_t got = ::read(output.get(), chunk.data(), chunk.size());
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    Keep(tail, std::string_view(chunk.data(), static_cast<std::size_t>(got)));
  }
  return true;
}

// Waits for the program's end, which is neither that of its output (it may close it) nor of its children (they may keep
// it). False: the deadline came first.
bool Await(const Child& child, Clock::time_point deadline, std::string& tail) {
  bool more = true;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    std::array waited = {pollfd{child.ended.get(), POLLIN, 0}, pollfd{more ? child.output.get() : -1, POLLIN, 0}};
    if (::poll(waited.data(), waited.size(), static_cast<int>(std::min<long>(left, 60000))) <= 0) continue;
    if (more) more = ReadSome(child.output, tail);
    if (waited[0].revents != 0) return true;
  }
}

std::string OneLine(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

bool EndsWithin(const Child& child, std::chrono::milliseconds patience) {
  pollfd waited = {child.ended.get(), POLLIN, 0};
  const auto deadline = Clock::now() + patience;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int events = ::poll(&waited, 1, static_cast<int>(std::max<long>(left, 0)));
    if (events > 0) return true;
    if (events == 0 || left <= 0) return false;
  }
}

// Killed programs that had not ended: one that waits for a device in the kernel ends when that answers.
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

int ExitCode(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& command, const std::string& package,
                                         std::chrono::seconds limit, const UniqueFd& held,
                                         const std::vector<std::string>& environment) {
  const std::string program = Locate(command[0]);
  if (program.empty()) {
    return FailedPrecondition(
        fmt::format("{} is not installed (looked in {}): install the package {}", command[0], SearchPath(), package));
  }
  TheLingering().Reap();
  MOORING_ASSIGN_OR_RETURN(const Child child, Spawn(program, command, held, environment));
  CommandResult result;
  const bool ended = Await(child, Clock::now() + limit, result.output);
  ::kill(-child.pid, SIGKILL);  // its children, too; the group is there until the program is reaped
  if (!ended && !EndsWithin(child, kKillGrace)) {
    TheLingering().Add(child.pid);
    return absl::DeadlineExceededError(fmt::format(
        "{} was killed after {} s and has not ended yet: it waits for the kernel, or for a device that does "
        "not answer",
        command[0], limit.count()));
  }
  result.exit_code = ExitCode(child.pid);
  result.output = OneLine(std::move(result.output));
  if (!ended) {
    return absl::DeadlineExceededError(fmt::format("{} was killed after {} s", command[0], limit.count()));
  }
  return result;
}

}  // namespace mooring

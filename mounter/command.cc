#include "mounter/command.h"

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

#include "absl/cleanup/cleanup.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

// The tools live in sbin, which the PATH of a service or a container may leave out.
std::string SearchPath() {
  const char* path = std::getenv("PATH");
  return path != nullptr && *path != '\0' ? path : "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
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
  UniqueFd output;
};

absl::StatusOr<Child> Spawn(const std::string& program, const std::vector<std::string>& command) {
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe");
  UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const auto destroy = absl::MakeCleanup([&actions] { ::posix_spawn_file_actions_destroy(&actions); });
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, writer.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, writer.get(), 2);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::string path = "PATH=" + SearchPath();
  std::string locale = "LC_ALL=C";
  const std::array<char*, 3> environment = {path.data(), locale.data(), nullptr};
  Child child;
  const int error = ::posix_spawn(&child.pid, program.c_str(), &actions, nullptr, arguments.data(), environment.data());
  if (error != 0) return ErrnoStatus(error, "start", program);
  child.output = std::move(reader);
  return child;
}

void Keep(std::string& tail, std::string_view more) {
  constexpr std::size_t kMost = 2048;
  tail += more;
  if (tail.size() > kMost) tail.erase(0, tail.size() - kMost);
}

// Reads until the child closes its output. False: the deadline came first.
bool Drain(const UniqueFd& output, Clock::time_point deadline, std::string& tail) {
  std::array<char, 4096> chunk = {};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waited = {output.get(), POLLIN, 0};
    if (::poll(&waited, 1, static_cast<int>(std::min<long>(left, 60000))) <= 0) continue;
    const ssize_t got = ::read(output.get(), chunk.data(), chunk.size());
    if (got == 0 || (got < 0 && errno != EINTR)) return true;
    if (got > 0) Keep(tail, std::string_view(chunk.data(), static_cast<std::size_t>(got)));
  }
}

std::string OneLine(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

int Reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& command, const std::string& package,
                                         std::chrono::seconds limit) {
  const std::string program = Locate(command[0]);
  if (program.empty()) {
    return FailedPrecondition(
        fmt::format("{} is not installed (looked in {}): install the package {}", command[0], SearchPath(), package));
  }
  MOORING_ASSIGN_OR_RETURN(const Child child, Spawn(program, command));
  CommandResult result;
  const bool ended = Drain(child.output, Clock::now() + limit, result.output);
  if (!ended) ::kill(child.pid, SIGKILL);
  result.exit_code = Reap(child.pid);
  result.output = OneLine(std::move(result.output));
  if (!ended) {
    return absl::DeadlineExceededError(fmt::format("{} was killed after {} s", command[0], limit.count()));
  }
  return result;
}

}  // namespace mooring

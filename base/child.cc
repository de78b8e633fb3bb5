#include "base/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "base/file/await_input.h"
#include "base/status.h"

namespace mooring {
namespace {

// An empty standard input: /dev/null; in a container without it, a pipe without a writer. Not ok() and errno: neither
// can be opened.
UniqueFd OpenEmptyInput() {
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null.ok()) return null;
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return null;
  ::close(ends[1]);
  return UniqueFd(ends[0]);
}

void SetUpGroup(posix_spawnattr_t& attributes) {
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
}

// The child gets its numbers one after the other. A descriptor that has such a number here is copied to a higher one,
// so that none is replaced before its turn.
absl::StatusOr<std::vector<UniqueFd>> CopiesAbove(const std::vector<std::pair<int, int>>& descriptors) {
  int highest = 0;
  for (const auto& [ours, number] : descriptors) highest = std::max(highest, number);
  std::vector<UniqueFd> copies;
  for (const auto& [ours, number] : descriptors) {
    copies.emplace_back(ours <= highest ? ::fcntl(ours, F_DUPFD_CLOEXEC, highest + 1) : -1);
    if (ours <= highest && !copies.back().ok()) return ErrnoStatus(errno, "copy a descriptor for a program");
  }
  return copies;
}

}  // namespace

// execve(2) takes pointers to non-const strings and changes none of them.
std::vector<char*> PointersTo(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

absl::StatusOr<pid_t> SpawnProgram(const SpawnSpec& spec) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  const auto destroy = absl::MakeCleanup([&] {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  });
  const UniqueFd input = OpenEmptyInput();
  if (input.ok()) ::posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  MOORING_ASSIGN_OR_RETURN(const std::vector<UniqueFd> sources, CopiesAbove(spec.descriptors));
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto& [ours, number] = spec.descriptors[i];
    ::posix_spawn_file_actions_adddup2(&actions, sources[i].ok() ? sources[i].get() : ours, number);
  }
  if (spec.leads_group) SetUpGroup(attributes);
  const std::vector<char*> arguments = PointersTo(spec.arguments);
  const std::vector<char*> variables = spec.variables ? PointersTo(*spec.variables) : std::vector<char*>();
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, spec.program.c_str(), &actions, &attributes, arguments.data(),
                                  spec.variables ? variables.data() : environ);
  if (error != 0) return ErrnoStatus(error, "start", spec.program);
  return pid;
}

UniqueFd OpenPidFd(pid_t pid) { return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U))); }

bool EndsWithin(const UniqueFd& pidfd, std::chrono::milliseconds patience) {
  return AwaitInput(pidfd, std::chrono::steady_clock::now() + patience);
}

int AwaitChild(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string HowChildEnded(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return fmt::format("exit status {}", WEXITSTATUS(wait_status));
  return fmt::format("killed by signal {} ({})", WTERMSIG(wait_status), ::strsignal(WTERMSIG(wait_status)));
}

}  // namespace mooring

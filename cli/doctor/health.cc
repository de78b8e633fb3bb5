#include "cli/doctor/health.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "base/quote.h"
#include "base/unique_fd.h"
#include "cli/text.h"

namespace mooring::cli::doctor_area {
namespace {

bool MeansBroken(int error) {
  return error == EIO || error == ESTALE || error == ENOTCONN || error == EHOSTDOWN || error == ESHUTDOWN;
}

// A dead FUSE server shows in statfs(2), a filesystem that was shut down in stat(2).
int Ask(const std::string& path) {
  struct statfs filesystem = {};
  if (::statfs(path.c_str(), &filesystem) != 0) return errno;
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? 0 : errno;
}

[[noreturn]] void AnswerFrom(const std::vector<std::string>& paths, std::size_t first, int answers) {
  for (std::size_t i = first; i < paths.size(); ++i) {
    const int answer = Ask(paths[i]);
    if (::write(answers, &answer, sizeof(answer)) != sizeof(answer)) break;
  }
  ::_exit(0);
}

// The answers of one child, until it has given all or one does not come in time.
std::vector<int> ReadAnswers(int fd, std::chrono::milliseconds patience) {
  std::vector<int> answers;
  for (pollfd ready = {fd, POLLIN, 0}; ::poll(&ready, 1, static_cast<int>(patience.count())) > 0;) {
    int answer = 0;
    if (::read(fd, &answer, sizeof(answer)) != sizeof(answer)) break;
    answers.push_back(answer);
  }
  return answers;
}

// Killed; not waited for where it cannot be: who ends before it, leaves it to init.
void End(pid_t child) {
  ::kill(child, SIGKILL);
  constexpr int kAttempts = 50;
  for (int attempt = 0; attempt < kAttempts && ::waitpid(child, nullptr, WNOHANG) == 0; ++attempt) ::usleep(1000);
}

std::vector<int> AskFrom(const std::vector<std::string>& paths, std::size_t first, std::chrono::milliseconds patience) {
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) AnswerFrom(paths, first, writer.get());
  writer.reset();
  if (child < 0) return {};
  std::vector<int> answers = ReadAnswers(reader.get(), patience);
  End(child);
  return answers;
}

std::string UmountCommand(const std::string& target, pid_t pid) {
  return fmt::format("mooring umount {}{}", ShellQuote(target), pid == 0 ? "" : fmt::format(" --pid {}", pid));
}

// What makes the calls return that wait for it.
std::string WakeCommand(const TableMount& mount) {
  if (mount.fs_type.starts_with("fuse")) {
    return fmt::format("echo 1 > /sys/fs/fuse/connections/{}/abort", minor(mount.device));
  }
  return fmt::format("umount -f {}", ShellQuote(mount.target));
}

std::string Where(const TableMount& mount, pid_t pid) {
  return pid == 0 ? Quote(mount.target) : fmt::format("{} in the namespace of process {}", Quote(mount.target), pid);
}

}  // namespace

std::vector<int> AskMounts(const std::vector<std::string>& paths, std::chrono::milliseconds patience) {
  std::vector<int> answers;
  while (answers.size() < paths.size()) {
    const std::vector<int> more = AskFrom(paths, answers.size(), patience);
    answers.insert(answers.end(), more.begin(), more.end());
    if (answers.size() < paths.size()) answers.push_back(kHangs);
  }
  return answers;
}

Findings FindBroken(const TableMount& mount, int answer, pid_t pid) {
  if (answer == kHangs) {
    return {{"hung-mount",
             Severity::kProblem,
             fmt::format("the {} filesystem mounted at {} does not answer: whoever touches it waits", mount.fs_type,
                         Where(mount, pid)),
             {WakeCommand(mount), UmountCommand(mount.target, pid)}}};
  }
  if (!MeansBroken(answer)) return {};
  return {{"broken-mount",
           Severity::kProblem,
           fmt::format("the {} mount at {} is broken ({}): its filesystem was shut down or its server is gone. Take it "
                       "down, then mount it again or publish the volume again",
                       mount.fs_type, Where(mount, pid), std::generic_category().message(answer)),
           {UmountCommand(mount.target, pid)}}};
}

}  // namespace mooring::cli::doctor_area

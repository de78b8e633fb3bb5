#include "tests/support/user_namespace_task.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/file/unique_fd.h"
#include "tests/support/kernel.h"

namespace mooring::testing {
namespace {

void WriteTo(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size())) << path;
}

}  // namespace

UserNamespaceTask::UserNamespaceTask(const std::function<int()>& work, const std::string& directory) {
  std::array<int, 2> made = {}, mapped = {};
  EXPECT_EQ(::pipe2(made.data(), O_CLOEXEC) + ::pipe2(mapped.data(), O_CLOEXEC), 0);
  pid_ = ::fork();
  if (pid_ == 0) {
    if (!directory.empty() && ::chdir(directory.c_str()) != 0) ::_exit(97);
    char go = ::unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
    if (::write(made[1], &go, 1) != 1 || ::read(mapped[0], &go, 1) != 1) ::_exit(99);
    if (::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0) ::_exit(98);
    if (!work) ::pause();
    ::_exit(work());
  }
  char go = 0;
  EXPECT_TRUE(::read(made[0], &go, 1) == 1 && go == 'y');
  for (const char* file : {"uid_map", "gid_map"}) WriteTo(fmt::format("/proc/{}/{}", pid_, file), "0 100000 65536");
  EXPECT_EQ(::write(mapped[1], "y", 1), 1);
  for (const int fd : {made[0], made[1], mapped[0], mapped[1]}) ::close(fd);
}

UserNamespaceTask::~UserNamespaceTask() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

int UserNamespaceTask::Wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 96;
}

std::string UserNamespaceTask::Namespace() const { return fmt::format("/proc/{}/ns/user", pid_); }

int WriteAsTask(const std::string& directory) {
  const auto work = [] {
    struct stat status = {};
    if (::stat(".", &status) != 0) return 1;
    if (status.st_uid != 0 || status.st_gid != 0) return 2;
    if (TryWrite("file", "of the task") != 0) return 3;
    return ::stat("file", &status) == 0 && status.st_uid == 0 ? 0 : 4;
  };
  return UserNamespaceTask(work, directory).Wait();
}

std::string OwnerAt(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return fmt::format("{}:{}", status.st_uid, status.st_gid);
}

}  // namespace mooring::testing

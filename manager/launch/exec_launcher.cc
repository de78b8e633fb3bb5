#include "manager/launch/exec_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/child.h"
#include "base/file/private_file.h"
#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/launch/launcher.h"
#include "manager/launch/plugin_process.h"
#include "manager/launch/process_log.h"

namespace mooring::manager {
namespace {

constexpr int kLink = 3;

// Between fork and execve only the calls of signal-safety(7) are allowed: another thread may have held a lock.

void DefaultSignals() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &action, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Sets up descriptors 0, 1, 2 and kLink, and closes all others. Otherwise children that are forked at the same time
// would keep each other's links open.
bool ArrangeDescriptors(int output, int link) {
  constexpr int kAboveAll = 10;  // so that no dup3 below closes a descriptor that is still needed
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const std::array<int, kLink + 1> wanted = {null, output, output, link};
  std::array<int, kLink + 1> moved{};
  for (std::size_t i = 0; i < wanted.size(); ++i) moved[i] = ::fcntl(wanted[i], F_DUPFD_CLOEXEC, kAboveAll);
  for (int i = 0; i <= kLink; ++i) {
    if (::dup3(moved[static_cast<std::size_t>(i)], i, i == kLink ? O_CLOEXEC : 0) < 0) return false;
  }
  return ::close_range(kLink + 1, ~0U, 0) == 0;
}

[[noreturn]] void BecomeProgram(const char* path, char* const* arguments, char* const* environment, int output,
                                int link) {
  constexpr int kNeverBegan = 127;
  DefaultSignals();
  ::setsid();
  ::umask(S_IWGRP | S_IWOTH);
  if (::chdir("/") != 0 || !ArrangeDescriptors(output, link)) ::_exit(kNeverBegan);
  char byte = 0;
  if (::read(kLink, &byte, 1) != 1) ::_exit(kNeverBegan);
  ::execve(path, arguments, environment);
  const int error = errno;
  ::send(kLink, &error, sizeof error, MSG_NOSIGNAL);
  ::_exit(kNeverBegan);
}

constexpr char kDefaultPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::string LogPath(const LaunchSpec& spec) { return spec.socket_directory + "/log"; }
std::string IdentityPath(const LaunchSpec& spec) { return spec.socket_directory + "/process"; }

std::string Path() {
  const char* path = std::getenv("PATH");
  return path == nullptr || *path == '\0' ? kDefaultPath : path;
}

// The program is looked up before the fork, so that a wrong name is reported before anything is started.
absl::StatusOr<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (name.front() == '/' && ::access(name.c_str(), X_OK) == 0) return name;
    return InvalidArgument("{} is not an executable file: give a name in PATH, or a full path", Quote(name));
  }
  std::istringstream directories(Path());
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string path = fmt::format("{}/{}", directory, name);
    if (directory.starts_with('/') && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return InvalidArgument("program {} is not in PATH ({})", Quote(name), Path());
}

// The manager's own settings, its sockets and NOTIFY_SOCKET are left out.
std::vector<std::string> EnvironmentFor(const LaunchSpec& spec) {
  StringMap environment = {{"PATH", Path()}};
  for (const char* name : {"HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  environment[kMountRootVariable] = spec.root;
  for (const auto& [name, value] : spec.run.environment) environment[name] = value;
  environment["CSI_ENDPOINT"] = EndpointOf(spec.socket_directory + "/csi.sock");
  std::vector<std::string> lines;
  lines.reserve(environment.size());
  for (const auto& [name, value] : environment) lines.push_back(fmt::format("{}={}", name, value));
  return lines;
}

absl::Status Remember(const LaunchSpec& spec, const ProcessIdentity& identity) {
  return WritePrivateFile(IdentityPath(spec),
                          fmt::format("{} {} {}\n", identity.pid, identity.start_time, identity.boot),
                          Outlives::kTheProcess);
}

absl::StatusOr<ProcessIdentity> Recall(const LaunchSpec& spec) {
  const absl::StatusOr<std::string> text = ReadWholeFile(IdentityPath(spec));
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  ProcessIdentity identity;
  std::istringstream file(text.value_or(""));
  file >> identity.pid >> identity.start_time >> identity.boot;
  if (!file) return NotFound("no process was started for instance {}", Quote(spec.instance_id));
  return identity;
}

}  // namespace

HeldChild::HeldChild(pid_t pid, UniqueFd link) : pid_(pid), link_(std::move(link)) {}

HeldChild::~HeldChild() {
  if (!link_.ok()) return;
  link_.reset();
  AwaitChild(pid_);
}

absl::StatusOr<HeldChild> HeldChild::Fork(const ProgramSpec& program) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return ErrnoStatus(errno, "make a socket pair for", program.path);
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const std::vector<char*> arguments = PointersTo(program.arguments);
  const std::vector<char*> environment = PointersTo(program.environment);

  sigset_t all;  // the manager's signal handlers must not run in the child
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) {
    BecomeProgram(program.path.c_str(), arguments.data(), environment.data(), program.output, theirs.get());
  }
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return ErrnoStatus(error, "fork a process for", program.path);
  return HeldChild(pid, std::move(ours));
}

absl::Status HeldChild::Release() {
  if (::send(link_.get(), "g", 1, MSG_NOSIGNAL) != 1)
    return ErrnoStatus(errno, "release the child process of a plugin");
  int error = 0;
  ssize_t size = 0;
  do {
    size = ::read(link_.get(), &error, sizeof error);
  } while (size < 0 && errno == EINTR);
  if (size == sizeof error) return ErrnoStatus(error, "execute the program");
  link_.reset();  // execve closed the other end
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Launched>> ExecLauncher::Launch(const LaunchSpec& spec, Clock::time_point /*until*/) {
  if (spec.run.command.empty()) return InvalidArgument("no program is given for plugin " + Quote(spec.plugin));
  MOORING_ASSIGN_OR_RETURN(const std::string program, FindProgram(spec.run.command.front()));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd log, OpenProcessLog(LogPath(spec)));
  MOORING_ASSIGN_OR_RETURN(HeldChild child,
                           HeldChild::Fork({program, spec.run.command, EnvironmentFor(spec), log.get()}));
  MOORING_ASSIGN_OR_RETURN(const ProcessIdentity identity, IdentityOf(child.pid()));
  MOORING_RETURN_IF_ERROR(Remember(spec, identity));
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<PluginProcess> process,
                           PluginProcess::Open(identity, spec.socket_directory));
  if (const absl::Status released = child.Release(); !released.ok()) return Annotate(released, Quote(program));
  return process;
}

absl::StatusOr<std::unique_ptr<Launched>> ExecLauncher::Adopt(const LaunchSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const ProcessIdentity identity, Recall(spec));
  absl::StatusOr<std::unique_ptr<PluginProcess>> process = PluginProcess::Open(identity, spec.socket_directory);
  if (absl::IsNotFound(process.status())) KillServerLeft(spec.socket_directory + "/csi.sock");
  MOORING_RETURN_IF_ERROR(process.status());
  if (!(*process)->IsAlive()) return NotFound("{} has ended", (*process)->Handle());
  return *std::move(process);
}

absl::Status ExecLauncher::EndStrays(const std::string& /*engine*/, Clock::time_point /*until*/,
                                     std::stop_token /*stop*/) {
  return absl::OkStatus();
}

}  // namespace mooring::manager

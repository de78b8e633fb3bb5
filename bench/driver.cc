#include "bench/driver.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_replace.h"
#include "base/file/unique_fd.h"
#include "bench/plugin_client.h"

namespace mooring::bench {
namespace {

void End(pid_t driver) {
  ::kill(driver, SIGTERM);
  ::waitpid(driver, nullptr, 0);
}

// Polls the socket, because gRPC waits a second before it connects again.
void AwaitSocket(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  for (int attempt = 0; attempt < 100000; ++attempt) {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  Check(false, "wait for " + path);
}

// Adds the memory of a process and its descendants, from smaps_rollup, proc(5).
void AddMemory(const std::string& pid, Memory& memory) {
  std::ifstream rollup("/proc/" + pid + "/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (line.starts_with("Rss:")) memory.resident_mib += std::atof(line.c_str() + 4) / 1024;
    if (line.starts_with("Pss:")) memory.proportional_mib += std::atof(line.c_str() + 4) / 1024;
  }
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + pid + "/task")) {
    std::ifstream children(thread.path() / "children");
    for (std::string child; children >> child;) AddMemory(child, memory);
  }
}

// gRPC may have threads, so only async-signal-safe calls follow the fork, signal-safety(7). The driver is killed when
// the thread that calls this function ends, prctl(2) PR_SET_PDEATHSIG; that is the main thread.
pid_t Start(const Command& command, const std::string& directory) {
  Command texts;
  for (const std::string& text : command) texts.push_back(absl::StrReplaceAll(text, {{"{}", directory}}));
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  const pid_t bench = ::getpid();
  const pid_t pid = ::fork();
  Check(pid >= 0, "fork");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == bench) ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

std::string MakeDirectory(const std::string& path) {
  Check(::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST, path);
  return path;
}

void EnterMountNamespace() {
  Check(::unshare(CLONE_NEWNS) == 0, "make a mount namespace (root?)");
  Check(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make the mounts private");
}

}  // namespace

void Check(bool ok, std::string_view what) {
  if (!ok) throw std::system_error(errno, std::generic_category(), std::string(what));
}

Command PluginCommand(const std::string& plugin) {
  return {plugin, "--endpoint=unix://{}/csi.sock", "--state-dir={}/state", "--mount-root={}", "--log-level=warning"};
}

Driver::Driver(const std::string& directory, const Command& command) : Driver(directory, directory + "/csi.sock") {
  EnterMountNamespace();
  pid_ = Start(command, directory);
  AwaitSocket(socket_);
}

Driver::Driver(std::string directory, std::string socket)
    : directory_(MakeDirectory(directory)), socket_(std::move(socket)) {
  for (const char* sub : {"staging", "targets"}) MakeDirectory(*this / sub);
}

Driver::~Driver() {
  if (pid_ > 0) End(pid_);
}

Memory Driver::IdleMemory() const {
  std::this_thread::sleep_for(std::chrono::seconds(2));
  Memory memory;
  AddMemory(std::to_string(pid_), memory);
  return memory;
}

std::chrono::nanoseconds TimeToFirstAnswer(const std::string& directory, const Command& command) {
  MakeDirectory(directory);
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = Start(command, directory);
  AwaitSocket(directory + "/csi.sock");
  PluginClient(directory + "/csi.sock").Probe();
  const auto took = std::chrono::steady_clock::now() - start;
  End(pid);
  return took;
}

void OtherMounts::FillTo(int count) {
  if (filled_ == 0 && count > 0)
    Check(::mount("none", MakeDirectory(directory_).c_str(), "tmpfs", 0, nullptr) == 0, "mount a tmpfs");
  const std::string source = std::filesystem::path(directory_).parent_path();
  for (; filled_ < count; ++filled_) {
    const std::string place = MakeDirectory(fmt::format("{}/{}", directory_, filled_));
    Check(::mount(source.c_str(), place.c_str(), nullptr, MS_BIND, nullptr) == 0, place);
  }
}

}  // namespace mooring::bench

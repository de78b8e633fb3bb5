#include "bench/plugin_under_test.h"

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

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file/unique_fd.h"
#include "bench/plugin_client.h"

namespace mooring::bench {
namespace {

void End(pid_t plugin) {
  ::kill(plugin, SIGTERM);
  ::waitpid(plugin, nullptr, 0);
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

}  // namespace

void Check(bool ok, std::string_view what) {
  if (!ok) throw std::system_error(errno, std::generic_category(), std::string(what));
}

PluginUnderTest::PluginUnderTest(const std::string& plugin, std::string directory) : directory_(std::move(directory)) {
  Check(::unshare(CLONE_NEWNS) == 0, "make a mount namespace (root?)");
  Check(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make the mounts private");
  for (const char* sub : {"state", "fill", "staging", "targets"}) Check(::mkdir((*this / sub).c_str(), 0700) == 0, sub);
  plugin_ = StartPlugin(plugin, socket(), *this / "state");
}

// gRPC may have threads, so only async-signal-safe calls follow the fork, signal-safety(7). The plugin is killed when
// the thread that calls this function ends, prctl(2) PR_SET_PDEATHSIG; that is the main thread.
pid_t PluginUnderTest::StartPlugin(const std::string& plugin, const std::string& socket, const std::string& state_dir) {
  std::array<std::string, 5> texts = {plugin, "--endpoint=unix://" + socket, "--state-dir=" + state_dir,
                                      "--mount-root=" + std::filesystem::path(state_dir).parent_path().string(),
                                      "--log-level=warning"};
  std::array<char*, 6> arguments = {texts[0].data(), texts[1].data(), texts[2].data(),
                                    texts[3].data(), texts[4].data(), nullptr};
  const pid_t bench = ::getpid();
  const pid_t pid = ::fork();
  Check(pid >= 0, "fork");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == bench) ::execv(plugin.c_str(), arguments.data());
  ::_exit(127);
}

PluginUnderTest::~PluginUnderTest() { End(plugin_); }

Memory PluginUnderTest::IdleMemory() const {
  AwaitSocket(socket());
  std::this_thread::sleep_for(std::chrono::seconds(2));
  Memory memory;
  AddMemory(std::to_string(plugin_), memory);
  return memory;
}

std::chrono::nanoseconds PluginUnderTest::TimeToFirstAnswer(const std::string& plugin) const {
  const std::string directory = *this / "start";
  Check(::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST, directory);
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = StartPlugin(plugin, directory + "/csi.sock", directory + "/state");
  AwaitSocket(directory + "/csi.sock");
  PluginClient(directory + "/csi.sock").Probe();
  const auto took = std::chrono::steady_clock::now() - start;
  End(pid);
  return took;
}

void PluginUnderTest::FillTo(int count) {
  if (filled_ == 0 && count > 0)
    Check(::mount("none", (*this / "fill").c_str(), "tmpfs", 0, nullptr) == 0, "mount a tmpfs");
  const std::string source = *this / "staging";
  for (; filled_ < count; ++filled_) {
    const std::string place = *this / fmt::format("fill/{}", filled_);
    Check(::mkdir(place.c_str(), 0700) == 0, place);
    Check(::mount(source.c_str(), place.c_str(), nullptr, MS_BIND, nullptr) == 0, place);
  }
}

}  // namespace mooring::bench

#include "bench/surroundings.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace mooring::bench {

void Check(bool ok, std::string_view what) {
  if (!ok) throw std::system_error(errno, std::generic_category(), std::string(what));
}

Surroundings::Surroundings(const std::string& plugin, std::string directory) : directory_(std::move(directory)) {
  Check(::unshare(CLONE_NEWNS) == 0, "make a mount namespace (root?)");
  Check(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make the mounts private");
  for (const char* sub : {"state", "fill", "staging", "targets"}) Check(::mkdir((*this / sub).c_str(), 0700) == 0, sub);
  StartPlugin(plugin);
}

// Before there is any other thread: so it may fork, and it is this process whose end the plugin does not survive.
void Surroundings::StartPlugin(const std::string& plugin) {
  std::array<std::string, 4> texts = {plugin, "--endpoint=unix://" + socket(), "--state-dir=" + (*this / "state"),
                                      "--log-level=warning"};
  std::array<char*, 5> arguments = {texts[0].data(), texts[1].data(), texts[2].data(), texts[3].data(), nullptr};
  const pid_t bench = ::getpid();
  plugin_ = ::fork();
  Check(plugin_ >= 0, "fork");
  if (plugin_ > 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == bench) ::execv(plugin.c_str(), arguments.data());
  ::_exit(127);
}

Surroundings::~Surroundings() {
  ::kill(plugin_, SIGTERM);
  ::waitpid(plugin_, nullptr, 0);
}

void Surroundings::FillTo(int count) {
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

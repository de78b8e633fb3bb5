#include "bench/surroundings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace mooring::bench {
namespace {

void Check(bool ok, const std::string& what) {
  if (!ok) throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

Surroundings::Surroundings(const std::string& plugin) {
  Check(::unshare(CLONE_NEWNS) == 0, "make a mount namespace (root?)");
  Check(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make the mounts private");
  std::string name =
      (std::filesystem::canonical(std::filesystem::temp_directory_path()) / "mooring-bench-XXXXXX").string();
  Check(::mkdtemp(name.data()) != nullptr, "make a directory");
  directory_ = name;
  for (const char* sub : {"state", "fill", "staging", "targets"}) Check(::mkdir((*this / sub).c_str(), 0700) == 0, sub);
  StartPlugin(plugin);
}

void Surroundings::StartPlugin(const std::string& plugin) {
  std::array<std::string, 4> texts = {plugin, "--endpoint=unix://" + socket(), "--state-dir=" + (*this / "state"),
                                      "--log-level=warning"};
  std::array<char*, 5> arguments = {texts[0].data(), texts[1].data(), texts[2].data(), texts[3].data(), nullptr};
  errno = ::posix_spawn(&plugin_, plugin.c_str(), nullptr, nullptr, arguments.data(), environ);
  Check(errno == 0, "start " + plugin);
}

Surroundings::~Surroundings() {
  if (plugin_ > 0) {
    ::kill(plugin_, SIGTERM);
    ::waitpid(plugin_, nullptr, 0);
  }
  for (int i = 0; i < filled_; ++i) ::umount((*this / fmt::format("fill/{}", i)).c_str());
  ::umount((*this / "fill").c_str());
  std::error_code ignored;
  // Nothing is mounted below it any more, or remove_all stops at the first busy directory.
  if (::rmdir((*this / "targets").c_str()) == 0) std::filesystem::remove_all(directory_, ignored);
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

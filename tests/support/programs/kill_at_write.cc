// Preloaded into a program: it ends by SIGKILL before its KILL_AT-th write to a file. (Its output counts, too.)
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace {

void CountDown() {
  static long left = std::strtol(std::getenv("KILL_AT"), nullptr, 10);
  if (--left == 0) ::raise(SIGKILL);
}

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* bytes, size_t count) {
  CountDown();
  static const auto next = Next<ssize_t (*)(int, const void*, size_t)>("write");
  return next(fd, bytes, count);
}

ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t offset) {
  CountDown();
  static const auto next = Next<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  return next(fd, bytes, count, offset);
}

}  // extern "C"

// Preloaded into a program by `without statx-unique-ids`: statx(2) as before Linux 6.8.
#include <dlfcn.h>
#include <sys/stat.h>

extern "C" int statx(int directory, const char* path, int flags, unsigned mask, struct statx* answer) {
  constexpr unsigned kMntIdUnique = 0x4000;
  using Statx = int (*)(int, const char*, int, unsigned, struct statx*);
  static const auto next = reinterpret_cast<Statx>(::dlsym(RTLD_NEXT, "statx"));
  return next(directory, path, flags, mask & ~kMntIdUnique, answer);
}

// Preloaded into a program: statx(2) as it was. $STATX_LACKS is "statx-unique-ids" (before Linux 6.8) or
// "statx-mount-ids" (before 5.8).
#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr unsigned kMntId = 0x1000, kMntIdUnique = 0x4000;
constexpr std::uint64_t kAttrMountRoot = 0x2000;

bool LacksMountIds() {
  static const char* lacks = std::getenv("STATX_LACKS");
  return lacks != nullptr && std::strcmp(lacks, "statx-mount-ids") == 0;
}

}  // namespace

extern "C" int statx(int directory, const char* path, int flags, unsigned mask, struct statx* answer) {
  using Statx = int (*)(int, const char*, int, unsigned, struct statx*);
  static const auto next = reinterpret_cast<Statx>(::dlsym(RTLD_NEXT, "statx"));
  const int result = next(directory, path, flags, mask & ~kMntIdUnique, answer);
  if (result != 0 || !LacksMountIds()) return result;
  answer->stx_mask &= ~kMntId;
  answer->stx_attributes &= ~kAttrMountRoot;
  answer->stx_attributes_mask &= ~kAttrMountRoot;
  answer->stx_mnt_id = 0;
  return result;
}

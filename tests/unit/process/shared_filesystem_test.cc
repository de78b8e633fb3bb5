#include <sys/sysmacros.h>

#include "plugin/process/shared_pools.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

constexpr char kNfs4[] =
    "85 1 0:52 / /mnt/a rw,relatime shared:1 - nfs4 server:/a rw,vers=4.2,local_lock=none,addr=::1\n";
constexpr char kFlock[] = "86 1 0:53 / /mnt/b rw,relatime - nfs4 server:/b rw,vers=4.2,local_lock=flock\n";
constexpr char kNoLock[] = "87 1 0:54 / /mnt/c rw,relatime - nfs server:/c rw,vers=3,nolock,local_lock=all\n";
constexpr char kPosix[] = "88 1 0:55 / /mnt/d rw,relatime - nfs server:/d rw,vers=3,local_lock=posix\n";
constexpr char kGfs2[] = "89 1 8:16 / /mnt/e rw,relatime - gfs2 /dev/sdb rw,localflocks\n";

TEST(SharedFilesystem, IsRefusedIfItsLocksStayOnTheHost) {
  const std::string mounts = std::string(kNfs4) + kFlock + kNoLock + kPosix + kGfs2;
  const std::tuple<dev_t, const char*> rows[] = {{makedev(0, 52), ""},
                                                 {makedev(0, 53), ""},
                                                 {makedev(0, 54), "the option nolock"},
                                                 {makedev(0, 55), "the option local_lock=posix"},
                                                 {makedev(8, 16), "the option localflocks"},
                                                 {makedev(0, 5), ""}};
  for (const auto& [device, piece] : rows) {
    const absl::Status status = CheckLocksReachOthers(mounts, device, "/mnt/pool");
    if (*piece == '\0') {
      EXPECT_OK(status) << minor(device);
    } else {
      EXPECT_THAT(status, FailsWith(StatusCode::kFailedPrecondition, piece));
    }
  }
}

}  // namespace
}  // namespace mooring::testing

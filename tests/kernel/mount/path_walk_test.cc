// The walk that stands in for openat2(2), against it.
#include "mounter/path/path_walk.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

UniqueFd ByOpenAt2(const std::string& path, int flags) {
  open_how how = {};
  how.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof(how))));
}

// What was opened, or what errno says.
std::string Outcome(const UniqueFd& fd) {
  if (!fd.ok()) return std::string("error ") + std::to_string(errno);
  struct stat status = {};
  EXPECT_EQ(::fstat(fd.get(), &status), 0);
  return std::to_string(status.st_dev) + " " + std::to_string(status.st_ino);
}

class PathWalkTest : public KernelTest {
 protected:
  void SetUp() override {
    if (!ByOpenAt2("/", O_PATH).ok()) GTEST_SKIP() << "there is no openat2 here to compare with";
    Dir("directory/below");
    File("file", "text");
    EXPECT_EQ(::symlink(Path("directory").c_str(), Path("link").c_str()), 0);
    EXPECT_EQ(::symlink(Path("file").c_str(), Path("directory/link-to-file").c_str()), 0);
    EXPECT_EQ(::symlink(Path("nowhere").c_str(), Path("dangling").c_str()), 0);
    PrivateMount("directory/mounted/below");
  }
};

TEST_F(PathWalkTest, OpensAndRefusesWhatOpenAt2DoesWithTheSameErrors) {
  const UniqueFd open(::open(dir_.path().c_str(), O_PATH | O_CLOEXEC));
  const std::string fd = "/proc/self/fd/" + std::to_string(open.get());
  for (const std::string& path : {std::string("/"),
                                  dir_.path(),
                                  Path("directory"),
                                  Path("directory/below"),
                                  Path("directory//below/"),
                                  Path("file"),
                                  Path("missing"),
                                  Path("missing/below"),
                                  Path("file/below"),
                                  Path("link"),
                                  Path("link/below"),
                                  Path("directory/link-to-file"),
                                  Path("dangling"),
                                  Path("dangling/below"),
                                  Path("directory/mounted/below"),
                                  std::string("/proc/self/exe"),
                                  std::string("/proc/self/cwd"),
                                  fd,
                                  fd + "/directory",
                                  Path(std::string(300, 'x'))}) {
    for (const int flags : {O_PATH, O_PATH | O_DIRECTORY, O_RDONLY | O_NONBLOCK, O_RDONLY | O_DIRECTORY}) {
      SCOPED_TRACE(path + " with flags " + std::to_string(flags));
      EXPECT_EQ(Outcome(WalkNoSymlinks(AT_FDCWD, path, flags)), Outcome(ByOpenAt2(path, flags)));
    }
  }
}

TEST_F(PathWalkTest, BelowADirectory) {
  const UniqueFd directory(::open(Path("directory").c_str(), O_PATH | O_CLOEXEC));
  EXPECT_EQ(Outcome(WalkNoSymlinks(directory.get(), "below", O_RDONLY)),
            Outcome(ByOpenAt2(Path("directory/below"), 0)));
  EXPECT_FALSE(WalkNoSymlinks(directory.get(), "link-to-file", O_RDONLY).ok());
  EXPECT_EQ(errno, ELOOP);
}

TEST_F(PathWalkTest, NeverGoesUp) {
  for (const std::string& path : {Path("directory/.."), Path("directory/../file")}) {
    EXPECT_FALSE(WalkNoSymlinks(AT_FDCWD, path, O_PATH).ok());
    EXPECT_EQ(errno, EINVAL);
  }
}

}  // namespace
}  // namespace mooring::testing

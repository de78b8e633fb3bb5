// Removes directories with hostile contents.
#include <sys/sysmacros.h>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

class RemoveTreeTest : public KernelTest {};

TEST_F(RemoveTreeTest, RemovesAllKindsOfFilesAndAcceptsAMissingTree) {
  Dir("v/a/b/c");
  File("v/a/b/file", "x");
  File("v/a/read-only", "x");
  ASSERT_EQ(Tool("cd " + Path("v") + " && mkfifo a/p && mknod a/null c 1 3 && mkdir -m 1777 a/t && touch a/t/f && " +
                 "chown -R 1234:1234 a && chmod 000 a/b && chmod 0444 a/read-only"),
            0);
  EXPECT_OK(mounter_.RemoveTree(Path("v")));
  EXPECT_FALSE(Exists(Path("v")));
  EXPECT_OK(mounter_.RemoveTree(Path("v")));
  EXPECT_OK(mounter_.RemoveTree(Path("no/parent")));
}

TEST_F(RemoveTreeTest, LinksAreRemovedAndNotFollowed) {
  Dir("v/a");
  Dir("outside");
  File("outside/kept", "x");
  std::filesystem::create_directory_symlink(Path("outside"), Path("v/a/link"));
  std::filesystem::create_symlink(Path("outside/kept"), Path("v/file"));
  EXPECT_OK(mounter_.RemoveTree(Path("v")));
  EXPECT_EQ(ReadFile(Path("outside/kept")), "x");
  std::filesystem::create_directory_symlink(Path("outside"), Path("alias"));
  EXPECT_FALSE(mounter_.RemoveTree(Path("alias")).ok());
  EXPECT_FALSE(mounter_.RemoveTree(Path("outside/kept")).ok());
  EXPECT_THAT(mounter_.RemoveTree(Path("alias/kept")), Refused("symbolic link"));
  EXPECT_EQ(ReadFile(Path("outside/kept")), "x");
}

TEST_F(RemoveTreeTest, NothingIsRemovedBelowAMount) {
  Dir("v/a/m");
  File("v/first", "x");
  Dir("outside");
  File("outside/kept", "x");
  ASSERT_EQ(::mount(Path("outside").c_str(), Path("v/a/m").c_str(), nullptr, MS_BIND, nullptr), 0);
  EXPECT_THAT(mounter_.RemoveTree(Path("v")), Refused(Path("v/a/m")));
  EXPECT_TRUE(Exists(Path("v/first")));
  EXPECT_EQ(ReadFile(Path("outside/kept")), "x");
  ASSERT_EQ(::umount(Path("v/a/m").c_str()), 0);
  EXPECT_OK(mounter_.RemoveTree(Path("v")));
}

// Deeper than PATH_MAX, and deeper than one descent of RemoveTree.
TEST_F(RemoveTreeTest, RemovesDeepTrees) {
  Dir("v/deep-0/x");  // a name that is taken
  UniqueFd at(::open(Path("v").c_str(), O_PATH | O_DIRECTORY));
  for (int depth = 0; depth < 400; ++depth) {
    ASSERT_EQ(::mkdirat(at.get(), "d", 0700), 0);
    ASSERT_EQ(::mkdirat(at.get(), "e", 0700), 0);
    at.reset(::openat(at.get(), "d", O_PATH | O_DIRECTORY));
  }
  at.reset();
  EXPECT_OK(mounter_.RemoveTree(Path("v")));
  EXPECT_FALSE(Exists(Path("v")));
}

TEST_F(RemoveTreeTest, ManyEntriesInOneDirectory) {
  ASSERT_EQ(Tool("mkdir " + Path("v") + " && cd " + Path("v") + " && seq 9000 | xargs touch"), 0);
  EXPECT_OK(mounter_.RemoveTree(Path("v")));
  EXPECT_FALSE(Exists(Path("v")));
}

// A task exchanges a directory with a link to another one during the removal.
TEST_F(RemoveTreeTest, SwappedDirectoriesAreNotFollowed) {
  Dir("outside/a");
  File("outside/a/kept", "x");
  for (int round = 0; round < 30; ++round) {
    Dir("v/a/b");
    for (int i = 0; i < 50; ++i) File("v/a/" + std::to_string(i), "x");
    std::filesystem::create_directory_symlink(Path("outside"), Path("v/link"));
    std::atomic<bool> stop{false};
    std::thread swapper([&] {
      while (!stop) {
        ::renameat2(AT_FDCWD, Path("v/a").c_str(), AT_FDCWD, Path("v/link").c_str(), RENAME_EXCHANGE);
      }
    });
    const absl::Status removed = mounter_.RemoveTree(Path("v"));
    stop = true;
    swapper.join();
    ASSERT_TRUE(removed.ok()) << removed;
    ASSERT_EQ(ReadFile(Path("outside/a/kept")), "x");
  }
}

}  // namespace
}  // namespace mooring::testing

// Copies directories with all kinds of contents, also hostile ones.
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <thread>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

class CopyTreeTest : public KernelTest {
 protected:
  absl::Status Copy() { return mounter_.CopyTree(Path("v"), Path("copy")); }
  // All that `tar` keeps of a tree.
  std::string Described(const std::string& tree) {
    EXPECT_EQ(
        Tool("cd " + Path(tree) + " && find . -printf '%y %m %U:%G %n %T@ %s %l %p\\n' | sort -k8 >" + Path("list")),
        0);
    return ReadFile(Path("list"));
  }
  static std::string MarkOf(const std::string& path) {
    char mark[16] = {};
    return ::getxattr(path.c_str(), "user.mark", mark, sizeof mark - 1) < 0 ? "" : mark;
  }
};

TEST_F(CopyTreeTest, TheCopyHasAllThatTheSourceHas) {
  Dir("v/a/empty");
  File("v/a/file", "text");
  ASSERT_EQ(Tool("cd " + Path("v") + " && ln a/file a/same && ln -s ../a/file link && ln -s /etc/passwd outside && " +
                 "mkfifo a/pipe && truncate -s 64M sparse && printf x | dd of=sparse bs=1 seek=1M conv=notrunc "
                 "2>/dev/null && " +
                 "chown -R 1234:2345 a && chmod 2751 a && chmod 4600 a/file && " +
                 "touch -d '2001-02-03 04:05:06' a/file a && chown 4711:4712 . && chmod 1770 . && " +
                 "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un(\"s\")) or exit 1'"),
            0);
  const bool has_marks = ::setxattr(Path("v/a/file").c_str(), "user.mark", "here", 4, 0) == 0;
  EXPECT_OK(Copy());
  EXPECT_EQ(Described("copy"), Described("v"));
  EXPECT_EQ(Tool("cmp " + Path("v/sparse") + " " + Path("copy/sparse")), 0);
  EXPECT_LT(StatOf(Path("copy/sparse")).st_blocks, 1024) << "the hole is filled";
  EXPECT_EQ(MarkOf(Path("copy/a/file")), has_marks ? "here" : "");
  EXPECT_THAT(MountsBelow(Path("copy")), ::testing::IsEmpty());
}

TEST_F(CopyTreeTest, ItIsRefusedForASourceThatIsMissingAndForATargetThatExists) {
  EXPECT_TRUE(absl::IsNotFound(Copy())) << Copy();
  EXPECT_FALSE(Exists(Path("copy")));
  Dir("v");
  Dir("copy");
  File("copy/kept", "x");
  EXPECT_TRUE(absl::IsAlreadyExists(Copy())) << Copy();
  EXPECT_EQ(ReadFile(Path("copy/kept")), "x");
}

TEST_F(CopyTreeTest, LinksAreNotFollowed) {
  Dir("outside");
  File("outside/secret", "x");
  std::filesystem::create_directory_symlink(Path("outside"), Path("v"));
  EXPECT_FALSE(Copy().ok());
  EXPECT_FALSE(Exists(Path("copy")));
  ASSERT_EQ(::unlink(Path("v").c_str()), 0);
  Dir("v");
  std::filesystem::create_directory_symlink(Path("outside"), Path("alias"));
  EXPECT_THAT(mounter_.CopyTree(Path("v"), Path("alias/copy")), Refused("symbolic link"));
  EXPECT_FALSE(Exists(Path("outside/copy")));
}

// A task exchanges a directory with a link to another one while cp is on its way.
TEST_F(CopyTreeTest, NothingOutsideIsCopiedThroughASwappedDirectory) {
  Dir("outside");
  for (int i = 0; i < 50; ++i) File("outside/" + std::to_string(i), "secret");
  Dir("v/a");
  for (int i = 0; i < 50; ++i) File("v/a/" + std::to_string(i), "own");
  std::filesystem::create_directory_symlink(Path("outside"), Path("v/link"));
  std::atomic<bool> stop{false};
  std::thread task([&] {
    while (!stop) ::renameat2(AT_FDCWD, Path("v/a").c_str(), AT_FDCWD, Path("v/link").c_str(), RENAME_EXCHANGE);
  });
  bool has_own = false;
  for (int round = 0; round < 30; ++round) {
    Copy().IgnoreError();
    has_own = has_own || Tool("grep -rqs own " + Path("copy")) == 0;
    EXPECT_NE(Tool("grep -rqs secret " + Path("copy")), 0) << "round " << round;
    EXPECT_OK(mounter_.RemoveTree(Path("copy")));
  }
  stop = true;
  task.join();
  EXPECT_TRUE(has_own) << "no copy came so far";
}

TEST_F(CopyTreeTest, ASubvolumeInsideIsAPartOfTheVolume) {
  Dir("pool");
  const std::string disk = Path("disk");
  ASSERT_EQ(
      Tool("truncate -s 128M " + disk + " && mkfs.btrfs -q " + disk + " && mount -o loop " + disk + " " + Path("pool")),
      0);
  ASSERT_EQ(
      Tool("cd " + Path("pool") + " && mkdir v && btrfs -q subvolume create v/inside && echo data >v/inside/file"), 0);
  EXPECT_OK(mounter_.CopyTree(Path("pool/v"), Path("pool/copy")));
  EXPECT_EQ(ReadFile(Path("pool/copy/inside/file")), "data\n");
  ASSERT_EQ(::umount(Path("pool").c_str()), 0);
}

TEST_F(CopyTreeTest, NothingIsCopiedBesideAMount) {
  Dir("v/m");
  Dir("outside");
  ASSERT_EQ(::mount(Path("outside").c_str(), Path("v/m").c_str(), nullptr, MS_BIND, nullptr), 0);
  EXPECT_THAT(Copy(), Refused(Path("v/m")));
  EXPECT_FALSE(Exists(Path("copy")));
  ASSERT_EQ(::umount(Path("v/m").c_str()), 0);
}

TEST_F(CopyTreeTest, ADeviceNodeIsNotCopied) {
  Dir("v");
  if (::mknod(Path("v/null").c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) GTEST_SKIP() << "no device nodes here";
  EXPECT_THAT(Copy(), Refused("null"));
}

TEST_F(CopyTreeTest, AFullDiskIsNamed) {
  Dir("v");
  Dir("small");
  ASSERT_EQ(::mount("none", Path("small").c_str(), "tmpfs", 0, "size=1m"), 0);
  ASSERT_EQ(Tool("dd if=/dev/urandom of=" + Path("v/file") + " bs=1M count=2 2>/dev/null"), 0);
  const absl::Status full = mounter_.CopyTree(Path("v"), Path("small/copy"));
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_THAT(Message(full), ::testing::HasSubstr(Path("small/copy")));
  ASSERT_EQ(::umount(Path("small").c_str()), 0);
}

}  // namespace
}  // namespace mooring::testing

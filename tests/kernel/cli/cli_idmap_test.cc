// `mooring mount … --idmap`, and X-mount.subdir: what a task in a user namespace sees and writes.
#include <fmt/format.h>

#include <filesystem>

#include "tests/kernel/cli/cli_program.h"
#include "tests/support/user_namespace_task.h"

namespace mooring::testing {
namespace {

using ::testing::AllOf;

class CliIdMapTest : public CliTest {
 protected:
  static constexpr char kMap[] = "--idmap b:0:100000:65536";

  std::string Owner(const std::string& name) const { return OwnerAt(Path(name)); }
};

TEST_F(CliIdMapTest, TaskInAUserNamespaceWritesWithItsOwnIds) {
  const std::string image = Ext4Image("image");
  const Ran ran = Mooring(std::string("mount image image dst --nosuid ") + kMap);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(Owner("dst"), "100000:100000");
  EXPECT_EQ(WriteAsTask(Path("dst")), 0);
  EXPECT_EQ(Owner("dst/file"), "100000:100000");
  EXPECT_TRUE(MountAt(Path("dst"))->Has("idmapped"));
  EXPECT_TRUE(MountAt(Path("dst"))->Has("nosuid"));
  EXPECT_EQ(Mooring("umount dst --remove").status, 0);
  ASSERT_EQ(Mooring("mount image image plain").status, 0);
  EXPECT_EQ(Owner("plain/file"), "0:0");
  EXPECT_EQ(WriteAsTask(Path("plain")), 2);
}

TEST_F(CliIdMapTest, DeviceAndBindWithANamespaceOrAWordOfMount) {
  const std::string device = Losetup(Ext4Image("image"));
  const UserNamespaceTask task;
  ASSERT_EQ(Mooring("mount device " + device + " disk --idmap " + task.Namespace()).status, 0);
  EXPECT_EQ(Owner("disk"), "100000:100000");
  ASSERT_EQ(Mooring("mount device " + device + " plain").status, 0);
  const Ran ran = Mooring("mount bind plain bound --option 'noatime,X-mount.idmap=u:0:100000:10 g:0:200000:10,nosuid'");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(Owner("bound"), "100000:200000");
  EXPECT_THAT(OptionsAt(Path("bound")), ::testing::StartsWith("rw,nosuid,noatime"));
  EXPECT_EQ(Owner("plain"), "0:0");
}

// rshared: where / is shared, the copies in other namespaces keep mounts that are unmounted below an rslave one.
TEST_F(CliIdMapTest, RecursiveBindMapsTheMountsBelow) {
  const std::string device = Losetup(Ext4Image("image"));
  ASSERT_EQ(Mooring("mount device " + device + " plain").status, 0);
  ASSERT_EQ(Mooring("mount device " + device + " plain/lost+found").status, 0);
  ASSERT_EQ(Mooring(std::string("mount bind plain bound --recursive --propagation rshared ") + kMap).status, 0);
  EXPECT_EQ(Owner("bound/lost+found"), "100000:100000");
  EXPECT_THAT(MountsBelow(Path("bound")), SizeIs(2));
  EXPECT_THAT(MountsBelow(Path("plain")), SizeIs(2));
}

TEST_F(CliIdMapTest, BindIntoAnotherNamespaceIsMapped) {
  ASSERT_EQ(Mooring("mount image " + Ext4Image("image") + " plain").status, 0);
  Dir("dst");
  const MountNamespace task(MountNamespace::Kind::kPrivate);
  const Ran ran = Mooring(fmt::format("mount bind plain {} --pid {} {}", Path("dst"), task.pid(), kMap));
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(task.Ask([&] { return Owner("dst"); }), "100000:100000");
}

TEST_F(CliIdMapTest, WhatCannotBeMappedLeavesNothing) {
  PrivateMount("src");
  for (const auto& [arguments, status, message] : {
           std::tuple("src dst --idmap b:0:100000", 2, "write [u|g|b:]DISK:MOUNT:COUNT"),
           std::tuple("src dst --idmap x:0:1:1", 2, "write [u|g|b:]"),
           std::tuple("src dst --idmap b:0:1:0", 2, "write [u|g|b:]"),
           std::tuple("src dst --idmap u:0:100000:5", 2, "it maps users alone"),
           std::tuple("src dst --idmap b:0:-1:5", 2, "write [u|g|b:]"),
           std::tuple("src dst --idmap '0:1:5 3:9:5'", 2, "mappings overlap"),
           std::tuple("src dst --option X-mount.idmap=", 2, "'X-mount.idmap=' has no value"),
           std::tuple("src dst --option 'ro,X-mount.idmap=\"\"'", 2, "has no value"),
           std::tuple("src dst --idmap /proc/self/ns/mnt", 2, "is no user namespace"),
           std::tuple("src dst --idmap /nowhere", 1, "open the user namespace '/nowhere'"),
           std::tuple("src dst --idmap /proc/self/ns/user", 1, "the user namespace is that of this host"),
           std::tuple("/proc dst --idmap b:0:100000:65536", 1, "has no mapped ids on this kernel"),
       }) {
    const Ran ran = Mooring(std::string("mount bind ") + arguments);
    EXPECT_EQ(ran.status, status) << arguments << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(message)) << arguments;
    EXPECT_FALSE(Exists(Path("dst"))) << arguments;
  }
}

TEST_F(CliIdMapTest, SubdirectoryAloneIsMounted) {
  const std::string image = Ext4Image("image");
  ASSERT_EQ(Mooring("mount image image plain").status, 0);
  std::filesystem::create_directories(Path("plain/a/b"));
  File("plain/a/b/file", "text");
  std::filesystem::create_directory_symlink("a", Path("plain/link"));
  EXPECT_EQ(Mooring("umount plain").status, 0);
  const Ran ran = Mooring(std::string("mount image image dst --read-only --option X-mount.subdir=a/b,nodev ") + kMap);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(MountAt(Path("dst"))->root, "/a/b");
  EXPECT_EQ(ReadFile(Path("dst/file")), "text");
  EXPECT_EQ(Owner("dst/file"), "100000:100000");
  EXPECT_TRUE(MountAt(Path("dst"))->Has("ro"));
  EXPECT_EQ(Mooring("umount dst --remove").status, 0);
  EXPECT_TRUE(NoLoopOver(image));
  for (const char* directory : {"none", "link/b", "../a", "/a", "a/b/file"}) {
    const Ran failed = Mooring(fmt::format("mount image image dst --option X-mount.subdir={}", directory));
    EXPECT_EQ(failed.status, 1) << directory;
    EXPECT_THAT(failed.err, HasSubstr(fmt::format("open the directory '{}' in the filesystem", directory)));
    EXPECT_FALSE(Exists(Path("dst")));
    EXPECT_TRUE(NoLoopOver(image));
  }
  EXPECT_THAT(Mooring("mount image image dst --option X-mount.subdir=").err, HasSubstr("has no value"));
  EXPECT_FALSE(Exists(Path("dst")));
  EXPECT_THAT(Mooring("mount bind plain dst --option X-mount.subdir=a").err,
              HasSubstr("'X-mount.subdir' is not allowed"));
}

}  // namespace
}  // namespace mooring::testing

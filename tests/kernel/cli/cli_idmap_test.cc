// `mooring mount … --idmap`, and X-mount.subdir: what a task in a user namespace sees and writes.
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <filesystem>

#include "tests/kernel/cli/cli_program.h"

namespace mooring::testing {
namespace {

using ::testing::AllOf;

void WriteTo(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size())) << path;
}

// A task whose ids from 0 on are those from 100000 on of the host. It is root in its namespace.
class Task {
 public:
  explicit Task(const std::function<int()>& work = {}) {
    std::array<int, 2> made = {}, mapped = {};
    EXPECT_EQ(::pipe2(made.data(), O_CLOEXEC) + ::pipe2(mapped.data(), O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      char go = ::unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
      if (::write(made[1], &go, 1) != 1 || ::read(mapped[0], &go, 1) != 1) ::_exit(99);
      if (::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0) ::_exit(98);
      if (!work) ::pause();
      ::_exit(work());
    }
    char go = 0;
    EXPECT_TRUE(::read(made[0], &go, 1) == 1 && go == 'y');
    for (const char* file : {"uid_map", "gid_map"}) WriteTo(fmt::format("/proc/{}/{}", pid_, file), "0 100000 65536");
    EXPECT_EQ(::write(mapped[1], "y", 1), 1);
    for (const int fd : {made[0], made[1], mapped[0], mapped[1]}) ::close(fd);
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  int Wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 97;
  }
  std::string Namespace() const { return fmt::format("/proc/{}/ns/user", pid_); }

 private:
  pid_t pid_ = -1;
};

class CliIdMapTest : public CliTest {
 protected:
  static constexpr char kMap[] = "--idmap b:0:100000:65536";

  std::string OwnerAt(const std::string& name) const {
    const struct stat status = StatOf(Path(name));
    return fmt::format("{}:{}", status.st_uid, status.st_gid);
  }

  // The task owns the root directory in the mount, and makes a file. It answers the first thing that is wrong.
  int WriteAsTask(const std::string& name) const {
    ::chmod(dir_.path().c_str(), 0755);
    const std::string root = Path(name);
    return Task([root] {
             struct stat status = {};
             if (::stat(root.c_str(), &status) != 0) return 1;
             if (status.st_uid != 0 || status.st_gid != 0) return 2;
             if (TryWrite(root + "/file", "of the task") != 0) return 3;
             return ::stat((root + "/file").c_str(), &status) == 0 && status.st_uid == 0 ? 0 : 4;
           })
        .Wait();
  }
};

TEST_F(CliIdMapTest, TaskInAUserNamespaceWritesWithItsOwnIds) {
  const std::string image = Ext4Image("image");
  const Ran ran = Mooring(std::string("mount image image dst --nosuid ") + kMap);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(OwnerAt("dst"), "100000:100000");
  EXPECT_EQ(WriteAsTask("dst"), 0);
  EXPECT_EQ(OwnerAt("dst/file"), "100000:100000");
  EXPECT_TRUE(MountAt(Path("dst"))->Has("idmapped"));
  EXPECT_TRUE(MountAt(Path("dst"))->Has("nosuid"));
  EXPECT_EQ(Mooring("umount dst --remove").status, 0);
  ASSERT_EQ(Mooring("mount image image plain").status, 0);
  EXPECT_EQ(OwnerAt("plain/file"), "0:0");
  EXPECT_EQ(WriteAsTask("plain"), 2);
}

TEST_F(CliIdMapTest, DeviceAndBindWithANamespaceOrAWordOfMount) {
  const std::string device = Losetup(Ext4Image("image"));
  const Task task;
  ASSERT_EQ(Mooring("mount device " + device + " disk --idmap " + task.Namespace()).status, 0);
  EXPECT_EQ(OwnerAt("disk"), "100000:100000");
  ASSERT_EQ(Mooring("mount device " + device + " plain").status, 0);
  const Ran ran = Mooring("mount bind plain bound --option 'noatime,X-mount.idmap=u:0:100000:10 g:0:200000:10,nosuid'");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(OwnerAt("bound"), "100000:200000");
  EXPECT_THAT(OptionsAt(Path("bound")), ::testing::StartsWith("rw,nosuid,noatime"));
  EXPECT_EQ(OwnerAt("plain"), "0:0");
}

// rshared: where / is shared, the copies in other namespaces keep mounts that are unmounted below an rslave one.
TEST_F(CliIdMapTest, RecursiveBindMapsTheMountsBelow) {
  const std::string device = Losetup(Ext4Image("image"));
  ASSERT_EQ(Mooring("mount device " + device + " plain").status, 0);
  ASSERT_EQ(Mooring("mount device " + device + " plain/lost+found").status, 0);
  ASSERT_EQ(Mooring(std::string("mount bind plain bound --recursive --propagation rshared ") + kMap).status, 0);
  EXPECT_EQ(OwnerAt("bound/lost+found"), "100000:100000");
  EXPECT_THAT(MountsBelow(Path("bound")), SizeIs(2));
  EXPECT_THAT(MountsBelow(Path("plain")), SizeIs(2));
}

TEST_F(CliIdMapTest, BindIntoAnotherNamespaceIsMapped) {
  ASSERT_EQ(Mooring("mount image " + Ext4Image("image") + " plain").status, 0);
  Dir("dst");
  const MountNamespace task(MountNamespace::Kind::kPrivate);
  const Ran ran = Mooring(fmt::format("mount bind plain {} --pid {} {}", Path("dst"), task.pid(), kMap));
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(task.Ask([&] { return OwnerAt("dst"); }), "100000:100000");
}

TEST_F(CliIdMapTest, WhatCannotBeMappedLeavesNothing) {
  PrivateMount("src");
  for (const auto& [arguments, status, message] : {
           std::tuple("src dst --idmap b:0:100000", 2, "write [u|g|b:]DISK:MOUNT:COUNT"),
           std::tuple("src dst --idmap x:0:1:1", 2, "write [u|g|b:]"),
           std::tuple("src dst --idmap b:0:1:0", 2, "write [u|g|b:]"),
           std::tuple("src dst --idmap b:0:-1:5", 2, "write [u|g|b:]"),
           std::tuple("src dst --idmap '0:1:5 3:9:5'", 2, "do mappings overlap"),
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
  EXPECT_EQ(OwnerAt("dst/file"), "100000:100000");
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

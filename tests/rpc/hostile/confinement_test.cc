// What is left to a running plugin, proven on the running plugin: its threads are made to try.
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file/unique_fd.h"
#include "tests/rpc/support/helper_processes.h"
#include "tests/rpc/support/injection.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int kTooLongAName = 65;  // the host keeps its name, even where the call gets through to the kernel
constexpr char kNone[] = "0000000000000000";
constexpr std::uint64_t kHere = static_cast<std::uint64_t>(AT_FDCWD);

std::vector<pid_t> ThreadsOf(pid_t pid) {
  std::vector<pid_t> threads;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    threads.push_back(std::stoi(entry.path().filename()));
  }
  std::sort(threads.begin(), threads.end());
  return threads;
}

class Confinement : public RpcTest {
 protected:
  void SetUp() override {
    RpcTest::SetUp();
    volume_ = Created();
    ASSERT_OK(driver().Stage(volume_, Staging("v"), Mount()));
    ASSERT_OK(driver().Publish(volume_, Staging("v"), Target("t"), Mount()));
    std::ofstream(outside_ + "/file") << "kept";
  }

  struct Attempt {
    const char* what;
    long number;
    std::array<Injection::Argument, 6> arguments;
  };

  // None of them succeeds, in any thread, for the reason that we know of.
  void ExpectAllFail(Injection& thread, const std::vector<Attempt>& attempts) {
    for (const Attempt& attempt : attempts) {
      const std::int64_t result = thread.Call(attempt.number, attempt.arguments);
      EXPECT_TRUE(result == -ENOSYS || result == -EACCES || result == -EPERM || result == -EAFNOSUPPORT)
          << attempt.what << ": " << (result < 0 ? std::strerror(static_cast<int>(-result)) : "done");
    }
  }

  // In the first thread, and in the newest one that lives: gRPC ends threads that have no work.
  void InThreads(const std::function<void(Injection&)>& work) {
    if (!Injection::Possible()) GTEST_SKIP() << "system calls are injected on x86-64 alone";
    const std::vector<pid_t> threads = ThreadsOf(plugin().pid());
    const auto run = [&](pid_t tid) {
      Injection thread(plugin().pid(), tid);
      if (thread.ok()) work(thread);
      return thread.ok();
    };
    ASSERT_TRUE(run(threads.front()));
    ASSERT_TRUE(std::any_of(threads.rbegin(), threads.rend() - 1, run));
    ExpectServes();
  }

  void ExpectServes() {
    EXPECT_OK(driver().Unpublish(volume_, Target("t")));
    EXPECT_OK(driver().Publish(volume_, Staging("v"), Target("t"), Mount()));
    EXPECT_EQ(ReadFile(outside_ + "/file"), "kept");
    EXPECT_EQ(std::distance(fs::directory_iterator(outside_), fs::directory_iterator()), 1);
  }

  bool HasLandlock() const { return plugin().Log().find("no Landlock") == std::string::npos; }
  PluginProcess& plugin() const { return const_cast<Confinement*>(this)->RpcTest::plugin(); }

  std::string volume_;
  TempDir elsewhere_;  // below the socket's directory it may remove files
  const std::string outside_ = elsewhere_.path();
};

TEST_F(Confinement, NoThreadHasAPrivilege) {
  const std::vector<std::string> threads = ThreadStatuses(plugin().pid());
  EXPECT_GT(threads.size(), 3U);
  for (const std::string& thread : threads) {
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
      EXPECT_EQ(FieldOf(thread, set), kNone) << set;
    }
    EXPECT_EQ(FieldOf(thread, "NoNewPrivs"), "1");
    EXPECT_EQ(FieldOf(thread, "Seccomp"), "2");
  }
  EXPECT_THAT(RunOutput("capsh --decode=" + StatusField(plugin().pid(), "CapEff")), ::testing::Not(HasSubstr("cap_")));
}

TEST_F(Confinement, MountsNothing) {
  const std::string before = RawMounts();
  InThreads([&](Injection& thread) {
    ExpectAllFail(thread, {{"mount", SYS_mount, {"none", outside_, "tmpfs", 0, 0, 0}},
                           {"bind", SYS_mount, {"/etc", outside_, 0, MS_BIND, 0, 0}},
                           {"umount", SYS_umount2, {Target("t"), MNT_DETACH, 0, 0, 0, 0}},
                           {"fsopen", SYS_fsopen, {"tmpfs", 0, 0, 0, 0, 0}},
                           {"open_tree", SYS_open_tree, {kHere, "/etc", OPEN_TREE_CLONE, 0, 0, 0}},
                           {"move_mount", SYS_move_mount, {kHere, Target("t"), kHere, outside_, 0, 0}},
                           {"mount_setattr", SYS_mount_setattr, {kHere, Target("t"), 0, 0, 0, 0}},
                           {"pivot_root", SYS_pivot_root, {outside_, outside_, 0, 0, 0, 0}},
                           {"chroot", SYS_chroot, {outside_, 0, 0, 0, 0, 0}},
                           {"unshare", SYS_unshare, {CLONE_NEWNS, 0, 0, 0, 0, 0}},
                           {"unshare user", SYS_unshare, {CLONE_NEWUSER, 0, 0, 0, 0, 0}},
                           {"setns", SYS_setns, {0, CLONE_NEWNS, 0, 0, 0, 0}},
                           {"swapon", SYS_swapon, {outside_ + "/file", 0, 0, 0, 0, 0}}});
  });
  EXPECT_EQ(before.empty(), false);
}

TEST_F(Confinement, OpensNoDevice) {
  if (!HasLandlock()) GTEST_SKIP() << "this kernel has no Landlock: root opens root's devices";
  std::vector<std::string> devices = {LoopsHere().at(0).device, "/dev/mem",  "/dev/kmsg",
                                      "/dev/loop-control",      "/dev/zero", "/dev/full"};
  for (const auto& entry : fs::directory_iterator("/sys/block"))
    devices.push_back("/dev/" + entry.path().filename().string());
  InThreads([&](Injection& thread) {
    for (const std::string& device : devices) {
      if (!fs::exists(device)) continue;
      SCOPED_TRACE(device);
      ExpectAllFail(thread, {{"read", SYS_openat, {kHere, device, O_RDONLY, 0, 0, 0}},
                             {"write", SYS_openat, {kHere, device, O_RDWR, 0, 0, 0}},
                             {"read", SYS_open, {device, O_RDONLY, 0, 0, 0, 0}}});
    }
    const std::int64_t null = thread.Call(SYS_openat, {kHere, "/dev/null", O_RDWR, 0, 0, 0});
    EXPECT_GE(null, 0);
    EXPECT_EQ(thread.Call(SYS_close, {static_cast<std::uint64_t>(null), 0, 0, 0, 0, 0}), 0);
  });
}

TEST_F(Confinement, WritesInItsOwnDirectoriesAlone) {
  if (!HasLandlock()) GTEST_SKIP() << "this kernel has no Landlock: root writes root's files";
  const std::string file = outside_ + "/file", fresh = outside_ + "/new", own = state_dir() + "/injected";
  InThreads([&](Injection& thread) {
    // The same calls work where they may: so it is the place that is refused.
    const std::int64_t fd = thread.Call(SYS_openat, {kHere, own, O_RDWR | O_CREAT | O_EXCL, 0600, 0, 0});
    EXPECT_GE(fd, 0) << std::strerror(static_cast<int>(-fd));
    EXPECT_EQ(thread.Call(SYS_write, {static_cast<std::uint64_t>(fd), "data", 4, 0, 0, 0}), 4);
    EXPECT_EQ(thread.Call(SYS_close, {static_cast<std::uint64_t>(fd), 0, 0, 0, 0, 0}), 0);
    EXPECT_EQ(thread.Call(SYS_mkdir, {own + ".d", 0700, 0, 0, 0, 0}), 0);
    EXPECT_EQ(thread.Call(SYS_rmdir, {own + ".d", 0, 0, 0, 0, 0}), 0);
    EXPECT_EQ(ReadFile(own), "data");
    for (const std::string& place : {file, std::string("/etc/passwd"), std::string("/etc/hostname")}) {
      ExpectAllFail(thread, {{"write", SYS_openat, {kHere, place, O_WRONLY, 0, 0, 0}},
                             {"append", SYS_open, {place, O_WRONLY | O_APPEND, 0, 0, 0, 0}},
                             {"truncate by open", SYS_openat, {kHere, place, O_RDONLY | O_TRUNC, 0, 0, 0}},
                             {"truncate", SYS_truncate, {place, 0, 0, 0, 0, 0}},
                             {"chmod", SYS_chmod, {place, 0666, 0, 0, 0, 0}},
                             {"fchmodat", SYS_fchmodat, {kHere, place, 0666, 0, 0, 0}},
                             {"chown", SYS_chown, {place, 1, 1, 0, 0, 0}},
                             {"utimensat", SYS_utimensat, {kHere, place, 0, 0, 0, 0}},
                             {"setxattr", SYS_setxattr, {place, "user.x", "x", 1, 0, 0}}});
    }
    ExpectAllFail(thread, {{"create", SYS_openat, {kHere, fresh, O_WRONLY | O_CREAT, 0600, 0, 0}},
                           {"read", SYS_openat, {kHere, file, O_RDONLY, 0, 0, 0}},
                           {"mkdir", SYS_mkdir, {fresh, 0700, 0, 0, 0, 0}},
                           {"mknod", SYS_mknod, {fresh, S_IFREG | 0600, 0, 0, 0, 0}},
                           {"mknod of a device", SYS_mknod, {own + ".n", S_IFBLK | 0600, 0x700, 0, 0, 0}},
                           {"symlink", SYS_symlink, {"/etc", fresh, 0, 0, 0, 0}},
                           {"symlink inside", SYS_symlink, {"/etc", own + ".l", 0, 0, 0, 0}},
                           {"link", SYS_link, {own, fresh, 0, 0, 0, 0}},
                           {"unlink", SYS_unlink, {file, 0, 0, 0, 0, 0}},
                           {"rmdir", SYS_rmdir, {outside_, 0, 0, 0, 0, 0}}});
    for (const auto& [from, to] : {std::pair(own, fresh), std::pair(file, own)}) {
      const std::int64_t moved = thread.Call(SYS_rename, {from, to, 0, 0, 0, 0});
      EXPECT_TRUE(moved == -EACCES || moved == -EXDEV) << from << " " << moved;
    }
    EXPECT_EQ(thread.Call(SYS_unlink, {own, 0, 0, 0, 0, 0}), 0);
  });
}

// The kernel would send signals, and empty files, for it.
TEST_F(Confinement, AsksTheKernelForNothingOfTheKind) {
  const auto self = static_cast<std::uint64_t>(::getpid());
  InThreads([&](Injection& thread) {
    const std::int64_t fd = thread.Call(SYS_openat, {kHere, "/dev/null", O_RDONLY, 0, 0, 0});
    ASSERT_GE(fd, 0);
    const auto file = static_cast<std::uint64_t>(fd);
    const std::uint64_t disguised = (std::uint64_t{1} << 32U) | F_SETOWN;  // the kernel takes the lower half
    EXPECT_EQ(thread.Call(SYS_fcntl, {file, F_GETFL, 0, 0, 0, 0}) & O_ACCMODE, O_RDONLY);
    ExpectAllFail(thread, {{"F_SETOWN", SYS_fcntl, {file, F_SETOWN, self, 0, 0, 0}},
                           {"F_SETOWN, disguised", SYS_fcntl, {file, disguised, self, 0, 0, 0}},
                           {"F_SETOWN_EX", SYS_fcntl, {file, F_SETOWN_EX, 0, 0, 0, 0}},
                           {"F_SETSIG", SYS_fcntl, {file, F_SETSIG, SIGKILL, 0, 0, 0}},
                           {"F_SETLEASE", SYS_fcntl, {file, F_SETLEASE, F_RDLCK, 0, 0, 0}},
                           {"F_NOTIFY", SYS_fcntl, {file, F_NOTIFY, 1, 0, 0, 0}},
                           {"FIOSETOWN", SYS_ioctl, {file, FIOSETOWN, 0, 0, 0, 0}},
                           {"FIOASYNC", SYS_ioctl, {file, FIOASYNC, 0, 0, 0, 0}},
                           {"TIOCSTI", SYS_ioctl, {file, TIOCSTI, 0, 0, 0, 0}},
                           {"openat2", SYS_openat2, {kHere, "/dev/null", 0, 0, 0, 0}},
                           {"O_TRUNC", SYS_openat, {kHere, "/dev/null", O_RDWR | O_TRUNC, 0, 0, 0}},
                           {"O_TRUNC", SYS_open, {"/dev/null", O_RDONLY | O_TRUNC, 0, 0, 0, 0}}});
    EXPECT_EQ(thread.Call(SYS_close, {file, 0, 0, 0, 0, 0}), 0);
  });
}

// On a filesystem of its own making, where it may open files, it would open devices.
TEST_F(Confinement, NothingIsMountedInItsDirectories) {
  constexpr char kOwn[] = "the plugin's own";
  const std::string place = state_dir() + "/place", other = Created();
  fs::create_directory(place);
  EXPECT_THAT(driver().Stage(other, place, Mount()), FailsWith(Code::kFailedPrecondition, kOwn));
  EXPECT_OK(driver().Unpublish(volume_, Target("t")));
  for (const std::string& target : {place, state_dir() + "/x"}) {
    EXPECT_THAT(driver().Publish(volume_, Staging("v"), target, Mount()), FailsWith(Code::kFailedPrecondition, kOwn));
  }
  EXPECT_FALSE(fs::exists(state_dir() + "/x"));
  fs::remove(place);
  EXPECT_OK(driver().Delete(other));
}

// Root without a capability still owns root's files: an open one is no way around chmod(2).
TEST_F(Confinement, ChangesNoModeThroughAnOpenFile) {
  InThreads([&](Injection& thread) {
    const std::int64_t fd = thread.Call(SYS_openat, {kHere, "/etc/passwd", O_RDONLY, 0, 0, 0});
    EXPECT_GE(fd, 0);
    const auto file = static_cast<std::uint64_t>(fd);
    ExpectAllFail(thread, {{"fchmod", SYS_fchmod, {file, 0666, 0, 0, 0, 0}},
                           {"fchown", SYS_fchown, {file, 1, 1, 0, 0, 0}},
                           {"futimens", SYS_utimensat, {file, 0, 0, 0, 0, 0}}});
    EXPECT_EQ(thread.Call(SYS_close, {file, 0, 0, 0, 0, 0}), 0);
  });
}

TEST_F(Confinement, StartsNothingAndTouchesNoOtherProcess) {
  const auto self = static_cast<std::uint64_t>(::getpid());
  InThreads([&](Injection& thread) {
    ExpectAllFail(thread, {{"execve", SYS_execve, {"/bin/true", 0, 0, 0, 0, 0}},
                           {"execveat", SYS_execveat, {kHere, "/bin/true", 0, 0, 0, 0}},
                           {"fork", SYS_fork, {0, 0, 0, 0, 0, 0}},
                           {"vfork", SYS_vfork, {0, 0, 0, 0, 0, 0}},
                           {"clone", SYS_clone, {SIGCHLD, 0, 0, 0, 0, 0}},
                           {"clone with memory", SYS_clone, {CLONE_VM | SIGCHLD, 0, 0, 0, 0, 0}},
                           {"clone3", SYS_clone3, {0, 0, 0, 0, 0, 0}},
                           {"ptrace", SYS_ptrace, {PTRACE_SEIZE, self, 0, 0, 0, 0}},
                           {"process_vm_readv", SYS_process_vm_readv, {self, 0, 0, 0, 0, 0}},
                           {"kill", SYS_kill, {self, 0, 0, 0, 0, 0}},
                           {"tkill", SYS_tkill, {self, 0, 0, 0, 0, 0}},
                           {"tgkill", SYS_tgkill, {self, self, 0, 0, 0, 0}},
                           {"prlimit", SYS_prlimit64, {self, 7, 0, 0, 0, 0}},
                           {"kcmp", SYS_kcmp, {self, self, 0, 0, 0, 0}},
                           {"setpriority", SYS_setpriority, {0, self, 0, 0, 0, 0}}});
  });
}

TEST_F(Confinement, ReachesNobody) {
  const std::string path = dir() / "root-asks-root.sock";
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  std::string raw(reinterpret_cast<const char*>(&address), sizeof(address));
  raw.resize(raw.find('\0', 2));  // a text is written with its NUL
  InThreads([&](Injection& thread) {
    ExpectAllFail(thread, {{"internet", SYS_socket, {AF_INET, SOCK_STREAM, 0, 0, 0, 0}},
                           {"internet datagrams", SYS_socket, {AF_INET, SOCK_DGRAM, 0, 0, 0, 0}},
                           {"internet 6", SYS_socket, {AF_INET6, SOCK_STREAM, 0, 0, 0, 0}},
                           {"netlink", SYS_socket, {AF_NETLINK, SOCK_RAW, 0, 0, 0, 0}},
                           {"device events", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT, 0, 0, 0}},
                           {"packet", SYS_socket, {AF_PACKET, SOCK_RAW, 0, 0, 0, 0}},
                           {"vsock", SYS_socket, {AF_VSOCK, SOCK_STREAM, 0, 0, 0, 0}},
                           {"unix datagrams", SYS_socket, {AF_UNIX, SOCK_DGRAM, 0, 0, 0, 0}},
                           {"a pair of datagrams", SYS_socketpair, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, 0, 0, 0}},
                           {"a raw pair", SYS_socketpair, {AF_UNIX, SOCK_RAW, 0, 0, 0, 0}}});
    const std::int64_t fd = thread.Call(SYS_socket, {AF_UNIX, SOCK_STREAM, 0, 0, 0, 0});
    EXPECT_GE(fd, 0);
    const auto socket = static_cast<std::uint64_t>(fd);
    ExpectAllFail(thread, {{"connect", SYS_connect, {socket, raw, static_cast<int>(raw.size() + 1), 0, 0, 0}}});
    EXPECT_EQ(thread.Call(SYS_close, {socket, 0, 0, 0, 0, 0}), 0);
  });
  fs::remove(path);
}

class ConfinementWithDevices : public Confinement {
 protected:
  void SetUp() override {
    plugin().options().flags.insert(plugin().options().flags.end(),
                                    {"--pool", "name=disks,backend=device,match=x*,path=" + (dir() / "links")});
    Confinement::SetUp();
  }
  PluginProcess& plugin() { return RpcTest::plugin(); }
};

TEST_F(ConfinementWithDevices, HearsOfThemAndOpensNone) {
  if (!HasLandlock()) GTEST_SKIP() << "this kernel has no Landlock: root opens root's devices";
  InThreads([&](Injection& thread) {
    ExpectAllFail(thread, {{"routes", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_ROUTE, 0, 0, 0}},
                           {"audit", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_AUDIT, 0, 0, 0}},
                           {"raw", SYS_socket, {AF_INET, SOCK_RAW, NETLINK_KOBJECT_UEVENT, 0, 0, 0}},
                           {"packet", SYS_socket, {AF_PACKET, SOCK_RAW, NETLINK_KOBJECT_UEVENT, 0, 0, 0}},
                           {"device", SYS_openat, {kHere, "/dev/loop-control", O_RDONLY, 0, 0, 0}}});
    const std::int64_t fd = thread.Call(SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT, 0, 0, 0});
    EXPECT_GE(fd, 0);
    EXPECT_EQ(thread.Call(SYS_close, {static_cast<std::uint64_t>(fd), 0, 0, 0, 0, 0}), 0);
  });
}

// Its numbers mean other calls. One thread that ends would leave a plugin that no signal stops.
TEST_F(Confinement, ACallOfAForeignArchitectureEndsTheProcess) {
  if (!Injection::Possible()) GTEST_SKIP() << "system calls are injected on x86-64 alone";
  constexpr long kX32 = 0x40000000;
  const pid_t pid = plugin().pid();
  Injection::LastCall(pid, ThreadsOf(pid).back(), kX32 | SYS_getpid);
  EXPECT_EQ(plugin().Wait(), 128 + SIGSYS);
  RpcTest::plugin().Start();
}

// The helper makes system calls for the plugin: those that are needed for it, and no others.
TEST_F(Confinement, TheHelperMakesTheCallsThatItNeedsAlone) {
  if (!Injection::Possible()) GTEST_SKIP() << "system calls are injected on x86-64 alone";
  const pid_t helper = HelperOf(plugin().pid()), spawner = SpawnerOf(plugin().pid());
  const auto self = static_cast<std::uint64_t>(::getpid());
  for (const pid_t pid : {spawner, helper}) {
    ASSERT_GT(pid, 0);
    Injection thread(pid, pid);
    ASSERT_TRUE(thread.ok());
    ExpectAllFail(thread, {{"ptrace", SYS_ptrace, {PTRACE_SEIZE, self, 0, 0, 0, 0}},
                           {"process_vm_writev", SYS_process_vm_writev, {self, 0, 0, 0, 0, 0}},
                           {"init_module", SYS_init_module, {0, 0, "", 0, 0, 0}},
                           {"kexec_load", SYS_kexec_load, {0, 0, 0, 0, 0, 0}},
                           {"bpf", SYS_bpf, {0, 0, 0, 0, 0, 0}},
                           {"perf_event_open", SYS_perf_event_open, {0, 0, 0, 0, 0, 0}},
                           {"io_uring_setup", SYS_io_uring_setup, {1, 0, 0, 0, 0, 0}},
                           {"userfaultfd", SYS_userfaultfd, {0, 0, 0, 0, 0, 0}},
                           {"keyctl", SYS_keyctl, {0, 0, 0, 0, 0, 0}},
                           {"open_by_handle_at", SYS_open_by_handle_at, {kHere, 0, 0, 0, 0, 0}},
                           {"setns", SYS_setns, {0, 0, 0, 0, 0, 0}},
                           {"unshare", SYS_unshare, {CLONE_NEWNS, 0, 0, 0, 0, 0}},
                           {"clone with a namespace", SYS_clone, {CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0, 0}},
                           {"clone3", SYS_clone3, {0, 0, 0, 0, 0, 0}},
                           {"chroot", SYS_chroot, {"/", 0, 0, 0, 0, 0}},
                           {"pivot_root", SYS_pivot_root, {"/", "/", 0, 0, 0, 0}},
                           {"acct", SYS_acct, {"/x", 0, 0, 0, 0, 0}},
                           {"quotactl", SYS_quotactl, {0, 0, 0, 0, 0, 0}},
                           {"swapon", SYS_swapon, {"/x", 0, 0, 0, 0, 0}},
                           {"reboot", SYS_reboot, {0, 0, 0, 0, 0, 0}},
                           {"sethostname", SYS_sethostname, {"x", kTooLongAName, 0, 0, 0, 0}},
                           {"clock_settime", SYS_clock_settime, {0, 0, 0, 0, 0, 0}},
                           {"iopl", SYS_iopl, {3, 0, 0, 0, 0, 0}},
                           {"personality", SYS_personality, {0, 0, 0, 0, 0, 0}},
                           {"setuid", SYS_setuid, {0, 0, 0, 0, 0, 0}},
                           {"socket", SYS_socket, {AF_INET, SOCK_STREAM, 0, 0, 0, 0}},
                           {"unix socket", SYS_socket, {AF_UNIX, SOCK_STREAM, 0, 0, 0, 0}},
                           {"connect", SYS_connect, {0, 0, 0, 0, 0, 0}},
                           {"TIOCSTI", SYS_ioctl, {0, TIOCSTI, "x", 0, 0, 0}}});
  }
  ExpectServes();
}

TEST_F(Confinement, ChangesNothingOfTheKernel) {
  InThreads([&](Injection& thread) {
    ExpectAllFail(thread, {{"init_module", SYS_init_module, {0, 0, "", 0, 0, 0}},
                           {"finit_module", SYS_finit_module, {0, "", 0, 0, 0, 0}},
                           {"delete_module", SYS_delete_module, {"no_such_module", O_NONBLOCK, 0, 0, 0, 0}},
                           {"kexec_load", SYS_kexec_load, {0, 0, 0, 0, 0, 0}},
                           {"bpf", SYS_bpf, {0, 0, 0, 0, 0, 0}},
                           {"perf_event_open", SYS_perf_event_open, {0, 0, 0, 0, 0, 0}},
                           {"io_uring_setup", SYS_io_uring_setup, {1, 0, 0, 0, 0, 0}},
                           {"userfaultfd", SYS_userfaultfd, {0, 0, 0, 0, 0, 0}},
                           {"add_key", SYS_add_key, {"user", "x", "x", 1, 0, 0}},
                           {"keyctl", SYS_keyctl, {0, 0, 0, 0, 0, 0}},
                           {"sethostname", SYS_sethostname, {"x", kTooLongAName, 0, 0, 0, 0}},
                           {"clock_settime", SYS_clock_settime, {0, 0, 0, 0, 0, 0}},
                           {"iopl", SYS_iopl, {3, 0, 0, 0, 0, 0}},
                           {"reboot", SYS_reboot, {0, 0, 0, 0, 0, 0}},
                           {"capset", SYS_capset, {0, 0, 0, 0, 0, 0}},
                           {"setuid", SYS_setuid, {0, 0, 0, 0, 0, 0}},
                           {"personality", SYS_personality, {0, 0, 0, 0, 0, 0}}});
  });
}

}  // namespace
}  // namespace mooring::testing

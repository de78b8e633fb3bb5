// The confinement of a running plugin. The test makes its threads try forbidden system calls.
#include <linux/netlink.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "tests/rpc/support/helper_processes.h"
#include "tests/rpc/support/injection.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

constexpr int kTooLongAName = 65;  // so that the host keeps its name even if the call reaches the kernel
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

struct Attempt {
  const char* what;
  long number;
  std::array<Injection::Argument, 6> arguments = {};
};

// No process of Mooring may make these calls.
const std::vector<Attempt>& KernelCalls() {
  static const std::vector<Attempt> calls = {{"init_module", SYS_init_module, {0, 0, ""}},
                                             {"kexec_load", SYS_kexec_load, {}},
                                             {"bpf", SYS_bpf, {}},
                                             {"perf_event_open", SYS_perf_event_open, {}},
                                             {"io_uring_setup", SYS_io_uring_setup, {1}},
                                             {"userfaultfd", SYS_userfaultfd, {}},
                                             {"keyctl", SYS_keyctl, {}},
                                             {"sethostname", SYS_sethostname, {"x", kTooLongAName}},
                                             {"clock_settime", SYS_clock_settime, {}},
                                             {"iopl", SYS_iopl, {3}},
                                             {"reboot", SYS_reboot, {}},
                                             {"setuid", SYS_setuid, {}},
                                             {"personality", SYS_personality, {}}};
  return calls;
}

std::set<std::string> PlacesOfExports() {
  std::set<std::string> places;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/run/mooring-nfs", none)) places.insert(entry.path());
  return places;
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

  // Each call fails with an error of seccomp, Landlock or missing capabilities.
  void ExpectAllFail(Injection& thread, const std::vector<Attempt>& attempts) {
    for (const Attempt& attempt : attempts) {
      const std::int64_t result = thread.Call(attempt.number, attempt.arguments);
      EXPECT_TRUE(result == -ENOSYS || result == -EACCES || result == -EPERM || result == -EAFNOSUPPORT)
          << attempt.what << ": " << (result < 0 ? std::strerror(static_cast<int>(-result)) : "done");
    }
  }

  // Works in the first thread and in the newest living one. gRPC ends threads that have no work.
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

  std::string volume_;
  TempDir elsewhere_;  // outside of the directory of the socket, where the plugin may remove files
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
  EXPECT_THAT(RunOutput("capsh --decode=" + StatusField(plugin().pid(), "CapEff")), Not(HasSubstr("cap_")));
}

TEST_F(Confinement, CannotMount) {
  const std::string before = RawMounts();
  InThreads([&](Injection& thread) {
    ExpectAllFail(thread, {{"mount", SYS_mount, {"none", outside_, "tmpfs"}},
                           {"bind", SYS_mount, {"/etc", outside_, 0, MS_BIND}},
                           {"umount", SYS_umount2, {Target("t"), MNT_DETACH}},
                           {"fsopen", SYS_fsopen, {"tmpfs"}},
                           {"open_tree", SYS_open_tree, {kHere, "/etc", OPEN_TREE_CLONE}},
                           {"move_mount", SYS_move_mount, {kHere, Target("t"), kHere, outside_}},
                           {"mount_setattr", SYS_mount_setattr, {kHere, Target("t")}},
                           {"pivot_root", SYS_pivot_root, {outside_, outside_}},
                           {"chroot", SYS_chroot, {outside_}},
                           {"unshare", SYS_unshare, {CLONE_NEWNS}},
                           {"unshare user", SYS_unshare, {CLONE_NEWUSER}},
                           {"setns", SYS_setns, {0, CLONE_NEWNS}},
                           {"swapon", SYS_swapon, {outside_ + "/file"}}});
  });
  EXPECT_FALSE(before.empty());
}

TEST_F(Confinement, CannotOpenDevices) {
  if (!HasLandlock()) GTEST_SKIP() << "this kernel has no Landlock: root opens root's devices";
  std::vector<std::string> devices = {LoopsHere().at(0).device, "/dev/mem",  "/dev/kmsg",
                                      "/dev/loop-control",      "/dev/zero", "/dev/full"};
  for (const auto& entry : fs::directory_iterator("/sys/block")) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("loop")) devices.push_back("/dev/" + name);  // those of other tests come and go
  }
  InThreads([&](Injection& thread) {
    for (const std::string& device : devices) {
      if (!fs::exists(device)) continue;
      SCOPED_TRACE(device);
      ExpectAllFail(thread, {{"read", SYS_openat, {kHere, device, O_RDONLY}},
                             {"write", SYS_openat, {kHere, device, O_RDWR}},
                             {"read", SYS_open, {device, O_RDONLY}}});
    }
    const std::int64_t null = thread.Call(SYS_openat, {kHere, "/dev/null", O_RDWR});
    EXPECT_GE(null, 0);
    EXPECT_EQ(thread.Call(SYS_close, {static_cast<std::uint64_t>(null)}), 0);
  });
}

TEST_F(Confinement, CannotWriteOutsideItsDirectories) {
  if (!HasLandlock()) GTEST_SKIP() << "this kernel has no Landlock: root writes root's files";
  const std::string file = outside_ + "/file", fresh = outside_ + "/new", own = state_dir() + "/injected";
  InThreads([&](Injection& thread) {
    // The same calls succeed in the state directory. So the other paths are refused.
    const std::int64_t fd = thread.Call(SYS_openat, {kHere, own, O_RDWR | O_CREAT | O_EXCL, 0600});
    EXPECT_GE(fd, 0) << std::strerror(static_cast<int>(-fd));
    EXPECT_EQ(thread.Call(SYS_write, {static_cast<std::uint64_t>(fd), "data", 4}), 4);
    EXPECT_EQ(thread.Call(SYS_close, {static_cast<std::uint64_t>(fd)}), 0);
    EXPECT_EQ(thread.Call(SYS_mkdir, {own + ".d", 0700}), 0);
    EXPECT_EQ(thread.Call(SYS_rmdir, {own + ".d"}), 0);
    EXPECT_EQ(ReadFile(own), "data");
    for (const std::string& place : {file, std::string("/etc/passwd"), std::string("/etc/hostname")}) {
      ExpectAllFail(thread, {{"write", SYS_openat, {kHere, place, O_WRONLY}},
                             {"append", SYS_open, {place, O_WRONLY | O_APPEND}},
                             {"truncate by open", SYS_openat, {kHere, place, O_RDONLY | O_TRUNC}},
                             {"truncate", SYS_truncate, {place}},
                             {"chmod", SYS_chmod, {place, 0666}},
                             {"fchmodat", SYS_fchmodat, {kHere, place, 0666}},
                             {"chown", SYS_chown, {place, 1, 1}},
                             {"utimensat", SYS_utimensat, {kHere, place}},
                             {"setxattr", SYS_setxattr, {place, "user.x", "x", 1}}});
    }
    ExpectAllFail(thread, {{"create", SYS_openat, {kHere, fresh, O_WRONLY | O_CREAT, 0600}},
                           {"read", SYS_openat, {kHere, file, O_RDONLY}},
                           {"mkdir", SYS_mkdir, {fresh, 0700}},
                           {"mknod", SYS_mknod, {fresh, S_IFREG | 0600}},
                           {"mknod of a device", SYS_mknod, {own + ".n", S_IFBLK | 0600, 0x700}},
                           {"symlink", SYS_symlink, {"/etc", fresh}},
                           {"symlink inside", SYS_symlink, {"/etc", own + ".l"}},
                           {"link", SYS_link, {own, fresh}},
                           {"unlink", SYS_unlink, {file}},
                           {"rmdir", SYS_rmdir, {outside_}}});
    for (const auto& [from, to] : {std::pair(own, fresh), std::pair(file, own)}) {
      const std::int64_t moved = thread.Call(SYS_rename, {from, to});
      EXPECT_TRUE(moved == -EACCES || moved == -EXDEV) << from << " " << moved;
    }
    EXPECT_EQ(thread.Call(SYS_unlink, {own}), 0);
  });
}

// A volume of an export has a link as its name. No other pool needs links.
TEST_F(Confinement, MakesLinksOnlyWhereExportsAreMounted) {
  if (!HasLandlock()) GTEST_SKIP() << "this kernel has no Landlock: root writes root's files";
  const std::set<std::string> before = PlacesOfExports();
  RestartWith({"--pool", "name=share,backend=nfs,server=127.0.0.1,export=/none"});
  std::set<std::string> own = PlacesOfExports();
  for (const std::string& place : before) own.erase(place);
  ASSERT_EQ(own.size(), 1U);
  const std::string place = *own.begin();
  InThreads([&](Injection& thread) {
    EXPECT_EQ(thread.Call(SYS_symlink, {"vol-1", place + "/link"}), 0);
    EXPECT_EQ(thread.Call(SYS_unlink, {place + "/link"}), 0);
    ExpectAllFail(
        thread,
        {{"in the state directory", SYS_symlink, {"/etc", state_dir() + "/link"}},
         {"in a pool", SYS_symlinkat, {"/etc", kHere, fs::path(Image(volume_)).parent_path().string() + "/link"}},
         {"outside", SYS_symlink, {"/etc", outside_ + "/link"}},
         {"beside", SYS_symlink, {"/etc", place + "-link"}}});
  });
  fs::remove_all(place);
}

// These calls would make the kernel send signals or truncate files.
TEST_F(Confinement, CannotMakeTheKernelSendSignalsOrTruncate) {
  const auto self = static_cast<std::uint64_t>(::getpid());
  InThreads([&](Injection& thread) {
    const std::int64_t fd = thread.Call(SYS_openat, {kHere, "/dev/null", O_RDONLY});
    ASSERT_GE(fd, 0);
    const auto file = static_cast<std::uint64_t>(fd);
    const std::uint64_t disguised = (std::uint64_t{1} << 32U) | F_SETOWN;  // the kernel takes the lower half
    EXPECT_EQ(thread.Call(SYS_fcntl, {file, F_GETFL}) & O_ACCMODE, O_RDONLY);
    ExpectAllFail(thread, {{"F_SETOWN", SYS_fcntl, {file, F_SETOWN, self}},
                           {"F_SETOWN, disguised", SYS_fcntl, {file, disguised, self}},
                           {"F_SETOWN_EX", SYS_fcntl, {file, F_SETOWN_EX}},
                           {"F_SETSIG", SYS_fcntl, {file, F_SETSIG, SIGKILL}},
                           {"F_SETLEASE", SYS_fcntl, {file, F_SETLEASE, F_RDLCK}},
                           {"F_NOTIFY", SYS_fcntl, {file, F_NOTIFY, 1}},
                           {"FIOSETOWN", SYS_ioctl, {file, FIOSETOWN}},
                           {"FIOASYNC", SYS_ioctl, {file, FIOASYNC}},
                           {"TIOCSTI", SYS_ioctl, {file, TIOCSTI}},
                           {"openat2", SYS_openat2, {kHere, "/dev/null"}},
                           {"O_TRUNC", SYS_openat, {kHere, "/dev/null", O_RDWR | O_TRUNC}},
                           {"O_TRUNC", SYS_open, {"/dev/null", O_RDONLY | O_TRUNC}}});
    EXPECT_EQ(thread.Call(SYS_close, {file}), 0);
  });
}

// In these directories the plugin may open files. A filesystem mounted there could hold device nodes.
TEST_F(Confinement, PublishRefusesItsOwnDirectories) {
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

// Root owns its files also without capabilities. An open file must not replace chmod(2).
TEST_F(Confinement, CannotChangeModesThroughOpenFiles) {
  InThreads([&](Injection& thread) {
    const std::int64_t fd = thread.Call(SYS_openat, {kHere, "/etc/passwd", O_RDONLY});
    EXPECT_GE(fd, 0);
    const auto file = static_cast<std::uint64_t>(fd);
    ExpectAllFail(thread, {{"fchmod", SYS_fchmod, {file, 0666}},
                           {"fchown", SYS_fchown, {file, 1, 1}},
                           {"futimens", SYS_utimensat, {file}}});
    EXPECT_EQ(thread.Call(SYS_close, {file}), 0);
  });
}

TEST_F(Confinement, CannotStartOrTouchProcesses) {
  const auto self = static_cast<std::uint64_t>(::getpid());
  InThreads([&](Injection& thread) {
    ExpectAllFail(thread, {{"execve", SYS_execve, {"/bin/true"}},
                           {"execveat", SYS_execveat, {kHere, "/bin/true"}},
                           {"fork", SYS_fork, {}},
                           {"vfork", SYS_vfork, {}},
                           {"clone", SYS_clone, {SIGCHLD}},
                           {"clone with memory", SYS_clone, {CLONE_VM | SIGCHLD}},
                           {"clone3", SYS_clone3, {}},
                           {"ptrace", SYS_ptrace, {PTRACE_SEIZE, self}},
                           {"process_vm_readv", SYS_process_vm_readv, {self}},
                           {"kill", SYS_kill, {self}},
                           {"tkill", SYS_tkill, {self}},
                           {"tgkill", SYS_tgkill, {self, self}},
                           {"prlimit", SYS_prlimit64, {self, 7}},
                           {"kcmp", SYS_kcmp, {self, self}},
                           {"setpriority", SYS_setpriority, {0, self}}});
  });
}

TEST_F(Confinement, CannotConnectToOthers) {
  const std::string path = dir() / "root-asks-root.sock";
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  std::string raw(reinterpret_cast<const char*>(&address), sizeof(address));
  raw.resize(raw.find('\0', 2));  // Injection adds the NUL
  InThreads([&](Injection& thread) {
    ExpectAllFail(thread, {{"internet", SYS_socket, {AF_INET, SOCK_STREAM}},
                           {"internet datagrams", SYS_socket, {AF_INET, SOCK_DGRAM}},
                           {"internet 6", SYS_socket, {AF_INET6, SOCK_STREAM}},
                           {"netlink", SYS_socket, {AF_NETLINK, SOCK_RAW}},
                           {"device events", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT}},
                           {"packet", SYS_socket, {AF_PACKET, SOCK_RAW}},
                           {"vsock", SYS_socket, {AF_VSOCK, SOCK_STREAM}},
                           {"unix datagrams", SYS_socket, {AF_UNIX, SOCK_DGRAM}},
                           {"a pair of datagrams", SYS_socketpair, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC}},
                           {"a raw pair", SYS_socketpair, {AF_UNIX, SOCK_RAW}}});
    const std::int64_t fd = thread.Call(SYS_socket, {AF_UNIX, SOCK_STREAM});
    EXPECT_GE(fd, 0);
    const auto socket = static_cast<std::uint64_t>(fd);
    ExpectAllFail(thread, {{"connect", SYS_connect, {socket, raw, static_cast<int>(raw.size() + 1)}}});
    EXPECT_EQ(thread.Call(SYS_close, {socket}), 0);
  });
  fs::remove(path);
}

class ConfinementWithDevices : public Confinement {
 protected:
  void SetUp() override {
    AddFlags({"--pool", "name=disks,backend=device,match=x*,path=" + (dir() / "links")});
    Confinement::SetUp();
  }
  PluginProcess& plugin() { return RpcTest::plugin(); }
};

TEST_F(ConfinementWithDevices, ReceivesDeviceEventsAndOpensNoDevice) {
  if (!HasLandlock()) GTEST_SKIP() << "this kernel has no Landlock: root opens root's devices";
  InThreads([&](Injection& thread) {
    ExpectAllFail(thread, {{"routes", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_ROUTE}},
                           {"audit", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_AUDIT}},
                           {"raw", SYS_socket, {AF_INET, SOCK_RAW, NETLINK_KOBJECT_UEVENT}},
                           {"packet", SYS_socket, {AF_PACKET, SOCK_RAW, NETLINK_KOBJECT_UEVENT}},
                           {"device", SYS_openat, {kHere, "/dev/loop-control", O_RDONLY}}});
    const std::int64_t fd = thread.Call(SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT});
    EXPECT_GE(fd, 0);
    EXPECT_EQ(thread.Call(SYS_close, {static_cast<std::uint64_t>(fd)}), 0);
  });
}

// The numbers of that architecture are other calls. The process must end, because a plugin without one of its threads
// could no longer be stopped.
TEST_F(Confinement, CallOfAForeignArchitectureEndsTheProcess) {
  if (!Injection::Possible()) GTEST_SKIP() << "system calls are injected on x86-64 alone";
  constexpr long kX32 = 0x40000000;
  const pid_t pid = plugin().pid();
  Injection::LastCall(pid, ThreadsOf(pid).back(), kX32 | SYS_getpid);
  EXPECT_EQ(plugin().Wait(), 128 + SIGSYS);
  RpcTest::plugin().Start();
}

// The helper makes only the system calls that it needs for the plugin.
TEST_F(Confinement, HelperCannotMakeOtherCalls) {
  if (!Injection::Possible()) GTEST_SKIP() << "system calls are injected on x86-64 alone";
  const pid_t helper = HelperOf(plugin().pid()), spawner = SpawnerOf(plugin().pid());
  const auto self = static_cast<std::uint64_t>(::getpid());
  for (const pid_t pid : {spawner, helper}) {
    ASSERT_GT(pid, 0);
    Injection thread(pid, pid);
    ASSERT_TRUE(thread.ok());
    ExpectAllFail(thread, {{"ptrace", SYS_ptrace, {PTRACE_SEIZE, self}},
                           {"process_vm_writev", SYS_process_vm_writev, {self}},
                           {"open_by_handle_at", SYS_open_by_handle_at, {kHere}},
                           {"setns", SYS_setns, {}},
                           {"unshare", SYS_unshare, {CLONE_NEWNS}},
                           {"clone with a namespace", SYS_clone, {CLONE_NEWNS | SIGCHLD}},
                           {"clone3", SYS_clone3, {}},
                           {"chroot", SYS_chroot, {"/"}},
                           {"pivot_root", SYS_pivot_root, {"/", "/"}},
                           {"acct", SYS_acct, {"/x"}},
                           {"quotactl", SYS_quotactl, {}},
                           {"swapon", SYS_swapon, {"/x"}},
                           {"socket", SYS_socket, {AF_INET, SOCK_STREAM}},
                           {"unix socket", SYS_socket, {AF_UNIX, SOCK_STREAM}},
                           {"connect", SYS_connect, {}},
                           {"TIOCSTI", SYS_ioctl, {0, TIOCSTI, "x"}}});
    ExpectAllFail(thread, KernelCalls());
  }
  ExpectServes();
}

TEST_F(Confinement, CannotChangeTheKernel) {
  InThreads([&](Injection& thread) {
    ExpectAllFail(thread, {
                              {"finit_module", SYS_finit_module, {0, ""}},
                              {"delete_module", SYS_delete_module, {"no_such_module", O_NONBLOCK}},
                              {"add_key", SYS_add_key, {"user", "x", "x", 1}},
                              {"capset", SYS_capset, {}},
                          });
    ExpectAllFail(thread, KernelCalls());
  });
}

}  // namespace
}  // namespace mooring::testing

// `mooring doctor` on the real kernel: each test makes a problem, finds it and repairs it with the printed command.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/file/unique_fd.h"
#include "tests/kernel/cli/cli_program.h"
#include "tests/kernel/mount/namespaces.h"

namespace mooring::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kFindings = 3;

class CliDoctorTest : public CliTest {
 protected:
  Ran Doctor(const std::string& arguments) const {
    return Mooring("doctor --state-dir " + Path("state") + " " + arguments);
  }
  static std::string AsSeenBy(const MountNamespace& task) { return fmt::format(" --pid {}", task.pid()); }
  static std::string CountIn(const MountNamespace& task, const std::string& path) {
    return task.Ask([&] { return fmt::format("{}", MountsAt(path).size()); });
  }
  // A volume: a tmpfs, so that no copy of the host's own filesystem shows it.
  std::string Volume(const std::string& name) const {
    EXPECT_EQ(::mount("volume", Dir(name).c_str(), "tmpfs", 0, "size=64k"), 0);
    return Path(name);
  }
};

TEST_F(CliDoctorTest, VisibleMountShowsTheTree) {
  SharedMount("srv");
  const MountNamespace task(MountNamespace::Kind::kSlave);
  Volume("srv/v");
  const Ran ran = Doctor("srv/v" + AsSeenBy(task));
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("nothing wrong\n"), HasSubstr("checked: capabilities, kernel features"),
                             HasSubstr("sees it at '" + Path("srv/v") + "'"),
                             HasSubstr("peer group " + GroupAt(Path("srv"), "shared:") + "\n"),
                             HasSubstr(fmt::format("▶ {} in pid {} (", Path("srv"), task.pid()))));
  EXPECT_THAT(Doctor("--json srv/v" + AsSeenBy(task)).out, HasSubstr("\"slaves\":[{\"namespace\":"));
}

TEST_F(CliDoctorTest, FindsFrozenExt4) {
  const MountRequest request = MountOf(Ext4Image("v.img"), Path("at"), "ext4");
  MountRequest labelled = request;
  labelled.label = "mooring:vol-x";
  ASSERT_OK(mounter_.Mount(labelled));
  const std::string finding = "problem (frozen-filesystem): the filesystem of '" + Path("v.img") + "'";
  EXPECT_THAT(Doctor("").out, Not(HasSubstr(finding)));
  ASSERT_EQ(Tool("fsfreeze -f " + Path("at")), 0);
  const Ran found = Doctor("");
  EXPECT_EQ(found.status, kFindings);
  EXPECT_THAT(found.out, HasSubstr(finding));
  EXPECT_EQ(Tool("fsfreeze -u " + Path("at")), 0);
  EXPECT_THAT(found.out, HasSubstr("# fsfreeze -u " + Path("at") + "\n"));
  EXPECT_THAT(Doctor("").out, Not(HasSubstr(finding)));
}

// A frozen xfs shows only in the processes that wait for it.
TEST_F(CliDoctorTest, FindsFrozenXfsByItsWriter) {
  MountRequest request = MountOf(XfsImage("v.img"), Path("at"), "xfs");
  request.label = "mooring:vol-x";
  ASSERT_OK(mounter_.Mount(request));
  ASSERT_EQ(Tool("fsfreeze -f " + Path("at")), 0);
  std::thread writer([this] { Tool("cd " + Path("at") + " && touch file"); });
  std::string out;
  EXPECT_TRUE(Eventually([&] {
    out = Doctor("").out;
    return out.find("(frozen-filesystem): the filesystem of '" + Path("v.img")) != std::string::npos;
  })) << out;
  EXPECT_EQ(Tool("fsfreeze -u " + Path("at")), 0);
  writer.join();
}

TEST_F(CliDoctorTest, DirectoryThatIsNotShared) {
  PrivateMount("srv");
  const Ran ran = Doctor("srv/v");
  EXPECT_EQ(ran.status, 1) << "there is no such path: " << ran.out;
  Dir("srv/v");
  const Ran found = Doctor("srv/v");
  EXPECT_EQ(found.status, kFindings);
  EXPECT_THAT(found.out, HasSubstr("problem (not-shared): the mount at '" + Path("srv") + "' is not a shared mount"));
  EXPECT_THAT(Commands(found), ElementsAre("mooring propagation " + Path("srv") + " shared"));
  ASSERT_EQ(RunCommands(found), 0);
  EXPECT_EQ(Doctor("srv/v").status, 0);
  const MountNamespace task(MountNamespace::Kind::kSlave);  // started after that
  Volume("srv/v");
  EXPECT_EQ(CountIn(task, Path("srv/v")), "1");
}

TEST_F(CliDoctorTest, TaskWithoutRslave) {
  SharedMount("srv");
  const MountNamespace task(MountNamespace::Kind::kPrivate);
  Volume("srv/v");
  ASSERT_EQ(CountIn(task, Path("srv/v")), "0");
  const Ran found = Doctor("srv/v" + AsSeenBy(task));
  EXPECT_EQ(found.status, kFindings);
  EXPECT_THAT(found.out, AllOf(HasSubstr("problem (private-copy)"), HasSubstr("rslave"), Not(HasSubstr("not-shared"))));
  ASSERT_EQ(RunCommands(found), 0);
  EXPECT_EQ(CountIn(task, Path("srv/v")), "1");
  const Ran repaired = Doctor("srv/v" + AsSeenBy(task));
  EXPECT_EQ(repaired.status, 0) << repaired.out;
}

TEST_F(CliDoctorTest, ReadOnlyTaskStaysReadOnly) {
  ASSERT_EQ(::mount("none", Dir("srv").c_str(), "tmpfs", 0, "size=64k"), 0);
  ASSERT_EQ(::mount(nullptr, Path("srv").c_str(), nullptr, MS_SHARED, nullptr), 0);
  Volume("srv/old");
  const MountNamespace task(MountNamespace::Kind::kPrivate);
  const auto remounted = [&] {
    return ::mount(nullptr, Path("srv").c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, "");
  };
  ASSERT_EQ(task.Ask([&] { return fmt::format("{}", remounted()); }), "0");
  Volume("srv/v");
  const Ran of_volume = Doctor("srv/v" + AsSeenBy(task));
  ASSERT_EQ(Commands(of_volume).size(), 1U) << of_volume.out;
  EXPECT_THAT(Commands(of_volume)[0], HasSubstr(" --read-only --nosuid --nodev"));
  const Ran found = Doctor("srv" + AsSeenBy(task));
  ASSERT_EQ(Commands(found).size(), 3U) << found.out;  // what is mounted below it goes first
  ASSERT_EQ(RunCommands(found), 0);
  EXPECT_EQ(task.Ask([&] { return OptionsAt(Path("srv")); }), "ro,nosuid,nodev,relatime");
  EXPECT_EQ(CountIn(task, Path("srv/v")), "1");
  EXPECT_EQ(CountIn(task, Path("srv/old")), "1");
  EXPECT_EQ(Doctor("srv" + AsSeenBy(task)).status, 0);
}

TEST_F(CliDoctorTest, UpstreamNamespaceHasNoCommand) {
  SharedMount("srv");
  const MountNamespace host(MountNamespace::Kind::kPeer);
  ASSERT_EQ(::mount(nullptr, Path("srv").c_str(), nullptr, MS_SLAVE, nullptr), 0);
  Dir("srv/v");
  const Ran found = Doctor("srv/v" + AsSeenBy(host));
  EXPECT_EQ(found.status, kFindings);
  EXPECT_THAT(found.out, HasSubstr("problem (receives-only)"));
  EXPECT_THAT(Commands(found), IsEmpty());
}

TEST_F(CliDoctorTest, DirectoryOfATaskIsRemounted) {
  ASSERT_EQ(::mount("none", Dir("srv").c_str(), "tmpfs", 0, "size=64k"), 0);
  ASSERT_EQ(::mount(nullptr, Path("srv").c_str(), nullptr, MS_SHARED, nullptr), 0);
  const MountNamespace task(MountNamespace::Kind::kPrivate);
  Volume("srv/v");
  const Ran found = Doctor("srv" + AsSeenBy(task));
  EXPECT_EQ(found.status, kFindings);
  ASSERT_EQ(Commands(found).size(), 2U) << found.out;
  ASSERT_EQ(RunCommands(found), 0);
  EXPECT_EQ(CountIn(task, Path("srv/v")), "1");
  Volume("srv/w");
  EXPECT_EQ(CountIn(task, Path("srv/w")), "1") << "from now on all that is mounted arrives";
  EXPECT_EQ(Doctor("srv" + AsSeenBy(task)).status, 0);
}

TEST_F(CliDoctorTest, MountThatTheTaskHasLost) {
  SharedMount("srv");
  const MountNamespace task(MountNamespace::Kind::kSlave);
  Volume("srv/v");
  ASSERT_EQ(task.Ask([&] { return fmt::format("{}", ::umount(Path("srv/v").c_str())); }), "0");
  const Ran found = Doctor("srv/v" + AsSeenBy(task));
  EXPECT_EQ(found.status, kFindings);
  EXPECT_THAT(found.out, HasSubstr("problem (not-recursive)"));
  ASSERT_EQ(RunCommands(found), 0);
  EXPECT_EQ(CountIn(task, Path("srv/v")), "1");
  EXPECT_EQ(Doctor("srv/v" + AsSeenBy(task)).status, 0);
}

TEST_F(CliDoctorTest, TaskWithoutTheDirectory) {
  ASSERT_EQ(::mount("none", Dir("srv").c_str(), "tmpfs", 0, "size=64k"), 0);
  ASSERT_EQ(::mount(nullptr, Path("srv").c_str(), nullptr, MS_SHARED, nullptr), 0);
  const MountNamespace task(MountNamespace::Kind::kSlave);
  ASSERT_EQ(task.Ask([&] { return fmt::format("{}", ::umount(Path("srv").c_str())); }), "0");
  Volume("srv/v");
  const Ran found = Doctor("srv/v" + AsSeenBy(task));
  EXPECT_EQ(found.status, kFindings);
  EXPECT_THAT(found.out, HasSubstr("problem (not-there)"));
  ASSERT_EQ(RunCommands(found), 0);
  EXPECT_EQ(CountIn(task, Path("srv/v")), "1");
  EXPECT_EQ(Doctor("srv/v" + AsSeenBy(task)).status, 0);
}

TEST_F(CliDoctorTest, MountOnlyInAnotherNamespace) {
  SharedMount("srv");
  Dir("srv/v");
  const MountNamespace plugin(MountNamespace::Kind::kSlave);
  ASSERT_EQ(plugin.Ask([&] { return fmt::format("{}", ::mount("none", Path("srv/v").c_str(), "tmpfs", 0, nullptr)); }),
            "0");
  ASSERT_THAT(MountsAt(Path("srv/v")), IsEmpty());
  const Ran found = Doctor("srv/v");
  EXPECT_EQ(found.status, kFindings);
  EXPECT_THAT(found.out,
              AllOf(HasSubstr("problem (only-elsewhere)"), HasSubstr(fmt::format("pid {} (", plugin.pid()))));
  EXPECT_EQ(Doctor("srv/v" + AsSeenBy(plugin)).status, kFindings);
  ASSERT_EQ(RunCommands(found), 0);
  EXPECT_EQ(MountsAt(Path("srv/v")).size(), 1U);
  EXPECT_EQ(Doctor("srv/v").status, 0);
}

class CliDoctorFuseTest : public CliDoctorTest {
 protected:
  void SetUp() override { SharedMount("srv"); }
  // After the namespaces: a process that is forked later has the server's end open, too.
  void Serve() {
    fuse_.reset(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fuse_.ok()) << "these tests need FUSE in the kernel";
    const std::string options = fmt::format("fd={},rootmode=40000,user_id=0,group_id=0", fuse_.get());
    ASSERT_EQ(::mount("mooring-test", Dir("srv/v").c_str(), "fuse", 0, options.c_str()), 0);
  }
  UniqueFd fuse_;
};

TEST_F(CliDoctorFuseTest, DeadServer) {
  const MountNamespace task(MountNamespace::Kind::kSlave);
  Serve();
  fuse_.reset();
  const Ran found = Doctor("srv/v" + AsSeenBy(task));
  EXPECT_EQ(found.status, kFindings);
  EXPECT_THAT(found.out, AllOf(HasSubstr("problem (broken-mount)"), HasSubstr("Transport endpoint is not connected")));
  EXPECT_THAT(Commands(found), ElementsAre("mooring umount " + Path("srv/v"),
                                           fmt::format("mooring umount {} --pid {}", Path("srv/v"), task.pid())));
  ASSERT_EQ(RunCommands(found), 0) << found.out;
  EXPECT_THAT(MountsAt(Path("srv/v")), IsEmpty());
  EXPECT_EQ(CountIn(task, Path("srv/v")), "0");
  EXPECT_EQ(Doctor("srv/v").status, 0);
}

// The path of a covered mount leads to the mount on top, whether that is broken or not.
TEST_F(CliDoctorFuseTest, CoveredMountHasNoCommand) {
  Serve();
  fuse_.reset();
  ASSERT_EQ(::mount("volume", Path("srv/v").c_str(), "tmpfs", 0, "size=64k"), 0);
  EXPECT_THAT(Doctor("srv/v").out, AllOf(HasSubstr("nothing wrong"), Not(HasSubstr("mooring umount"))));
  ASSERT_EQ(::umount(Path("srv/v").c_str()), 0);
  EXPECT_THAT(Commands(Doctor("srv/v")), ElementsAre("mooring umount " + Path("srv/v")));
}

TEST_F(CliDoctorFuseTest, HealthyMountUnderADeadOneStays) {
  Volume("srv/v");
  Serve();
  fuse_.reset();
  const Ran found = Doctor("srv/v");
  EXPECT_THAT(found.out, HasSubstr("note (behind-another): the tmpfs mount at '" + Path("srv/v") + "'"));
  EXPECT_THAT(Commands(found), ElementsAre("mooring umount " + Path("srv/v")));
  ASSERT_EQ(RunCommands(found), 0);
  EXPECT_EQ(MountsAt(Path("srv/v")).size(), 1U);
  EXPECT_EQ(Doctor("srv/v").status, 0);
}

TEST_F(CliDoctorFuseTest, PathThroughAHungMount) {
  Serve();
  if (MountsAt("/sys/fs/fuse/connections").empty()) {
    ASSERT_EQ(::mount("none", "/sys/fs/fuse/connections", "fusectl", 0, nullptr), 0);
  }
  const Ran found = Doctor("srv/v/a/b");
  EXPECT_EQ(found.status, kFindings) << found.err;
  EXPECT_THAT(found.out, HasSubstr("problem (hung-mount)"));
  EXPECT_EQ(RunCommands(found), 0);
}

TEST_F(CliDoctorFuseTest, HungServerDelaysOnlyBriefly) {
  Serve();
  if (MountsAt("/sys/fs/fuse/connections").empty()) {
    ASSERT_EQ(::mount("none", "/sys/fs/fuse/connections", "fusectl", 0, nullptr), 0);
  }
  const auto started = std::chrono::steady_clock::now();
  const Ran found = Doctor("srv/v");
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(10));
  EXPECT_EQ(found.status, kFindings);
  EXPECT_THAT(found.out, HasSubstr("problem (hung-mount)"));
  ASSERT_EQ(RunCommands(found), 0) << found.out;
  EXPECT_THAT(MountsAt(Path("srv/v")), IsEmpty());
  EXPECT_EQ(Doctor("srv/v").status, 0);
}

TEST_F(CliDoctorTest, ShutDownFilesystem) {
  SharedMount("srv");
  XfsImage("image");
  ASSERT_EQ(Mooring("mount image image srv/v").status, 0);
  ASSERT_EQ(Shell("xfs_io -x -c shutdown srv/v"), 0);
  const Ran found = Doctor("srv/v");
  EXPECT_THAT(found.out, AllOf(HasSubstr("problem (broken-mount)"), HasSubstr("Input/output error")));
  EXPECT_THAT(Mooring("show srv/v").out, HasSubstr("broken        Input/output error"));
  ASSERT_EQ(RunCommands(found), 0);
  EXPECT_EQ(Doctor("srv/v").status, 0);
}

TEST_F(CliDoctorTest, UnusedLoopDeviceOverAnImage) {
  Dir("state/volumes");
  const std::string image = Ext4Image("state/volumes/vol-1.img");
  const std::string device = Losetup(image);
  const Ran found = Doctor("");
  EXPECT_THAT(found.out, HasSubstr(fmt::format("note (leaked-loop): {} is bound to '{}'", device, image)));
  const Ran of_volume = Doctor("vol-1");
  EXPECT_THAT(Commands(of_volume), IsEmpty()) << "it may be staged as a block device, and not yet published";
  ASSERT_EQ(Shell("losetup -d " + device), 0);
  EXPECT_TRUE(NoLoopOver(image));
  EXPECT_THAT(Doctor("").out, Not(HasSubstr(image)));
}

TEST_F(CliDoctorTest, UsedLoopDeviceIsIgnored) {
  SharedMount("srv");
  Dir("state/volumes");
  const std::string image = Ext4Image("state/volumes/vol-1.img");
  ASSERT_EQ(Mooring("mount image " + image + " srv/dst").status, 0);
  EXPECT_THAT(Doctor("").out, Not(HasSubstr(image)));
  const std::string block = Losetup(Sparse("state/volumes/vol-2.img", kMiB));
  ASSERT_EQ(Mooring("mount bind " + block + " srv/node").status, 0);
  EXPECT_THAT(Doctor("").out, Not(HasSubstr("vol-2")));
  EXPECT_THAT(Doctor("vol-2").out, HasSubstr("checked: capabilities, kernel features, 1 mount, propagation of '" +
                                             Path("srv/node") + "', volume 'vol-2'"));
  const Ran of_volume = Doctor("vol-1");
  EXPECT_EQ(of_volume.status, 0) << of_volume.out;
  EXPECT_THAT(of_volume.out, HasSubstr("the mount itself, at '" + Path("srv/dst") + "'"));
}

TEST_F(CliDoctorTest, LoopDeviceOverADeletedFile) {
  const std::string file = Sparse("image", kMiB);
  const std::string device = Losetup(file);
  std::filesystem::remove(file);
  const Ran found = Doctor("");
  EXPECT_THAT(found.out,
              HasSubstr(fmt::format("note (leaked-loop): {} is bound to '{}': a file that was deleted", device, file)));
  EXPECT_THAT(Commands(found), Not(::testing::Contains("losetup -d " + device))) << "another program attached it";
  ASSERT_EQ(Shell("losetup -d " + device), 0);
  EXPECT_TRUE(NoLoopOver(file));
  EXPECT_THAT(Doctor("").out, Not(HasSubstr(file)));
}

// A device that a plugin in a container attached may have another path here, or none. The label is the same.
TEST_F(CliDoctorTest, VolumeIsFoundByTheLabelOfItsDevice) {
  SharedMount("srv");
  MountRequest request = MountOf(Ext4Image("elsewhere"), Path("srv/v"));
  request.label = "mooring:vol-1";
  ASSERT_OK(mounter_.Mount(request));
  const Ran ran = Doctor("vol-1");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("propagation of '" + Path("srv/v") + "'"));
}

TEST_F(CliDoctorTest, VolumeInUseShowsCommands) {
  SharedMount("csi");
  const std::string usage = "/v[0]/rw-file-system-single-node-writer";
  const std::string staging = Path("csi/staging/default" + usage), target = Path("csi/per-alloc/a" + usage);
  std::filesystem::create_directories(staging);
  std::filesystem::create_directories(target);
  MountRequest request = MountOf(Ext4Image("image"), staging);
  request.label = "mooring:vol-1";
  ASSERT_OK(mounter_.Mount(request));
  ASSERT_EQ(::mount(staging.c_str(), target.c_str(), nullptr, MS_BIND, nullptr), 0);
  const Ran ran = Doctor("vol-1");
  EXPECT_EQ(ran.status, 0) << "a note";
  const std::size_t unpublish = ran.out.find("# mooring csi unpublish vol-1 --target-path '" + target + "'");
  const std::size_t unstage = ran.out.find("# mooring csi unstage vol-1 --staging-path '" + staging + "'");
  ASSERT_NE(unstage, std::string::npos) << ran.out;
  EXPECT_LT(unpublish, unstage) << ran.out;
}

TEST_F(CliDoctorTest, UnstagedAndUnknownVolumes) {
  Dir("state/volumes");
  Sparse("state/volumes/vol-1.img", kMiB);
  const Ran there = Doctor("vol-1");
  EXPECT_EQ(there.status, kFindings);
  EXPECT_THAT(there.out, HasSubstr("problem (not-staged)"));
  const Ran missing = Doctor("vol-2");
  EXPECT_EQ(missing.status, kFindings);
  EXPECT_THAT(missing.out, HasSubstr("problem (unknown-volume)"));
}

TEST_F(CliDoctorTest, VolumeOnlyInAnotherNamespace) {
  SharedMount("srv");
  Dir("srv/v");
  Dir("state/volumes");
  const std::string device = Losetup(Ext4Image("state/volumes/vol-1.img"));
  const MountNamespace plugin(MountNamespace::Kind::kSlave);
  ASSERT_EQ(
      plugin.Ask([&] { return fmt::format("{}", ::mount(device.c_str(), Path("srv/v").c_str(), "ext4", 0, nullptr)); }),
      "0");
  const Ran found = Doctor("vol-1");
  EXPECT_EQ(found.status, kFindings);
  EXPECT_THAT(found.out, HasSubstr("problem (only-elsewhere)"));
  ASSERT_EQ(RunCommands(found), 0);
  EXPECT_EQ(Doctor("vol-1").status, 0);
}

// A socket that is bound and left behind, as by a driver that was killed.
void LeaveSocket(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
}

TEST_F(CliDoctorTest, DeadSocket) {
  SharedMount("srv");
  const std::string arguments = "srv --endpoint unix://" + Path("csi.sock");
  EXPECT_THAT(Doctor(arguments).out, AllOf(HasSubstr("problem (dead-socket)"), HasSubstr("there is no socket")));
  LeaveSocket(Path("csi.sock"));
  const Ran found = Doctor(arguments);
  EXPECT_EQ(found.status, kFindings);
  EXPECT_THAT(found.out, HasSubstr("no process serves the socket"));
  ASSERT_EQ(Commands(found).size(), 1U);
  ASSERT_EQ(Shell("{ " + Commands(found)[0] + " >plugin.log 2>&1 & echo $! >plugin.pid; }"), 0);
  const pid_t plugin = std::stoi(ReadFile(Path("plugin.pid")));
  const bool served = Eventually([&] { return Doctor(arguments).status == 0; });
  ::kill(plugin, SIGTERM);
  EXPECT_TRUE(Eventually([&] { return !Runs(plugin); }));
  EXPECT_TRUE(served) << ReadFile(Path("plugin.log"));
}

TEST_F(CliDoctorTest, MissingCapability) {
  SharedMount("srv");
  const Ran ran = Mooring("doctor srv", "setpriv --bounding-set -sys_admin --inh-caps -sys_admin");
  EXPECT_EQ(ran.status, kFindings);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("problem (missing-capability): CAP_SYS_ADMIN"),
                             HasSubstr("# sudo mooring doctor"), Not(HasSubstr("missing-feature"))));
}

// The system call fails with `error` for this process and its children from now on.
bool Block(std::uint32_t number, unsigned error) {
  std::array filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

TEST_F(CliDoctorTest, MissingSystemCalls) {
  SharedMount("srv");
  const auto with_blocked = [this](std::uint32_t number, unsigned error) {
    return AskInChild([=, this] {
      if (!Block(number, error)) return std::string("cannot block");
      const Ran ran = Doctor("srv");
      return fmt::format("{}: {}", ran.status, ran.out);
    });
  };
  constexpr std::uint32_t kStatMount = 457;
  EXPECT_THAT(with_blocked(kStatMount, ENOSYS),
              AllOf(HasSubstr("0: "), HasSubstr("note (missing-feature): statmount(2) is missing"), HasSubstr("slow")));
  EXPECT_THAT(with_blocked(SYS_openat2, ENOSYS),
              AllOf(HasSubstr("3: "), HasSubstr("(missing-feature): openat2(2) is missing")));
  EXPECT_THAT(with_blocked(SYS_mount_setattr, EPERM), HasSubstr("mount_setattr(2) is missing"));
}

// A process with an id in its command line, as containerd-shim and conmon have it, and a child in a namespace of its
// own.
class FakeContainer {
 public:
  FakeContainer(const CliTest&, const std::string& id, const std::string& pid_file) {
    const std::string command = fmt::format(
        "setsid bash -c 'unshare -m --propagation private sleep 60 & wait' conmon {} >/dev/null 2>&1 & echo $! >'{}'",
        id, pid_file);
    EXPECT_EQ(::mooring::testing::Run(command), 0);
    group_ = std::stoi(ReadFile(pid_file));
  }
  FakeContainer(const FakeContainer&) = delete;
  FakeContainer& operator=(const FakeContainer&) = delete;
  ~FakeContainer() {
    ::kill(-group_, SIGKILL);
    Eventually([this] { return !Runs(group_); });
  }

 private:
  pid_t group_ = -1;
};

TEST_F(CliDoctorTest, ContainerIsFoundByItsId) {
  SharedMount("srv");
  const std::string id = fmt::format("5f2a90c1b7de{:052x}", ::getpid());
  const FakeContainer container(*this, id, Path("pid"));
  EXPECT_TRUE(Eventually([&] { return Doctor("srv --container " + id).status != 1; }));
  std::this_thread::sleep_for(
      std::chrono::milliseconds(100));  // unshare(1) makes its mounts private after the namespace
  Volume("srv/v");
  const Ran found = Doctor("srv/v --container " + id);
  EXPECT_EQ(found.status, kFindings) << found.err;
  EXPECT_THAT(found.out, HasSubstr("problem (private-copy)"));
  ASSERT_EQ(RunCommands(found), 0);
  EXPECT_EQ(Doctor("srv/v --container " + id).status, 0);
}

TEST_F(CliDoctorTest, WrongArguments) {
  SharedMount("srv");
  EXPECT_EQ(Doctor("srv --pid x").status, 2);
  EXPECT_EQ(Doctor("srv --pid 999999999").status, 1);
  EXPECT_THAT(Doctor("srv --pid 999999999").err, HasSubstr("there is no process 999999999"));
  EXPECT_EQ(Doctor("srv --container web").status, 2);
  EXPECT_EQ(Doctor("srv --container 0123456789ab").status, 1);
  EXPECT_EQ(Doctor("srv --pid 1 --container 0123456789ab").status, 2);
  EXPECT_EQ(Doctor("srv --endpoint http://x").status, 2);
  EXPECT_EQ(Doctor("srv/nothing/there").status, 1);
}

}  // namespace
}  // namespace mooring::testing

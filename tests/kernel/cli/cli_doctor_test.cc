// `mooring doctor` on the real kernel: each test makes a problem, finds it and repairs it with the printed command.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST_F(CliDoctorTest, DirectoryThatIsNotShared) {
  PrivateMount("srv");
  const Ran ran = Doctor("srv/v");
  EXPECT_EQ(ran.status, 1) << "there is no such path: " << ran.out;
  Dir("srv/v");
  const Ran found = ExpectRepaired("srv/v", "not-shared");
  EXPECT_THAT(found.out, HasSubstr(": the mount at '" + Path("srv") + "' is not a shared mount"));
  EXPECT_THAT(Commands(found), ElementsAre("mooring propagation " + Path("srv") + " shared"));
  const MountNamespace task(MountNamespace::Kind::kSlave);  // started after that
  Volume("srv/v");
  EXPECT_EQ(CountIn(task, Path("srv/v")), "1");
}

TEST_F(CliDoctorTest, TaskWithoutRslave) {
  SharedMount("srv");
  const MountNamespace task(MountNamespace::Kind::kPrivate);
  Volume("srv/v");
  ASSERT_EQ(CountIn(task, Path("srv/v")), "0");
  const Ran found = ExpectRepaired("srv/v" + AsSeenBy(task), "private-copy");
  EXPECT_THAT(found.out, AllOf(HasSubstr("rslave"), Not(HasSubstr("not-shared"))));
  EXPECT_EQ(CountIn(task, Path("srv/v")), "1");
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
  EXPECT_THAT(found.out, HasSubstr("problem (private-copy)"));
  ASSERT_EQ(Commands(found).size(), 3U) << found.out;  // what is mounted below it goes first
  ASSERT_EQ(RunCommands(found), 0);
  EXPECT_EQ(task.Ask([&] { return OptionsAt(Path("srv")); }), "ro,nosuid,nodev,relatime");
  EXPECT_EQ(CountIn(task, Path("srv/v")), "1");
  EXPECT_EQ(CountIn(task, Path("srv/old")), "1");
  EXPECT_EQ(Doctor("srv" + AsSeenBy(task)).status, 0);
  Volume("srv/w");
  EXPECT_EQ(CountIn(task, Path("srv/w")), "1") << "later mounts arrive too";
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

TEST_F(CliDoctorTest, MountThatTheTaskHasLost) {
  SharedMount("srv");
  const MountNamespace task(MountNamespace::Kind::kSlave);
  Volume("srv/v");
  ASSERT_EQ(task.Ask([&] { return fmt::format("{}", ::umount(Path("srv/v").c_str())); }), "0");
  ExpectRepaired("srv/v" + AsSeenBy(task), "not-recursive");
  EXPECT_EQ(CountIn(task, Path("srv/v")), "1");
}

TEST_F(CliDoctorTest, TaskWithoutTheDirectory) {
  ASSERT_EQ(::mount("none", Dir("srv").c_str(), "tmpfs", 0, "size=64k"), 0);
  ASSERT_EQ(::mount(nullptr, Path("srv").c_str(), nullptr, MS_SHARED, nullptr), 0);
  const MountNamespace task(MountNamespace::Kind::kSlave);
  ASSERT_EQ(task.Ask([&] { return fmt::format("{}", ::umount(Path("srv").c_str())); }), "0");
  Volume("srv/v");
  ExpectRepaired("srv/v" + AsSeenBy(task), "not-there");
  EXPECT_EQ(CountIn(task, Path("srv/v")), "1");
}

TEST_F(CliDoctorTest, MountOnlyInAnotherNamespace) {
  SharedMount("srv");
  Dir("srv/v");
  const MountNamespace plugin(MountNamespace::Kind::kSlave);
  ASSERT_EQ(plugin.Ask([&] { return fmt::format("{}", ::mount("none", Path("srv/v").c_str(), "tmpfs", 0, nullptr)); }),
            "0");
  ASSERT_THAT(MountsAt(Path("srv/v")), IsEmpty());
  EXPECT_EQ(Doctor("srv/v" + AsSeenBy(plugin)).status, kFindings);
  const Ran found = ExpectRepaired("srv/v", "only-elsewhere");
  EXPECT_THAT(found.out, HasSubstr(fmt::format("pid {} (", plugin.pid())));
  EXPECT_EQ(MountsAt(Path("srv/v")).size(), 1U);
}

class CliDoctorFuseTest : public CliDoctorTest {
 protected:
  void SetUp() override { SharedMount("srv"); }
  // Call it after the namespaces are made: a process that is forked later has the server's end open, too.
  void Serve() {
    fuse_.reset(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fuse_.ok()) << "these tests need FUSE in the kernel";
    const std::string options = fmt::format("fd={},rootmode=40000,user_id=0,group_id=0", fuse_.get());
    ASSERT_EQ(::mount("mooring-test", Dir("srv/v").c_str(), "fuse", 0, options.c_str()), 0);
  }
  void ServeHung() {
    Serve();
    if (!MountsAt("/sys/fs/fuse/connections").empty()) return;
    ASSERT_EQ(::mount("none", "/sys/fs/fuse/connections", "fusectl", 0, nullptr), 0);
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
  EXPECT_THAT(Commands(found),
              ElementsAre("mooring umount " + Path("srv/v"),
                          fmt::format("mooring umount {} --pid {} --if-exists", Path("srv/v"), task.pid())));
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
  ServeHung();
  const Ran found = Doctor("srv/v/a/b");
  EXPECT_EQ(found.status, kFindings) << found.err;
  EXPECT_THAT(found.out, HasSubstr("problem (hung-mount)"));
  EXPECT_EQ(RunCommands(found), 0);
}

TEST_F(CliDoctorFuseTest, HungServerDelaysOnlyBriefly) {
  ServeHung();
  const auto started = std::chrono::steady_clock::now();
  ExpectRepaired("srv/v", "hung-mount");
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(10));
  EXPECT_THAT(MountsAt(Path("srv/v")), IsEmpty());
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

TEST_F(CliDoctorTest, ManagerThatDoesNotAnswer) {
  SharedMount("srv");
  const Ran found = Doctor("--manager " + Path("manager.sock"));
  EXPECT_EQ(found.status, kFindings);
  EXPECT_THAT(found.out, AllOf(HasSubstr("problem (unanswered-manager)"), HasSubstr("start the manager"),
                               HasSubstr("unfinished work of the manager")));
  EXPECT_THAT(Doctor("srv --manager " + Path("manager.sock")).out, HasSubstr("nothing wrong"));
}

TEST_F(CliDoctorTest, BadManagerSocketInTheEnvironment) {
  SharedMount("srv");
  const Ran ran = Mooring("doctor", "env MOORING_MANAGER_SOCKET=tcp://nowhere:1");
  EXPECT_THAT(ran.out, HasSubstr("note (bad-endpoint): MOORING_MANAGER_SOCKET"));
}

TEST_F(CliDoctorTest, MissingCapability) {
  SharedMount("srv");
  const Ran ran = Mooring("doctor srv", "setpriv --bounding-set -sys_admin --inh-caps -sys_admin");
  EXPECT_EQ(ran.status, kFindings);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("problem (missing-capability): CAP_SYS_ADMIN"),
                             HasSubstr("# sudo mooring doctor"), Not(HasSubstr("missing-feature"))));
}

TEST_F(CliDoctorTest, MissingSystemCalls) {
  SharedMount("srv");
  const auto with_failing = [this](std::uint32_t number, unsigned error) {
    return AskInChild([=, this] {
      if (!FailSystemCalls({number}, error)) return std::string("no filter");
      const Ran ran = Doctor("srv");
      return fmt::format("{}: {}", ran.status, ran.out);
    });
  };
  constexpr std::uint32_t kStatMount = 457;
  EXPECT_THAT(with_failing(kStatMount, ENOSYS),
              AllOf(HasSubstr("0: "), HasSubstr("note (missing-feature): statmount(2) is missing"), HasSubstr("slow"),
                    Not(HasSubstr("  # "))));
  EXPECT_THAT(with_failing(SYS_openat2, ENOSYS),
              AllOf(HasSubstr("3: "), HasSubstr("(missing-feature): openat2(2) is missing")));
  EXPECT_THAT(with_failing(SYS_mount_setattr, EPERM), HasSubstr("mount_setattr(2) is missing"));
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
  ExpectRepaired("srv/v --container " + id, "private-copy");
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

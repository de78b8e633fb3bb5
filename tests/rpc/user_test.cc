// The plugin under a user of its own (--user): what it is then, what it cannot reach any more, and that what it keeps
// changes hands, from root to the user, to another one and back. That all else works as before is shown by the other
// tests here, run with MOORING_TEST_USER.
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/unique_fd.h"
#include "tests/rpc/helper_processes.h"
#include "tests/rpc/injection.h"
#include "tests/rpc/rpc_test.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uid_t kUser = 4242, kOther = 4343;
constexpr gid_t kGroup = 4240;
constexpr char kText[] = "4242:4240";
constexpr char kNone[] = "0000000000000000";
constexpr auto kMany = AccessMode::SINGLE_NODE_MULTI_WRITER;
constexpr std::chrono::seconds kLong{15};

struct stat StatOf(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status;
}

class UserTest : public RpcTest {
 protected:
  void SetUp() override {
    if (std::getenv("MOORING_TEST_USER") != nullptr) GTEST_SKIP() << "has users of its own";
    LetIn(kGroup);
    for (const char* pool : {"name=dirs,backend=directory,path=", "name=fast,backend=image,path="}) {
      const std::string text = pool;
      const std::string path = dir() / text.substr(5, 4);
      plugin().options().flags.insert(plugin().options().flags.end(), {"--pool", text + path});
    }
    plugin().options().flags.insert(plugin().options().flags.end(),
                                    {"--pool", "name=mem,backend=tmpfs,size=268435456"});
    as_root_ = plugin().options().flags;
  }

  void WorkAs(const std::string& user) {
    plugin().options().flags = as_root_;
    if (!user.empty()) plugin().options().flags.insert(plugin().options().flags.end(), {"--user", user});
  }
  void StartAs(const std::string& user) {
    driver().Disconnect();
    if (plugin().running()) {
      EXPECT_EQ(plugin().Terminate(), 0) << plugin().Log();
    }
    WorkAs(user);
    Start();
  }
  absl::Status Probe() {
    driver().Connect();
    return driver().Send(csi::v1::ProbeRequest()).status;
  }

  std::string CreatedIn(const std::string& pool) {
    csi::v1::CreateVolumeRequest request;
    request.set_name(pool + "-" + std::to_string(++made_));
    *request.add_volume_capabilities() = Mount("", kMany);
    request.mutable_capacity_range()->set_required_bytes(kVolumeBytes);
    (*request.mutable_parameters())["pool"] = pool;
    const auto made = driver().Send(request);
    EXPECT_OK(made);
    return made->volume().volume_id();
  }
  void Publish(const std::string& id) {
    EXPECT_OK(driver().Stage(id, Staging(id), Mount("", kMany)));
    EXPECT_OK(driver().Publish(id, Staging(id), Target("a", id), Mount("", kMany)));
  }
  void TakeDown(const std::string& id) {
    EXPECT_OK(driver().Unpublish(id, Target("a", id)));
    EXPECT_OK(driver().Unstage(id, Staging(id)));
  }

  // Everything of ours that is not of this user.
  std::vector<std::string> NotOf(uid_t user, gid_t group) {
    std::vector<std::string> others;
    const auto look = [&](const std::string& path) {
      const struct stat status = StatOf(path);
      if (status.st_uid != user || status.st_gid != group) others.push_back(path);
    };
    for (const std::string& top : {state_dir(), dir() / "dirs", dir() / "fast"}) look(top);
    for (const auto& entry : fs::recursive_directory_iterator(state_dir())) {
      if (entry.path().filename() != "users") look(entry.path());
    }
    for (const auto& entry : fs::directory_iterator(dir() / "fast")) look(entry.path());
    return others;
  }

  std::vector<std::string> as_root_;

 private:
  int made_ = 0;
};

// ---- what it is, and what it cannot reach

TEST_F(UserTest, ItIsThatUserWithoutAnyPrivilegeAndTheHelperStaysRoot) {
  StartAs(kText);
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(plugin().pid()) + "/task")) {
    const pid_t thread = std::stoi(entry.path().filename());
    const auto field = [&](const char* key) { return StatusField(plugin().pid(), thread, key); };
    EXPECT_EQ(field("Uid"), "4242\t4242\t4242\t4242");
    EXPECT_EQ(field("Gid"), "4240\t4240\t4240\t4240");
    EXPECT_EQ(field("Groups"), "");
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) EXPECT_EQ(field(set), kNone) << set;
    EXPECT_EQ(field("NoNewPrivs"), "1");
    EXPECT_EQ(field("Seccomp"), "2");
  }
  const pid_t helper = HelperOf(plugin().pid());
  ASSERT_GT(helper, 0);
  EXPECT_EQ(StatusField(helper, helper, "Uid"), "0\t0\t0\t0");
}

TEST_F(UserTest, WhatIsRootsAloneItCannotRead) {
  if (!Injection::Possible()) GTEST_SKIP() << "system calls are injected on x86-64 alone";
  for (const char* user : {"", kText}) {
    StartAs(user);
    const std::string secret = state_dir() + "/secret";
    std::ofstream(secret) << "root's";
    ASSERT_EQ(::chmod(secret.c_str(), 0600), 0);
    Injection thread(plugin().pid(), plugin().pid());
    ASSERT_TRUE(thread.ok());
    constexpr auto kHere = static_cast<std::uint64_t>(AT_FDCWD);
    const auto open = [&](const std::string& path) {
      const std::int64_t fd = thread.Call(SYS_openat, {kHere, path, O_RDONLY, 0, 0, 0});
      if (fd >= 0) thread.Call(SYS_close, {static_cast<std::uint64_t>(fd), 0, 0, 0, 0, 0});
      return fd;
    };
    if (*user == '\0') {
      EXPECT_GE(open(secret), 0) << "what root's user id alone allows";
    } else {
      for (const std::string& path : {secret, std::string("/etc/shadow"), std::string("/etc/gshadow")}) {
        EXPECT_EQ(open(path), -EACCES) << path;
      }
      EXPECT_GE(open("/etc/passwd"), 0);
      for (const long call : {SYS_setuid, SYS_setresuid, SYS_setgid, SYS_setgroups}) {
        EXPECT_LT(thread.Call(call, {0, 0, 0, 0, 0, 0}), 0);
      }
    }
    fs::remove(secret);
  }
}

// ---- what it keeps changes hands

TEST_F(UserTest, AStateDirectoryGoesToTheUserToAnotherAndBack) {
  StartAs("");
  const std::string image = CreatedIn("fast"), plain = CreatedIn("default"), directory = CreatedIn("dirs"),
                    memory = CreatedIn("mem");
  for (const std::string& id : {image, plain, directory, memory}) Publish(id);
  ASSERT_EQ(TryWrite(Target("a", image) + "/file", "kept"), 0);
  const std::vector<std::pair<std::string, std::pair<uid_t, gid_t>>> users = {
      {kText, {kUser, kGroup}}, {"4343:4240", {kOther, kGroup}}, {"", {0, 0}}, {kText, {kUser, kGroup}}};
  for (const auto& [user, ids] : users) {
    SCOPED_TRACE(user);
    StartAs(user);
    EXPECT_THAT(NotOf(ids.first, ids.second), IsEmpty());
    EXPECT_EQ(ReadFile(Target("a", image) + "/file"), "kept");
    for (const std::string& id : {image, plain, directory, memory}) {
      EXPECT_OK(driver().Publish(id, Staging(id), Target("a", id), Mount("", kMany)));
      EXPECT_OK(driver().Publish(id, Staging(id), Target("b", id), Mount("", kMany)));
      EXPECT_OK(driver().Unpublish(id, Target("b", id)));
    }
    EXPECT_OK(driver().Grow(plain, StatOf(state_dir() + "/volumes/" + plain + ".img").st_size + 16 * kMiB));
    const std::string fresh = CreatedIn("fast");
    Publish(fresh);
    TakeDown(fresh);
    EXPECT_OK(driver().Delete(fresh));
  }
  EXPECT_EQ(StatOf(state_dir() + "/users").st_uid, 0U);
  for (const std::string& id : {image, plain, directory, memory}) TakeDown(id);
}

// Each thing that is made later, by the plugin or by the helper, is the user's.
TEST_F(UserTest, WhatIsMadeLaterIsTheUsersAndADirectoryVolumeIsAsRootMakesIt) {
  StartAs(kText);
  const std::string image = CreatedIn("default"), directory = CreatedIn("dirs"), memory = CreatedIn("mem");
  for (const std::string& id : {image, directory, memory}) Publish(id);
  csi::v1::CreateSnapshotRequest request;
  request.set_name("of-it");
  request.set_source_volume_id(image);
  const auto snapshot = driver().Send(request);
  ASSERT_OK(snapshot);
  EXPECT_THAT(NotOf(kUser, kGroup), IsEmpty()) << "formatted and copied by root";
  for (const std::string& id : {image, directory, memory}) {
    EXPECT_EQ(StatOf(Target("a", id)).st_uid, 0U);
    EXPECT_EQ(StatOf(Target("a", id)).st_mode & 07777U, 0755U);
    TakeDown(id);
  }
  csi::v1::DeleteSnapshotRequest gone;
  gone.set_snapshot_id(snapshot->snapshot().snapshot_id());
  EXPECT_OK(driver().Send(gone));
}

// A task may run under the plugin's number, as nobody or 1000.
TEST_F(UserTest, ADirectoryVolumeIsMadeRootsOnceAndThenItsTasksDecide) {
  StartAs(kText);
  const std::string id = CreatedIn("dirs");
  Publish(id);
  EXPECT_EQ(StatOf(Target("a", id)).st_uid, 0U);
  EXPECT_EQ(StatOf(Target("a", id)).st_mode & 07777U, 0755U);
  ASSERT_EQ(::chown(Target("a", id).c_str(), kUser, kGroup), 0);
  TakeDown(id);
  Publish(id);
  EXPECT_EQ(StatOf(Target("a", id)).st_uid, kUser);
  TakeDown(id);
}

// As /tmp has it, or a directory for uploads; whoever the plugin is, and whoever the task.
TEST_F(UserTest, TheModeThatATaskGaveADirectoryVolumeIsKept) {
  for (const char* user : {"", kText}) {
    StartAs(user);
    for (const uid_t owner : {uid_t{0}, kUser}) {
      for (const mode_t mode : {01777U, 01755U, 0000U, 03770U}) {
        SCOPED_TRACE(std::string(user) + " " + std::to_string(owner) + " " + std::to_string(mode));
        const std::string id = CreatedIn("dirs");
        Publish(id);
        ASSERT_EQ(::chown(Target("a", id).c_str(), owner, 0), 0);
        ASSERT_EQ(::chmod(Target("a", id).c_str(), mode), 0);
        TakeDown(id);
        Publish(id);
        EXPECT_EQ(StatOf(Target("a", id)).st_uid, owner);
        EXPECT_EQ(StatOf(Target("a", id)).st_mode & 07777U, mode);
        TakeDown(id);
        EXPECT_OK(driver().Delete(id));
      }
    }
  }
}

// Whoever the plugin is by then; also where the helper was killed between the two.
TEST_F(UserTest, ADirectoryVolumeThatWasNeverStagedIsRootsWhenItIs) {
  for (const char* next : {"", kText, "4343:4240"}) {
    for (const uid_t owner : {kUser, uid_t{0}}) {
      SCOPED_TRACE(next);
      StartAs(kText);
      const std::string id = CreatedIn("dirs"), path = dir() / "dirs/" + id;
      EXPECT_EQ(StatOf(path).st_mode & 07777U, 01000U) << "nobody's yet";
      ASSERT_EQ(::chown(path.c_str(), owner, 0), 0);
      StartAs(next);
      Publish(id);
      EXPECT_EQ(StatOf(Target("a", id)).st_uid, 0U);
      EXPECT_EQ(StatOf(Target("a", id)).st_mode & 07777U, 0755U);
      TakeDown(id);
      EXPECT_OK(driver().Delete(id));
    }
  }
  EXPECT_OK(driver().Delete(CreatedIn("dirs"))) << "never staged at all";
}

TEST_F(UserTest, AHandoverThatWasCutShortIsCarriedOnWhoeverIsNext) {
  StartAs(kText);
  const std::string one = CreatedIn("default"), two = CreatedIn("default");
  for (const char* next : {kText, "", kText}) {
    plugin().Kill();
    ASSERT_EQ(::chown(state_dir().c_str(), *next == '\0' ? kUser : 0, 0), 0);
    ASSERT_EQ(::chown(Image(one).c_str(), 0, 0), 0);
    ASSERT_EQ(::chown(Image(two).c_str(), kUser, kGroup), 0);
    StartAs(next);
    EXPECT_THAT(NotOf(*next == '\0' ? 0 : kUser, *next == '\0' ? 0 : kGroup), IsEmpty());
  }
}

TEST_F(UserTest, SomebodyElsesStateDirectoryIsNotTaken) {
  const std::string foreign = MakeDirectories("state");
  std::ofstream(foreign + "/catalog.db") << "";
  for (const std::string& path : {foreign, foreign + "/catalog.db"}) ASSERT_EQ(::chown(path.c_str(), 777, 777), 0);
  ASSERT_EQ(::chmod(foreign.c_str(), 0700), 0);
  std::ofstream(foreign + "/users") << "777\n";  // he names himself
  ASSERT_EQ(::chown((foreign + "/users").c_str(), 777, 777), 0);
  for (const char* user : {"", kText}) {
    WorkAs(user);
    plugin().Launch();
    EXPECT_TRUE(Eventually([this] { return absl::IsFailedPrecondition(Probe()); }, kLong));
    EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition, "(owner 777, mode 700): give the plugin a directory"));
    plugin().Kill();
    EXPECT_EQ(StatOf(foreign + "/catalog.db").st_uid, 777U);
  }
  fs::remove_all(foreign);
}

TEST_F(UserTest, NoLinkIsFollowedAndNothingElseIsTaken) {
  StartAs("");
  const std::string id = CreatedIn("default"), volumes = state_dir() + "/volumes/";
  const std::string outside = dir() / "outside";
  std::ofstream(outside) << "root's";
  fs::create_symlink(outside, volumes + "vol-link.img");
  fs::create_hard_link(outside, volumes + "vol-second-name.img");
  fs::create_directory(volumes + "vol-directory.img");
  std::ofstream(volumes + "notes-of-the-administrator") << "root's";
  fs::create_directory_symlink(dir().path(), state_dir() + "/memory/link");
  StartAs(kText);
  for (const std::string& path : {outside, volumes + "vol-link.img", volumes + "vol-second-name.img",
                                  volumes + "vol-directory.img", volumes + "notes-of-the-administrator"}) {
    EXPECT_EQ(StatOf(path).st_uid, 0U) << path;
  }
  EXPECT_EQ(StatOf(dir().path()).st_uid, 0U);
  EXPECT_EQ(StatOf(Image(id)).st_uid, kUser);
  driver().Disconnect();
  EXPECT_EQ(plugin().Terminate(), 0);
  for (const char* name : {"vol-link.img", "vol-second-name.img", "vol-directory.img", "notes-of-the-administrator"}) {
    fs::remove_all(volumes + name);
  }
  fs::remove(state_dir() + "/memory/link");
  Start();
}

// A process of that user's, by the name alone.
class HostileOwner : public UserTest {
 protected:
  void StartWithPoolIn(const std::string& path) {
    pool_ = path;
    as_root_.insert(as_root_.end(), {"--pool", "name=inside,backend=image,path=" + path});
    StartAs(kText);
    driver().Disconnect();
    EXPECT_EQ(plugin().Terminate(), 0);
  }
  // Done by the user; 0, or the errno.
  static int AsUser(const std::function<bool()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgroups(0, nullptr) != 0 || ::setresgid(kGroup, kGroup, kGroup) != 0 ||
          ::setresuid(kUser, kUser, kUser) != 0) {
        ::_exit(255);
      }
      ::_exit(work() ? 0 : errno);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  }
  void ExpectRefused(const std::string& why) {
    plugin().Launch();
    EXPECT_TRUE(Eventually([this] { return absl::IsFailedPrecondition(Probe()); }, kLong)) << plugin().Log();
    EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition, why));
    driver().Disconnect();
    EXPECT_EQ(plugin().Terminate(), 0);
  }
  std::string pool_;
};

TEST_F(HostileOwner, WhoPutsALinkInThePlaceOfAPoolGetsNothingOfRoots) {
  StartWithPoolIn(state_dir() + "/fast");
  const std::string roots = MakeDirectories("roots"), aside = state_dir() + "/aside";
  ASSERT_EQ(AsUser([&] { return ::rename(pool_.c_str(), aside.c_str()) == 0; }), 0);
  ASSERT_EQ(AsUser([&] { return ::symlink(roots.c_str(), pool_.c_str()) == 0; }), 0);
  for (const char* user : {kText, "4343:4240", ""}) {
    SCOPED_TRACE(user);
    WorkAs(user);
    ExpectRefused("leads through the symbolic link 'fast', in a directory where others than root may write");
    EXPECT_EQ(StatOf(roots).st_uid, 0U);
  }
  ASSERT_EQ(::unlink(pool_.c_str()), 0);
  ASSERT_EQ(::rename(aside.c_str(), pool_.c_str()), 0);
  StartAs(kText);
}

// As /var/local is on Debian: root's group may write there.
TEST_F(HostileOwner, WhereALinkLeadsNoModeIsChanged) {
  StartWithPoolIn(state_dir() + "/fast");
  const std::string roots = MakeDirectories("roots"), aside = state_dir() + "/aside";
  ASSERT_EQ(::chmod(roots.c_str(), 02775), 0);
  ASSERT_EQ(AsUser([&] { return ::rename(pool_.c_str(), aside.c_str()) == 0; }), 0);
  ASSERT_EQ(AsUser([&] { return ::symlink(roots.c_str(), pool_.c_str()) == 0; }), 0);
  ExpectRefused("leads through the symbolic link 'fast'");
  EXPECT_EQ(StatOf(roots).st_mode & 07777U, 02775U);
  ASSERT_EQ(::unlink(pool_.c_str()), 0);
  ASSERT_EQ(::rename(aside.c_str(), pool_.c_str()), 0);
  StartAs(kText);
}

TEST_F(HostileOwner, ALinkFurtherUpOrBehindARelativeOneIsSeen) {
  ASSERT_TRUE(fs::create_directories(state_dir() + "/a/b"));
  ASSERT_EQ(::chmod(state_dir().c_str(), 0700), 0);
  StartWithPoolIn(state_dir() + "/a/b/fast");
  const std::string roots = MakeDirectories("roots/b");
  ASSERT_EQ(AsUser([&] { return ::rename((state_dir() + "/a").c_str(), (state_dir() + "/x").c_str()) == 0; }), 0);
  ASSERT_EQ(AsUser([&] { return ::symlink("../roots", (state_dir() + "/a").c_str()) == 0; }), 0);
  WorkAs(kText);
  ExpectRefused("leads through the symbolic link 'a'");
  EXPECT_EQ(StatOf(roots).st_uid, 0U);
  fs::remove_all(roots + "/fast");
  ASSERT_EQ(::unlink((state_dir() + "/a").c_str()), 0);
  ASSERT_EQ(::rename((state_dir() + "/x").c_str(), (state_dir() + "/a").c_str()), 0);
  StartAs(kText);
}

// As /srv, /home, /var/lib are: whoever names one by mistake does not lose it.
TEST_F(HostileOwner, ADirectoryOfRootsThatHoldsMoreIsNotGivenAway) {
  const std::string full = MakeDirectories("full");
  std::ofstream(full + "/of-somebody") << "";
  StartAs("");
  driver().Disconnect();
  EXPECT_EQ(plugin().Terminate(), 0);
  const std::string before = plugin().options().state_dir;
  for (const std::string kind : {"image", "directory"}) {
    WorkAs(kText);
    plugin().options().flags.insert(plugin().options().flags.end(),
                                    {"--pool", "name=full,backend=" + kind + ",path=" + full});
    ExpectRefused("'" + full + "' is root's and holds 'of-somebody', which is none of the plugin's");
    EXPECT_EQ(StatOf(full).st_uid, 0U);
  }
  WorkAs(kText);
  plugin().options().state_dir = full;
  ExpectRefused("'" + full + "' is root's and holds 'of-somebody'");
  EXPECT_EQ(StatOf(full).st_uid, 0U);
  EXPECT_FALSE(fs::exists(full + "/users"));
  plugin().options().state_dir = before;
  ASSERT_EQ(::chown(full.c_str(), kUser, kGroup), 0);  // by hand it may be
  as_root_.insert(as_root_.end(), {"--pool", "name=full,backend=image,path=" + full});
  StartAs(kText);
}

TEST_F(UserTest, AStateDirectoryThatTheUserCannotReachIsToldUntilHeCan) {
  const std::string locked = MakeDirectories("locked");
  ASSERT_EQ(::chmod(locked.c_str(), 0700), 0);
  const std::string before = plugin().options().state_dir;
  plugin().options().state_dir = locked + "/state";
  WorkAs(kText);
  plugin().Launch();
  EXPECT_TRUE(Eventually([this] { return absl::IsFailedPrecondition(Probe()); }, kLong));
  EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition, "Permission denied: the plugin works as user 4242:4240"));
  ASSERT_EQ(::chmod(locked.c_str(), 0711), 0);
  EXPECT_TRUE(Eventually([this] { return Probe().ok(); }, kLong));
  driver().Disconnect();
  EXPECT_EQ(plugin().Terminate(), 0);
  plugin().options().state_dir = before;
  Start();
}

TEST_F(UserTest, WhoAnswersMeanwhileIsThatUserAndEndsWithThePlugin) {
  MountTmpfs(state_dir(), "size=16m,mode=700");
  ASSERT_EQ(Shell("mount -o remount,ro " + state_dir()), 0);
  WorkAs(kText);
  plugin().Launch();
  EXPECT_TRUE(Eventually([this] { return absl::IsFailedPrecondition(Probe()); }, kLong));
  const std::vector<pid_t> children = ChildrenOf(plugin().pid());
  ASSERT_EQ(children.size(), 1U);
  EXPECT_EQ(StatusField(children[0], children[0], "Uid"), "4242\t4242\t4242\t4242");
  plugin().Kill();
  EXPECT_TRUE(Eventually([&] { return !Runs(children[0]); })) << "and leaves the socket to the next";
  ASSERT_EQ(Shell("mount -o remount,rw " + state_dir()), 0);
  StartAs(kText);
}

TEST_F(UserTest, AUserWhoCannotBeNotedIsToldOnce) {
  MountTmpfs(state_dir(), "nr_inodes=1,mode=700");
  WorkAs(kText);
  plugin().Launch();
  EXPECT_TRUE(Eventually([this] { return absl::IsFailedPrecondition(Probe()); }, kLong)) << plugin().Log();
  const std::vector<pid_t> first = ChildrenOf(plugin().pid());
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition, "note the user in '" + state_dir() + "/users': No space"));
  EXPECT_EQ(ChildrenOf(plugin().pid()), first) << "nothing has changed: " << plugin().Log();
  plugin().Kill();
}

// ---- the socket

// Whether a root without a capability, as an orchestrator's may be, reaches a socket.
bool BareRootConnects(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setgroups(0, nullptr);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    ::syscall(SYS_capset, std::array<unsigned, 2>{0x20080522, 0}.data(), std::array<unsigned, 6>{}.data());
    ::_exit(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0;
}

class UsersSocket : public UserTest {
 protected:
  void SetUp() override {
    UserTest::SetUp();
    plugin().options().socket = csi_ + "/csi.sock";
  }
  bool Serves() {
    Driver client(csi_ + "/csi.sock");
    return client.Send(csi::v1::ProbeRequest()).status.ok();
  }
  void EndAndStart(const std::string& user, int signal) {
    if (plugin().running()) plugin().End(signal);
    WorkAs(user);
    ASSERT_TRUE(plugin().Start());
  }
  void TearDown() override {
    if (plugin().running()) {
      EXPECT_EQ(plugin().Terminate(), 0);
    }
    RpcTest::TearDown();
  }
  const std::string csi_ = MakeDirectories("socket");
};

TEST_F(UsersSocket, InADirectoryOfItsOwnIsReachedByRootAndReplacedByWhoeverIsNext) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    for (const char* user : {kText, kText, "4343:4343", "", kText, ""}) {
      SCOPED_TRACE(user);
      EndAndStart(user, signal);
      EXPECT_TRUE(Serves());
      EXPECT_TRUE(BareRootConnects(csi_ + "/csi.sock"));
      const struct stat socket = StatOf(csi_ + "/csi.sock"), directory = StatOf(csi_);
      EXPECT_EQ(socket.st_gid, 0U);
      EXPECT_EQ(socket.st_mode & 0777U, 0660U);
      EXPECT_EQ(socket.st_uid, directory.st_uid);
      EXPECT_EQ(directory.st_gid, 0U);
      EXPECT_EQ(directory.st_mode & 07777U, *user == '\0' ? 0755U : 02775U);
    }
  }
  EXPECT_EQ(plugin().Terminate(), 0);
  EXPECT_TRUE(fs::is_empty(csi_));
}

// Its members were never to put a socket of theirs in the place of the plugin's.
TEST_F(UsersSocket, InADirectoryOfAnotherGroupThatGroupGetsNothingAndRootsKeepsWhatItHad) {
  struct Case {
    gid_t group;
    mode_t mode, given;
  };
  for (const auto& [group, mode, given] :
       {Case{4444, 0750, 02750}, Case{4444, 0770, 02770}, Case{0, 0775, 03775}, Case{0, 0755, 02775}}) {
    EXPECT_EQ(::chown(csi_.c_str(), 0, group), 0);
    EXPECT_EQ(::chmod(csi_.c_str(), mode), 0);
    for (const char* user : {kText, "4343:4343", "", kText, ""}) {
      SCOPED_TRACE(std::string(user) + " " + std::to_string(mode));
      EndAndStart(user, SIGTERM);
      EXPECT_TRUE(Serves());
      EXPECT_EQ(StatOf(csi_).st_mode & 07777U, *user == '\0' ? mode : given);
      EXPECT_EQ(StatOf(csi_).st_gid, group);
    }
  }
}

TEST_F(UsersSocket, InADirectoryThatTheUserMayWriteInThatStaysAsItIs) {
  ASSERT_EQ(::chown(csi_.c_str(), kUser, kGroup), 0);
  for (const int signal : {SIGTERM, SIGKILL}) {
    EndAndStart(kText, signal);
    EXPECT_TRUE(Serves());
    EXPECT_EQ(StatOf(csi_).st_mode & 07777U, 0755U);
    EXPECT_EQ(StatOf(csi_).st_gid, kGroup);
  }
}

TEST_F(UsersSocket, IsNotMadeAmongOtherThings) {
  std::ofstream(csi_ + "/of-another") << "";
  WorkAs(kText);
  plugin().Launch();
  EXPECT_EQ(plugin().Wait(), 1);
  EXPECT_THAT(plugin().Log(), HasSubstr("user 4242:4240 may not make a socket in '" + csi_ + "', which is root's"));
  EXPECT_EQ(StatOf(csi_).st_uid, 0U);
}

TEST_F(UsersSocket, WhereKubeletKeepsThoseOfAllDriversIsRootsAndItSaysSo) {
  const std::string registry = MakeDirectories("plugins_registry");
  WorkAs(kText);
  plugin().options().flags.insert(plugin().options().flags.end(), {"--kubelet-registration-dir", registry});
  plugin().Launch();
  EXPECT_EQ(plugin().Wait(), 1);
  EXPECT_THAT(plugin().Log(),
              HasSubstr("register with kubelet in '" + registry + "': Permission denied: user 4242:4240"));
  ASSERT_EQ(::chown(registry.c_str(), 0, kGroup), 0);
  ASSERT_EQ(::chmod(registry.c_str(), 0770), 0);
  ASSERT_TRUE(plugin().Start());
  EXPECT_TRUE(Eventually([&] { return fs::is_socket(registry + "/mooring.csi-reg.sock"); }));
}

TEST_F(UsersSocket, AKubeletsDirectoryThatIsMissingIsNoMatterOfTheUser) {
  WorkAs(kText);
  const std::string missing = dir() / "missing/plugins_registry";
  plugin().options().flags.insert(plugin().options().flags.end(), {"--kubelet-registration-dir", missing});
  plugin().Launch();
  EXPECT_EQ(plugin().Wait(), 1);
  EXPECT_THAT(plugin().Log(), AllOf(HasSubstr("register with kubelet in '" + missing + "': No such file or directory"),
                                    Not(HasSubstr("without --user"))));
}

TEST_F(UsersSocket, ThatRootServesIsNotTaken) {
  EndAndStart("", SIGTERM);
  PluginProcess another({.socket = csi_ + "/csi.sock",
                         .state_dir = dir() / "state2",
                         .log_file = dir() / "another.log",
                         .flags = {"--user", kText},
                         .environment = {}});
  another.Launch();
  EXPECT_EQ(another.Wait(), 1);
  EXPECT_THAT(another.Log(), HasSubstr("served by another process"));
  EXPECT_TRUE(Serves());
  fs::remove_all(dir() / "state2");
}

// Not even for the moment until it is found out: what the first keeps stays its user's, and it serves on.
TEST_F(UsersSocket, WhileAPluginRunsAnotherUserGetsNothingOfItsStateDirectory) {
  for (const auto& [first, second] : {std::pair("", kText), std::pair(kText, ""), std::pair(kText, "4343:4343")}) {
    SCOPED_TRACE(std::string(first) + " then " + second);
    EndAndStart(first, SIGTERM);
    for (const std::string& socket : {csi_ + "/csi.sock", MakeDirectories("socket2") + "/csi.sock"}) {
      PluginProcess another(plugin().options());
      another.options().socket = socket;
      another.options().log_file = dir() / "another.log";
      WorkAs(second);
      another.options().flags = plugin().options().flags;
      another.Launch();
      const std::string why =
          socket.starts_with(csi_ + "/") ? "served by another process" : "another process works with";
      EXPECT_TRUE(Eventually([&] { return another.Log().find(why) != std::string::npos; }, kLong)) << another.Log();
      EXPECT_EQ(StatOf(state_dir()).st_uid, *first == '\0' ? 0 : kUser);
      EXPECT_EQ(StatOf(state_dir() + "/catalog.db").st_uid, *first == '\0' ? 0 : kUser);
      EXPECT_TRUE(Serves());
      another.Kill();
      fs::remove(dir() / "another.log");
    }
    Driver client(csi_ + "/csi.sock");
    const auto made = client.Create("afterwards");
    ASSERT_OK(made);
    EXPECT_OK(client.Delete(made->volume().volume_id()));
  }
  EndAndStart(kText, SIGKILL);  // the lock ended with its holder
  EXPECT_TRUE(Serves());
}

// ---- what can be written

TEST_F(UserTest, WhatIsNoUserIsRefusedAndNobodyElseThanRootBecomesOne) {
  const auto said = [&](const std::string& arguments, const std::string& before = "") {
    return RunOutput(before + MOORING_PLUGIN_BINARY + " --endpoint " + (dir() / "x.sock") + " --state-dir " +
                     (dir() / "x-state") + " " + arguments + " 2>&1; echo status $?");
  };
  EXPECT_THAT(said("--user no-such-user"), AllOf(HasSubstr("no such user: give its number"), HasSubstr("status 1")));
  EXPECT_THAT(said("--user 4242:no-such-group"), HasSubstr("no such group: give its number"));
  EXPECT_THAT(said("--user :4242"), HasSubstr("write NAME or UID"));
  EXPECT_THAT(said("--user 4294967295"), HasSubstr("no such user"));
  EXPECT_THAT(said("--user 0:4242"), HasSubstr("root keeps its group"));
  EXPECT_THAT(said("--user 4242 --mounter=in-process"), HasSubstr("that is for --mounter=helper"));
  fs::remove_all(dir() / "x-state");
}

TEST_F(UserTest, WhoMayNotBecomeThatUserSaysSoAndHasGivenNothingAway) {
  WorkAs(kText);
  plugin().options().own_mount_namespace = true;
  plugin().options().first = "exec setpriv --bounding-set -setuid,-setgid --inh-caps -setuid,-setgid \"$0\" \"$@\"";
  plugin().Launch();
  EXPECT_EQ(plugin().Wait(), 1);
  EXPECT_THAT(plugin().Log(), AllOf(HasSubstr("become user 4242:4240 (start the plugin as root, with CAP_SETUID"),
                                    HasSubstr("Operation not permitted"), Not(HasSubstr("may write there"))));
  EXPECT_FALSE(fs::exists(state_dir()));
  EXPECT_FALSE(fs::exists(dir() / "dirs"));
}

TEST_F(UserTest, ANameMeansItsUserAndGroup) {
  LetIn(65534);
  StartAs("nobody");
  EXPECT_EQ(StatusField(plugin().pid(), plugin().pid(), "Uid"), "65534\t65534\t65534\t65534");
  EXPECT_EQ(StatusField(plugin().pid(), plugin().pid(), "Gid"), "65534\t65534\t65534\t65534");
}

}  // namespace
}  // namespace mooring::testing

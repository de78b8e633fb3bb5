// The plugin with --user: its privileges, and the directories that it accepts. The other RPC tests also run with
// MOORING_TEST_USER.
#include "tests/rpc/hostile/user_test.h"

#include <sys/syscall.h>

#include "tests/rpc/support/injection.h"

namespace mooring::testing {
namespace {

constexpr char kNone[] = "0000000000000000";

TEST_F(UserTest, PluginHasNoPrivilegeAndHelperIsRoot) {
  StartAs(kText);
  const std::vector<std::string> threads = ThreadStatuses(plugin().pid());
  EXPECT_GT(threads.size(), 3U);
  for (const std::string& thread : threads) {
    const auto field = [&](const char* key) { return FieldOf(thread, key); };
    EXPECT_EQ(field("Uid"), "4242\t4242\t4242\t4242");
    EXPECT_EQ(field("Gid"), "4240\t4240\t4240\t4240");
    EXPECT_EQ(field("Groups"), "");
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) EXPECT_EQ(field(set), kNone) << set;
    EXPECT_EQ(field("NoNewPrivs"), "1");
    EXPECT_EQ(field("Seccomp"), "2");
  }
  const pid_t helper = HelperOf(plugin().pid());
  ASSERT_GT(helper, 0);
  EXPECT_EQ(StatusField(helper, "Uid"), "0\t0\t0\t0");
}

TEST_F(UserTest, FilesOfRootCannotBeRead) {
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
      EXPECT_GE(open(secret), 0) << "the user id of root allows this";
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

TEST_F(UserTest, ProbeGivesTheCommandsThatChangeTheOwner) {
  StartAs("");
  const std::string image = CreatedIn("fast"), plain = CreatedIn("default"), directory = CreatedIn("dirs"),
                    memory = CreatedIn("mem");
  for (const std::string& id : {image, plain, directory, memory}) Publish(id);
  ASSERT_EQ(TryWrite(Target("a", image) + "/file", "kept"), 0);
  const std::vector<std::pair<std::string, std::pair<uid_t, gid_t>>> users = {{kText, {kUser, kGroup}},
                                                                              {"4343:4240", {kOther, kGroup}}};
  for (const auto& [user, ids] : users) {
    SCOPED_TRACE(user);
    StopPlugin();
    WorkAs(user);
    plugin().Launch();
    std::vector<std::string> ran;
    EXPECT_TRUE(Eventually(
        [&] {
          const std::string answer = Message(Probe().status);
          constexpr std::string_view kBefore = ", then run: ";
          const std::size_t at = answer.find(kBefore);
          if (at != std::string::npos) ran.push_back(answer.substr(at + kBefore.size()));
          return at == std::string::npos ? Probe().status.ok() : Shell(ran.back()) != 0;
        },
        kLong))
        << plugin().Log();
    EXPECT_THAT(ran, Contains(AllOf(StartsWith("chown -R --from="), HasSubstr(state_dir()))));
    EXPECT_THAT(FilesNotOwnedBy(ids.first, ids.second), IsEmpty());
    EXPECT_EQ(ReadFile(Target("a", image) + "/file"), "kept");
    for (const std::string& id : {image, plain, directory, memory}) {
      EXPECT_OK(driver().Publish(id, Staging(id), Target("a", id), kSharedMount));
      EXPECT_OK(driver().Publish(id, Staging(id), Target("b", id), kSharedMount));
      EXPECT_OK(driver().Unpublish(id, Target("b", id)));
    }
    EXPECT_OK(driver().Grow(plain, StatOf(state_dir() + "/volumes/" + plain + ".img").st_size + 16 * kMiB));
    const std::string fresh = CreatedIn("fast");
    Publish(fresh);
    TakeDown(fresh);
    EXPECT_OK(driver().Delete(fresh));
  }
  for (const std::string& id : {image, plain, directory, memory}) TakeDown(id);
}

// All files that the plugin or the helper makes later belong to the user.
TEST_F(UserTest, NewFilesBelongToTheUserAndVolumesToRoot) {
  StartAs(kText);
  const std::string image = CreatedIn("default"), directory = CreatedIn("dirs"), memory = CreatedIn("mem");
  for (const std::string& id : {image, directory, memory}) Publish(id);
  Snapped("of-it", image);
  EXPECT_THAT(FilesNotOwnedBy(kUser, kGroup), IsEmpty()) << "formatted and copied by root";
  for (const std::string& id : {image, directory, memory}) {
    EXPECT_EQ(StatOf(Target("a", id)).st_uid, 0U);
    EXPECT_EQ(StatOf(Target("a", id)).st_mode & 07777U, 0755U);
    TakeDown(id);
  }
}

// Such modes are usual for /tmp and for directories of uploads. The user of the plugin and the task do not matter.
TEST_F(UserTest, DirectoryVolumeKeepsTheModeOfItsTask) {
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

// The user of the plugin does not matter. The owner may be root already, if the helper was killed during the change.
TEST_F(UserTest, FirstStageGivesADirectoryVolumeToRoot) {
  for (const char* next : {"", kText, "4343:4240"}) {
    for (const uid_t owner : {kUser, uid_t{0}}) {
      SCOPED_TRACE(next);
      StartAs(kText);
      const std::string id = CreatedIn("dirs"), path = dir() / "dirs/" + id;
      EXPECT_EQ(StatOf(path).st_mode & 07777U, 01000U) << "not staged yet";
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

TEST_F(UserTest, DirectoryOfAnotherUserStaysUnchanged) {
  const std::string foreign = MakeDirectories("state");
  std::ofstream(foreign + "/catalog.db") << "";
  for (const std::string& path : {foreign, foreign + "/catalog.db"}) ASSERT_EQ(::chown(path.c_str(), 777, 777), 0);
  ASSERT_EQ(::chmod(foreign.c_str(), 0700), 0);
  for (const std::string user : {"", kText}) {
    WorkAs(user);
    plugin().Launch();
    EXPECT_TRUE(Eventually([this] { return absl::IsFailedPrecondition(Probe().status); }, kLong));
    EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition, "'" + foreign + "' belongs to user 777:777, and"));
    EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition,
                                   "chown -R --from=777 " + (user.empty() ? "0:0" : user) + " " + foreign));
    plugin().Kill();
    EXPECT_EQ(StatOf(foreign + "/catalog.db").st_uid, 777U);
  }
  fs::remove_all(foreign);
}

TEST_F(UserTest, UnreachableStateDirectoryIsReported) {
  const std::string locked = MakeDirectories("locked");
  ASSERT_EQ(::chmod(locked.c_str(), 0700), 0);
  const std::string before = plugin().options().state_dir;
  plugin().options().state_dir = locked + "/state";
  WorkAs(kText);
  plugin().Launch();
  EXPECT_TRUE(Eventually([this] { return absl::IsFailedPrecondition(Probe().status); }, kLong));
  EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition, "Permission denied: the plugin works as user 4242:4240"));
  ASSERT_EQ(::chmod(locked.c_str(), 0711), 0);
  EXPECT_TRUE(Eventually([this] { return Probe().status.ok(); }, kLong));
  StopPlugin();
  plugin().options().state_dir = before;
  Start();
}

TEST_F(UserTest, PlaceholderServerHasTheUserAndEndsWithThePlugin) {
  MountTmpfs(state_dir(), "size=16m,mode=700");
  ASSERT_EQ(Shell("mount -o remount,ro " + state_dir()), 0);
  WorkAs(kText);
  plugin().Launch();
  EXPECT_TRUE(Eventually([this] { return absl::IsFailedPrecondition(Probe().status); }, kLong));
  const std::vector<pid_t> children = ChildrenOf(plugin().pid());
  ASSERT_EQ(children.size(), 1U);
  EXPECT_EQ(StatusField(children[0], "Uid"), "4242\t4242\t4242\t4242");
  plugin().Kill();
  EXPECT_TRUE(Eventually([&] { return !Runs(children[0]); })) << "the placeholder server ends with the plugin";
  ASSERT_EQ(Shell("mount -o remount,rw " + state_dir()), 0);
  StartAs(kText);
}

TEST_F(UserTest, InvalidUsersAreRefused) {
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

TEST_F(UserTest, MissingCapSetuidStopsTheStart) {
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

TEST_F(UserTest, NameSelectsItsUserAndGroup) {
  AllowSocketsOf(65534);
  StartAs("nobody");
  EXPECT_EQ(StatusField(plugin().pid(), "Uid"), "65534\t65534\t65534\t65534");
  EXPECT_EQ(StatusField(plugin().pid(), "Gid"), "65534\t65534\t65534\t65534");
}

}  // namespace
}  // namespace mooring::testing

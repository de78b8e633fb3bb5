// `mooring mount`, `umount`, `list`, `show` and `propagation`: what they say, held against what the kernel has.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mount.h>

#include <filesystem>
#include <string_view>

#include "tests/kernel/cli/cli_program.h"
#include "tests/kernel/mount/namespaces.h"

namespace mooring::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class CliMountTest : public CliTest {
 protected:
  // The state that a wrong command must not change: the mounts below the test's directory, and its files.
  std::string World() const {
    std::string world;
    for (const MountLine& line : MountsBelow(dir_.path())) world += line.id + " " + line.target + "\n";
    for (const std::string& name : Entries(dir_.path())) world += name + "\n";
    return world;
  }
};

TEST_F(CliMountTest, BindSetsEveryFlag) {
  SharedMount("src");
  const Ran ran = Mooring(
      "mount bind src dst --propagation rslave --read-only --nosuid --nodev --noexec --noatime --option "
      "nodiratime,nosymfollow");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(StartsWith("mounted " + Path("src")), HasSubstr("ro,nosuid,nodev,noexec,nodiratime")));
  EXPECT_EQ(OptionsAt(Path("dst")), "ro,nosuid,nodev,noexec,noatime,nodiratime,nosymfollow");
  // Under a shared "/" the copies of dst in other namespaces are its masters, and src is theirs.
  const std::string group = GroupAt(Path("src"), "shared:");
  EXPECT_THAT(PropagationAt(Path("dst")), AnyOf("master:" + group, EndsWith(" propagate_from:" + group)));
  EXPECT_EQ(GroupAt(Path("dst"), "shared:"), "");
}

TEST_F(CliMountTest, RecursiveBindIncludesMountsBelow) {
  Dir("src");
  PrivateMount("src/sub");
  EXPECT_EQ(Mooring("mount bind src flat").status, 0);
  EXPECT_THAT(MountsAt(Path("flat/sub")), IsEmpty());
  EXPECT_EQ(Mooring("mount bind src deep --recursive --nosuid").status, 0);
  EXPECT_THAT(OptionsAt(Path("deep/sub")), StartsWith("rw,nosuid"));
}

TEST_F(CliMountTest, BindsAFile) {
  File("src", "text");
  EXPECT_EQ(Mooring("mount bind src dst --read-only").status, 0);
  EXPECT_EQ(ReadFile(Path("dst")), "text");
  EXPECT_EQ(TryWrite(Path("dst"), "x"), EROFS);
}

TEST_F(CliMountTest, LinksAndRelativePathsAreResolved) {
  Dir("real/src");
  std::filesystem::create_symlink("real", Path("link"));
  EXPECT_EQ(Mooring("mount bind link/src ./real/../link/dst").status, 0);
  ASSERT_EQ(MountsAt(Path("real/dst")).size(), 1U);
  std::filesystem::create_symlink("real/dst", Path("last"));
  EXPECT_EQ(Mooring("umount last").status, 0);
  EXPECT_THAT(MountsAt(Path("real/dst")), IsEmpty());
}

TEST_F(CliMountTest, DeviceLinkAndTypeAreDetected) {
  const std::string device = Losetup(Ext4Image("image"));
  std::filesystem::create_symlink(device, Path("by-id"));
  const Ran ran = Mooring("mount device by-id dst --option noatime,errors=remount-ro --propagation rshared");
  EXPECT_EQ(ran.status, 0) << ran.err;
  const auto mount = MountAt(Path("dst"));
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->source, device);
  EXPECT_EQ(mount->fs_type, "ext4");
  EXPECT_TRUE(mount->Has("noatime"));
  EXPECT_TRUE(mount->SuperHas("errors=remount-ro"));
  EXPECT_NE(GroupAt(Path("dst"), "shared:"), "");
}

TEST_F(CliMountTest, EmptyDeviceIsNotFormatted) {
  const std::string device = Losetup(Sparse("image", 16 * kMiB));
  const std::string before = World();
  const Ran ran = Mooring("mount device " + device + " dst --fs-type ext4");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("no filesystem"), HasSubstr("mkfs.ext4 " + device)));
  EXPECT_EQ(World(), before);
  EXPECT_EQ(StatOf(Path("image")).st_blocks, 0);
}

TEST_F(CliMountTest, ImageLoopDeviceGoesWithTheMount) {
  Ext4Image("image");
  EXPECT_EQ(Mooring("mount image image dst --read-only").status, 0);
  EXPECT_EQ(OptionsAt(Path("dst")), "ro,relatime");
  ASSERT_EQ(LoopsOver(Path("image")).size(), 1U);
  const Ran shown = Mooring("show dst");
  EXPECT_THAT(shown.out, AllOf(HasSubstr("loop device   " + LoopsOver(Path("image"))[0].device),
                               HasSubstr("backing file  " + Path("image")), HasSubstr("superblock    read-write")));
  const Ran unmounted = Mooring("umount dst --remove --json");
  EXPECT_EQ(unmounted.out, "{\"unmounted\":\"" + Path("dst") + "\",\"mounted\":true}\n");
  EXPECT_FALSE(Exists(Path("dst")));
  EXPECT_TRUE(NoLoopOver(Path("image")));
}

TEST_F(CliMountTest, UnmountOfNothingAndOfABusyMount) {
  const Ran nothing = Mooring("umount nothing");
  EXPECT_EQ(nothing.status, 1);
  EXPECT_THAT(nothing.err, HasSubstr("nothing is mounted at '" + Path("nothing") + "'"));
  const Ran allowed = Mooring("umount nothing --if-exists");
  EXPECT_EQ(allowed.status, 0);
  EXPECT_EQ(allowed.out, "nothing was mounted at " + Path("nothing") + "\n");
  EXPECT_THAT(Mooring("umount nothing --if-exists --json").out, HasSubstr("\"mounted\":false"));
  PrivateMount("dst");
  PrivateMount("dst/sub");
  const Ran nested = Mooring("umount dst");
  EXPECT_EQ(nested.status, 1);
  EXPECT_THAT(nested.err, AllOf(HasSubstr("unmount '" + Path("dst")), HasSubstr("Device or resource busy"),
                                HasSubstr("'" + Path("dst/sub") + "'")));
  EXPECT_EQ(Mooring("umount dst/sub").status, 0);
  const UniqueFd open(::open(Path("dst").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(Mooring("umount dst").err, HasSubstr("fuser -vm " + Path("dst")));
  EXPECT_EQ(MountsAt(Path("dst")).size(), 1U);
}

TEST_F(CliMountTest, ListBelowADirectory) {
  PrivateMount("a b");
  SharedMount("other");
  const Ran text = Mooring("list --below 'a b'");
  EXPECT_THAT(text.out, AllOf(HasSubstr(Path("a b")), HasSubstr(OptionsAt(Path("a b"))), HasSubstr("private"),
                              Not(HasSubstr(Path("other")))));
  const Ran json = Mooring("list --json --below .");
  EXPECT_THAT(json.out, AllOf(StartsWith("{\"mounts\":["), HasSubstr("\"target\":\"" + Path("a b") + "\""),
                              HasSubstr("\"peer_group\":" + GroupAt(Path("other"), "shared:"))));
  EXPECT_EQ(std::count(json.out.begin(), json.out.end(), '\n'), 1);
  EXPECT_THAT(Mooring("list").out, HasSubstr("/proc"));
}

TEST_F(CliMountTest, ShowListsRelatedMounts) {
  SharedMount("dst");
  EXPECT_THAT(Mooring("show dst").out, HasSubstr("no other mount is tied to it"));
  const MountNamespace peer(MountNamespace::Kind::kPeer), slave(MountNamespace::Kind::kSlave),
      apart(MountNamespace::Kind::kPrivate);
  const Ran ran = Mooring("show dst --json");
  for (const auto& [pid, relation] :
       {std::pair(peer.pid(), "peer"), std::pair(slave.pid(), "receives"), std::pair(apart.pid(), "copy")}) {
    EXPECT_THAT(ran.out, ::testing::ContainsRegex(fmt::format("\"pid\":{},[^}}]*\"target\":\"{}\",\"relation\":\"{}\"",
                                                              pid, Path("dst"), relation)));
  }
  EXPECT_THAT(Mooring("show dst").out, HasSubstr("peer group   " + GroupAt(Path("dst"), "shared:")));
  EXPECT_THAT(Mooring(fmt::format("show {} --pid {}", Path("dst"), slave.pid())).out, HasSubstr("master"));
}

TEST_F(CliMountTest, ShowOfAPathInAMount) {
  Dir("plain");
  const Ran ran = Mooring("show plain --json");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("nothing is mounted at"), HasSubstr("it lies in the mount at")));
  EXPECT_THAT(ran.out, HasSubstr("\"code_name\":\"NOT_FOUND\""));
  EXPECT_EQ(Mooring("show /").status, 0);
}

struct WordCase {
  const char* word;
  const char* propagation;  // of the mount; '#' stands for the peer group
  bool recursive;
};

class CliPropagationTest : public CliMountTest, public ::testing::WithParamInterface<WordCase> {};

TEST_P(CliPropagationTest, IsWhatTheWordSays) {
  SharedMount("master");
  ASSERT_EQ(::mount(Path("master").c_str(), Dir("dst").c_str(), nullptr, MS_BIND, nullptr), 0);
  const std::string group = GroupAt(Path("dst"), "shared:");
  SharedMount("dst/sub");
  const std::string below = PropagationAt(Path("dst/sub"));
  const Ran ran = Mooring(fmt::format("propagation dst {}", GetParam().word));
  EXPECT_EQ(ran.status, 0) << ran.err;
  std::string wanted = GetParam().propagation;
  if (wanted.ends_with('#')) wanted.replace(wanted.size() - 1, 1, group);
  EXPECT_EQ(PropagationAt(Path("dst")), wanted);
  if (wanted.starts_with("shared")) return;
  EXPECT_EQ(PropagationAt(Path("dst/sub")) != below, GetParam().recursive);
}

INSTANTIATE_TEST_SUITE_P(
    Words, CliPropagationTest,
    ::testing::Values(WordCase{"private", "", false}, WordCase{"rprivate", "", true}, WordCase{"None", "", true},
                      WordCase{"slave", "master:#", false}, WordCase{"rslave", "master:#", true},
                      WordCase{"host-to-task", "master:#", true}, WordCase{"HostToContainer", "master:#", true},
                      WordCase{"shared", "shared:#", false}, WordCase{"rshared", "shared:#", true},
                      WordCase{"bidirectional", "shared:#", true}, WordCase{"Bidirectional", "shared:#", true}),
    [](const auto& test) {
      std::string name = test.param.word;
      std::erase(name, '-');
      return name;
    });

TEST_F(CliMountTest, RecursiveWordChangesMountsBelow) {
  PrivateMount("dst");
  PrivateMount("dst/sub");
  EXPECT_EQ(Mooring("propagation dst").out, Path("dst") + ": private\n");
  EXPECT_EQ(Mooring("propagation dst shared").status, 0);
  EXPECT_EQ(PropagationAt(Path("dst/sub")), "");
  EXPECT_EQ(Mooring("propagation dst rshared").status, 0);
  EXPECT_NE(GroupAt(Path("dst/sub"), "shared:"), "");
}

struct WrongCase {
  const char* arguments;
  int status;
  const char* message;
};

class CliWrongUseTest : public CliMountTest, public ::testing::WithParamInterface<WrongCase> {};

TEST_P(CliWrongUseTest, ErrorChangesNothing) {
  Dir("src");
  Dir("full/entry");
  File("file", "text");
  PrivateMount("mounted");
  std::filesystem::create_symlink("nowhere", Path("dangling"));
  const std::string before = World();
  const Ran ran = Mooring(GetParam().arguments);
  EXPECT_EQ(ran.status, GetParam().status) << ran.err;
  EXPECT_THAT(ran.err, AllOf(StartsWith("mooring: "), HasSubstr(GetParam().message)));
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(World(), before);
}

INSTANTIATE_TEST_SUITE_P(
    Arguments, CliWrongUseTest,
    ::testing::Values(
        WrongCase{"mount", 2, "a command is missing"}, WrongCase{"mount bind src", 2, "DST is required"},
        WrongCase{"mount bind src dst --frobnicate", 2, "no flag '--frobnicate'"},
        WrongCase{"mount bind '' dst", 2, "empty"}, WrongCase{"mount bind src dst --option suid,frob", 2, "'frob'"},
        WrongCase{"mount bind src dst --option discard", 2, "not allowed for a bind mount"},
        WrongCase{"mount bind src dst --propagation sideways", 2, "propagation 'sideways' is unknown"},
        WrongCase{"mount bind absent dst", 1, "there is no 'absent'"},
        WrongCase{"mount bind src absent/dst", 1, "create it first (mkdir -p "},
        WrongCase{"mount bind src dangling", 1, "leads to a path that does not exist"},
        WrongCase{"mount bind src mounted", 1, "is a mount already"}, WrongCase{"mount bind src full", 1, "not empty"},
        WrongCase{"mount bind src file", 1, "is not a directory"}, WrongCase{"mount bind src /", 2, "root directory"},
        WrongCase{"mount bind src dst --pid 0", 2, "'0' is not a whole number above 0"},
        WrongCase{"mount bind src /dst --pid 999999999", 1, "there is no process 999999999"},
        WrongCase{"mount bind src dst --pid 1", 2, "is not an absolute path"},
        WrongCase{"mount device file dst", 2, "mooring mount image"},
        WrongCase{"mount device src dst", 2, "mooring mount bind"},
        WrongCase{"mount image src dst", 2, "is not a regular file"},
        WrongCase{"mount image file dst", 1, "libblkid does not know"},
        WrongCase{"mount image file dst --fs-type nofs", 1, "the kernel knows no filesystem nofs"},
        WrongCase{"umount", 2, "DST is required"}, WrongCase{"umount full --remove", 1, "move the files away"},
        WrongCase{"show src", 1, "nothing is mounted"}, WrongCase{"propagation src rshared", 1, "nothing is mounted"},
        WrongCase{"propagation mounted sideways", 2, "'sideways' is unknown"},
        WrongCase{"propagation mounted inherit", 2, "nothing to inherit"}, WrongCase{"list --below ''", 2, "empty"}),
    [](const auto& test) { return fmt::format("Case{}", test.index); });

TEST_F(CliMountTest, OtherFsTypeIsRefused) {
  Ext4Image("image");
  const Ran ran = Mooring("mount image image dst --fs-type xfs");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, HasSubstr("holds ext4, not xfs"));
  EXPECT_FALSE(Exists(Path("dst")));
}

TEST_F(CliMountTest, MissingCapabilityIsAnError) {
  Dir("src");
  PrivateMount("mounted");
  const std::string before = World();
  for (const char* arguments : {"mount bind src dst", "umount mounted", "propagation mounted rshared"}) {
    const Ran ran = Mooring(arguments, "setpriv --bounding-set -sys_admin --inh-caps -sys_admin");
    EXPECT_EQ(ran.status, 1) << arguments;
    EXPECT_THAT(ran.err, AllOf(HasSubstr("CAP_SYS_ADMIN"), HasSubstr("root"))) << arguments;
  }
  EXPECT_EQ(World(), before);
  EXPECT_EQ(Mooring("list", "setpriv --reuid 65534 --clear-groups").status, 0);
}

TEST_F(CliMountTest, BindIntoAnotherNamespace) {
  const std::string source = SharedMount("src");
  Dir("dst");
  const MountNamespace task(MountNamespace::Kind::kPrivate);
  const std::string pid = fmt::format("--pid {}", task.pid());
  const Ran ran = Mooring(fmt::format("mount bind src {} {} --propagation rslave --read-only", Path("dst"), pid));
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(MountsAt(Path("dst")), IsEmpty());
  EXPECT_EQ(task.Ask([&] { return PropagationAt(Path("dst")); }), "master:" + GroupAt(source, "shared:"));
  EXPECT_EQ(task.Ask([&] { return OptionsAt(Path("dst")); }), "ro,relatime");
  EXPECT_THAT(Mooring("list " + pid).out, HasSubstr(Path("dst")));
  EXPECT_EQ(Mooring(fmt::format("umount {} {} --remove", Path("dst"), pid)).status, 0);
  EXPECT_EQ(task.Ask([&] { return fmt::format("{}", MountsAt(Path("dst")).size()); }), "0");
  EXPECT_FALSE(Exists(Path("dst")));
}

// A namespace of another user namespace has its mounts from a more privileged one: they are locked together.
TEST_F(CliMountTest, LockedMountIsAnError) {
  PrivateMount("dst");
  ASSERT_EQ(Shell("{ unshare --user --map-root-user --mount sleep 60 >sleep.out 2>&1 & echo $! >pid; }"), 0);
  const pid_t pid = std::stoi(ReadFile(Path("pid")));
  const std::string view = fmt::format("/proc/{}/ns/mnt", pid);
  EXPECT_TRUE(Eventually([&] {
    return ReadFile(fmt::format("/proc/{}/comm", pid)) == "sleep\n" &&
           std::filesystem::read_symlink(view) != std::filesystem::read_symlink("/proc/self/ns/mnt");
  }));
  const Ran ran = Mooring(fmt::format("umount {} --pid {}", Path("dst"), pid));
  ::kill(pid, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !Runs(pid); }));
  EXPECT_EQ(ran.status, 1) << ran.out;
  EXPECT_THAT(ran.err, AllOf(HasSubstr("is locked"), HasSubstr("more privileged")));
}

TEST_F(CliMountTest, BusyMountInAnotherNamespace) {
  PrivateMount("dst");
  const MountNamespace task(MountNamespace::Kind::kPrivate);
  const UniqueFd open(::open(task.Seen(Path("dst")).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(open.ok());
  EXPECT_THAT(Mooring(fmt::format("umount {} --pid {}", Path("dst"), task.pid())).err,
              HasSubstr(fmt::format("fuser -vm /proc/{}/root{}", task.pid(), Path("dst"))));
}

TEST_F(CliMountTest, LinkInAnotherNamespaceIsRefused) {
  Dir("src");
  std::filesystem::create_symlink(Dir("real"), Path("link"));
  const MountNamespace task(MountNamespace::Kind::kPrivate);
  const Ran ran = Mooring(fmt::format("mount bind src {} --pid {}", Path("link/dst"), task.pid()));
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, HasSubstr("'" + Path("link") + "' is a symbolic link"));
  EXPECT_THAT(Entries(Path("real")), IsEmpty());
}

}  // namespace
}  // namespace mooring::testing

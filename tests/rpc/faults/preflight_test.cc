// The preflight of the plugin: mistakes in its container or in its directories. Probe reports the problem until it is
// gone, and the log reports it once. A problem that the plugin cannot survive stops it with a single line.
#include "tests/rpc/support/helper_processes.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

constexpr char kNone[] = "0000000000000000";
constexpr std::chrono::seconds kLong{15};

class Preflight : public RpcTest {
 protected:
  void SetUp() override {}  // each test begins with a problem

  // Launches the plugin in a mount namespace of its own, after `first`.
  void LaunchAfter(const std::string& first) {
    plugin().options().own_mount_namespace = true;
    plugin().options().first = "mount --make-private /dev && " + first;  // the test keeps its /dev
    plugin().Launch();
  }
  int InItsNamespace(const std::string& command) {
    return Shell("nsenter --mount=/proc/" + std::to_string(plugin().pid()) + "/ns/mnt " + command);
  }

  // Probe fails each time. The log has a single line about it.
  void ExpectMissing(const std::string& piece, const std::string& advice) {
    EXPECT_TRUE(Eventually([&] { return absl::IsFailedPrecondition(Probe().status); }, kLong)) << plugin().Log();
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition, piece));
      EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition, advice));
    }
    EXPECT_EQ(CountInLog("something is missing that the plugin needs"), 1) << plugin().Log();
  }
  void ExpectReady() {
    EXPECT_TRUE(Eventually([this] { return IsReady(); }, kLong)) << plugin().Log();
  }
  void ExpectRecovers() {
    ExpectReady();
    EXPECT_EQ(CountInLog("nothing is missing any more"), 1) << plugin().Log();
  }

  // Uses a volume from create to delete.
  void ExpectServes() {
    const std::string id = Staged();
    EXPECT_OK(driver().Publish(id, Staging(id), Target("a", id)));
    EXPECT_EQ(TryWrite(Target("a", id) + "/file", "data"), 0);
    UnpublishAndUnstage(id, Target("a", id));
    EXPECT_OK(driver().Delete(id));
  }
};

class StateDirectory : public Preflight {
 protected:
  void SetUp() override {
    MountTmpfs(state_dir(), "size=256m,mode=700");
    ASSERT_EQ(Shell("mount -o remount,ro " + state_dir()), 0);
  }
  std::string why_ = "write in the state directory '" + state_dir() + "': Read-only file system";
};

TEST_F(StateDirectory, ReadOnlyIsReportedUntilItIsWritable) {
  plugin().Launch();
  ExpectMissing(why_, "mount it writable");
  EXPECT_EQ(driver().Send(GetPluginInfoRequest())->name(), "mooring.csi");
  EXPECT_OK(driver().Send(csi::v1::GetPluginCapabilitiesRequest()));
  EXPECT_THAT(driver().Send(NodeGetInfoRequest()), FailsWith(Code::kUnavailable, why_));
  EXPECT_THAT(driver().Create("v"), FailsWith(Code::kUnavailable, why_));
  ASSERT_EQ(Shell("mount -o remount,rw " + state_dir()), 0);
  ExpectRecovers();
  ExpectServes();
}

TEST_F(StateDirectory, PlaceholderServerHasNoPrivilege) {
  plugin().Launch();
  EXPECT_TRUE(Eventually([this] { return absl::IsFailedPrecondition(Probe().status); }, kLong));
  const std::vector<pid_t> children = ChildrenOf(plugin().pid());
  ASSERT_EQ(children.size(), 1U);
  EXPECT_EQ(NameOfProcess(children[0]), "mooring-waiting");
  for (const char* set : {"CapPrm", "CapEff", "CapBnd"}) EXPECT_EQ(StatusField(children[0], set), kNone);
  EXPECT_EQ(StatusField(children[0], "Seccomp"), "2");
  plugin().Kill();
  EXPECT_TRUE(Eventually([&] { return !Runs(children[0]); })) << "the placeholder server ends with the plugin";
}

TEST_F(StateDirectory, StopOfThePlaceholderServerLeavesNoSocket) {
  plugin().Launch();
  EXPECT_TRUE(Eventually([this] { return absl::IsFailedPrecondition(Probe().status); }, kLong));
  StopPlugin();
  EXPECT_FALSE(fs::exists(dir() / "csi.sock"));
}

TEST_F(StateDirectory, LossOfWriteAccessIsReported) {
  ASSERT_EQ(Shell("mount -o remount,rw " + state_dir()), 0);
  Start();
  ASSERT_EQ(::chmod(state_dir().c_str(), 0500), 0);
  ExpectMissing("write in the state directory '" + state_dir() + "': Permission denied", "user 0:0");
  ASSERT_EQ(::chmod(state_dir().c_str(), 0700), 0);
  ExpectRecovers();
}

class LateDisk : public Preflight {
 protected:
  void SetUp() override {
    MakeDirectories("disk");
    plugin().options().state_dir = disk_ + "/mooring";
  }
  void MountDisk() {
    MountTmpfs(disk_, "size=256m,mode=700");
    ASSERT_EQ(::mkdir((disk_ + "/mooring").c_str(), 0700), 0);
  }
  std::string disk_ = dir() / "disk";
};

TEST_F(LateDisk, StartWaitsAndCreatesNothingInTheMountPoint) {
  AddFlags({"--require-directories"});
  plugin().Launch();
  ExpectMissing("the state directory '" + disk_ + "/mooring' is missing", "mount its disk");
  EXPECT_THAT(driver().Create("v"), FailsWith(Code::kUnavailable, "is missing"));
  EXPECT_TRUE(fs::is_empty(disk_));
  MountDisk();
  fs::create_directory_symlink(disk_ + "/mooring", state_dir());  // the fixture looks there for records
  ExpectRecovers();
  ExpectServes();
  EXPECT_TRUE(fs::exists(disk_ + "/mooring/catalog.db"));
}

TEST_F(LateDisk, StartWaitsForTheDiskOfAPool) {
  plugin().options().state_dir = state_dir();
  MakeDirectories("state");
  AddFlags({"--require-directories", "--pool", "name=late,backend=image,path=" + disk_ + "/mooring"});
  plugin().Launch();
  ExpectMissing("the directory of volumes '" + disk_ + "/mooring' is missing", "mount its disk");
  EXPECT_TRUE(fs::is_empty(disk_));
  MountDisk();
  ExpectRecovers();
}

TEST_F(Preflight, MissingLoopControlIsReported) {
  ShareDirectory();
  LaunchAfter("mount -t tmpfs tmpfs /dev");
  ExpectMissing("open '/dev/loop-control': No such file or directory", "bind the host's /dev into the container");
  const std::string id = Created();
  EXPECT_THAT(driver().Stage(id, Staging(id)), FailsWith(Code::kFailedPrecondition, "/dev"));
  ASSERT_EQ(InItsNamespace("mknod /dev/loop-control c 10 237"), 0);
  ExpectRecovers();
  ExpectServes();
}

TEST_F(Preflight, MissingLoopNodeIsReported) {
  ShareDirectory();
  LaunchAfter(
      "mount -t tmpfs tmpfs /dev && mknod /dev/loop-control c 10 237 && mknod /dev/null c 1 3 && "
      "mount -o remount,ro /dev");
  ExpectMissing("open '/dev/loop", "bind the host's /dev into the container");
  const std::string id = Created();
  EXPECT_THAT(driver().Stage(id, Staging(id)), FailsWith(Code::kFailedPrecondition, "open '/dev/loop"));
  ASSERT_EQ(InItsNamespace("mount -o remount,rw /dev"), 0);
  ExpectRecovers();
  ExpectServes();
}

// The plugin must not end, because the volumes that use these devices are healthy.
TEST_F(Preflight, PluginIsReadyWhileAllLoopNodesAreInUse) {
  ShareDirectory();
  ASSERT_EQ(Shell("truncate -s 1M " + (dir() / "of-another")), 0);
  const std::string used = AttachLoop(dir() / "of-another");
  LaunchAfter("mount -t tmpfs tmpfs /dev && mknod /dev/loop-control c 10 237 && mknod /dev/null c 1 3 && mknod " +
              used + " b 7 " + used.substr(9) + " && mount -o remount,ro /dev");
  ExpectReady();
  EXPECT_EQ(CountInLog("no further volume of an image pool can be staged now"), 1) << plugin().Log();
  const std::string id = Created();
  EXPECT_THAT(driver().Stage(id, Staging(id)),
              FailsWith(Code::kResourceExhausted, "all loop devices that this container was given are in use"));
  ASSERT_EQ(InItsNamespace("mount -o remount,rw /dev"), 0);
  EXPECT_OK(driver().Stage(id, Staging(id)));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  ASSERT_EQ(Shell("losetup --detach " + used), 0);
}

TEST_F(Preflight, MissingCapSysAdminIsReported) {
  ShareDirectory();
  LaunchAfter("exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin \"$0\" \"$@\"");
  ExpectMissing("nothing can be mounted without CAP_SYS_ADMIN", "--cap-add SYS_ADMIN");
}

TEST_F(Preflight, MissingLoopDevicesAreNoErrorWithOtherPools) {
  ShareDirectory();
  AddFlags({"--pool", "name=dirs,backend=directory,path=" + (dir() / "dirs")});
  LaunchAfter("mount -t tmpfs tmpfs /dev");
  ExpectReady();
  EXPECT_EQ(CountInLog("no volume of the image pools can be staged"), 1) << plugin().Log();
}

class SharedRoots : public Preflight {
 protected:
  void SetUp() override {
    ShareDirectory();
    AddFlags({"--mount-root", MakeDirectories("csi")});
  }
  const std::string make_private_ = "mount --make-private " + dir().path();
  const std::string why_ = "other mount namespaces would not see the mounts below '" + dir().path() + "/csi'";
};

TEST_F(SharedRoots, PrivateRootsAreReportedUntilTheyAreShared) {
  LaunchAfter(make_private_);
  ExpectMissing(why_, "with propagation rshared");
  EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition, "its mount at '" + dir().path() + "' is"));
  ASSERT_EQ(InItsNamespace("mount --make-shared " + dir().path()), 0);
  ExpectRecovers();
}

// Kubelet never calls Probe, and does not check that a target is a mount.
TEST_F(SharedRoots, KubeletIsNotOfferedAPluginWithPrivateRoots) {
  const std::string registry = MakeDirectories("plugins_registry"), socket = registry + "/mooring.csi-reg.sock";
  AddFlags({"--kubelet-registration-dir", registry});
  LaunchAfter(make_private_);
  ExpectMissing(why_, "with propagation rshared");
  EXPECT_TRUE(Eventually([this] { return CountInLog("not offered to kubelet while its mounts") == 1; }))
      << plugin().Log();
  EXPECT_FALSE(fs::exists(socket));
  ASSERT_EQ(InItsNamespace("mount --make-shared " + dir().path()), 0);
  EXPECT_TRUE(Eventually([&] { return fs::is_socket(socket); }, kLong)) << plugin().Log();
  ExpectRecovers();
}

// Kubelet may have to unpublish volumes of older pods.
TEST_F(SharedRoots, KubeletIsOfferedAPluginWithoutLoopDevices) {
  const std::string registry = MakeDirectories("plugins_registry"), socket = registry + "/mooring.csi-reg.sock";
  AddFlags({"--kubelet-registration-dir", registry});
  LaunchAfter("mount -t tmpfs tmpfs /dev");
  ExpectMissing("loop devices are not to be had", "");
  EXPECT_TRUE(Eventually([&] { return fs::is_socket(socket); }, kLong)) << plugin().Log();
}

TEST_F(SharedRoots, StopDoesNotWaitForSharedRoots) {
  AddFlags({"--kubelet-registration-dir", MakeDirectories("plugins_registry")});
  LaunchAfter(make_private_);
  ExpectMissing(why_, "with propagation rshared");
  driver().Disconnect();
  const auto before = Clock::now();
  EXPECT_EQ(plugin().Terminate(), 0) << plugin().Log();
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(2));
}

TEST_F(SharedRoots, SlaveRootsAreReported) {
  LaunchAfter("mount --make-slave " + dir().path());
  ExpectMissing(why_, "only receives mounts");
}

TEST_F(SharedRoots, SharedRootsAreAccepted) {
  LaunchAfter("true");
  ExpectReady();
  ExpectServes();
}

// All processes share a mount namespace, as on a host with a private root.
TEST_F(SharedRoots, PrivateRootsOfTheHostAreAcceptedUnlessRequired) {
  ASSERT_EQ(Shell(make_private_), 0);
  Start();
  ExpectServes();
  StopPlugin();
  AddFlags({"--shared-roots", "require"});
  plugin().Launch();
  ExpectMissing(why_, "with propagation rshared");
}

TEST_F(SharedRoots, CanBeIgnored) {
  AddFlags({"--shared-roots", "ignore"});
  LaunchAfter(make_private_);
  ExpectReady();
}

// Without --mount-root the plugin does not know the directories of tasks. In a container / itself is never shared.
TEST_F(Preflight, PropagationIsNotCheckedWithoutAMountRoot) {
  ShareDirectory();
  LaunchAfter("mount --make-rprivate /");
  ExpectReady();
}

TEST_F(SharedRoots, ControllerNeedsNoSharedRoots) {
  AddFlags({"--mode", "controller"});
  LaunchAfter(make_private_ + " && mount -t tmpfs tmpfs /dev");
  ExpectReady();
}

class SocketDirectory : public Preflight {
 protected:
  void ExpectEnds(const std::string& why, const std::string& advice) {
    const std::string socket = plugin().options().socket;
    plugin().options().socket = csi_ + "/csi.sock";
    plugin().Launch();
    EXPECT_EQ(plugin().Wait(), 1);
    EXPECT_THAT(plugin().Log(), AllOf(HasSubstr(why), HasSubstr(advice)));
    EXPECT_EQ(CountInLog("\n"), 1) << plugin().Log();
    EXPECT_TRUE(fs::is_empty(csi_));
    plugin().options().socket = socket;
  }
  const std::string csi_ = MakeDirectories("socket");
};

TEST_F(SocketDirectory, ForeignDirectoryIsNamedWithItsOwner) {
  ASSERT_EQ(::chown(csi_.c_str(), 4711, 4712), 0);
  ExpectEnds("make the socket in the directory '" + csi_ + "' (owner 4711:4712, mode 755): Permission denied",
             "writable for that user, or choose another --endpoint");
}

TEST_F(SocketDirectory, ReadOnlyDirectoryIsNamed) {
  MountTmpfs(csi_);
  ASSERT_EQ(Shell("mount -o remount,ro " + csi_), 0);
  ExpectEnds("make the socket in the directory '" + csi_ + "'", "Read-only file system: give --endpoint a directory");
}

TEST_F(SocketDirectory, DirectoryIsNamedWithoutAStateDirectory) {
  ASSERT_EQ(::chown(csi_.c_str(), 4711, 4712), 0);
  MountTmpfs(state_dir(), "mode=700");
  ASSERT_EQ(Shell("mount -o remount,ro " + state_dir()), 0);
  plugin().options().socket = csi_ + "/csi.sock";
  plugin().Launch();
  EXPECT_EQ(plugin().Wait(), 1);
  EXPECT_THAT(plugin().Log(), AllOf(HasSubstr("Read-only file system"), HasSubstr("owner 4711:4712")));
}

}  // namespace
}  // namespace mooring::testing

// GuardedMounter: the requests that it allows and refuses.
#include "mounter/guard/guarded_mounter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <functional>
#include <set>
#include <vector>

#include "tests/fakes/fake_mounter.h"
#include "tests/support/status_matchers.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kImage[] = "/state/volumes/a.img";
constexpr char kLabel[] = "mooring:a";

MountRequest MountOf(const std::string& target, const std::string& source = kImage) {
  MountRequest request;
  request.source = source;
  request.label = kLabel;
  request.fs_type = "ext4";
  request.target = target;
  return request;
}

BindRequest BindOf(const std::string& source, const std::string& target) {
  BindRequest request;
  request.source = source;
  request.target = target;
  return request;
}

class GuardedMounterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_.With([](FakeKernel& kernel) {
      for (const char* directory : {"/csi/staging", "/csi/pods/p", "/csicsi", "/other", "/etc", "/srv/csi", "/var/x"})
        kernel.AddDirectory(directory);
      for (const char* image : {kImage, "/state/volumes/b.img", "/other/disk.img"}) {
        kernel.AddFile(image, 1U << 26U);
        kernel.Node(image).filesystem = {FilesystemInfo::Content::kFilesystem, "ext4", 1U << 26U, false, ""};
      }
    });
  }

  // All calls that change the target or use the source. None may reach the kernel.
  void ExpectRefused(const absl::Status& status, StatusCode code, const std::string& piece) {
    EXPECT_THAT(status, FailsWith(code, piece));
    for (const char* call : {"Mount", "Bind", "Unmount", "AttachLoop", "DetachLoop", "ResizeLoop", "Probe", "Format",
                             "Check", "Grow", "TuneLoop", "Change", "IsInUse"}) {
      EXPECT_THAT(fake_.Calls(call), ::testing::IsEmpty());
    }
    fake_.ClearLog();
  }

  void ExpectTargetRefused(const std::string& target, StatusCode code, const std::string& piece) {
    SCOPED_TRACE(target);
    ExpectRefused(guarded_.Mount(MountOf(target)), code, piece);
    ExpectRefused(guarded_.Bind(BindOf("/csi/staging/a", target)), code, piece);
    ExpectRefused(guarded_.Unmount({target, true}), code, piece);
    ExpectRefused(guarded_.Change({.target = target}), code, piece);
  }

  void Stage() {
    ASSERT_OK(guarded_.Mount(MountOf("/csi/staging/a")));
    fake_.ClearLog();
  }

  // A foreign loop device.
  LoopInfo Foreign(const std::string& label = "backup") {
    fake_.With([&](FakeKernel& kernel) { kernel.AddForeignLoop("/other/disk.img", label); });
    LoopInfo loop = fake_.With([](FakeKernel& kernel) { return kernel.Loops(); }).back();
    fake_.ClearLog();
    return loop;
  }

  FakeMounter fake_;
  GuardedMounter guarded_{{.roots = {"/csi", "/srv/csi"}, .sources = {"/state/volumes"}, .label_prefix = "mooring"},
                          fake_};
  GuardedMounter everywhere_{{.roots = {"/"},
                              .sources = {"/state/volumes"},
                              .label_prefix = "mooring",
                              .forbidden_trees = {"/state"},
                              .forbidden_places = {"/csi/socket"}},
                             fake_};
};

TEST_F(GuardedMounterTest, AllowsTheCallsOfAPlugin) {
  EXPECT_OK(guarded_.Probe(kImage));
  EXPECT_OK(guarded_.Check(kImage, "ext4"));
  EXPECT_OK(guarded_.Mount(MountOf("/csi/staging/a")));
  EXPECT_OK(guarded_.Bind(BindOf("/csi/staging/a", "/csi/pods/p/m")));
  EXPECT_OK(guarded_.Bind(BindOf("/csi/pods/p/m", "/srv/csi/second")));
  EXPECT_OK(guarded_.Grow("/csi/staging/a", "ext4"));
  EXPECT_OK(guarded_.Grow("/state/volumes/b.img", "ext4"));
  for (const char* target : {"/srv/csi/second", "/csi/pods/p/m", "/csi/staging/a", "/csi/staging/never"}) {
    EXPECT_OK(guarded_.Unmount({target, true})) << target;
  }
  const absl::StatusOr<LoopInfo> loop = guarded_.AttachLoop({kImage, kLabel, false});
  ASSERT_OK(loop);
  EXPECT_OK(guarded_.ResizeLoop(*loop));
  EXPECT_OK(guarded_.AttachLoop({loop->device, "mooring-ro:a", true}));
  BindRequest node = BindOf(loop->device, "/csi/pods/p/node");
  node.target_kind = TargetKind::kFile;
  EXPECT_OK(guarded_.Bind(node));
  EXPECT_OK(guarded_.Unmount({"/csi/pods/p/node", true}));
  EXPECT_OK(guarded_.DetachLoop(*loop));
}

// Else a user of the host would be root in a volume, and could make a program with the set-user-ID bit of root there.
TEST_F(GuardedMounterTest, IdsAreMappedToThoseOfTasksOnly) {
  Stage();
  for (const char* ids : {"b:0:1000:1", "u:0:0:1 g:0:70000:1", "u:0:70000:1 g:0:65535:2", "/proc/1/ns/user", "x"}) {
    MountRequest mount = MountOf("/csi/staging/b");
    mount.idmap = ids;
    BindRequest bind = BindOf("/csi/staging/a", "/csi/pods/p/m");
    bind.idmap = ids;
    ExpectRefused(guarded_.Mount(mount), StatusCode::kFailedPrecondition, "idmap '");
    ExpectRefused(guarded_.Bind(bind), StatusCode::kFailedPrecondition, "idmap '");
    ExpectRefused(guarded_.BindIf({bind, {}, ""}).status(), StatusCode::kFailedPrecondition, "idmap '");
  }
  BindRequest bind = BindOf("/csi/staging/a", "/csi/pods/p/m");
  bind.idmap = "b:0:65536:65536";
  EXPECT_OK(guarded_.Bind(bind));
}

TEST_F(GuardedMounterTest, ReadsEverywhere) {
  for (const char* path : {"/etc", "/csi", "/dev/loop0", "/other/disk.img"}) EXPECT_OK(guarded_.Find(path)) << path;
  EXPECT_OK(guarded_.List("/"));
  EXPECT_OK(guarded_.FindLoops(""));
  EXPECT_OK(guarded_.FindLoops("/other/disk.img"));
  Stage();
  EXPECT_OK(guarded_.Stats("/csi/staging/a"));
  EXPECT_OK(guarded_.HealthProblem("/csi/staging/a"));
}

TEST_F(GuardedMounterTest, TargetsThatAreNoPathsAreRefused) {
  Stage();
  for (const std::string& target :
       {std::string("/csi/../etc/x"), std::string("/csi/.."), std::string("csi/x"), std::string(), std::string("/"),
        std::string("/csi/./x"), std::string("/csi/x\n"), std::string("/csi/\0x", 7), "/csi/" + std::string(5000, 'x'),
        "/csi/" + std::string(256, 'x')}) {
    ExpectTargetRefused(target, StatusCode::kInvalidArgument, "path");
  }
}

TEST_F(GuardedMounterTest, SystemDirectoriesAreRefusedWhateverTheRootsAre) {
  constexpr const char* kTargets[] = {
      // the root directory
      "/bin", "/boot/x", "/dev/x", "/dev", "/etc", "/etc/x/y", "//etc//x", "/lib/x", "/lib64", "/proc/1/x", "/sbin",
      "/sys/x", "/usr", "/usr/lib/x", "/nix/x", "/opt/cni", "/snap/x", "/root", "/root/.ssh",
      // /run
      "/run/docker/x", "/run/modprobe.d", "/run/mooring/x", "/run/polkit-1/rules.d", "/run/sysctl.d", "/run/tmpfiles.d",
      "/run/user/1000/x", "/run/systemd/system", "/run/udev/rules.d", "/run/dbus", "/run/credentials/x",
      // /var
      "/var/lib/cloud/x", "/var/lib/kubelet/pki/x", "/var/lib/kubelet/plugins_registry", "/var/lib/systemd/linger",
      "/var/spool/cron", "/var/lib/dpkg/info", "/var/log/x",
      // parents of targets
      "/home", "/run", "/tmp", "/var", "/mnt/", "/srv", "/opt", "/media", "/var/lib/kubelet"};
  for (const char* target : kTargets) {
    SCOPED_TRACE(target);
    constexpr char kReason[] = "a directory of the system";
    ExpectRefused(everywhere_.Mount(MountOf(target)), StatusCode::kFailedPrecondition, kReason);
    ExpectRefused(everywhere_.Bind(BindOf("/csi/staging/a", target)), StatusCode::kFailedPrecondition, kReason);
    ExpectRefused(everywhere_.Unmount({target, false}), StatusCode::kFailedPrecondition, kReason);
  }
  for (const char* target : {"/etcetera", "/var/x/y", "/usr2", "/run/csi/x", "/var/lib/x", "/rootless"}) {
    fake_.With([&](FakeKernel& kernel) { kernel.AddDirectory(std::string(target)); });
    EXPECT_OK(everywhere_.Mount(MountOf(target))) << target;
    EXPECT_OK(everywhere_.Unmount({target, false})) << target;
  }
}

TEST_F(GuardedMounterTest, TargetsAmongTheVolumesAreRefused) {
  for (const char* target : {"/state/volumes", "/state/volumes/a.img", "/state/volumes/x/y"}) {
    ExpectRefused(everywhere_.Mount(MountOf(target)), StatusCode::kFailedPrecondition, "directory of volumes");
    ExpectRefused(everywhere_.Unmount({target, true}), StatusCode::kFailedPrecondition, "directory of volumes");
  }
}

// A mount there would let the plugin open files of a filesystem that it made, such as device nodes.
TEST_F(GuardedMounterTest, TargetsInThePluginsOwnDirectoriesAreRefused) {
  constexpr char kOwn[] = "a directory of the plugin's own";
  for (const char* target : {"/state", "/state/x", "/state//x/y/", "/csi/socket", "/csi/socket/"}) {
    ExpectRefused(everywhere_.Mount(MountOf(target)), StatusCode::kFailedPrecondition, kOwn);
    ExpectRefused(everywhere_.Bind(BindOf("/csi/staging/a", target)), StatusCode::kFailedPrecondition, kOwn);
    ExpectRefused(everywhere_.Unmount({target, true}), StatusCode::kFailedPrecondition, kOwn);
  }
  fake_.With([](FakeKernel& kernel) { kernel.AddDirectory("/csi/socket"); });
  for (const char* target : {"/csi/socket/below", "/statement"})
    EXPECT_OK(everywhere_.Mount(MountOf(target))) << target;
}

// An unknown device is not opened to identify it, because opening a watchdog has effects.
TEST_F(GuardedMounterTest, OtherDevicesAreNotInspected) {
  for (const char* device : {"/dev/watchdog", "/dev/loop", "/dev/loop-control", "/dev/loop0p1", "/dev/loop0/x", "/dev",
                             "//dev/watchdog", "/dev//sda", "/dev/"}) {
    ExpectRefused(guarded_.AttachLoop({device, "mooring-ro:a", true}).status(), StatusCode::kFailedPrecondition,
                  "neither a volume nor the loop device");
    EXPECT_THAT(fake_.Calls("Find"), ::testing::IsEmpty());
  }
  ExpectRefused(guarded_.AttachLoop({"/csi/../dev/watchdog", "mooring-ro:a", true}).status(),
                StatusCode::kInvalidArgument, "path");
}

TEST_F(GuardedMounterTest, ForeignLabelsAreRefused) {
  for (const char* label : {"", "moor", "backup", " mooring:a", "Mooring:a"}) {
    MountRequest request = MountOf("/csi/staging/a");
    request.label = label;
    ExpectRefused(guarded_.Mount(request), StatusCode::kFailedPrecondition, "the label");
    ExpectRefused(guarded_.AttachLoop({kImage, label, false}).status(), StatusCode::kFailedPrecondition, "the label");
  }
}

// The mounter uses the device number, so the name in the request proves nothing.
TEST_F(GuardedMounterTest, ALoopDeviceThatDoesNotMatchItsRequestIsLeftAlone) {
  const LoopInfo foreign = Foreign();
  const LoopInfo ours = *guarded_.AttachLoop({kImage, kLabel, false});
  fake_.ClearLog();
  for (const std::string& name :
       {ours.device, std::string("/dev/loop9"), std::string("/nowhere"), std::string("/etc")}) {
    LoopInfo lie = foreign;
    lie.device = name;
    lie.label = kLabel;
    EXPECT_OK(guarded_.DetachLoop(lie)) << name;  // "not attached, or to another file"
    ExpectRefused(guarded_.ResizeLoop(lie), StatusCode::kFailedPrecondition, "no longer the device of its file");
    ExpectRefused(guarded_.TuneLoop(lie, {}), StatusCode::kNotFound, "no longer the device of its file");
  }
  EXPECT_EQ(fake_.With([](FakeKernel& kernel) { return kernel.Loops().size(); }), 2U);
}

// Its number is not used again. As without the guard, that is OK.
TEST_F(GuardedMounterTest, ADetachedDeviceCountsAsDetached) {
  const LoopInfo ours = *guarded_.AttachLoop({kImage, kLabel, false});
  ASSERT_OK(guarded_.DetachLoop(ours));
  const LoopInfo foreign = Foreign();
  ASSERT_NE(foreign.device, ours.device);
  EXPECT_OK(guarded_.DetachLoop(ours));
  EXPECT_THAT(guarded_.HoldLoop(ours), FailsWith(StatusCode::kAborted, "no longer the device of its file"));
  ExpectRefused(guarded_.ResizeLoop(ours), StatusCode::kFailedPrecondition, "no longer the device of its file");
  ExpectRefused(guarded_.TuneLoop(ours, {}), StatusCode::kNotFound, "no longer the device of its file");
  EXPECT_EQ(fake_.With([](FakeKernel& kernel) { return kernel.Loops().size(); }), 1U);
}

TEST_F(GuardedMounterTest, OnlyDevicesOfVolumesAreFlushedHeldAndReleased) {
  const LoopInfo ours = *guarded_.AttachLoop({kImage, kLabel, false});
  EXPECT_OK(guarded_.Flush(ours.device));
  EXPECT_OK(guarded_.HoldDevice(ours.device));
  EXPECT_OK(guarded_.ReleaseDevice(ours.device));
  fake_.ClearLog();
  for (const char* device : {"/dev/watchdog", "/etc/shadow"}) {
    for (const absl::Status& status :
         {guarded_.Flush(device), guarded_.HoldDevice(device), guarded_.ReleaseDevice(device)}) {
      ExpectRefused(status, StatusCode::kFailedPrecondition, "neither a volume nor the loop device");
    }
  }
}

TEST_F(GuardedMounterTest, OnlyDevicesOfVolumesAreClaimed) {
  for (const char* device : {"/dev/watchdog", "/other/disk.img"}) {
    ExpectRefused(guarded_.IsInUse(device).status(), StatusCode::kFailedPrecondition, "in none of the directories");
  }
}

TEST_F(GuardedMounterTest, AHoldHasOurLabel) {
  LoopInfo ours = *guarded_.AttachLoop({kImage, kLabel, false});
  EXPECT_OK(guarded_.HoldLoop(ours));
  fake_.ClearLog();
  ours.label = "theirs";
  ExpectRefused(guarded_.HoldLoop(ours), StatusCode::kFailedPrecondition, "the label");
}

TEST_F(GuardedMounterTest, OnlyAnExportOfThePolicyIsMountedAndOnlyAtItsPlace) {
  MountRequest pool = MountOf("/run/mooring-nfs/1/share", "nas:/srv");
  pool.fs_type = kNfsFsType;
  pool.options = {{"hard", std::nullopt}, {"vers", "4.2"}};
  HelperPolicy policy = {.roots = {"/csi"}, .sources = {}, .label_prefix = "mooring", .exports = {ExportText(pool)}};
  GuardedMounter guarded(policy, fake_);
  ExpectRefused(guarded.Mount(pool), StatusCode::kInvalidArgument, "addr has to be the address");
  pool.options.push_back({"addr", "192.0.2.1"});
  for (const auto& change : std::vector<std::function<void(MountRequest&)>>{
           [](MountRequest& r) { r.source = "nas:/etc"; }, [](MountRequest& r) { r.target = "/csi/pods/p/a"; },
           [](MountRequest& r) { r.options[0].key = "soft"; },
           [](MountRequest& r) { r.options.erase(r.options.begin()); }}) {
    MountRequest other = pool;
    change(other);
    ExpectRefused(guarded.Mount(other), StatusCode::kFailedPrecondition, "none of the exports");
  }
  pool.options.push_back({"addr", "192.0.2.2"});
  ExpectRefused(guarded.Mount(pool), StatusCode::kInvalidArgument, "addr has to be the address");
}

TEST_F(GuardedMounterTest, AnErrorOfFindIsReturned) {
  fake_.Fail("Find", Internal("no look"), 1);
  ExpectRefused(guarded_.Probe(kImage).status(), StatusCode::kInternal, "no look");
  fake_.Fail("Find", Internal("no look"), 1);
  ExpectRefused(guarded_.DetachLoop(LoopInfo()), StatusCode::kInternal, "no look");
}

}  // namespace
}  // namespace mooring::testing

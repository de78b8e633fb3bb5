// GuardedMounter: the requests that it allows and refuses.
#include "mounter/guard/guarded_mounter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <set>

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
                             "Check", "Grow", "TuneLoop", "Change"}) {
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

  void ExpectFileRefused(const std::string& file, StatusCode code, const std::string& piece) {
    SCOPED_TRACE(file);
    ExpectRefused(guarded_.Mount(MountOf("/csi/staging/b", file)), code, piece);
    ExpectRefused(guarded_.AttachLoop({file, kLabel, false}).status(), code, piece);
    ExpectRefused(guarded_.Probe(file).status(), code, piece);
    ExpectRefused(guarded_.Format(file, "ext4"), code, piece);
    ExpectRefused(guarded_.Check(file, "ext4"), code, piece);
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

TEST_F(GuardedMounterTest, ReadsEverywhere) {
  for (const char* path : {"/etc", "/csi", "/dev/loop0", "/other/disk.img"}) EXPECT_OK(guarded_.Find(path)) << path;
  EXPECT_OK(guarded_.List("/"));
  EXPECT_OK(guarded_.FindLoops(""));
  EXPECT_OK(guarded_.FindLoops("/other/disk.img"));
  Stage();
  EXPECT_OK(guarded_.Stats("/csi/staging/a"));
  EXPECT_OK(guarded_.HealthProblem("/csi/staging/a"));
}

TEST_F(GuardedMounterTest, TargetsOutsideTheRootsAreRefused) {
  Stage();
  for (const char* target : {"/other/x", "/csicsi", "/csicsi/x", "/srv", "/srv/csi2/x", "/state/volumes/x", "/etc/x"}) {
    ExpectTargetRefused(target, StatusCode::kFailedPrecondition, "--mount-root /csi, /srv/csi");
  }
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
  for (const char* target : {"/bin",
                             "/boot/x",
                             "/dev/x",
                             "/dev",
                             "/etc",
                             "/etc/x/y",
                             "/lib/x",
                             "/lib64",
                             "/proc/1/x",
                             "/sbin",
                             "/sys/x",
                             "/usr",
                             "/usr/lib/x",
                             "/nix/x",
                             "/opt/cni",
                             "/run/docker/x",
                             "/run/modprobe.d",
                             "/run/mooring/x",
                             "/run/polkit-1/rules.d",
                             "/run/sysctl.d",
                             "/run/tmpfiles.d",
                             "/run/user/1000/x",
                             "/snap/x",
                             "/var/lib/cloud/x",
                             "/var/lib/kubelet",
                             "/var/lib/kubelet/pki/x",
                             "/var/lib/kubelet/plugins_registry",
                             "/var/lib/systemd/linger",
                             "//etc//x",
                             "/home",
                             "/root",
                             "/run",
                             "/tmp",
                             "/var",
                             "/mnt/",
                             "/srv",
                             "/opt",
                             "/media",
                             "/root/.ssh",
                             "/run/systemd/system",
                             "/run/udev/rules.d",
                             "/run/dbus",
                             "/run/credentials/x",
                             "/var/spool/cron",
                             "/var/lib/dpkg/info",
                             "/var/log/x"}) {
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

TEST_F(GuardedMounterTest, FilesThatAreNoVolumesAreRefused) {
  Foreign();
  for (const char* file :
       {"/other/disk.img", "/etc/shadow", "/state/volumes2/a.img", "/state/catalog.db", "/dev/sda"}) {
    ExpectFileRefused(file, StatusCode::kFailedPrecondition, "");
  }
  ExpectFileRefused("/state/volumes/../catalog.db", StatusCode::kInvalidArgument, "path");
  ExpectFileRefused("", StatusCode::kInvalidArgument, "path");
  ExpectRefused(guarded_.Grow("/state/volumes/../catalog.db", "ext4"), StatusCode::kInvalidArgument, "");
  for (const char* file : {"/other/disk.img", "/etc/shadow", "/other", "/dev/loop0", "/nowhere"}) {
    ExpectRefused(guarded_.Grow(file, "ext4"), StatusCode::kFailedPrecondition,
                  "in none of the directories of volumes");
  }
}

TEST_F(GuardedMounterTest, OtherFilesystemsAreRefused) {
  Stage();
  for (const char* fs_type : {"", "proc", "sysfs", "devtmpfs", "overlay", "fuse", "vfat", "btrfs ", "ext4 ", "EXT4"}) {
    SCOPED_TRACE(fs_type);
    MountRequest request = MountOf("/csi/staging/b");
    request.fs_type = fs_type;
    constexpr char kReason[] = "handles ext4, xfs and btrfs only";
    ExpectRefused(guarded_.Mount(request), StatusCode::kFailedPrecondition, kReason);
    ExpectRefused(guarded_.Format(kImage, fs_type), StatusCode::kFailedPrecondition, kReason);
    ExpectRefused(guarded_.Check(kImage, fs_type), StatusCode::kFailedPrecondition, kReason);
    ExpectRefused(guarded_.Grow("/csi/staging/a", fs_type), StatusCode::kFailedPrecondition, kReason);
  }
}

TEST_F(GuardedMounterTest, ForeignLabelsAreRefused) {
  for (const char* label : {"", "moor", "backup", " mooring:a", "Mooring:a"}) {
    MountRequest request = MountOf("/csi/staging/a");
    request.label = label;
    ExpectRefused(guarded_.Mount(request), StatusCode::kFailedPrecondition, "the label");
    ExpectRefused(guarded_.AttachLoop({kImage, label, false}).status(), StatusCode::kFailedPrecondition, "the label");
  }
}

TEST_F(GuardedMounterTest, LoopDevicesOfOthersAreLeftAlone) {
  const LoopInfo foreign = Foreign();
  ExpectRefused(guarded_.DetachLoop(foreign), StatusCode::kFailedPrecondition, "the label 'backup'");
  ExpectRefused(guarded_.ResizeLoop(foreign), StatusCode::kFailedPrecondition, "the label 'backup'");
  ExpectRefused(guarded_.TuneLoop(foreign, {}), StatusCode::kFailedPrecondition, "the label 'backup'");
}

// Sizes that the kernel takes for unlimited, and repeated options, of which the last one counts.
TEST_F(GuardedMounterTest, ATmpfsWithoutALimitIsRefused) {
  GuardedMounter guarded(
      {.roots = {"/csi"}, .sources = {"/state/volumes"}, .label_prefix = "mooring", .most_memory = 1U << 20U}, fake_);
  MountRequest request = MountOf("/csi/staging/m", "mooring:m");
  request.fs_type = "tmpfs";
  request.options = {{"size", "1048576"}, {"nr_inodes", "256"}};
  ASSERT_OK(guarded.Mount(request));
  EXPECT_OK(guarded.Change({.target = request.target, .options = request.options}));
  EXPECT_OK(guarded.Change({.target = request.target, .options = {{"size", "4096"}, {"nr_inodes", "64"}}}));
  fake_.ClearLog();
  using Options = std::vector<FilesystemOption>;
  for (const Options& options :
       {Options{{"size", "1048576"}, {"size", "0"}}, Options{{"size", "0"}}, Options{{"size", "1048577"}},
        Options{{"size", "18446744073709551616"}}, Options{{"size", std::nullopt}}, Options{{"size", "1m"}},
        Options{{"size", "1048576"}, {"nr_inodes", "0"}}, Options{{"size", "1048576"}, {"nr_inodes", "257"}},
        Options{{"size", "4096"}, {"nr_inodes", "65"}}, Options{{"nr_inodes", "1"}},
        Options{{"size", "1048576"}, {"nr_inodes", "1"}, {"nr_inodes", "0"}}}) {
    request.options = options;
    EXPECT_FALSE(guarded.Mount(request).ok()) << ::testing::PrintToString(options.size());
    EXPECT_FALSE(guarded.Change({.target = request.target, .options = options}).ok());
    EXPECT_THAT(fake_.Calls("Mount"), ::testing::IsEmpty());
    EXPECT_THAT(fake_.Calls("Change"), ::testing::IsEmpty());
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
    ExpectRefused(guarded_.TuneLoop(lie, {}), StatusCode::kFailedPrecondition, "no longer the device of its file");
  }
  EXPECT_EQ(fake_.With([](FakeKernel& kernel) { return kernel.Loops().size(); }), 2U);
}

// Its number belongs to another file by now. As without the guard, that is OK.
TEST_F(GuardedMounterTest, AReusedLoopDeviceCountsAsDetached) {
  const LoopInfo ours = *guarded_.AttachLoop({kImage, kLabel, false});
  ASSERT_OK(guarded_.DetachLoop(ours));
  const LoopInfo foreign = Foreign();
  ASSERT_EQ(foreign.device, ours.device);
  EXPECT_OK(guarded_.DetachLoop(ours));
  ExpectRefused(guarded_.ResizeLoop(ours), StatusCode::kFailedPrecondition, "no longer the device of its file");
  EXPECT_EQ(fake_.With([](FakeKernel& kernel) { return kernel.Loops().size(); }), 1U);
}

TEST_F(GuardedMounterTest, AnErrorOfFindIsReturned) {
  fake_.Fail("Find", Internal("no look"), 1);
  ExpectRefused(guarded_.Probe(kImage).status(), StatusCode::kInternal, "no look");
  fake_.Fail("Find", Internal("no look"), 1);
  ExpectRefused(guarded_.DetachLoop(LoopInfo()), StatusCode::kInternal, "no look");
}

// A plugin that repeats a refused request does not fill the disk with log lines.
TEST_F(GuardedMounterTest, EachReasonIsLoggedOnce) {
  const auto refuse_all = [this] {
    ::testing::internal::CaptureStderr();
    for (int i = 0; i < 10; ++i) {
      const std::string number = std::to_string(i);
      EXPECT_FALSE(guarded_.Unmount({"/other/" + number, false}).ok());
      EXPECT_FALSE(guarded_.Probe("/other/" + number).ok());
      EXPECT_FALSE(everywhere_.Unmount({"/etc/" + number, false}).ok());
      EXPECT_FALSE(guarded_.AttachLoop({kImage, "x" + number, false}).ok());
    }
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string first = refuse_all();  // other tests of this process may have been there before
  EXPECT_LE(std::count(first.begin(), first.end(), '\n'), 4);
  EXPECT_EQ(refuse_all(), "");
}

}  // namespace
}  // namespace mooring::testing

// What kubelet does to a plugin: points of kubelet.md, "K15" there is K15_… here. Reboots: kubelet_reboot_test.cc.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "base/file/unique_fd.h"
#include "tests/rpc/orchestrators/kubelet_paths.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Kubelet : public KubeletTest {};

TEST_F(Kubelet, K5_PathsOfAMountVolume) {
  const std::string id = Created(Mount("", kMultiWriter));
  const std::string staging = GlobalMount(id), target = PodTarget("uid-1", "pvc-1");
  ASSERT_OK(driver().Stage(id, staging, Mount("", kMultiWriter)));
  ASSERT_OK(driver().Publish(id, staging, target, Mount("", kMultiWriter)));
  EXPECT_EQ(TryWrite(target + "/file", "data"), 0);
  EXPECT_EQ(ReadFile(fs::path(target).parent_path() / "vol_data.json"), "{}");
  ASSERT_OK(driver().Unpublish(id, target));
  EXPECT_FALSE(fs::exists(target));
  EXPECT_EQ(ReadFile(fs::path(target).parent_path() / "vol_data.json"), "{}") << "kubelet's own file";
  ASSERT_OK(driver().Unstage(id, staging));
  EXPECT_EQ(::rmdir(staging.c_str()), 0) << "kubelet removes what it made, and retries for ever where it cannot";
}

// Kubelet binds the published device once more, and holds a loop device of its own on that.
TEST_F(Kubelet, K6_PathsOfABlockVolumeAndKubeletsOwnLoopDeviceOnIt) {
  const std::string id = Created(Block(kMultiWriter));
  const std::string staging = BlockStaging("pvc-1"), target = BlockTarget("pvc-1", "uid-1");
  ASSERT_OK(driver().Stage(id, staging, Block(kMultiWriter)));
  ASSERT_OK(driver().Publish(id, staging, target, Block(kMultiWriter)));
  const std::string device = BindForPod(target, "pvc-1", "uid-1");
  const std::string loop = RunOutput("losetup --find --show " + device);
  ASSERT_THAT(loop, HasSubstr("/dev/loop"));
  EXPECT_EQ(LoopsOver(Image(id)).size(), 1U);
  // Read-only beside it: the plugin's own stacked device, not kubelet's.
  const std::string read_only = BlockTarget("pvc-1", "uid-2");
  ASSERT_OK(driver().Publish(id, staging, read_only, Block(kMultiWriter), true));
  EXPECT_EQ(TryWrite(read_only, "data"), EPERM);
  EXPECT_EQ(TryWrite(target, "data"), 0);
  Restart(SIGTERM);
  EXPECT_EQ(Shell("losetup " + loop.substr(0, loop.size() - 1) + " >/dev/null"), 0) << "not the plugin's to detach";
  ASSERT_OK(driver().Publish(id, staging, target, Block(kMultiWriter)));
  EXPECT_EQ(Shell("losetup -d " + loop), 0);
  EXPECT_EQ(::umount(device.c_str()), 0);
  EXPECT_OK(driver().Unpublish(id, target));
  EXPECT_OK(driver().Unpublish(id, read_only));
  EXPECT_OK(driver().Unstage(id, staging));
  EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
}

// A file or a mount left in a directory makes kubelet repeat the call for ever.
TEST_F(Kubelet, K7_NothingIsLeftAtThePathsAfterwards) {
  for (const VolumeCapability& capability : {Mount("", kMultiWriter), Block(kMultiWriter)}) {
    const std::string id = Created(capability);
    const std::string staging = GlobalMount(id), target = PodTarget("uid-" + id, "pvc-1");
    ASSERT_OK(driver().Stage(id, staging, capability));
    ASSERT_OK(driver().Publish(id, staging, target, capability));
    ASSERT_OK(driver().Unpublish(id, target));
    EXPECT_FALSE(fs::exists(fs::symlink_status(target)));
    ASSERT_OK(driver().Unstage(id, staging));
    EXPECT_TRUE(fs::is_empty(staging));
    EXPECT_FALSE(MountAt(staging));
  }
}

TEST_F(Kubelet, K9_OneVolumeReadOnlyAndWritableForTwoPodsAtATime) {
  const std::string id = Created(Mount("", kMultiWriter));
  const std::string staging = GlobalMount(id), rw = PodTarget("uid-1", "pvc-1"), ro = PodTarget("uid-2", "pvc-1");
  ASSERT_OK(driver().Stage(id, staging, Mount("", kMultiWriter)));
  ASSERT_OK(driver().Publish(id, staging, ro, Mount("", kMultiWriter), true));
  ASSERT_OK(driver().Publish(id, staging, rw, Mount("", kMultiWriter)));
  EXPECT_EQ(TryWrite(rw + "/file", "data"), 0);
  EXPECT_EQ(TryWrite(ro + "/file", "data"), EROFS);
  EXPECT_EQ(ReadFile(ro + "/file"), "data");
}

TEST_F(Kubelet, K14_ExpandCarriesCapabilityStagingPathAndRange) {
  for (const VolumeCapability& capability :
       {Mount("xfs", kMultiWriter), Mount("btrfs", kMultiWriter), Block(kMultiWriter)}) {
    const std::string id = Created(capability, kXfsBytes);
    const std::string staging = GlobalMount(id), target = PodTarget("uid-" + id, "pvc-1");
    ASSERT_OK(driver().Stage(id, staging, capability));
    ASSERT_OK(driver().Publish(id, staging, target, capability));
    ASSERT_OK(driver().Grow(id, 2 * kXfsBytes));
    csi::v1::NodeExpandVolumeRequest request;
    request.set_volume_id(id);
    request.set_volume_path(target);
    request.set_staging_target_path(staging);
    *request.mutable_volume_capability() = capability;
    request.mutable_capacity_range()->set_required_bytes(2 * kXfsBytes);
    const auto answer = driver().Send(request);
    ASSERT_OK(answer);
    EXPECT_EQ(answer->capacity_bytes(), 2 * kXfsBytes);
    EXPECT_EQ(driver().Stats(id, target)->usage(0).total() > kXfsBytes, true);
  }
}

// With --grow-on-node, for a resizer that sits on another node: no ControllerExpand comes before it.
TEST_F(Kubelet, K14_ExpandOnTheNodeAlone) {
  using RPC = csi::v1::ControllerServiceCapability::RPC;
  plugin().options().flags.push_back("--grow-on-node");
  Restart(SIGTERM);
  const auto offers = driver().Send(csi::v1::ControllerGetCapabilitiesRequest());
  for (const auto& offered : offers->capabilities()) EXPECT_NE(offered.rpc().type(), RPC::EXPAND_VOLUME);
  EXPECT_THAT(driver().Send(csi::v1::NodeGetCapabilitiesRequest())->DebugString(), HasSubstr("EXPAND_VOLUME"));
  for (const VolumeCapability& capability : {Mount("xfs", kMultiWriter), Block(kMultiWriter)}) {
    const std::string id = Created(capability, kXfsBytes);
    const std::string staging = GlobalMount(id), target = PodTarget("uid-" + id, "pvc-1");
    ASSERT_OK(driver().Stage(id, staging, capability));
    ASSERT_OK(driver().Publish(id, staging, target, capability));
    ExpectRefused([&] { return driver().NodeExpand(id, dir() / "elsewhere", 2 * kXfsBytes); }, Code::kNotFound,
                  "is not at");
    for (int i = 0; i < 2; ++i) {
      const auto answer = driver().NodeExpand(id, target, 2 * kXfsBytes);
      ASSERT_OK(answer);
      EXPECT_EQ(answer->capacity_bytes(), 2 * kXfsBytes);
    }
    EXPECT_GT(driver().Stats(id, target)->usage(0).total(), kXfsBytes + kXfsBytes / 2);
    EXPECT_EQ(driver().NodeExpand(id, target, kXfsBytes)->capacity_bytes(), 2 * kXfsBytes) << "it does not shrink";
    ExpectRefused([&] { return driver().NodeExpand(id, target, std::int64_t{1} << 60); }, Code::kOutOfRange, "");
  }
  ExpectRefused([&] { return driver().NodeExpand("vol-00000000000000000000000000000000", dir() / "x", kXfsBytes); },
                Code::kNotFound, "does not exist");
}

// Without CAP_SYS_RESOURCE the kernel grows no mounted ext4: NodeExpand makes the volume larger, the next Stage its
// filesystem. Kubelet calls NodeExpand for a pod that runs, else after the Publish of the next one.
TEST_F(Kubelet, K14_AnExt4ThatCannotGrowInUseGrowsAtTheNextStage) {
  if (HasCapSysResource()) GTEST_SKIP() << "with CAP_SYS_RESOURCE it grows in use";
  plugin().options().flags.push_back("--grow-on-node");
  Restart(SIGTERM);
  for (const bool pod_runs : {true, false}) {
    SCOPED_TRACE(pod_runs ? "the claim is raised while a pod runs" : "while none does");
    const VolumeCapability capability = Mount("ext4", kMultiWriter);
    const std::string id = Created(capability);
    const std::string staging = GlobalMount(id), target = PodTarget("uid-" + id, "pvc-1");
    int starts = 0;
    const auto start = [&] {
      ASSERT_OK(driver().Stage(id, staging, capability));
      ASSERT_OK(driver().Publish(id, staging, target, capability));
      ++starts;
    };
    const auto stop = [&] {
      ASSERT_OK(driver().Unpublish(id, target));
      ASSERT_OK(driver().Unstage(id, staging));
    };
    const auto has_grown = [&] { return MountedBytes(target) > static_cast<std::uint64_t>(kVolumeBytes); };
    if (pod_runs) {
      start();
      EXPECT_FALSE(driver().NodeExpand(id, target, 2 * kVolumeBytes).status.ok());
      stop();
      starts = 0;
    }
    start();
    if (!has_grown()) {
      EXPECT_THAT(driver().NodeExpand(id, target, 2 * kVolumeBytes),
                  FailsWith(Code::kFailedPrecondition, "CAP_SYS_RESOURCE"));
      stop();
      start();
    }
    EXPECT_TRUE(has_grown());
    EXPECT_OK(driver().NodeExpand(id, target, 2 * kVolumeBytes));
    EXPECT_EQ(starts, pod_runs ? 1 : 2) << "starts of a pod after the claim was raised";
    stop();
  }
}

// A volume restored into a larger one gets no NodeExpand.
TEST_F(Kubelet, K15_StageGrowsAFilesystemThatIsSmallerThanItsVolume) {
  for (const auto& [fs_type, bytes] :
       {std::pair("ext4", kVolumeBytes), std::pair("xfs", kXfsBytes), std::pair("btrfs", kXfsBytes)}) {
    const VolumeCapability capability = Mount(fs_type, kMultiWriter);
    const std::string id = Created(capability, bytes);
    ASSERT_OK(driver().Stage(id, GlobalMount(id), capability));
    ASSERT_EQ(TryWrite(GlobalMount(id) + "/file", "data"), 0);
    ASSERT_OK(driver().Unstage(id, GlobalMount(id)));
    ASSERT_OK(driver().Grow(id, 3 * bytes));
    ASSERT_OK(driver().Stage(id, GlobalMount(id), capability));
    EXPECT_GT(MountedBytes(GlobalMount(id)), static_cast<std::uint64_t>(2 * bytes)) << fs_type;
    EXPECT_EQ(ReadFile(GlobalMount(id) + "/file"), "data");
  }
}

// For block kubelet asks by a path of its own; for mount another bind of the target must do as well.
TEST_F(Kubelet, K16_FiguresByAPathThatWasNeverPublished) {
  const std::string block = Created(Block(kMultiWriter));
  ASSERT_OK(driver().Stage(block, BlockStaging("pvc-1"), Block(kMultiWriter)));
  ASSERT_OK(driver().Publish(block, BlockStaging("pvc-1"), BlockTarget("pvc-1", "uid-1"), Block(kMultiWriter)));
  const std::string device = BindForPod(BlockTarget("pvc-1", "uid-1"), "pvc-1", "uid-1");
  const std::string mount = Created(Mount("", kMultiWriter));
  ASSERT_OK(driver().Stage(mount, GlobalMount(mount), Mount("", kMultiWriter)));
  ASSERT_OK(driver().Publish(mount, GlobalMount(mount), PodTarget("uid-1", "pvc-2"), Mount("", kMultiWriter)));
  const std::string elsewhere = MakeDirectories("elsewhere");
  ASSERT_EQ(::mount(PodTarget("uid-1", "pvc-2").c_str(), elsewhere.c_str(), nullptr, MS_BIND, nullptr), 0);
  Forgive(elsewhere);
  std::vector<std::future<void>> pods;  // all of them at the same instant
  for (int i = 0; i < 8; ++i) {
    pods.push_back(std::async(std::launch::async, [&] {
      EXPECT_EQ(driver().Stats(block, device)->usage(0).total(), kVolumeBytes);
      EXPECT_EQ(static_cast<std::uint64_t>(driver().Stats(mount, elsewhere)->usage(0).total()),
                MountedBytes(elsewhere));
    }));
  }
  pods.clear();
  EXPECT_THAT(driver().Stats(mount, device), FailsWith(Code::kNotFound, mount));
  EXPECT_EQ(::umount(device.c_str()), 0);
  EXPECT_EQ(::umount(elsewhere.c_str()), 0);
}

TEST_F(Kubelet, K17_SeveralPodsOfOneVolumeAndUnstageAtOnceAfterTheLast) {
  for (const VolumeCapability& capability : {Mount("", kMultiWriter), Block(kMultiWriter)}) {
    const std::string id = Created(capability);
    const std::string staging = GlobalMount(id);
    ASSERT_OK(driver().Stage(id, staging, capability));
    std::vector<std::string> targets;
    for (int i = 0; i < 8; ++i) targets.push_back(PodTarget("uid-" + std::to_string(i), id));
    for (const std::string& target : targets) ASSERT_OK(driver().Publish(id, staging, target, capability));
    std::vector<std::future<void>> pods;
    for (const std::string& target : targets) {
      pods.push_back(std::async(std::launch::async, [&] { EXPECT_OK(driver().Unpublish(id, target)); }));
    }
    pods.clear();
    EXPECT_OK(driver().Unstage(id, staging));
    EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
  }
}

// After a final code kubelet sends no Unstage.
TEST_F(Kubelet, K19_AFailedStageLeavesNothing) {
  const std::string id = Created(Mount("", kMultiWriter));
  plugin().options().environment["PATH"] = FailingMkfs();
  Restart(SIGTERM);
  GlobalMount(id);
  ExpectRefused([&] { return driver().Stage(id, GlobalMount(id), Mount("", kMultiWriter)); }, Code::kInternal,
                "the disk is on fire");
  EXPECT_EQ(::rmdir(GlobalMount(id).c_str()), 0);
  EXPECT_OK(driver().Delete(id));
}

TEST_F(Kubelet, K19_AFailedPublishLeavesNothingAndUnstageAloneFollows) {
  for (const VolumeCapability& capability : {Mount("", kMultiWriter), Block(kMultiWriter)}) {
    const std::string id = Created(capability);
    const std::string target = PodTarget("uid-1", id);
    fs::create_directories(target + "/in the way");
    ASSERT_OK(driver().Stage(id, GlobalMount(id), capability));
    for (const bool read_only : {false, true}) {
      ExpectRefused([&] { return driver().Publish(id, GlobalMount(id), target, capability, read_only); },
                    Code::kFailedPrecondition, target);
    }
    EXPECT_OK(driver().Unstage(id, GlobalMount(id)));
    EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
  }
}

// ABORTED, UNAVAILABLE and so on: Unstage and Unpublish come although Stage and Publish never succeeded.
TEST_F(Kubelet, K19_ACallThatWasGivenUpByTheCallerIsCleanedUp) {
  const std::string id = Created(Mount("", kMultiWriter));
  plugin().options().environment["PATH"] = SlowMkfs(0.5);
  Restart(SIGTERM);
  driver().set_deadline(std::chrono::milliseconds(150));
  EXPECT_THAT(driver().Stage(id, GlobalMount(id), Mount("", kMultiWriter)), FailsWith(Code::kDeadlineExceeded, ""));
  driver().set_deadline(std::chrono::seconds(60));
  EXPECT_OK(driver().Unpublish(id, PodTarget("uid-1", "pvc-1")));
  EXPECT_OK(driver().Unstage(id, GlobalMount(id))) << "waits for the stage that is still under way";
  EXPECT_FALSE(MountAt(GlobalMount(id)));
  EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
}

TEST_F(Kubelet, K20_DeleteMayComeBeforeUnstageAndUnstageOfAnUnknownVolumeCleansThePath) {
  for (const VolumeCapability& capability : {Mount("", kMultiWriter), Block(kMultiWriter)}) {
    const std::string id = Created(capability);
    ASSERT_OK(driver().Stage(id, GlobalMount(id), capability));
    EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "unstage"));
    EXPECT_OK(driver().Unstage(id, GlobalMount(id)));
    EXPECT_OK(driver().Delete(id));
    EXPECT_OK(driver().Unstage(id, GlobalMount(id))) << "unknown by now";
    EXPECT_EQ(::rmdir(GlobalMount(id).c_str()), 0);
  }
}

TEST_F(Kubelet, K21_DeleteAndControllerPublishComeTwiceAtATime) {
  for (int round = 0; round < 10; ++round) {
    const std::string id = Created();
    const auto twice = [&](const std::function<absl::Status()>& call) {
      auto other = std::async(std::launch::async, call);
      EXPECT_OK(call());
      EXPECT_OK(other.get());
    };
    twice([&] { return driver().Attach(id, kNode).status; });
    twice([&] { return driver().Detach(id, kNode).status; });
    twice([&] { return driver().Delete(id).status; });
  }
}

TEST_F(Kubelet, K23_PublishAgainOnTheMountedTargetTouchesNothing) {
  for (const VolumeCapability& capability : {Mount("", kMultiWriter, {"noatime"}), Block(kMultiWriter)}) {
    const std::string id = Created(capability);
    const std::string target = PodTarget("uid-1", id);
    ASSERT_OK(driver().Stage(id, GlobalMount(id), capability));
    csi::v1::NodePublishVolumeRequest request;
    request.set_volume_id(id);
    request.set_staging_target_path(GlobalMount(id));
    request.set_target_path(target);
    *request.mutable_volume_capability() = capability;
    (*request.mutable_volume_context())["csi.storage.k8s.io/serviceAccount.tokens"] = "first";
    ASSERT_OK(driver().Send(request));
    const std::string mounts = RawMounts();
    (*request.mutable_volume_context())["csi.storage.k8s.io/serviceAccount.tokens"] = "second";
    for (int i = 0; i < 5; ++i) EXPECT_OK(driver().Send(request));
    EXPECT_EQ(RawMounts(), mounts);
  }
}

TEST_F(Kubelet, K25_AfterARestartOfThePluginNothingIsRepeatedAndAllGoesOn) {
  const std::string id = Created(Mount("", kMultiWriter));
  const std::string target = PodTarget("uid-1", "pvc-1");
  ASSERT_OK(driver().Stage(id, GlobalMount(id), Mount("", kMultiWriter)));
  ASSERT_OK(driver().Publish(id, GlobalMount(id), target, Mount("", kMultiWriter)));
  // Not inherited by the next plugin process, which the test starts.
  UniqueFd pod(::open((target + "/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  const std::string mounts = RawMounts();
  Restart(SIGKILL);
  EXPECT_EQ(RawMounts(), mounts);
  EXPECT_EQ(::write(pod.get(), "still writing", 13), 13);
  EXPECT_OK(driver().Stats(id, target));
  pod.reset();
  EXPECT_OK(driver().Unpublish(id, target));
  EXPECT_OK(driver().Unstage(id, GlobalMount(id)));
}

TEST_F(Kubelet, K26_StageAndPublishAgainOnMountedPathsLeaveTheMountsAlone) {
  for (const VolumeCapability& capability : {Mount("", kMultiWriter, {"noatime"}), Block(kMultiWriter)}) {
    const std::string id = Created(capability);
    const std::string rw = PodTarget("uid-1", id), ro = PodTarget("uid-2", id);
    const auto all = [&] {
      EXPECT_OK(driver().Send(csi::v1::NodeGetInfoRequest()));
      EXPECT_OK(driver().Stage(id, GlobalMount(id), capability));
      EXPECT_OK(driver().Publish(id, GlobalMount(id), rw, capability));
      EXPECT_OK(driver().Publish(id, GlobalMount(id), ro, capability, true));
    };
    all();
    const std::string mounts = RawMounts();
    const std::size_t loops = LoopsHere().size();
    all();
    for (const int signal : {SIGTERM, SIGKILL}) {
      Restart(signal);
      all();
    }
    plugin().Kill();
    ForgetRecords();
    Start();
    all();
    EXPECT_EQ(RawMounts(), mounts);
    EXPECT_EQ(LoopsHere().size(), loops);
  }
}

}  // namespace
}  // namespace mooring::testing

// The calls of kubelet. tests/kubernetes/README.md explains the numbers K5 to K26. Reboots: kubelet_reboot_test.cc.
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <future>

#include "base/file/unique_fd.h"
#include "tests/rpc/orchestrators/kubelet_paths.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Kubelet : public KubeletTest {
 protected:
  void StageAndPublish(const std::string& id, const std::string& staging, const std::string& target,
                       const VolumeCapability& capability) {
    EXPECT_OK(driver().Stage(id, staging, capability));
    EXPECT_OK(driver().Publish(id, staging, target, capability));
  }
};

TEST_F(Kubelet, K5_MountVolumeUsesTheMountPaths) {
  const std::string id = Created(kSharedMount);
  const std::string staging = GlobalMount(id), target = PodTarget("uid-1", "pvc-1");
  StageAndPublish(id, staging, target, kSharedMount);
  EXPECT_EQ(TryWrite(target + "/file", "data"), 0);
  EXPECT_EQ(ReadFile(fs::path(target).parent_path() / "vol_data.json"), "{}");
  ASSERT_OK(driver().Unpublish(id, target));
  EXPECT_FALSE(fs::exists(target));
  EXPECT_EQ(ReadFile(fs::path(target).parent_path() / "vol_data.json"), "{}") << "kubelet owns this file";
  ASSERT_OK(driver().Unstage(id, staging));
  EXPECT_EQ(::rmdir(staging.c_str()), 0) << "kubelet cannot remove its directory";
}

// Kubelet binds the published device again, and attaches a loop device to that.
TEST_F(Kubelet, K6_BlockVolumeCarriesALoopDeviceOfKubelet) {
  const std::string id = Created(kSharedBlock);
  const std::string staging = BlockStaging("pvc-1"), target = BlockTarget("pvc-1", "uid-1");
  StageAndPublish(id, staging, target, kSharedBlock);
  const std::string device = BindForPod(target, "pvc-1", "uid-1");
  const std::string loop = AttachLoop(device);
  EXPECT_EQ(LoopsOver(Image(id)).size(), 1U);
  // The read-only target uses a device that the plugin has stacked, not the device of kubelet.
  const std::string read_only = BlockTarget("pvc-1", "uid-2");
  ASSERT_OK(driver().Publish(id, staging, read_only, kSharedBlock, true));
  EXPECT_EQ(TryWrite(read_only, "data"), EPERM);
  EXPECT_EQ(TryWrite(target, "data"), 0);
  Restart(SIGTERM);
  EXPECT_EQ(Shell("losetup " + loop + " >/dev/null"), 0) << "the plugin has detached kubelet's device";
  ASSERT_OK(driver().Publish(id, staging, target, kSharedBlock));
  EXPECT_EQ(Shell("losetup -d " + loop), 0);
  EXPECT_EQ(::umount(device.c_str()), 0);
  EXPECT_OK(driver().Unpublish(id, target));
  EXPECT_OK(driver().Unpublish(id, read_only));
  EXPECT_OK(driver().Unstage(id, staging));
  ExpectNoLoops();
}

// Kubelet would repeat the call for ever if a file or a mount remained.
TEST_F(Kubelet, K7_UnpublishAndUnstageLeaveNothing) {
  for (const VolumeCapability& capability : {kSharedMount, kSharedBlock}) {
    const std::string id = Created(capability);
    const std::string staging = GlobalMount(id), target = PodTarget("uid-" + id, "pvc-1");
    StageAndPublish(id, staging, target, capability);
    ASSERT_OK(driver().Unpublish(id, target));
    EXPECT_FALSE(fs::exists(fs::symlink_status(target)));
    ASSERT_OK(driver().Unstage(id, staging));
    EXPECT_TRUE(fs::is_empty(staging));
    EXPECT_FALSE(MountAt(staging));
  }
}

TEST_F(Kubelet, K9_TwoPodsShareAVolumeReadOnlyAndWritable) {
  const std::string id = Created(kSharedMount);
  const std::string staging = GlobalMount(id), rw = PodTarget("uid-1", "pvc-1"), ro = PodTarget("uid-2", "pvc-1");
  ASSERT_OK(driver().Stage(id, staging, kSharedMount));
  ASSERT_OK(driver().Publish(id, staging, ro, kSharedMount, true));
  ASSERT_OK(driver().Publish(id, staging, rw, kSharedMount));
  EXPECT_EQ(TryWrite(rw + "/file", "data"), 0);
  EXPECT_EQ(TryWrite(ro + "/file", "data"), EROFS);
  EXPECT_EQ(ReadFile(ro + "/file"), "data");
}

TEST_F(Kubelet, K14_NodeExpandAcceptsAllFields) {
  for (const VolumeCapability& capability : {Mount("xfs", kMultiWriter), Mount("btrfs", kMultiWriter), kSharedBlock}) {
    const std::string id = Created(capability, kXfsBytes);
    const std::string staging = GlobalMount(id), target = PodTarget("uid-" + id, "pvc-1");
    StageAndPublish(id, staging, target, capability);
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

// With --grow-on-node, for a resizer on another node. There is no ControllerExpandVolume before.
TEST_F(Kubelet, K14_NodeExpandGrowsWithoutControllerExpand) {
  using RPC = csi::v1::ControllerServiceCapability::RPC;
  plugin().options().flags.push_back("--grow-on-node");
  Restart(SIGTERM);
  const auto offers = driver().Send(csi::v1::ControllerGetCapabilitiesRequest());
  for (const auto& offered : offers->capabilities()) EXPECT_NE(offered.rpc().type(), RPC::EXPAND_VOLUME);
  EXPECT_THAT(driver().Send(csi::v1::NodeGetCapabilitiesRequest())->DebugString(), HasSubstr("EXPAND_VOLUME"));
  for (const VolumeCapability& capability : {Mount("xfs", kMultiWriter), kSharedBlock}) {
    const std::string id = Created(capability, kXfsBytes);
    const std::string staging = GlobalMount(id), target = PodTarget("uid-" + id, "pvc-1");
    StageAndPublish(id, staging, target, capability);
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

// Without CAP_SYS_RESOURCE the kernel does not grow a mounted ext4. NodeExpand enlarges the volume, and the next Stage
// its filesystem. Kubelet calls NodeExpand for a running pod, or after the Publish of the next pod.
TEST_F(Kubelet, K14_Ext4GrowsAtTheNextStage) {
  if (HasCapSysResource()) GTEST_SKIP() << "with CAP_SYS_RESOURCE it grows in use";
  plugin().options().flags.push_back("--grow-on-node");
  Restart(SIGTERM);
  for (const bool pod_runs : {true, false}) {
    SCOPED_TRACE(pod_runs ? "the claim grows while a pod runs" : "the claim grows without a pod");
    const VolumeCapability capability = Mount("ext4", kMultiWriter);
    const std::string id = Created(capability);
    const std::string staging = GlobalMount(id), target = PodTarget("uid-" + id, "pvc-1");
    int starts = 0;
    const auto start = [&] {
      StageAndPublish(id, staging, target, capability);
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
    EXPECT_EQ(starts, pod_runs ? 1 : 2) << "starts of a pod after the claim has grown";
    stop();
  }
}

// A snapshot restored into a larger volume gets no NodeExpand.
TEST_F(Kubelet, K15_StageGrowsTheFilesystem) {
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

// Kubelet asks for a block volume by its own bind of the device. Another bind of a mount target must work as well.
TEST_F(Kubelet, K16_StatsAcceptOtherBindsOfTheTarget) {
  const std::string block = Created(kSharedBlock);
  StageAndPublish(block, BlockStaging("pvc-1"), BlockTarget("pvc-1", "uid-1"), kSharedBlock);
  const std::string device = BindForPod(BlockTarget("pvc-1", "uid-1"), "pvc-1", "uid-1");
  const std::string mount = Created(kSharedMount);
  StageAndPublish(mount, GlobalMount(mount), PodTarget("uid-1", "pvc-2"), kSharedMount);
  const std::string elsewhere = MakeDirectories("elsewhere");
  ASSERT_EQ(::mount(PodTarget("uid-1", "pvc-2").c_str(), elsewhere.c_str(), nullptr, MS_BIND, nullptr), 0);
  AllowMount(elsewhere);
  std::vector<std::future<void>> pods;  // concurrently
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

TEST_F(Kubelet, K17_UnstageFollowsTheLastOfSeveralPods) {
  for (const VolumeCapability& capability : {kSharedMount, kSharedBlock}) {
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
    ExpectNoLoops();
  }
}

TEST_F(Kubelet, K19_FailedStageLeavesNothing) {
  const std::string id = Created(kSharedMount);
  RestartWithPath(FailingMkfs());
  GlobalMount(id);
  ExpectRefused([&] { return driver().Stage(id, GlobalMount(id), kSharedMount); }, Code::kInternal,
                "the disk is on fire");
  EXPECT_EQ(::rmdir(GlobalMount(id).c_str()), 0);
  EXPECT_OK(driver().Delete(id));
}

TEST_F(Kubelet, K19_FailedPublishLeavesNothing) {
  for (const VolumeCapability& capability : {kSharedMount, kSharedBlock}) {
    const std::string id = Created(capability);
    const std::string target = PodTarget("uid-1", id);
    fs::create_directories(target + "/in the way");
    ASSERT_OK(driver().Stage(id, GlobalMount(id), capability));
    for (const bool read_only : {false, true}) {
      ExpectRefused([&] { return driver().Publish(id, GlobalMount(id), target, capability, read_only); },
                    Code::kFailedPrecondition, target);
    }
    EXPECT_OK(driver().Unstage(id, GlobalMount(id)));
    ExpectNoLoops();
  }
}

// After ABORTED, UNAVAILABLE and similar codes kubelet calls Unstage and Unpublish, although nothing succeeded.
TEST_F(Kubelet, K19_UnstageCleansUpAfterATimeout) {
  const std::string id = Created(kSharedMount);
  RestartWithPath(SlowMkfs(0.5));
  driver().set_deadline(std::chrono::milliseconds(150));
  EXPECT_THAT(driver().Stage(id, GlobalMount(id), kSharedMount), FailsWith(Code::kDeadlineExceeded, ""));
  driver().set_deadline(std::chrono::seconds(60));
  EXPECT_OK(driver().Unpublish(id, PodTarget("uid-1", "pvc-1")));
  EXPECT_OK(driver().Unstage(id, GlobalMount(id))) << "the unstage waits for the stage";
  EXPECT_FALSE(MountAt(GlobalMount(id)));
  ExpectNoLoops();
}

TEST_F(Kubelet, K20_UnstageOfADeletedVolumeIsOk) {
  for (const VolumeCapability& capability : {kSharedMount, kSharedBlock}) {
    const std::string id = Created(capability);
    ASSERT_OK(driver().Stage(id, GlobalMount(id), capability));
    EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "unstage"));
    EXPECT_OK(driver().Unstage(id, GlobalMount(id)));
    EXPECT_OK(driver().Delete(id));
    EXPECT_OK(driver().Unstage(id, GlobalMount(id))) << "the volume is deleted";
    EXPECT_EQ(::rmdir(GlobalMount(id).c_str()), 0);
  }
}

TEST_F(Kubelet, K21_DuplicateControllerCallsSucceed) {
  for (int round = 0; round < 5; ++round) {
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

TEST_F(Kubelet, K23_RepeatedPublishKeepsTheMount) {
  for (const VolumeCapability& capability : {Mount("", kMultiWriter, {"noatime"}), kSharedBlock}) {
    const std::string id = Created(capability);
    const std::string target = PodTarget("uid-1", id);
    ASSERT_OK(driver().Stage(id, GlobalMount(id), capability));
    csi::v1::NodePublishVolumeRequest request = PublishRequest(id, GlobalMount(id), target, capability);
    (*request.mutable_volume_context())["csi.storage.k8s.io/serviceAccount.tokens"] = "first";
    ASSERT_OK(driver().Send(request));
    const std::string mounts = RawMounts();
    (*request.mutable_volume_context())["csi.storage.k8s.io/serviceAccount.tokens"] = "second";
    for (int i = 0; i < 5; ++i) EXPECT_OK(driver().Send(request));
    EXPECT_EQ(RawMounts(), mounts);
  }
}

TEST_F(Kubelet, K26_RepeatedStageAndPublishKeepTheMounts) {
  for (const VolumeCapability& capability : {Mount("", kMultiWriter, {"noatime"}), kSharedBlock}) {
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
    KillAndForget();
    all();
    EXPECT_EQ(RawMounts(), mounts);
    EXPECT_EQ(LoopsHere().size(), loops);
  }
}

}  // namespace
}  // namespace mooring::testing

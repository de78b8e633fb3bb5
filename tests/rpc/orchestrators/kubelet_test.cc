// The calls of kubelet and the sidecars that tests/image/kubelet.table does not make. tests/kubernetes/README.md
// explains the numbers. Reboots: kubelet_reboot_test.cc.
#include "tests/rpc/support/held_tool.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class Kubelet : public RpcTest {
 protected:
  // The caller gives up a stage while mkfs, which is held, runs. From then on the deadline of calls is short.
  void GiveUpDuringMkfs(const std::string& id, const VolumeCapability& capability = Mount()) {
    driver().set_deadline(milliseconds(150));
    ASSERT_TRUE(Eventually([&] {
      EXPECT_FALSE(driver().Stage(id, Staging(id), capability).status.ok());
      return MkfsRuns() == 1;
    }));
  }
};

// The sidecars time out after seconds and repeat the call.
TEST_F(Kubelet, K4_RepeatedStageFinishesTheFirstOne) {
  const std::string id = Created();
  HeldTool mkfs(*this, "mkfs.ext4");
  RestartWithPath(mkfs.path());
  GiveUpDuringMkfs(id);
  EXPECT_FALSE(driver().Stage(id, Staging(id)).status.ok()) << "it waits for mkfs";
  EXPECT_EQ(MkfsRuns(), 1);
  mkfs.Release();
  EXPECT_TRUE(Eventually([&] { return driver().Stage(id, Staging(id)).status.ok(); }));
  EXPECT_EQ(MkfsRuns(), 1);
  driver().set_deadline(std::chrono::seconds(60));
}

// Without podInfoOnMount an inline volume looks like a volume that was never staged. The error names the missing
// setting.
TEST_F(Kubelet, K11_InlineVolumeWithoutPodInfoIsRefused) {
  ExpectRefused(PublishRequest("csi-" + std::string(64, 'a'), "", Target("uid-1")), Code::kFailedPrecondition,
                "podInfoOnMount");
}

// The requests of external-provisioner with --extra-create-metadata, and of kubelet. The class has secrets.
TEST_F(Kubelet, K12_MetadataIsAcceptedAndSecretsAreNotLogged) {
  constexpr char kSecret[] = "never-to-be-logged";
  CreateVolumeRequest create = CreateRequest("pvc-6a3f1c52", kSharedMount, kVolumeBytes,
                                             {{"csi.storage.k8s.io/pv/name", "pvc-6a3f1c52"},
                                              {"csi.storage.k8s.io/pvc/name", "web"},
                                              {"csi.storage.k8s.io/pvc/namespace", "default"}});
  (*create.mutable_secrets())["key"] = kSecret;
  auto& here = *create.mutable_accessibility_requirements();
  (*here.add_requisite()->mutable_segments())["topology.mooring.csi/node"] = kNode;
  (*here.add_preferred()->mutable_segments())["topology.mooring.csi/node"] = kNode;
  const auto made = driver().Send(create);
  ASSERT_OK(made);
  const std::string id = made->volume().volume_id();
  EXPECT_THAT(made->volume().volume_context(), Contains(Pair("fsType", "ext4")));
  NodeStageVolumeRequest stage = StageRequest(id, Staging(id), kSharedMount);
  *stage.mutable_secrets() = create.secrets();
  *stage.mutable_volume_context() = made->volume().volume_context();
  (*stage.mutable_volume_context())["storage.kubernetes.io/csiProvisionerIdentity"] = "1700000000000-4711-mooring.csi";
  ASSERT_OK(driver().Send(stage));
  NodePublishVolumeRequest publish = PublishRequest(id, Staging(id), Target("uid-1"), kSharedMount);
  *publish.mutable_secrets() = create.secrets();
  *publish.mutable_volume_context() = stage.volume_context();
  (*publish.mutable_volume_context())["csi.storage.k8s.io/pod.name"] = "web-0";
  (*publish.mutable_volume_context())["csi.storage.k8s.io/ephemeral"] = "false";
  ASSERT_OK(driver().Send(publish));
  EXPECT_THAT(plugin().Log(), HasSubstr("csi.storage.k8s.io/pvc/name"));
  EXPECT_THAT(plugin().Log(), Not(HasSubstr(kSecret)));
}

// With --grow-on-node, for a resizer on another node. There is no ControllerExpandVolume before.
TEST_F(Kubelet, K14_NodeExpandGrowsWithoutControllerExpand) {
  using RPC = csi::v1::ControllerServiceCapability::RPC;
  RestartWith({"--grow-on-node"});
  const auto offers = driver().Send(csi::v1::ControllerGetCapabilitiesRequest());
  for (const auto& offered : offers->capabilities()) EXPECT_NE(offered.rpc().type(), RPC::EXPAND_VOLUME);
  EXPECT_THAT(driver().Send(NodeGetCapabilitiesRequest())->DebugString(), HasSubstr("EXPAND_VOLUME"));
  for (const VolumeCapability& capability : {Mount("xfs", kMultiWriter), kSharedBlock}) {
    const std::string id = Created(capability, kXfsBytes);
    const std::string target = Target("uid-1", id);
    StageAndPublish(id, target, capability);
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
  RestartWith({"--grow-on-node"});
  for (const bool pod_runs : {true, false}) {
    SCOPED_TRACE(pod_runs ? "the claim grows while a pod runs" : "the claim grows without a pod");
    const VolumeCapability capability = Mount("ext4", kMultiWriter);
    const std::string id = Created(capability);
    const std::string target = Target("uid-1", id);
    int starts = 0;
    const auto start = [&] {
      StageAndPublish(id, target, capability);
      ++starts;
    };
    const auto stop = [&] { UnpublishAndUnstage(id, target); };
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

// Kubelet asks for a block volume by its own bind of the device. Another bind of a mount target must work as well.
TEST_F(Kubelet, K16_StatsAcceptOtherBindsOfTheTarget) {
  const std::string block = Published(Target("a", "block"), kSharedBlock), mount = Published(Target("a"), kSharedMount);
  const std::string device = dir() / "device", elsewhere = MakeDirectories("elsewhere");
  std::ofstream(device).close();
  for (const auto& [target, path] : {std::pair(Target("a", "block"), device), std::pair(Target("a"), elsewhere)}) {
    ASSERT_EQ(::mount(target.c_str(), path.c_str(), nullptr, MS_BIND, nullptr), 0);
    AllowMount(path);
  }
  EXPECT_EQ(driver().Stats(block, device)->usage(0).total(), kVolumeBytes);
  EXPECT_EQ(static_cast<std::uint64_t>(driver().Stats(mount, elsewhere)->usage(0).total()), MountedBytes(elsewhere));
  EXPECT_THAT(driver().Stats(mount, device), FailsWith(Code::kNotFound, mount));
  for (const std::string& path : {device, elsewhere}) EXPECT_EQ(::umount(path.c_str()), 0);
}

// Kubelet repeats a failed call for ever.
TEST_F(Kubelet, K18_FailedStageLeavesNothingEachTime) {
  const std::string id = Created(), staging = Staging(id);
  RestartWithPath(FailingMkfs());
  for (int i = 0; i < 3; ++i) {
    ExpectRefused(StageRequest(id, staging), Code::kInternal, "the disk is on fire");
    EXPECT_EQ(::rmdir(staging.c_str()), 0) << "kubelet removes its directory";
    ASSERT_EQ(::mkdir(staging.c_str(), 0750), 0);
  }
  RestartWithPath("");
  EXPECT_OK(driver().Stage(id, staging));
}

// After ABORTED, UNAVAILABLE and similar codes kubelet calls Unstage and Unpublish, although nothing succeeded.
TEST_F(Kubelet, K19_UnstageCleansUpAfterATimeout) {
  const std::string id = Created(kSharedMount);
  std::future<absl::Status> cleanup;
  HeldTool mkfs(*this, "mkfs.ext4");
  RestartWithPath(mkfs.path());
  GiveUpDuringMkfs(id, kSharedMount);
  driver().set_deadline(std::chrono::seconds(60));
  cleanup = std::async(std::launch::async, [&] {
    const absl::Status unpublished = driver().Unpublish(id, Target("uid-1")).status;
    return unpublished.ok() ? driver().Unstage(id, Staging(id)).status : unpublished;
  });
  EXPECT_EQ(cleanup.wait_for(milliseconds(100)), std::future_status::timeout) << "it waits for the stage";
  mkfs.Release();
  EXPECT_OK(cleanup.get());
  EXPECT_FALSE(MountAt(Staging(id)));
  ExpectNoLoops();
}

TEST_F(Kubelet, K23_RepeatedPublishWithNewTokensKeepsTheMount) {
  for (const VolumeCapability& capability : {kSharedMount, kSharedBlock}) {
    const std::string id = Staged(capability);
    NodePublishVolumeRequest request = PublishRequest(id, Staging(id), Target("uid-1", id), capability);
    (*request.mutable_volume_context())["csi.storage.k8s.io/serviceAccount.tokens"] = "first";
    ASSERT_OK(driver().Send(request));
    const std::string mounts = RawMounts();
    (*request.mutable_volume_context())["csi.storage.k8s.io/serviceAccount.tokens"] = "second";
    for (int i = 0; i < 5; ++i) EXPECT_OK(driver().Send(request));
    EXPECT_EQ(RawMounts(), mounts);
  }
}

// Without VOLUME_MOUNT_GROUP kubelet changes owner and mode of all files itself.
TEST_F(Kubelet, K24_GroupOfTheRootIsKept) {
  const std::string id = Staged(kSharedMount);
  ASSERT_EQ(::chown(Staging(id).c_str(), 0, 4711), 0);
  ASSERT_EQ(::chmod(Staging(id).c_str(), 02770), 0);
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  StageAndPublish(id, Target("uid-1"), kSharedMount);
  EXPECT_EQ(StatOf(Target("uid-1")).st_gid, 4711U);
  EXPECT_EQ(StatOf(Target("uid-1")).st_mode & 07777U, 02770U);
}

// Kubelet asks for the capabilities before each call. So calls for running pods come without the group, once the plugin
// runs without the flag.
TEST_F(Kubelet, K24_MountGroupIsOfferedWithAFlagAndPodsContinueWithoutIt) {
  const auto offered = [&] { return driver().Send(NodeGetCapabilitiesRequest())->DebugString(); };
  EXPECT_THAT(offered(), Not(HasSubstr("VOLUME_MOUNT_GROUP")));
  RestartWith({"--volume-mount-group"});
  EXPECT_THAT(offered(), HasSubstr("VOLUME_MOUNT_GROUP"));
  const std::string id = Created(kSharedMount);
  StageAndPublish(id, Target("uid-1"), WithGroup(kSharedMount, "4711"));
  EXPECT_EQ(StatOf(Target("uid-1")).st_gid, 4711U);
  plugin().options().flags.pop_back();
  Restart(SIGTERM);
  StageAndPublish(id, Target("uid-1"), kSharedMount);
  EXPECT_EQ(StatOf(Target("uid-1")).st_gid, 4711U);
}

}  // namespace
}  // namespace mooring::testing

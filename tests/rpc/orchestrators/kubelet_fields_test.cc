// The fields that kubelet and the sidecars put into requests (K8 to K13), and their behaviour towards the plugin (K4,
// K18, K22, K24). tests/kubernetes/README.md explains the numbers.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/rpc/orchestrators/registered_kubelet.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

constexpr char kSecret[] = "never-to-be-logged";

class KubeletFields : public RegisteredKubelet {
 protected:
  // The request of external-provisioner with --extra-create-metadata, and with secrets in the class.
  csi::v1::CreateVolumeRequest Provision(const VolumeCapability& capability) {
    csi::v1::CreateVolumeRequest request =
        CreateRequest("pvc-6a3f1c52-8a0e-4c0f-9d7e-" + std::to_string(100000000000 + made_++), capability);
    auto& parameters = *request.mutable_parameters();
    parameters["csi.storage.k8s.io/pv/name"] = request.name();
    parameters["csi.storage.k8s.io/pvc/name"] = "web";
    parameters["csi.storage.k8s.io/pvc/namespace"] = "default";
    (*request.mutable_secrets())["key"] = kSecret;
    auto& here = *request.mutable_accessibility_requirements();
    (*here.add_requisite()->mutable_segments())["topology.mooring.csi/node"] = kNode;
    (*here.add_preferred()->mutable_segments())["topology.mooring.csi/node"] = kNode;
    return request;
  }

  PodVolume Provisioned(const csi::v1::CreateVolumeRequest& request, const std::string& pod = "uid-1") {
    const auto answer = driver().Send(request);
    EXPECT_OK(answer);
    const auto& context = answer->volume().volume_context();
    return {.pod = pod,
            .name = request.name(),
            .id = answer->volume().volume_id(),
            .capability = request.volume_capabilities(0),
            .context = {context.begin(), context.end()},
            .secrets = {{"key", kSecret}}};
  }

  static PodVolume Inline(AccessMode::Mode mode, std::map<std::string, std::string> attributes) {
    return {.pod = "uid-1",
            .name = "scratch",
            .id = "csi-" + std::string(64, 'a'),
            .capability = Mount("", mode),
            .is_inline = true,
            .context = std::move(attributes)};
  }

  std::size_t Images() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(state_dir() + "/volumes"), fs::directory_iterator()));
  }

  std::int64_t made_ = 0;
};

// The sidecars time out after seconds and repeat the call.
TEST_F(KubeletFields, K4_RepeatedStageFinishesTheFirstOne) {
  const std::string id = Created(Mount("", kReadWriteOnce));
  RestartWithPath(SlowMkfs(0.6));
  const std::string staging = Staging(id);
  driver().set_deadline(std::chrono::milliseconds(150));
  const int tries = FakeKubelet::Repeat([&] { return driver().Stage(id, staging, Mount("", kReadWriteOnce)).status; });
  driver().set_deadline(std::chrono::seconds(60));
  EXPECT_GT(tries, 1);
  EXPECT_EQ(MkfsRuns(), 1);
  EXPECT_TRUE(MountAt(staging));
}

TEST_F(KubeletFields, K8_AccessModesLimitWritesAndTargets) {
  using RPC = csi::v1::NodeServiceCapability::RPC;
  const auto offered = driver().Send(csi::v1::NodeGetCapabilitiesRequest());
  EXPECT_THAT(offered->DebugString(), HasSubstr(RPC::Type_Name(RPC::SINGLE_NODE_MULTI_WRITER)));
  const struct {
    const char* claim;
    AccessMode::Mode mode;
    int write;
    bool several;
  } rows[] = {{"ReadWriteOnce", kReadWriteOnce, 0, true},
              {"ReadWriteOncePod", AccessMode::SINGLE_NODE_SINGLE_WRITER, 0, false},
              {"ReadWriteMany", AccessMode::MULTI_NODE_MULTI_WRITER, 0, true},
              {"ReadOnlyMany", AccessMode::MULTI_NODE_READER_ONLY, EROFS, true},  // `readonly` is not set
              {"ReadWriteOnce, had it not been offered", AccessMode::SINGLE_NODE_WRITER, 0, false}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.claim);
    const PodVolume first = Provisioned(Provision(Mount("", row.mode)));
    Begin(first);
    EXPECT_EQ(TryWrite(kubelet().TargetPath(first) + "/file", "data"), row.write);
    PodVolume second = first;
    second.pod = "uid-2";
    if (row.several) {
      Begin(second);
      End(second);
    } else {
      EXPECT_THAT(kubelet().SetUp(second), FailsWith(Code::kFailedPrecondition, ""));
    }
    End(first);
  }
}

TEST_F(KubeletFields, K10_FsTypeAndMountFlagsAreAppliedInEveryCall) {
  const VolumeCapability capability = Mount("ext4", kReadWriteOnce, {"noatime", "nosuid", "commit=30"});
  const PodVolume volume = Provisioned(Provision(capability));
  csi::v1::ControllerPublishVolumeRequest attach;  // sent if attachRequired has its default
  attach.set_volume_id(volume.id);
  attach.set_node_id(kNode);
  *attach.mutable_volume_capability() = capability;
  EXPECT_OK(driver().Send(attach));
  Begin(volume);
  for (const std::string& path : {kubelet().StagingPath(volume), kubelet().TargetPath(volume)}) {
    EXPECT_TRUE(MountAt(path)->Has("noatime")) << path;
    EXPECT_TRUE(MountAt(path)->Has("nosuid")) << path;
    EXPECT_TRUE(MountAt(path)->SuperHas("commit=30")) << path;
  }
  End(volume);
  EXPECT_OK(driver().Detach(volume.id, kNode));
}

TEST_F(KubeletFields, K11_ContextOfPodAndProvisionerIsAccepted) {
  const PodVolume volume = Provisioned(Provision(Mount("", kReadWriteOnce)));
  EXPECT_THAT(volume.context, Contains(Pair("fsType", "ext4")));
  for (const bool pod_info : {true, false}) {
    kubelet().pod_info_on_mount = pod_info;
    Begin(volume);
    EXPECT_EQ(TryWrite(kubelet().TargetPath(volume) + "/file", "data"), 0) << "ephemeral=false means no inline volume";
    End(volume);
  }
}

// Without podInfoOnMount an inline volume looks like a volume that was never staged. The error names the missing
// setting.
TEST_F(KubeletFields, K11_InlineVolumeWithoutPodInfoIsRefused) {
  kubelet().pod_info_on_mount = false;
  const PodVolume volume = Inline(kReadWriteOnce, {});
  const absl::Status refused = kubelet().SetUp(volume);
  EXPECT_THAT(refused, FailsWith(Code::kFailedPrecondition, "podInfoOnMount"));
  EXPECT_EQ(Images(), 0U);
}

TEST_F(KubeletFields, K12_MetadataIsAcceptedAndSecretsAreNotLogged) {
  const csi::v1::CreateVolumeRequest request = Provision(Mount("", kReadWriteOnce));
  const PodVolume volume = Provisioned(request);
  EXPECT_EQ(Provisioned(request).id, volume.id) << "the same name is the same volume";
  Begin(volume);
  csi::v1::ControllerExpandVolumeRequest grow;
  grow.set_volume_id(volume.id);
  grow.mutable_capacity_range()->set_required_bytes(2 * kVolumeBytes);
  (*grow.mutable_secrets())["key"] = kSecret;
  EXPECT_OK(driver().Send(grow));
  End(volume);
  EXPECT_THAT(plugin().Log(), HasSubstr("csi.storage.k8s.io/pvc/name"));
  EXPECT_THAT(plugin().Log(), Not(HasSubstr(kSecret)));
}

TEST_F(KubeletFields, K13_InlineVolumesNeedNoStage) {
  for (const auto mode : {kReadWriteOnce, AccessMode::SINGLE_NODE_WRITER}) {
    const PodVolume volume = Inline(mode, {{"size", "64Mi"}});
    const std::size_t from = plugin().Log().size();
    Begin(volume);
    EXPECT_EQ(TryWrite(kubelet().TargetPath(volume) + "/file", "data"), 0);
    EXPECT_LE(MountedBytes(kubelet().TargetPath(volume)), static_cast<std::uint64_t>(kVolumeBytes));
    EXPECT_EQ(Images(), 1U);
    End(volume);
    EXPECT_TRUE(Eventually([&] { return Images() == 0; }));
    // This checks the fake kubelet.
    for (const char* method : {"NodeStageVolume", "NodeUnstageVolume"}) EXPECT_EQ(Calls(method, from), 0);
  }
}

// Kubelet repeats a failed call for ever.
TEST_F(KubeletFields, K18_FailedStageLeavesNothingEachTime) {
  plugin().options().environment["PATH"] =
      Wrapper("mkfs.ext4", "if [ $(wc -l < " + (dir() / "mkfs.ext4.runs") +
                               ") -lt 6 ]; then exit 1; fi; exec /usr/sbin/mkfs.ext4 \"$@\"");
  Restart(SIGTERM);
  ASSERT_TRUE(kubelet().AwaitRegistered());
  const PodVolume volume = Provisioned(Provision(Mount("", kReadWriteOnce)));
  const std::string before = RawMounts();
  for (int i = 1; i < 6; ++i) {
    EXPECT_FALSE(kubelet().SetUp(volume).ok());
    EXPECT_FALSE(fs::exists(kubelet().StagingPath(volume))) << "kubelet could remove it, because it was empty";
    EXPECT_EQ(RawMounts(), before);
    ExpectNoLoops();
  }
  EXPECT_EQ(FakeKubelet::Repeat([&] { return kubelet().SetUp(volume); }), 1);
  Begin(volume);
}

TEST_F(KubeletFields, K22_VolumesNeedNoControllerPublish) {
  const PodVolume volume = Provisioned(Provision(Mount("", kReadWriteOnce)));
  const std::size_t from = plugin().Log().size();
  Begin(volume);
  EXPECT_EQ(Calls("ControllerPublishVolume", from), 0) << "by the fake kubelet";
  End(volume);
  EXPECT_OK(driver().Delete(volume.id));
}

// Without VOLUME_MOUNT_GROUP kubelet changes owner and mode of all files. Otherwise the plugin changes the root only.
TEST_F(KubeletFields, K24_GroupOfTheRootIsKept) {
  constexpr gid_t kGroup = 4711;
  const PodVolume chowned = Provisioned(Provision(Mount("", kReadWriteOnce)));
  Begin(chowned);
  const std::string target = kubelet().TargetPath(chowned);
  ASSERT_EQ(TryWrite(target + "/file", "data"), 0);
  for (const std::string& path : {target, target + "/file"}) {
    ASSERT_EQ(::chown(path.c_str(), 0, kGroup), 0);
    ASSERT_EQ(::chmod(path.c_str(), 02770), 0);
  }
  EXPECT_OK(kubelet().SetUp(chowned));
  End(chowned);
  Begin(chowned);
  EXPECT_EQ(StatOf(target + "/file").st_gid, kGroup);
  End(chowned);

  const PodVolume given = Provisioned(Provision(WithGroup(Mount("", kReadWriteOnce), std::to_string(kGroup))));
  Begin(given);
  const struct stat status = StatOf(kubelet().TargetPath(given));
  EXPECT_EQ(status.st_gid, kGroup);
  EXPECT_EQ(status.st_mode & 02770U, 02770U);
}

}  // namespace
}  // namespace mooring::testing

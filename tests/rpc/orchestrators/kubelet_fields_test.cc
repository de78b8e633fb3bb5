// What kubelet and the sidecars put into requests, K8 to K13, and what they leave to the plugin: K4, K18, K22, K24.
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
  // As external-provisioner with --extra-create-metadata, and secrets in the class.
  csi::v1::CreateVolumeRequest Provision(const VolumeCapability& capability) {
    csi::v1::CreateVolumeRequest request;
    request.set_name("pvc-6a3f1c52-8a0e-4c0f-9d7e-" + std::to_string(100000000000 + made_++));
    request.mutable_capacity_range()->set_required_bytes(kVolumeBytes);
    *request.add_volume_capabilities() = capability;
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

// The sidecars give up after seconds and ask again.
TEST_F(KubeletFields, K4_WhatItsCallerGaveUpIsFinishedAtARepeatAndDoneOnce) {
  const std::string id = Created(Mount("", kReadWriteOnce));
  plugin().options().environment["PATH"] = SlowMkfs(0.6);
  Restart(SIGTERM);
  const std::string staging = Staging(id);
  driver().set_deadline(std::chrono::milliseconds(150));
  const int tries = FakeKubelet::Repeat([&] { return driver().Stage(id, staging, Mount("", kReadWriteOnce)).status; });
  driver().set_deadline(std::chrono::seconds(60));
  EXPECT_GT(tries, 1);
  EXPECT_EQ(MkfsRuns(), 1);
  EXPECT_TRUE(MountAt(staging));
}

TEST_F(KubeletFields, K8_AccessModes) {
  using RPC = csi::v1::NodeServiceCapability::RPC;
  const auto offered = driver().Send(csi::v1::NodeGetCapabilitiesRequest());
  EXPECT_THAT(offered->DebugString(), HasSubstr(RPC::Type_Name(RPC::SINGLE_NODE_MULTI_WRITER)));
  const struct {
    const char* claim;
    AccessMode::Mode mode;
    int write;
    bool several;
  } rows[] = {{"ReadWriteOnce", AccessMode::SINGLE_NODE_MULTI_WRITER, 0, true},
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

TEST_F(KubeletFields, K10_FsTypeAndMountFlagsComeInEveryCallUnchanged) {
  const VolumeCapability capability = Mount("ext4", kReadWriteOnce, {"noatime", "nosuid", "commit=30"});
  const PodVolume volume = Provisioned(Provision(capability));
  csi::v1::ControllerPublishVolumeRequest attach;  // where somebody left attachRequired at its default
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

TEST_F(KubeletFields, K11_TheContextOfPodAndProvisioner) {
  const PodVolume volume = Provisioned(Provision(Mount("", kReadWriteOnce)));
  EXPECT_THAT(volume.context, Contains(Pair("fsType", "ext4")));
  for (const bool pod_info : {true, false}) {
    kubelet().pod_info_on_mount = pod_info;
    Begin(volume);
    EXPECT_EQ(TryWrite(kubelet().TargetPath(volume) + "/file", "data"), 0) << "ephemeral=false is no inline volume";
    End(volume);
  }
}

// It cannot be told from a volume that was never staged: the error has to say what is missing.
TEST_F(KubeletFields, K11_AnInlineVolumeWithoutPodInfoIsRefusedWithTheReason) {
  kubelet().pod_info_on_mount = false;
  const PodVolume volume = Inline(kReadWriteOnce, {});
  const absl::Status refused = kubelet().SetUp(volume);
  EXPECT_THAT(refused, FailsWith(Code::kFailedPrecondition, "podInfoOnMount"));
  EXPECT_EQ(Images(), 0U);
}

TEST_F(KubeletFields, K12_MetadataIsAcceptedAndSecretsAreInNoLog) {
  const csi::v1::CreateVolumeRequest request = Provision(Mount("", kReadWriteOnce));
  const PodVolume volume = Provisioned(request);
  EXPECT_EQ(Provisioned(request).id, volume.id) << "the name is the claim's uid: the same volume";
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

TEST_F(KubeletFields, K13_InlineVolumesComeWithPublishAndGoWithUnpublish) {
  for (const auto mode : {AccessMode::SINGLE_NODE_MULTI_WRITER, AccessMode::SINGLE_NODE_WRITER}) {
    const PodVolume volume = Inline(mode, {{"size", "64Mi"}});
    const std::size_t from = plugin().Log().size();
    Begin(volume);
    EXPECT_EQ(TryWrite(kubelet().TargetPath(volume) + "/file", "data"), 0);
    EXPECT_LE(MountedBytes(kubelet().TargetPath(volume)), static_cast<std::uint64_t>(kVolumeBytes));
    EXPECT_EQ(Images(), 1U);
    End(volume);
    EXPECT_TRUE(Eventually([&] { return Images() == 0; }));
    // Of the fake, that it does as kubelet.
    for (const char* method : {"NodeStageVolume", "NodeUnstageVolume"}) EXPECT_EQ(Calls(method, from), 0);
  }
}

// For ever, every time with what the time before may have left.
TEST_F(KubeletFields, K18_WhatFailsIsRepeatedAndLeavesNothingEachTime) {
  plugin().options().environment["PATH"] =
      Wrapper("mkfs.ext4", "if [ $(wc -l < " + (dir() / "mkfs.ext4.runs") +
                               ") -lt 6 ]; then exit 1; fi; exec /usr/sbin/mkfs.ext4 \"$@\"");
  Restart(SIGTERM);
  ASSERT_TRUE(kubelet().AwaitRegistered());
  const PodVolume volume = Provisioned(Provision(Mount("", kReadWriteOnce)));
  const std::string before = RawMounts();
  for (int i = 1; i < 6; ++i) {
    EXPECT_FALSE(kubelet().SetUp(volume).ok());
    EXPECT_FALSE(fs::exists(kubelet().StagingPath(volume))) << "kubelet has removed it, there was nothing in it";
    EXPECT_EQ(RawMounts(), before);
    EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
  }
  EXPECT_EQ(FakeKubelet::Repeat([&] { return kubelet().SetUp(volume); }), 1);
  Begin(volume);
}

TEST_F(KubeletFields, K22_NothingHasToBeAttached) {
  const PodVolume volume = Provisioned(Provision(Mount("", kReadWriteOnce)));
  const std::size_t from = plugin().Log().size();
  Begin(volume);
  EXPECT_EQ(Calls("ControllerPublishVolume", from), 0) << "of the fake: that it does as kubelet";
  End(volume);
  EXPECT_OK(driver().Delete(volume.id));
}

// Kubelet changes owner and mode of all there is, for a driver that does not offer to; ours does, for its root.
TEST_F(KubeletFields, K24_FsGroup) {
  constexpr gid_t kGroup = 4711;
  struct stat status = {};
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
  ASSERT_EQ(::stat((target + "/file").c_str(), &status), 0);
  EXPECT_EQ(status.st_gid, kGroup) << "kept";
  End(chowned);

  const PodVolume given = Provisioned(Provision(WithGroup(Mount("", kReadWriteOnce), std::to_string(kGroup))));
  Begin(given);
  ASSERT_EQ(::stat(kubelet().TargetPath(given).c_str(), &status), 0);
  EXPECT_EQ(status.st_gid, kGroup);
  EXPECT_EQ(status.st_mode & 02770U, 02770U);
}

}  // namespace
}  // namespace mooring::testing

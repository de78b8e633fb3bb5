// Ephemeral inline volumes, as kubelet asks for them. NodePublishVolume creates them and NodeUnpublishVolume deletes
// them.
#include "tests/rpc/support/held_tool.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

constexpr char kId[] = "csi-4f2b7c0d9e";

class Ephemeral : public RpcTest {
 protected:
  // The request of kubelet: no staging path, the attributes, and data about the pod.
  static NodePublishVolumeRequest Request(const std::string& target, const std::string& id = kId,
                                          const Parameters& attributes = {{"size", "64Mi"}}) {
    NodePublishVolumeRequest request = PublishRequest(id, "", target);
    request.mutable_volume_context()->insert(attributes.begin(), attributes.end());
    (*request.mutable_volume_context())["csi.storage.k8s.io/ephemeral"] = "true";
    (*request.mutable_volume_context())["csi.storage.k8s.io/pod.name"] = "web-0";
    return request;
  }
  std::vector<std::string> Images() const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(state_dir() + "/volumes", error)) names.push_back(entry.path());
    return names;
  }
  std::vector<std::string> Volumes() const { return Rows(state_dir() + "/catalog.db", "SELECT id FROM volumes"); }
  void ExpectNothingLeft() {
    EXPECT_THAT(Images(), IsEmpty());
    EXPECT_THAT(Volumes(), IsEmpty());
    EXPECT_THAT(LoopsHere(), IsEmpty());
  }
};

TEST_F(Ephemeral, PublishCreatesTheVolumeAndUnpublishDeletesIt) {
  const std::string target = Target("uid-1", "scratch");
  for (int i = 0; i < 3; ++i) ASSERT_OK(driver().Send(Request(target)));
  EXPECT_THAT(MountsAt(target), SizeIs(1));
  EXPECT_LE(MountedBytes(target), std::uint64_t{64} << 20U);
  EXPECT_EQ(TryWrite(target + "/file", "data"), 0);
  EXPECT_THAT(driver().List()->entries(), IsEmpty()) << "the orchestrator does not see it";
  const auto stats = driver().Stats(kId, target);
  ASSERT_OK(stats);
  EXPECT_FALSE(stats->volume_condition().abnormal());
  for (int i = 0; i < 3; ++i) ASSERT_OK(driver().Unpublish(kId, target));
  EXPECT_FALSE(fs::exists(target));
  ExpectNothingLeft();
  ASSERT_OK(driver().Send(Request(target)));
  EXPECT_FALSE(fs::exists(target + "/file")) << "a new one begins empty";
}

TEST_F(Ephemeral, AttributesAreTheParametersOfCreateVolume) {
  const std::string target = Target("uid-1", "scratch");
  ASSERT_OK(driver().Send(Request(target, kId, {{"size", "320Mi"}, {"fsType", "xfs"}, {"propagation", "private"}})));
  EXPECT_EQ(MountAt(target)->fs_type, "xfs");
  ASSERT_OK(driver().Unpublish(kId, target));
  const auto refused = [&](const Parameters& attributes, Code code, const std::string& piece) {
    ExpectRefused(Request(target, kId, attributes), code, piece);
    ExpectNothingLeft();
  };
  refused({{"colour", "blue"}}, Code::kInvalidArgument, "colour");
  refused({{"size", "much"}}, Code::kInvalidArgument, "size");
  refused({{"size", "1Ei"}}, Code::kOutOfRange, "largest");
  refused({{"size", "100Mi"}, {"encrypted", "true"}}, Code::kInvalidArgument, "which does not encrypt");
  refused({{"fsType", "ntfs"}}, Code::kInvalidArgument, "ntfs");
}

TEST_F(Ephemeral, InvalidUsesAreRefused) {
  const std::string target = Target("uid-1", "scratch");
  NodePublishVolumeRequest request = Request(target);
  request.set_readonly(true);
  ExpectRefused(request, Code::kInvalidArgument, "read-only");
  request = Request(target);
  *request.mutable_volume_capability() = Block();
  ExpectRefused(request, Code::kInvalidArgument, "block");
  ExpectRefused(Request(target, "vol-00000000000000000000000000000000"), Code::kInvalidArgument, "own");
  ExpectRefused(Request(target, "csi-" + std::string(196, 'a')), Code::kInvalidArgument, "200 bytes");
  ExpectRefused(Request(dir() / "no/such/target"), Code::kFailedPrecondition, "orchestrator");
  ExpectNothingLeft();
}

TEST_F(Ephemeral, SecondTargetAndOtherArgumentsAreRefused) {
  const std::string target = Target("uid-1", "scratch"), other = Target("uid-2", "scratch");
  NodePublishVolumeRequest request = Request(target), elsewhere = Request(other);
  for (NodePublishVolumeRequest* one : {&request, &elsewhere}) {
    *one->mutable_volume_capability() = kSharedMount;
  }
  ASSERT_OK(driver().Send(request));
  ExpectRefused(elsewhere, Code::kFailedPrecondition, "one target");
  ExpectRefused(Request(target), Code::kAlreadyExists, "another way");
  (*request.mutable_volume_context())["size"] = "128Mi";
  ExpectRefused(request, Code::kAlreadyExists, "128 MiB");
  ASSERT_OK(driver().Send(Request(other, "csi-other")));
  ASSERT_OK(driver().Unpublish(kId, other + "-never")) << "another target: the volume stays";
  EXPECT_THAT(MountsAt(target), SizeIs(1));
  EXPECT_THAT(Images(), SizeIs(2));
}

TEST_F(Ephemeral, UnpublishWorksAfterARestartAndWithoutATarget) {
  const std::string target = Target("uid-1", "scratch");
  ASSERT_OK(driver().Send(Request(target)));
  Restart(SIGKILL);
  ASSERT_OK(driver().Send(Request(target)));
  ASSERT_OK(driver().Unpublish(kId, target));
  ExpectNothingLeft();
  ASSERT_OK(driver().Send(Request(target)));
  ASSERT_EQ(Shell("umount " + target + " && rmdir " + target), 0);
  ASSERT_OK(driver().Unpublish(kId, target)) << "the target is gone already";
  ExpectNothingLeft();
}

TEST_F(Ephemeral, FailedPublishLeavesNothing) {
  RestartWithPath(FailingMkfs());
  const std::string target = Target("uid-1", "scratch");
  ExpectRefused(Request(target), Code::kInternal, "mkfs");
  ExpectNothingLeft();
}

// The mkfs holds the image until it ends. Then the next NodeUnpublishVolume deletes the image.
TEST_F(Ephemeral, PublishKilledDuringMkfsIsUndoneByUnpublish) {
  HeldTool mkfs(*this, "mkfs.ext4");
  RestartWithPath(mkfs.path());
  const std::string target = Target("uid-1", "scratch");
  driver().set_deadline(milliseconds(300));
  ASSERT_TRUE(Eventually([&] {
    EXPECT_FALSE(driver().Send(Request(target)).status.ok());
    return MkfsRuns() == 1;
  }));
  plugin().options().environment.clear();
  Restart(SIGKILL);
  EXPECT_FALSE(driver().Unpublish(kId, target).status.ok());
  EXPECT_THAT(Images(), Not(IsEmpty())) << "mkfs writes to it";
  driver().set_deadline(std::chrono::seconds(60));
  mkfs.Release();
  EXPECT_TRUE(Eventually([&] { return driver().Unpublish(kId, target).status.ok(); }));
  ExpectNothingLeft();
  ASSERT_OK(driver().Send(Request(target)));
}

TEST_F(Ephemeral, StartDeletesOnlyVolumesWithoutAMount) {
  const std::string target = Target("uid-1", "scratch"), kept = Target("uid-2", "scratch");
  ASSERT_OK(driver().Send(Request(target)));
  ASSERT_OK(driver().Send(Request(kept, "csi-kept")));
  const std::string lasting = Created();
  ASSERT_EQ(Shell("umount " + target), 0);
  Restart(SIGKILL);
  EXPECT_THAT(Images(), SizeIs(2));
  EXPECT_TRUE(fs::exists(Image(lasting)));
  EXPECT_EQ(TryWrite(kept + "/file", "data"), 0);
  ASSERT_OK(driver().Unpublish("csi-kept", kept));
}

// Some orchestrators clean the paths of a volume although they have lost its id.
TEST_F(Ephemeral, UnpublishWithAnUnknownIdDeletesTheImage) {
  constexpr char kUnknown[] = "vol-00000000000000000000000000000000";
  const std::string target = Target("uid-1", "scratch");
  const std::vector<std::function<absl::Status()>> ends = {
      [&] { return driver().Unpublish(kUnknown, target).status; },
      [&] { return driver().Unpublish("csi-unknown", target).status; },
      [&] { return driver().Unstage(kUnknown, target).status; },
  };
  for (const auto& end : ends) {
    ASSERT_OK(driver().Send(Request(target)));
    ASSERT_OK(end());
    EXPECT_THAT(MountsAt(target), IsEmpty());
    ExpectNothingLeft();
    ASSERT_OK(driver().Unpublish(kId, target)) << "the owner comes later";
  }
}

TEST_F(Ephemeral, UnpublishWithAForeignIdChangesNothing) {
  const std::string target = Target("uid-1", "scratch");
  ASSERT_OK(driver().Send(Request(target)));
  for (const char* id : {"scratch", "pvc-1", "vol-1", "snap-00000000000000000000000000000000"}) {
    ExpectRefused([&] { return driver().Unpublish(id, target); }, Code::kNotFound, "nothing was taken down");
    ExpectRefused([&] { return driver().Unstage(id, target); }, Code::kNotFound, "nothing was taken down");
    ExpectRefused(Request(Target("uid-2", "scratch"), id), Code::kInvalidArgument, "csi-");
    EXPECT_OK(driver().Unstage(id, Target("uid-2", "scratch"))) << "nothing of ours is there";
    EXPECT_OK(driver().Unpublish(id, Target("uid-2", "scratch")));
  }
  EXPECT_EQ(TryWrite(target + "/file", "data"), 0);
  for (int i = 0; i < 2; ++i) EXPECT_OK(driver().Unpublish(kId, target));
}

TEST_F(Ephemeral, NodeModeServesEphemeralVolumes) {
  RestartWith({"--mode", "node"});
  const std::string target = Target("uid-1", "scratch");
  ASSERT_OK(driver().Send(Request(target)));
  EXPECT_EQ(TryWrite(target + "/file", "data"), 0);
  ASSERT_OK(driver().Unpublish(kId, target));
  ExpectNothingLeft();
}

}  // namespace
}  // namespace mooring::testing

// What Nomad does to a plugin: points 8 to 18 of orchestrators.md, a test or more for each.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/file/unique_fd.h"
#include "tests/rpc/support/peer_namespace.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kMany = AccessMode::MULTI_NODE_MULTI_WRITER;  // Nomad knows no other way to share on one node

class Nomad : public RpcTest {
 protected:
  std::string Staged(const VolumeCapability& capability) {
    const std::string id = Created(capability);
    EXPECT_OK(driver().Stage(id, Staging(id), capability));
    return id;
  }
  // The exit status of the commands at the end of an error's message.
  int RunCommandsIn(const absl::Status& status) {
    const std::string text(status.message());
    const std::size_t at = text.find("mooring csi ");
    EXPECT_NE(at, std::string::npos) << text;
    if (at == std::string::npos) return -1;
    const std::string bin = std::filesystem::canonical("/proc/self/exe").parent_path();
    return Shell("export CSI_ENDPOINT=unix://" + (dir() / "csi.sock") + " PATH=" + bin + ":$PATH; " + text.substr(at));
  }
};

TEST_F(Nomad, Nomad8_DeleteIsRefusedWhileAVolumeIsStagedOrPublished) {
  for (const VolumeCapability& capability : {Mount(), Block()}) {
    const std::string id = Staged(capability);
    const std::string target = Target("a", id);
    const auto remove = [&] { return driver().Delete(id); };
    ExpectRefused(remove, Code::kFailedPrecondition, "unpublish and unstage it first");
    ASSERT_OK(driver().Publish(id, Staging(id), target, capability));
    ExpectRefused(remove, Code::kFailedPrecondition, "in use");
    ASSERT_OK(driver().Unstage(id, Staging(id)));
    ExpectRefused(remove, Code::kFailedPrecondition, "in use");
    Restart(SIGKILL);
    ExpectRefused(remove, Code::kFailedPrecondition, "in use");
    ASSERT_OK(driver().Unpublish(id, target));
    EXPECT_OK(remove());
  }
}

TEST_F(Nomad, Nomad9_UnpublishAndUnstageOfWhatNeverWasAreOk) {
  const std::string id = Created();
  EXPECT_THAT(driver().Stage(id, dir() / "missing"), FailsWith(Code::kFailedPrecondition, "missing"));
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_OK(driver().Unpublish(id, dir() / "no/such/directory/target"));
  EXPECT_OK(driver().Unstage(id, dir() / "missing"));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_TRUE(std::filesystem::exists(Staging(id))) << "the orchestrator made it, the orchestrator removes it";
}

// NOT_FOUND would count as done, and the mount leak for ever.
constexpr char kForgotten[] = "vol-00000000000000000000000000000000";

TEST_F(Nomad, Nomad9_UnpublishAndUnstageActOnThePathOfAVolumeNobodyKnows) {
  for (const VolumeCapability& capability : {Mount(), Block()}) {
    const std::string id = Staged(capability);
    ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
    EXPECT_OK(driver().Unpublish(kForgotten, Target("a")));
    EXPECT_FALSE(std::filesystem::exists(Target("a")));
    EXPECT_OK(driver().Unstage(kForgotten, Staging(id)));
    EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
    EXPECT_FALSE(MountAt(Staging(id)));
  }
}

TEST_F(Nomad, Nomad9_ACallWithTheWrongVolumeLeavesTheMountAlone) {
  const std::string id = Staged(Mount());
  const std::string other = Created();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a")));
  ExpectRefused([&] { return driver().Unpublish(other, Target("a")); }, Code::kFailedPrecondition, id);
  ExpectRefused([&] { return driver().Unstage(other, Staging(id)); }, Code::kFailedPrecondition, id);
}

TEST_F(Nomad, Nomad10_AFailedUnmountHoldsTheVolumeAndTheNextTryFinishesIt) {
  const std::string id = Staged(Mount());
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a")));
  {
    const UniqueFd busy(::open(Target("a").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto unpublish = [&] { return driver().Unpublish(id, Target("a")); };
    ExpectRefused(unpublish, Code::kFailedPrecondition, "fuser");
    ExpectRefused(unpublish, Code::kFailedPrecondition, "in use");
    // Nomad has freed the claim and starts the next task; the old one still has the volume.
    const std::string other = Target("b");  // its parent directory is made here, not by the refused call
    ExpectRefused([&] { return driver().Publish(id, Staging(id), other); }, Code::kFailedPrecondition, Target("a"));
  }
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_OK(driver().Unpublish(id, Target("a"))) << "comes again, even if only the unstage had failed";
  EXPECT_OK(driver().Publish(id, Staging(id), Target("b")));
}

TEST_F(Nomad, Nomad11_UnstageBeforeTheLastUnpublishBreaksNoTarget) {
  const VolumeCapability capability = Mount("", kMany);
  const std::string id = Staged(capability);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("b"), capability));
  const std::string device = LoopsHere()[0].device;
  ASSERT_OK(driver().Unpublish(id, Target("a")));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_EQ(TryWrite(Target("b") + "/file", "data"), 0) << "the other user still runs";
  ASSERT_OK(driver().Stage(id, Staging("again"), capability));
  ASSERT_EQ(LoopsHere().size(), 1U) << "a second device over one file destroys the filesystem";
  EXPECT_EQ(LoopsHere()[0].device, device);
  EXPECT_EQ(ReadFile(Staging("again") + "/file"), "data");
  ASSERT_OK(driver().Publish(id, Staging("again"), Target("c"), capability));
  ASSERT_OK(driver().Unpublish(id, Target("b")));
  EXPECT_EQ(TryWrite(Target("c") + "/file", "more"), 0);
}

TEST_F(Nomad, Nomad11_TheSameForBlock) {
  const VolumeCapability capability = Block(kMany);
  const std::string id = Staged(capability);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), capability, true));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_EQ(TryWrite(Target("a"), "data"), 0);
  EXPECT_THAT(driver().Stage(id, Staging("fs"), Mount("", kMany)), FailsWith(Code::kFailedPrecondition, "block"));
  ASSERT_OK(driver().Stage(id, Staging("again"), capability));
  EXPECT_EQ(LoopsOver(Image(id)).size(), 1U);
  ASSERT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_EQ(ReadFile(Target("ro")).substr(0, 4), "data");
}

TEST_F(Nomad, Nomad12_ControllerUnpublishNeverComesAfterThePluginWasAway) {
  const std::string id = Created();
  ASSERT_OK(driver().Attach(id, kNode));
  ASSERT_OK(driver().Stage(id, Staging(id)));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a")));
  Restart(SIGKILL);
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_OK(driver().Attach(id, kNode)) << "to this node again";
  EXPECT_OK(driver().Attach(id, kNode, Mount("", kMany))) << "for another group of tasks";
  ExpectRefused([&] { return driver().Delete(id); }, Code::kFailedPrecondition,
                "mooring csi controller-unpublish " + id + " --node " + kNode);
  EXPECT_OK(driver().Detach(id, kNode)) << "by hand";
  EXPECT_OK(driver().Delete(id)) << "nothing is mounted any more";
}

// A task stopped while the plugin was away, and the client was restarted before it was back: no call ever comes for it.
TEST_F(Nomad, Nomad12_AForgottenVolumeIsFreedByTheCommandsInTheErrors) {
  for (const VolumeCapability& capability : {Mount(), Block()}) {
    const std::string id = Staged(capability);
    ASSERT_OK(driver().Publish(id, Staging(id), Target("gone", id), capability));
    Restart(SIGKILL);
    const auto next = [&] { return driver().Publish(id, Staging(id), Target("next", id), capability).status; };
    EXPECT_EQ(RunCommandsIn(next()), 0);
    ASSERT_OK(next());
    const absl::Status in_use = driver().Delete(id).status;
    EXPECT_THAT(in_use, FailsWith(Code::kFailedPrecondition, "If the orchestrator has forgotten it"));
    EXPECT_EQ(RunCommandsIn(in_use), 0);
    EXPECT_OK(driver().Delete(id));
  }
}

TEST_F(Nomad, Nomad13_TwoGroupsOfOneVolumeUseTwoStagingPaths) {
  const VolumeCapability writer = Mount("", kMany), reader = Mount("", AccessMode::MULTI_NODE_READER_ONLY);
  const std::string id = Created(writer);
  const std::string rw = Staging(id, "rw-file-system-multi-node-multi-writer");
  const std::string ro = Staging(id, "ro-file-system-multi-node-reader-only");
  ASSERT_OK(driver().Stage(id, ro, reader));
  ASSERT_OK(driver().Stage(id, rw, writer));
  EXPECT_EQ(LoopsHere().size(), 1U);
  EXPECT_TRUE(MountAt(ro)->Has("ro"));
  EXPECT_TRUE(MountAt(rw)->Has("rw"));
  ASSERT_OK(driver().Publish(id, rw, Target("a"), writer));
  ASSERT_OK(driver().Publish(id, ro, Target("b"), reader, true));
  EXPECT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  EXPECT_EQ(TryWrite(Target("b") + "/file", "data"), EROFS);
  EXPECT_EQ(ReadFile(Target("b") + "/file"), "data");
  ASSERT_OK(driver().Unstage(id, rw));
  EXPECT_EQ(ReadFile(Target("b") + "/file"), "data");
  ASSERT_OK(driver().Stage(id, rw, writer));
}

TEST_F(Nomad, Nomad13_TwoStagingPathsOfABlockVolume) {
  const VolumeCapability writer = Block(kMany), reader = Block(AccessMode::MULTI_NODE_READER_ONLY);
  const std::string id = Created(writer);
  ASSERT_OK(driver().Stage(id, Staging(id, "ro"), reader));
  ASSERT_OK(driver().Stage(id, Staging(id, "rw"), writer));
  ASSERT_OK(driver().Publish(id, Staging(id, "rw"), Target("a"), writer));
  ASSERT_OK(driver().Publish(id, Staging(id, "ro"), Target("b"), reader, true));
  EXPECT_EQ(TryWrite(Target("a"), "data"), 0);
  EXPECT_EQ(TryWrite(Target("b"), "data"), EPERM);
  ASSERT_OK(driver().Unstage(id, Staging(id, "rw")));
  EXPECT_EQ(TryWrite(Target("a"), "more"), 0);
}

// In the plugin's namespace, which is the host's, and not only inside the task.
TEST_F(Nomad, Nomad14_TheTargetItselfHasTheFlagsInEveryNamespace) {
  ShareDirectory();
  const PeerNamespace host;
  const VolumeCapability capability = Mount("", kMany, {"noatime", "nosuid"});
  const std::string id = Staged(capability);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability, true));
  const auto target = MountAt(Target("a"));
  ASSERT_TRUE(target);
  for (const char* flag : {"ro", "noatime", "nosuid"}) EXPECT_TRUE(target->Has(flag)) << flag;
  EXPECT_EQ(host.Run("findmnt -no VFS-OPTIONS " + Target("a") + " | grep -q ^ro,nosuid,nodev,noatime"), 0);
  EXPECT_NE(host.Run("touch " + Target("a") + "/file 2>/dev/null"), 0);
}

TEST_F(Nomad, Nomad15_AMountThatATaskLeftBelowTheVolumeIsTakenDown) {
  ShareDirectory();
  const VolumeCapability capability = Mount("", kMany);
  const std::string id = Staged(capability);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
  {
    const PeerNamespace task;  // bidirectional: shares with the plugin
    ASSERT_EQ(task.Run("mkdir -p " + Target("a") + "/sub/deep"), 0);
    ASSERT_EQ(task.Run("mount -t tmpfs tmpfs " + Target("a") + "/sub"), 0);
    ASSERT_EQ(task.Run("mkdir " + Target("a") + "/sub/deeper"), 0);
    ASSERT_EQ(task.Run("mount -t tmpfs tmpfs " + Target("a") + "/sub/deeper"), 0);
  }
  ASSERT_EQ(MountsBelow(Target("a")).size(), 3U) << "the task is gone, its mounts are not";
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_TRUE(MountsBelow(Target("a")).empty());
  EXPECT_FALSE(std::filesystem::exists(Target("a")));
}

TEST_F(Nomad, Nomad15_AMountOfTheHostsOwnBelowTheVolumeIsNamedAndLeft) {
  const VolumeCapability capability = Mount("", kMany);
  const std::string id = Staged(capability);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
  ASSERT_EQ(Shell("mkdir " + Target("a") + "/sub && mount -t tmpfs tmpfs " + Target("a") +
                  "/sub && mount "
                  "--make-private " +
                  Target("a") + "/sub"),
            0);
  ExpectRefused([&] { return driver().Unpublish(id, Target("a")); }, Code::kFailedPrecondition, Target("a") + "/sub");
  EXPECT_TRUE(MountAt(Target("a")));
  ASSERT_EQ(Shell("umount " + Target("a") + "/sub"), 0);
  EXPECT_OK(driver().Unpublish(id, Target("a")));
}

TEST_F(Nomad, Nomad16_CallsComeTwiceOrNotAtAllAndTheContextIsEmpty) {
  const std::string id = Created();
  ASSERT_OK(driver().Stage(id, Staging(id))) << "ControllerPublish was skipped";
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a")));
  ASSERT_OK(driver().Attach(id, kNode));
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_OK(driver().Detach(id, kNode));
  EXPECT_OK(driver().Detach(id, kNode));
  EXPECT_OK(driver().Detach(id, "never-seen"));
}

TEST_F(Nomad, Nomad16_ReadOnlyAtControllerPublishReachesTheNodeThroughTheContext) {
  const std::string id = Created();
  const auto published = driver().Attach(id, kNode, Mount(), true);
  ASSERT_OK(published);
  csi::v1::NodeStageVolumeRequest stage;
  stage.set_volume_id(id);
  stage.set_staging_target_path(Staging(id));
  *stage.mutable_volume_capability() = Mount();
  *stage.mutable_publish_context() = published->publish_context();
  ASSERT_OK(driver().Send(stage));
  EXPECT_EQ(TryWrite(Staging(id) + "/file", "data"), EROFS);
}

TEST_F(Nomad, Nomad17_RequestsAreAsNomadSendsThem) {
  csi::v1::CreateVolumeRequest create;
  create.set_name("example[0]");
  create.add_volume_capabilities()->mutable_mount();
  create.mutable_volume_capabilities(0)->mutable_access_mode()->set_mode(AccessMode::SINGLE_NODE_WRITER);
  create.mutable_capacity_range()->set_required_bytes(kVolumeBytes);
  create.mutable_accessibility_requirements();
  (*create.mutable_secrets())["key"] = "secret";
  const auto made = driver().Send(create);
  ASSERT_OK(made);
  csi::v1::NodeStageVolumeRequest stage;
  stage.set_volume_id(made->volume().volume_id());
  stage.set_staging_target_path(Staging("example[0]"));
  *stage.mutable_volume_capability() = create.volume_capabilities(0);
  *stage.mutable_secrets() = create.secrets();
  *stage.mutable_volume_context() = made->volume().volume_context();
  ASSERT_OK(driver().Send(stage));
  csi::v1::NodePublishVolumeRequest publish;
  publish.set_volume_id(stage.volume_id());
  publish.set_staging_target_path(stage.staging_target_path());
  publish.set_target_path(Target("alloc", "example[0]"));
  *publish.mutable_volume_capability() = create.volume_capabilities(0);
  *publish.mutable_secrets() = create.secrets();
  ASSERT_OK(driver().Send(publish));
  EXPECT_EQ(MountAt(publish.target_path())->fs_type, "ext4");
}

TEST_F(Nomad, Nomad17_CallsGoToTheSameSocketAsSoonAsItExists) {
  const std::string id = Staged(Mount());
  for (const int signal : {SIGKILL, SIGTERM}) {
    plugin().End(signal);
    plugin().Launch();
    ASSERT_TRUE(Eventually([&] {
      driver().Connect();
      return !absl::IsUnavailable(driver().Unpublish(id, Target("a")).status);
    }));
    EXPECT_OK(driver().Publish(id, Staging(id), Target("a"))) << "waits until it is ready";
    EXPECT_OK(driver().Unpublish(id, Target("a")));
  }
}

// Nomad shows "snapshot source is not compatible" to the user, so the plugin's own text has to say it all.
TEST_F(Nomad, Nomad18_InvalidArgumentOfCreateSaysWhatIsWrongInItsOwnWords) {
  csi::v1::CreateVolumeRequest request;
  request.set_name("v");
  *request.add_volume_capabilities() = Mount();
  (*request.mutable_parameters())["type"] = "ssd";
  const auto answer = driver().Send(request);
  EXPECT_THAT(answer, FailsWith(Code::kInvalidArgument, "'type'"));
  EXPECT_THAT(answer, FailsWith(Code::kInvalidArgument, "fsType"));
  EXPECT_THAT(driver().Create("v", Mount("zfs")), FailsWith(Code::kInvalidArgument, "'zfs' is not one of ext4"));
  EXPECT_THAT(driver().Create("v", Mount("", kMany, {"bind"})), FailsWith(Code::kInvalidArgument, "allowed are: ro"));
}

}  // namespace
}  // namespace mooring::testing

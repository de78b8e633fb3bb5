// The calls of Nomad. tests/nomad/README.md explains the points 8 to 18.
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

constexpr auto kMany = AccessMode::MULTI_NODE_MULTI_WRITER;  // the only mode with which Nomad shares a volume on a node

class Nomad : public RpcTest {
 protected:
  // Runs the commands at the end of an error and returns their exit status.
  int RunCommandsIn(const absl::Status& status) {
    const std::string text(status.message());
    const std::size_t at = text.find("mooring csi ");
    EXPECT_NE(at, std::string::npos) << text;
    if (at == std::string::npos) return -1;
    const std::string bin = std::filesystem::canonical("/proc/self/exe").parent_path();
    return Shell("export CSI_ENDPOINT=unix://" + (dir() / "csi.sock") + " PATH=" + bin + ":$PATH; " + text.substr(at));
  }
};

TEST_F(Nomad, Point8_DeleteIsRefusedWhileStagedOrPublished) {
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

TEST_F(Nomad, Point9_UnpublishAndUnstageOfAnUnusedVolumeAreOk) {
  const std::string id = Created();
  EXPECT_THAT(driver().Stage(id, dir() / "missing"), FailsWith(Code::kFailedPrecondition, "missing"));
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_OK(driver().Unpublish(id, dir() / "no/such/directory/target"));
  EXPECT_OK(driver().Unstage(id, dir() / "missing"));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_TRUE(std::filesystem::exists(Staging(id))) << "the orchestrator removes its own directory";
}

constexpr char kForgotten[] = "vol-00000000000000000000000000000000";

// Nomad takes NOT_FOUND for success, so the mount would stay for ever.
TEST_F(Nomad, Point9_UnpublishAndUnstageWorkWithAnUnknownId) {
  for (const VolumeCapability& capability : {Mount(), Block()}) {
    const std::string id = Staged(capability);
    ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
    EXPECT_OK(driver().Unpublish(kForgotten, Target("a")));
    EXPECT_FALSE(std::filesystem::exists(Target("a")));
    EXPECT_OK(driver().Unstage(kForgotten, Staging(id)));
    ExpectNoLoops();
    EXPECT_FALSE(MountAt(Staging(id)));
  }
}

TEST_F(Nomad, Point9_WrongVolumeIdKeepsTheMount) {
  const std::string id = Staged(Mount());
  const std::string other = Created();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a")));
  ExpectRefused([&] { return driver().Unpublish(other, Target("a")); }, Code::kFailedPrecondition, id);
  ExpectRefused([&] { return driver().Unstage(other, Staging(id)); }, Code::kFailedPrecondition, id);
}

TEST_F(Nomad, Point10_FailedUnpublishSucceedsLater) {
  const std::string id = Staged(Mount());
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a")));
  {
    const UniqueFd busy(::open(Target("a").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto unpublish = [&] { return driver().Unpublish(id, Target("a")); };
    ExpectRefused(unpublish, Code::kFailedPrecondition, "fuser");
    ExpectRefused(unpublish, Code::kFailedPrecondition, "in use");
    // Nomad has freed the claim and starts the next task, but the old task still has the volume.
    const std::string other = Target("b");  // makes the parent directory before the refused call
    ExpectRefused([&] { return driver().Publish(id, Staging(id), other); }, Code::kFailedPrecondition, Target("a"));
  }
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_OK(driver().Unpublish(id, Target("a"))) << "repeated, as after a failed unstage";
  EXPECT_OK(driver().Publish(id, Staging(id), Target("b")));
}

TEST_F(Nomad, Point11_UnstageBeforeUnpublishKeepsTargets) {
  const VolumeCapability capability = Mount("", kMany);
  const std::string id = Staged(capability);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("b"), capability));
  const std::string device = LoopsHere()[0].device;
  UnpublishAndUnstage(id, Target("a"));
  EXPECT_EQ(TryWrite(Target("b") + "/file", "data"), 0) << "the other task still runs";
  ASSERT_OK(driver().Stage(id, Staging("again"), capability));
  ASSERT_EQ(LoopsHere().size(), 1U) << "a second device over one file destroys the filesystem";
  EXPECT_EQ(LoopsHere()[0].device, device);
  EXPECT_EQ(ReadFile(Staging("again") + "/file"), "data");
  ASSERT_OK(driver().Publish(id, Staging("again"), Target("c"), capability));
  ASSERT_OK(driver().Unpublish(id, Target("b")));
  EXPECT_EQ(TryWrite(Target("c") + "/file", "more"), 0);
}

TEST_F(Nomad, Point11_UnstageBeforeUnpublishKeepsBlockTargets) {
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

TEST_F(Nomad, Point12_ControllerUnpublishMayBeMissing) {
  const std::string id = Created();
  ASSERT_OK(driver().Attach(id, kNode));
  ASSERT_OK(driver().Stage(id, Staging(id)));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a")));
  Restart(SIGKILL);
  UnpublishAndUnstage(id, Target("a"));
  EXPECT_OK(driver().Attach(id, kNode)) << "to this node again";
  EXPECT_OK(driver().Attach(id, kNode, Mount("", kMany))) << "for another group of tasks";
  ExpectRefused([&] { return driver().Delete(id); }, Code::kFailedPrecondition,
                "mooring csi controller-unpublish " + id + " --node " + kNode);
  EXPECT_OK(driver().Detach(id, kNode)) << "by hand";
  EXPECT_OK(driver().Delete(id)) << "nothing is mounted";
}

// A task stops while the plugin is stopped, and then the Nomad client restarts. No call ever comes for the volume.
TEST_F(Nomad, Point12_CommandsInErrorsFreeAForgottenVolume) {
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

TEST_F(Nomad, Point13_MountVolumeHasTwoStagingPaths) {
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

TEST_F(Nomad, Point13_BlockVolumeHasTwoStagingPaths) {
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

// The flags must be visible on the host, and not only in the task.
TEST_F(Nomad, Point14_TargetHasTheFlagsInEveryNamespace) {
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

TEST_F(Nomad, Point15_UnpublishRemovesMountsOfATask) {
  ShareDirectory();
  const VolumeCapability capability = Mount("", kMany);
  const std::string id = Staged(capability);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
  {
    const PeerNamespace task;  // with bidirectional propagation
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

TEST_F(Nomad, Point15_UnpublishRefusesAMountOfTheHost) {
  const VolumeCapability capability = Mount("", kMany);
  const std::string id = Staged(capability);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
  ASSERT_EQ(Shell("mkdir " + Target("a") + "/sub && mount -t tmpfs tmpfs " + Target("a") +
                  "/sub && mount --make-private " + Target("a") + "/sub"),
            0);
  ExpectRefused([&] { return driver().Unpublish(id, Target("a")); }, Code::kFailedPrecondition, Target("a") + "/sub");
  EXPECT_TRUE(MountAt(Target("a")));
  ASSERT_EQ(Shell("umount " + Target("a") + "/sub"), 0);
  EXPECT_OK(driver().Unpublish(id, Target("a")));
}

TEST_F(Nomad, Point16_CallsMayBeRepeatedOrMissing) {
  const std::string id = Created();
  ASSERT_OK(driver().Stage(id, Staging(id))) << "ControllerPublish was skipped";
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a")));
  ASSERT_OK(driver().Attach(id, kNode));
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  UnpublishAndUnstage(id, Target("a"));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_OK(driver().Detach(id, kNode));
  EXPECT_OK(driver().Detach(id, kNode));
  EXPECT_OK(driver().Detach(id, "never-seen"));
}

TEST_F(Nomad, Point16_ReadOnlyOfControllerPublishReachesTheNode) {
  const std::string id = Created();
  const auto published = driver().Attach(id, kNode, Mount(), true);
  ASSERT_OK(published);
  csi::v1::NodeStageVolumeRequest stage = StageRequest(id, Staging(id));
  *stage.mutable_publish_context() = published->publish_context();
  ASSERT_OK(driver().Send(stage));
  EXPECT_EQ(TryWrite(Staging(id) + "/file", "data"), EROFS);
}

TEST_F(Nomad, Point17_RequestsOfNomadAreAccepted) {
  const VolumeCapability capability = Mount();
  csi::v1::CreateVolumeRequest create = CreateRequest("example[0]", capability);
  create.mutable_accessibility_requirements();
  (*create.mutable_secrets())["key"] = "secret";
  const auto made = driver().Send(create);
  ASSERT_OK(made);
  csi::v1::NodeStageVolumeRequest stage = StageRequest(made->volume().volume_id(), Staging("example[0]"), capability);
  *stage.mutable_secrets() = create.secrets();
  *stage.mutable_volume_context() = made->volume().volume_context();
  ASSERT_OK(driver().Send(stage));
  csi::v1::NodePublishVolumeRequest publish =
      PublishRequest(stage.volume_id(), stage.staging_target_path(), Target("alloc", "example[0]"), capability);
  *publish.mutable_secrets() = create.secrets();
  ASSERT_OK(driver().Send(publish));
  EXPECT_EQ(MountAt(publish.target_path())->fs_type, "ext4");
}

TEST_F(Nomad, Point17_CallsSucceedAsSoonAsTheSocketExists) {
  const std::string id = Staged(Mount());
  for (const int signal : {SIGKILL, SIGTERM}) {
    plugin().End(signal);
    plugin().Launch();
    ASSERT_TRUE(Eventually([&] {
      driver().Connect();
      return !absl::IsUnavailable(driver().Unpublish(id, Target("a")).status);
    }));
    EXPECT_OK(driver().Publish(id, Staging(id), Target("a"))) << "the call waits until the plugin is ready";
    EXPECT_OK(driver().Unpublish(id, Target("a")));
  }
}

// Nomad shows "snapshot source is not compatible" to the user, so the text of the plugin must name the wrong value.
TEST_F(Nomad, Point18_CreateErrorsNameTheWrongValue) {
  const auto answer = driver().Send(CreateRequest("v", Mount(), 0, {{"type", "ssd"}}));
  EXPECT_THAT(answer, FailsWith(Code::kInvalidArgument, "'type'"));
  EXPECT_THAT(answer, FailsWith(Code::kInvalidArgument, "fsType"));
  EXPECT_THAT(driver().Create("v", Mount("zfs")), FailsWith(Code::kInvalidArgument, "'zfs' is not one of ext4"));
  EXPECT_THAT(driver().Create("v", Mount("", kMany, {"bind"})), FailsWith(Code::kInvalidArgument, "allowed are: ro"));
}

}  // namespace
}  // namespace mooring::testing

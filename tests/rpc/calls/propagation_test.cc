// Mount propagation between the plugin, the host and a task. The plugin runs in a mount namespace of its own, as in a
// container with the orchestrator's directory bound rshared. This process is the host. A PeerNamespace is a task.
#include "tests/rpc/support/peer_namespace.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class PropagationRpc : public RpcTest {
 protected:
  void SetUp() override {
    ShareDirectory();
    plugin().options().own_mount_namespace = true;
    RpcTest::SetUp();
  }
  void StartAgainWith(const std::vector<std::string>& flags) {
    const std::vector<std::string> before = plugin().options().flags;
    plugin().options().flags.insert(plugin().options().flags.end(), flags.begin(), flags.end());
    Restart(SIGTERM);
    plugin().options().flags = before;
  }

  std::string CreatedWith(const std::string& word, const VolumeCapability& capability) {
    const auto made = CreateWith(word, capability);
    EXPECT_OK(made);
    context_ = made->volume().volume_context();
    return made->volume().volume_id();
  }
  Answer<csi::v1::CreateVolumeResponse> CreateWith(const std::string& word, const VolumeCapability& capability) {
    return driver().Send(CreateRequest("volume", capability, kVolumeBytes,
                                       word.empty() ? Parameters{} : Parameters{{"propagation", word}}));
  }
  Answer<csi::v1::NodePublishVolumeResponse> PublishWith(const std::string& word, const std::string& id,
                                                         const VolumeCapability& capability, bool read_only = false) {
    NodePublishVolumeRequest request = PublishRequest(id, Staging(id), Target("a"), capability, read_only);
    *request.mutable_volume_context() = context_;
    if (!word.empty()) (*request.mutable_volume_context())["propagation"] = word;
    return driver().Send(request);
  }

  // Runs in the plugin's namespace.
  int InPlugin(const std::string& shell_command) {
    return Shell(fmt::format("nsenter -m -t {} -- sh -c '{}'", plugin().pid(), shell_command));
  }
  bool PluginSees(const std::string& path) { return InPlugin("mountpoint -q " + path) == 0; }
  std::string PropagationInPlugin(const std::string& path) {
    std::istringstream table(ReadFile(fmt::format("/proc/{}/mountinfo", plugin().pid())));
    for (std::string line; std::getline(table, line);) {
      if (line.find(" " + path + " ") == std::string::npos) continue;
      const bool shared = line.find(" shared:") != std::string::npos;
      const bool slave = line.find(" master:") != std::string::npos;
      return shared ? (slave ? "shared and slave" : "shared") : slave ? "slave" : "private";
    }
    return "no mount";
  }

  google::protobuf::Map<std::string, std::string> context_;  // the volume_context of the last created volume
};

// A value of `propagation`, and its effect on the target in the plugin's namespace and on mounts below it.
struct Meaning {
  const char* name;
  const char* word;  // the values come from different orchestrators
  const char* becomes;
  bool receives, sends;
};

// Level 0 is the plugin's flag, 1 the volume's parameter, 2 the request's volume context.
class PropagationLevels : public PropagationRpc, public ::testing::WithParamInterface<std::tuple<int, Meaning>> {};

TEST_P(PropagationLevels, MostSpecificPropagationWins) {
  const auto& [level, meaning] = GetParam();
  // The less specific levels say something else.
  const char* other = std::string(meaning.becomes) == "shared" ? "private" : "rshared";
  StartAgainWith({"--propagation", level == 0 ? meaning.word : other});
  const std::string id = CreatedWith(level == 0 ? "" : level == 1 ? meaning.word : other, kSharedMount);
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  EXPECT_EQ(PropagationInPlugin(Staging(id)), "private");
  ASSERT_OK(PublishWith(level == 2 ? meaning.word : "", id, kSharedMount));
  EXPECT_OK(PublishWith(level == 2 ? meaning.word : "", id, kSharedMount)) << "the same again";
  EXPECT_EQ(PropagationInPlugin(Target("a")), meaning.becomes);
  EXPECT_TRUE(MountAt(Target("a"))) << "the host sees it";
  const std::string nested = Target("a") + "/nested";
  ASSERT_EQ(::mkdir(nested.c_str(), 0700), 0);
  const PeerNamespace task;
  ASSERT_EQ(InPlugin("mount -t tmpfs none " + nested), 0);
  EXPECT_EQ(MountsAt(nested).size(), meaning.sends ? 1U : 0U);
  EXPECT_EQ(task.Run("mountpoint -q " + nested) == 0, meaning.sends);
  ASSERT_EQ(InPlugin("umount " + nested), 0);
  ASSERT_EQ(task.Run("mount -t tmpfs none " + nested), 0);
  EXPECT_EQ(MountsAt(nested).size(), 1U);
  EXPECT_EQ(PluginSees(nested), meaning.receives);
  EXPECT_OK(driver().Unpublish(id, Target("a"))) << "the mount of the task came by propagation, or is not visible";
  EXPECT_TRUE(MountsBelow(Target("a")).empty()) << "nothing stays on the host";
  EXPECT_FALSE(PluginSees(Target("a")));
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<int, Meaning>>& test) {
  constexpr std::array<const char*, 3> kLevels = {"Flag", "Parameter", "Context"};
  return fmt::format("{}_{}", kLevels.at(static_cast<std::size_t>(std::get<0>(test.param))),
                     std::get<1>(test.param).name);
}

constexpr Meaning kInherit = {"inherit", "inherit", "shared", true, true},
                  kPrivate = {"private", "None", "private", false, false},
                  kSlave = {"rslave", "host-to-task", "slave", true, false},
                  kShared = {"rshared", "rshared", "shared", true, true};

INSTANTIATE_TEST_SUITE_P(Words, PropagationLevels,
                         ::testing::Combine(::testing::Values(0, 1, 2),
                                            ::testing::Values(kInherit, kPrivate, kSlave, kShared)),
                         NameOf);

TEST_F(PropagationRpc, PropagationOfAVolumeIsInItsContextAndKept) {
  const std::string id = CreatedWith("HostToContainer", Mount());
  EXPECT_EQ(context_["propagation"], "rslave");
  EXPECT_EQ(CreateWith("rslave", Mount())->volume().volume_id(), id) << "another word for the same";
  EXPECT_THAT(CreateWith("rshared", Mount()), FailsWith(Code::kAlreadyExists, "propagation rslave, and rshared"));
  Restart(SIGKILL);
  ASSERT_OK(driver().Stage(id, Staging(id)));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"))) << "the context was lost, the catalog has it";
  EXPECT_EQ(PropagationInPlugin(Target("a")), "slave");
  EXPECT_OK(PublishWith("", id, Mount()));
}

TEST_F(PropagationRpc, UnknownPropagationIsRefused) {
  ExpectRefused([&] { return CreateWith("both", Mount()); }, Code::kInvalidArgument,
                "parameter propagation: propagation 'both' is unknown: it is one of inherit, private");
  const std::string id = Staged();
  Target("a");
  ExpectRefused([&] { return PublishWith("both", id, Mount()); }, Code::kInvalidArgument, "it is one of inherit");
}

TEST_F(PropagationRpc, SharingNeedsWriteAccess) {
  const VolumeCapability writer = kSharedMount, reader = Mount("", AccessMode::MULTI_NODE_READER_ONLY);
  ExpectRefused([&] { return CreateWith("rshared", reader); }, Code::kInvalidArgument, "needs write access");
  const std::string id = CreatedWith("", writer);
  ASSERT_OK(driver().Stage(id, Staging(id), writer));
  Target("a");
  ExpectRefused([&] { return PublishWith("rshared", id, writer, true); }, Code::kInvalidArgument, "readonly has none");
  ExpectRefused([&] { return PublishWith("Bidirectional", id, reader); }, Code::kInvalidArgument, "access mode MULTI");
  ExpectRefused([&] { return PublishWith("rshared", id, Mount("", kMultiWriter, {"ro"})); }, Code::kInvalidArgument,
                "flag ro");
  StartAgainWith({"--propagation", "rshared"});
  ExpectRefused([&] { return PublishWith("", id, writer, true); }, Code::kInvalidArgument, "--propagation");
  EXPECT_OK(PublishWith("rslave", id, writer, true));
}

TEST_F(PropagationRpc, SharedVolumeHasNoReadOnlyTarget) {
  const std::string id = CreatedWith("rshared", kSharedMount);
  ASSERT_OK(driver().Stage(id, Staging(id), kSharedMount));
  Target("a");
  ExpectRefused([&] { return PublishWith("", id, kSharedMount, true); }, Code::kInvalidArgument, "readonly has none");
}

TEST_F(PropagationRpc, OtherPropagationAtTheSameTargetIsAlreadyExists) {
  for (const VolumeCapability& use : {kSharedMount, kSharedBlock}) {
    const std::string id = CreatedWith("", use);
    ASSERT_OK(driver().Stage(id, Staging(id), use));
    ASSERT_OK(PublishWith("rslave", id, use));
    EXPECT_EQ(PropagationInPlugin(Target("a")), "slave");
    for (const char* other : {"private", "rshared", "inherit", ""}) {
      ExpectRefused([&] { return PublishWith(other, id, use); }, Code::kAlreadyExists, "with propagation rslave");
    }
    ASSERT_EQ(InPlugin("mount --make-shared " + Target("a")), 0);
    EXPECT_OK(PublishWith("rslave", id, use)) << "a repeated call sets it again";
    EXPECT_EQ(PropagationInPlugin(Target("a")), "slave");
    UnpublishAndUnstage(id, Target("a"));
    ASSERT_OK(driver().Delete(id));
  }
}

// kubelet repeats NodePublishVolume for running pods after a restart of the plugin.
TEST_F(PropagationRpc, RestartOfTheContainerKeepsTheMounts) {
  const std::string id = Staged(kSharedMount);
  for (const char* word : {"private", "rslave", "rshared", ""}) {
    ASSERT_OK(PublishWith(word, id, kSharedMount));
    StartAgainWith({"--propagation", "rslave"});  // in a new namespace, with another default
    EXPECT_TRUE(MountAt(Target("a")));
    EXPECT_OK(PublishWith(word, id, kSharedMount)) << word;
    EXPECT_EQ(TryWrite(Target("a") + "/file", "x"), 0);
    EXPECT_OK(driver().Unpublish(id, Target("a")));
    EXPECT_TRUE(MountsBelow(Target("a")).empty());
    Restart(SIGKILL);
  }
}

TEST_F(PropagationRpc, RestartWithAnotherDefaultKeepsTheMounts) {
  const std::string id = Staged(kSharedMount);
  StartAgainWith({"--propagation", "private"});
  ASSERT_OK(PublishWith("", id, kSharedMount));
  EXPECT_EQ(PropagationInPlugin(Target("a")), "private");
  StartAgainWith({"--propagation", "rslave"});
  EXPECT_EQ(PropagationInPlugin(Target("a")), "shared") << "the mount is a copy of the mount on the host";
  EXPECT_OK(PublishWith("", id, kSharedMount));
}

TEST_F(PropagationRpc, MountFlagsReachHostAndTask) {
  const VolumeCapability use = Mount("", kMultiWriter, {"nosuid", "nodev", "noexec", "noatime"});
  const std::string id = CreatedWith("", use);
  ASSERT_OK(driver().Stage(id, Staging(id), use));
  const PeerNamespace running;
  for (const char* word : {"private", "rslave", ""}) {
    ASSERT_OK(PublishWith(word, id, use, true));
    const PeerNamespace task;
    const std::string look = "findmnt -no VFS-OPTIONS " + Target("a") + " | grep -qx ro,nosuid,nodev,noexec,noatime";
    EXPECT_EQ(InPlugin(look), 0) << word;
    EXPECT_EQ(Shell(look), 0) << word;
    EXPECT_EQ(running.Run(look), 0) << word;
    EXPECT_EQ(task.Run(look), 0) << word;
    EXPECT_EQ(TryWrite(Target("a") + "/file", "x"), EROFS);
    EXPECT_NE(task.Run("touch " + Target("a") + "/file 2>/dev/null"), 0);
    ASSERT_OK(driver().Unpublish(id, Target("a")));
  }
}

TEST_F(PropagationRpc, UnpublishRefusesAForeignMountBelowTheTarget) {
  const std::string id = Staged(kSharedMount);
  for (const char* word : {"private", "rslave"}) {
    ASSERT_OK(PublishWith(word, id, kSharedMount));
    const std::string own = Target("a") + "/own", came = Target("a") + "/came";
    ASSERT_EQ(Shell("mkdir -p " + own + " " + came + " && mount -t tmpfs none " + came), 0);
    ASSERT_EQ(InPlugin("mount -t tmpfs none " + own), 0);
    const std::string table = ReadFile(fmt::format("/proc/{}/mountinfo", plugin().pid()));
    ExpectRefused([&] { return driver().Unpublish(id, Target("a")); }, Code::kFailedPrecondition,
                  "tmpfs is mounted below it at '" + own + "'; unmount that first");
    EXPECT_EQ(ReadFile(fmt::format("/proc/{}/mountinfo", plugin().pid())), table)
        << "the refused call has changed a mount";
    ASSERT_EQ(InPlugin("umount " + own), 0);
    EXPECT_OK(driver().Unpublish(id, Target("a")));
    EXPECT_TRUE(MountsBelow(Target("a")).empty());
  }
}

TEST_F(PropagationRpc, UnstageRefusesAForeignMountBelowTheStagingPath) {
  const std::string id = CreatedWith("", Mount());
  ASSERT_OK(driver().Stage(id, Staging(id)));
  const std::string nested = Staging(id) + "/nested";
  ASSERT_EQ(InPlugin("mkdir " + nested + " && mount -t tmpfs none " + nested), 0);
  ExpectRefused([&] { return driver().Unstage(id, Staging(id)); }, Code::kFailedPrecondition,
                "tmpfs is mounted below it at '" + nested + "'; unmount that first");
  ASSERT_EQ(InPlugin("umount " + nested), 0);
  Restart(SIGKILL);  // in a new namespace, where the staged mount is the host's copy
  ASSERT_EQ(Shell("mount -t tmpfs none " + nested), 0);
  ASSERT_TRUE(PluginSees(nested));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_TRUE(MountsBelow(Staging(id)).empty());
}

// The plugin unmounts without MNT_DETACH, so a copy that is busy in another namespace prevents it.
TEST_F(PropagationRpc, UnpublishRefusesABusyMountOfATask) {
  const std::string id = Staged(kSharedMount);
  ASSERT_OK(PublishWith("rshared", id, kSharedMount));
  const std::string nested = Target("a") + "/nested";
  {
    const PeerNamespace task;
    ASSERT_EQ(task.Run("mkdir " + nested + " && mount -t tmpfs none " + nested), 0);
  }
  {
    const UniqueFd busy(::open(nested.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(busy.ok());
    ExpectRefused([&] { return driver().Unpublish(id, Target("a")); }, Code::kFailedPrecondition, nested);
    EXPECT_TRUE(PluginSees(nested));
  }
  EXPECT_OK(driver().Unpublish(id, Target("a")));
  EXPECT_TRUE(MountsBelow(Target("a")).empty());
}

}  // namespace
}  // namespace mooring::testing

// The whole manager with a real plugin: ours, and another that shares no code with it.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/manager/system/manager_test.h"
#include "tests/support/reboot.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

class EndToEnd : public ManagerTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Start();
    RunPlugin(GetParam());
  }
  std::string plugin() const { return GetParam(); }

  // Ids of the mounts, which change if a mount is replaced.
  std::vector<std::string> MountIds() const {
    std::vector<std::string> ids;
    for (const MountLine& line : MountsHere()) ids.push_back(line.id + " " + line.target);
    return ids;
  }
};

std::string PluginName(const ::testing::TestParamInfo<const char*>& info) {
  return info.param == std::string(kOurPlugin) ? "OurPlugin" : "TmpfsPlugin";
}
INSTANTIATE_TEST_SUITE_P(Plugins, EndToEnd, ::testing::Values(kOurPlugin, kTmpfsPlugin), PluginName);

TEST_P(EndToEnd, FullLifeOfAVolume) {
  EXPECT_TRUE(Eventually([&] {
    const auto status = client().Plugin(plugin());
    return status.ok() && status->nodes().healthy() == 1 && status->nodes().expected() == 1;
  }));
  Create("db", plugin());
  const std::string path = Attached("db");
  EXPECT_THAT(MountsAt(path), SizeIs(1));
  EXPECT_EQ(TryWrite(path + "/f", "kept"), 0);
  const auto got = client().Get("db");
  ASSERT_OK(got);
  ASSERT_EQ(got->claims_size(), 1);
  EXPECT_EQ(got->claims(0).allocation(), "web-1");
  ASSERT_EQ(got->attachments_size(), 1);
  EXPECT_EQ(got->attachments(0).attach_path(), path);
  EXPECT_TRUE(got->schedulable()) << got->unschedulable();
  EXPECT_THAT(client().Delete("db"), FailsWith(Code::kFailedPrecondition, "web-1")) << "it is claimed";

  EXPECT_OK(client().Detach("web-1", "db"));
  EXPECT_THAT(MountsHere(), IsEmpty());
  EXPECT_FALSE(fs::exists(path + "/f"));
  Attached("db");
  EXPECT_EQ(ReadFile(path + "/f"), "kept");
  EXPECT_OK(client().Detach("web-1", "db"));
  EXPECT_OK(client().Delete("db"));
  EXPECT_OK(client().Delete("db")) << "gone is gone";
  EXPECT_THAT(client().Get("db"), FailsWith(Code::kNotFound, "db"));
}

TEST_P(EndToEnd, AttachReportsStepsAndIsIdempotent) {
  Create("db", plugin());
  v1::AttachRequest request = RequestFor("db", "web-1", dir() / "db");
  std::vector<std::string> steps;
  ASSERT_OK(client().Attach(request, &steps));
  EXPECT_THAT(steps, Not(IsEmpty()));
  const std::vector<std::string> before = MountIds();
  EXPECT_OK(client().Attach(request));
  EXPECT_EQ(MountIds(), before);
  request.set_allocation("web-2");
  EXPECT_THAT(client().Attach(request), FailsWith(Code::kAlreadyExists, dir() / "db"));
  request.set_attach_path(dir() / "db2");
  EXPECT_THAT(client().Attach(request), FailsWith(Code::kFailedPrecondition, "web-1")) << "for one writer";
  EXPECT_EQ(MountIds(), before);
}

TEST_P(EndToEnd, ReadOnlyAttachmentRefusesWrites) {
  Create("db", plugin());
  v1::AttachRequest request = RequestFor("db", "web-1", dir() / "db");
  request.set_read_only(true);
  ASSERT_OK(client().Attach(request));
  EXPECT_EQ(TryWrite(dir() / "db/f", "x"), EROFS);
  request.set_propagation(v1::PROPAGATION_SHARED);
  EXPECT_THAT(client().Attach(request), FailsWith(Code::kInvalidArgument, "write access"));
}

TEST_P(EndToEnd, RestartLeavesAttachmentsAlone) {
  Create("db", plugin());
  const std::string path = Attached("db");
  EXPECT_EQ(TryWrite(path + "/f", "kept"), 0);
  const std::vector<std::string> before = MountIds();
  const pid_t plugin_pid = PluginPid(plugin());
  for (const int signal : {SIGTERM, SIGKILL}) {
    Restart(signal);
    EXPECT_TRUE(Eventually([&] {
      const auto status = client().Plugin(plugin());
      return status.ok() && status->nodes().healthy() == 1;
    }));
    EXPECT_EQ(MountIds(), before);
    EXPECT_EQ(PluginPid(plugin()), plugin_pid) << "the plugin outlives the manager, and is found again";
    EXPECT_EQ(ReadFile(path + "/f"), "kept");
    EXPECT_THAT(client().Claims(), SizeIs(1));
  }
  EXPECT_OK(client().Detach("web-1", "db"));
  EXPECT_THAT(MountsHere(), IsEmpty());
  EXPECT_THAT(client().Claims(), IsEmpty());
}

// After a reboot the records have an attachment whose mount is gone.
TEST_P(EndToEnd, RestartMountsLostVolumes) {
  Create("db", plugin());
  const std::string path = Attached("db");
  EXPECT_EQ(TryWrite(path + "/f", "kept"), 0);
  process().End(SIGTERM);
  ASSERT_NO_FATAL_FAILURE(Reboot(dir().path(), {dir() / "run"}));
  Start();
  EXPECT_TRUE(Eventually([&] { return MountsAt(path).size() == 1; }, std::chrono::seconds(30)));
  EXPECT_EQ(ReadFile(path + "/f"), plugin() == kOurPlugin ? "kept" : "") << "a tmpfs ends with the boot";
  EXPECT_THAT(client().Claims(), SizeIs(1));
}

TEST_P(EndToEnd, KilledPluginRestartsAndKeepsVolumes) {
  Create("db", plugin());
  const std::string path = Attached("db");
  EXPECT_EQ(TryWrite(path + "/f", "kept"), 0);
  const std::vector<std::string> before = MountIds();
  const pid_t pid = PluginPid(plugin());
  ASSERT_GT(pid, 0);
  ::kill(pid, SIGKILL);
  EXPECT_TRUE(Eventually(
      [&] {
        const pid_t now = PluginPid(plugin());
        return now > 0 && now != pid;
      },
      std::chrono::seconds(30)));
  EXPECT_EQ(MountIds(), before);
  EXPECT_EQ(ReadFile(path + "/f"), "kept");
  EXPECT_OK(client().Detach("web-1", "db")) << "once it is back";
  EXPECT_THAT(MountsHere(), IsEmpty());
}

TEST_P(EndToEnd, ExpandsAttachedVolume) {
  if (plugin() == kOurPlugin && !HasCapSysResource()) GTEST_SKIP() << "growing a mounted ext4 needs CAP_SYS_RESOURCE";
  Create("db", plugin());
  const std::string path = Attached("db");
  const auto before = fs::space(path).capacity;
  v1::ExpandVolumeRequest request;
  *request.mutable_key() = Key("db");
  request.set_min_bytes(64 << 20);
  ASSERT_OK(client().Ask(&v1::Manager::Stub::ExpandVolume, request));
  EXPECT_GT(fs::space(path).capacity, before);
}

class TwoPlugins : public ManagerTest {};

TEST_F(TwoPlugins, WorkSideBySideAndKeepMountsAtStop) {
  RunPlugin(kOurPlugin);
  RunPlugin(kTmpfsPlugin);
  Create("one", kOurPlugin);
  Create("two", kTmpfsPlugin);
  const std::string one = Attached("one"), two = Attached("two");
  EXPECT_OK(client().StopPlugin(kTmpfsPlugin));
  EXPECT_EQ(PluginPid(kTmpfsPlugin), -1);
  EXPECT_EQ(TryWrite(two + "/f", "still there"), 0);
  EXPECT_EQ(TryWrite(one + "/f", "still there"), 0);
  EXPECT_OK(client().Detach("web-1", "one"));
  RunPlugin(kTmpfsPlugin);
  EXPECT_OK(client().Detach("web-1", "two"));
}

// A plugin with controller publish and a secret, which records its calls.
TEST_F(TwoPlugins, PublishContextAndSecretsReachNode) {
  RunPlugin(kTmpfsPlugin, {"--controller-publish", "--token", "open sesame"});
  v1::CreateVolumeRequest request;
  *request.mutable_volume() = VolumeOf("db", kTmpfsPlugin);
  EXPECT_THAT(client().Ask(&v1::Manager::Stub::CreateVolume, request), FailsWith(Code::kUnauthenticated, "token"));
  (*request.mutable_secrets())["token"] = "open sesame";
  const auto created = client().Ask(&v1::Manager::Stub::CreateVolume, request);
  ASSERT_OK(created);
  EXPECT_TRUE(created->volume().has_secrets());
  Attached("db");
  EXPECT_THAT(ReadFile(dir() / "calls"), HasSubstr("ControllerPublishVolume"));
  EXPECT_OK(client().Detach("web-1", "db"));
  EXPECT_THAT(ReadFile(dir() / "calls"), HasSubstr("ControllerUnpublishVolume"));
  EXPECT_THAT(process().Log(), Not(HasSubstr("sesame")));
  const auto volumes = client().Volumes();
  ASSERT_OK(volumes);
  ASSERT_THAT(*volumes, SizeIs(1));
  EXPECT_THAT(volumes->front().DebugString(), Not(HasSubstr("sesame")));
}

TEST_F(TwoPlugins, HangingStageEndsAtDeadline) {
  RunPlugin(kTmpfsPlugin, WithFaults());
  Create("db", kTmpfsPlugin);
  Inject("NodeStageVolume", "hang");
  client().set_deadline(std::chrono::seconds(2));
  EXPECT_THAT(client().Attach("db", "web-1", dir() / "db"), FailsWith(Code::kDeadlineExceeded, ""));
  client().set_deadline(std::chrono::seconds(60));
  EndFault("NodeStageVolume");
  EXPECT_TRUE(Eventually([&] { return client().Attachments().empty() && client().Claims().empty(); },
                         std::chrono::seconds(30)));
  EXPECT_EQ(MountsAt(dir() / "db").size(), 0U);
  const std::string path = Attached("db");
  EXPECT_THAT(MountsAt(path), SizeIs(1));
}

TEST_F(TwoPlugins, RetriesFailedDetach) {
  RunPlugin(kTmpfsPlugin, WithFaults());
  Create("db", kTmpfsPlugin);
  const std::string path = Attached("db");
  Inject("NodeUnpublishVolume", "INTERNAL the cat sits on it");
  EXPECT_THAT(client().Detach("web-1", "db"), FailsWith(Code::kInternal, "the cat sits on it"));
  ASSERT_THAT(client().Claims(), SizeIs(1)) << "a failed unmount keeps its claim";
  EXPECT_THAT(client().Claims()[0].problem(), HasSubstr("cat"));
  EndFault("NodeUnpublishVolume");
  EXPECT_TRUE(Eventually([&] { return client().Attachments().empty() && client().Claims().empty(); }));
  EXPECT_THAT(MountsHere(), IsEmpty());
}

TEST_F(TwoPlugins, HostileNamesStayBelowRootAndApart) {
  RunPlugin(kTmpfsPlugin);
  const std::vector<std::string> ids = {"../x",
                                        "..",
                                        ".",
                                        "a/b",
                                        "a",
                                        "[0]",
                                        "db[0]",
                                        "with space",
                                        "ünïcode-水",
                                        "%2E%2E",
                                        "a%2Fb",
                                        std::string(255, 'x'),
                                        std::string(254, 'x') + "y",
                                        "~"};
  for (const std::string& id : ids) Create(id, kTmpfsPlugin);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto request = RequestFor(ids[i], "../" + ids[i].substr(0, 200), dir() / ("at-" + std::to_string(i)));
    ASSERT_OK(client().Attach(request)) << ids[i];
    EXPECT_EQ(TryWrite(request.attach_path() + "/id", ids[i]), 0);
  }
  std::vector<std::string> targets;
  for (const v1::Attachment& attachment : client().Attachments()) {
    targets.push_back(attachment.target_path());
    EXPECT_TRUE(attachment.target_path().starts_with(root() + "/")) << attachment.target_path();
    EXPECT_THAT(attachment.target_path(), Not(HasSubstr("/../")));
    EXPECT_EQ(ReadFile(attachment.attach_path() + "/id"), attachment.volume().id());
  }
  std::sort(targets.begin(), targets.end());
  EXPECT_EQ(std::unique(targets.begin(), targets.end()), targets.end());
  EXPECT_EQ(targets.size(), ids.size());
}

}  // namespace
}  // namespace mooring::testing

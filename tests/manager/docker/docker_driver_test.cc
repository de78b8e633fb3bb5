#include <fmt/chrono.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_split.h"
#include "manager/attach/attachments.h"
#include "manager/claims/claims.h"
#include "manager/docker/volume_driver.h"
#include "manager/state/host_notes.h"
#include "manager/state/keys.h"
#include "manager/volumes/volume_manager.h"
#include "manager/volumes/volumes.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/fakes/fake_plugin_directory.h"
#include "tests/fakes/memory_state.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FakeCsiFeatures;
using ::mooring::testing::FakeCsiPlugin;
using ::mooring::testing::FakeMounter;

using Json = nlohmann::json;

constexpr char kDockerHost[] = "host-1";

// The driver with a plugin, a kernel and a state in memory, which outlive the manager.
class DockerDriverTest : public ::testing::Test {
 protected:
  DockerDriverTest() {
    fs::create_directory(directory_ / "mounts");
    plugin_->volumes().MirrorInto(kernel_);
    plugins_.Add(plugin_);
    StartManager();
  }

  void StartManager() {
    journal_ = *AttachmentJournal::Open(store_, kDockerHost);
    volume_manager_ = std::make_unique<VolumeManager>(
        plugins_, kernel_, *journal_, events_,
        VolumeManager::Settings{.root = directory_ / "mounts", .boot = boot_, .retry = {}});
    snapshots_ = std::make_unique<Snapshots>(store_, plugins_, hosts_, locks_, events_, queue_, RetryPolicy());
    volumes_ = std::make_unique<Volumes>(store_, plugins_, hosts_, *volume_manager_, *snapshots_, locks_, events_,
                                         queue_, RetryPolicy());
    claims_ =
        std::make_unique<Claims>(store_, plugins_, hosts_, locks_, events_, queue_, Claims::Settings{.retry = {}});
    attachments_ = std::make_unique<Attachments>(*journal_, *claims_, *volume_manager_, events_, queue_,
                                                 Attachments::Settings{.host = kDockerHost});
    const DockerVolumeDriver::Collaborators with = {.plugins = plugins_,
                                                    .volumes = *volumes_,
                                                    .attachments = *attachments_,
                                                    .journal = *journal_,
                                                    .store = store_,
                                                    .state = state_};
    driver_ = std::make_unique<DockerVolumeDriver>(
        with, DockerVolumeDriver::Settings{.host = kDockerHost, .state_dir = directory_.path(), .boot = boot_});
  }

  void RestartManager(const std::string& boot = "boot-1") {
    driver_.reset();
    attachments_.reset();
    boot_ = boot;
    StartManager();
  }

  Json Ask(const std::string& method, const Json& request) {
    return Json::parse(
        driver_->Handle("/VolumeDriver." + method, request.dump(), {Soon(), is_abandoned_, caller_, has_older_user_}));
  }
  std::string Error(const std::string& method, const Json& request) { return Ask(method, request).value("Err", "?"); }

  void Create(const std::string& name, const Json& options = nullptr) {
    ASSERT_EQ(Error("Create", {{"Name", name}, {"Opts", options}}), "");
  }
  // Tells the fake kernel of the directory that the driver makes.
  void KnowDirectoryOf(const std::string& name) {
    kernel_.With([&](auto& kernel) {
      kernel.AddDirectory(directory_.path() + "/docker/" + Escape(name));
      return 0;
    });
  }
  // Returns the mountpoint.
  std::string Mount(const std::string& name, const std::string& id) {
    KnowDirectoryOf(name);
    const Json answer = Ask("Mount", {{"Name", name}, {"ID", id}});
    EXPECT_EQ(answer.value("Err", "?"), "");
    return answer.value("Mountpoint", "");
  }
  std::string Unmount(const std::string& name, const std::string& id) {
    return Error("Unmount", {{"Name", name}, {"ID", id}});
  }
  Json StatusOf(const std::string& name) {
    const Json answer = Ask("Get", {{"Name", name}});
    EXPECT_EQ(answer.value("Err", "?"), "");
    return answer["Volume"]["Status"];
  }
  bool IsMounted(const std::string& path) {
    const auto found = kernel_.Find(path);
    return found.ok() && found->mount.has_value();
  }

  TempDir directory_;
  FakeMounter kernel_;
  testing::FakePluginDirectory plugins_;
  SingleHost hosts_{kDockerHost};
  std::shared_ptr<FakeCsiPlugin> plugin_ = std::make_shared<FakeCsiPlugin>();
  testing::MemoryState state_;
  RecordsStore store_{state_};
  KeyedLocks locks_;
  Events events_;
  WorkQueue queue_;
  std::string boot_ = "boot-1";
  IsAbandoned is_abandoned_;  // of all requests
  std::string caller_;        // of all requests
  std::function<bool(const AttachmentRecord&)> has_older_user_;
  std::unique_ptr<AttachmentJournal> journal_;
  std::unique_ptr<VolumeManager> volume_manager_;
  std::unique_ptr<Snapshots> snapshots_;
  std::unique_ptr<Volumes> volumes_;
  std::unique_ptr<Claims> claims_;
  std::unique_ptr<Attachments> attachments_;
  std::unique_ptr<DockerVolumeDriver> driver_;
};

TEST_F(DockerDriverTest, AnswersActivateAndCapabilities) {
  EXPECT_EQ(driver_->Handle("/Plugin.Activate", "", {Soon()}), R"({"Implements":["VolumeDriver"]})");
  EXPECT_EQ(driver_->Handle("/VolumeDriver.Capabilities", "{}\n", {Soon()}), R"({"Capabilities":{"Scope":"local"}})");
}

// Docker would never unmount or remove what it was not told of.
TEST_F(DockerDriverTest, NothingBeginsForAnEngineThatHasGone) {
  Create("db");
  const std::string mounted = Mount("db", "1");
  KnowDirectoryOf("db");
  is_abandoned_ = [] { return true; };
  const std::size_t calls = plugin_->Calls().size();
  for (const char* method : {"Create", "Mount", "Remove"}) {
    EXPECT_THAT(Error(method, {{"Name", "db"}, {"ID", "2"}}), HasSubstr("has gone away")) << method;
  }
  EXPECT_THAT(plugin_->Calls(), SizeIs(calls));
  EXPECT_THAT(journal_->All(), SizeIs(1));
  EXPECT_EQ(Unmount("db", "1"), "") << "the container has ended";
  EXPECT_FALSE(IsMounted(mounted));
}

// The engine gives up while its request waits for a lock, or for the plugin.
TEST_F(DockerDriverTest, MountOfAnEngineThatGoesWhileItWaitsIsUndone) {
  std::atomic<int> asked = 0;
  Create("db");
  for (const int after : {1, 2, 3, 4}) {
    asked = 0;
    is_abandoned_ = [&asked, after] { return ++asked > after; };
    KnowDirectoryOf("db");
    EXPECT_THAT(Error("Mount", {{"Name", "db"}, {"ID", "1"}}), HasSubstr("has gone away")) << after;
    EXPECT_THAT(journal_->All(), IsEmpty()) << after;
    EXPECT_THAT(*store_.ListClaims(), IsEmpty()) << after;
    EXPECT_EQ(plugin_->Count("NodeStageVolume"), after < 4 ? 0 : 1) << after;
  }
  EXPECT_EQ(plugin_->volumes().staged_count(), 0U);
}

TEST_F(DockerDriverTest, VolumeIsMadeWhereItsContainersRun) {
  FakeCsiFeatures features = plugin_->features();
  features.topology = {{"zone", "z1"}};
  plugin_->SetFeatures(features);
  Create("db", {{"size", "1GiB"}});
  const auto created = plugin_->Requests<csi::v1::CreateVolumeRequest>();
  ASSERT_THAT(created, SizeIs(1));
  ASSERT_EQ(created[0].accessibility_requirements().requisite_size(), 1);
  EXPECT_EQ(created[0].accessibility_requirements().requisite(0).segments().at("zone"), "z1");
  EXPECT_EQ(created[0].accessibility_requirements().preferred_size(), 1);
  features.topology = {{"zone", "z2"}};
  plugin_->SetFeatures(features);
  Create("db", {{"size", "1GiB"}});  // the same volume, also if another host asks
  EXPECT_EQ(plugin_->Count("CreateVolume"), 1);
}

TEST_F(DockerDriverTest, CreatesMountsUnmountsAndRemoves) {
  Create("db", {{"size", "1GiB"}, {"fsType", "ext4"}, {"param.pool", "fast"}});
  const auto created = plugin_->Requests<csi::v1::CreateVolumeRequest>();
  ASSERT_THAT(created, SizeIs(1));
  EXPECT_EQ(created[0].capacity_range().required_bytes(), std::int64_t{1} << 30);
  EXPECT_EQ(created[0].volume_capabilities(0).mount().fs_type(), "ext4");
  EXPECT_EQ(created[0].parameters().at("pool"), "fast");

  const std::string day = fmt::format("{:%FT}", fmt::gmtime(std::time(nullptr)));
  EXPECT_THAT(Ask("Get", {{"Name", "db"}})["Volume"]["CreatedAt"].get<std::string>(), StartsWith(day));
  EXPECT_THAT(Ask("List", Json::object())["Volumes"][0]["CreatedAt"].get<std::string>(), StartsWith(day));

  const std::string mountpoint = Mount("db", "id-1");
  EXPECT_THAT(mountpoint, StartsWith(directory_.path() + "/docker/db/"));
  EXPECT_TRUE(IsMounted(mountpoint));
  EXPECT_EQ(Ask("Path", {{"Name", "db"}})["Mountpoint"], mountpoint);
  EXPECT_EQ(Ask("Get", {{"Name", "db"}})["Volume"]["Mountpoint"], mountpoint);

  EXPECT_EQ(Unmount("db", "id-1"), "");
  EXPECT_FALSE(IsMounted(mountpoint));
  EXPECT_EQ(plugin_->volumes().staged_count(), 0U);
  EXPECT_EQ(Ask("Path", {{"Name", "db"}})["Mountpoint"], "");
  EXPECT_EQ(Error("Remove", {{"Name", "db"}}), "");
  EXPECT_THAT(plugin_->volumes().Ids(), SizeIs(0));
  EXPECT_THAT(Error("Get", {{"Name", "db"}}), HasSubstr("db"));
  EXPECT_THAT(Ask("List", Json::object())["Volumes"], SizeIs(0));
}

TEST_F(DockerDriverTest, RepeatedRequestsAreIdempotent) {
  Create("db", {{"size", "1GiB"}});
  Create("db", {{"size", "1GiB"}});
  Create("db");
  const std::string mountpoint = Mount("db", "id-1");
  EXPECT_EQ(plugin_->Count("CreateVolume"), 1);
  plugin_->ClearLog();
  EXPECT_EQ(Mount("db", "id-1"), mountpoint);
  EXPECT_THAT(plugin_->Calls(), SizeIs(0));
  EXPECT_EQ(Unmount("db", "id-1"), "");
  EXPECT_EQ(Unmount("db", "id-1"), "");
  EXPECT_EQ(Error("Remove", {{"Name", "db"}}), "");
  EXPECT_EQ(Error("Remove", {{"Name", "db"}}), "");
  EXPECT_EQ(plugin_->Count("DeleteVolume"), 1);
}

// docker cp mounts and unmounts the volume of a running container with the id of its mount.
TEST_F(DockerDriverTest, ACopyOutOfARunningContainerLeavesItsMount) {
  caller_ = "dockerd";
  Create("db");
  const std::string mounted = Mount("db", "1");
  EXPECT_EQ(Mount("db", "1"), mounted);
  EXPECT_EQ(Mount("db", "1"), mounted) << "two copies at once";
  EXPECT_EQ(Unmount("db", "1"), "");
  RestartManager();
  EXPECT_EQ(Unmount("db", "1"), "");
  EXPECT_TRUE(IsMounted(mounted));
  EXPECT_EQ(plugin_->Count("NodeUnpublishVolume"), 0);
  EXPECT_EQ(Unmount("db", "1"), "") << "the container ends";
  EXPECT_FALSE(IsMounted(mounted));
}

// With live-restore the container outlives the daemon, and the end of a copy that the restart cut short is never told.
TEST_F(DockerDriverTest, ACopyAfterARestartOfDockerLeavesTheMountOfItsContainer) {
  caller_ = "dockerd";
  Create("db");
  const std::string mounted = Mount("db", "1");
  Mount("db", "1");
  caller_ = "another dockerd";
  EXPECT_EQ(Mount("db", "1"), mounted);
  EXPECT_EQ(Unmount("db", "1"), "");
  EXPECT_TRUE(IsMounted(mounted));
  EXPECT_EQ(Unmount("db", "1"), "") << "the container ends";
  EXPECT_FALSE(IsMounted(mounted));
}

// A daemon that was killed does not tell the end of its containers, and the next one mounts with the same id.
TEST_F(DockerDriverTest, AMountAfterAKilledDockerIsTheFirst) {
  std::string asked;
  has_older_user_ = [&asked](const AttachmentRecord& mount) {
    asked = mount.attach_path;
    return false;
  };
  caller_ = "dockerd";
  Create("db");
  const std::string mounted = Mount("db", "1");
  Mount("db", "1");
  EXPECT_EQ(asked, "") << "the same daemon";
  caller_ = "another dockerd";
  EXPECT_EQ(Mount("db", "1"), mounted);
  EXPECT_EQ(asked, mounted);
  EXPECT_TRUE(IsMounted(mounted));
  EXPECT_EQ(Unmount("db", "1"), "");
  EXPECT_FALSE(IsMounted(mounted));
}

TEST_F(DockerDriverTest, AnUnmountOfAnotherProcessIsTheLast) {
  caller_ = "dockerd";
  Create("db");
  const std::string mounted = Mount("db", "1");
  Mount("db", "1");
  caller_ = "another dockerd";
  EXPECT_EQ(Unmount("db", "1"), "") << "it knows of no copy";
  EXPECT_FALSE(IsMounted(mounted));
}

// The version before kept no caller.
TEST_F(DockerDriverTest, ACopyAfterAnUpgradeLeavesTheMountOfItsContainer) {
  Create("db");
  const std::string mounted = Mount("db", "1");
  caller_ = "dockerd";
  Mount("db", "1");
  EXPECT_EQ(Unmount("db", "1"), "");
  EXPECT_TRUE(IsMounted(mounted));
}

TEST_F(DockerDriverTest, CreateOfExistingNameIsRefused) {
  Create("db", {{"size", "1GiB"}});
  EXPECT_THAT(Error("Create", {{"Name", "db"}, {"Opts", {{"size", "2GiB"}}}}), HasSubstr("db"));
  EXPECT_THAT(plugin_->volumes().Ids(), SizeIs(1));
}

TEST_F(DockerDriverTest, SingleWriterIsAlone) {
  Create("db", {{"access", "single-node-writer"}});
  Mount("db", "id-1");
  EXPECT_THAT(Error("Mount", {{"Name", "db"}, {"ID", "id-2"}}), HasSubstr("docker-id-1"));
}

TEST_F(DockerDriverTest, RemoveDeregistersRegisteredVolume) {
  plugin_->volumes().Add("theirs");
  Volume volume;
  volume.key = {.ns = "docker", .id = "db"};
  volume.external_id = "theirs";
  volume.plugin = "fake.csi";
  volume.capabilities = {{.access = AccessMode::kSingleNodeMultiWriter}};
  ASSERT_OK(volumes_->Register(volume, Soon()));
  EXPECT_TRUE(IsMounted(Mount("db", "id-1")));
  EXPECT_EQ(Unmount("db", "id-1"), "");
  EXPECT_EQ(Error("Remove", {{"Name", "db"}}), "");
  EXPECT_THAT(plugin_->volumes().Ids(), SizeIs(1));
}

TEST_F(DockerDriverTest, ReadOnlyVolumeIsPublishedReadOnly) {
  Create("db", {{"ro", "true"}});
  Mount("db", "id-1");
  const auto published = plugin_->Requests<csi::v1::NodePublishVolumeRequest>();
  ASSERT_THAT(published, SizeIs(1));
  EXPECT_TRUE(published[0].readonly());
  EXPECT_EQ(StatusOf("db")["ReadOnly"], true);
}

TEST_F(DockerDriverTest, CopiesVolumeOrSnapshot) {
  Create("db");
  const std::string source = StatusOf("db")["ExternalID"];
  Create("copy", {{"from-volume", "db"}});
  const auto created = plugin_->Requests<csi::v1::CreateVolumeRequest>();
  ASSERT_THAT(created, SizeIs(2));
  EXPECT_EQ(created[1].volume_content_source().volume().volume_id(), source);
  EXPECT_THAT(Error("Create", {{"Name", "x"}, {"Opts", {{"from-volume", "none"}}}}), HasSubstr("from-volume"));
}

TEST_F(DockerDriverTest, SecretsAreSentAndNeverShown) {
  Create("db", {{"secret.key", "hunter2"}});
  EXPECT_EQ(plugin_->Requests<csi::v1::CreateVolumeRequest>()[0].secrets().at("key"), "hunter2");
  EXPECT_THAT(Ask("Get", {{"Name", "db"}}).dump(), Not(HasSubstr("hunter2")));
  EXPECT_THAT(Error("Create", {{"Name", "x"}, {"Opts", {{"secret.key", "hunter2"}, {"size", "?"}}}}),
              Not(HasSubstr("hunter2")));
}

TEST_F(DockerDriverTest, SeveralPluginsNeedPluginOption) {
  FakeCsiFeatures features;
  features.name = "other.csi";
  plugins_.Add(std::make_shared<FakeCsiPlugin>(features));
  EXPECT_THAT(Error("Create", {{"Name", "db"}}), HasSubstr("fake.csi, other.csi"));
  Create("db", {{"plugin", "fake.csi"}});
}

TEST_F(DockerDriverTest, HostileNamesStayBelowRootAndApart) {
  std::vector<std::string> names = absl::StrSplit("..|../x|a/b|a%2Fb|a b|db[0]|\"'$(x)|größe", '|');
  names.push_back(std::string(255, '.'));
  names.push_back(std::string(254, '.') + "/");
  std::set<std::string> mountpoints;
  for (const std::string& name : names) {
    Create(name);
    const std::string mountpoint = Mount(name, "../id");
    EXPECT_THAT(mountpoint, StartsWith(directory_.path() + "/docker/")) << name;
    EXPECT_EQ(fs::path(mountpoint).lexically_normal(), mountpoint) << name;
    EXPECT_TRUE(mountpoints.insert(mountpoint).second) << name;
  }
  for (const std::string& name : names) EXPECT_EQ(Unmount(name, "../id"), "") << name;
  for (const std::string& name : {std::string(), std::string(256, 'x'), std::string("a\nb")}) {
    EXPECT_NE(Error("Create", {{"Name", name}}), "");
  }
}

TEST_F(DockerDriverTest, RefusesMalformedRequests) {
  for (const char* body : {"", "null", "[]", "{", "{\"Name\":7}", "{\"Name\":\"db\",\"Opts\":[]}"}) {
    const Json answer = Json::parse(driver_->Handle("/VolumeDriver.Create", body, {Soon()}));
    EXPECT_NE(answer.value("Err", ""), "") << body;
  }
  EXPECT_NE(Error("Format", {{"Name", "db"}}), "");
  EXPECT_NE(Error("Mount", {{"Name", "db"}}), "");
}

TEST_F(DockerDriverTest, RestartKeepsEverything) {
  Create("db", {{"propagation", "rslave"}});
  const std::string mountpoint = Mount("db", "id-1");
  RestartManager();
  attachments_->Restore();
  attachments_->WaitUntilRestored(Soon());
  EXPECT_THAT(Ask("List", Json::object())["Volumes"], SizeIs(1));
  EXPECT_EQ(StatusOf("db")["Propagation"], "rslave");
  EXPECT_EQ(Mount("db", "id-1"), mountpoint);
  EXPECT_EQ(plugin_->Count("NodePublishVolume"), 1);
  EXPECT_EQ(Unmount("db", "id-1"), "");
}

// After a reboot Docker mounts only the volumes of containers that it starts again.
TEST_F(DockerDriverTest, DetachesWhatDockerDidNotMountSinceBoot) {
  Create("db", {{"access", "single-node-writer"}});
  const std::string mountpoint = Mount("db", "id-1");
  const auto start_in = [&](const std::string& boot) {
    RestartManager(boot);
    const auto booted = IsFirstOfBoot(state_, kDockerHost, boot);
    ASSERT_OK(booted);
    attachments_->Restore(
        [&](const AttachmentRecord& record) { return *booted && IsAttachedForDocker(record, directory_.path()); });
    ASSERT_OK(KeepBoot(state_, kDockerHost, boot));
  };
  start_in("boot-1");
  attachments_->WaitUntilRestored(Soon());
  EXPECT_THAT(StatusOf("db")["Claims"], SizeIs(1));
  start_in("boot-2");
  EXPECT_EQ(Mount("db", "id-1"), mountpoint) << "a container that is started again waits for that";
  EXPECT_TRUE(IsMounted(mountpoint));
  start_in("boot-2");
  attachments_->WaitUntilRestored(Soon());
  EXPECT_THAT(StatusOf("db")["Claims"], SizeIs(1));
  start_in("boot-3");
  attachments_->WaitUntilRestored(Soon());
  EXPECT_THAT(StatusOf("db")["Claims"], SizeIs(0));
  EXPECT_FALSE(IsMounted(mountpoint));
  EXPECT_EQ(plugin_->volumes().staged_count(), 0U);
  EXPECT_TRUE(IsMounted(Mount("db", "id-2"))) << "another container may have it";
}

TEST_F(DockerDriverTest, FailedMountQuotesPluginAndIsUndone) {
  Create("db");
  plugin_->Fail("NodePublishVolume", absl::InternalError("the disk is on fire"));
  KnowDirectoryOf("db");
  EXPECT_THAT(Error("Mount", {{"Name", "db"}, {"ID", "id-1"}}), HasSubstr("the disk is on fire"));
  EXPECT_THAT(StatusOf("db")["Claims"], SizeIs(0));
  EXPECT_TRUE(IsMounted(Mount("db", "id-1")));
}

}  // namespace
}  // namespace mooring::manager

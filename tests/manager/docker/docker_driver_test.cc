#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "manager/docker/volume_driver.h"
#include "manager/manager.h"
#include "manager/state/boot.h"
#include "manager/state/keys.h"
#include "manager/state/sqlite_state.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/manager/plugins/watch_threads.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FakeCsiPlugin;
using ::mooring::testing::FakeMounter;
using ::mooring::testing::FakeSockets;
using ::mooring::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

using Json = nlohmann::json;

constexpr char kSocket[] = "/run/fake/csi.sock";

// The driver and the manager's components, over a plugin and a kernel in memory.
class DockerDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(root());
    plugin_->volumes().MirrorInto(kernel_);
    sockets_.Serve(kSocket, plugin_);
    StartManager();
    for (const PluginType type : {PluginType::kNode, PluginType::kController}) Register(type, "fake.csi");
    ASSERT_OK(components_->plugins->PickController("fake.csi", Clock::now() + std::chrono::seconds(20)));
  }
  void TearDown() override { StopManager(); }

  std::string root() const { return directory_ / "mounts"; }

  void StartManager() {
    Config config;
    config.root = root();
    config.state_dir = directory_.path();
    config.host = "host-1";
    auto state = OpenSqliteState(directory_ / "state.db");
    ASSERT_OK(state);
    components_ = std::make_unique<Components>(config, boot_, *std::move(state));
    components_->registry = *Registry::Open(*components_->state, config.host);
    components_->plugins = std::make_unique<PluginLoop>(
        *components_->registry, components_->events, sockets_.connector(),
        [] { return std::vector<PluginLoop::Expected>(); }, PluginLoop::Settings());
    watches_ =
        std::make_unique<testing::WatchThreads>(*components_->registry, *components_->plugins, sockets_.connector());
    components_->journal = *MountJournal::Open(components_->store, config.host);
    VolumeManager::Settings mounting;
    mounting.root = config.root;
    mounting.boot = boot_;
    components_->volume_manager = std::make_unique<VolumeManager>(*components_->plugins, kernel_, *components_->journal,
                                                                  components_->events, mounting);
    components_->volumes =
        std::make_unique<Volumes>(components_->store, *components_->plugins, *components_->volume_manager,
                                  components_->controller_locks, components_->events, RetryPolicy());
    Claims::Settings claiming;
    claiming.host = config.host;
    components_->claims = std::make_unique<Claims>(components_->store, *components_->plugins,
                                                   components_->controller_locks, components_->events, claiming);
    Attachments::Settings attaching;
    attaching.host = config.host;
    components_->attachments = std::make_unique<Attachments>(
        *components_->journal, *components_->claims, *components_->volume_manager, components_->events, attaching);
    const DockerVolumeDriver::Collaborators with = {.plugins = *components_->plugins,
                                                    .volumes = *components_->volumes,
                                                    .attachments = *components_->attachments,
                                                    .journal = *components_->journal,
                                                    .store = components_->store,
                                                    .state = *components_->state};
    driver_ = std::make_unique<DockerVolumeDriver>(
        with, DockerVolumeDriver::Settings{.host = config.host, .state_dir = config.state_dir, .boot = boot_});
  }

  void StopManager() {
    if (components_ == nullptr) return;
    driver_.reset();
    watches_.reset();
    components_->attachments->Stop();
    components_->plugins->Stop();
    components_.reset();
  }

  void Register(PluginType type, const std::string& name) {
    InstanceInfo instance;
    instance.type = type;
    instance.name = name;
    instance.version = "1.0";
    instance.socket_path = kSocket;
    instance.instance_id = name + "-1";
    ASSERT_OK(components_->registry->Register(instance));
  }

  Json Ask(const std::string& method, const Json& request) {
    return Json::parse(
        driver_->Handle("/VolumeDriver." + method, request.dump(), Clock::now() + std::chrono::seconds(20)));
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
  FakeSockets sockets_;
  std::shared_ptr<FakeCsiPlugin> plugin_ = std::make_shared<FakeCsiPlugin>();
  std::string boot_ = "boot-1";
  std::unique_ptr<Components> components_;
  std::unique_ptr<testing::WatchThreads> watches_;
  std::unique_ptr<DockerVolumeDriver> driver_;
};

TEST_F(DockerDriverTest, AnswersActivateAndCapabilities) {
  EXPECT_EQ(driver_->Handle("/Plugin.Activate", "", Clock::now()), R"({"Implements":["VolumeDriver"]})");
  EXPECT_EQ(driver_->Handle("/VolumeDriver.Capabilities", "{}\n", Clock::now()),
            R"({"Capabilities":{"Scope":"local"}})");
}

TEST_F(DockerDriverTest, CreatesMountsUnmountsAndRemoves) {
  Create("db", {{"size", "1GiB"}, {"fsType", "ext4"}, {"param.pool", "fast"}});
  const auto created = plugin_->Requests<csi::v1::CreateVolumeRequest>();
  ASSERT_THAT(created, SizeIs(1));
  EXPECT_EQ(created[0].capacity_range().required_bytes(), std::int64_t{1} << 30);
  EXPECT_EQ(created[0].volume_capabilities(0).mount().fs_type(), "ext4");
  EXPECT_EQ(created[0].parameters().at("pool"), "fast");

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

TEST_F(DockerDriverTest, CreateOfExistingNameIsRefused) {
  Create("db", {{"size", "1GiB"}});
  EXPECT_THAT(Error("Create", {{"Name", "db"}, {"Opts", {{"size", "2GiB"}}}}), HasSubstr("db"));
  EXPECT_THAT(plugin_->volumes().Ids(), SizeIs(1));
}

TEST_F(DockerDriverTest, ContainersShareVolumeIfPluginAllows) {
  Create("db");
  EXPECT_NE(Mount("db", "id-1"), Mount("db", "id-2"));
  EXPECT_THAT(StatusOf("db")["Claims"], SizeIs(2));
  EXPECT_EQ(Unmount("db", "id-1"), "");
  EXPECT_EQ(plugin_->volumes().staged_count(), 1U);  // for the other volume
  EXPECT_EQ(Unmount("db", "id-2"), "");
  EXPECT_EQ(plugin_->volumes().staged_count(), 0U);
}

TEST_F(DockerDriverTest, SingleWriterIsAlone) {
  Create("db", {{"access", "single-node-writer"}});
  Mount("db", "id-1");
  EXPECT_THAT(Error("Mount", {{"Name", "db"}, {"ID", "id-2"}}), HasSubstr("docker-id-1"));
}

TEST_F(DockerDriverTest, RefusesRemoveOfVolumeInUse) {
  Create("db");
  Mount("db", "id-1");
  EXPECT_NE(Error("Remove", {{"Name", "db"}}), "");
  EXPECT_EQ(plugin_->Count("DeleteVolume"), 0);
  EXPECT_EQ(Unmount("db", "id-1"), "");
  EXPECT_EQ(Error("Remove", {{"Name", "db"}}), "");
}

TEST_F(DockerDriverTest, RemoveDeregistersRegisteredVolume) {
  plugin_->volumes().Add("theirs");
  Volume volume;
  volume.key = {.ns = "docker", .id = "db"};
  volume.external_id = "theirs";
  volume.plugin = "fake.csi";
  volume.capabilities = {{.access = AccessMode::kSingleNodeMultiWriter}};
  ASSERT_OK(components_->volumes->Register(volume, Clock::now() + std::chrono::seconds(20)));
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

TEST_F(DockerDriverTest, PropagationIsPrivateByDefault) {
  Create("closed");
  Create("open", {{"propagation", "host-to-task"}});
  Mount("closed", "id-1");
  EXPECT_EQ(kernel_.last_bind().propagation, Propagation::kPrivate);
  Mount("open", "id-1");
  EXPECT_EQ(kernel_.last_bind().propagation, Propagation::kSlave);
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
  Register(PluginType::kNode, "other.csi");
  while (components_->plugins->List().size() < 2) std::this_thread::yield();
  EXPECT_THAT(Error("Create", {{"Name", "db"}}), HasSubstr("fake.csi, other.csi"));
  Create("db", {{"plugin", "fake.csi"}});
}

TEST_F(DockerDriverTest, HostileNamesStayBelowRootAndApart) {
  const std::vector<std::string> names = {"..",
                                          "../x",
                                          "a/b",
                                          "a%2Fb",
                                          "a b",
                                          "db[0]",
                                          "\"'$(x)",
                                          "gr\xC3\xB6\xC3\x9F"
                                          "e",
                                          std::string(255, '.'),
                                          std::string(254, '.') + "/"};
  std::set<std::string> mountpoints;
  for (const std::string& name : names) {
    Create(name);
    const std::string mountpoint = Mount(name, "../id");
    EXPECT_THAT(mountpoint, StartsWith(directory_.path() + "/docker/")) << name;
    EXPECT_EQ(std::filesystem::path(mountpoint).lexically_normal(), mountpoint) << name;
    EXPECT_TRUE(mountpoints.insert(mountpoint).second) << name;
  }
  for (const std::string& name : names) EXPECT_EQ(Unmount(name, "../id"), "") << name;
  for (const std::string& name : {std::string(), std::string(256, 'x'), std::string("a\nb")}) {
    EXPECT_NE(Error("Create", {{"Name", name}}), "");
  }
}

TEST_F(DockerDriverTest, RefusesMalformedRequests) {
  for (const char* body : {"", "null", "[]", "{", "{\"Name\":7}", "{\"Name\":\"db\",\"Opts\":[]}"}) {
    const Json answer = Json::parse(driver_->Handle("/VolumeDriver.Create", body, Clock::now()));
    EXPECT_NE(answer.value("Err", ""), "") << body;
  }
  EXPECT_NE(Error("Format", {{"Name", "db"}}), "");
  EXPECT_NE(Error("Mount", {{"Name", "db"}}), "");
}

TEST_F(DockerDriverTest, RestartKeepsEverything) {
  Create("db", {{"propagation", "rslave"}});
  const std::string mountpoint = Mount("db", "id-1");
  StopManager();
  StartManager();
  components_->attachments->Restore();
  components_->attachments->WaitUntilRestored(Clock::now() + std::chrono::seconds(20));
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
    StopManager();
    boot_ = boot;
    StartManager();
    // Without this the release would be owed, and only a whole manager continues it (Claims::Resume).
    ASSERT_OK(components_->plugins->PickController("fake.csi", Clock::now() + std::chrono::seconds(20)));
    const auto booted = IsFirstOfBoot(*components_->state, "host-1", boot);
    ASSERT_OK(booted);
    components_->attachments->Restore(
        [&](const AttachmentRecord& record) { return *booted && IsAttachedForDocker(record, directory_.path()); });
    ASSERT_OK(KeepBoot(*components_->state, "host-1", boot));
  };
  start_in("boot-1");
  components_->attachments->WaitUntilRestored(Clock::now() + std::chrono::seconds(20));
  EXPECT_THAT(StatusOf("db")["Claims"], SizeIs(1));
  start_in("boot-2");
  EXPECT_EQ(Mount("db", "id-1"), mountpoint) << "a container that is started again waits for that";
  EXPECT_TRUE(IsMounted(mountpoint));
  start_in("boot-2");
  components_->attachments->WaitUntilRestored(Clock::now() + std::chrono::seconds(20));
  EXPECT_THAT(StatusOf("db")["Claims"], SizeIs(1));
  start_in("boot-3");
  components_->attachments->WaitUntilRestored(Clock::now() + std::chrono::seconds(20));
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

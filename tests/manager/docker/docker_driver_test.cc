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

// The manager's parts over a plugin and a kernel in memory.
class DockerDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(root());
    plugin_->volumes().MirrorInto(kernel_);
    sockets_.Serve(kSocket, plugin_);
    StartManager();
    for (const PluginType type : {PluginType::kNode, PluginType::kController}) Register(type, "fake.csi");
    ASSERT_OK(parts_->plugins->PickController("fake.csi", Clock::now() + std::chrono::seconds(20)));
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
    parts_ = std::make_unique<Parts>(config, *std::move(state));
    parts_->registry = *Registry::Open(*parts_->state, config.host);
    parts_->plugins = std::make_unique<PluginLoop>(
        *parts_->registry, parts_->events, sockets_.connector(), [] { return std::vector<PluginLoop::Expected>(); },
        PluginLoop::Settings());
    parts_->journal = *MountJournal::Open(parts_->store, config.host);
    VolumeManager::Settings mounting;
    mounting.root = config.root;
    parts_->volume_manager =
        std::make_unique<VolumeManager>(*parts_->plugins, kernel_, *parts_->journal, parts_->events, mounting);
    parts_->volumes = std::make_unique<Volumes>(parts_->store, *parts_->plugins, *parts_->volume_manager,
                                                parts_->controller_locks, parts_->events, RetryPolicy());
    Claims::Settings claiming;
    claiming.host = config.host;
    parts_->claims =
        std::make_unique<Claims>(parts_->store, *parts_->plugins, parts_->controller_locks, parts_->events, claiming);
    Attachments::Settings attaching;
    attaching.host = config.host;
    parts_->attachments = std::make_unique<Attachments>(*parts_->journal, *parts_->claims, *parts_->volume_manager,
                                                        parts_->events, attaching);
    driver_ = std::make_unique<DockerVolumeDriver>(*parts_, "");
  }

  void StopManager() {
    if (parts_ == nullptr) return;
    driver_.reset();
    parts_->attachments->Stop();
    parts_->plugins->Stop();
    parts_.reset();
  }

  void Register(PluginType type, const std::string& name) {
    InstanceInfo instance;
    instance.type = type;
    instance.name = name;
    instance.version = "1.0";
    instance.socket_path = kSocket;
    instance.instance_id = name + "-1";
    ASSERT_OK(parts_->registry->Register(instance));
  }

  Json Ask(const std::string& method, const Json& request) {
    return Json::parse(
        driver_->Handle("/VolumeDriver." + method, request.dump(), Clock::now() + std::chrono::seconds(20)));
  }
  std::string Error(const std::string& method, const Json& request) { return Ask(method, request).value("Err", "?"); }

  void Create(const std::string& name, const Json& options = nullptr) {
    ASSERT_EQ(Error("Create", {{"Name", name}, {"Opts", options}}), "");
  }
  // The driver makes it, and the kernel in memory does not see that.
  void KnowDirectoryOf(const std::string& name) {
    kernel_.With([&](auto& kernel) {
      kernel.AddDirectory(directory_.path() + "/docker/" + Escape(name));
      return 0;
    });
  }
  // Where it is for Docker.
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
  std::unique_ptr<Parts> parts_;
  std::unique_ptr<DockerVolumeDriver> driver_;
};

TEST_F(DockerDriverTest, SaysWhatItIs) {
  EXPECT_EQ(driver_->Handle("/Plugin.Activate", "", Clock::now()), R"({"Implements":["VolumeDriver"]})");
  EXPECT_EQ(driver_->Handle("/VolumeDriver.Capabilities", "{}\n", Clock::now()),
            R"({"Capabilities":{"Scope":"local"}})");
}

TEST_F(DockerDriverTest, AVolumeIsMadeMountedUnmountedAndRemoved) {
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

TEST_F(DockerDriverTest, WhatIsDoneAlreadyStaysAsItIs) {
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

TEST_F(DockerDriverTest, ANameThatIsTakenIsNotMadeAnew) {
  Create("db", {{"size", "1GiB"}});
  EXPECT_THAT(Error("Create", {{"Name", "db"}, {"Opts", {{"size", "2GiB"}}}}), HasSubstr("db"));
  EXPECT_THAT(plugin_->volumes().Ids(), SizeIs(1));
}

TEST_F(DockerDriverTest, ContainersShareAVolumeWhereThePluginAllowsIt) {
  Create("db");
  EXPECT_NE(Mount("db", "id-1"), Mount("db", "id-2"));
  EXPECT_THAT(StatusOf("db")["Claims"], SizeIs(2));
  EXPECT_EQ(Unmount("db", "id-1"), "");
  EXPECT_EQ(plugin_->volumes().staged_count(), 1U);  // the other's
  EXPECT_EQ(Unmount("db", "id-2"), "");
  EXPECT_EQ(plugin_->volumes().staged_count(), 0U);
}

TEST_F(DockerDriverTest, F3_ASingleWriterIsAlone) {
  Create("db", {{"access", "single-node-writer"}});
  Mount("db", "id-1");
  EXPECT_THAT(Error("Mount", {{"Name", "db"}, {"ID", "id-2"}}), HasSubstr("docker-id-1"));
}

TEST_F(DockerDriverTest, K6_AVolumeInUseIsNotRemoved) {
  Create("db");
  Mount("db", "id-1");
  EXPECT_NE(Error("Remove", {{"Name", "db"}}), "");
  EXPECT_EQ(plugin_->Count("DeleteVolume"), 0);
  EXPECT_EQ(Unmount("db", "id-1"), "");
  EXPECT_EQ(Error("Remove", {{"Name", "db"}}), "");
}

TEST_F(DockerDriverTest, AVolumeThatSomebodyRegisteredIsOnlyForgotten) {
  plugin_->volumes().Add("theirs");
  Volume volume;
  volume.key = {.ns = "docker", .id = "db"};
  volume.external_id = "theirs";
  volume.plugin = "fake.csi";
  volume.capabilities = {{.access = AccessMode::kSingleNodeMultiWriter}};
  ASSERT_OK(parts_->volumes->Register(volume, Clock::now() + std::chrono::seconds(20)));
  EXPECT_TRUE(IsMounted(Mount("db", "id-1")));
  EXPECT_EQ(Unmount("db", "id-1"), "");
  EXPECT_EQ(Error("Remove", {{"Name", "db"}}), "");
  EXPECT_THAT(plugin_->volumes().Ids(), SizeIs(1));
}

TEST_F(DockerDriverTest, ReadOnlyVolumesArePublishedSo) {
  Create("db", {{"ro", "true"}});
  Mount("db", "id-1");
  const auto published = plugin_->Requests<csi::v1::NodePublishVolumeRequest>();
  ASSERT_THAT(published, SizeIs(1));
  EXPECT_TRUE(published[0].readonly());
  EXPECT_EQ(StatusOf("db")["ReadOnly"], true);
}

TEST_F(DockerDriverTest, H_PropagationIsPrivateUnlessAskedOtherwise) {
  Create("closed");
  Create("open", {{"propagation", "host-to-task"}});
  Mount("closed", "id-1");
  EXPECT_EQ(kernel_.last_bind().propagation, Propagation::kPrivate);
  Mount("open", "id-1");
  EXPECT_EQ(kernel_.last_bind().propagation, Propagation::kSlave);
}

TEST_F(DockerDriverTest, CopiesAreMadeFromAVolumeOrASnapshot) {
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

TEST_F(DockerDriverTest, ThePluginIsSaidWhereThereAreSeveral) {
  Register(PluginType::kNode, "other.csi");
  while (parts_->plugins->List().size() < 2) std::this_thread::yield();
  EXPECT_THAT(Error("Create", {{"Name", "db"}}), HasSubstr("fake.csi, other.csi"));
  Create("db", {{"plugin", "fake.csi"}});
}

TEST_F(DockerDriverTest, HostileNamesStayBelowTheRootAndNeverMeet) {
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

TEST_F(DockerDriverTest, WhatIsNoRequestIsAnError) {
  for (const char* body : {"", "null", "[]", "{", "{\"Name\":7}", "{\"Name\":\"db\",\"Opts\":[]}"}) {
    const Json answer = Json::parse(driver_->Handle("/VolumeDriver.Create", body, Clock::now()));
    EXPECT_NE(answer.value("Err", ""), "") << body;
  }
  EXPECT_NE(Error("Format", {{"Name", "db"}}), "");
  EXPECT_NE(Error("Mount", {{"Name", "db"}}), "");
}

TEST_F(DockerDriverTest, AManagerStartedAnewKnowsItAll) {
  Create("db", {{"propagation", "rslave"}});
  const std::string mountpoint = Mount("db", "id-1");
  StopManager();
  StartManager();
  parts_->attachments->Restore();
  parts_->attachments->WaitUntilRestored(Clock::now() + std::chrono::seconds(20));
  EXPECT_THAT(Ask("List", Json::object())["Volumes"], SizeIs(1));
  EXPECT_EQ(StatusOf("db")["Propagation"], "rslave");
  EXPECT_EQ(Mount("db", "id-1"), mountpoint);
  EXPECT_EQ(plugin_->Count("NodePublishVolume"), 1);
  EXPECT_EQ(Unmount("db", "id-1"), "");
}

// Docker asks for what it starts again, and for nothing else.
TEST_F(DockerDriverTest, WhatDockerDoesNotAskForSinceTheBootIsGivenBack) {
  Create("db", {{"access", "single-node-writer"}});
  parts_->boot = "boot-1";
  const std::string mountpoint = Mount("db", "id-1");
  const auto start_in = [&](const std::string& boot) {
    StopManager();
    StartManager();
    // Else what it gives back would be owed, which the whole manager alone goes on with (Claims::Resume).
    ASSERT_OK(parts_->plugins->PickController("fake.csi", Clock::now() + std::chrono::seconds(20)));
    parts_->boot = boot;
    const auto booted = IsFirstOfBoot(*parts_->state, "host-1", boot);
    ASSERT_OK(booted);
    parts_->attachments->Restore(
        [&](const AttachmentRecord& record) { return *booted && IsAttachedForDocker(record, directory_.path()); });
    ASSERT_OK(KeepBoot(*parts_->state, "host-1", boot));
  };
  start_in("boot-1");
  parts_->attachments->WaitUntilRestored(Clock::now() + std::chrono::seconds(20));
  EXPECT_THAT(StatusOf("db")["Claims"], SizeIs(1));
  start_in("boot-2");
  EXPECT_EQ(Mount("db", "id-1"), mountpoint) << "a container that is started again waits for that";
  EXPECT_TRUE(IsMounted(mountpoint));
  start_in("boot-2");
  parts_->attachments->WaitUntilRestored(Clock::now() + std::chrono::seconds(20));
  EXPECT_THAT(StatusOf("db")["Claims"], SizeIs(1));
  start_in("boot-3");
  parts_->attachments->WaitUntilRestored(Clock::now() + std::chrono::seconds(20));
  EXPECT_THAT(StatusOf("db")["Claims"], SizeIs(0));
  EXPECT_FALSE(IsMounted(mountpoint));
  EXPECT_EQ(plugin_->volumes().staged_count(), 0U);
  EXPECT_TRUE(IsMounted(Mount("db", "id-2"))) << "another container may have it";
}

TEST_F(DockerDriverTest, APluginThatFailsIsQuotedAndTheMountIsTakenBack) {
  Create("db");
  plugin_->Fail("NodePublishVolume", absl::InternalError("the disk is on fire"));
  KnowDirectoryOf("db");
  EXPECT_THAT(Error("Mount", {{"Name", "db"}, {"ID", "id-1"}}), HasSubstr("the disk is on fire"));
  EXPECT_THAT(StatusOf("db")["Claims"], SizeIs(0));
  EXPECT_TRUE(IsMounted(Mount("db", "id-1")));
}

}  // namespace
}  // namespace mooring::manager

// Plugins that die, hang and are replaced while volumes are mounted. Registry, loop and volume manager work together,
// with a plugin and a kernel in memory; system/plugin_trouble_test.cc uses real ones.
#include <gmock/gmock.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "manager/plugins/plugin_loop.h"
#include "manager/state/sqlite_state.h"
#include "manager/volumes/volume_manager.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/manager/plugins/watch_threads.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FakeCsiFeatures;
using ::mooring::testing::FakeCsiPlugin;
using ::mooring::testing::FakeCsiVolumes;
using ::mooring::testing::FakeKernel;
using ::mooring::testing::FakeMounter;
using ::mooring::testing::FakeSockets;
using ::mooring::testing::TempDir;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kVolumes = 50;

Clock::time_point Soon() { return Clock::now() + seconds(20); }

class PluginTroubleTest : public ::testing::Test {
 protected:
  PluginTroubleTest() {
    volumes_->MirrorInto(kernel_);
    state_ = OpenSqliteState(dir_ / "state").value();
    store_ = std::make_unique<RecordsStore>(*state_);
    journal_ = MountJournal::Open(*store_, "host-1").value();
    registry_ = Registry::Open(*state_, "host-1").value();
    const PluginLoop::Settings settings = {.resync = hours(1), .last_inspection = milliseconds(50)};
    loop_ = std::make_unique<PluginLoop>(
        *registry_, events_, sockets_.connector(), [] { return std::vector<PluginLoop::Expected>(); }, settings);
    watches_ = std::make_unique<testing::WatchThreads>(*registry_, *loop_, sockets_.connector());
    const RetryPolicy retry{.each = seconds(20), .first_pause = milliseconds(1), .longest_pause = milliseconds(5)};
    manager_ = std::make_unique<VolumeManager>(*loop_, kernel_, *journal_, events_,
                                               VolumeManager::Settings{.root = dir_ / "mounts", .retry = retry});
  }

  // All versions of the plugin share these volumes.
  std::shared_ptr<FakeCsiPlugin> Run(const std::string& name, const std::string& version) {
    FakeCsiFeatures features;
    features.version = version;
    features.attaches = false;
    auto plugin = std::make_shared<FakeCsiPlugin>(features, volumes_);
    InstanceInfo instance;
    instance.name = name;
    instance.instance_id = name + "-" + version;
    instance.socket_path = "/run/" + instance.instance_id + "/csi.sock";
    sockets_.Serve(instance.socket_path, plugin);
    EXPECT_OK(registry_->Register(instance));
    return plugin;
  }

  AttachmentRecord Mount(const std::string& plugin, const std::string& id) {
    volumes_->Add(id);
    AttachmentRecord record;
    record.allocation = "web-1";
    record.request = record.volume.id = id;
    record.plugin = plugin;
    record.mode = ClaimMode::kWrite;
    EXPECT_OK(manager_->Prepare(record, Soon()));
    EXPECT_OK(journal_->Put(record, Durability::kOrdered));
    EXPECT_OK(manager_->Mount(record, MountContext(), Soon()));
    return record;
  }
  void MountAll() {
    for (int i = 0; i < kVolumes; ++i) records_.push_back(Mount("p", "v" + std::to_string(i)));
    before_ = kernel_.Describe();
    ASSERT_EQ(volumes_->published_count(), static_cast<std::size_t>(kVolumes));
  }
  void UnmountAll() {
    for (const AttachmentRecord& record : records_) {
      EXPECT_OK(manager_->Unmount(record, Soon()));
      EXPECT_OK(journal_->Remove(record, Durability::kOrdered));
    }
    EXPECT_THAT(kernel_.With([](FakeKernel& kernel) { return kernel.mounts(); }), IsEmpty());
    EXPECT_EQ(volumes_->staged_count(), 0U);
  }
  void ExpectUntouched() {
    EXPECT_EQ(kernel_.Describe(), before_);
    for (const AttachmentRecord& record : records_) EXPECT_TRUE(manager_->HasMount(record, Soon()).value());
  }

  TempDir dir_;
  FakeMounter kernel_;
  std::shared_ptr<FakeCsiVolumes> volumes_ = std::make_shared<FakeCsiVolumes>();
  FakeSockets sockets_;
  std::unique_ptr<State> state_;
  std::unique_ptr<RecordsStore> store_;
  std::unique_ptr<MountJournal> journal_;
  Events events_;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<PluginLoop> loop_;
  std::unique_ptr<testing::WatchThreads> watches_;
  std::unique_ptr<VolumeManager> manager_;
  std::vector<AttachmentRecord> records_;
  std::string before_;
};

TEST_F(PluginTroubleTest, MountsSurviveTheDeathOfThePlugin) {
  const auto plugin = Run("p", "1");
  MountAll();
  plugin->Die();
  ExpectUntouched();
  plugin->Revive();
  UnmountAll();
}

TEST_F(PluginTroubleTest, MountsSurviveANewVersion) {
  const auto old_one = Run("p", "1");
  MountAll();
  old_one->ClearLog();
  const auto new_one = Run("p", "2");
  EXPECT_TRUE(new_one->WaitForCalls("NodeGetCapabilities", 1));
  while (loop_->WaitForNode("p", Soon())->instance.instance_id != "p-2") std::this_thread::yield();
  ExpectUntouched();
  UnmountAll();
  EXPECT_THAT(old_one->Calls(), IsEmpty());
  EXPECT_THAT(new_one->Calls("NodeUnpublishVolume"), SizeIs(kVolumes));
  EXPECT_THAT(new_one->Violations(), IsEmpty());
}

TEST_F(PluginTroubleTest, NewVersionGetsTheCallThatHangsAtTheOldOne) {
  const auto old_one = Run("p", "1");
  MountAll();
  old_one->Hang(FakeCsiPlugin::kAnyCall);
  auto hanging = std::async(std::launch::async, [&] { return manager_->Unmount(records_.back(), Soon()); });
  ASSERT_TRUE(old_one->WaitForCalls("NodeUnpublishVolume", 1));
  EXPECT_EQ(kernel_.Describe(), before_);
  const auto new_one = Run("p", "2");
  EXPECT_OK(hanging.get());
  EXPECT_OK(journal_->Remove(records_.back(), Durability::kOrdered));
  records_.pop_back();
  UnmountAll();
  EXPECT_THAT(new_one->Calls("NodeUnpublishVolume"), SizeIs(kVolumes));
}

TEST_F(PluginTroubleTest, HangingPluginDoesNotDelayOthers) {
  const auto hung = Run("hung", "1");
  Run("p", "1");
  const AttachmentRecord waiting = Mount("hung", "h");
  hung->Hang(FakeCsiPlugin::kAnyCall);
  auto hanging = std::async(std::launch::async, [&] { return manager_->Unmount(waiting, Soon()); });
  ASSERT_TRUE(hung->WaitForCalls("NodeUnpublishVolume", 1));
  const AttachmentRecord other = Mount("p", "v");
  EXPECT_OK(manager_->Unmount(other, Soon()));
  EXPECT_EQ(hanging.wait_for(seconds(0)), std::future_status::timeout);
  hung->Release();
  EXPECT_OK(hanging.get());
}

}  // namespace
}  // namespace mooring::manager

// A volume manager with a plugin and a kernel in memory.
#pragma once

#include "manager/state/sqlite_state.h"
#include "manager/volumes/volume_manager.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/fakes/fake_plugin_directory.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {

inline Clock::time_point VerySoon() { return Clock::now() + milliseconds(60); }

inline const MountContext kContext = {.volume_context = {{"share", "7"}},
                                      .publish_context = {{"device", "/dev/fake-vol-1"}},
                                      .secrets = Secrets(StringMap{{"password", "hunter2"}})};

class VolumeManagerFixture : public ::testing::Test {
 protected:
  using Phase = AttachmentRecord::Phase;

  static testing::FakeCsiFeatures Features() {
    testing::FakeCsiFeatures features;
    features.attaches = false;
    return features;
  }

  VolumeManagerFixture() {
    plugin_->volumes().MirrorInto(kernel_);
    plugin_->volumes().Add("vol-1");
    plugin_->volumes().Add("vol-2");
    plugins_.Add(plugin_);
    kernel_.With([&](testing::FakeKernel& kernel) {
      kernel.AddDirectory(root_);
      kernel.AddDirectory("/srv");
    });
    Start();
  }
  void Start() {  // also restarts: only the journal and the kernel keep their state
    journal_ = *AttachmentJournal::Open(store_, "host-1");
    VolumeManager::Settings settings;
    settings.root = root_;
    settings.boot = boot_;
    settings.retry.first_pause = milliseconds(1);
    manager_ = std::make_unique<VolumeManager>(plugins_, kernel_, *journal_, events_, settings);
  }

  AttachmentRecord Record(const std::string& allocation, const std::string& external_id = "vol-1") {
    AttachmentRecord record;
    record.allocation = allocation;
    record.request = "data";
    record.volume.id = external_id == "vol-1" ? "db" : "other";
    record.external_id = external_id;
    record.plugin = plugin_->features().name;
    return record;
  }
  // The calls of Attachments.
  absl::Status Mount(AttachmentRecord& record, Clock::time_point until = Soon()) {
    MOORING_RETURN_IF_ERROR(manager_->CheckAttachPath(record));
    MOORING_RETURN_IF_ERROR(manager_->Prepare(record, until));
    MOORING_RETURN_IF_ERROR(journal_->Put(record, Durability::kOrdered));
    MOORING_RETURN_IF_ERROR(manager_->Mount(record, kContext, until));
    record.phase = Phase::kMounted;
    return journal_->Put(record, Durability::kOrdered);
  }
  absl::Status Unmount(AttachmentRecord& record, Clock::time_point until = Soon()) {
    record.phase = Phase::kUnmounting;
    MOORING_RETURN_IF_ERROR(journal_->Put(record, Durability::kOrdered));
    MOORING_RETURN_IF_ERROR(manager_->Unmount(record, until));
    return journal_->Remove(record, Durability::kOrdered);
  }
  AttachmentRecord Mounted(const std::string& allocation, const std::string& attach_path = "") {
    AttachmentRecord record = Record(allocation);
    record.attach_path = attach_path;
    EXPECT_OK(Mount(record));
    return record;
  }
  // Removes only the record. The target stays, also on the disk, which the fake kernel does not use.
  void Forget(const AttachmentRecord& record) {
    ASSERT_OK(journal_->Remove(record, Durability::kOrdered));
    fs::create_directories(record.target_path);
  }
  std::size_t MountsAt(const std::string& path) {
    return kernel_.With([&](testing::FakeKernel& kernel) { return kernel.MountsAt(path).size(); });
  }

  TempDir directory_;
  const std::string root_ = directory_ / "root";
  std::string boot_ = "boot-1";
  std::unique_ptr<State> state_ = *OpenSqliteState(directory_ / "state.db");
  RecordsStore store_{*state_};
  Events events_;
  testing::FakeMounter kernel_;
  testing::FakePluginDirectory plugins_;
  std::shared_ptr<testing::FakeCsiPlugin> plugin_ = std::make_shared<testing::FakeCsiPlugin>(Features());
  std::unique_ptr<AttachmentJournal> journal_;
  std::unique_ptr<VolumeManager> manager_;
};

}  // namespace mooring::manager

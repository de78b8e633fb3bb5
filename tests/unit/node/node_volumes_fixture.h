// NodeVolumes over a FakeMounter, with real records in a temporary file.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include "base/file/path.h"
#include "plugin/model/volume_mount.h"
#include "plugin/node/node_volumes.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/fakes/fake_volume_source.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {

inline constexpr std::uint64_t kMebi = 1024 * 1024;

inline Capability MountCapability(AccessMode mode = AccessMode::kSingleNodeWriter, std::string fs_type = "") {
  Capability capability;
  capability.mode = mode;
  capability.fs_type = std::move(fs_type);
  return capability;
}

inline Capability BlockCapability(AccessMode mode = AccessMode::kSingleNodeWriter) {
  Capability capability;
  capability.access_type = AccessType::kBlock;
  capability.mode = mode;
  return capability;
}

inline Capability WithFlags(Capability capability, const std::vector<std::string>& flags) {
  capability.options = ParseMountFlags(capability.fs_type.empty() ? "ext4" : capability.fs_type, flags).value();
  return capability;
}

class NodeVolumesTest : public ::testing::Test {
 protected:
  static constexpr char kVolume[] = "vol-a";
  static constexpr char kUnknown[] = "vol-ffffffffffffffffffffffffffffffff";  // a volume that the catalog does not know

  NodeVolumesTest() {
    Restart();
    AddVolume(kVolume);
    mounter_.With([](FakeKernel& kernel) {
      kernel.AddDirectory("/staging/a");
      kernel.AddDirectory("/staging/b");
      kernel.AddDirectory("/pods");
      kernel.AddFile("/images/other", kMebi);
    });
  }

  // Another process with the same records, before its Reconcile.
  void Restart(const std::string& boot_id = "boot-1") {
    volumes_.reset();
    store_.reset();
    absl::StatusOr<std::unique_ptr<NodeStore>> opened = NodeStore::Open(dir_ / "node.db", boot_id);
    ASSERT_OK(opened);
    store_ = *std::move(opened);
    volumes_ = std::make_unique<NodeVolumes>(mounter_, source_, *store_, locks_, default_propagation_, staging_by_);
  }
  std::vector<VolumeUse> AllRecords() { return store_->All().value(); }
  // As if the process was killed before it recorded what it had done.
  void LoseOutcomes() {
    for (VolumeUse use : AllRecords()) {
      use.done = false;
      ASSERT_OK(store_->Put(use));
    }
  }
  void LoseRecords() {
    for (const VolumeUse& use : AllRecords()) ASSERT_OK(store_->Delete(use.path));
  }

  // Records of begun uses succeed from now on, and records of done ones fail, as on a disk that becomes full.
  void RefuseOutcomes() {
    SQLite::Database(dir_ / "node.db", SQLite::OPEN_READWRITE)
        .exec("CREATE TRIGGER full BEFORE INSERT ON uses WHEN NEW.done BEGIN SELECT RAISE(FAIL, 'full'); END");
  }

  static std::string Image(const std::string& id) { return "/images/" + id + ".img"; }
  void AddVolume(const std::string& id, const std::string& fs_type = "ext4", std::uint64_t bytes = 64 * kMebi) {
    mounter_.With([&](FakeKernel& kernel) { kernel.AddFile(Image(id), bytes); });
    source_.Put({.id = id, .path = Image(id), .bytes = bytes, .fs_type = fs_type});
  }
  void SetFilesystem(const std::string& id, FakeFilesystem filesystem) {
    mounter_.With([&](FakeKernel& kernel) { kernel.Node(Image(id)).filesystem = std::move(filesystem); });
  }
  void SetFormatted(const std::string& id, const std::string& type, std::uint64_t bytes = 64 * kMebi) {
    SetFilesystem(id, {FilesystemInfo::Content::kFilesystem, type, bytes, false, ""});
  }
  FakeFilesystem Filesystem(const std::string& id) {
    return mounter_.With([&](FakeKernel& kernel) { return kernel.Node(Image(id)).filesystem; });
  }
  void GrowImage(const std::string& id, std::uint64_t bytes) {  // what ControllerExpandVolume does
    mounter_.With([&](FakeKernel& kernel) { kernel.Node(Image(id)).bytes = bytes; });
    NodeVolume volume = source_.Find(id).value();
    volume.bytes = bytes;
    source_.Put(volume);
  }

  static StageSpec StageAt(const std::string& path, Capability capability = MountCapability(),
                           const std::string& id = kVolume) {
    return {.volume_id = id, .staging_path = path, .capability = std::move(capability), .read_only = false};
  }
  static PublishSpec PublishAt(const std::string& target, Capability capability = MountCapability(),
                               const std::string& staging = "/staging/a", const std::string& id = kVolume) {
    return {.volume_id = id,
            .staging_path = staging,
            .target_path = target,
            .capability = std::move(capability),
            .read_only = false};
  }

  template <typename Spec>
  static Spec ReadOnly(Spec spec) {
    spec.read_only = true;
    return spec;
  }

  absl::Status Stage(const StageSpec& spec) { return volumes_->Stage(spec, Call::WithLongestWait()); }
  absl::Status Unstage(const std::string& path, const std::string& id = kVolume) {
    return volumes_->Unstage(id, path, Call::WithLongestWait()).status();
  }
  absl::Status Publish(const PublishSpec& spec) { return volumes_->Publish(spec, Call::WithLongestWait()); }
  absl::Status Unpublish(const std::string& target, const std::string& id = kVolume) {
    return volumes_->Unpublish(id, target, Call::WithLongestWait()).status();
  }
  absl::StatusOr<std::uint64_t> Expand(const std::string& path, std::uint64_t required = 0, std::uint64_t limit = 0,
                                       const std::string& id = kVolume) {
    return volumes_->Expand({.volume_id = id, .volume_path = path, .range = {.required = required, .limit = limit}},
                            Call::WithLongestWait());
  }

  std::vector<FakeMount> MountsAt(const std::string& path) {
    return mounter_.With([&](FakeKernel& kernel) { return kernel.MountsAt(path); });
  }
  bool IsMounted(const std::string& path) { return !MountsAt(path).empty(); }
  std::size_t MountCount() {
    return mounter_.With([](FakeKernel& kernel) { return kernel.mounts().size(); });
  }
  MountFlags FlagsAt(const std::string& path) { return MountsAt(path).at(0).info.flags; }
  std::vector<LoopInfo> Loops() {
    return mounter_.With([](FakeKernel& kernel) { return kernel.Loops(); });
  }
  bool Exists(const std::string& path) {
    return mounter_.With([&](FakeKernel& kernel) { return kernel.Exists(path); });
  }

  std::vector<std::string> RecordedPaths() {
    std::vector<std::string> paths;
    for (const VolumeUse& use : AllRecords()) paths.push_back(use.path);
    return paths;
  }
  // Mounts, devices, paths and records, which a failed operation must not change.
  std::string World() {
    std::string text = mounter_.Describe();
    for (const VolumeUse& use : AllRecords()) {
      text += fmt::format("record {} {} {} {} {} [{}] [{}] {}\n", use.path, use.volume_id, static_cast<int>(use.role),
                          use.done, use.read_only, use.capability, use.options, use.device);
    }
    return text;
  }
  void ExpectNothingLeft() {
    EXPECT_EQ(MountCount(), 0U) << World();
    EXPECT_TRUE(Loops().empty()) << World();
    EXPECT_TRUE(RecordedPaths().empty()) << World();
  }

  TempDir dir_;
  FakeMounter mounter_;
  FakeVolumeSource source_;
  KeyedLocks locks_;
  Propagation default_propagation_ = Propagation::kInherit;  // counts from the next Restart
  StagingBy staging_by_ = StagingBy::kOrchestrator;          // and so does this
  std::unique_ptr<NodeStore> store_;
  std::unique_ptr<NodeVolumes> volumes_;
};

}  // namespace mooring::testing

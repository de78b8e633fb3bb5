// NodeVolumes with one encrypted volume, over a FakeMounter with mappings.
#pragma once

#include <optional>

#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {

inline constexpr char kRight[] = "the right one", kWrong[] = "a wrong one";
inline constexpr char kEncrypted[] = "vol-e", kCarrier[] = "/images/vol-e.img", kCarrierLoop[] = "/dev/loop0";

// FakeKernel has no mappings. A loop device stands for each: over the loop device of the image, and detached with its
// last user. Its number is high, because StageDevice asks the sysfs of this host whether it is mounted.
class EncryptingMounter final : public FakeMounter {
 public:
  std::optional<LoopInfo> Mapping() {
    return With([](FakeKernel& kernel) { return LoopWith(kernel, kMapping); });
  }
  void RemoveMapping() {  // as another program would
    With([](FakeKernel& kernel) { return kernel.DetachLoop(*LoopWith(kernel, kMapping)); }).IgnoreError();
  }
  void HideUsers() { hides_users_ = true; }  // as between the steps that open a volume

  absl::StatusOr<EncryptedState> OpenEncrypted(const OpenRequest& request) override {
    MOORING_ASSIGN_OR_RETURN(const EncryptedState state, FakeMounter::OpenEncrypted(request));
    MOORING_RETURN_IF_ERROR(With([&](FakeKernel& kernel) -> absl::Status {
      if (const std::optional<LoopInfo> there = LoopWith(kernel, kMapping)) return kernel.HoldLoop(*there);
      kernel.AddForeignLoop(request.volume.carrier, request.label, /*auto_clear=*/true);
      return kernel.AttachLoop({.backing_file = kCarrierLoop, .label = kMapping}).status();
    }));
    return state;
  }
  absl::Status CloseEncrypted(const std::string& id) override {
    MOORING_RETURN_IF_ERROR(FakeMounter::CloseEncrypted(id));
    return With([](FakeKernel& kernel) {
      const std::optional<LoopInfo> mapping = LoopWith(kernel, kMapping);
      return mapping ? kernel.DetachLoop(*mapping) : absl::OkStatus();
    });
  }
  // FakeKernel formats an image under another name and renames it.
  absl::Status Format(const FormatRequest& request) override {
    const auto inode = With([](FakeKernel& kernel) { return kernel.Node(kCarrier).inode; });
    const absl::Status formatted = FakeMounter::Format(request);
    With([&](FakeKernel& kernel) { kernel.Node(kCarrier).inode = inode; });
    return formatted;
  }
  // FakeKernel mounts through another loop device, as if the mapping were a file.
  absl::Status Mount(const MountRequest& request) override {
    MOORING_RETURN_IF_ERROR(FakeMounter::Mount(request));
    With([&](FakeKernel& kernel) {
      ListedMount mount = kernel.MountsAt(request.target).back().info;
      mount.device = kernel.Find(request.source)->device;
      kernel.DropMounts(request.target);
      kernel.AddMount(mount);
    });
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<LoopInfo>> FindLoops(const std::string& backing_file) override {
    MOORING_ASSIGN_OR_RETURN(std::vector<LoopInfo> loops, FakeMounter::FindLoops(backing_file));
    for (LoopInfo& loop : loops) {
      if (loop.device == kCarrierLoop) loop.mounted = !hides_users_;
    }
    return loops;
  }

 private:
  static constexpr char kMapping[] = "the mapping";
  static std::optional<LoopInfo> LoopWith(FakeKernel& kernel, const std::string& label) {
    for (const LoopInfo& loop : kernel.Loops()) {
      if (loop.label == label) return loop;
    }
    return std::nullopt;
  }
  bool hides_users_ = false;
};

// The catalog of an encrypted volume.
class EncryptedSource final : public VolumeSource {
 public:
  explicit EncryptedSource(EncryptingMounter& mounter) : mounter_(mounter) {}

  void GivePool(const std::string& passphrase) { of_pool_ = passphrase; }
  void CutShort() { bytes_ = 32 * kMebi; }
  void HideMapping() { hides_mapping_ = true; }

  absl::StatusOr<NodeVolume> Find(const std::string& id) override {
    if (id != kEncrypted) return NotFound("volume " + id + " does not exist");
    const std::optional<LoopInfo> mapping = hides_mapping_ ? std::nullopt : mounter_.Mapping();
    return NodeVolume{.id = id,
                      .kind = BackendKind::kLuks,
                      .path = mapping ? mapping->device : "/dev/mapper/mooring-vol-e",
                      .device = mapping ? mapping->device_number : 0,
                      .bytes = bytes_,
                      .made_bytes = 64 * kMebi,
                      .fs_type = "ext4",
                      .carrier = kCarrier};
  }
  absl::StatusOr<std::string> PassphraseOf(const std::string& /*id*/, const std::string& given) override {
    if (!given.empty()) return given;
    if (!of_pool_.empty()) return of_pool_;
    return absl::UnauthenticatedError("there is no passphrase");
  }
  std::vector<KnownDevice> KnownDevices() override {
    const std::optional<LoopInfo> mapping = mounter_.Mapping();
    if (!mapping) return {};
    return {{.volume_id = kEncrypted, .number = mapping->device_number, .node = mapping->device, .is_mapping = true}};
  }

 private:
  EncryptingMounter& mounter_;
  std::string of_pool_;
  std::uint64_t bytes_ = 64 * kMebi;
  bool hides_mapping_ = false;
};

class EncryptedVolumesTest : public ::testing::Test {
 protected:
  EncryptedVolumesTest() {
    Restart();
    mounter_.With([](FakeKernel& kernel) {
      for (const char* path : {"/staging/a", "/staging/b", "/pods"}) kernel.AddDirectory(path);
      kernel.AddFile(kCarrier, 64 * kMebi);
      kernel.encrypted[kEncrypted].passphrase = kRight;
    });
  }

  void Restart() {  // another process with the same records
    volumes_.reset();
    store_.reset();
    store_ = NodeStore::Open(dir_ / "node.db", "boot").value();
    volumes_ = std::make_unique<NodeVolumes>(mounter_, source_, *store_, locks_);
  }
  std::vector<VolumeUse> Records() { return store_->All().value(); }
  void LoseRecords() {
    for (const VolumeUse& use : Records()) ASSERT_OK(store_->Delete(use.path));
  }

  static Capability Raw() { return BlockCapability(AccessMode::kMultiNodeMultiWriter); }
  absl::Status Stage(const std::string& path, const Capability& capability, const std::string& passphrase = kRight) {
    return volumes_->Stage(
        {.volume_id = kEncrypted, .staging_path = path, .capability = capability, .passphrase = passphrase},
        Call::WithLongestWait());
  }
  absl::Status StageRaw(const std::string& path = "/staging/a") { return Stage(path, Raw()); }
  absl::Status StageMount(const std::string& path = "/staging/a") { return Stage(path, MountCapability()); }
  PublishSpec Target(const std::string& path, const Capability& capability, bool read_only = false) {
    return {.volume_id = kEncrypted,
            .staging_path = "/staging/a",
            .target_path = path,
            .capability = capability,
            .read_only = read_only};
  }
  absl::Status Publish(const PublishSpec& spec) { return volumes_->Publish(spec, Call::WithLongestWait()); }
  absl::Status PublishRaw(const std::string& path, bool read_only = false) {
    return Publish(Target(path, Raw(), read_only));
  }
  absl::Status Unstage(const std::string& path = "/staging/a") {
    return volumes_->Unstage(kEncrypted, path, Call::WithLongestWait()).status();
  }
  absl::Status Unpublish(const std::string& path) {
    return volumes_->Unpublish(kEncrypted, path, Call::WithLongestWait()).status();
  }
  absl::Status OpenOnly() {  // and the process is killed before it mounts or records anything
    return mounter_
        .OpenEncrypted(
            {.volume = {.carrier = kCarrier, .id = kEncrypted}, .passphrase = kRight, .label = LabelFor(kEncrypted)})
        .status();
  }

  bool IsOpen() { return mounter_.Mapping().has_value(); }
  std::size_t MountCount() {
    return mounter_.With([](FakeKernel& kernel) { return kernel.mounts().size(); });
  }
  std::string World() {
    std::string text = mounter_.Describe();
    for (const VolumeUse& use : Records()) text += fmt::format("record {} {}\n", use.path, use.done);
    return text;
  }
  void ExpectNothingIsLeft() {
    EXPECT_EQ(MountCount(), 0U) << World();
    EXPECT_THAT(mounter_.With([](FakeKernel& kernel) { return kernel.Loops(); }), IsEmpty()) << World();
    EXPECT_THAT(Records(), IsEmpty()) << World();
  }
  // Since the last ClearLog, in order.
  std::vector<std::string> Changes() {
    std::vector<std::string> calls = mounter_.Calls();
    std::erase_if(calls, [](const std::string& call) {
      for (const char* looks : {"Find ", "FindLoops", "List ", "Probe ", "Stats ", "IsInUse "}) {
        if (call.starts_with(looks)) return true;
      }
      return false;
    });
    return calls;
  }
  std::string Device() { return mounter_.Mapping()->device; }

  TempDir dir_;
  EncryptingMounter mounter_;
  EncryptedSource source_{mounter_};
  KeyedLocks locks_;
  std::unique_ptr<NodeStore> store_;
  std::unique_ptr<NodeVolumes> volumes_;
};

}  // namespace mooring::testing

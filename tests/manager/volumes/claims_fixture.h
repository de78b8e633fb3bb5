// Claims and Volumes over a state and a plugin in memory. Restart makes them anew over the same state.
#pragma once

#include "base/keyed_lock.h"
#include "manager/claims/claims.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"
#include "manager/volumes/volumes.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/fakes/fake_plugin_directory.h"
#include "tests/fakes/memory_state.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {

// Records expansions of the node.
class FakeNode final : public VolumeMounter {
 public:
  absl::Status CheckAttachPath(AttachmentRecord&) override { return absl::OkStatus(); }
  absl::Status Prepare(AttachmentRecord&, Clock::time_point) override { return absl::OkStatus(); }
  absl::Status Mount(AttachmentRecord&, const MountContext&, Clock::time_point) override { return absl::OkStatus(); }
  absl::Status Unmount(const AttachmentRecord&, Clock::time_point) override { return absl::OkStatus(); }
  bool IsAttached(const AttachmentRecord&) override { return false; }
  bool IsMountedAnywhere(const AttachmentRecord&) override { return false; }
  absl::StatusOr<bool> HasMount(const AttachmentRecord&, Clock::time_point) override { return false; }
  absl::StatusOr<std::vector<std::string>> FindUnknownMounts(const Volume&) override {
    return std::vector<std::string>();
  }
  absl::StatusOr<bool> Expand(const VolumeKey& volume, std::uint64_t bytes, const Secrets&,
                              Clock::time_point) override {
    expanded.emplace_back(volume.id, bytes);
    MOORING_RETURN_IF_ERROR(outcome);
    return mounted;
  }
  absl::StatusOr<bool> ExpandMounted(const AttachmentRecord&, std::uint64_t, const Secrets&,
                                     Clock::time_point) override {
    return mounted;
  }

  void RemoveDirectories(const Volume& volume) override { removed.push_back(volume.key.id); }

  std::vector<std::string> removed;
  std::vector<std::pair<std::string, std::uint64_t>> expanded;
  absl::Status outcome;
  bool mounted = true;
};

class ClaimsFixture : public ::testing::Test {
 protected:
  using State = Claim::State;

  static constexpr Capability kWriter = {AccessMode::kSingleNodeWriter, AttachmentMode::kFileSystem};
  static constexpr Capability kWriters = {AccessMode::kMultiNodeMultiWriter, AttachmentMode::kFileSystem};

  ClaimsFixture() {
    directory_.Add(plugin_);
    Restart();
  }

  // A deadline that allows one or two tries.
  static Clock::time_point AtOnce() { return Clock::now() + milliseconds(30); }

  void Restart() {
    claims_.reset();
    volumes_.reset();
    Claims::Settings settings;
    settings.retry = retry_;
    settings.first_retry = hours(1);  // no test waits for it
    settings.is_mounted = [this](const Claim&) { return is_mounted_; };
    settings.now = [this] { return now_; };
    claims_ = std::make_unique<Claims>(store_, directory_, hosts_, locks_, events_, queue_, settings);
    snapshots_ = std::make_unique<Snapshots>(store_, directory_, hosts_, locks_, events_, queue_, retry_);
    volumes_ =
        std::make_unique<Volumes>(store_, directory_, hosts_, node_, *snapshots_, locks_, events_, queue_, retry_);
  }

  // Each claim that needs work in the background is tried once.
  void Resume(Claims& claims) {
    EXPECT_OK(claims.Resume());
    EXPECT_TRUE(claims.WaitUntilTried(Soon()));
  }
  void Resume() { Resume(*claims_); }
  void ResumeVolumes() {
    EXPECT_OK(volumes_->Resume("here"));
    EXPECT_TRUE(volumes_->WaitUntilTried(Soon()));
  }

  static Secrets Password(const std::string& password) { return Secrets(StringMap{{"password", password}}); }

  // Adds a volume to the plugin and, as registered, to the state.
  Volume AddVolume(const std::string& id, const std::string& plugin = "fake.csi") {
    plugin_->volumes().Add("ext-" + id);
    Volume volume;
    volume.key.id = id;
    volume.plugin = plugin;
    volume.external_id = "ext-" + id;
    volume.capabilities = {kWriter, kWriters};
    volume.secrets = Password("hunter2");
    EXPECT_OK(store_.Commit(Changes().Put(volume)));
    return Stored(id);
  }

  Volume Stored(const std::string& id) {
    auto volume = store_.GetVolume({"default", id});
    EXPECT_OK(volume);
    return volume.ok() ? *std::move(volume) : Volume();
  }

  static ClaimRequest Request(const std::string& allocation, const Capability& capability = kWriters,
                              ClaimMode mode = ClaimMode::kWrite) {
    ClaimRequest request;
    request.volume.id = "db";
    request.allocation = allocation;
    request.mode = mode;
    request.capability = capability;
    return request;
  }

  absl::StatusOr<ClaimAnswer> Take(const ClaimRequest& request) { return claims_->Take(request, Soon()); }
  absl::Status Release(const std::string& allocation, const absl::Status& node = absl::OkStatus()) {
    return claims_->Release({"default", "db"}, ClaimMode::kWrite, allocation, node, Soon());
  }

  std::vector<Claim> AllClaims() {
    const auto claims = store_.ListClaims();
    EXPECT_OK(claims);
    return claims.value_or(std::vector<Claim>());
  }
  void WithoutController() {
    auto features = plugin_->features();
    features.controller = false;
    features.attaches = false;
    plugin_->SetFeatures(features);
  }

  // The only claim.
  Claim TheClaim() {
    const auto claims = AllClaims();
    EXPECT_EQ(claims.size(), 1U);
    return claims.size() == 1 ? claims[0] : Claim();
  }

  std::set<std::string> AttachedTo(const std::string& external_id = "ext-db") {
    const auto volume = plugin_->volumes().Find(external_id);
    return volume ? volume->attached : std::set<std::string>();
  }

  // The texts of all events.
  std::string Told() {
    std::string told;
    const auto events = events_.Next(1, Clock::now());
    if (!events.ok()) return told;
    for (const Event& event : *events) told += event.text + "\n";
    return told;
  }

  std::shared_ptr<testing::FakeCsiPlugin> plugin_ = std::make_shared<testing::FakeCsiPlugin>();
  testing::FakePluginDirectory directory_;
  testing::MemoryState state_;
  std::stop_source stop_;
  SingleHost hosts_{"here"};
  RetryPolicy retry_ = {.first_pause = milliseconds(1), .longest_pause = milliseconds(5), .stop = stop_.get_token()};
  RecordsStore store_{state_};
  KeyedLocks locks_;
  Events events_;
  FakeNode node_;
  Time now_ = std::chrono::system_clock::now();
  bool is_mounted_ = false;
  WorkQueue queue_;
  std::unique_ptr<Claims> claims_;
  std::unique_ptr<Snapshots> snapshots_;
  std::unique_ptr<Volumes> volumes_;
};

}  // namespace mooring::manager

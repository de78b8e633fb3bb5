// A host with 1,000 volumes and three users of each is restored within 2 s of the start of the manager.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "manager/attach/attachments.h"
#include "manager/state/sqlite_state.h"
#include "tests/manager/state/sample_records.h"
#include "tests/support/sanitized.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::TempDir;
using ::testing::SizeIs;

constexpr char kHost[] = "host-1";
constexpr int kVolumes = 1000, kUsers = 3;

constexpr std::chrono::seconds kBound(mooring::testing::kSanitized ? 30 : 2);

// All mounts still exist.
class MountedAll final : public VolumeMounter {
 public:
  absl::Status CheckAttachPath(AttachmentRecord& /*record*/) override { return Count(others); }
  absl::Status Prepare(AttachmentRecord& /*record*/, Clock::time_point /*until*/) override { return Count(others); }
  absl::Status Mount(AttachmentRecord& /*record*/, const MountContext& /*context*/,
                     Clock::time_point /*until*/) override {
    return Count(others);
  }
  absl::Status Unmount(const AttachmentRecord& /*record*/, Clock::time_point /*until*/) override {
    return Count(others);
  }
  absl::StatusOr<bool> HasMount(const AttachmentRecord& /*record*/, Clock::time_point /*until*/) override {
    ++looks;
    return true;
  }
  void RemoveDirectories(const Volume& /*volume*/) override { ++others; }
  absl::StatusOr<bool> Expand(const VolumeKey& /*volume*/, std::uint64_t /*bytes*/, const Secrets& /*secrets*/,
                              Clock::time_point /*until*/) override {
    ++others;
    return false;
  }
  absl::StatusOr<bool> ExpandMounted(const AttachmentRecord& /*record*/, std::uint64_t /*bytes*/,
                                     const Secrets& /*secrets*/, Clock::time_point /*until*/) override {
    ++others;
    return false;
  }

  std::atomic<int> looks = 0, others = 0;

 private:
  static absl::Status Count(std::atomic<int>& calls) {
    ++calls;
    return absl::OkStatus();
  }
};

class NoClaims final : public ClaimBroker {
 public:
  absl::StatusOr<ClaimAnswer> Claim(const ClaimRequest& /*request*/, Clock::time_point /*until*/) override {
    ++calls;
    return ClaimAnswer();
  }
  bool IsRollbackOwed(const VolumeKey& /*volume*/, ClaimMode /*mode*/, const std::string& /*allocation*/) override {
    return false;
  }
  absl::Status Release(const VolumeKey& /*volume*/, ClaimMode /*mode*/, const std::string& /*allocation*/,
                       const absl::Status& /*node_outcome*/, Clock::time_point /*until*/) override {
    ++calls;
    return absl::OkStatus();
  }
  absl::Status ReleaseKept(const VolumeKey& /*volume*/, ClaimMode /*mode*/, const std::string& /*allocation*/,
                           Clock::time_point /*until*/) override {
    ++calls;
    return absl::OkStatus();
  }

  void MarkExhausted(const VolumeKey& /*volume*/, const std::string& /*words*/) override { ++calls; }
  void NodeExpanded(const VolumeKey& /*volume*/, std::uint64_t /*bytes*/) override { ++calls; }

  std::atomic<int> calls = 0;
};

void Fill(State& state) {
  RecordsStore store(state);
  Changes shared, of_host;
  for (int volume = 0; volume < kVolumes; ++volume) {
    const std::string id = "volume-" + std::to_string(volume);
    shared.Put(testing::SampleVolume(id));
    for (int user = 0; user < kUsers; ++user) {
      const std::string allocation = id + "-user-" + std::to_string(user);
      shared.Put(testing::SampleClaim(id, allocation));
      AttachmentRecord mount = testing::SampleMount(id, allocation);
      mount.phase = AttachmentRecord::Phase::kMounted;
      mount.attach_path = "/srv/" + allocation;
      of_host.Put(kHost, mount);
    }
  }
  ASSERT_OK(store.Commit(shared));
  ASSERT_OK(store.Commit(of_host));
}

TEST(RestoreTimeTest, RestoresThousandVolumesInTwoSeconds) {
  const TempDir directory;
  const std::string path = directory / "state.db";
  ASSERT_NO_FATAL_FAILURE(Fill(**OpenSqliteState(path)));
  const auto begin = std::chrono::steady_clock::now();
  const std::unique_ptr<State> state = *OpenSqliteState(path);
  RecordsStore store(*state);
  EXPECT_THAT(*store.ListVolumes(), SizeIs(kVolumes));
  EXPECT_THAT(*store.ListClaims(), SizeIs(kVolumes * kUsers));
  const auto journal = *MountJournal::Open(store, kHost);
  Events events;
  NoClaims claims;
  MountedAll volumes;
  Attachments attachments(*journal, claims, volumes, events, {.host = kHost});
  attachments.Restore();
  attachments.WaitUntilRestored(begin + std::chrono::seconds(30));
  const auto time = std::chrono::steady_clock::now() - begin;
  RecordProperty("restore_ms", static_cast<int>(time / std::chrono::milliseconds(1)));
  EXPECT_LT(time, kBound);
  EXPECT_EQ(attachments.restoring(), 0);
  EXPECT_EQ(volumes.looks, kVolumes * kUsers) << "each is looked at once";
  EXPECT_EQ(volumes.others + claims.calls, 0) << "and left as it is";
}

}  // namespace
}  // namespace mooring::manager

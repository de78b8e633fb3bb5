// A host with 1,000 volumes and three users of each is restored within 2 s of the start of the manager.
#include "manager/attach/attachments.h"
#include "manager/state/sqlite_state.h"
#include "tests/fakes/counting_brokers.h"
#include "tests/manager/prelude.h"
#include "tests/manager/state/sample_records.h"
#include "tests/support/sanitized.h"

namespace mooring::manager {
namespace {

constexpr char kHost[] = "host-1";
constexpr int kVolumes = 1000, kUsers = 3;

constexpr seconds kBound(mooring::testing::kSanitized ? 30 : 2);

void Fill(State& state) {
  RecordsStore store(state);
  Changes shared, of_host;
  for (int volume = 0; volume < kVolumes; ++volume) {
    const std::string id = "volume-" + std::to_string(volume);
    shared.Put(samples::SampleVolume(id));
    for (int user = 0; user < kUsers; ++user) {
      const std::string allocation = id + "-user-" + std::to_string(user);
      shared.Put(samples::SampleClaim(id, allocation));
      AttachmentRecord mount = samples::SampleMount(id, allocation);
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
  const auto journal = *AttachmentJournal::Open(store, kHost);
  Events events;
  mooring::testing::CallLog calls;
  mooring::testing::CountingClaims claims(calls, "p");
  mooring::testing::CountingMounter mounter(calls);
  for (const AttachmentRecord& mount : journal->All()) mounter.SetMounted(mount.allocation, mount.request);
  WorkQueue queue;
  Attachments attachments(*journal, claims, mounter, events, queue, {.host = kHost});
  attachments.Restore();
  attachments.WaitUntilRestored(begin + seconds(30));
  const auto time = std::chrono::steady_clock::now() - begin;
  RecordProperty("restore_ms", static_cast<int>(time / milliseconds(1)));
  EXPECT_LT(time, kBound);
  EXPECT_EQ(attachments.restoring(), 0);
  EXPECT_EQ(calls.Count("hasmount"), kVolumes * kUsers) << "each is looked at once";
  EXPECT_THAT(calls.calls(), SizeIs(kVolumes * kUsers)) << "and left as it is";
}

}  // namespace
}  // namespace mooring::manager

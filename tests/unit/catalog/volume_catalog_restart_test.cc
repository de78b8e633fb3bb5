// The catalog after killed processes, and with several processes at a time.
#include <SQLiteCpp/SQLiteCpp.h>

#include <mutex>
#include <random>

#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::testing {
namespace {

class CatalogRestartTest : public VolumeCatalogTest {};

// Restarts

TEST_F(CatalogRestartTest, ReconcilingNeverDeletesAnImageWithoutARecord) {
  const std::string id = Created("db");
  const std::string stranger = NewVolumeId();
  std::ofstream(Image(stranger)) << "somebody's data";
  EXPECT_OK(catalog().Reconcile());
  EXPECT_TRUE(std::filesystem::exists(Image(stranger)));
  EXPECT_OK(catalog().Find(id));
}

TEST_F(CatalogRestartTest, ReconcilingBringsAHalfDeletedVolumeInUseBack) {
  const std::string id = Created("db");
  ASSERT_TRUE(*here().store->Move(id, VolumeState::kReady, VolumeState::kDeleting));
  loops_.Attach(Image(id));
  EXPECT_OK(catalog().Reconcile());
  EXPECT_OK(catalog().Find(id));
}

TEST_F(CatalogRestartTest, ReconcilingSkipsVolumesThatAnotherProcessWorksOn) {
  const std::string id = Created("db");
  for (const VolumeState state : {VolumeState::kCreating, VolumeState::kDeleting}) {
    const std::string key = state == VolumeState::kCreating ? "name:db" : id;
    ASSERT_TRUE(*here().store->Move(id, VolumeState::kReady, state));
    {
      const auto other = *KeyedLocks::Shared(directory_ + "/lock");
      const auto working = other->Acquire(key, "volume", Soon().wait_until);
      ASSERT_OK(working);
      EXPECT_OK(catalog().Reconcile());
      EXPECT_EQ((*here().store->FindById(id))->state, state);
    }
    ASSERT_TRUE(*here().store->Move(id, state, VolumeState::kReady));
  }
}

// A restored backup may have no quotas.
TEST_F(CatalogRestartTest, ReconcilingHoldsReadyVolumesToTheirRecordedSizes) {
  const std::string id = Created("db"), half = Created("half");
  ASSERT_TRUE(*here().store->Move(half, VolumeState::kReady, VolumeState::kDeleting));
  EXPECT_OK(catalog().Reconcile());
  EXPECT_THAT(here().backend.held, Contains(std::pair(id, (*here().store->FindById(id))->bytes)));
}

class KilledCatalogTest : public KilledProcessTest {};

TEST_F(KilledCatalogTest, ARetryKeepsAnInterruptedCreationThatHoldsData) {
  Kill("after", "create", [](Process& doomed) { (void)doomed.catalog.Create(Spec("db"), Patient()); });
  const std::string half = (*here().store->FindByName("db"))->id;
  std::filesystem::resize_file(Image(half), 32 * kMiB);
  std::fstream(Image(half), std::ios::in | std::ios::out) << "data";
  const absl::StatusOr<VolumeInfo> volume = catalog().Create(Spec("db"), Patient());
  ASSERT_OK(volume);
  EXPECT_EQ(volume->id, half);
  EXPECT_EQ(volume->bytes, 32 * kMiB);
  EXPECT_EQ(ReadAll(Image(half)).substr(0, 4), "data");
  ExpectConsistent();
}

TEST_F(KilledCatalogTest, ARetryForAnotherSizeReplacesAnInterruptedCreation) {
  Kill("after", "create", [](Process& doomed) { (void)doomed.catalog.Create(Spec("db"), Patient()); });
  const absl::StatusOr<VolumeInfo> volume =
      catalog().Create(Spec("db", {.required = 64 * kMiB, .limit = 0}), Patient());
  ASSERT_OK(volume);
  EXPECT_EQ(catalog().Find(volume->id)->bytes, 64 * kMiB);
  ExpectConsistent();
}

// Several at a time

TEST_F(CatalogRestartTest, ManyCallsForOneNameInTwoProcessesMakeOneVolume) {
  Process other(directory_, loops_);
  here();
  std::mutex mutex;
  std::set<std::string> ids;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto volume = (i % 2 == 0 ? here() : other).catalog.Create(Spec("db"), Patient());
      ASSERT_OK(volume);
      const std::lock_guard<std::mutex> lock(mutex);
      ids.insert(volume->id);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ids.size(), 1u);
  ExpectConsistent();
}

TEST_F(CatalogRestartTest, ACreationThatAnotherProcessFinishedFirstIsFinished) {
  Process other(directory_, loops_);
  here().backend.after = [&](const std::string&) {
    const VolumeRecord half = **other.store->FindByName("db");
    EXPECT_TRUE(*other.store->Move(half.id, VolumeState::kCreating, VolumeState::kReady));
    return absl::OkStatus();
  };
  EXPECT_OK(catalog().Create(Spec("db"), Patient()));
  ExpectConsistent();
}

TEST_F(CatalogRestartTest, ACreationThatAnotherProcessGaveUpLeavesNoImage) {
  Process other(directory_, loops_);
  here().backend.after = [&](const std::string& what) {
    if (what != "create") return absl::OkStatus();
    return other.store->Delete((*other.store->FindByName("db"))->id);
  };
  EXPECT_TRUE(absl::IsAborted(catalog().Create(Spec("db"), Patient()).status()));
  ExpectConsistent();
  here().backend.after = nullptr;
  EXPECT_OK(catalog().Create(Spec("db"), Patient()));
}

TEST_F(CatalogRestartTest, ADeletionInAnotherProcessIsNotUndone) {
  const std::string id = Created("db");
  Process other(directory_, loops_);
  Gate gate;
  other.backend.before = [&](const std::string&) {
    gate.Pass();
    return absl::OkStatus();
  };
  std::thread thread([&] { EXPECT_OK(other.catalog.Delete(id, Patient())); });
  EXPECT_TRUE(gate.WaitUntilReached());
  EXPECT_TRUE(absl::IsAborted(catalog().Delete(id, Soon())));
  EXPECT_TRUE(absl::IsNotFound(catalog().Find(id).status()));
  gate.Open();
  thread.join();
  ExpectConsistent();
}

TEST_F(CatalogRestartTest, AnyOrderOfCallsInTwoProcessesEndsConsistent) {
  constexpr int kRounds = 40;
  Process other(directory_, loops_);
  here();
  const auto allowed = [](const absl::Status& status) {
    return status.ok() || absl::IsAborted(status) || absl::IsNotFound(status) || absl::IsAlreadyExists(status);
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      VolumeCatalog& catalog = (seed % 2 == 0 ? here() : other).catalog;
      std::mt19937 random(seed);
      for (int round = 0; round < kRounds; ++round) {
        const SizeRange range = {.required = (16 + random() % 2 * 16) * kMiB, .limit = 0};
        const auto volume = catalog.Create(Spec("v" + std::to_string(random() % 3), range), Patient());
        ASSERT_TRUE(allowed(volume.status())) << volume.status();
        if (!volume.ok()) continue;
        const absl::Status published = catalog.Publish(PublishTo(volume->id), Patient());
        EXPECT_TRUE(allowed(published)) << published;
        const absl::Status unpublished = catalog.Unpublish({.volume_id = volume->id, .node_id = ""}, Patient());
        EXPECT_TRUE(allowed(unpublished)) << unpublished;
        const absl::Status deleted = catalog.Delete(volume->id, Patient());
        EXPECT_TRUE(allowed(deleted) || absl::IsFailedPrecondition(deleted)) << deleted;  // another one published it
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_OK(catalog().Reconcile());
  ExpectConsistent();
}

TEST_F(CatalogRestartTest, ASlowVolumeDoesNotDelayAnother) {
  Gate gate;
  const std::string id = Created("quick");
  here().backend.before = [&](const std::string& what) {
    if (what == "create") gate.Pass();
    return absl::OkStatus();
  };
  std::thread slow([&] { EXPECT_OK(catalog().Create(Spec("slow"), Patient())); });
  EXPECT_TRUE(gate.WaitUntilReached());
  EXPECT_OK(catalog().Publish(PublishTo(id), Soon()));
  EXPECT_OK(catalog().Find(id));
  EXPECT_OK(catalog().Unpublish({.volume_id = id, .node_id = "n1"}, Soon()));
  EXPECT_OK(catalog().Delete(id, Soon()));
  gate.Open();
  slow.join();
}

TEST_F(CatalogRestartTest, AStartSucceedsIfTheNewSizeCannotBeRecorded) {
  const std::string id = Created("db");
  std::filesystem::resize_file(Image(id), 32 * kMiB);
  SQLite::Database other(directory_ + "/catalog.db", SQLite::OPEN_READWRITE);
  other.exec("CREATE TRIGGER full BEFORE UPDATE ON volumes BEGIN SELECT RAISE(ABORT, 'no room'); END");
  EXPECT_OK(catalog().Reconcile());
  other.exec("DROP TRIGGER full");
  EXPECT_OK(catalog().Reconcile());
  EXPECT_EQ(catalog().Get(id)->bytes, 32 * kMiB);
}

}  // namespace
}  // namespace mooring::testing

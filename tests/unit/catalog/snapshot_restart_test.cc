// Snapshots and copies of killed processes.
#include <fcntl.h>

#include "base/file/unique_fd.h"
#include "tests/support/hold_image.h"
#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::testing {
namespace {

constexpr std::chrono::milliseconds kShortly{200};

class SnapshotRestartTest : public KilledProcessTest {
 protected:
  std::vector<SnapshotRecord> Snapshots() { return here().snapshots.List({})->snapshots; }
};

TEST_F(SnapshotRestartTest, ARetryInAnotherProcessBeginsAnewUnlessTheCopyIsWhole) {
  const std::string volume = CreatedBefore("db");
  for (const std::string when : {"before", "after"}) {
    Kill(when, "copy", [&](Process& doomed) {
      (void)doomed.snapshots.Create({.name = when, .source_volume_id = volume}, Patient());
    });
    const std::string half = (*here().snapshot_store->FindByName(when))->id;
    EXPECT_EQ(Snapped(when, volume) == half, when == "after");
    EXPECT_THAT(here().contents.thawed(), ElementsAre(Image(volume)));
    ExpectConsistent();
    process_.reset();
  }
}

TEST_F(SnapshotRestartTest, ARetryForAnotherVolumeRollsTheUnfinishedOneBack) {
  const std::string volume = Created("db"), other = CreatedBefore("other");
  Kill("before", "copy",
       [&](Process& doomed) { (void)doomed.snapshots.Create({.name = "s", .source_volume_id = volume}, Patient()); });
  EXPECT_FALSE(Snapped("s", other).empty());
  ExpectConsistent();
}

TEST_F(SnapshotRestartTest, AGroupThatMissesAnImageIsRolledBack) {
  const std::string a = Created("a"), b = CreatedBefore("b");
  Kill("after", "copy", [&](Process& doomed) {
    (void)doomed.snapshots.CreateGroup({.name = "g", .source_volume_ids = {a, b}}, Patient());
  });
  std::filesystem::remove(Image(here().snapshot_store->AllIds()->front()));
  RestartAndReconcile();
  EXPECT_THAT(*here().snapshot_store->AllIds(), IsEmpty());
}

TEST_F(SnapshotRestartTest, AGroupWithAnUnreadableImageStaysAsItIs) {
  const std::string a = Created("a"), b = CreatedBefore("b");
  Kill("after", "copy", [&](Process& doomed) {
    (void)doomed.snapshots.CreateGroup({.name = "g", .source_volume_ids = {a, b}}, Patient());
  });
  const std::vector<std::string> ids = *here().snapshot_store->AllIds();
  std::filesystem::rename(Image(ids.front()), directory_ + "/away");
  std::filesystem::create_directory(Image(ids.front()));  // neither an image nor missing
  EXPECT_OK(here().snapshots.Reconcile());
  EXPECT_EQ(*here().snapshot_store->AllIds(), ids);
  EXPECT_TRUE(std::filesystem::exists(Image(ids.back())));
  std::filesystem::remove(Image(ids.front()));
  std::filesystem::rename(directory_ + "/away", Image(ids.front()));
  RestartAndReconcile();
  EXPECT_THAT(Snapshots(), SizeIs(2));
  ExpectConsistent();
}

TEST_F(SnapshotRestartTest, AnUnfinishedDeletionOfAGroupThatMissesAnImageIsFinished) {
  const std::string a = Created("a"), b = Created("b");
  const auto group = here().snapshots.CreateGroup({.name = "g", .source_volume_ids = {a, b}}, Patient());
  ASSERT_OK(group);
  process_.reset();
  Kill("after", "delete",
       [&](Process& doomed) { (void)doomed.snapshots.DeleteGroup({.id = group->id, .snapshot_ids = {}}, Patient()); });
  RestartAndReconcile();
  EXPECT_THAT(*here().snapshot_store->AllIds(), IsEmpty());
}

TEST_F(SnapshotRestartTest, SkipsSnapshotsThatAnotherProcessWorksOn) {
  const std::string volume = Created("db"), id = Snapped("s", volume);
  ASSERT_TRUE(*here().snapshot_store->Move(id, SnapshotState::kReady, SnapshotState::kCreating));
  for (const std::string& key : {std::string("snapshot name:s"), volume, id}) {
    const auto other = *KeyedLocks::Shared(directory_ + "/lock");
    const auto working = other->Acquire(key, "snapshot", Soon().wait_until);
    ASSERT_OK(working);
    EXPECT_OK(here().snapshots.Reconcile(kShortly));
    EXPECT_EQ((*here().snapshot_store->FindById(id))->state, SnapshotState::kCreating) << key;
    EXPECT_THAT(here().contents.thawed(), IsEmpty());
  }
  EXPECT_OK(here().snapshots.Reconcile());
  ExpectConsistent();
}

TEST_F(SnapshotRestartTest, AHalfDeletedSnapshotInUseBecomesReadyAgain) {
  const std::string id = Snapped("s", Created("db"));
  ASSERT_TRUE(*here().snapshot_store->Move(id, SnapshotState::kReady, SnapshotState::kDeleting));
  loops_.Attach(Image(id));
  EXPECT_OK(here().snapshots.Reconcile());
  EXPECT_OK(here().snapshots.Get(id));
}

// The mount helper of a killed plugin continues its copy, and holds the lock of the file.
TEST_F(SnapshotRestartTest, WaitsForACopyThatAMountHelperStillMakes) {
  const std::string volume = CreatedBefore("db");
  Kill("before", "copy",
       [&](Process& doomed) { (void)doomed.snapshots.Create({.name = "s", .source_volume_id = volume}, Patient()); });
  const std::string half = (*here().snapshot_store->FindByName("s"))->id;
  const std::string working = Image(half) + ".copying-0123abcd";
  std::ofstream(working).flush();
  auto helper = std::make_unique<UniqueFd>(HoldImage(working));
  EXPECT_OK(here().snapshots.Reconcile(kShortly));
  EXPECT_TRUE(*here().snapshot_store->FindByName("s")) << "left for later";
  EXPECT_TRUE(absl::IsAborted(here().snapshots.Create({.name = "s", .source_volume_id = volume}, Soon()).status()));
  EXPECT_THAT(here().contents.thawed(), IsEmpty()) << "not under the copy";
  std::thread finisher([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::filesystem::rename(working, Image(half));
    helper.reset();
  });
  const std::string id = Snapped("s", volume);
  finisher.join();
  // If the copy becomes whole while the retry rolls it back, the retry removes it and makes another.
  EXPECT_TRUE(id == half || !std::filesystem::exists(Image(half)));
  EXPECT_THAT(here().contents.thawed(), ElementsAre(Image(volume)));
  ExpectConsistent();
}

TEST_F(SnapshotRestartTest, ARetryMakesAnUnfinishedCopyOfAVolumeAnewUnlessItIsWhole) {
  const std::string volume = CreatedBefore("db");
  for (const std::string when : {"before", "after"}) {
    Kill(when, "copy",
         [&](Process& doomed) { (void)doomed.catalog.Create(CopySpec("clone", OfVolume(volume)), Patient()); });
    const auto clone = catalog().Create(CopySpec("clone", OfVolume(volume)), Patient());
    ASSERT_OK(clone);
    EXPECT_THAT(here().contents.thawed(), ElementsAre(Image(volume)));
    EXPECT_THAT(here().contents.copied(), SizeIs(when == "before" ? 1 : 0));
    ExpectConsistent();
    ASSERT_OK(catalog().Delete(clone->id, Patient()));
    process_.reset();
  }
}

}  // namespace
}  // namespace mooring::testing

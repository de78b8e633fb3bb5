// Snapshots are created once, listed in pages and deleted; refused calls say why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::catalog_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SnapshotCatalogTest : public VolumeCatalogTest {
 protected:
  std::vector<std::string> Ids(const ListSnapshotsSpec& spec = {}) {
    std::vector<std::string> ids;
    const SnapshotPage page = *snapshots().List(spec);
    for (const SnapshotInfo& snapshot : page.snapshots) ids.push_back(snapshot.id);
    return ids;
  }
};

TEST_F(SnapshotCatalogTest, ASnapshotIsACopyOfItsVolume) {
  const std::string volume = Created("db");
  std::ofstream(Image(volume), std::ios::in | std::ios::out) << "content";
  const auto before = std::chrono::system_clock::now().time_since_epoch();
  const auto snapshot = snapshots().Create({.name = "s", .source_volume_id = volume}, Patient());
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_TRUE(IsSnapshotId(snapshot->id));
  EXPECT_EQ(snapshot->source_volume_id, volume);
  EXPECT_EQ(snapshot->bytes, 16 * kMiB);
  EXPECT_GE(snapshot->created_at, std::chrono::duration_cast<std::chrono::nanoseconds>(before).count());
  EXPECT_EQ(ReadAll(Image(snapshot->id)), ReadAll(Image(volume)));
  ExpectConsistent();
}

TEST_F(SnapshotCatalogTest, TheSameNameAndVolumeIsTheSameSnapshot) {
  const std::string volume = Created("db");
  const std::string id = Snapped("s", volume);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Snapped("s", volume), id);
  EXPECT_THAT(here().contents.copied(), SizeIs(1));
  ASSERT_TRUE(catalog().Delete(volume, Patient()).ok());
  EXPECT_EQ(Snapped("s", volume), id) << "the volume is gone, the snapshot is not";
}

TEST_F(SnapshotCatalogTest, TheSameNameForAnotherVolumeIsRefused) {
  const std::string one = Created("one"), other = Created("other");
  Snapped("s", one);
  ExpectStatus(snapshots().Create({.name = "s", .source_volume_id = other}, Patient()).status(),
               absl::StatusCode::kAlreadyExists, one);
  EXPECT_THAT(Ids(), SizeIs(1));
}

TEST_F(SnapshotCatalogTest, ASnapshotNeedsAnExistingVolume) {
  for (const std::string& id : {std::string("x"), NewVolumeId(), NewSnapshotId(), std::string("../../etc/passwd")}) {
    ExpectStatus(snapshots().Create({.name = "s", .source_volume_id = id}, Patient()).status(),
                 absl::StatusCode::kNotFound, "does not exist");
  }
  EXPECT_THAT(Ids(), IsEmpty());
  EXPECT_FALSE(*here().snapshot_store->FindByName("s"));
}

TEST_F(SnapshotCatalogTest, AVolumeAndItsSnapshotsGoInAnyOrder) {
  const std::string volume = Created("db"), first = Snapped("a", volume), second = Snapped("b", volume);
  ASSERT_TRUE(snapshots().Delete(first, Patient()).ok());
  ASSERT_TRUE(catalog().Delete(volume, Patient()).ok());
  EXPECT_THAT(Ids(), ElementsAre(second));
  ASSERT_TRUE(snapshots().Delete(second, Patient()).ok());
  EXPECT_THAT(Files(), IsEmpty());
  ExpectConsistent();
}

TEST_F(SnapshotCatalogTest, DeletingAMissingSnapshotSucceeds) {
  for (const std::string& id : {std::string("x"), NewVolumeId(), NewSnapshotId(), NewGroupId()}) {
    EXPECT_TRUE(snapshots().Delete(id, Patient()).ok()) << id;
  }
}

TEST_F(SnapshotCatalogTest, ASnapshotInUseIsNotDeleted) {
  const std::string id = Snapped("s", Created("db"));
  ASSERT_TRUE(loops_.AttachLoop({.backing_file = Image(id), .label = "", .read_only = true}).ok());
  ExpectStatus(snapshots().Delete(id, Patient()), absl::StatusCode::kFailedPrecondition, "/dev/loop7");
  EXPECT_TRUE(snapshots().Get(id).ok());
}

TEST_F(SnapshotCatalogTest, GetFindsReadySnapshotsOnly) {
  const std::string id = Snapped("s", Created("db"));
  EXPECT_EQ(snapshots().Get(id)->id, id);
  EXPECT_EQ(snapshots().Locate(id)->path, Image(id));
  for (const std::string& unknown : {std::string("x"), NewSnapshotId()}) {
    EXPECT_TRUE(absl::IsNotFound(snapshots().Get(unknown).status()));
    EXPECT_TRUE(absl::IsNotFound(snapshots().Locate(unknown).status()));
  }
  ASSERT_TRUE(*here().snapshot_store->Move(id, SnapshotState::kReady, SnapshotState::kDeleting));
  ExpectStatus(snapshots().Get(id).status(), absl::StatusCode::kNotFound, "is being deleted");
  EXPECT_THAT(Ids(), IsEmpty());
}

TEST_F(SnapshotCatalogTest, AListCanBeLimitedToAVolumeOrASnapshot) {
  const std::string one = Created("one"), other = Created("other");
  const std::string a = Snapped("a", one), b = Snapped("b", other), c = Snapped("c", one);
  EXPECT_THAT(Ids(), ElementsAre(a, b, c));
  EXPECT_THAT(Ids({.source_volume_id = one}), ElementsAre(a, c));
  EXPECT_THAT(Ids({.snapshot_id = b}), ElementsAre(b));
  EXPECT_THAT(Ids({.snapshot_id = b, .source_volume_id = one}), IsEmpty());
  EXPECT_THAT(Ids({.snapshot_id = "unknown"}), IsEmpty());
  EXPECT_THAT(Ids({.source_volume_id = "unknown"}), IsEmpty());
}

TEST_F(SnapshotCatalogTest, PagesFollowEachOther) {
  const std::string volume = Created("db");
  std::vector<std::string> all;
  for (const char* name : {"a", "b", "c", "d", "e"}) all.push_back(Snapped(name, volume));
  const auto first = snapshots().List({.max_entries = 2});
  EXPECT_THAT(first->snapshots, SizeIs(2));
  ASSERT_TRUE(first->next);
  EXPECT_THAT(Ids({.after = *first->next}), ElementsAre(all[2], all[3], all[4])) << "without a limit all that remain";
  ASSERT_TRUE(snapshots().Delete(all[1], Patient()).ok());
  const auto last = snapshots().List({.after = *first->next, .max_entries = 3});
  EXPECT_THAT(last->snapshots, SizeIs(3));
  EXPECT_FALSE(last->next) << "a full page that is the last";
  EXPECT_THAT(Ids({.after = 4294967295}), IsEmpty());
}

TEST_F(SnapshotCatalogTest, ACopyThatFailsLeavesNothingAndSaysWhy) {
  const std::string volume = Created("db");
  for (const auto& [failure, code] : std::vector<std::pair<absl::Status, absl::StatusCode>>{
           {ResourceExhausted("no room"), absl::StatusCode::kResourceExhausted},
           {FailedPrecondition("is written as a block device"), absl::StatusCode::kFailedPrecondition},
           {NotFound("the image"), absl::StatusCode::kInternal},
           {Unavailable("the helper has ended"), absl::StatusCode::kUnavailable}}) {
    here().contents.failure = failure;
    ExpectStatus(snapshots().Create({.name = "s", .source_volume_id = volume}, Patient()).status(), code,
                 Message(failure));
    EXPECT_THAT(Ids(), IsEmpty());
    EXPECT_FALSE(*here().snapshot_store->FindByName("s"));
  }
  // A helper that has answered has thawed its sources. Another process froze what is frozen now.
  EXPECT_THAT(here().contents.thawed(), ElementsAre(Image(volume)));
  here().contents.failure = absl::OkStatus();
  EXPECT_FALSE(Snapped("s", volume).empty());
  ExpectConsistent();
}

TEST_F(SnapshotCatalogTest, AVolumeIsNeitherDeletedNorGrownWhileItIsCopied) {
  const std::string volume = Created("db");
  std::vector<absl::Status> refused;
  here().backend.before = [&](const std::string& what) {
    if (what != "copy") return absl::OkStatus();
    refused.push_back(catalog().Delete(volume, Soon()));
    refused.push_back(catalog().Expand({.volume_id = volume, .range = {.required = 32 * kMiB}}, Soon()).status());
    refused.push_back(snapshots().Create({.name = "t", .source_volume_id = volume}, Soon()).status());
    refused.push_back(snapshots().Create({.name = "s", .source_volume_id = volume}, Soon()).status());
    return absl::OkStatus();
  };
  Snapped("s", volume);
  ASSERT_THAT(refused, SizeIs(4));
  for (const absl::Status& status : refused) EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(Ids(), SizeIs(1));
}

TEST_F(SnapshotCatalogTest, ARetryThatWaitedFindsTheWorkDone) {
  const std::string volume = Created("db");
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::set<std::string> ids;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      const std::string id = Snapped("s", volume);
      const std::lock_guard<std::mutex> lock(mutex);
      ids.insert(id);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(ids, SizeIs(1));
  EXPECT_THAT(here().contents.copied(), SizeIs(1));
}

TEST_F(SnapshotCatalogTest, SnapshotBeingCopiedTakesRoomOfItsPool) {
  process_ = std::make_unique<Process>(directory_, loops_, 0, "n1", /*overcommit=*/1.0);
  here().backend.total = 48 * kMiB;
  const std::string one = Created("one"), other = Created("other");
  std::vector<absl::Status> refused;
  here().backend.before = [&](const std::string& what) {
    if (what != "copy" || !refused.empty()) return absl::OkStatus();
    refused.emplace_back();  // a call that is not refused copies, too
    refused.back() = snapshots().Create({.name = "t", .source_volume_id = other}, Patient()).status();
    return absl::OkStatus();
  };
  Snapped("s", one);
  ASSERT_THAT(refused, SizeIs(1));
  ExpectStatus(refused.front(), absl::StatusCode::kResourceExhausted, "has 0 bytes of 48 MiB left");
  EXPECT_THAT(Ids(), SizeIs(1));
  ExpectConsistent();
}

TEST_F(SnapshotCatalogTest, AMissingPoolIsAFailedPrecondition) {
  const std::string id = Snapped("s", Created("db"));
  SnapshotRecord record = **here().snapshot_store->FindById(id);
  record.id = NewSnapshotId();
  record.name = "elsewhere";
  record.pool = "gone";
  ASSERT_TRUE(*here().snapshot_store->Insert(record));
  ExpectStatus(snapshots().Locate(record.id).status(), absl::StatusCode::kFailedPrecondition, "gone");
  ExpectStatus(snapshots().Delete(record.id, Patient()), absl::StatusCode::kFailedPrecondition, "gone");
  ASSERT_TRUE(here().snapshot_store->Delete(record.id).ok());
}

}  // namespace
}  // namespace mooring::catalog_test

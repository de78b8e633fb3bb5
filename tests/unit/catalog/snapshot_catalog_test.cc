// Snapshots are created once, listed in pages and deleted; refused calls say why.
#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::testing {
namespace {

class SnapshotCatalogTest : public VolumeCatalogTest {
 protected:
  std::vector<std::string> Ids(const ListSnapshotsSpec& spec = {}) {
    std::vector<std::string> ids;
    const SnapshotPage page = *snapshots().List(spec);
    for (const SnapshotRecord& snapshot : page.snapshots) ids.push_back(snapshot.id);
    return ids;
  }
};

TEST_F(SnapshotCatalogTest, TheSameNameAndVolumeIsTheSameSnapshot) {
  const std::string volume = Created("db");
  const std::string id = Snapped("s", volume);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Snapped("s", volume), id);
  EXPECT_THAT(here().contents.copied(), SizeIs(1));
  ASSERT_OK(catalog().Delete(volume, Patient()));
  EXPECT_EQ(Snapped("s", volume), id) << "the volume is gone, the snapshot is not";
}

TEST_F(SnapshotCatalogTest, TheSameNameForAnotherVolumeIsRefused) {
  const std::string one = Created("one"), other = Created("other");
  Snapped("s", one);
  EXPECT_THAT(snapshots().Create({.name = "s", .source_volume_id = other}, Patient()),
              FailsWith(StatusCode::kAlreadyExists, one));
  EXPECT_THAT(Ids(), SizeIs(1));
}

TEST_F(SnapshotCatalogTest, ASnapshotInUseIsNotDeleted) {
  const std::string id = Snapped("s", Created("db"));
  loops_.Attach(Image(id));
  EXPECT_THAT(snapshots().Delete(id, Patient()), FailsWith(StatusCode::kFailedPrecondition, "/dev/loop7"));
  EXPECT_OK(snapshots().Get(id));
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
  EXPECT_THAT(snapshots().Get(id), FailsWith(StatusCode::kNotFound, "is being deleted"));
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

TEST_F(SnapshotCatalogTest, ACopyThatFailsLeavesNothingAndSaysWhy) {
  const std::string volume = Created("db");
  for (const auto& [failure, code] : std::vector<std::pair<absl::Status, absl::StatusCode>>{
           {ResourceExhausted("no room"), StatusCode::kResourceExhausted},
           {FailedPrecondition("is written as a block device"), StatusCode::kFailedPrecondition},
           {NotFound("the image"), StatusCode::kInternal},
           {Unavailable("the helper has ended"), StatusCode::kUnavailable}}) {
    here().contents.failure = failure;
    EXPECT_THAT(snapshots().Create({.name = "s", .source_volume_id = volume}, Patient()),
                FailsWith(code, Message(failure)));
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
  EXPECT_THAT(refused.front(), FailsWith(StatusCode::kResourceExhausted, "has 0 bytes of 48 MiB left"));
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
  EXPECT_THAT(snapshots().Locate(record.id), FailsWith(StatusCode::kFailedPrecondition, "gone"));
  EXPECT_THAT(snapshots().Delete(record.id, Patient()), FailsWith(StatusCode::kFailedPrecondition, "gone"));
  ASSERT_OK(here().snapshot_store->Delete(record.id));
}

}  // namespace
}  // namespace mooring::testing

// The records of a pool on an NFS server, which may be away, fail, or be another one.
#include "tests/unit/catalog/nfs_pool_fixture.h"

namespace mooring::testing {
namespace {

// NodeGetVolumeStats asks so for each volume, also of pools of images on a server.
TEST_F(NfsPool, WhetherThePoolAnswersIsKnownWithoutItsRecords) {
  OpenBoth();
  EXPECT_OK(here_.catalog.CheckAnswers(NewVolumeId(kTag)));
  EXPECT_OK(here_.catalog.CheckAnswers(NewVolumeId("ffffffff")));
  EXPECT_OK(here_.catalog.CheckAnswers("vol-1"));
}

// The metrics of the other pools go on.
TEST_F(NfsPool, ACountLeavesAPoolOutThatFails) {
  OpenBoth();
  Created(here_, "a");
  EXPECT_THAT(*here_.store->CountByPool(), SizeIs(1));
  std::fstream(shared_ / "catalog.db", std::ios::in | std::ios::out) << "broken, as a server that falls silent";
  EXPECT_THAT(*here_.store->CountByPool(), IsEmpty());
  EXPECT_THAT(*here_.store->NameUnfinished(), IsEmpty());
  EXPECT_THAT(*here_.snapshots.CountByPool(), IsEmpty());
  EXPECT_FALSE(here_.catalog.ReconcilePool("share").ok()) << "it is tried again";
}

// Its server has started without a disk, or its name leads to another server.
TEST_F(NfsPool, AnotherOrAnEmptyExportIsNotTakenForThePool) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  const TempDir empty, others, of_stranger;
  Host stranger(of_stranger.path(), others.path(), "n1");
  stranger.Open(others.path(), "n1");
  Host again(own_.path(), shared_.path(), "n1");
  const auto open = [&](const TempDir& directory) {
    return again.store->files()->OpenLater(directory / "catalog.db", "share", [] { return absl::OkStatus(); }).status();
  };
  EXPECT_THAT(open(empty), FailsWith(StatusCode::kFailedPrecondition, "and here are none"));
  EXPECT_TRUE(std::filesystem::is_empty(empty.path()));
  std::ofstream(empty / "catalog.db").close();
  EXPECT_THAT(open(empty), FailsWith(StatusCode::kFailedPrecondition, "and here are none")) << "it is not begun anew";
  EXPECT_THAT(open(others), FailsWith(StatusCode::kFailedPrecondition, "and here is"));
  EXPECT_THAT(again.catalog.Delete(id, Patient()), FailsWith(StatusCode::kUnavailable, "cannot be used yet"));
  EXPECT_OK(open(shared_));
  EXPECT_THAT(open(empty), FailsWith(StatusCode::kFailedPrecondition, "and here are none")) << "the mount was lost";
}

TEST_F(NfsPool, AReconcileIsDoneOnceItLeavesNothing) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  const auto left = shared_ / (".share/" + id + ".deleting"),
             other = shared_ / (".share/" + NewVolumeId(kTag) + ".deleting");
  const absl::Status open = FailedPrecondition("a process has a file open");
  here_.mounter.Fail("RemoveTree", open);
  EXPECT_THAT(here_.catalog.Delete(id, Patient()), FailsWith(StatusCode::kUnavailable, "has a file open"));
  std::filesystem::create_directory(other);
  here_.mounter.Fail("RemoveTree", open);
  EXPECT_THAT(here_.catalog.ReconcilePool("share"), FailsWith(StatusCode::kUnavailable, "interrupted call"));
  EXPECT_FALSE(std::filesystem::exists(other));
  std::filesystem::create_directory(other);
  here_.mounter.Fail("RemoveTree", open, 2);
  EXPECT_THAT(here_.catalog.ReconcilePool("share"), FailsWith(StatusCode::kFailedPrecondition, "is a deleted volume"));
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_OK(here_.catalog.ReconcilePool("share"));
  EXPECT_FALSE(std::filesystem::exists(other));
}

TEST_F(NfsPool, APoolIsReconciledBesideOneThatFails) {
  bool is_open = false;
  here_.store->files()->AddLater("other", "ffffffff",
                                 [&] { return is_open ? absl::OkStatus() : Unavailable("not yet"); });
  OpenBoth();
  ASSERT_OK(here_.store->files()->OpenLater(own_ / "other.db", "other", [] { return absl::OkStatus(); }));
  is_open = true;
  EXPECT_OK(here_.catalog.ReconcilePool("share"));
  std::fstream(own_ / "other.db", std::ios::in | std::ios::out) << "broken, as a server that falls silent";
  EXPECT_OK(here_.catalog.ReconcilePool("share"));
  EXPECT_OK(here_.catalog.Reconcile());
}

// The export was unmounted, and mounted from another address of its server.
TEST_F(NfsPool, TheRecordsAreOpenedAnewWhereTheyAreNow) {
  OpenBoth();
  const std::string path = shared_ / "catalog.db";
  std::filesystem::copy_file(path, path + "-now");
  std::filesystem::rename(path + "-now", path);
  here_.Open(shared_.path(), "n1");
  const std::string id = Created(here_, "a");
  EXPECT_THAT(there_.catalog.Get(id).status(), FailsWith(StatusCode::kNotFound, "does not exist"));
  there_.Open(shared_.path(), "n2");
  EXPECT_OK(there_.catalog.Get(id));
}

// The state directory of a plugin that knew no such pools, and the export of a pool of images from that time.
TEST_F(NfsPool, FilesOfOlderProgramsLackWhatIsNewHere) {
  ASSERT_OK(CatalogStore::Open(own_ / "old"));
  {
    SQLite::Database local(own_ / "old", SQLite::OPEN_READONLY);
    EXPECT_FALSE(local.tableExists("pool_identities")) << "a full disk may have no room for it at a start";
  }
  const std::string images = shared_ / "images.db";
  const auto first = CatalogStore::Open(own_ / "first"), second = CatalogStore::Open(own_ / "second");
  const auto tag = (*first)->files()->AddShared(images, "images", [] { return absl::OkStatus(); });
  ASSERT_OK(tag);
  {
    SQLite::Database older(images, SQLite::OPEN_READWRITE);
    older.exec("DROP TABLE uses");
    older.exec("ALTER TABLE pool DROP COLUMN identity");
  }
  EXPECT_EQ(*(*second)->files()->AddShared(images, "images", [] { return Internal("it is there"); }), *tag);
  const auto file = (*second)->files()->OfTag(*tag);
  ASSERT_OK(SharedNodes::Put(**file, {.id = "n1"}));
  EXPECT_OK((*second)->Insert({.id = NewVolumeId(*tag), .name = "a", .fs_type = "ext4", .pool = "images"}));
  EXPECT_THAT(*(*second)->CountByPool(), SizeIs(1));
}

TEST_F(NfsPool, CallsForAPoolThatIsAwayFailAtOnceWithTheReason) {
  const std::string id = NewVolumeId(kTag);
  EXPECT_THAT(here_.catalog.Find(id).status(), FailsWith(StatusCode::kUnavailable, "being mounted now"));
  OpenBoth();
  const std::string made = Created(here_, "a");
  here_.availability->Failed(Unavailable("the cable is cut"));
  const auto away = FailsWith(StatusCode::kUnavailable, "pool share cannot be used yet: the cable is cut");
  EXPECT_THAT(here_.catalog.Get(made).status(), away);
  EXPECT_THAT(here_.catalog.Delete(made, Patient()), away);
  EXPECT_THAT(here_.catalog.CheckAnswers(made), away);
  EXPECT_THAT(here_.catalog.List({}).status(), away) << "a list must not lack a volume";
  EXPECT_THAT(here_.catalog.Capacity({.possible = true, .minimum_bytes = 0, .topology = {}, .pool = "share"}).status(),
              away);
  EXPECT_OK(here_.catalog.Reconcile());
  EXPECT_THAT(*here_.store->CountByPool(), IsEmpty());
  EXPECT_OK(here_.locks->Acquire(made, "volume", Patient().wait_until, KeyedLocks::Among::kThisHost));
  here_.availability->Answered();
  EXPECT_OK(here_.catalog.Get(made));
  EXPECT_OK(here_.catalog.ReconcilePool("share"));
}

TEST(AvailabilityTest, AServerThatFallsSilentIsAway) {
  Availability pool("share");
  const auto now = Availability::Clock::now();
  EXPECT_THAT(pool.Check(), FailsWith(StatusCode::kUnavailable, "it is being mounted now"));
  EXPECT_FALSE(pool.IsSilent(now + std::chrono::seconds(20))) << "no call has reached it";
  EXPECT_THAT(pool.Check(now + std::chrono::seconds(20)), FailsWith(StatusCode::kUnavailable, "has not answered for"))
      << "the plugin was started beside a dead server";
  pool.Answered();
  EXPECT_OK(pool.Check(now));
  EXPECT_FALSE(pool.IsSilent(now));
  EXPECT_TRUE(pool.IsSilent(now + std::chrono::seconds(20)));
  EXPECT_THAT(pool.Check(now + std::chrono::seconds(20)), FailsWith(StatusCode::kUnavailable, "has not answered for"));
  pool.Answered();
  EXPECT_OK(pool.Check());
  pool.Failed(absl::UnavailableError("squashed"));
  EXPECT_FALSE(pool.IsSilent(now + std::chrono::seconds(20))) << "calls are refused, and none hangs";
}

}  // namespace
}  // namespace mooring::testing

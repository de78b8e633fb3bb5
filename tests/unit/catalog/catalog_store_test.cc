#include "plugin/catalog/store/catalog_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sys/stat.h>

#include "sqlite/sqlite.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

class CatalogStoreTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_ + "/catalog.db"; }

  std::unique_ptr<CatalogStore> Open() {
    absl::StatusOr<std::unique_ptr<CatalogStore>> store = CatalogStore::Open(path());
    EXPECT_OK(store);
    return *std::move(store);
  }

  static VolumeRecord Volume(const std::string& id, VolumeState state = VolumeState::kReady) {
    return {.id = id, .name = "name of " + id, .state = state, .bytes = 4096, .fs_type = "ext4"};
  }

  static PublicationRecord Publication(const std::string& id, const std::string& node, bool read_only = false) {
    return {.volume_id = id, .node_id = node, .access_type = "mount", .capability = "text", .read_only = read_only};
  }

  static void ExpectInserted(CatalogStore& store, const VolumeRecord& volume) {
    const absl::StatusOr<bool> inserted = store.Insert(volume);
    ASSERT_OK(inserted);
    ASSERT_TRUE(*inserted);
  }

  static std::vector<std::string> ReadyIds(CatalogStore& store, std::int64_t after = 0, std::size_t most = 100) {
    std::vector<std::string> ids;
    const auto volumes = store.ListReady(after, most);
    EXPECT_OK(volumes);
    for (const ListedVolume& listed : *volumes) ids.push_back(listed.volume.id);
    return ids;
  }

  const TempDir scratch_;
  const std::string directory_ = scratch_.path();
};

TEST_F(CatalogStoreTest, KeepsTheNodeThatHasVolumes) {
  auto store = Open();
  EXPECT_EQ(store->KeepNodeId("a").value(), "a");
  EXPECT_EQ(store->KeepNodeId("b").value(), "b");
  ASSERT_TRUE(store->Insert(Volume("v")).value());
  EXPECT_EQ(store->KeepNodeId("c").value(), "b");
  store.reset();
  EXPECT_EQ(Open()->KeepNodeId("c").value(), "b");
}

// A word that is not UTF-8 would make the answer of ListVolumes unreadable, with all other volumes.
TEST_F(CatalogStoreTest, DamagedRowStopsNoOther) {
  auto store = Open();
  for (const char* id : {"a", "b", "c"}) ExpectInserted(*store, Volume(id));
  ASSERT_OK(store->PutPublication(Publication("b", "n"), 0));
  store.reset();
  SQLite::Database(path(), SQLite::OPEN_READWRITE)
      .exec(
          "UPDATE volumes SET fs_type = x'ff', pool = x'fe', source = x'fd', capacity_bytes = 'many', tuning = 'x', "
          "propagation = 'y' WHERE id = 'b'; UPDATE publications SET node_id = x'ff'");
  store = Open();
  EXPECT_THAT(ReadyIds(*store), ElementsAre("a", "b", "c"));
  const auto damaged = store->ListReady(0, 100)->at(1);
  for (const std::string& word :
       {damaged.volume.fs_type, damaged.volume.pool, damaged.volume.source, damaged.nodes.at(0)}) {
    EXPECT_EQ(word, "\xEF\xBF\xBD");
  }
  const auto counts = store->CountByPool();
  ASSERT_OK(counts);
  for (const PoolCount& count : *counts) EXPECT_NE(count.pool, "\xFE");
}

TEST_F(CatalogStoreTest, FindsWhatWasInserted) {
  const auto store = Open();
  VolumeRecord volume = Volume("vol-a", VolumeState::kCreating);
  volume.name = "weird ' name \xF0\x9F\x98\x80; DROP TABLE volumes";
  volume.bytes = 16ULL << 40;
  ExpectInserted(*store, volume);
  for (const auto& found : {store->FindById("vol-a"), store->FindByName(volume.name)}) {
    ASSERT_TRUE(found.ok() && found->has_value());
    EXPECT_EQ((*found)->id, "vol-a");
    EXPECT_EQ((*found)->name, volume.name);
    EXPECT_EQ((*found)->state, VolumeState::kCreating);
    EXPECT_EQ((*found)->bytes, 16ULL << 40);
    EXPECT_EQ((*found)->fs_type, "ext4");
  }
  EXPECT_FALSE(store->FindById("vol-b")->has_value());
  EXPECT_FALSE(store->FindByName("")->has_value());
}

TEST_F(CatalogStoreTest, ANameOrIdIsTakenOnce) {
  const auto store = Open();
  ExpectInserted(*store, Volume("vol-a"));
  VolumeRecord same_name = Volume("vol-b");
  same_name.name = Volume("vol-a").name;
  EXPECT_FALSE(*store->Insert(same_name));
  VolumeRecord same_id = Volume("vol-a");
  same_id.name = "another";
  EXPECT_FALSE(*store->Insert(same_id));
  EXPECT_THAT(ReadyIds(*store), ElementsAre("vol-a"));
}

TEST_F(CatalogStoreTest, NeverAssignsASequenceNumberTwice) {
  const auto store = Open();
  ExpectInserted(*store, Volume("vol-a"));
  const std::int64_t seq = (*store->FindById("vol-a"))->seq;
  ASSERT_OK(store->Delete("vol-a"));
  ExpectInserted(*store, Volume("vol-b"));
  EXPECT_GT((*store->FindById("vol-b"))->seq, seq);
}

TEST_F(CatalogStoreTest, MovingComparesAndSets) {
  const auto store = Open();
  ExpectInserted(*store, Volume("vol-a", VolumeState::kCreating));
  EXPECT_TRUE(*store->Move("vol-a", VolumeState::kCreating, VolumeState::kReady));
  EXPECT_FALSE(*store->Move("vol-a", VolumeState::kCreating, VolumeState::kDeleting));
  EXPECT_FALSE(*store->Move("vol-b", VolumeState::kReady, VolumeState::kDeleting));
  EXPECT_EQ((*store->FindById("vol-a"))->state, VolumeState::kReady);
}

TEST_F(CatalogStoreTest, ListsReadyVolumesInOrderWithTheirNodes) {
  const auto store = Open();
  ExpectInserted(*store, Volume("vol-c"));
  ExpectInserted(*store, Volume("vol-unfinished", VolumeState::kCreating));
  ExpectInserted(*store, Volume("vol-a"));
  ExpectInserted(*store, Volume("vol-b"));
  ExpectInserted(*store, Volume("vol-going", VolumeState::kDeleting));
  ASSERT_TRUE(*store->PutPublication(Publication("vol-a", "n2"), 0));
  ASSERT_TRUE(*store->PutPublication(Publication("vol-a", "n1"), 0));
  EXPECT_THAT(ReadyIds(*store), ElementsAre("vol-c", "vol-a", "vol-b"));
  const std::vector<ListedVolume> listed = *store->ListReady(0, 2);
  ASSERT_EQ(listed.size(), 2u);  // the limit counts volumes, not publications
  EXPECT_THAT(listed[0].nodes, IsEmpty());
  EXPECT_THAT(listed[1].nodes, ElementsAre("n1", "n2"));
  EXPECT_THAT(ReadyIds(*store, listed[1].volume.seq), ElementsAre("vol-b"));
  EXPECT_EQ(store->ListUnfinished()->size(), 2u);
}

TEST_F(CatalogStoreTest, PublicationsAreReplacedAndRemoved) {
  const auto store = Open();
  ExpectInserted(*store, Volume("vol-a"));
  EXPECT_TRUE(*store->PutPublication(Publication("vol-a", "n1"), 0));
  EXPECT_TRUE(*store->PutPublication(Publication("vol-a", "n1", true), 0));
  EXPECT_TRUE(*store->PutPublication(Publication("vol-a", "n2"), 0));
  const std::vector<PublicationRecord> publications = *store->Publications("vol-a");
  ASSERT_EQ(publications.size(), 2u);
  EXPECT_EQ(publications[0].node_id, "n1");
  EXPECT_TRUE(publications[0].read_only);
  EXPECT_EQ(publications[0].access_type, "mount");
  EXPECT_EQ(publications[0].capability, "text");
  EXPECT_OK(store->DeletePublications("vol-a", "n1"));
  EXPECT_EQ(store->Publications("vol-a")->size(), 1u);
  EXPECT_OK(store->DeletePublications("vol-a", ""));
  EXPECT_OK(store->DeletePublications("vol-a", ""));
  EXPECT_THAT(*store->Publications("vol-a"), IsEmpty());
}

TEST_F(CatalogStoreTest, DeletingAVolumeDeletesItsPublications) {
  const auto store = Open();
  ExpectInserted(*store, Volume("vol-a"));
  ASSERT_TRUE(*store->PutPublication(Publication("vol-a", "n1"), 0));
  ASSERT_OK(store->Delete("vol-a"));
  EXPECT_OK(store->Delete("vol-a"));
  EXPECT_THAT(*store->Publications("vol-a"), IsEmpty());
  EXPECT_TRUE(absl::IsAborted(store->PutPublication(Publication("vol-a", "n1"), 0).status()));
}

TEST_F(CatalogStoreTest, TheLimitCountsOtherVolumesOfTheSameNode) {
  const auto store = Open();
  for (const char* id : {"vol-a", "vol-b", "vol-c"}) ExpectInserted(*store, Volume(id));
  EXPECT_TRUE(*store->PutPublication(Publication("vol-a", "n1"), 2));
  EXPECT_TRUE(*store->PutPublication(Publication("vol-b", "n1"), 2));
  EXPECT_FALSE(*store->PutPublication(Publication("vol-c", "n1"), 2));
  EXPECT_TRUE(*store->PutPublication(Publication("vol-b", "n1", true), 2));  // has its place
  EXPECT_TRUE(*store->PutPublication(Publication("vol-c", "n2"), 2));
  ASSERT_OK(store->Delete("vol-a"));
  EXPECT_TRUE(*store->PutPublication(Publication("vol-c", "n1"), 2));
}

TEST_F(CatalogStoreTest, TheLimitHoldsForTwoProcessesAtATime) {
  constexpr int kVolumes = 20;
  constexpr int kMost = 7;
  const auto store = Open();
  const auto other = Open();
  for (int i = 0; i < kVolumes; ++i) ExpectInserted(*store, Volume("vol-" + std::to_string(i)));
  std::atomic<int> published = 0;
  const auto publish = [&](CatalogStore& on, int first) {
    for (int i = first; i < kVolumes; i += 2) {
      const auto done = on.PutPublication(Publication("vol-" + std::to_string(i), "n1"), kMost);
      ASSERT_OK(done);
      published += *done ? 1 : 0;
    }
  };
  std::thread thread([&] { publish(*other, 1); });
  publish(*store, 0);
  thread.join();
  EXPECT_EQ(published, kMost);
}

TEST_F(CatalogStoreTest, SurvivesBeingClosed) {
  ExpectInserted(*Open(), Volume("vol-a"));
  const auto store = Open();
  EXPECT_TRUE(store->FindById("vol-a")->has_value());
  ASSERT_OK(store->SetBytes("vol-a", 8192));
  EXPECT_EQ((*Open()->FindById("vol-a"))->bytes, 8192u);
}

TEST_F(CatalogStoreTest, FilesAreReadableForTheirOwnerOnly) {
  const auto store = Open();
  ExpectInserted(*store, Volume("vol-a"));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    struct stat found = {};
    ASSERT_EQ(::stat(entry.path().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600u) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 3);  // with the WAL and its index
}

TEST_F(CatalogStoreTest, TwoStoresOverOneFileSeeEachOther) {
  const auto one = Open();
  const auto other = Open();
  ExpectInserted(*one, Volume("vol-a"));
  EXPECT_TRUE(other->FindById("vol-a")->has_value());
  VolumeRecord same_name = Volume("vol-b");
  same_name.name = Volume("vol-a").name;
  EXPECT_FALSE(*other->Insert(same_name));
  EXPECT_TRUE(*other->Move("vol-a", VolumeState::kReady, VolumeState::kDeleting));
  EXPECT_FALSE(*one->Move("vol-a", VolumeState::kReady, VolumeState::kDeleting));
}

TEST_F(CatalogStoreTest, SeveralProcessesCanCreateTheFileAtTheSameTime) {
  std::vector<std::thread> threads;
  std::atomic<int> opened = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto store = CatalogStore::Open(path());
      ASSERT_OK(store);
      ExpectInserted(**store, Volume("vol-" + std::to_string(i)));
      ++opened;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(opened, 8);
  EXPECT_EQ(ReadyIds(*Open()).size(), 8u);
}

TEST_F(CatalogStoreTest, ReadsDoNotWaitForAWriterAndWritersWaitForEachOther) {
  const auto store = Open();
  ExpectInserted(*store, Volume("vol-a"));
  SQLite::Database other(path(), SQLite::OPEN_READWRITE);
  auto transaction = std::make_unique<SQLite::Transaction>(other, SQLite::TransactionBehavior::IMMEDIATE);
  std::atomic<bool> written = false;
  std::thread writer([&] {
    EXPECT_OK(store->SetBytes("vol-a", 8192));
    written = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ((*store->FindById("vol-a"))->bytes, 4096u);
  EXPECT_FALSE(written);
  transaction.reset();
  writer.join();
  EXPECT_EQ((*store->FindById("vol-a"))->bytes, 8192u);
}

TEST_F(CatalogStoreTest, KeepsEveryFieldOfAVolume) {
  VolumeRecord all = Volume("vol-a");
  all.propagation = Propagation::kSlave;
  all.pool = "fast";
  all.source = "snap-1";
  all.tuning.read_ahead_bytes = 4096;
  all.ephemeral = "csi-1";
  all.block_only = true;
  all.asked_bytes = 1024;
  ExpectInserted(*Open(), all);
  ExpectInserted(*Open(), Volume("vol-b"));
  const auto store = Open();
  const VolumeRecord found = *store->FindByName(all.name).value();
  EXPECT_EQ(found.propagation, Propagation::kSlave);
  EXPECT_EQ(found.pool, "fast");
  EXPECT_EQ(found.source, "snap-1");
  EXPECT_EQ(found.tuning, all.tuning);
  EXPECT_EQ(found.ephemeral, "csi-1");
  EXPECT_TRUE(found.block_only);
  EXPECT_EQ(found.asked_bytes, 1024u);
  const VolumeRecord plain = *store->FindById("vol-b").value();
  EXPECT_EQ(plain.propagation, std::nullopt);
  EXPECT_EQ(plain.pool, kDefaultPool);
  EXPECT_FALSE(plain.block_only);
  EXPECT_EQ(plain.asked_bytes, plain.bytes);
}

TEST_F(CatalogStoreTest, OpeningACatalogWritesNothing) {
  Open();
  const auto open = Open();
  EXPECT_EQ(std::filesystem::file_size(path() + "-wal"), 0u);
  EXPECT_THAT(ReadyIds(*open), IsEmpty());
}

TEST_F(CatalogStoreTest, AnotherSchemaVersionIsRefusedAndLeftAlone) {
  Open();
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version=7");
  const absl::Status status = CatalogStore::Open(path()).status();
  ASSERT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr(path()), HasSubstr("schema version 7"), HasSubstr("reads version 1"),
                                     HasSubstr("start the version of mooring-plugin that wrote it")));
  EXPECT_EQ(SQLite::Database(path()).execAndGet("PRAGMA user_version").getInt(), 7);
}

TEST_F(CatalogStoreTest, ADamagedFileIsRefusedAndLeftAlone) {
  const std::string garbage(8192, 'x');
  std::ofstream(path()) << garbage;
  const absl::Status status = CatalogStore::Open(path()).status();
  ASSERT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr(path()), HasSubstr("damaged"), HasSubstr("move it away")));
  std::ifstream file(path());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), garbage);
}

TEST_F(CatalogStoreTest, AnErrorAboutADamagedNameIsUtf8) {
  const SQLite::Exception error("malformed database schema (\xFF)", 11);  // SQLITE_CORRUPT
  const DatabaseFile file = {.path = path(), .name = "the catalog", .if_damaged = "Move it away", .if_other = ""};
  EXPECT_THAT(Message(DatabaseError(error, "open", file)),
              AllOf(HasSubstr("malformed database schema (\uFFFD)"), HasSubstr("damaged")));
}

// SQLite calls both of these a "disk I/O error". It looks for files that are not there, so ENOENT says nothing.
TEST_F(CatalogStoreTest, AnErrorOfTheKernelDecidesTheCodeAndIsNamed) {
  const SQLite::Exception error("disk I/O error", 10);  // SQLITE_IOERR
  const DatabaseFile file = {.path = path(), .name = "the catalog", .if_damaged = "", .if_other = ""};
  const auto of = [&](int system_error) { return DatabaseError(error, "write", file, system_error); };
  EXPECT_THAT(of(EDQUOT), FailsWith(StatusCode::kResourceExhausted, "(Disk quota exceeded): make room"));
  EXPECT_THAT(of(EMFILE), FailsWith(StatusCode::kUnavailable, "disk I/O error (Too many open files)"));
  EXPECT_THAT(of(EFBIG), FailsWith(StatusCode::kResourceExhausted, "(File too large): the limit"));
  EXPECT_THAT(of(EROFS), FailsWith(StatusCode::kFailedPrecondition, "(Read-only file system)"));
  EXPECT_THAT(of(EIO), FailsWith(StatusCode::kInternal, "(Input/output error)"));
  EXPECT_THAT(Message(of(ENOENT)), ::testing::EndsWith("disk I/O error"));
  const SQLite::Exception unread("database disk image is malformed", 11);  // SQLITE_CORRUPT
  EXPECT_THAT(DatabaseError(unread, "read", file, EIO), FailsWith(StatusCode::kInternal, "the disk cannot be read"));
  EXPECT_THAT(Message(DatabaseError(unread, "read", file, ENOSPC)), HasSubstr("the file is damaged"));
  const SQLite::Exception locked("database is locked", 5);  // SQLITE_BUSY
  EXPECT_THAT(DatabaseError(locked, "write", file, EDQUOT),
              FailsWith(StatusCode::kAborted, "another process holds it"));
}

TEST_F(CatalogStoreTest, ImpossiblePathsAreErrorsWithThePath) {
  for (const std::string& bad : {directory_ + "/missing/catalog.db", directory_}) {
    const absl::Status status = CatalogStore::Open(bad).status();
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(Message(status), HasSubstr(bad));
  }
  std::filesystem::create_symlink(directory_ + "/elsewhere.db", path());
  EXPECT_FALSE(CatalogStore::Open(path()).ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/elsewhere.db"));
}

}  // namespace
}  // namespace mooring::testing

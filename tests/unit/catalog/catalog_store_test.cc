#include "plugin/catalog/catalog_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/status.h"

namespace mooring {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of schema version 2, as mooring-plugin made them when it knew of no propagations.
constexpr char kTablesOfAnOlderProgram[] = R"(
  CREATE TABLE volumes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'deleting')),
    capacity_bytes INTEGER NOT NULL, fs_type TEXT NOT NULL);
  CREATE TABLE publications (
    volume_id TEXT NOT NULL REFERENCES volumes(id) ON DELETE CASCADE, node_id TEXT NOT NULL,
    access_type TEXT NOT NULL, capability TEXT NOT NULL, read_only INTEGER NOT NULL,
    PRIMARY KEY (volume_id, node_id)) WITHOUT ROWID;
  CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE INDEX publications_by_node ON publications(node_id);
  CREATE INDEX unfinished_volumes ON volumes(state) WHERE state <> 'ready';
)";

class CatalogStoreTest : public ::testing::Test {
 protected:
  CatalogStoreTest() {
    std::string pattern = ::testing::TempDir() + "catalog_store_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~CatalogStoreTest() override { std::filesystem::remove_all(directory_); }

  std::string path() const { return directory_ + "/catalog.db"; }

  std::unique_ptr<CatalogStore> Open() {
    absl::StatusOr<std::unique_ptr<CatalogStore>> store = CatalogStore::Open(path());
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  static VolumeRecord Volume(const std::string& id, VolumeState state = VolumeState::kReady) {
    return {.id = id, .name = "name of " + id, .state = state, .bytes = 4096, .fs_type = "ext4"};
  }

  static VolumeRecord WithPropagation(const std::string& id) {
    VolumeRecord volume = Volume(id);
    volume.propagation = Propagation::kSlave;
    return volume;
  }
  int Settings() const { return SQLite::Database(path()).execAndGet("SELECT COUNT(*) FROM settings").getInt(); }

  static PublicationRecord Publication(const std::string& id, const std::string& node, bool read_only = false) {
    return {.volume_id = id, .node_id = node, .access_type = "mount", .capability = "text", .read_only = read_only};
  }

  static void ExpectInserted(CatalogStore& store, const VolumeRecord& volume) {
    const absl::StatusOr<bool> inserted = store.Insert(volume);
    ASSERT_TRUE(inserted.ok()) << inserted.status();
    ASSERT_TRUE(*inserted);
  }

  static std::vector<std::string> ReadyIds(CatalogStore& store, std::int64_t after = 0, std::size_t most = 100) {
    std::vector<std::string> ids;
    const auto volumes = store.ListReady(after, most);
    EXPECT_TRUE(volumes.ok()) << volumes.status();
    for (const ListedVolume& listed : *volumes) ids.push_back(listed.volume.id);
    return ids;
  }

  std::string directory_;
};

TEST_F(CatalogStoreTest, TheNodeIsWhoeverMadeTheVolumes) {
  auto store = Open();
  EXPECT_EQ(store->KeepNodeId("a").value(), "a");
  EXPECT_EQ(store->KeepNodeId("b").value(), "b");
  ASSERT_TRUE(store->Insert(Volume("v")).value());
  EXPECT_EQ(store->KeepNodeId("c").value(), "b");
  store.reset();
  EXPECT_EQ(Open()->KeepNodeId("c").value(), "b");
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

TEST_F(CatalogStoreTest, APlaceInTheListIsNeverGivenTwice) {
  const auto store = Open();
  ExpectInserted(*store, Volume("vol-a"));
  const std::int64_t seq = (*store->FindById("vol-a"))->seq;
  ASSERT_TRUE(store->Remove("vol-a").ok());
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
  EXPECT_TRUE(store->RemovePublications("vol-a", "n1").ok());
  EXPECT_EQ(store->Publications("vol-a")->size(), 1u);
  EXPECT_TRUE(store->RemovePublications("vol-a", "").ok());
  EXPECT_TRUE(store->RemovePublications("vol-a", "").ok());
  EXPECT_THAT(*store->Publications("vol-a"), IsEmpty());
}

TEST_F(CatalogStoreTest, AVolumeTakesItsPublicationsWithIt) {
  const auto store = Open();
  ExpectInserted(*store, Volume("vol-a"));
  ASSERT_TRUE(*store->PutPublication(Publication("vol-a", "n1"), 0));
  ASSERT_TRUE(store->Remove("vol-a").ok());
  EXPECT_TRUE(store->Remove("vol-a").ok());
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
  ASSERT_TRUE(store->Remove("vol-a").ok());
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
      ASSERT_TRUE(done.ok()) << done.status();
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
  ASSERT_TRUE(store->SetBytes("vol-a", 8192).ok());
  EXPECT_EQ((*Open()->FindById("vol-a"))->bytes, 8192u);
}

TEST_F(CatalogStoreTest, NobodyElseMayReadTheFiles) {
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

TEST_F(CatalogStoreTest, ManyMayMakeTheFileAtTheSameMoment) {
  std::vector<std::thread> threads;
  std::atomic<int> opened = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto store = CatalogStore::Open(path());
      ASSERT_TRUE(store.ok()) << store.status();
      ExpectInserted(**store, Volume("vol-" + std::to_string(i)));
      ++opened;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(opened, 8);
  EXPECT_EQ(ReadyIds(*Open()).size(), 8u);
}

TEST_F(CatalogStoreTest, LookUpsDoNotWaitForAWriterAndWritersWaitForEachOther) {
  const auto store = Open();
  ExpectInserted(*store, Volume("vol-a"));
  SQLite::Database other(path(), SQLite::OPEN_READWRITE);
  auto transaction = std::make_unique<SQLite::Transaction>(other, SQLite::TransactionBehavior::IMMEDIATE);
  std::atomic<bool> written = false;
  std::thread writer([&] {
    EXPECT_TRUE(store->SetBytes("vol-a", 8192).ok());
    written = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ((*store->FindById("vol-a"))->bytes, 4096u);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
  EXPECT_FALSE(written);
  transaction.reset();
  writer.join();
  EXPECT_EQ((*store->FindById("vol-a"))->bytes, 8192u);
}

TEST_F(CatalogStoreTest, ACatalogOfTheFirstVersionIsCarriedOver) {
  auto store = Open();
  ExpectInserted(*store, Volume("vol-a"));
  ASSERT_TRUE(*store->PutPublication(Publication("vol-a", "n1"), 0));
  store.reset();
  SQLite::Database(path(), SQLite::OPEN_READWRITE)
      .exec(
          "ALTER TABLE volumes ADD COLUMN access_types TEXT NOT NULL DEFAULT 'mount';"
          "ALTER TABLE volumes ADD COLUMN created_at INTEGER NOT NULL DEFAULT 1;"
          "DROP TABLE settings;"
          "PRAGMA user_version=1");
  store = Open();
  ExpectInserted(*store, Volume("vol-b"));
  EXPECT_THAT(ReadyIds(*store), ElementsAre("vol-a", "vol-b"));
  EXPECT_EQ(store->Publications("vol-a")->size(), 1u);
  EXPECT_EQ(store->KeepNodeId("n1").value(), "n1");
  store.reset();
  EXPECT_EQ(SQLite::Database(path()).execAndGet("PRAGMA user_version").getInt(), 2);
}

TEST_F(CatalogStoreTest, APropagationIsKeptWithItsVolumeAndGoesWithIt) {
  auto store = Open();
  ExpectInserted(*store, Volume("vol-a"));
  ExpectInserted(*store, WithPropagation("vol-b"));
  VolumeRecord taken = WithPropagation("vol-c");
  taken.name = Volume("vol-a").name;
  EXPECT_FALSE(*store->Insert(taken));
  store.reset();
  store = Open();
  EXPECT_EQ(store->FindById("vol-a").value()->propagation, std::nullopt);
  EXPECT_EQ(store->FindByName(Volume("vol-b").name).value()->propagation, Propagation::kSlave);
  EXPECT_EQ(store->ListReady(0, 10)->at(1).volume.propagation, Propagation::kSlave);
  EXPECT_EQ(Settings(), 1) << "nothing of a volume that was not added";
  EXPECT_TRUE(store->Remove("vol-b").ok());
  EXPECT_EQ(Settings(), 0);
}

TEST_F(CatalogStoreTest, BlockAccessOnlyIsKeptWithItsVolumeAndGoesWithIt) {
  auto store = Open();
  VolumeRecord raw = Volume("vol-b");
  raw.block_only = true;
  ExpectInserted(*store, Volume("vol-a"));
  ExpectInserted(*store, raw);
  store.reset();
  store = Open();
  EXPECT_FALSE(store->FindById("vol-a").value()->block_only) << "an older program records nothing";
  EXPECT_TRUE(store->FindById("vol-b").value()->block_only);
  EXPECT_TRUE(store->Remove("vol-b").ok());
  EXPECT_EQ(Settings(), 0);
}

// A program that knows of no propagations, before and after: what it made is read, and it reads what was made.
TEST_F(CatalogStoreTest, AnOlderProgramMayHaveTheCatalogBeforeAndAfterwards) {
  SQLite::Database older(path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  older.exec(kTablesOfAnOlderProgram);
  older.exec("PRAGMA user_version=2; PRAGMA foreign_keys=ON");
  const std::string insert = "INSERT INTO volumes (id, name, state, capacity_bytes, fs_type) VALUES ";
  older.exec(insert + "('vol-a', 'a', 'ready', 4096, 'ext4')");
  ExpectInserted(*Open(), WithPropagation("vol-b"));
  ExpectInserted(*Open(), WithPropagation("vol-c"));
  EXPECT_EQ(older.execAndGet("PRAGMA user_version").getInt(), 2);
  older.exec(insert + "('vol-d', 'd', 'ready', 4096, 'xfs')");
  older.exec("DELETE FROM volumes WHERE id = 'vol-c'");
  const auto store = Open();
  EXPECT_THAT(ReadyIds(*store), ElementsAre("vol-a", "vol-b", "vol-d"));
  EXPECT_EQ(store->FindById("vol-a").value()->propagation, std::nullopt);
  EXPECT_EQ(store->FindById("vol-b").value()->propagation, Propagation::kSlave);
  EXPECT_EQ(store->FindById("vol-d").value()->propagation, std::nullopt);
}

// So that it also opens on a full disk.
TEST_F(CatalogStoreTest, OpeningAnOlderProgramsCatalogWritesNothing) {
  {
    SQLite::Database older(path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    older.exec(kTablesOfAnOlderProgram);
    older.exec("PRAGMA journal_mode=WAL; PRAGMA user_version=2");
  }
  const auto open = Open();
  EXPECT_EQ(std::filesystem::file_size(path() + "-wal"), 0u);
  EXPECT_THAT(ReadyIds(*open), IsEmpty());
}

TEST_F(CatalogStoreTest, ANewerSchemaIsRefusedAndLeftAlone) {
  Open();
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version=7");
  const absl::Status status = CatalogStore::Open(path()).status();
  ASSERT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr(path()), HasSubstr("version 7"), HasSubstr("knows 2")));
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

TEST_F(CatalogStoreTest, PathsThatCannotBeAreErrorsWithThePath) {
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
}  // namespace mooring

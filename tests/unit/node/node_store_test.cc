#include "plugin/node/uses/node_store.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

VolumeUse Use(const std::string& path, const std::string& volume = "vol-a") {
  VolumeUse use;
  use.path = path;
  use.volume_id = volume;
  use.role = VolumeUse::Role::kStage;
  use.done = true;
  use.access_type = AccessType::kBlock;
  use.mode = AccessMode::kSingleNodeMultiWriter;
  use.read_only = true;
  use.capability = "block SINGLE_NODE_MULTI_WRITER";
  use.options = "discard,commit=30";
  use.device = "/dev/loop3";
  return use;
}

class NodeStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<NodeStore> Open(const std::string& boot = "boot-1") { return NodeStore::Open(file_, boot).value(); }

  static std::vector<VolumeUse> OfVolume(NodeStore& store, const std::string& id) { return store.OfVolume(id).value(); }

  static VolumeUse SlaveUse(const std::string& path) {
    VolumeUse use = Use(path);
    use.asked_propagation = use.propagation = Propagation::kSlave;
    return use;
  }

  TempDir dir_;
  const std::string file_ = dir_ / "node.db";
};

TEST_F(NodeStoreTest, RecordIsReadAsWritten) {
  ASSERT_OK(Open()->Put(Use("/s")));
  EXPECT_EQ(Open()->Get("/s").value(), Use("/s"));
}

TEST_F(NodeStoreTest, PathHasOneRecord) {
  const auto store = Open();
  ASSERT_OK(store->Put(Use("/s")));
  ASSERT_OK(store->Put(Use("/s", "vol-b")));
  EXPECT_THAT(store->All().value(), SizeIs(1));
  EXPECT_EQ(store->Get("/s").value()->volume_id, "vol-b");
}

TEST_F(NodeStoreTest, MissingRecordIsNoError) {
  const auto store = Open();
  EXPECT_EQ(store->Get("/none").value(), std::nullopt);
  EXPECT_THAT(store->OfVolume("vol-none").value(), IsEmpty());
  EXPECT_THAT(store->All().value(), IsEmpty());
  EXPECT_OK(store->Delete("/none"));
}

TEST_F(NodeStoreTest, RecordsOfVolumeAreOrderedByPath) {
  const auto store = Open();
  for (const char* path : {"/b", "/c", "/a"}) ASSERT_OK(store->Put(Use(path)));
  ASSERT_OK(store->Put(Use("/d", "vol-b")));
  std::string paths;
  for (const VolumeUse& use : OfVolume(*store, "vol-a")) paths += use.path;
  EXPECT_EQ(paths, "/a/b/c");
  ASSERT_OK(store->Delete("/b"));
  EXPECT_THAT(OfVolume(*store, "vol-a"), SizeIs(2));
}

TEST_F(NodeStoreTest, UnusualNamesAreOnlyText) {
  const auto store = Open();
  const std::string name = "/x'; DROP TABLE uses; --\xF0\x9F\x92\xBE \"%_";
  ASSERT_OK(store->Put(Use(name, name)));
  EXPECT_EQ(store->Get(name).value()->volume_id, name);
  EXPECT_THAT(store->OfVolume(name).value(), SizeIs(1));
}

TEST_F(NodeStoreTest, OnlyAnotherBootDeletesRecords) {
  ASSERT_OK(Open()->Put(Use("/s")));
  EXPECT_THAT(Open("boot-1")->All().value(), SizeIs(1));
  EXPECT_THAT(Open("boot-2")->All().value(), IsEmpty());
  EXPECT_THAT(Open("boot-1")->All().value(), IsEmpty()) << "boots do not come back";
}

TEST_F(NodeStoreTest, TwoProcessesSeeEachOthersRecords) {
  const auto first = Open(), second = Open();
  ASSERT_OK(first->Put(Use("/s")));
  EXPECT_TRUE(second->Get("/s").value().has_value());
  ASSERT_OK(second->Delete("/s"));
  EXPECT_FALSE(first->Get("/s").value().has_value());
}

TEST_F(NodeStoreTest, ThreadsOfTwoProcessesWriteConcurrently) {
  const auto first = Open(), second = Open();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&store = i % 2 == 0 ? *first : *second, i] {
      for (int n = 0; n < 25; ++n) {
        const std::string path = "/" + std::to_string(i) + "/" + std::to_string(n);
        EXPECT_OK(store.Put(Use(path)));
        EXPECT_TRUE(store.Get(path).value().has_value());
        if (n % 2 == 0) {
          EXPECT_OK(store.Delete(path));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(first->All().value(), SizeIs(8 * 12));
}

// The records can be made again from the mounts, so a damaged file never stops the start.
class DamagedNodeStoreTest : public NodeStoreTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::vector<std::string> SetAside() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      std::string name = entry.path().filename();
      if (name.starts_with("node.db.damaged-") && !name.ends_with("-wal") && !name.ends_with("-shm")) {
        names.push_back(std::move(name));
      }
    }
    return names;
  }

  // `how` names the damage.
  void Damage(const std::string& how) {
    for (const char* beside : {"-wal", "-shm"}) std::filesystem::remove(file_ + beside);
    if (how == "NoDatabase") std::ofstream(file_) << std::string(4096, 'x');
    if (how == "Truncated") std::filesystem::resize_file(file_, 5000);
    if (how == "Empty") std::filesystem::resize_file(file_, 0);
    if (how == "MalformedPage") {
      std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(8192);
      file << std::string(8192, '\xEE');
    }
    if (how == "UnreadableSchema") SQLite::Database(file_, SQLite::OPEN_READWRITE).exec("DROP TABLE uses");
  }
};

TEST_P(DamagedNodeStoreTest, DamagedFileIsSetAside) {
  for (int i = 0; i < 200; ++i) ASSERT_OK(Open()->Put(Use("/s" + std::to_string(i))));
  SQLite::Database(file_, SQLite::OPEN_READWRITE).exec("PRAGMA wal_checkpoint(TRUNCATE)");
  Damage(GetParam());
  const auto store = NodeStore::Open(file_, "boot-1");
  ASSERT_OK(store);
  EXPECT_THAT((*store)->All().value(), IsEmpty());
  EXPECT_OK((*store)->Put(Use("/again")));
  EXPECT_THAT(SetAside(), SizeIs(GetParam() == std::string("Empty") ? 0 : 1)) << "a file of 0 bytes holds nothing";
}

INSTANTIATE_TEST_SUITE_P(All, DamagedNodeStoreTest,
                         ::testing::Values("NoDatabase", "Truncated", "Empty", "MalformedPage", "UnreadableSchema"),
                         [](const auto& test) { return std::string(test.param); });

TEST_F(DamagedNodeStoreTest, FewDamagedFilesAreKept) {
  for (int i = 0; i < 6; ++i) {
    std::ofstream(file_) << std::string(4096, 'x');
    ASSERT_OK(NodeStore::Open(file_, "boot-1"));
  }
  EXPECT_THAT(SetAside(), SizeIs(3));
}

TEST_F(NodeStoreTest, MissingDirectoryIsNamed) {
  EXPECT_THAT(NodeStore::Open(dir_ / "missing/node.db", "boot-1"), FailsWith(StatusCode::kNotFound, "missing/node.db"));
}

TEST_F(NodeStoreTest, FileWithOtherSchemaVersionStaysUnchanged) {
  ASSERT_OK(Open()->Put(Use("/s")));
  SQLite::Database(file_, SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 99");
  EXPECT_THAT(NodeStore::Open(file_, "boot-2"), FailsWith(StatusCode::kFailedPrecondition, "schema version 99"));
  EXPECT_THAT(NodeStore::Open(file_, "boot-2"), FailsWith(StatusCode::kFailedPrecondition, "remove the file"));
  SQLite::Database(file_, SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 1");
  EXPECT_THAT(Open("boot-1")->All().value(), SizeIs(1));
}

TEST_F(NodeStoreTest, PropagationIsStoredWithItsRecord) {
  const auto store = Open();
  ASSERT_OK(store->Put(SlaveUse("/t")));
  EXPECT_EQ(Open()->Get("/t").value(), SlaveUse("/t"));
  ASSERT_OK(store->Put(Use("/t")));
  EXPECT_EQ(store->Get("/t").value(), Use("/t"));
}

TEST_F(NodeStoreTest, OpeningExistingFileWritesNothing) {
  ASSERT_OK(Open()->Put(Use("/s")));
  const auto first = Open();
  const auto before = std::filesystem::file_size(file_ + "-wal");
  EXPECT_THAT(Open()->All().value(), SizeIs(1));
  EXPECT_EQ(std::filesystem::file_size(file_ + "-wal"), before);
}

// SQLite would apply a -wal with content to a copy of the database that is put back.
TEST_F(NodeStoreTest, OtherFilesStayAndLogIsEmpty) {
  ASSERT_OK(Open()->Put(Use("/s")));
  EXPECT_EQ(std::filesystem::file_size(file_ + "-wal"), 0u);
  EXPECT_EQ(std::filesystem::file_size(file_ + "-shm"), 32768u);
}

TEST_F(NodeStoreTest, FileLockedByAnotherProcessIsAborted) {
  const auto store = Open();
  SQLite::Database other(file_, SQLite::OPEN_READWRITE);
  SQLite::Transaction transaction(other, SQLite::TransactionBehavior::IMMEDIATE);
  EXPECT_THAT(store->Put(Use("/s")), FailsWith(StatusCode::kAborted, "another process"));
}

TEST_F(NodeStoreTest, NextCallWorksAfterError) {
  const auto store = Open();
  SQLite::Database other(file_, SQLite::OPEN_READWRITE);
  other.exec("ALTER TABLE uses RENAME TO away");
  EXPECT_THAT(store->Put(Use("/s")), FailsWith(StatusCode::kInternal, "node.db"));
  EXPECT_THAT(store->All(), FailsWith(StatusCode::kInternal, "node.db"));
  other.exec("ALTER TABLE away RENAME TO uses");
  EXPECT_OK(store->Put(Use("/s")));
  EXPECT_THAT(store->All().value(), SizeIs(1));
}

}  // namespace
}  // namespace mooring::testing

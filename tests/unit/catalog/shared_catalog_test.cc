// The records of a shared pool: two hosts have a catalog each, and the file of the pool in common.
#include <SQLiteCpp/SQLiteCpp.h>

#include "plugin/catalog/catalog_locks.h"
#include "plugin/catalog/store/catalog_files.h"
#include "plugin/catalog/store/shared_nodes.h"
#include "plugin/catalog/store/snapshot_store.h"
#include "plugin/model/volume_id.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

using ::testing::ElementsAre, ::testing::UnorderedElementsAre;

class SharedCatalog : public ::testing::Test {
 protected:
  struct Host {
    std::unique_ptr<CatalogStore> volumes;
    std::string tag;
  };
  Host Start(const std::string& name, const std::string& pool = "nfs") {
    Host host = {.volumes = *CatalogStore::Open(directory_ + "/" + name), .tag = ""};
    const auto tag = host.volumes->files()->AddShared(shared(), pool, [] { return absl::OkStatus(); });
    EXPECT_OK(tag);
    host.tag = tag.value_or("");
    return host;
  }
  static std::string Put(const Host& host, const std::string& name, const std::string& tag) {
    const VolumeRecord volume = {.id = NewVolumeId(tag),
                                 .name = name,
                                 .state = VolumeState::kReady,
                                 .bytes = 4096,
                                 .fs_type = "ext4",
                                 .pool = tag.empty() ? "default" : "nfs"};
    EXPECT_TRUE(*host.volumes->Insert(volume));
    return volume.id;
  }
  static std::vector<std::string> Ids(const Host& host, std::int64_t after, std::size_t most, std::int64_t* last) {
    std::vector<std::string> ids;
    const std::vector<ListedVolume> page = *host.volumes->ListReady(after, most);
    for (const ListedVolume& listed : page) {
      ids.push_back(listed.volume.id);
      *last = listed.volume.seq;
    }
    return ids;
  }
  std::string shared() const { return directory_ + "/shared.db"; }

  const TempDir scratch_;
  const std::string directory_ = scratch_.path();
};

TEST_F(SharedCatalog, OneHostSeesWhatTheOtherWrites) {
  const Host here = Start("here"), there = Start("there");
  EXPECT_EQ(here.tag, there.tag);
  const std::string id = Put(here, "a", here.tag);
  EXPECT_EQ((*there.volumes->FindById(id))->name, "a");
  EXPECT_EQ((*there.volumes->FindByName("a", there.tag))->id, id);
  EXPECT_EQ(*there.volumes->BytesIn("nfs"), 4096U);
  EXPECT_TRUE(*there.volumes->Move(id, VolumeState::kReady, VolumeState::kDeleting));
  EXPECT_FALSE(*here.volumes->Move(id, VolumeState::kReady, VolumeState::kDeleting));
  ASSERT_OK(here.volumes->Delete(id));
  EXPECT_FALSE(*there.volumes->FindById(id));
}

TEST_F(SharedCatalog, ANameIsOfOneFile) {
  const Host here = Start("here"), there = Start("there");
  const std::string local = Put(here, "a", ""), shared = Put(here, "a", here.tag);
  EXPECT_EQ((*here.volumes->FindByName("a"))->id, local);
  EXPECT_EQ((*here.volumes->FindByName("a", here.tag))->id, shared);
  EXPECT_FALSE(*there.volumes->FindByName("a"));
  EXPECT_FALSE(*there.volumes->FindById(local));
}

TEST_F(SharedCatalog, PagesGoOnInTheNextFile) {
  const Host here = Start("here");
  const std::vector<std::string> all = {Put(here, "a", ""), Put(here, "b", ""), Put(here, "c", here.tag),
                                        Put(here, "d", here.tag)};
  for (std::size_t most = 1; most <= all.size() + 1; ++most) {
    std::vector<std::string> seen;
    std::int64_t after = 0;
    for (;;) {
      const std::vector<std::string> page = Ids(here, after, most, &after);
      EXPECT_LE(page.size(), most);
      if (page.empty()) break;
      seen.insert(seen.end(), page.begin(), page.end());
    }
    EXPECT_EQ(seen, all) << "pages of " << most;
  }
}

TEST_F(SharedCatalog, SnapshotsAreBesideTheirVolumes) {
  const Host here = Start("here"), there = Start("there");
  SnapshotStore snapshots(here.volumes->files()), others(there.volumes->files());
  SnapshotRecord record;
  record.id = NewSnapshotId(here.tag);
  record.name = "s";
  record.pool = "nfs";
  record.state = SnapshotState::kReady;
  ASSERT_TRUE(*snapshots.Insert(record));
  EXPECT_EQ((*others.FindByName("s", there.tag))->id, record.id);
  EXPECT_FALSE(*others.FindByName("s"));
  EXPECT_EQ(others.ListReady({.most = 10})->size(), 1U);
  EXPECT_EQ(others.ListReady({.most = 10, .id = record.id})->size(), 1U);
  EXPECT_THAT(*others.AllIds(), ElementsAre(record.id));
}

TEST_F(SharedCatalog, NodesAreThoseOfThePool) {
  const Host here = Start("here"), there = Start("there");
  const std::string id = Put(here, "a", here.tag);
  CatalogDatabase& records = **here.volumes->files()->OfPool("nfs");
  ASSERT_OK(SharedNodes::Put(records, {.id = "n1", .max_volumes = 3}));
  ASSERT_OK(SharedNodes::Put(records, {.id = "n1", .max_volumes = 4}));
  SharedNodes nodes(there.volumes->files());
  EXPECT_EQ((*nodes.Find(id, "n1"))->max_volumes, 4);
  EXPECT_FALSE(*nodes.Find(id, "n2"));
}

TEST_F(SharedCatalog, AnUnknownPoolIsNoUnknownVolume) {
  const Host here = Start("here");
  const std::string stranger = NewVolumeId("0123abcd");
  for (const absl::Status& status : {here.volumes->FindById(stranger).status(), here.volumes->Delete(stranger)}) {
    EXPECT_THAT(status, FailsWith(StatusCode::kFailedPrecondition, "0123abcd"));
  }
}

TEST_F(SharedCatalog, OtherNameAndLostCatalogAreRefused) {
  Start("here");
  const auto store = *CatalogStore::Open(directory_ + "/there");
  const auto lost = [] { return absl::FailedPreconditionError("images"); };
  EXPECT_OK(store->files()->AddShared(shared(), "nfs", lost)) << "it is there";
  EXPECT_THAT(store->files()->AddShared(shared(), "other", lost).status(),
              FailsWith(StatusCode::kFailedPrecondition, "nfs"));
  EXPECT_THAT(store->files()->AddShared(directory_ + "/new", "new", lost).status(),
              FailsWith(StatusCode::kFailedPrecondition, "images"));
}

TEST_F(SharedCatalog, APoolThatWasHereIsNotBegunAnew) {
  const std::string elsewhere = directory_ + "/elsewhere.db";
  const auto store = *CatalogStore::Open(directory_ + "/here");
  CatalogFiles& files = *store->files();
  EXPECT_OK(files.CheckBegins(shared(), "nfs")) << "the first start";
  Start("here");
  const auto may_begin = [&] { return files.CheckBegins(elsewhere, "nfs"); };
  EXPECT_THAT(files.AddShared(elsewhere, "nfs", may_begin).status(),
              FailsWith(StatusCode::kFailedPrecondition, "may not be mounted"));
  EXPECT_OK(files.CheckBegins(elsewhere, "other"));
  const std::string other = Start("there", "nfs").tag;
  std::filesystem::remove(shared());
  EXPECT_NE(Start("third", "nfs").tag, other);
  EXPECT_OK(files.AddShared(shared(), "nfs", may_begin).status()) << "other records are there";
}

// WAL needs memory that all processes share, which hosts do not have.
TEST_F(SharedCatalog, HasARollbackJournal) {
  const Host here = Start("here");
  Put(here, "a", here.tag);
  SQLite::Database database(shared());
  EXPECT_EQ(database.execAndGet("PRAGMA journal_mode").getString(), "delete");
  EXPECT_FALSE(std::filesystem::exists(shared() + "-wal"));
}

TEST(SharedPoolIds, CarryTheTagOfTheirPool) {
  for (const std::string& id : {NewVolumeId("0123abcd"), NewSnapshotId("0123abcd"), NewGroupId("0123abcd")}) {
    EXPECT_EQ(TagOfId(id), "0123abcd") << id;
    EXPECT_TRUE(IsVolumeId(id) || IsSnapshotId(id) || IsGroupId(id)) << id;
    EXPECT_EQ(TagOfKey(id), "0123abcd");
  }
  const std::string half(24, '0');
  for (const std::string& id : {NewVolumeId(), std::string("vol-0123abcd"), "vol-0123abcX-" + half,
                                "vol-0123abc-0" + half, "x-0123abcd-" + half, std::string()}) {
    EXPECT_EQ(TagOfId(id), "") << id;
  }
  EXPECT_FALSE(IsVolumeId("vol-0123abcd-" + half + "0"));
  EXPECT_EQ(TagOfKey(KeyIn("0123abcd", "name:x")), "0123abcd");
  EXPECT_EQ(TagOfKey(KeyIn("", "name:pool 0123abcd: ")), "") << "names come from outside";
}

}  // namespace
}  // namespace mooring::testing

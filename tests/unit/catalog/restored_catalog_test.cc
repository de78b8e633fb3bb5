// An administrator puts back a copy of catalog.db that was taken during a call. The images are newer than the copy.
#include <SQLiteCpp/SQLiteCpp.h>

#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::testing {
namespace {

constexpr char kWritten[] = "written after the catalog was copied";

class RestoredCatalogTest : public VolumeCatalogTest {
 protected:
  std::string File() const { return directory_ + "/catalog.db"; }

  // Copies the catalog as `sqlite3 catalog.db ".backup old.db"` does beside a running plugin.
  HookedBackend::Hook CopyingAt(const std::string& operation) {
    return [this, operation](const std::string& what) {
      if (what != operation || std::filesystem::exists(directory_ + "/old.db")) return absl::OkStatus();
      SQLite::Database(File(), SQLite::OPEN_READWRITE).exec("VACUUM INTO '" + directory_ + "/old.db'");
      return absl::OkStatus();
    };
  }

  void Write(const std::string& id) {
    std::fstream(Image(id), std::ios::in | std::ios::out | std::ios::binary) << kWritten;
  }

  void StartWithTheCopy() {
    process_.reset();
    for (const char* beside : {"-wal", "-shm"}) std::filesystem::remove(File() + beside);
    std::filesystem::rename(directory_ + "/old.db", File());
  }
  void Reconcile() {
    EXPECT_OK(here().snapshots.Reconcile());
    EXPECT_OK(catalog().Reconcile());
  }
  void ExpectThere(const std::string& id) {
    EXPECT_EQ(ReadAll(Image(id)).substr(0, sizeof(kWritten) - 1), kWritten);
    EXPECT_OK(catalog().Find(id));
    EXPECT_THAT(Listed(), Contains(id));
    ExpectConsistent();
  }
};

TEST_F(RestoredCatalogTest, AnUnfinishedVolumeIsKeptWithItsData) {
  here().backend.before = CopyingAt("create");
  const std::string id = Created("db");
  Write(id);
  StartWithTheCopy();
  Reconcile();
  ExpectThere(id);
  EXPECT_EQ(Created("db"), id);
}

TEST_F(RestoredCatalogTest, AnUnfinishedCopyIsKeptWithItsData) {
  const std::string source = Created("db");
  here().backend.before = CopyingAt("copy");
  const auto copy = catalog().Create(CopySpec("copy", OfVolume(source)), Patient());
  ASSERT_OK(copy);
  Write(copy->id);
  StartWithTheCopy();
  Reconcile();
  ExpectThere(copy->id);
}

TEST_F(RestoredCatalogTest, AHalfDeletedVolumeIsKeptWithItsData) {
  const std::string id = Created("db");
  here().backend.before = [&, copy = CopyingAt("delete")](const std::string& what) {
    copy(what).IgnoreError();
    return Internal("the disk was away");
  };
  EXPECT_FALSE(catalog().Delete(id, Patient()).ok());
  Write(id);
  StartWithTheCopy();
  Reconcile();
  ExpectThere(id);
  EXPECT_OK(catalog().Delete(id, Patient())) << "the orchestrator asks again";
  EXPECT_THAT(Files(), ::testing::IsEmpty());
}

TEST_F(RestoredCatalogTest, CreatingThatNameAgainDeletesNoData) {
  here().backend.before = CopyingAt("create");
  const std::string id = Created("db");
  Write(id);
  StartWithTheCopy();  // and another process held the name while this one reconciled
  const absl::Status other = catalog().Create(Spec("db", {.required = 64 * kMiB, .limit = 0}), Patient()).status();
  EXPECT_THAT(other, FailsWith(StatusCode::kAlreadyExists, "16 MiB"));
  ExpectThere(id);
}

TEST_F(RestoredCatalogTest, AnUnfinishedOrHalfDeletedSnapshotIsKept) {
  for (const std::string operation : {"copy", "delete"}) {
    const std::string volume = Created("db" + operation);
    here().backend.before = [&, copy = CopyingAt(operation)](const std::string& what) {
      copy(what).IgnoreError();
      return what == "delete" ? Internal("the disk was away") : absl::OkStatus();
    };
    const std::string id = Snapped("s" + operation, volume);
    if (operation == "delete") {
      EXPECT_FALSE(here().snapshots.Delete(id, Patient()).ok());
    }
    StartWithTheCopy();
    Reconcile();
    EXPECT_OK(here().snapshots.Get(id)) << operation;
    EXPECT_TRUE(std::filesystem::exists(Image(id))) << operation;
    ExpectConsistent();
  }
}

}  // namespace
}  // namespace mooring::testing

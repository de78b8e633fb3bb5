// Databases of the plugin that are damaged, missing, or older than the images.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class DamagedState : public RpcTest {
 protected:
  std::string Catalog() const { return state_dir() + "/catalog.db"; }

  void RemoveCatalog() {
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(Catalog() + suffix);
  }

  std::string StagedAndWritten() {
    const std::string id = Staged();
    EXPECT_EQ(TryWrite(Staging(id) + "/file", "data"), 0);
    return id;
  }

  void ExpectRefusedStart() {
    const std::size_t before = plugin().Log().size();
    plugin().Launch();
    EXPECT_EQ(plugin().Wait(), 1);
    EXPECT_THAT(plugin().Log().substr(before), AllOf(HasSubstr(Catalog()), HasSubstr("docs/backup.md"),
                                                     HasSubstr(state_dir() + "/volumes"), HasSubstr("move")));
  }
};

TEST_F(DamagedState, DamagedNodeDatabaseIsRebuiltFromTheMounts) {
  const std::string id = StagedAndWritten(), target = Target("a", id);
  ASSERT_OK(driver().Publish(id, Staging(id), target));
  plugin().Kill();
  ForgetRecords();
  std::ofstream(state_dir() + "/node.db") << std::string(8192, 'x');
  Start();
  EXPECT_THAT(plugin().Log(), HasSubstr("node.db.damaged-"));
  EXPECT_OK(driver().Publish(id, Staging(id), target));
  EXPECT_OK(driver().Stats(id, target));
  UnpublishAndUnstage(id, target);
}

TEST_F(DamagedState, MissingOrEmptyCatalogBesideImagesStopsTheStart) {
  const std::string id = Created();
  StopPlugin();
  fs::rename(Catalog(), dir() / "backup.db");
  RemoveCatalog();
  ExpectRefusedStart();
  RemoveCatalog();
  std::ofstream(Catalog()).close();
  ExpectRefusedStart();
  ExpectRefusedStart();  // the file that the refused start has made
  EXPECT_TRUE(fs::exists(Image(id)));
  RemoveCatalog();
  fs::rename(dir() / "backup.db", Catalog());
  Start();
  EXPECT_OK(driver().Stage(id, Staging(id)));
}

TEST_F(DamagedState, StartSucceedsWithoutCatalogAndVolumes) {
  const std::string id = Created();
  StopPlugin();
  RemoveCatalog();
  fs::rename(state_dir() + "/volumes", dir() / "moved");
  Start();
  EXPECT_TRUE(driver().List()->entries().empty());
  driver().TakeDone();
}

TEST_F(DamagedState, InterruptedFirstStartIsNoDamage) {
  StopPlugin();
  RemoveCatalog();
  std::ofstream(Catalog()).close();
  Start();
  EXPECT_FALSE(Created().empty());
}

// The catalog was restored from an older backup.
TEST_F(DamagedState, OldCatalogDeletesNoData) {
  for (const std::string state : {"creating", "deleting"}) {
    const std::string id = StagedAndWritten();
    ASSERT_OK(driver().Unstage(id, Staging(id)));
    ExpectNoLoops();
    StopPlugin();
    Rows(Catalog(), "UPDATE volumes SET state = '" + state + "' WHERE id = '" + id + "'");
    Start();
    ASSERT_OK(driver().Stage(id, Staging(id))) << state;
    EXPECT_EQ(ReadFile(Staging(id) + "/file").substr(0, 4), "data");
    ASSERT_OK(driver().Unstage(id, Staging(id)));
  }
}

}  // namespace
}  // namespace mooring::testing

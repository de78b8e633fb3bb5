// The plugin's databases, damaged or older than what lies beside them.
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class DamagedState : public RpcTest {
 protected:
  std::string Catalog() const { return state_dir() + "/catalog.db"; }

  void RemoveCatalog() {
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(Catalog() + suffix);
  }

  std::string StagedAndWritten() {
    const std::string id = Created();
    EXPECT_OK(driver().Stage(id, Staging(id)));
    EXPECT_EQ(TryWrite(Staging(id) + "/file", "data"), 0);
    return id;
  }

  void Stop() {
    driver().Disconnect();
    EXPECT_EQ(plugin().Terminate(), 0);
  }

  void ExpectRefusedStart() {
    const std::size_t before = plugin().Log().size();
    plugin().Launch();
    EXPECT_EQ(plugin().Wait(), 1);
    EXPECT_THAT(plugin().Log().substr(before), AllOf(HasSubstr(Catalog()), HasSubstr("docs/backup.md"),
                                                     HasSubstr(state_dir() + "/volumes"), HasSubstr("move")));
  }
};

TEST_F(DamagedState, ADamagedNodeDatabaseIsBuiltAnewFromTheMounts) {
  const std::string id = StagedAndWritten(), target = Target("a", id);
  ASSERT_OK(driver().Publish(id, Staging(id), target));
  plugin().Kill();
  ForgetRecords();
  std::ofstream(state_dir() + "/node.db") << std::string(8192, 'x');
  Start();
  EXPECT_THAT(plugin().Log(), HasSubstr("node.db.damaged-"));
  EXPECT_OK(driver().Publish(id, Staging(id), target));
  EXPECT_OK(driver().Stats(id, target));
  EXPECT_OK(driver().Unpublish(id, target));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
}

TEST_F(DamagedState, AnEmptyOrMissingCatalogBesideImagesStopsTheStart) {
  const std::string id = Created();
  Stop();
  fs::rename(Catalog(), dir() / "backup.db");
  RemoveCatalog();
  ExpectRefusedStart();
  RemoveCatalog();
  std::ofstream(Catalog()).close();
  ExpectRefusedStart();
  ExpectRefusedStart();  // what the refused start has made of it counts no more
  EXPECT_TRUE(fs::exists(Image(id)));
  RemoveCatalog();
  fs::rename(dir() / "backup.db", Catalog());
  Start();
  EXPECT_OK(driver().Stage(id, Staging(id)));
}

TEST_F(DamagedState, WithItsVolumesMovedAwayThePluginBeginsAnew) {
  const std::string id = Created();
  Stop();
  RemoveCatalog();
  fs::rename(state_dir() + "/volumes", dir() / "moved");
  Start();
  EXPECT_TRUE(driver().List()->entries().empty());
  driver().TakeDone();
}

TEST_F(DamagedState, AFirstStartThatWasCutShortIsNoDamage) {
  Stop();
  RemoveCatalog();
  std::ofstream(Catalog()).close();
  Start();
  EXPECT_FALSE(Created().empty());
}

// An older catalog was put back.
TEST_F(DamagedState, AVolumeThatIsCreatedOrDeletedOnRecordKeepsItsData) {
  for (const std::string state : {"creating", "deleting"}) {
    const std::string id = StagedAndWritten();
    ASSERT_OK(driver().Unstage(id, Staging(id)));
    ASSERT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
    Stop();
    Rows(Catalog(), "UPDATE volumes SET state = '" + state + "' WHERE id = '" + id + "'");
    Start();
    ASSERT_OK(driver().Stage(id, Staging(id))) << state;
    EXPECT_EQ(ReadFile(Staging(id) + "/file").substr(0, 4), "data");
    ASSERT_OK(driver().Unstage(id, Staging(id)));
  }
}

}  // namespace
}  // namespace mooring::testing

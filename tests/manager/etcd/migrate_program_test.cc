// mooring-manager migrate with a real etcd.
#include "manager/host_setup.h"
#include "manager/migrate/program.h"
#include "manager/state/keys.h"
#include "manager/state/records_store.h"
#include "tests/manager/etcd/etcd_store.h"
#include "tests/manager/state/sample_records.h"
#include "tests/manager/state/state_fixture.h"

namespace mooring::manager {
namespace {

using samples::SampleVolume;

class MigrateProgramTest : public ::testing::Test {
 protected:
  MigrateProgramTest() {
    EtcdSettings settings = NewSettings(SharedCluster());
    to_etcd_.manager.state_dir = directory_ / "state";
    to_etcd_.manager.host = "host-1";
    to_etcd_.manager.etcd = settings;
    to_sqlite_ = to_etcd_;
    to_sqlite_.to_shared = false;
    fs::create_directory(to_etcd_.manager.state_dir);
    fs::permissions(to_etcd_.manager.state_dir, fs::perms::owner_all);
    Volume volume = SampleVolume("db");
    volume.secrets = {};
    volume.has_secrets = false;
    volume.mount_options.flags.clear();
    EXPECT_OK(RecordsStore(*Local()).PutVolume(volume));
  }

  std::unique_ptr<State> Local() const {
    auto local = OpenLocalState(to_etcd_.manager.state_dir);
    EXPECT_OK(local);
    return *std::move(local);
  }

  // As the manager does at its start.
  absl::Status Start(bool with_etcd) const {
    Config config = to_etcd_.manager;
    if (!with_etcd) config.etcd.reset();
    const auto local = Local();
    return OpenSharedState(config, *local).status();
  }

  TempDir directory_;
  MigrateConfig to_etcd_, to_sqlite_;
};

TEST_F(MigrateProgramTest, ManagerStartsOnlyWithTheStateThatHasTheRecords) {
  EXPECT_OK(Start(false));
  EXPECT_THAT(Start(true), FailsWith(Code::kFailedPrecondition, "mooring manager migrate --to etcd://"));
  const auto moved = Migrate(to_etcd_);
  ASSERT_OK(moved);
  EXPECT_EQ(*moved, "moved 1 volumes and 0 claims to " + SharedCluster().endpoints());
  EXPECT_OK(Start(true));
  EXPECT_THAT(Start(false), FailsWith(Code::kFailedPrecondition, "mooring manager migrate --to sqlite"));
  to_sqlite_.json = true;
  EXPECT_EQ(*Migrate(to_sqlite_), R"({"volumes":1,"claims":0})");
  EXPECT_OK(Start(false));
  EXPECT_OK(Migrate(to_sqlite_)) << "there is nothing left to move";
}

// The lease of the move is still there.
TEST_F(MigrateProgramTest, ManagerHasItsLeaseAtOnceAfterAMove) {
  ASSERT_OK(Migrate(to_etcd_));
  const auto local = Local();
  const auto shared = OpenSharedState(to_etcd_.manager, *local);
  ASSERT_OK(shared);
  EXPECT_NE((*shared)->lease().Number(), 0);
}

TEST_F(MigrateProgramTest, RunningManagerIsAnError) {
  const auto running = Local();
  EXPECT_THAT(Migrate(to_etcd_), FailsWith(Code::kFailedPrecondition, "another manager has the state"));
}

TEST_F(MigrateProgramTest, SecretsWithoutAKeyChangeNothing) {
  EXPECT_OK(RecordsStore(*Local()).PutVolume(SampleVolume("secret")));
  EXPECT_THAT(Migrate(to_etcd_), FailsWith(Code::kFailedPrecondition, "--etcd-secrets-key"));
  EXPECT_OK(Start(false));
}

TEST_F(MigrateProgramTest, WrongDirectoryMakesNoState) {
  to_etcd_.manager.state_dir = directory_ / "other";
  fs::create_directory(to_etcd_.manager.state_dir);
  EXPECT_THAT(Migrate(to_etcd_), FailsWith(Code::kFailedPrecondition, "correct --state-dir"));
  EXPECT_FALSE(fs::exists(directory_ / "other/state.db"));
}

TEST_F(MigrateProgramTest, UnreachableEtcdChangesNothing) {
  to_etcd_.manager.etcd->connection.endpoints = "etcd://127.0.0.1:1";
  to_etcd_.manager.etcd->connection.try_timeout = milliseconds(100);
  EXPECT_THAT(Migrate(to_etcd_), FailsWith(Code::kUnavailable, "127.0.0.1:1"));
  EXPECT_OK(Start(false));
}

TEST_F(MigrateProgramTest, InterruptedMoveKeepsTheManagerFromStarting) {
  ASSERT_OK(Local()->Commit(Put(MoveNoteKey("host-1"), "to-shared 1234")));
  EXPECT_THAT(Start(false), FailsWith(Code::kFailedPrecondition, "to the shared state 1234 was interrupted"));
  EXPECT_THAT(Start(true), FailsWith(Code::kFailedPrecondition, "to the shared state 1234 was interrupted"));
}

}  // namespace
}  // namespace mooring::manager

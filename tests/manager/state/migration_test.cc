// Moves of volumes, secrets and claims between a local state and the state that the test program links (SQLite or
// etcd).
#include "manager/migrate/migration.h"

#include "manager/docker/docker_record.h"
#include "manager/state/keys.h"
#include "manager/state/records_store.h"
#include "manager/state/sqlite_state.h"
#include "tests/fakes/dying_state.h"
#include "tests/manager/state/sample_records.h"
#include "tests/manager/state/state_fixture.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::DyingState;
using samples::SampleClaim;
using samples::SampleVolume;

Volume VolumeNamed(const std::string& id, const std::string& ns = "prod") {
  Volume volume = SampleVolume(id);
  volume.key.ns = ns;
  volume.name = volume.external_id = ns + "-" + id;
  return volume;
}

class MigrationTest : public ::testing::Test {
 protected:
  MigrationTest() {
    OpenStates();
    if ((*shared_->Get(ClusterKey())).has_value()) return;
    EXPECT_OK(shared_->Commit(Put(ClusterKey(), "cluster-1")));
  }

  void OpenStates() {
    auto local = OpenSqliteState(directory_ / "local.db");
    ASSERT_OK(local);
    local_ = *std::move(local);
    shared_ = store_->Open();
    ASSERT_NE(shared_, nullptr);
  }

  MoveEnds Ends() { return {.local = *local_, .shared = *shared_, .host = "host-1"}; }

  // A volume with many claims needs several transactions.
  void Fill(int volumes = 60, int claims_of_first = 230) {
    RecordsStore store(*local_);
    for (int i = 0; i < volumes; ++i) {
      const std::string id = "v" + std::to_string(i);
      ASSERT_OK(store.Commit(Changes().Put(VolumeNamed(id)).Put(SampleClaim(id))));
    }
    for (int i = 0; i < claims_of_first; ++i) {
      ASSERT_OK(store.Commit(Changes().Put(SampleClaim("v0", "task-" + std::to_string(i))).With(Durability::kOrdered)));
    }
    ASSERT_OK(store.Commit(Changes().Put(samples::SampleSnapshot())));
    const auto docker = store.PutVolume(VolumeNamed("web", kDockerNamespace));
    ASSERT_OK(docker);
    ASSERT_OK(StoreDockerRecord(*local_, "host-1", *docker, {.read_only = true, .propagation = Propagation::kSlave}));
  }

  static std::map<std::string, std::string> ValuesIn(State& state) {
    std::map<std::string, std::string> values;
    for (const std::string& prefix : {VolumesPrefix(), SecretsPrefix(), SnapshotsPrefix(), ClaimsPrefix()}) {
      const auto listing = state.List(prefix);
      EXPECT_OK(listing);
      for (const KeyValue& value : listing->values) values[value.key] = value.value;
    }
    return values;
  }

  std::string Joined() {
    const auto found = *local_->Get(JoinedClusterKey("host-1"));
    return found ? found->value : "";
  }

  void ExpectDockerRecord(State& volumes_in) {
    const auto volume = RecordsStore(volumes_in, *local_).GetVolume({.ns = kDockerNamespace, .id = "web"});
    ASSERT_OK(volume);
    const auto record = LoadDockerRecord(*local_, "host-1", *volume);
    ASSERT_OK(record);
    EXPECT_TRUE(record->read_only);
    EXPECT_EQ(record->propagation, Propagation::kSlave);
  }

  void ExpectMoved(const std::map<std::string, std::string>& all) {
    EXPECT_EQ(ValuesIn(*shared_), all);
    EXPECT_THAT(ValuesIn(*local_), IsEmpty());
    EXPECT_EQ(Joined(), (*shared_->Get(ClusterKey()))->value);
    ExpectDockerRecord(*shared_);
  }

  void ExpectMovedBack(const std::map<std::string, std::string>& all) {
    EXPECT_EQ(ValuesIn(*local_), all);
    EXPECT_THAT(ValuesIn(*shared_), IsEmpty());
    EXPECT_EQ(Joined(), "");
    ExpectDockerRecord(*local_);
  }

  // Kills `move` at each of its commits in turn: before it, and after it. Then repeats it.
  template <typename Move, typename Expect>
  void KillAtEachCommit(Move move, Expect expect) {
    for (int commits = 0;; ++commits) {
      DyingState::Life life{.left = commits / 2, .is_lost = commits % 2 == 1};
      DyingState local(*local_, life), shared(*shared_, life);
      const auto killed = move(MoveEnds{.local = local, .shared = shared, .host = "host-1"});
      if (!life.ended) {
        EXPECT_GT(commits, 6) << "the move has few transactions, so this test shows little";
        return;
      }
      const auto repeated = move(Ends());
      EXPECT_OK(repeated) << "killed at commit " << commits / 2;
      expect();
      if (HasFailure()) return;
    }
  }

  TempDir directory_;
  std::unique_ptr<Store> store_ = NewStore();
  std::unique_ptr<State> local_, shared_;
};

TEST_F(MigrationTest, MovesThereAndBack) {
  Fill();
  const auto all = ValuesIn(*local_);
  const auto moved = MoveToShared(Ends());
  ASSERT_OK(moved);
  EXPECT_EQ(moved->volumes, 61U);
  EXPECT_EQ(moved->claims, 290U);
  ExpectMoved(all);
  EXPECT_OK(MoveToShared(Ends())) << "there is nothing left to move";
  ExpectMoved(all);
  ASSERT_OK(MoveToLocal(Ends()));
  ExpectMovedBack(all);
}

TEST_F(MigrationTest, KeepsRecordsOfOtherHosts) {
  Fill(1, 0);
  ASSERT_OK(RecordsStore(*shared_).PutVolume(VolumeNamed("other")));
  ASSERT_OK(MoveToShared(Ends()));
  EXPECT_TRUE(ValuesIn(*shared_).contains(VolumeStateKey({"prod", "other"})));
  EXPECT_TRUE(ValuesIn(*shared_).contains(VolumeStateKey({"prod", "v0"})));
}

TEST_F(MigrationTest, ListsAllConflictsAndChangesNothing) {
  Fill(3, 0);
  Volume other = VolumeNamed("v1");
  other.parameters = {{"pool", "hdd"}};
  Claim claim = SampleClaim("v2");
  claim.node = "host-2";
  ASSERT_OK(RecordsStore(*shared_).Commit(Changes().Put(other)));
  ASSERT_OK(RecordsStore(*shared_).Commit(Changes().Put(claim)));
  const auto local = ValuesIn(*local_), shared = ValuesIn(*shared_);
  EXPECT_THAT(MoveToShared(Ends()),
              FailsWith(Code::kFailedPrecondition,
                        "the claim of volume 'v2' in namespace 'prod' to write for 'web-1'; volume 'v1' in namespace"));
  EXPECT_EQ(ValuesIn(*local_), local);
  EXPECT_EQ(ValuesIn(*shared_), shared);
  EXPECT_FALSE((*local_->Get(MoveNoteKey("host-1"))).has_value());
}

TEST_F(MigrationTest, RefusesTheSameVolumeUnderAnotherName) {
  Fill(1, 0);
  Volume twin = VolumeNamed("twin");
  twin.external_id = "prod-v0";
  ASSERT_OK(RecordsStore(*shared_).PutVolume(twin));
  EXPECT_THAT(MoveToShared(Ends()),
              FailsWith(Code::kFailedPrecondition, "'v0' in namespace 'prod' is there as 'twin'"));
}

// It may be the same volume under another name.
TEST_F(MigrationTest, IsRefusedBesideAVolumeThatCannotBeRead) {
  Fill(1, 0);
  const std::string key = VolumeStateKey({.ns = "prod", .id = "twin"});
  ASSERT_OK(shared_->Commit({.compares = {}, .puts = {{key, "\xFF\xFF"}}, .deletes = {}}));
  EXPECT_THAT(MoveToShared(Ends()), FailsWith(Code::kInternal, key));
  EXPECT_FALSE((*local_->Get(MoveNoteKey("host-1"))).has_value());
}

TEST_F(MigrationTest, MoveToSharedSurvivesADeathAtEachCommit) {
  Fill();
  const auto all = ValuesIn(*local_);
  const auto expect = [&] {
    ExpectMoved(all);
    ASSERT_OK(MoveToLocal(Ends()));
  };
  KillAtEachCommit(MoveToShared, expect);
}

TEST_F(MigrationTest, MoveToLocalSurvivesADeathAtEachCommit) {
  Fill();
  const auto all = ValuesIn(*local_);
  ASSERT_OK(MoveToShared(Ends()));
  const auto expect = [&] {
    ExpectMovedBack(all);
    ASSERT_OK(MoveToShared(Ends()));
  };
  KillAtEachCommit(MoveToLocal, expect);
}

// The other host sees the volume as soon as it is copied.
TEST_F(MigrationTest, RepetitionKeepsChangesOfOtherHosts) {
  Fill(1, 0);
  DyingState::Life life{.left = 2, .is_lost = false};  // after the note and the copy
  DyingState local(*local_, life), shared(*shared_, life);
  ASSERT_FALSE(MoveToShared({.local = local, .shared = shared, .host = "host-1"}).ok());
  RecordsStore store(*shared_);
  auto volume = store.GetVolume({"prod", "v0"});
  ASSERT_OK(volume);
  volume->node_expansion_owed = !volume->node_expansion_owed;
  const auto changed = store.PutVolume(*volume);
  ASSERT_OK(changed);
  ASSERT_OK(MoveToShared(Ends()));
  EXPECT_EQ(store.GetVolume({"prod", "v0"})->node_expansion_owed, volume->node_expansion_owed);
  EXPECT_THAT(ValuesIn(*local_), IsEmpty());
}

TEST_F(MigrationTest, InterruptedMoveIsCompletedInItsDirection) {
  Fill(1, 0);
  DyingState::Life life{.left = 1, .is_lost = false};
  DyingState local(*local_, life), shared(*shared_, life);
  ASSERT_FALSE(MoveToShared({.local = local, .shared = shared, .host = "host-1"}).ok());
  EXPECT_THAT(MoveToLocal(Ends()), FailsWith(Code::kFailedPrecondition, "complete it first"));
  EXPECT_OK(MoveToShared(Ends()));
}

TEST_F(MigrationTest, MoveToLocalIsRefusedWhileOtherHostsNeedTheState) {
  Fill(2, 0);
  ASSERT_OK(MoveToShared(Ends()));
  const auto shared = ValuesIn(*shared_);
  Claim claim = SampleClaim("v0", "db-2");
  claim.node = "host-2";
  claim.lost = false;
  ASSERT_OK(RecordsStore(*shared_).Commit(Changes().Put(claim)));
  ASSERT_OK(shared_->Commit(Put(LiveKey("host-3"), "id-3")));
  EXPECT_THAT(MoveToLocal(Ends()), FailsWith(Code::kFailedPrecondition,
                                             "host 'host-3' is alive; host 'host-2' holds a claim of volume 'v0'"));
  EXPECT_THAT(ValuesIn(*local_), IsEmpty());
  ASSERT_OK(shared_->Commit(Delete(LiveKey("host-3"))));
  claim = *RecordsStore(*shared_).ListClaims({"prod", "v0"})->begin();
  claim.lost = true;
  ASSERT_OK(RecordsStore(*shared_).Commit(Changes().Put(claim)));
  EXPECT_OK(MoveToLocal(Ends())) << "a lost host holds nothing";
}

}  // namespace
}  // namespace mooring::manager

#include "manager/state/records_store.h"

#include "manager/records/record_codec.h"
#include "manager/state/keys.h"
#include "manager/state/sqlite_state.h"
#include "tests/manager/prelude.h"
#include "tests/manager/state/sample_records.h"

namespace mooring::manager {
namespace {

using samples::SampleClaim;
using samples::SampleMount;
using samples::SamplePlugin;
using samples::SampleVolume;

class RecordsStoreTest : public ::testing::Test {
 protected:
  std::int64_t Commit(const Changes& changes) {
    const auto revision = store_.Commit(changes);
    EXPECT_OK(revision);
    return revision.value_or(-1);
  }

  bool HasSecretsKey() { return state_->Get(SecretsStateKey(SampleVolume().key))->has_value(); }
  Secrets StoredSecrets() { return store_.GetVolume(SampleVolume().key)->secrets; }

  TempDir directory_;
  std::unique_ptr<State> state_ = *OpenSqliteState(directory_ / "state.db");
  RecordsStore store_{*state_};
};

TEST_F(RecordsStoreTest, GetVolumeReadsSecretsAndListDoesNot) {
  const Volume volume = SampleVolume();
  const std::int64_t revision = Commit(Changes().Put(volume));
  const auto read = store_.GetVolume(volume.key);
  ASSERT_OK(read);
  EXPECT_EQ(read->secrets, volume.secrets);
  EXPECT_EQ(read->revisions.create, revision);
  EXPECT_EQ(read->revisions.modify, revision);
  const auto listed = store_.ListVolumes();
  ASSERT_OK(listed);
  ASSERT_THAT(*listed, SizeIs(1));
  EXPECT_TRUE(listed->front().secrets.empty());
  EXPECT_TRUE(listed->front().has_secrets);
  EXPECT_EQ(listed->front().revisions.modify, revision);
}

// A record that cannot be read, as after a write by somebody else, keeps nobody from the others.
TEST_F(RecordsStoreTest, ListsLeaveOutWhatCannotBeRead) {
  Host host;
  host.name = "a";
  Commit(Changes().Put(SampleVolume("db")).Put(SampleClaim("db")).Put(host));
  Commit(Changes().Put("a", SampleMount("db", "web-1")).Put("a", SamplePlugin()));
  Transaction damage;
  const VolumeKey other{.ns = "prod", .id = "other"};
  for (const std::string& key : {VolumeStateKey(other), ClaimStateKey(other, ClaimMode::kWrite, "web-2"),
                                 HostStateKey("b"), MountStateKey("a", "web-2", "x"), PluginStateKey("a", "p2")}) {
    damage.puts.push_back({.key = key, .value = "\xFF\xFF damaged"});
  }
  ASSERT_OK(state_->Commit(damage));
  EXPECT_THAT(*store_.ListVolumes(), SizeIs(1));
  EXPECT_THAT(*store_.ListClaims(), SizeIs(1));
  EXPECT_THAT(*store_.ListClaims([](const Claim&) { return true; }), SizeIs(1));
  EXPECT_THAT(*store_.ListHosts(), SizeIs(1));
  EXPECT_THAT(*store_.ListMounts("a"), SizeIs(1));
  EXPECT_THAT(*store_.ListPlugins("a"), SizeIs(1));
  EXPECT_THAT(store_.WhyUnreadable(), SizeIs(5));
  EXPECT_THAT(store_.WhyUnreadable(), Contains(HasSubstr(HostStateKey("b"))));
}

// Its claim may belong to a writer.
TEST_F(RecordsStoreTest, RecordUnderTheKeyOfAnotherIsLeftOut) {
  Commit(Changes().Put(SampleVolume("db")));
  const VolumeKey db = SampleVolume("db").key, other = {.ns = db.ns, .id = "other"};
  Transaction copy;
  copy.puts.push_back({.key = VolumeStateKey(other), .value = (*state_->Get(VolumeStateKey(db)))->value});
  ASSERT_OK(state_->Commit(copy));
  EXPECT_THAT(*store_.ListVolumes(), SizeIs(1));
  EXPECT_THAT(store_.WhyUnreadable(),
              ElementsAre(AllOf(HasSubstr(VolumeStateKey(other)), HasSubstr("it is the record of the key"))));
  EXPECT_THAT(store_.GetVolume(other), FailsWith(Code::kInternal, VolumeStateKey(other)));
}

TEST_F(RecordsStoreTest, DamagedClaimStopsItsOwnVolume) {
  const Volume volume = SampleVolume("db");
  Commit(Changes().Put(volume).Put(SampleClaim("db")));
  Transaction damage;
  damage.puts.push_back({.key = ClaimStateKey(volume.key, ClaimMode::kWrite, "web-2"), .value = "\xFF"});
  ASSERT_OK(state_->Commit(damage));
  EXPECT_THAT(store_.GetVolumeUse(volume.key), FailsWith(Code::kInternal, "web-2"));
  EXPECT_THAT(store_.ListClaims(volume.key), FailsWith(Code::kInternal, "web-2"));
}

TEST_F(RecordsStoreTest, SecretsHaveTheirOwnKey) {
  Commit(Changes().Put(SampleVolume()));
  const auto listing = state_->List("");
  ASSERT_OK(listing);
  for (const KeyValue& stored : listing->values) {
    if (IsSecret(stored.key)) continue;
    EXPECT_THAT(stored.value, Not(HasSubstr(samples::kSecret))) << stored.key;
    EXPECT_THAT(stored.value, Not(HasSubstr("barrier=0"))) << stored.key << ": CSI calls mount flags sensitive, too";
  }
}

TEST_F(RecordsStoreTest, MountFlagsAreReadAndKeptLikeSecrets) {
  Commit(Changes().Put(SampleVolume()));
  const std::vector<std::string> flags = SampleVolume().mount_options.flags;
  Volume listed = store_.ListVolumes()->front();
  EXPECT_THAT(listed.mount_options.flags, IsEmpty());
  EXPECT_EQ(listed.flags_left_out, 2);
  Commit(Changes().Put(listed));
  Volume read = *store_.GetVolume(SampleVolume().key);
  EXPECT_EQ(read.mount_options.flags, flags);
  EXPECT_EQ(read.flags_left_out, 0);
  EXPECT_EQ(store_.GetVolumeUse(read.key)->volume->mount_options.flags, flags);
  read.mount_options.flags.clear();
  Commit(Changes().Put(read));
  EXPECT_THAT(store_.GetVolume(read.key)->mount_options.flags, IsEmpty());
  EXPECT_FALSE(state_->Get(MountFlagsStateKey(read.key))->has_value());
}

TEST_F(RecordsStoreTest, PutOfAListedVolumeKeepsItsSecrets) {
  Commit(Changes().Put(SampleVolume()));
  Volume listed = store_.ListVolumes()->front();
  listed.in_use.reset();
  Commit(Changes().Put(listed));
  EXPECT_EQ(StoredSecrets(), SampleVolume().secrets);
}

TEST_F(RecordsStoreTest, DeletesSecretsWithTheVolume) {
  Commit(Changes().Put(SampleVolume()));
  Volume without = *store_.GetVolume(SampleVolume().key);
  without.secrets = Secrets();
  without.has_secrets = false;
  Commit(Changes().Put(without));
  EXPECT_FALSE(HasSecretsKey());
  EXPECT_FALSE(store_.GetVolume(without.key)->has_secrets);

  Volume with = *store_.GetVolume(without.key);
  with.secrets = SampleVolume().secrets;
  Commit(Changes().Put(with));
  EXPECT_EQ(StoredSecrets(), SampleVolume().secrets);
  Commit(Changes().Delete(*store_.GetVolume(with.key)));
  EXPECT_FALSE(HasSecretsKey());
}

TEST_F(RecordsStoreTest, ListsClaimsOfAVolumeAndAll) {
  for (const char* volume : {"db", "db[0]", "db/1"}) {
    for (const char* allocation : {"web-1", "../web-1"}) Commit(Changes().Put(SampleClaim(volume, allocation)));
  }
  EXPECT_THAT(*store_.ListClaims(), SizeIs(6));
  EXPECT_THAT(*store_.ListClaims({.ns = "prod", .id = "db"}), SizeIs(2));
  EXPECT_THAT(*store_.ListClaims({.ns = "prod", .id = "db/1"}), SizeIs(2));
  EXPECT_THAT(*store_.ListClaims({.ns = "default", .id = "db"}), SizeIs(0));
}

TEST_F(RecordsStoreTest, KeepsReadAndWriteClaimsApart) {
  Claim claim = SampleClaim();
  Commit(Changes().Put(claim));
  claim.mode = ClaimMode::kRead;
  Commit(Changes().Put(claim));
  EXPECT_THAT(*store_.ListClaims(claim.volume), SizeIs(2));
}

TEST_F(RecordsStoreTest, ConflictChangesNothing) {
  Commit(Changes().Put(SampleVolume()));
  const Volume old = *store_.GetVolume(SampleVolume().key);
  Commit(Changes().Put(old));
  EXPECT_THAT(store_.Commit(Changes().Put(SampleClaim()).Put(old)), FailsWith(Code::kAborted, "revision"));
  EXPECT_THAT(store_.Commit(Changes().Delete(old)), FailsWith(Code::kAborted, "revision"));
  EXPECT_THAT(store_.Commit(Changes().Put(SampleVolume())), FailsWith(Code::kAborted, "revision"));
  EXPECT_THAT(*store_.ListClaims(), SizeIs(0));
}

TEST_F(RecordsStoreTest, RecordsHaveRevisions) {
  Commit(Changes().Put(SampleClaim()));
  Claim claim = store_.ListClaims()->front();
  Commit(Changes().Put(claim));
  claim = store_.ListClaims()->front();
  EXPECT_EQ(claim.revisions.create, 1);
  EXPECT_EQ(claim.revisions.modify, 2);
}

TEST_F(RecordsStoreTest, MountsAndPluginsBelongToAHost) {
  Commit(Changes().Put("host-1", SampleMount()).Put("host-1", SamplePlugin()));
  EXPECT_THAT(*store_.ListMounts("host-1"), SizeIs(1));
  EXPECT_THAT(*store_.ListMounts("host-2"), SizeIs(0));
  EXPECT_THAT(*store_.ListPlugins("host-1"), SizeIs(1));
  EXPECT_THAT(*store_.ListPlugins("host-2"), SizeIs(0));
}

TEST_F(RecordsStoreTest, RefusesToMixHostAndSharedRecords) {
  EXPECT_THAT(store_.Commit(Changes().Put(SampleClaim()).Put("host-1", SampleMount())),
              FailsWith(Code::kInternal, "one transaction"));
}

TEST_F(RecordsStoreTest, ErrorNamesAnUnreadableRecord) {
  const std::string key = VolumeStateKey(SampleVolume().key);
  ASSERT_OK(state_->Commit({.compares = {}, .puts = {{key, "\xff"}}, .deletes = {}}));
  EXPECT_THAT(store_.GetVolume(SampleVolume().key), FailsWith(Code::kInternal, key));
  EXPECT_THAT(store_.WhyUnreadable(), ElementsAre(HasSubstr(key)));
}

TEST_F(RecordsStoreTest, ErrorNamesAMissingVolume) {
  EXPECT_THAT(store_.GetVolume({.ns = "prod", .id = "db"}),
              FailsWith(Code::kNotFound, "no volume 'db' in namespace 'prod'"));
}

TEST_F(RecordsStoreTest, NamespacesAreSeparate) {
  Volume volume = SampleVolume("x");
  volume.key.ns = "a";
  Commit(Changes().Put(volume));
  volume.key.ns = "a/x";
  Commit(Changes().Put(volume));
  EXPECT_THAT(*store_.ListVolumes("a"), SizeIs(1));
  EXPECT_THAT(*store_.ListVolumes("a/x"), SizeIs(1));
  EXPECT_THAT(*store_.ListVolumes(), SizeIs(2));
}

}  // namespace
}  // namespace mooring::manager

// The content of a damaged record is unknown. So the manager assumes the worst of it, and stops nothing else.
#include "manager/api/handlers.h"
#include "manager/attach/attachments.h"
#include "manager/state/keys.h"
#include "tests/fakes/counting_brokers.h"
#include "tests/fakes/fake_hosts.h"
#include "tests/manager/volumes/claims_fixture.h"

namespace mooring::manager {
namespace {

using testing::Join;

class DamagedRecordsTest : public ClaimsFixture {
 protected:
  DamagedRecordsTest() {
    AddVolume("db");
    AddVolume("other");
  }

  void Damage(const std::string& key) {
    ASSERT_OK(state_.Commit({.compares = {}, .puts = {{key, "\xFF\xFF"}}, .deletes = {}}));
  }
  void Delete(const std::string& key) { ASSERT_OK(state_.Commit({.compares = {}, .puts = {}, .deletes = {key}})); }

  // Attachments, over the claims and a mounter that only counts.
  void Open() {
    attachments_.reset();
    journal_ = *AttachmentJournal::Open(store_, "here");
    Attachments::Settings settings{.host = "here", .first_retry = milliseconds(1)};
    attachments_ = std::make_unique<Attachments>(*journal_, *claims_, mounter_, events_, queue_, settings);
  }
  absl::Status Attach(const std::string& volume, const std::string& allocation, const std::string& request) {
    AttachRequest asked;
    asked.volume.id = volume;
    asked.allocation = allocation;
    asked.request = request;
    asked.plugin = "fake.csi";
    asked.capability = kWriters;
    return attachments_->Attach(asked, {}, Soon()).status();
  }
  absl::Status Detach(const std::string& allocation, const std::string& request) {
    return attachments_->Detach(allocation, request, Attachments::Failure::kChangesNothing, {}, Soon());
  }
  Volume Registered(const std::string& id, const std::string& external_id) {
    Volume volume;
    volume.key.id = id;
    volume.plugin = "fake.csi";
    volume.external_id = external_id;
    volume.capabilities = {kWriters};
    return volume;
  }

  testing::CallLog log_;
  testing::CountingMounter mounter_{log_};
  std::unique_ptr<AttachmentJournal> journal_;
  std::unique_ptr<Attachments> attachments_;
};

TEST_F(DamagedRecordsTest, ClaimThatAnUnreadableAttachmentMayShareStays) {
  Open();
  ASSERT_OK(Attach("db", "web-1", "a"));
  ASSERT_OK(Attach("db", "web-1", "b"));
  ASSERT_OK(Attach("other", "web-2", "a"));
  const std::string key = MountStateKey("here", "web-1", "a");
  Damage(key);
  Open();
  EXPECT_THAT(Detach("web-1", "b"), FailsWith(Code::kInternal, key));
  EXPECT_THAT(Detach("web-1", "a"), FailsWith(Code::kInternal, key)) << "it may be mounted";
  EXPECT_THAT(attachments_->Release({"default", "db"}, ClaimMode::kWrite, "web-1", Soon()),
              FailsWith(Code::kFailedPrecondition, "detach it first"));
  EXPECT_OK(Detach("web-2", "a")) << "another allocation";
  EXPECT_OK(Attach("other", "web-1", "c"));
  ASSERT_THAT(*store_.ListClaims({"default", "db"}), SizeIs(1));

  attachments_.reset();
  Delete(key);
  Open();
  EXPECT_OK(Detach("web-1", "b"));
  EXPECT_THAT(*store_.ListClaims({"default", "db"}), IsEmpty());
}

TEST_F(DamagedRecordsTest, KeptClaimOfAnUnreadableAttachmentIsNotReleased) {
  ClaimRequest by_user = Request("web-1");
  by_user.keep = true;
  ASSERT_OK(Take(by_user));
  Damage(MountStateKey("here", "web-1", "a"));
  Open();
  EXPECT_THAT(attachments_->Release({"default", "db"}, ClaimMode::kWrite, "web-1", Soon()),
              FailsWith(Code::kInternal, "then restart the manager"));
  EXPECT_OK(attachments_->ReleaseUnused(TheClaim(), Stored("db"), Soon()));
  EXPECT_EQ(TheClaim().state, State::kTaken);
}

TEST_F(DamagedRecordsTest, VolumeThatMayHaveAnUnreadableRecordIsRefused) {
  const std::string key = VolumeStateKey({"default", "db"});
  Damage(key);
  plugin_->volumes().Add("ext-new");
  EXPECT_THAT(volumes_->Register(Registered("twin", "ext-db"), Soon()), FailsWith(Code::kInternal, key));
  EXPECT_THAT(volumes_->Register(Registered("twin", "ext-new"), Soon()), FailsWith(Code::kInternal, "delete this"));
  Volume named = Registered("named", "");
  named.name = "a-name";
  EXPECT_THAT(volumes_->Create(named, Soon()), FailsWith(Code::kInternal, key));
  EXPECT_EQ(plugin_->Count("CreateVolume"), 0);

  EXPECT_OK(volumes_->Create(Registered("unique", ""), Soon())) << "the manager chooses a name that nobody has";
  ClaimRequest other = Request("web-1");
  other.volume.id = "other";
  EXPECT_OK(Take(other));
  Delete(key);
  EXPECT_OK(volumes_->Register(Registered("twin", "ext-db"), Soon())) << "without a restart";
}

TEST_F(DamagedRecordsTest, NobodyTakesOverTheWorkOfAHostWhoseRecordIsDamaged) {
  testing::FakeHosts hosts(store_, "here");
  Volumes volumes(store_, directory_, hosts, node_, *snapshots_, locks_, events_, queue_, retry_);
  Volume volume = Stored("db");
  volume.state = Volume::State::kDeleting;
  volume.worker = "there";
  ASSERT_OK(store_.PutVolume(volume));
  Join(store_, "there");
  Damage(HostStateKey("there"));
  ASSERT_OK(hosts.Refresh());
  EXPECT_THAT(volumes.Delete(volume.key, Soon()), FailsWith(Code::kUnavailable, "by host 'there'")) << "it has a lease";
  testing::Vanish(store_, "there");
  v1::ListHostsRequest host;
  host.set_name("there");
  EXPECT_THAT((HostHandlers{hosts, store_, {}}.ListHosts(host)), FailsWith(Code::kInternal, HostStateKey("there")));
  EXPECT_THAT(volumes.Delete(volume.key, Soon()), FailsWith(Code::kInternal, HostStateKey("there")));
  EXPECT_EQ(plugin_->Count("DeleteVolume"), 0);
  Delete(HostStateKey("there"));
  EXPECT_OK(volumes.Delete(volume.key, Soon())) << "a person has deleted its record";
}

}  // namespace
}  // namespace mooring::manager

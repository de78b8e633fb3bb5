// Claims of two hosts over one state, and what happens to those of a host that is away.
#include "tests/fakes/fake_hosts.h"
#include "tests/fakes/memory_host.h"
#include "tests/manager/volumes/claims_fixture.h"

namespace mooring::manager {
namespace {

using testing::Join;
using testing::Vanish;

// `claims_` of the fixture is not used: each host has its own.
class ClaimsOfHostsTest : public ClaimsFixture {
 protected:
  ClaimsOfHostsTest() {
    Join(store_, "here");
    Join(store_, "there");
    Look();
    AddVolume("db");
  }

  void Look() {
    EXPECT_OK(here_.hosts.Refresh());
    EXPECT_OK(there_.hosts.Refresh());
  }

  struct HostSide {
    HostSide(ClaimsOfHostsTest& test, const std::string& name)
        : hosts(test.store_, name),
          claims(test.store_, test.directory_, hosts, test.locks_, test.events_, test.queue_, SettingsOf(test, name)) {}
    static Claims::Settings SettingsOf(ClaimsOfHostsTest& test, const std::string& name) {
      Claims::Settings settings;
      settings.retry = test.retry_;
      settings.first_retry = hours(1);
      settings.now = [&test] { return test.now_; };
      settings.is_still_mounted = [&test, name](const Claim&) { return name == "there" && test.is_mounted_there_; };
      settings.check_mounts = [&test, name](const VolumeKey&) {
        return name == "there" ? test.stale_mount_ : absl::OkStatus();
      };
      return settings;
    }
    absl::Status Take(const ClaimRequest& request) { return claims.Take(request, Soon()).status(); }
    absl::Status Release(const std::string& allocation) {
      return claims.Release({"default", "db"}, ClaimMode::kWrite, allocation, absl::OkStatus(), Soon());
    }

    testing::FakeHosts hosts;
    Claims claims;
  };

  static ClaimRequest Writer(const std::string& allocation) { return Request(allocation, kWriter); }
  // With what a member of the store gives that is behind by the changes that follow.
  ClaimRequest WriterWithOldRead(const std::string& allocation) {
    ClaimRequest request = Writer(allocation);
    request.seen = std::make_shared<const VolumeUse>(*store_.GetVolumeUse({"default", "db"}));
    return request;
  }
  Host Record(const std::string& name) { return store_.GetHost(name).value_or(Host()); }

  // `there` has joined again, and has looked for mounts of claims that others have freed.
  void ComeBack() {
    Join(store_, "there");
    const auto forget = [](Host& host) -> absl::StatusOr<bool> { return std::exchange(host.gave_up_claims, false); };
    ASSERT_OK(store_.ChangeHost("there", forget).status());
    Look();
  }

  absl::Status stale_mount_;
  bool is_mounted_there_ = false;
  HostSide here_{*this, "here"};
  HostSide there_{*this, "there"};
};

TEST_F(ClaimsOfHostsTest, AccessModesHoldForAllHosts) {
  ASSERT_OK(here_.Take(Writer("web-1")));
  EXPECT_THAT(there_.Take(Writer("web-2")), FailsWith(Code::kFailedPrecondition, "writer 'web-1' on 'here' since "));
  ASSERT_OK(here_.Release("web-1"));
  EXPECT_OK(there_.Take(Writer("web-2")));
  EXPECT_EQ(TheClaim().node, "there");
}

TEST_F(ClaimsOfHostsTest, OldReadGrantsNothing) {
  const ClaimRequest second = WriterWithOldRead("web-2");
  ASSERT_OK(there_.Take(Writer("web-1")));
  EXPECT_THAT(here_.Take(second), FailsWith(Code::kFailedPrecondition, "writer 'web-1' on 'there'"));
  EXPECT_EQ(TheClaim().allocation, "web-1");
}

TEST_F(ClaimsOfHostsTest, OldReadRefusesNothing) {
  ASSERT_OK(there_.Take(Writer("web-1")));
  const ClaimRequest second = WriterWithOldRead("web-2");
  ASSERT_OK(there_.Release("web-1"));
  EXPECT_OK(here_.Take(second));
  EXPECT_EQ(TheClaim().node, "here");
}

TEST_F(ClaimsOfHostsTest, OldReadHoldsNothing) {
  ASSERT_OK(here_.Take(Writer("web-1")));
  const std::int64_t before = TheClaim().revisions.create;
  const ClaimRequest again = WriterWithOldRead("web-1");
  ASSERT_OK(here_.Release("web-1"));
  EXPECT_OK(here_.Take(again));
  EXPECT_GT(TheClaim().revisions.create, before);
}

TEST_F(ClaimsOfHostsTest, ClaimOfAnotherHostIsNotReleasedHere) {
  ASSERT_OK(there_.Take(Writer("web-1")));
  EXPECT_OK(here_.Release("web-1")) << "of an attachment whose claim others have by now";
  EXPECT_THAT(here_.claims.ReleaseKept({"default", "db"}, ClaimMode::kWrite, "web-1", Soon()),
              FailsWith(Code::kFailedPrecondition, "is one of host 'there': release it there"));
  Resume(here_.claims);
  EXPECT_EQ(TheClaim().state, State::kTaken);
  EXPECT_THAT(AttachedTo(), SizeIs(1));
}

TEST_F(ClaimsOfHostsTest, DrainedHostTakesNoNewClaims) {
  ASSERT_OK(here_.Take(Request("web-1")));
  ASSERT_OK(there_.hosts.Drain("here", true));
  // It has not looked since: the commit finds out.
  EXPECT_THAT(here_.Take(Request("web-2")), FailsWith(Code::kFailedPrecondition, "host 'here' is being drained"));
  EXPECT_OK(here_.Take(Request("web-1"))) << "a claim that it holds stays";
  EXPECT_OK(there_.Take(Request("web-3")));
  ASSERT_OK(there_.hosts.Drain("here", false));
  EXPECT_OK(here_.Take(Request("web-2"))) << "it has not looked since, so it looks before it refuses";
}

// A node that has no room says nothing about other nodes.
TEST_F(ClaimsOfHostsTest, ExhaustedHostKeepsNoOtherHostOut) {
  here_.claims.MarkExhausted({"default", "db"}, "no loop device is free");
  EXPECT_THAT(here_.Take(Writer("web-1")), FailsWith(Code::kResourceExhausted, "no loop device is free"));
  there_.claims.PluginHealthChanged("fake.csi");
  EXPECT_THAT(here_.Take(Writer("web-1")), FailsWith(Code::kResourceExhausted, "no loop device is free"));
  ASSERT_OK(there_.Take(Writer("web-2")));
  ASSERT_OK(there_.Release("web-2"));
  here_.claims.PluginHealthChanged("fake.csi");
  EXPECT_OK(here_.Take(Writer("web-1")));
}

TEST_F(ClaimsOfHostsTest, ControllerThatIsFullForANodeKeepsNoOtherHostOut) {
  plugin_->Fail("ControllerPublishVolume", ResourceExhausted("node has 64 volumes"));
  EXPECT_THAT(here_.Take(Writer("web-1")), FailsWith(Code::kResourceExhausted, "64 volumes"));
  EXPECT_OK(there_.Take(Writer("web-2")));
}

TEST_F(ClaimsOfHostsTest, NodeMustBeAHostThatIsAlive) {
  ClaimRequest request = Request("web-1");
  request.external_node_id = "node";
  request.node = "nowhere";
  EXPECT_THAT(here_.Take(request), FailsWith(Code::kInvalidArgument, "'nowhere' is none of the hosts"));
  request.node = "there";
  Vanish(store_, "there");  // seen by the commit only
  EXPECT_THAT(here_.Take(request), FailsWith(Code::kUnavailable, "host 'there' is unreachable"));
}

TEST_F(ClaimsOfHostsTest, RefusalSaysWhatFreesTheClaimOfAHostThatIsAway) {
  ASSERT_OK(there_.Take(Writer("web-1")));
  Vanish(store_, "there");
  Look();
  EXPECT_THAT(here_.Take(Writer("web-2")),
              FailsWith(Code::kFailedPrecondition,
                        "(unreachable); the claim of 'web-1' is freed when 'there' is back and has released it, or "
                        "once the controller of "
                        "its plugin has detached it from that host, or, if nothing runs there any more, by: mooring "
                        "host lost there"));
}

TEST_F(ClaimsOfHostsTest, ControllerFreesTheClaimsOfAnUnreachableHost) {
  ASSERT_OK(there_.Take(Writer("web-1")));
  EXPECT_THAT(here_.claims.Recover("there", Soon()), FailsWith(Code::kAborted, "host 'there' is back"));
  EXPECT_EQ(TheClaim().state, State::kTaken);

  Vanish(store_, "there");
  plugin_->Fail("ControllerUnpublishVolume", absl::FailedPreconditionError("still attached"));
  ASSERT_OK(here_.claims.Recover("there", Soon()));
  EXPECT_THAT(TheClaim().problem, HasSubstr("still attached"));
  EXPECT_TRUE(Record("there").gave_up_claims);
  EXPECT_THAT(here_.Take(Writer("web-2")), FailsWith(Code::kFailedPrecondition, "no free write claim"));

  ASSERT_OK(here_.claims.Recover("there", Soon()));
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_THAT(AttachedTo(), IsEmpty());
  EXPECT_OK(here_.Take(Writer("web-2")));
}

// An unpublish that is repeated must not take the volume from a claim that was taken meanwhile.
TEST_F(ClaimsOfHostsTest, AHostThatIsBackKeepsWhatItTakesWhileItsOldClaimIsFreed) {
  ASSERT_OK(there_.Take(Request("web-1", kWriters)));
  Vanish(store_, "there");
  plugin_->FailAlways("ControllerUnpublishVolume", Unavailable("the storage is busy"));
  auto recovered = std::async(std::launch::async, [this] { return here_.claims.Recover("there", Soon()); });
  ASSERT_TRUE(plugin_->WaitForCalls("ControllerUnpublishVolume", 2));
  ComeBack();
  KeyedLocks own_locks;  // of another process
  Claims back(store_, directory_, there_.hosts, own_locks, events_, queue_, HostSide::SettingsOf(*this, "there"));
  ASSERT_OK(back.Take(Request("web-2", kWriters), Soon()).status());
  plugin_->ClearFaults();
  EXPECT_OK(recovered.get());
  EXPECT_EQ(TheClaim().allocation, "web-2");
  EXPECT_THAT(AttachedTo(), SizeIs(1));
}

// The claim was given up, and the host has not unmounted the volume yet.
TEST_F(ClaimsOfHostsTest, NotFoundDoesNotFreeAClaimThatIsStillMounted) {
  ASSERT_OK(there_.Take(Writer("web-1")));
  Vanish(store_, "there");
  plugin_->Fail("ControllerUnpublishVolume", absl::FailedPreconditionError("still attached"));
  ASSERT_OK(here_.claims.Recover("there", Soon()));
  ComeBack();
  plugin_->FailAlways("ControllerUnpublishVolume", absl::NotFoundError("no such node"));
  is_mounted_there_ = true;
  Resume(there_.claims);
  EXPECT_THAT(TheClaim().problem, HasSubstr("no such node"));
  is_mounted_there_ = false;
  Resume(there_.claims);
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ClaimsOfHostsTest, WithoutAControllerOnlyAPersonFreesThem) {
  WithoutController();
  ASSERT_OK(there_.Take(Writer("web-1")));
  Vanish(store_, "there");
  ASSERT_OK(here_.claims.Recover("there", Soon()));
  EXPECT_EQ(TheClaim().state, State::kTaken);
  EXPECT_FALSE(Record("there").gave_up_claims);
  ASSERT_OK(here_.hosts.DeclareLost("there"));
  ASSERT_OK(here_.claims.Recover("there", Soon()));
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_FALSE(Stored("db").in_use);
  EXPECT_TRUE(Record("there").gave_up_claims);
}

// A publish at the controller would let mounts of the freed claims write again. The host has not looked for them yet,
// or cannot unmount them.
TEST_F(ClaimsOfHostsTest, NothingIsPublishedToAHostWithStaleMounts) {
  ASSERT_OK(there_.Take(Writer("web-1")));
  Vanish(store_, "there");
  ASSERT_OK(here_.claims.Recover("there", Soon()));
  Join(store_, "there");
  const std::size_t asked = plugin_->Calls("ControllerPublishVolume").size();
  for (const char* allocation : {"web-1", "web-2"}) {
    EXPECT_THAT(there_.Take(Writer(allocation)),
                FailsWith(Code::kUnavailable, "others have freed claims of it, and it does not know yet which"));
  }
  HostSide restarted(*this, "there");  // it has not looked at the hosts yet
  EXPECT_THAT(restarted.Take(Writer("web-2")), FailsWith(Code::kUnavailable, "others have freed claims of it"));
  ComeBack();
  stale_mount_ = Unavailable("the volume is still mounted here for 'web-1'");
  EXPECT_THAT(there_.Take(Writer("web-2")), FailsWith(Code::kUnavailable, "still mounted here for 'web-1'"));
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_EQ(plugin_->Calls("ControllerPublishVolume").size(), asked);
  EXPECT_OK(here_.Take(Writer("web-3"))) << "its mounts are others";
  EXPECT_THAT(there_.Take(Writer("web-2")), FailsWith(Code::kFailedPrecondition, "writer 'web-3' on 'here'"));
  ASSERT_OK(here_.Release("web-3"));
  stale_mount_ = absl::OkStatus();
  EXPECT_OK(there_.Take(Writer("web-2")));
}

// The state has lost the claim, as an older copy of it does. The mount that is there is the one that needs it.
TEST_F(ClaimsOfHostsTest, ALostClaimIsTakenAgainForItsMount) {
  stale_mount_ = Unavailable("the volume is still mounted here for 'web-1'");
  ClaimRequest again = Writer("web-1");
  EXPECT_THAT(there_.Take(again), FailsWith(Code::kUnavailable, "still mounted here"));
  again.for_present_mount = true;
  EXPECT_OK(there_.Take(again));
}

// The controller is still asked, but nobody waits for it.
TEST_F(ClaimsOfHostsTest, ClaimsOfALostHostExcludeNobody) {
  ASSERT_OK(there_.Take(Writer("web-1")));
  Vanish(store_, "there");
  ASSERT_OK(here_.hosts.DeclareLost("there"));
  directory_.SetHealthy("fake.csi", true, false);
  ASSERT_OK(here_.claims.Recover("there", Soon()));
  EXPECT_TRUE(TheClaim().lost);
  EXPECT_FALSE(Stored("db").in_use);
  EXPECT_THAT(here_.Take(Writer("web-1")), FailsWith(Code::kAborted, "is still being released"))
      << "the same allocation waits for its own old claim";
  directory_.SetHealthy("fake.csi", true, true);
  EXPECT_OK(here_.Take(Writer("web-2")));
  ASSERT_OK(here_.claims.Recover("there", Soon()));
  EXPECT_EQ(TheClaim().allocation, "web-2");
  EXPECT_TRUE(Stored("db").in_use) << "the mode of the new claim stays";
}

// Otherwise nobody could delete the volume any more.
TEST_F(ClaimsOfHostsTest, ForceFreesAClaimOfALostHostWhosePluginIsGone) {
  const VolumeKey db{"default", "db"};
  const auto nowhere = [](const Claim&) { return false; };
  ASSERT_OK(there_.Take(Writer("web-1")));
  Vanish(store_, "there");
  directory_.SetHealthy("fake.csi", true, false);
  EXPECT_THAT(here_.claims.Force(db, nowhere, AtOnce()),
              FailsWith(Code::kFailedPrecondition, "mooring host lost there"));
  ASSERT_OK(here_.hosts.DeclareLost("there"));
  ASSERT_OK(here_.claims.Recover("there", Soon()));
  EXPECT_THAT(here_.claims.Force(db, nowhere, AtOnce()), FailsWith(Code::kUnavailable, "is owed"));
  EXPECT_TRUE(TheClaim().lost);
  directory_.Remove("fake.csi");
  ASSERT_OK(here_.claims.Force(db, nowhere, AtOnce()));
  EXPECT_THAT(AllClaims(), IsEmpty());
}

// The pool of the lost host was a disk of its own, and other hosts run the plugin with theirs.
TEST_F(ClaimsOfHostsTest, ForceFreesAClaimOfALostHostThatAloneReachedTheVolume) {
  const VolumeKey db{"default", "db"};
  const auto nowhere = [](const Claim&) { return false; };
  ASSERT_OK(there_.Take(Writer("web-1")));
  Vanish(store_, "there");
  directory_.SetReachesVolumes("fake.csi", false);
  ASSERT_OK(here_.hosts.DeclareLost("there"));
  ASSERT_OK(here_.claims.Recover("there", Soon()));
  EXPECT_TRUE(TheClaim().lost);
  ASSERT_OK(here_.claims.Force(db, nowhere, AtOnce()));
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ClaimsOfHostsTest, ReaderAndWriterOfAHostAreGivenUpTogether) {
  ASSERT_OK(there_.Take(Request("web-1")));
  ClaimRequest reader = Request("web-2");
  reader.mode = ClaimMode::kRead;
  ASSERT_OK(there_.Take(reader));
  Vanish(store_, "there");
  plugin_->Fail("ControllerUnpublishVolume", absl::NotFoundError("no such node"), 1, 2);
  ASSERT_OK(here_.claims.Recover("there", Soon()));
  ASSERT_THAT(AllClaims(), SizeIs(2)) << "NOT_FOUND does not say that the node has let the volume go";
  for (const Claim& claim : AllClaims()) EXPECT_EQ(claim.state, State::kNodeDetached);
  ASSERT_OK(here_.claims.Recover("there", Soon()));
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_THAT(AttachedTo(), IsEmpty());
}

// A manager that stood still must not take the claim of another host for its own.
TEST_F(ClaimsOfHostsTest, ClaimThatOthersTookIsNotTheOwnOne) {
  absl::StatusOr<ClaimAnswer> mine = there_.claims.Take(Writer("web"), Soon());
  ASSERT_OK(mine);
  EXPECT_OK(there_.claims.CheckHeld(*mine));
  Vanish(store_, "there");
  ASSERT_OK(here_.claims.Recover("there", Soon()));
  ASSERT_OK(here_.Take(Writer("web")));
  mine->lease = 0;  // it has another lease by now
  EXPECT_THAT(there_.claims.CheckHeld(*mine), FailsWith(Code::kFailedPrecondition, "was freed"));
  EXPECT_OK(there_.Release("web"));
  EXPECT_EQ(TheClaim().node, "here");
}

// Its volume is unmounted already, and the plugin may need no secrets to let it go.
TEST_F(ClaimsOfHostsTest, LostSecretsKeyDoesNotKeepAClaim) {
  testing::MemoryHost state(state_);
  RecordsStore store(state);
  Claims claims(store, directory_, here_.hosts, locks_, events_, queue_, HostSide::SettingsOf(*this, "here"));
  Join(store, "here");
  ASSERT_OK(here_.hosts.Refresh());
  ASSERT_OK(claims.Take(Writer("web-1"), Soon()));
  state.LoseSecretsKey();
  EXPECT_THAT(claims.Take(Writer("web-1"), Soon()), FailsWith(Code::kFailedPrecondition, "no key file for secrets"));
  plugin_->Fail("ControllerUnpublishVolume", InvalidArgument("password is missing"));
  const VolumeKey db{"default", "db"};
  EXPECT_THAT(claims.Release(db, ClaimMode::kWrite, "web-1", absl::OkStatus(), Soon()),
              FailsWith(Code::kInvalidArgument, "password is missing; it was called without secrets: this manager"));
  ASSERT_OK(claims.Force(
      db, [](const Claim&) { return false; }, Soon()));
  EXPECT_THAT(AllClaims(), IsEmpty());
}

// The writer of a volume of one host is refused elsewhere before a plugin is asked.
TEST_F(ClaimsOfHostsTest, VolumeMustBeReachableFromTheNode) {
  EXPECT_TRUE(IsReachable({}, {{"host", "a"}}));
  EXPECT_TRUE(IsReachable({{.segments = {{"host", "b"}}}}, {}));
  EXPECT_TRUE(IsReachable({{.segments = {{"host", "b"}}}, {.segments = {{"host", "a"}}}}, {{"host", "a"}}));
  EXPECT_FALSE(IsReachable({{.segments = {{"host", "b"}}}}, {{"host", "a"}}));
  EXPECT_FALSE(IsReachable({{.segments = {{"zone", "1"}, {"host", "a"}}}}, {{"host", "a"}}));
  ClaimState state;
  state.volume = Stored("db");
  state.volume.topologies = {{.segments = {{"host", "b"}}}};
  state.node_topology = {{"host", "a"}};
  state.schedulable = true;
  ClaimRequest request = Request("web-1");
  request.node = "here";
  EXPECT_THAT(Decide(request, state),
              FailsWith(Code::kFailedPrecondition, "can be used where host=b holds, but node 'here' has host=a"));
}

}  // namespace
}  // namespace mooring::manager

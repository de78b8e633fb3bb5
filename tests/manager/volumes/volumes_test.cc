// Creation and deletion of volumes.
#include "manager/volumes/volumes.h"

#include "tests/manager/volumes/volumes_fixture.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FakeCsiPlugin;

using VolumesTest = VolumesFixture;

TEST_F(VolumesTest, CreateSendsRequestAndStoresAnswer) {
  const auto volume = Create(Asked());
  ASSERT_OK(volume);
  EXPECT_EQ(volume->state, Volume::State::kReady);
  EXPECT_TRUE(volume->created_here);
  EXPECT_THAT(plugin_->volumes().Ids(), ElementsAre(volume->external_id));
  EXPECT_EQ(volume->capacity_bytes, kGiB);
  EXPECT_THAT(volume->context, ElementsAre(Pair("made-by", "fake")));
  const auto sent = plugin_->Requests<csi::v1::CreateVolumeRequest>();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].parameters().at("tier"), "fast");
  EXPECT_EQ(sent[0].secrets().at("password"), "hunter2");
  EXPECT_EQ(sent[0].volume_capabilities_size(), 2);
  EXPECT_THAT(sent[0].name(), ::testing::StartsWith("db-"));
  EXPECT_EQ(Stored("db").name, sent[0].name());
}

TEST_F(VolumesTest, ChecksRequestFirst) {
  Volume volume = Asked();
  volume.capabilities.clear();
  volume.snapshot_id = "s";
  volume.clone_id = "c";
  EXPECT_THAT(Message(Create(volume).status()), AllOf(HasSubstr("capability"), HasSubstr("not from both")));
  EXPECT_THAT(All(), IsEmpty());
  EXPECT_THAT(plugin_->Calls(), IsEmpty());
}

TEST_F(VolumesTest, HostileNamesGetDistinctPlainNames) {
  const std::vector<std::string> ids = {"../x", "[0]", "a b", "db[3]", "ü", std::string(255, 'x'), "..", "%2E%2E"};
  for (const std::string& id : ids) ASSERT_OK(Create(Asked(id))) << id;
  EXPECT_THAT(plugin_->volumes().Ids(), SizeIs(ids.size()));
  for (const auto& sent : plugin_->Requests<csi::v1::CreateVolumeRequest>()) {
    EXPECT_THAT(sent.name(), ::testing::MatchesRegex("[A-Za-z0-9][A-Za-z0-9-]*"));
    EXPECT_LE(sent.name().size(), 128U);
  }
}

// It has not said yet whether it has a controller.
TEST_F(VolumesTest, PluginThatWasNeverReadyIsWaitedFor) {
  directory_.SetHealthy("fake.csi", false, false, "waits for its disk");
  directory_.SetAnswered("fake.csi", false);
  EXPECT_THAT(volumes_->Create(Asked(), AtOnce()), FailsWith(Code::kUnavailable, "'fake.csi' has not been ready yet"));
  EXPECT_THAT(volumes_->Create(Asked(), AtOnce()), FailsWith(Code::kUnavailable, "waits for its disk"));
  EXPECT_THAT(All(), IsEmpty());
  auto created = std::async(std::launch::async, [this] { return Create(Asked()); });
  std::this_thread::sleep_for(milliseconds(50));
  directory_.SetAnswered("fake.csi", true);
  directory_.SetHealthy("fake.csi", true, true);
  EXPECT_OK(created.get());
}

TEST_F(VolumesTest, RepeatedCreateGivesSameVolume) {
  const auto first = Create(Asked());
  ASSERT_OK(first);
  const auto again = Create(Asked());
  ASSERT_OK(again);
  EXPECT_EQ(again->external_id, first->external_id);
  EXPECT_EQ(plugin_->Count("CreateVolume"), 1);
  Volume other = Asked();
  other.min_bytes = 2 * kGiB;
  EXPECT_THAT(Create(other), FailsWith(Code::kAlreadyExists,
                                       "exists already, with size 1 GiB, not 2 GiB; to grow it: "
                                       "mooring volume expand db --size 2GiB"));
  other = Asked();
  other.secrets = Password("swordfish");
  const absl::Status refused = Create(other).status();
  EXPECT_THAT(refused,
              FailsWith(Code::kAlreadyExists, "exists already, with other secrets; use it as it is, delete it"));
  EXPECT_THAT(Message(refused), Not(HasSubstr("swordfish")));
}

TEST_F(VolumesTest, EachDifferenceIsShownWithBothValues) {
  ASSERT_OK(Create(Asked()));
  Volume other = Asked();
  other.max_bytes = 3 * kGiB;
  other.capabilities = {kWriter};
  other.mount_options = {.fs_type = "xfs", .flags = {"noatime", "password=hunter2"}};
  other.parameters = {{"tier", "slow"}};
  other.snapshot_id = "snap-1";
  other.required_topologies = {{{{"zone", "a"}}}};
  const std::string said = Message(Create(other).status());
  for (const char* piece :
       {"maximum size none, not 3 GiB", "filesystem none, not 'xfs'", "mount flags none, not noatime, password=***",
        "parameters 'tier=fast', not 'tier=slow'", "source snapshot none, not 'snap-1'",
        "required topology none, not 'zone=a'", "access single-node-writer file-system, "}) {
    EXPECT_THAT(said, HasSubstr(piece));
  }
  EXPECT_THAT(said, Not(HasSubstr("hunter2")));
  EXPECT_TRUE(Stored("db").created_at.has_value());
}

TEST_F(VolumesTest, RecreatedVolumeHasAnotherName) {
  const auto first = Create(Asked());
  ASSERT_OK(first);
  ASSERT_OK(volumes_->Deregister(first->key, Soon()));
  const auto second = Create(Asked());
  ASSERT_OK(second);
  EXPECT_NE(second->external_id, first->external_id) << "it would come with the other one's data";
}

TEST_F(VolumesTest, RefusedCreationLeavesNoRecord) {
  plugin_->Fail("CreateVolume", OutOfRange("too large"));
  EXPECT_THAT(Create(Asked()), FailsWith(Code::kOutOfRange, "CreateVolume of plugin 'fake.csi': too large"));
  plugin_->Fail("CreateVolume", ResourceExhausted("the pool is full"));
  EXPECT_THAT(Create(Asked()), FailsWith(Code::kResourceExhausted, "the pool is full"));
  EXPECT_EQ(plugin_->Count("CreateVolume"), 2) << "a full pool is an answer";
  EXPECT_THAT(All(), IsEmpty());
}

TEST_F(VolumesTest, RetryAfterLostAnswerUsesSameName) {
  plugin_->Fail("CreateVolume", Internal("lost"), 1, 1, FakeCsiPlugin::When::kAfter);
  EXPECT_THAT(Create(Asked()), FailsWith(Code::kInternal, "repeat the request to continue"));
  EXPECT_EQ(Stored("db").state, Volume::State::kCreating);
  ASSERT_OK(Create(Asked()));
  EXPECT_THAT(plugin_->volumes().Ids(), SizeIs(1));
}

TEST_F(VolumesTest, FullPoolAfterLostAnswerKeepsRecord) {
  plugin_->Fail("CreateVolume", absl::DeadlineExceededError("no answer"), 1, 1, FakeCsiPlugin::When::kAfter);
  plugin_->Fail("CreateVolume", ResourceExhausted("the pool is full"), 2);
  const auto created = Create(Asked());
  EXPECT_THAT(created, FailsWith(Code::kUnavailable, "the pool is full"));
  EXPECT_THAT(Message(created.status()), HasSubstr("repeat the request to continue"));
  EXPECT_EQ(Stored("db").state, Volume::State::kCreating);
  plugin_->Fail("CreateVolume", ResourceExhausted("the pool is full"));
  EXPECT_THAT(Create(Asked()), FailsWith(Code::kResourceExhausted, "repeat the request to continue"));
  EXPECT_EQ(Stored("db").state, Volume::State::kCreating);
  ASSERT_OK(Create(Asked()));
  EXPECT_THAT(plugin_->volumes().Ids(), SizeIs(1));
}

// Kills the manager before each commit. A repeated create makes nothing twice; a start without it leaves nothing.
TEST_F(VolumesTest, CreationResumesAfterKillAtEveryStep) {
  for (const bool again : {true, false}) {
    for (int after = 0; after < 2; ++after) {
      SCOPED_TRACE((again ? "asked again, " : "taken back, ") + std::to_string(after) + " commits");
      state_.DieAfter(after);
      EXPECT_FALSE(Create(Asked()).ok());
      state_.DieAfter(-1);
      Restart();
      if (again) {
        ASSERT_OK(Create(Asked()));
        EXPECT_THAT(plugin_->volumes().Ids(), SizeIs(1));
        ASSERT_OK(Delete());
      } else {
        ResumeVolumes();
      }
      EXPECT_THAT(plugin_->volumes().Ids(), IsEmpty());
      EXPECT_THAT(All(), IsEmpty());
    }
  }
}

TEST_F(VolumesTest, DeletionResumesAfterKillAtEveryStep) {
  for (int after = 0; after < 2; ++after) {
    SCOPED_TRACE(after);
    ASSERT_OK(Create(Asked()));
    state_.DieAfter(after);
    EXPECT_FALSE(Delete().ok());
    state_.DieAfter(-1);
    Restart();
    ResumeVolumes();
    if (after == 0) {
      EXPECT_OK(Take(Request("web-1"))) << "it had not begun";
      EXPECT_OK(Release("web-1"));
      EXPECT_OK(Delete());
    }
    EXPECT_THAT(All(), IsEmpty());
    EXPECT_THAT(plugin_->volumes().Ids(), IsEmpty());
  }
}

TEST_F(VolumesTest, RefusesDeleteOfClaimedVolume) {
  ASSERT_OK(Create(Asked()));
  ASSERT_OK(Take(Request("web-1")));
  plugin_->ClearLog();
  EXPECT_THAT(Delete(), FailsWith(Code::kFailedPrecondition, "in use by writer 'web-1'"));
  EXPECT_THAT(volumes_->Deregister({"default", "db"}, Soon()), FailsWith(Code::kFailedPrecondition, "'web-1'"));
  EXPECT_THAT(plugin_->Calls(), IsEmpty());
  EXPECT_EQ(Stored("db").state, Volume::State::kReady);
  ASSERT_OK(Release("web-1"));
  ASSERT_OK(Delete());
  ASSERT_OK(Delete()) << "gone is OK";
  EXPECT_THAT(plugin_->volumes().Ids(), IsEmpty());
  EXPECT_EQ(node_.removed, std::vector<std::string>{"db"});
}

TEST_F(VolumesTest, ConcurrentClaimStopsDelete) {
  ASSERT_OK(Create(Asked()));
  bool first = true;
  state_.BeforeCommit([&](const Transaction&) {
    if (std::exchange(first, false)) {
      EXPECT_OK(Take(Request("web-1")));
    }
  });
  // The claim waits for the lock of the deletion: it is stored before the commit, and published afterwards.
  auto features = plugin_->features();
  features.attaches = false;
  plugin_->SetFeatures(features);
  EXPECT_THAT(Delete(), FailsWith(Code::kFailedPrecondition, "'web-1'"));
  state_.BeforeCommit(nullptr);
  EXPECT_EQ(plugin_->Count("DeleteVolume"), 0);
}

TEST_F(VolumesTest, RefusesClaimDuringDelete) {
  ASSERT_OK(Create(Asked()));
  plugin_->Fail("DeleteVolume", Internal("half-way"));
  EXPECT_THAT(Delete(), FailsWith(Code::kInternal, "delete it again to continue"));
  EXPECT_THAT(Take(Request("web-1")), FailsWith(Code::kFailedPrecondition, "is being deleted"));
  EXPECT_THAT(Create(Asked()), FailsWith(Code::kAlreadyExists, "is being deleted"));
  ASSERT_OK(Delete());
}

TEST_F(VolumesTest, RefusedDeleteLeavesVolumeReady) {
  ASSERT_OK(Create(Asked()));
  plugin_->Fail("DeleteVolume", FailedPrecondition("it has snapshots"));
  EXPECT_THAT(Delete(), FailsWith(Code::kFailedPrecondition, "it has snapshots"));
  EXPECT_OK(Take(Request("web-1")));
}

TEST_F(VolumesTest, RefusedDeleteKeepsConcurrentChange) {
  ASSERT_OK(Create(Asked()));
  plugin_->Fail("DeleteVolume", FailedPrecondition("it has snapshots"));
  bool first = true;
  state_.BeforeCommit([&](const Transaction&) {
    if (plugin_->Count("DeleteVolume") > 0 && std::exchange(first, false)) {
      claims_->MarkExhausted({"default", "db"}, "no room");
    }
  });
  EXPECT_THAT(Delete(), FailsWith(Code::kFailedPrecondition, "it has snapshots"));
  state_.BeforeCommit(nullptr);
  EXPECT_EQ(Stored("db").state, Volume::State::kReady);
  EXPECT_EQ(Stored("db").exhausted_words, "no room");
  ResumeVolumes();
  EXPECT_THAT(plugin_->volumes().Ids(), SizeIs(1));
}

TEST_F(VolumesTest, RefusedDeleteReportsStoreError) {
  ASSERT_OK(Create(Asked()));
  plugin_->Fail("DeleteVolume", FailedPrecondition("it has snapshots"));
  state_.DieAfter(1);
  EXPECT_THAT(Delete(), FailsWith(Code::kFailedPrecondition, "it has snapshots"));
  state_.DieAfter(-1);
}

TEST_F(VolumesTest, RefusesMissingCapabilitiesWithoutCall) {
  Can([](auto& features) { features.clones = features.snapshots = false; });
  Volume clone = Asked();
  clone.clone_id = "x";
  EXPECT_THAT(Create(clone), FailsWith(Code::kFailedPrecondition, "cannot clone volumes"));
  EXPECT_THAT(snapshots_->List("fake.csi", Soon()), FailsWith(Code::kFailedPrecondition, "has no snapshots"));
  Can([](auto& features) { features.controller = false; });
  EXPECT_THAT(Create(Asked()), FailsWith(Code::kFailedPrecondition, "has no controller"));
  Volume elsewhere = Asked();
  elsewhere.plugin = "unknown";
  EXPECT_THAT(Create(elsewhere), FailsWith(Code::kFailedPrecondition, "is unknown on this host"));
  EXPECT_THAT(plugin_->Calls(), IsEmpty());
  EXPECT_THAT(All(), IsEmpty());
}

TEST_F(VolumesTest, NoHealthyControllerQuotesPlugin) {
  directory_.SetHealthy("fake.csi", true, false, "Probe: the array is away");
  EXPECT_THAT(volumes_->Create(Asked(), AtOnce()),
              FailsWith(Code::kUnavailable, "plugin 'fake.csi': Probe: the array is away"));
}

TEST_F(VolumesTest, EventsHaveNoSecrets) {
  ASSERT_OK(Create(Asked()));
  plugin_->Fail("DeleteVolume", Internal("no"));
  EXPECT_FALSE(Delete().ok());
  EXPECT_THAT(Told(), Not(HasSubstr("hunter2")));
}

// The volume is listed as being created, and created again before its turn.
TEST_F(VolumesTest, ResumeSparesRepeatedCreate) {
  plugin_->Fail("CreateVolume", Internal("lost"), 1, 2, FakeCsiPlugin::When::kAfter);
  ASSERT_FALSE(Create(Asked("a")).ok());
  ASSERT_FALSE(Create(Asked("b")).ok());
  ASSERT_EQ(Stored("b").state, Volume::State::kCreating);
  plugin_->ClearFaults();
  Restart();
  plugin_->Hang("DeleteVolume");
  EXPECT_OK(volumes_->Resume("here"));
  EXPECT_TRUE(plugin_->WaitForCalls("DeleteVolume", 1));  // for "a"; "b" is next on the list
  EXPECT_OK(Create(Asked("b")));
  plugin_->Release();
  EXPECT_TRUE(volumes_->WaitUntilTried(Soon()));
  ASSERT_THAT(All(), SizeIs(1));
  EXPECT_EQ(Stored("b").state, Volume::State::kReady);
  EXPECT_THAT(plugin_->volumes().Ids(), ElementsAre(Stored("b").external_id));
}

TEST_F(VolumesTest, UnclearErrorKeepsRecord) {
  plugin_->Fail("CreateVolume", Internal("lost"), 1, 1, FakeCsiPlugin::When::kAfter);
  ASSERT_FALSE(Create(Asked()).ok());
  plugin_->Fail("CreateVolume", Internal("still confused"));
  EXPECT_FALSE(Delete().ok());
  EXPECT_THAT(All(), SizeIs(1)) << "the plugin has it";
  ASSERT_OK(Delete());
  EXPECT_THAT(plugin_->volumes().Ids(), IsEmpty());
}

TEST_F(VolumesTest, FinerModesAreSentOnlyIfSupported) {
  Volume volume = Asked();
  Can([](testing::FakeCsiFeatures& features) { features.single_writer = false; });
  volume.capabilities = {{AccessMode::kSingleNodeMultiWriter, AttachmentMode::kFileSystem}};
  ASSERT_OK(Create(volume));
  using Mode = csi::v1::VolumeCapability::AccessMode;
  const auto sent = plugin_->Requests<csi::v1::CreateVolumeRequest>();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].volume_capabilities(0).access_mode().mode(), Mode::SINGLE_NODE_WRITER);
}

}  // namespace
}  // namespace mooring::manager

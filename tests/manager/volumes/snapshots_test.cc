// Snapshots and their records, on one host and where each host has storage of its own.
#include <future>

#include "tests/fakes/fake_hosts.h"
#include "tests/manager/requests/requests_fixture.h"
#include "tests/manager/volumes/volumes_fixture.h"

namespace mooring::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> Names(const absl::StatusOr<SnapshotList>& list) {
  EXPECT_OK(list);
  std::vector<std::string> names;
  for (const Snapshot& each : list.value_or(SnapshotList()).snapshots) names.push_back(each.name);
  return names;
}

class SnapshotsTest : public VolumesFixture {
 protected:
  SnapshotsTest() { EXPECT_OK(VolumesFixture::Create(Asked())); }

  absl::StatusOr<Snapshot> Take(const std::string& name, Clock::time_point until = Soon()) {
    return snapshots_->Create({"default", "db"}, name, {}, until);
  }
  auto List() { return snapshots_->List("fake.csi", Soon()); }
  std::vector<Snapshot> Records() { return *store_.ListSnapshots(); }
  int Taken() {
    csi::v1::ListSnapshotsResponse response;
    EXPECT_OK(plugin_->volumes().ListSnapshots(response));
    return response.entries_size();
  }
};

TEST_F(SnapshotsTest, ListAnswersWithoutThePlugin) {
  const auto taken = Take("nightly");
  ASSERT_OK(taken);
  directory_.SetHealthy("fake.csi", false, false);
  const auto all = snapshots_->List("fake.csi", Clock::now() + hours(1));  // a list that waits ends the test
  ASSERT_THAT(Names(all), ElementsAre("nightly"));
  EXPECT_EQ(all->snapshots[0].id, taken->id);
  EXPECT_EQ(all->snapshots[0].source->id, "db");
  directory_.Remove("fake.csi");
  EXPECT_THAT(Names(List()), ElementsAre("nightly"));
  EXPECT_THAT(snapshots_->List("nosuch.csi", Soon()), FailsWith(Code::kFailedPrecondition, "is unknown"));
}

TEST_F(SnapshotsTest, NameGivesTheSameSnapshotAgain) {
  const auto first = Take("nightly");
  const auto again = Take("nightly");
  ASSERT_OK(again);
  EXPECT_EQ(first->id, again->id);
  EXPECT_THAT(Records(), SizeIs(1));
  EXPECT_EQ(Records()[0].revisions, first->revisions) << "nothing is stored again";
}

// Where each host has storage of its own, plugins on two hosts give the same name to two snapshots.
TEST_F(SnapshotsTest, NameBelongsToItsVolume) {
  ASSERT_OK(Take("nightly"));
  ASSERT_OK(VolumesFixture::Create(Asked("other")));
  plugin_->Fail("CreateSnapshot", absl::AlreadyExistsError("of another volume"));
  EXPECT_THAT(snapshots_->Create({"default", "other"}, "nightly", {}, Soon()),
              FailsWith(Code::kAlreadyExists, "of another volume"))
      << "the plugin decides";
  EXPECT_THAT(Records(), SizeIs(1));
}

TEST_F(SnapshotsTest, RefusedSnapshotIsNotWantedAnyMore) {
  plugin_->Fail("CreateSnapshot", FailedPrecondition("the pool is full of them"));
  EXPECT_THAT(Take("nightly"), FailsWith(Code::kFailedPrecondition, "full of them"));
  EXPECT_THAT(Records(), IsEmpty());
  plugin_->Fail("CreateSnapshot", absl::ResourceExhaustedError("no room"));
  EXPECT_THAT(Take("nightly"), FailsWith(Code::kResourceExhausted, "no room"));
  EXPECT_THAT(Records(), IsEmpty());
  EXPECT_EQ(queue_.List().size(), 0U);
  EXPECT_EQ(Taken(), 0);
}

TEST_F(SnapshotsTest, RefusalOfARepeatedRequestForgetsNothing) {
  ASSERT_OK(Take("nightly"));
  plugin_->Fail("CreateSnapshot", FailedPrecondition("not now"));
  EXPECT_FALSE(Take("nightly").ok());
  EXPECT_THAT(Names(List()), ElementsAre("nightly"));
}

TEST_F(SnapshotsTest, LostAnswerIsFoundOutInTheBackground) {
  plugin_->Fail("CreateSnapshot", Internal("the answer is lost"), 1, 1, testing::FakeCsiPlugin::When::kAfter);
  EXPECT_THAT(Take("nightly"), FailsWith(Code::kInternal, "For 5 minutes the manager goes on"));
  EXPECT_THAT(Records(), SizeIs(1));
  ASSERT_TRUE(WaitUntil([&] { return !Records()[0].id.empty(); }));
  EXPECT_EQ(Taken(), 1);
  EXPECT_THAT(Records()[0].worker, IsEmpty());
}

TEST_F(SnapshotsTest, SnapshotThatNobodyWasAskedForIsNotWanted) {
  retry_.may_call = [] { return Unavailable("this host has no lease"); };
  Restart();
  EXPECT_THAT(Take("nightly", AtOnce()), FailsWith(Code::kUnavailable, "no lease"));
  EXPECT_THAT(Records(), IsEmpty());
  EXPECT_TRUE(queue_.List().empty());
}

// The try before may have taken it.
TEST_F(SnapshotsTest, RefusalAfterALostAnswerKeepsTheRecord) {
  plugin_->Fail("CreateSnapshot", Internal("the answer is lost"), 1, 1, testing::FakeCsiPlugin::When::kAfter);
  EXPECT_FALSE(Take("nightly").ok());
  plugin_->FailAlways("CreateSnapshot", absl::ResourceExhaustedError("no room"));
  EXPECT_FALSE(Take("nightly").ok());
  ASSERT_TRUE(WaitUntil([&] { return queue_.List().size() == 1 && queue_.List()[0].tries > 0; }));
  EXPECT_THAT(Records(), SizeIs(1));
  plugin_->ClearFaults();
  queue_.TryNow("fake.csi");
  ASSERT_TRUE(WaitUntil([&] { return !Records()[0].id.empty(); }));
  EXPECT_EQ(Taken(), 1);
}

TEST_F(SnapshotsTest, OneThatIsBeingTakenIsGivenUpByItsName) {
  for (const bool plugin_has_taken_it : {true, false}) {
    const auto when =
        plugin_has_taken_it ? testing::FakeCsiPlugin::When::kAfter : testing::FakeCsiPlugin::When::kBefore;
    plugin_->Fail("CreateSnapshot", Internal("the answer is lost"), 1, 1, when);
    EXPECT_FALSE(Take("nightly").ok());
    EXPECT_OK(snapshots_->CheckExists("fake.csi", "nightly", Secrets(), Soon()));
    EXPECT_OK(snapshots_->Delete("fake.csi", "nightly", Secrets(), Soon()));
    EXPECT_THAT(Records(), IsEmpty());
    ASSERT_TRUE(WaitUntil([&] { return queue_.List().empty(); }));
    EXPECT_EQ(Taken(), 0) << "also not later";
  }
}

// The plugin may have it: a driver that looks for the volume first says NOT_FOUND.
TEST_F(SnapshotsTest, RefusalDoesNotMeanThatItIsDeleted) {
  plugin_->Fail("CreateSnapshot", Internal("the answer is lost"), 1, 1, testing::FakeCsiPlugin::When::kAfter);
  EXPECT_FALSE(Take("nightly").ok());
  plugin_->FailAlways("CreateSnapshot", NotFound("there is no such volume"));
  EXPECT_THAT(snapshots_->Delete("fake.csi", "nightly", Secrets(), Soon()), FailsWith(Code::kNotFound, "--forget"));
  EXPECT_THAT(Records(), SizeIs(1));
  EXPECT_OK(snapshots_->DropRecord("fake.csi", "nightly"));
  EXPECT_THAT(Records(), IsEmpty());
  EXPECT_THAT(snapshots_->DropRecord("fake.csi", "nightly"), FailsWith(Code::kNotFound, "no record"));
}

TEST_F(SnapshotsTest, NameOfTwoThatAreBeingTakenIsRefused) {
  ASSERT_OK(VolumesFixture::Create(Asked("other")));
  plugin_->FailAlways("CreateSnapshot", Internal("the answer is lost"));
  for (const char* volume : {"db", "other"}) {
    EXPECT_FALSE(snapshots_->Create({"default", volume}, "nightly", {}, AtOnce()).ok());
  }
  EXPECT_THAT(snapshots_->Delete("fake.csi", "nightly", Secrets(), Soon()),
              FailsWith(Code::kFailedPrecondition, "of 2 volumes"));
}

TEST_F(SnapshotsTest, WithoutAControllerNothingIsToldDeleted) {
  directory_.SetHealthy("fake.csi", true, false);
  EXPECT_THAT(snapshots_->Delete("fake.csi", "unknown", Secrets(), AtOnce()),
              FailsWith(Code::kUnavailable, "fake.csi"));
}

TEST_F(SnapshotsTest, DamagedRecordMayBeTheOneThatIsDeleted) {
  const auto taken = Take("nightly");
  const std::string key = SnapshotStateKey("fake.csi", taken->source_volume_id, "nightly");
  Transaction damage;
  damage.puts.push_back({.key = key, .value = "\xFF"});
  ASSERT_OK(store_.shared().Commit(damage));
  EXPECT_THAT(snapshots_->Delete("fake.csi", taken->id, Secrets(), Soon()),
              FailsWith(Code::kInternal, "cannot be read"));
  EXPECT_EQ(Taken(), 1);
  EXPECT_THAT(List()->snapshots, SizeIs(1)) << "the plugin lists it";
}

// As a manager that was killed after it had stored the record, or after the plugin had taken the snapshot.
TEST_F(SnapshotsTest, SnapshotThatWasCutShortIsFinishedAfterAStart) {
  for (const bool plugin_has_taken_it : {false, true}) {
    const auto volume = store_.GetVolume({"default", "db"});
    Snapshot record;
    record.plugin = "fake.csi";
    record.name = plugin_has_taken_it ? "late" : "early";
    record.source = volume->key;
    record.source_volume_id = volume->external_id;
    record.worker = hosts_.self();
    record.made_at = std::chrono::system_clock::now();
    ASSERT_OK(store_.Commit(Changes().Put(record)));
    if (plugin_has_taken_it) {
      csi::v1::CreateSnapshotRequest request;
      request.set_source_volume_id(volume->external_id);
      request.set_name(record.name);
      csi::v1::CreateSnapshotResponse response;
      ASSERT_OK(plugin_->volumes().CreateSnapshot(request, response));
    }
    Restart();
    ASSERT_OK(volumes_->Resume(hosts_.self()));
    ASSERT_TRUE(volumes_->WaitUntilTried(Soon()));
  }
  EXPECT_EQ(Taken(), 2);
  for (const Snapshot& record : Records()) EXPECT_THAT(record.id, ::testing::Not(IsEmpty())) << record.name;
}

// Now it would have another content than its user expects.
TEST_F(SnapshotsTest, OneThatWasCutShortLongAgoIsUndone) {
  ASSERT_OK(Take("other"));
  plugin_->Fail("CreateSnapshot", Internal("the answer is lost"), 1, 1, testing::FakeCsiPlugin::When::kAfter);
  EXPECT_FALSE(Take("old").ok());
  queue_.Stop();
  Snapshot old = Records().front().name == "old" ? Records().front() : Records().back();
  old.made_at -= std::chrono::minutes(6);
  ASSERT_OK(store_.Commit(Changes().Put(old)));
  WorkQueue queue;
  Snapshots next(store_, directory_, hosts_, locks_, events_, queue, retry_);
  ASSERT_OK(next.Resume(hosts_.self()));
  ASSERT_TRUE(next.WaitUntilTried(Soon()));
  EXPECT_THAT(Names(List()), ElementsAre("other"));
  EXPECT_EQ(Taken(), 1);
}

// A plugin may list a new snapshot later. Another program may have deleted it.
TEST_F(SnapshotsTest, OneThatThePluginDoesNotListIsShownAsSuch) {
  const auto taken = Take("nightly");
  csi::v1::DeleteSnapshotRequest request;
  request.set_snapshot_id(taken->id);
  ASSERT_OK(plugin_->volumes().DeleteSnapshot(request));
  ASSERT_THAT(List()->snapshots, SizeIs(1));
  EXPECT_TRUE(List()->snapshots.front().is_unlisted);
  ASSERT_OK(snapshots_->CheckExists("fake.csi", taken->id, Secrets(), Soon()));
  ASSERT_OK(snapshots_->Delete("fake.csi", taken->id, Secrets(), Soon()));
  EXPECT_THAT(Records(), IsEmpty());
}

TEST_F(SnapshotsTest, RefusedDeleteKeepsTheRecord) {
  const auto taken = Take("nightly");
  plugin_->Fail("DeleteSnapshot", FailedPrecondition("a clone needs it"));
  EXPECT_THAT(snapshots_->Delete("fake.csi", taken->id, Secrets(), Soon()),
              FailsWith(Code::kFailedPrecondition, "a clone needs it"));
  EXPECT_THAT(Names(List()), ElementsAre("nightly"));
}

// Hosts "a" and "b" have a plugin with storage of its own on each: a plugin does not know the snapshots of the other.
class LocalSnapshotsTest : public ::testing::Test {
 protected:
  struct Host {
    Host(MemoryState& memory, const std::string& host_name)
        : name(host_name), host(memory, host_name), store(host.state), hosts(store, host_name) {
      FakeCsiFeatures features;
      features.name = kPlugin;
      features.topology = {{"host", name}};
      plugin = std::make_shared<FakeCsiPlugin>(features, disks);
      host->plugins.Add(host->all[kPlugin] = plugin);
      host->sharing->PluginsChanged();
      snapshots = std::make_unique<Snapshots>(store, host->sharing->plugins(), hosts, locks, host->events, host->queue,
                                              RetryPolicy());
    }
    // A volume on this host, which all hosts know.
    void AddVolume(const std::string& id) {
      disks->Add(id);
      Volume volume;
      volume.key.id = id;
      volume.external_id = id;
      volume.plugin = kPlugin;
      volume.topologies = {{{{"host", name}}}};
      ASSERT_OK(store.PutVolume(volume));
    }
    std::string TakeWithoutARecord(const std::string& volume, const std::string& snapshot) {
      csi::v1::CreateSnapshotRequest request;
      request.set_source_volume_id(volume);
      request.set_name(snapshot);
      csi::v1::CreateSnapshotResponse response;
      EXPECT_OK(disks->CreateSnapshot(request, response));
      return response.snapshot().snapshot_id();
    }
    int Taken() const {
      csi::v1::ListSnapshotsResponse response;
      EXPECT_OK(disks->ListSnapshots(response));
      return response.entries_size();
    }

    const std::string name;
    const std::shared_ptr<FakeCsiVolumes> disks = std::make_shared<FakeCsiVolumes>();
    TestHost host;
    RecordsStore store;
    ::mooring::testing::FakeHosts hosts;
    KeyedLocks locks;
    std::shared_ptr<FakeCsiPlugin> plugin;
    std::unique_ptr<Snapshots> snapshots;
  };

  LocalSnapshotsTest() {
    a_.AddVolume("on-a");
    b_.AddVolume("on-b");
    EXPECT_OK(b_.snapshots->Delete(kPlugin, b_.TakeWithoutARecord("on-b", "has the first id"), Secrets(), Soon()));
    EXPECT_TRUE(a_.host->Sees(2) && b_.host->Sees(2));
    b_.plugin->ClearLog();
  }

  MemoryState memory_;
  Host a_{memory_, "a"}, b_{memory_, "b"};
};

TEST_F(LocalSnapshotsTest, AreFoundFromEveryHost) {
  ASSERT_OK(b_.snapshots->Create({"default", "on-b"}, "first", {}, Soon()));
  const auto on_a = a_.snapshots->Create({"default", "on-a"}, "of a", {}, Soon());
  ASSERT_OK(b_.snapshots->Delete(kPlugin, on_a->id, Secrets(), Soon()));
  EXPECT_EQ(a_.Taken(), 0) << "it is where its volume is";
  EXPECT_EQ(b_.Taken(), 1);
  const auto on_b = a_.snapshots->Create({"default", "on-b"}, "of b", {}, Soon());
  ASSERT_OK(on_b);
  EXPECT_EQ(b_.Taken(), 2);
  for (Host* const host : {&a_, &b_}) {
    EXPECT_THAT(Names(host->snapshots->List(kPlugin, Soon())), ElementsAre("first", "of b")) << host->name;
    EXPECT_OK(host->snapshots->CheckExists(kPlugin, on_b->id, Secrets(), Soon())) << host->name;
    EXPECT_THAT(*host->snapshots->TopologiesOf(kPlugin, on_b->id), ElementsAre(Topology{{{"host", "b"}}}));
  }
  EXPECT_THAT(a_.snapshots->CheckExists(kPlugin, "nosuch", Secrets(), Soon()), FailsWith(Code::kNotFound, "nosuch"));
}

// A controller answers OK for a snapshot that it does not know.
TEST_F(LocalSnapshotsTest, RefusedDeleteIsNotTakenForDone) {
  const auto on_a = a_.snapshots->Create({"default", "on-a"}, "kept", {}, Soon());
  a_.plugin->FailAlways("DeleteSnapshot", FailedPrecondition("a clone needs it"));
  for (Host* const host : {&a_, &b_}) {
    EXPECT_THAT(host->snapshots->Delete(kPlugin, on_a->id, Secrets(), Soon()),
                FailsWith(Code::kFailedPrecondition, "a clone needs it"));
  }
  EXPECT_EQ(b_.plugin->Count("DeleteSnapshot"), 0);
  EXPECT_THAT(Names(b_.snapshots->List(kPlugin, Soon())), ElementsAre("kept"));
}

TEST_F(LocalSnapshotsTest, WithoutARecordAllHostsAreAsked) {
  const std::string id = b_.TakeWithoutARecord("on-b", "by another program");
  const auto all = a_.snapshots->List(kPlugin, Soon());
  ASSERT_THAT(all->snapshots, SizeIs(1));
  EXPECT_EQ(all->snapshots[0].source->id, "on-b");
  EXPECT_OK(a_.snapshots->CheckExists(kPlugin, id, Secrets(), Soon()));
  ASSERT_OK(a_.snapshots->Delete(kPlugin, id, Secrets(), Soon()));
  EXPECT_EQ(b_.Taken(), 0);
}

// After a start, the node service has not told its topology yet.
TEST_F(LocalSnapshotsTest, HostThatHangsDoesNotDelayTheOthers) {
  for (Host* const host : {&a_, &b_}) host->plugin->Hang("ListSnapshots");
  auto list = std::async(std::launch::async, [&] { return a_.snapshots->List(kPlugin, Soon()); });
  for (Host* const host : {&a_, &b_}) EXPECT_TRUE(host->plugin->WaitForCalls("ListSnapshots", 1)) << host->name;
  for (Host* const host : {&a_, &b_}) host->plugin->Release();
  EXPECT_OK(list.get());
}

TEST_F(LocalSnapshotsTest, HostThatDoesNotKnowItsTopologyIsNotAsked) {
  const auto on_a = a_.snapshots->Create({"default", "on-a"}, "kept", {}, Soon());
  b_.host->plugins.SetNodeAnswered(kPlugin, false);
  ASSERT_OK(b_.snapshots->Delete(kPlugin, on_a->id, Secrets(), Soon()));
  EXPECT_EQ(a_.Taken(), 0);
  EXPECT_EQ(b_.plugin->Count("DeleteSnapshot"), 0);
}

TEST_F(LocalSnapshotsTest, OfAHostThatIsAwayAreListedAndNotDeleted) {
  const auto on_a = a_.snapshots->Create({"default", "on-a"}, "away", {}, Soon());
  a_.host->plugins.SetHealthy(kPlugin, false, false);
  a_.host->sharing->PluginsChanged();
  ASSERT_TRUE(b_.host->Sees(1));
  EXPECT_THAT(Names(b_.snapshots->List(kPlugin, Soon())), ElementsAre("away"));
  const auto soon = Clock::now() + milliseconds(100);
  EXPECT_THAT(b_.snapshots->Delete(kPlugin, on_a->id, Secrets(), soon), FailsWith(Code::kUnavailable, "cannot reach"));
  EXPECT_THAT(Names(b_.snapshots->List(kPlugin, Soon())), ElementsAre("away"));
}

}  // namespace
}  // namespace mooring::manager

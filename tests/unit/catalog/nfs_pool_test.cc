// A pool that two hosts mount from a server, as backend=nfs does: the catalogs of both, and real directories.
#include <map>

#include "plugin/backends/registry.h"
#include "plugin/catalog/store/catalog_files.h"
#include "plugin/catalog/store/shared_nodes.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/model/volume_id.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

constexpr char kTag[] = "0a1b2c3d";

class RealTrees final : public FakeMounter {
 public:
  absl::Status RemoveTree(const std::string& directory) override {
    std::filesystem::remove_all(directory);
    return absl::OkStatus();
  }
};

struct Host {
  Host(const std::string& own, const std::string& shared, const std::string& node)
      : store(*CatalogStore::Open(own + "/" + node)),
        snapshots(store->files()),
        locks(*KeyedLocks::Shared(own + "/lock-" + node)),
        pools(MakePools(shared)),
        catalog(*store, snapshots, pools, *locks, mounter, {.node_id = node, .topology = {}, .max_volumes = 0}) {
    const auto answers = [this] { return availability->Check(); };
    store->files()->AddLater("share", kTag, answers);
    EXPECT_OK(locks->AddFile(shared + "/lock",
                             [](const std::string& key) { return key.find(kTag) != std::string::npos; },
                             {.answers = answers}));
  }
  Pools MakePools(const std::string& shared) {
    const PoolConfig pool = {.name = "share", .kind = BackendKind::kNfs};
    const std::string place = shared + "/share";  // with the same directory at its PlaceForCalls
    std::filesystem::create_directory(PlaceForCalls(place));
    if (!std::filesystem::exists(place)) std::filesystem::create_symlink(".share", place);
    std::vector<Pool> made;
    made.push_back(
        {.name = "share",
         .kind = BackendKind::kNfs,
         .backend = TypeOf(BackendKind::kNfs).make(pool, place, {.mounter = mounter, .availability = availability}),
         .tag = kTag,
         .availability = availability});
    return Pools(std::move(made));
  }
  void Open(const std::string& shared, const std::string& node) {
    const auto records = store->files()->OpenLater(shared + "/catalog.db", "share", [] { return absl::OkStatus(); });
    ASSERT_OK(records);
    ASSERT_OK(SharedNodes::Put(**records, {.id = node}));
    availability->Answered();
  }

  RealTrees mounter;
  std::shared_ptr<Availability> availability = std::make_shared<Availability>("share");
  std::unique_ptr<CatalogStore> store;
  SnapshotStore snapshots;
  std::unique_ptr<KeyedLocks> locks;
  Pools pools;
  VolumeCatalog catalog;
};

class NfsPool : public ::testing::Test {
 protected:
  void OpenBoth() {
    here_.Open(shared_.path(), "n1");
    there_.Open(shared_.path(), "n2");
  }
  static std::string Created(Host& host, const std::string& name) {
    CreateVolumeSpec spec;
    spec.name = name;
    spec.fs_type = "nfs";
    spec.pool = "share";
    const auto made = host.catalog.Create(spec, Patient());
    EXPECT_OK(made);
    return made.ok() ? made->id : "";
  }
  static absl::Status Publish(Host& host, const std::string& id, const std::string& node, AccessMode mode,
                              bool read_only = false) {
    ControllerPublishSpec spec = {.volume_id = id, .node_id = node, .capability = {}, .read_only = read_only};
    spec.capability.mode = mode;
    return host.catalog.Publish(spec, Patient());
  }
  static Capability Mode(AccessMode mode) {
    Capability capability;
    capability.mode = mode;
    return capability;
  }
  static Call Patient() { return Call::WithLongestWait(); }

  TempDir own_, shared_;
  Host here_{own_.path(), shared_.path(), "n1"}, there_{own_.path(), shared_.path(), "n2"};
};

TEST_F(NfsPool, AVolumeOfOneHostIsADirectoryForAll) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  EXPECT_EQ(Created(there_, "a"), id);
  EXPECT_TRUE(std::filesystem::is_directory(shared_ / "share/" + id));
  EXPECT_EQ(there_.catalog.Find(id)->path, shared_ / "share/" + id);
  EXPECT_OK(there_.catalog.Delete(id, Patient()));
  EXPECT_EQ(Created(here_, "b").substr(0, 12), std::string("vol-") + kTag);
  EXPECT_FALSE(std::filesystem::exists(shared_ / "share/" + id));
}

TEST_F(NfsPool, AVolumeForManyNodesIsPublishedToSeveral) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  EXPECT_OK(Publish(here_, id, "n1", AccessMode::kMultiNodeMultiWriter));
  EXPECT_OK(Publish(there_, id, "n2", AccessMode::kMultiNodeMultiWriter));
  EXPECT_OK(Publish(there_, id, "n2", AccessMode::kMultiNodeMultiWriter));
  EXPECT_THAT(here_.catalog.Get(id)->published_nodes, ElementsAre("n1", "n2"));
  EXPECT_THAT(here_.catalog.Delete(id, Patient()), FailsWith(StatusCode::kFailedPrecondition, "published to node"));
  EXPECT_OK(here_.catalog.Unpublish({.volume_id = id, .node_id = "n2"}, Patient()));
  EXPECT_THAT(here_.catalog.Get(id)->published_nodes, ElementsAre("n1"));
}

TEST_F(NfsPool, AVolumeForOneNodeStaysThere) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  EXPECT_OK(Publish(here_, id, "n1", AccessMode::kSingleNodeWriter));
  EXPECT_THAT(Publish(here_, id, "n2", AccessMode::kSingleNodeWriter),
              FailsWith(StatusCode::kFailedPrecondition, "published to node 'n1' with mount SINGLE_NODE_WRITER"));
  EXPECT_THAT(Publish(here_, id, "n2", AccessMode::kMultiNodeMultiWriter),
              FailsWith(StatusCode::kFailedPrecondition, "published to node 'n1'"));
}

TEST_F(NfsPool, AVolumeForOneWriterHasOne) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  EXPECT_OK(Publish(here_, id, "n1", AccessMode::kMultiNodeSingleWriter));
  EXPECT_THAT(Publish(here_, id, "n2", AccessMode::kMultiNodeSingleWriter),
              FailsWith(StatusCode::kFailedPrecondition, "leaves no room"));
  EXPECT_OK(Publish(here_, id, "n2", AccessMode::kMultiNodeSingleWriter, true));
}

// attachRequired: false of Kubernetes: nothing is published.
TEST_F(NfsPool, AUseOnAnotherHostKeepsTheVolume) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  ASSERT_OK(there_.catalog.BeginUse(id, Mode(AccessMode::kSingleNodeWriter), false));
  const auto in_use = FailsWith(StatusCode::kFailedPrecondition, "in use on node 'n2'");
  EXPECT_THAT(here_.catalog.Delete(id, Patient()), in_use);
  EXPECT_THAT(here_.catalog.BeginUse(id, Mode(AccessMode::kSingleNodeWriter), false), in_use);
  EXPECT_THAT(here_.catalog.BeginUse(id, Mode(AccessMode::kMultiNodeReaderOnly), true), in_use);
  EXPECT_OK(there_.catalog.EndUse(id));
  ASSERT_OK(here_.catalog.BeginUse(id, Mode(AccessMode::kSingleNodeWriter), false));
  EXPECT_OK(here_.catalog.EndUse(id));
  EXPECT_OK(here_.catalog.Delete(id, Patient()));
}

TEST_F(NfsPool, AForcedUnpublishGivesTheVolumeToNobodyElse) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  ASSERT_OK(Publish(here_, id, "n1", AccessMode::kSingleNodeWriter));
  ASSERT_OK(here_.catalog.BeginUse(id, Mode(AccessMode::kSingleNodeWriter), false));
  EXPECT_OK(there_.catalog.Unpublish({.volume_id = id, .node_id = "n1"}, Patient()));
  const auto in_use = FailsWith(StatusCode::kFailedPrecondition, "in use on node 'n1'");
  EXPECT_THAT(Publish(there_, id, "n2", AccessMode::kSingleNodeWriter), in_use);
  EXPECT_THAT(Publish(there_, id, "n2", AccessMode::kMultiNodeMultiWriter), in_use);
  EXPECT_THAT(there_.catalog.Delete(id, Patient()), in_use);
}

TEST_F(NfsPool, UsesForManyNodesGoTogether) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  ASSERT_OK(here_.catalog.BeginUse(id, Mode(AccessMode::kMultiNodeMultiWriter), false));
  ASSERT_OK(there_.catalog.BeginUse(id, Mode(AccessMode::kMultiNodeMultiWriter), false));
  EXPECT_THAT(here_.catalog.BeginUse(id, Mode(AccessMode::kSingleNodeWriter), false),
              FailsWith(StatusCode::kFailedPrecondition, "in use on node 'n2'"))
      << "a second use by the node needs the room of both";
  EXPECT_OK(there_.catalog.EndUse(id));
  ASSERT_OK(here_.catalog.BeginUse(id, Mode(AccessMode::kMultiNodeSingleWriter), false));
  EXPECT_THAT(there_.catalog.BeginUse(id, Mode(AccessMode::kMultiNodeMultiWriter), false),
              FailsWith(StatusCode::kFailedPrecondition, "in use on node 'n1'"));
  EXPECT_OK(there_.catalog.BeginUse(id, Mode(AccessMode::kMultiNodeMultiWriter), true));
}

// The mounter removes it through the mount for tasks.
TEST_F(NfsPool, AVolumeIsDeletedOnlyOnceTheServerHasItNoMore) {
  OpenBoth();
  const std::string id = Created(here_, "a"), tasks = shared_ / "share",
                    deleting = shared_ / (".share/" + id + ".deleting");
  ASSERT_TRUE(std::filesystem::remove(tasks));
  ASSERT_TRUE(std::filesystem::create_directory(tasks));  // the place without its mount
  EXPECT_THAT(here_.catalog.Delete(id, Patient()), FailsWith(StatusCode::kUnavailable, "is still on the server"));
  EXPECT_TRUE(std::filesystem::exists(deleting));
  ASSERT_TRUE(std::filesystem::remove(tasks));
  std::filesystem::create_symlink(".share", tasks);
  EXPECT_OK(here_.catalog.Delete(id, Patient()));
  EXPECT_FALSE(std::filesystem::exists(deleting));
  EXPECT_THAT(here_.catalog.Get(id).status(), FailsWith(StatusCode::kNotFound, "does not exist"));
}

// A host that starts again mounts nothing. A host that is gone for good is taken from the nodes.
TEST_F(NfsPool, AUseEndsWithTheBootOfItsHost) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  ASSERT_OK(there_.catalog.BeginUse(id, Mode(AccessMode::kSingleNodeWriter), false));
  EXPECT_THAT(here_.catalog.Delete(id, Patient()), FailsWith(StatusCode::kFailedPrecondition, "in use on node 'n2'"));
  ASSERT_OK(SharedNodes::Put(**there_.store->files()->OfPool("share"), {.id = "n2", .boot_id = "next"}));
  EXPECT_OK(here_.catalog.BeginUse(id, Mode(AccessMode::kSingleNodeWriter), false));
}

TEST_F(NfsPool, AUseThatEndedWithoutTheServerEndsLater) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  ASSERT_OK(there_.catalog.BeginUse(id, Mode(AccessMode::kSingleNodeWriter), false));
  there_.availability->Failed(Unavailable("the cable is cut"));
  EXPECT_THAT(there_.catalog.EndUse(id), FailsWith(StatusCode::kUnavailable, "the cable is cut"));
  EXPECT_FALSE(there_.availability->TakeLeftWork());
  there_.catalog.EndUseLater(id);
  EXPECT_TRUE(there_.availability->TakeLeftWork());
  EXPECT_FALSE(there_.availability->TakeLeftWork());
  there_.availability->Answered();
  EXPECT_OK(there_.catalog.EndStaleUses("share"));
  EXPECT_OK(here_.catalog.Delete(id, Patient()));
}

// A full pool may take no other record, and the deletion makes room.
TEST_F(NfsPool, ANodeDeletesAVolumeWhoseUseItCouldNotEnd) {
  OpenBoth();
  const std::string id = Created(here_, "a"), target = "/staging/a";
  ASSERT_OK(here_.catalog.BeginUse(id, Mode(AccessMode::kSingleNodeWriter), false));
  VolumeCatalog controller(*here_.store, here_.snapshots, here_.pools, *here_.locks, here_.mounter,
                           {.node_id = "n1", .topology = {}, .max_volumes = 0, .serves_node = false});
  const auto in_use = FailsWith(StatusCode::kFailedPrecondition, "in use on node 'n1'");
  EXPECT_THAT(there_.catalog.Delete(id, Patient()), in_use);
  EXPECT_THAT(controller.Delete(id, Patient()), in_use) << "it does not see the mounts of the node";
  here_.mounter.With([&](FakeKernel& kernel) {
    kernel.AddDirectory(target);
    ListedMount mount;
    mount.target = target;
    mount.root = "/" + id;
    kernel.AddMount(mount);
  });
  EXPECT_THAT(here_.catalog.Delete(id, Patient()), FailsWith(StatusCode::kFailedPrecondition, "in use"));
  ASSERT_OK(here_.mounter.Unmount({.target = target}));
  EXPECT_OK(here_.catalog.Delete(id, Patient()));
}

std::map<std::string, std::uintmax_t> SizesIn(const TempDir& directory) {
  std::map<std::string, std::uintmax_t> sizes;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    if (entry.is_regular_file()) sizes[entry.path().filename()] = entry.file_size();
  }
  return sizes;
}

// An export may be full. A file that grows then takes no record.
TEST_F(NfsPool, UsesAndDeletionsNeedNoNewRoom) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  const auto before = SizesIn(shared_);
  ASSERT_TRUE(before.contains("catalog.db-journal"));
  EXPECT_GE(before.at("catalog.db-journal"), 262144U);
  for (Host* const host : {&here_, &there_}) {
    EXPECT_OK(Publish(*host, id, host == &here_ ? "n1" : "n2", AccessMode::kMultiNodeMultiWriter));
    EXPECT_OK(host->catalog.BeginUse(id, Mode(AccessMode::kMultiNodeMultiWriter), false));
  }
  for (Host* const host : {&here_, &there_}) {
    EXPECT_OK(host->catalog.EndUse(id));
    EXPECT_OK(host->catalog.Unpublish({.volume_id = id, .node_id = host == &here_ ? "n1" : "n2"}, Patient()));
  }
  EXPECT_OK(there_.catalog.Delete(id, Patient()));
  EXPECT_EQ(SizesIn(shared_), before);
}

// NodeGetVolumeStats asks so for each volume, also of pools of images on a server.
TEST_F(NfsPool, WhetherThePoolAnswersIsKnownWithoutItsRecords) {
  OpenBoth();
  EXPECT_OK(here_.catalog.CheckAnswers(NewVolumeId(kTag)));
  EXPECT_OK(here_.catalog.CheckAnswers(NewVolumeId("ffffffff")));
  EXPECT_OK(here_.catalog.CheckAnswers("vol-1"));
}

// The metrics of the other pools go on.
TEST_F(NfsPool, ACountLeavesAPoolOutThatFails) {
  OpenBoth();
  Created(here_, "a");
  EXPECT_THAT(*here_.store->CountByPool(), SizeIs(1));
  std::fstream(shared_ / "catalog.db", std::ios::in | std::ios::out) << "broken, as a server that falls silent";
  EXPECT_THAT(*here_.store->CountByPool(), IsEmpty());
  EXPECT_THAT(*here_.store->NameUnfinished(), IsEmpty());
  EXPECT_THAT(*here_.snapshots.CountByPool(), IsEmpty());
  EXPECT_FALSE(here_.catalog.ReconcilePool("share").ok()) << "it is tried again";
}

// Its server has started without a disk, or its name leads to another server.
TEST_F(NfsPool, AnotherOrAnEmptyExportIsNotTakenForThePool) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  const TempDir empty, others, of_stranger;
  Host stranger(of_stranger.path(), others.path(), "n1");
  stranger.Open(others.path(), "n1");
  Host again(own_.path(), shared_.path(), "n1");
  const auto open = [&](const TempDir& directory) {
    return again.store->files()->OpenLater(directory / "catalog.db", "share", [] { return absl::OkStatus(); }).status();
  };
  EXPECT_THAT(open(empty), FailsWith(StatusCode::kFailedPrecondition, "and here are none"));
  EXPECT_TRUE(std::filesystem::is_empty(empty.path()));
  std::ofstream(empty / "catalog.db").close();
  EXPECT_THAT(open(empty), FailsWith(StatusCode::kFailedPrecondition, "and here are none")) << "it is not begun anew";
  EXPECT_THAT(open(others), FailsWith(StatusCode::kFailedPrecondition, "and here is"));
  EXPECT_THAT(again.catalog.Delete(id, Patient()), FailsWith(StatusCode::kUnavailable, "cannot be used yet"));
  EXPECT_OK(open(shared_));
  EXPECT_THAT(open(empty), FailsWith(StatusCode::kFailedPrecondition, "and here are none")) << "the mount was lost";
}

// The export was unmounted, and mounted from another address of its server.
TEST_F(NfsPool, TheRecordsAreOpenedAnewWhereTheyAreNow) {
  OpenBoth();
  const std::string path = shared_ / "catalog.db";
  std::filesystem::copy_file(path, path + "-now");
  std::filesystem::rename(path + "-now", path);
  here_.Open(shared_.path(), "n1");
  const std::string id = Created(here_, "a");
  EXPECT_THAT(there_.catalog.Get(id).status(), FailsWith(StatusCode::kNotFound, "does not exist"));
  there_.Open(shared_.path(), "n2");
  EXPECT_OK(there_.catalog.Get(id));
}

// The state directory of a plugin that knew no such pools, and the export of a pool of images from that time.
TEST_F(NfsPool, FilesOfOlderProgramsLackWhatIsNewHere) {
  ASSERT_OK(CatalogStore::Open(own_ / "old"));
  {
    SQLite::Database local(own_ / "old", SQLite::OPEN_READONLY);
    EXPECT_FALSE(local.tableExists("pool_identities")) << "a full disk may have no room for it at a start";
  }
  const std::string images = shared_ / "images.db";
  const auto first = CatalogStore::Open(own_ / "first"), second = CatalogStore::Open(own_ / "second");
  const auto tag = (*first)->files()->AddShared(images, "images", [] { return absl::OkStatus(); });
  ASSERT_OK(tag);
  {
    SQLite::Database older(images, SQLite::OPEN_READWRITE);
    older.exec("DROP TABLE uses");
    older.exec("ALTER TABLE pool DROP COLUMN identity");
  }
  EXPECT_EQ(*(*second)->files()->AddShared(images, "images", [] { return Internal("it is there"); }), *tag);
  const auto file = (*second)->files()->OfTag(*tag);
  ASSERT_OK(SharedNodes::Put(**file, {.id = "n1"}));
  EXPECT_OK((*second)->Insert({.id = NewVolumeId(*tag), .name = "a", .fs_type = "ext4", .pool = "images"}));
  EXPECT_THAT(*(*second)->CountByPool(), SizeIs(1));
}

TEST_F(NfsPool, CallsForAPoolThatIsAwayFailAtOnceWithTheReason) {
  const std::string id = NewVolumeId(kTag);
  EXPECT_THAT(here_.catalog.Find(id).status(), FailsWith(StatusCode::kUnavailable, "being mounted now"));
  OpenBoth();
  const std::string made = Created(here_, "a");
  here_.availability->Failed(Unavailable("the cable is cut"));
  const auto away = FailsWith(StatusCode::kUnavailable, "pool share cannot be used yet: the cable is cut");
  EXPECT_THAT(here_.catalog.Get(made).status(), away);
  EXPECT_THAT(here_.catalog.Delete(made, Patient()), away);
  EXPECT_THAT(here_.catalog.CheckAnswers(made), away);
  EXPECT_THAT(here_.catalog.List({}).status(), away) << "a list must not lack a volume";
  EXPECT_THAT(here_.catalog.Capacity({.possible = true, .minimum_bytes = 0, .topology = {}, .pool = "share"}).status(),
              away);
  EXPECT_OK(here_.catalog.Reconcile());
  EXPECT_THAT(*here_.store->CountByPool(), IsEmpty());
  EXPECT_OK(here_.locks->Acquire(made, "volume", Patient().wait_until, KeyedLocks::Among::kThisHost));
  here_.availability->Answered();
  EXPECT_OK(here_.catalog.Get(made));
  EXPECT_OK(here_.catalog.ReconcilePool("share"));
}

TEST(AvailabilityTest, AServerThatFallsSilentIsAway) {
  Availability pool("share");
  const auto now = Availability::Clock::now();
  EXPECT_THAT(pool.Check(), FailsWith(StatusCode::kUnavailable, "it is being mounted now"));
  EXPECT_THAT(pool.Check(now + std::chrono::seconds(20)), FailsWith(StatusCode::kUnavailable, "has not answered for"))
      << "the plugin was started beside a dead server";
  pool.Answered();
  EXPECT_OK(pool.Check(now));
  EXPECT_THAT(pool.Check(now + std::chrono::seconds(20)), FailsWith(StatusCode::kUnavailable, "has not answered for"));
  pool.Answered();
  EXPECT_OK(pool.Check());
}

}  // namespace
}  // namespace mooring::testing

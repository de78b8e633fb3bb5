// Volumes of a pool on an NFS server, and their uses by two hosts.
#include <filesystem>
#include <fstream>
#include <map>

#include "plugin/catalog/catalog_locks.h"
#include "tests/support/kernel.h"
#include "tests/unit/catalog/nfs_pool_fixture.h"

namespace mooring::testing {
namespace {

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

TEST_F(NfsPool, ADeletedVolumeKeepsItsDataUnderAnotherName) {
  OpenBoth();
  for (const auto& [on_delete, begin] :
       {std::pair(OnDelete::kRetain, "share/retained-"), std::pair(OnDelete::kArchive, "share/archived-")}) {
    const std::string id = Created(here_, "a", {.on_delete = on_delete});
    std::ofstream(shared_ / "share/" + id + "/data") << "kept";
    ASSERT_OK(Publish(here_, id, "n1", AccessMode::kMultiNodeMultiWriter));
    EXPECT_THAT(there_.catalog.Delete(id, Patient()), FailsWith(StatusCode::kFailedPrecondition, "published to node"));
    EXPECT_TRUE(std::filesystem::exists(shared_ / "share/" + id + "/data")) << "it is not renamed before it is unused";
    EXPECT_OK(here_.catalog.Unpublish({.volume_id = id, .node_id = "n1"}, Patient()));
    EXPECT_OK(there_.catalog.Delete(id, Patient()));
    EXPECT_OK(there_.catalog.Delete(id, Patient()));
    EXPECT_OK(here_.catalog.ReconcilePool("share"));
    EXPECT_THAT(here_.catalog.Get(id).status(), FailsWith(StatusCode::kNotFound, "does not exist"));
    EXPECT_EQ(ReadFile(shared_ / begin + id + "/data"), "kept");
  }
}

TEST_F(NfsPool, AVolumeIsClonedWhileNobodyUsesIt) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  std::ofstream(shared_ / "share/" + id + "/data") << "copied";
  ASSERT_OK(there_.catalog.BeginUse(id, Mode(AccessMode::kMultiNodeReaderOnly), true));
  EXPECT_THAT(Clone(here_, "b", id).status(), FailsWith(StatusCode::kFailedPrecondition, "in use on node 'n2'"));
  EXPECT_OK(there_.catalog.EndUse(id));
  const auto made = Clone(here_, "b", id);
  ASSERT_OK(made);
  EXPECT_EQ(ReadFile(shared_ / "share/" + made->id + "/data"), "copied");
  EXPECT_EQ(Clone(there_, "b", id)->id, made->id) << "again, on another host";
  EXPECT_OK(there_.catalog.Delete(id, Patient()));
  EXPECT_EQ(ReadFile(shared_ / "share/" + made->id + "/data"), "copied");
}

TEST_F(NfsPool, ACloneThatFailsLeavesNothing) {
  OpenBoth();
  const std::string id = Created(here_, "a");
  here_.mounter.Fail("CopyTree", ResourceExhausted("no room"));
  EXPECT_THAT(Clone(here_, "b", id).status(), FailsWith(StatusCode::kResourceExhausted, "no room"));
  EXPECT_THAT(Names(), UnorderedElementsAre(id));
  EXPECT_THAT(here_.store->FindByName("b", kTag)->has_value(), false);
}

// Another host may be at work on a copy. Its record tells whether that has ended.
TEST_F(NfsPool, OnlyTheRestOfAnInterruptedCloneIsRemoved) {
  OpenBoth();
  const std::string id = Created(here_, "a"), copy = NewVolumeId(kTag), of_other = NewVolumeId(kTag);
  for (const std::string& name : {copy, of_other}) std::filesystem::create_directories(Making(name) + "/part");
  const auto insert = [&](const std::string& name, const std::string& of) {
    EXPECT_OK(here_.store->Insert({.id = of, .name = name, .fs_type = "nfs", .pool = "share", .source = id}));
  };
  insert("b", copy);
  insert("c", of_other);
  const auto at_work = LockName(*there_.locks, kVolumeName, "c", Patient(), kTag);
  ASSERT_OK(at_work);
  EXPECT_OK(here_.catalog.ReconcilePool("share"));
  EXPECT_FALSE(std::filesystem::exists(Making(copy)));
  EXPECT_TRUE(std::filesystem::exists(Making(of_other) + "/part"));
  EXPECT_FALSE(here_.store->FindByName("b", kTag)->has_value());
  EXPECT_TRUE(here_.store->FindByName("c", kTag)->has_value());
}

// It may be the name of a volume again by then, for a server that shows old names.
TEST_F(NfsPool, AVolumeThatIsKeptIsNeverDeleted) {
  OpenBoth();
  const std::string id = Created(here_, "a", {.on_delete = OnDelete::kRetain}), path = shared_ / "share/" + id;
  std::ofstream(path + "/data") << "kept";
  std::filesystem::create_directories(shared_ / "share/retained-" + id + "/other");
  EXPECT_THAT(here_.catalog.Delete(id, Patient()), FailsWith(StatusCode::kFailedPrecondition, "move it away"));
  EXPECT_EQ(ReadFile(path + "/data"), "kept");
  EXPECT_OK(here_.catalog.Get(id));
  EXPECT_EQ(TuningIn("onDelete=later").making.on_delete, OnDelete::kRetain) << "a word of a newer program";
}

TEST_F(NfsPool, AJournalThatCannotBeLookedAtIsNotTakenForMissing) {
  OpenBoth();
  const std::string id = Created(here_, "a"), journal = shared_ / "catalog.db-journal";
  std::filesystem::remove(journal);
  std::filesystem::create_symlink("catalog.db-journal", journal);  // stat(2) fails: ELOOP
  EXPECT_THAT(there_.catalog.Get(id).status(), FailsWith(StatusCode::kInternal, "catalog.db"));
  std::filesystem::remove(journal);
  EXPECT_OK(there_.catalog.Get(id));
}

// A kill between the rename and the end of the record.
TEST_F(NfsPool, ADeletionThatKeepsTheDataGoesOn) {
  OpenBoth();
  const std::string id = Created(here_, "a", {.on_delete = OnDelete::kRetain});
  std::ofstream(shared_ / "share/" + id + "/data") << "kept";
  ASSERT_TRUE(*here_.store->Move(id, VolumeState::kReady, VolumeState::kDeleting));
  std::filesystem::rename(shared_ / "share/" + id, shared_ / "share/retained-" + id);
  EXPECT_OK(there_.catalog.ReconcilePool("share"));
  EXPECT_EQ(ReadFile(shared_ / "share/retained-" + id + "/data"), "kept");
  const std::string next = Created(here_, "b", {.on_delete = OnDelete::kRetain});
  std::ofstream(shared_ / "share/" + next + "/data") << "kept";
  ASSERT_TRUE(*here_.store->Move(next, VolumeState::kReady, VolumeState::kDeleting));
  EXPECT_OK(there_.catalog.ReconcilePool("share"));
  EXPECT_OK(there_.catalog.Get(next)) << "the plugin was killed before the rename";
  EXPECT_OK(there_.catalog.Delete(next, Patient()));
  EXPECT_EQ(ReadFile(shared_ / "share/retained-" + next + "/data"), "kept");
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

}  // namespace
}  // namespace mooring::testing

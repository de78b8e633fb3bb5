// Volumes of a pool on an NFS server, and their uses by two hosts.
#include <map>

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

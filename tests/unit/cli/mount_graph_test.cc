// The mounts of several namespaces, from mountinfo texts: a host, a plugin's container, a task.
#include "cli/mounts/mount_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <map>
#include <string>

#include "tests/support/mount_graph.h"
#include "tests/support/status_matchers.h"

namespace mooring::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MountInfoTest, ReadsEveryFieldOfALine) {
  const auto mounts = ParseMountInfo(
      "41 30 8:2 /volumes/a /srv/with\\040blank ro,nosuid,noatime shared:7 master:3 propagate_from:2 - ext4 /dev/sda2 "
      "ro,commit=5\n");
  ASSERT_OK(mounts);
  ASSERT_EQ(mounts->size(), 1U);
  const TableMount& mount = mounts->front();
  EXPECT_EQ(mount.id, 41U);
  EXPECT_EQ(mount.parent, 30U);
  EXPECT_EQ(mount.device, makedev(8, 2));
  EXPECT_EQ(mount.root, "/volumes/a");
  EXPECT_EQ(mount.target, "/srv/with blank");
  EXPECT_EQ(mount.source, "/dev/sda2");
  EXPECT_EQ(mount.fs_type, "ext4");
  EXPECT_EQ(ToString(mount.flags), "ro,nosuid,noatime");
  EXPECT_TRUE(mount.superblock_read_only);
  EXPECT_EQ(mount.peer_group, 7U);
  EXPECT_EQ(mount.master, 3U);
  EXPECT_EQ(mount.propagate_from, 2U);
  EXPECT_EQ(PropagationText(mount), "slave of 3, shared in peer group 7");
}

TEST(MountInfoTest, PropagationHasWords) {
  const NamespaceView view = View(1, 10, "init",
                                  "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
                                  "2 1 8:1 / /a rw shared:3 - ext4 /dev/sda1 rw\n"
                                  "3 1 8:1 / /b rw master:3 - ext4 /dev/sda1 rw\n"
                                  "4 1 8:1 / /c rw unbindable - ext4 /dev/sda1 rw\n");
  EXPECT_EQ(PropagationText(view.mounts[0]), "private");
  EXPECT_EQ(PropagationText(view.mounts[1]), "shared in peer group 3");
  EXPECT_EQ(PropagationText(view.mounts[2]), "slave of 3");
  EXPECT_EQ(PropagationText(view.mounts[3]), "unbindable");
}

TEST(MountInfoTest, TheRootOfNfsIsInItsSource) {
  const auto mounts = ParseMountInfo(
      "1 0 0:40 / / rw - ext4 /dev/sda1 rw\n"
      "2 1 0:41 / /a rw - nfs4 nas:/srv/a\\040b/vol-1 rw\n"
      "3 1 0:41 / /b rw - nfs4 [fd00::1]:/ rw\n"
      "4 1 0:42 / /c rw - fuse.sshfs nas:/srv rw\n");
  ASSERT_OK(mounts);
  EXPECT_EQ(mounts->at(1).root, "/srv/a b/vol-1");
  EXPECT_EQ(mounts->at(2).root, "/");
  EXPECT_EQ(mounts->at(3).root, "/");
}

TEST(MountInfoTest, RefusesInvalidLines) {
  EXPECT_THAT(*ParseMountInfo(""), IsEmpty());
  EXPECT_FALSE(ReadMountInfo("/nowhere/mountinfo").ok());
}

TEST(MountWalkTest, WalksAsTheKernelDoes) {
  const NamespaceView view = View(1, 10, "init",
                                  "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
                                  "2 1 8:2 / /a/b rw - ext4 /dev/sda2 rw\n"
                                  "3 1 0:9 / /a rw - tmpfs none rw\n"  // over /a, and what is in it
                                  "4 1 0:7 / /c rw - tmpfs none rw\n"
                                  "5 4 0:8 / /c rw - tmpfs none rw\n"  // stacked
                                  "6 5 0:8 / /c/d/e rw - tmpfs none rw\n");
  const std::map<std::string, std::uint64_t> holding{{"/", 1},      {"/x", 1},      {"/a", 3},      {"/a/b", 3},
                                                     {"/a/b/f", 3}, {"/ab", 1},     {"/c", 5},      {"/c/d", 5},
                                                     {"/c/d/e", 6}, {"/c/d/ef", 5}, {"/c/d/e/f", 6}};
  const MountWalk walk(view);
  for (const auto& [path, id] : holding) {
    ASSERT_NE(walk.Holding(path), nullptr) << path;
    EXPECT_EQ(walk.Holding(path)->id, id) << path;
  }
  EXPECT_EQ(MountAtPath(view, "/a/b"), nullptr);
  EXPECT_EQ(MountAtPath(view, "/ab"), nullptr);
  EXPECT_EQ(MountAtPath(view, "/c")->id, 5U);
  EXPECT_FALSE(walk.Reaches(view.mounts[1]));
  EXPECT_FALSE(walk.Reaches(view.mounts[3]));
  EXPECT_TRUE(walk.Reaches(view.mounts[5]));
  EXPECT_EQ(ParentIn(view, view.mounts[4]), &view.mounts[3]);
  EXPECT_EQ(ParentIn(view, view.mounts[0]), nullptr);
  EXPECT_EQ(MountHolding(NamespaceView(), "/"), nullptr);
}

TEST(PathInFilesystemTest, RoundTrips) {
  TableMount mount;
  mount.root = "/volumes";
  mount.target = "/srv";
  EXPECT_EQ(PathInFilesystem(mount, "/srv/a"), "/volumes/a");
  EXPECT_EQ(PathInFilesystem(mount, "/srv"), "/volumes");
  EXPECT_EQ(PathInNamespace(mount, "/volumes/a"), "/srv/a");
  EXPECT_EQ(PathInNamespace(mount, "/volumes"), "/srv");
  EXPECT_EQ(PathInNamespace(mount, "/volumes2"), "");
  mount.root = mount.target = "/";
  EXPECT_EQ(PathInFilesystem(mount, "/srv/a"), "/srv/a");
  EXPECT_EQ(PathInFilesystem(mount, "/"), "/");
  EXPECT_EQ(PathInNamespace(mount, "/"), "/");
  EXPECT_EQ(PathInNamespace(mount, "/a"), "/a");
}

// Group 1: the host and the plugin. Group 5 receives from it and passes on; the task receives from that.
MountGraph HostPluginTask() {
  return {{View(1, 10, "init",
                "1 0 8:1 / / rw shared:9 - ext4 /dev/sda1 rw\n"
                "2 1 8:2 / /srv rw shared:1 - ext4 /dev/sda2 rw\n"),
           View(2, 20, "plugin",
                "11 0 8:3 / / rw - ext4 /dev/sda3 rw\n"
                "12 11 8:2 / /srv rw shared:1 - ext4 /dev/sda2 rw\n"
                "13 11 8:2 / /out rw shared:5 master:1 - ext4 /dev/sda2 rw\n"),
           View(3, 30, "task",
                "21 0 8:3 / / rw - ext4 /dev/sda3 rw\n"
                "22 21 8:2 / /data rw master:5 - ext4 /dev/sda2 rw\n"),
           View(4, 40, "other", "31 0 8:2 / / rw - ext4 /dev/sda2 rw\n")}};
}

TEST(PropagationTreeTest, GoesFromTheOutermostMasterToTheLastSlave) {
  const MountGraph graph = HostPluginTask();
  const PropagationGroup tree = PropagationTree(graph, {&graph.views[2], &graph.views[2].mounts[1]});
  EXPECT_EQ(tree.id, 1U);
  ASSERT_EQ(tree.peers.size(), 2U);
  EXPECT_EQ(tree.peers[1].view->command, "plugin");
  EXPECT_THAT(tree.slaves, IsEmpty());
  ASSERT_EQ(tree.below.size(), 1U);
  EXPECT_EQ(tree.below[0].id, 5U);
  ASSERT_EQ(tree.below[0].slaves.size(), 1U);
  EXPECT_EQ(tree.below[0].slaves[0].mount->target, "/data");
}

TEST(PropagationTreeTest, PrivateMountIsAlone) {
  const MountGraph graph = HostPluginTask();
  const PropagationGroup tree = PropagationTree(graph, {&graph.views[3], &graph.views[3].mounts[0]});
  EXPECT_EQ(tree.id, 0U);
  ASSERT_EQ(tree.peers.size(), 1U);
}

TEST(PropagationTreeTest, CycleEnds) {
  const MountGraph graph{{View(1, 10, "init",
                               "1 0 8:1 / / rw shared:1 master:2 - ext4 /dev/sda1 rw\n"
                               "2 1 8:2 / /a rw shared:2 master:1 - ext4 /dev/sda2 rw\n")}};
  EXPECT_EQ(PropagationTree(graph, {&graph.views[0], &graph.views[0].mounts[0]}).peers.size(), 1U);
  EXPECT_THAT(GroupsBelow(graph, 1), ElementsAre(1, 2));
}

TEST(WhoElseSeesTest, NamesPeersReceiversMastersAndCopies) {
  const MountGraph graph = HostPluginTask();
  const auto of_host = WhoElseSees(graph, {&graph.views[0], &graph.views[0].mounts[1]});
  ASSERT_EQ(of_host.size(), 4U);
  EXPECT_EQ(of_host[0].relation, Relation::kPeer);
  EXPECT_EQ(of_host[1].relation, Relation::kReceives);
  EXPECT_EQ(of_host[1].mount->target, "/out");
  EXPECT_EQ(of_host[2].relation, Relation::kReceives);
  EXPECT_EQ(of_host[2].mount->target, "/data") << "by way of the plugin";
  EXPECT_EQ(of_host[3].relation, Relation::kCopy);
  const auto of_task = WhoElseSees(graph, {&graph.views[2], &graph.views[2].mounts[1]});
  ASSERT_GE(of_task.size(), 2U);
  EXPECT_EQ(of_task[0].relation, Relation::kMaster);
}

}  // namespace
}  // namespace mooring::testing

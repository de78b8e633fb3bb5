// The findings of `mooring doctor`, from mountinfo texts and facts of the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "cli/doctor/container.h"
#include "cli/doctor/draw.h"
#include "cli/doctor/health.h"
#include "cli/doctor/host_facts.h"
#include "cli/doctor/loops.h"
#include "tests/support/mount_graph.h"
#include "tests/support/status_matchers.h"

namespace mooring::cli::doctor_area {
namespace {

using mooring::testing::FailsWith;
using mooring::testing::View;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Kinds(const Findings& findings) {
  std::vector<std::string> kinds;
  for (const Finding& finding : findings) kinds.push_back(finding.kind);
  return kinds;
}

// A view with one mount at /srv/v, below the root.
NamespaceView WithMount(const std::string& fs_type, dev_t device) {
  NamespaceView view = View(1, 10, "init",
                            "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
                            "2 1 0:57 / /srv/v rw,relatime - ext4 none rw\n");
  view.mounts[1].fs_type = fs_type;
  view.mounts[1].device = device;
  return view;
}

Findings Broken(const NamespaceView& view, int answer, pid_t pid = 0) {
  return FindBroken(view, {{&view.mounts[0], 0}, {&view.mounts[1], answer}}, {}, pid);
}

TEST(BrokenMountTest, FindsEachErrno) {
  const NamespaceView view = WithMount("fuse.sshfs", makedev(0, 57));
  for (const int error : {ENOTCONN, ESTALE, EIO}) {
    const Findings findings = Broken(view, error);
    ASSERT_THAT(Kinds(findings), ElementsAre("broken-mount"));
    EXPECT_THAT(findings[0].what, HasSubstr(std::generic_category().message(error)));
    EXPECT_THAT(findings[0].commands, ElementsAre("mooring umount /srv/v"));
  }
  EXPECT_THAT(Broken(view, 0), IsEmpty());
  EXPECT_THAT(Broken(view, EACCES), IsEmpty());
  EXPECT_THAT(Broken(view, ENOTCONN, 20).at(0).commands, ElementsAre("mooring umount /srv/v --pid 20 --if-exists"));
}

TEST(BrokenMountTest, HungMountIsAbortedFirst) {
  const auto commands = [](const std::string& fs_type, dev_t device, pid_t pid = 0) {
    return Broken(WithMount(fs_type, device), kHangs, pid).at(0).commands;
  };
  EXPECT_THAT(commands("fuse", makedev(0, 57)),
              ElementsAre("echo 1 > /sys/fs/fuse/connections/57/abort", "mooring umount /srv/v"));
  EXPECT_THAT(commands("fuseblk", makedev(8, 17)),
              ElementsAre("echo 1 > /sys/fs/fuse/connections/8388625/abort", "mooring umount /srv/v"));
  EXPECT_THAT(commands("nfs4", makedev(0, 57)), ElementsAre("umount -f /srv/v", "mooring umount /srv/v"));
  EXPECT_THAT(commands("nfs4", makedev(0, 57), 20), ElementsAre("mooring umount /srv/v --pid 20 --if-exists"));
}

TEST(BrokenMountTest, NoCommandForRootOrCoveredMounts) {
  const NamespaceView view = View(1, 10, "init",
                                  "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
                                  "2 1 0:57 / /a rw,relatime - ext4 none rw\n"
                                  "3 2 0:58 / /a rw,relatime - fuse none rw\n"       // over it
                                  "4 3 0:59 / /a/b rw,relatime - tmpfs none rw\n");  // its path leads through
  const Findings findings = FindBroken(
      view, {{&view.mounts[0], 0}, {&view.mounts[2], kHangs}, {&view.mounts[3], kNotAsked}}, {&view.mounts[1]}, 0);
  ASSERT_THAT(Kinds(findings), ElementsAre("hung-mount", "behind-another", "behind-another"));
  EXPECT_THAT(findings[1].commands, IsEmpty());
  EXPECT_THAT(findings[2].commands, IsEmpty());
  EXPECT_THAT(FindBroken(view, {{&view.mounts[0], 0}, {&view.mounts[2], 0}}, {&view.mounts[1]}, 0), IsEmpty());
  EXPECT_THAT(FindBroken(view, {{&view.mounts[0], EIO}}, {}, 0).at(0).commands, IsEmpty());
}

LoopFacts Loop(unsigned number, const std::string& file) {
  LoopFacts loop;
  loop.device = "/dev/loop" + std::to_string(number);
  loop.number = makedev(7, number);
  loop.backing_file = file;
  return loop;
}

TEST(LeakedLoopTest, FindsDevicesOverDeletedFilesAndUnusedImages) {
  LoopFacts deleted = Loop(1, "/tmp/x");
  deleted.deleted = true;
  deleted.label = "mooring:v";
  const Findings findings = FindLeakedLoops({deleted, Loop(2, "/state/volumes/v.img"), Loop(3, "/home/image")},
                                            MountGraph(), "/state/volumes");
  ASSERT_THAT(Kinds(findings), ElementsAre("leaked-loop", "leaked-loop"));
  EXPECT_THAT(findings[0].commands, ElementsAre("losetup -d /dev/loop1"));
  EXPECT_EQ(findings[0].severity, Severity::kProblem);
  EXPECT_THAT(findings[1].commands, IsEmpty()) << "it may be staged as a block device";
  EXPECT_EQ(findings[1].severity, Severity::kNote);
  deleted.label = "";
  EXPECT_EQ(FindLeakedLoops({deleted}, MountGraph(), "/s").at(0).severity, Severity::kNote) << "of another program";
}

TEST(LeakedLoopTest, IgnoresUsedDevices) {
  const MountGraph graph{
      {View(1, 10, "init", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"), View(2, 20, "task",
                                                                         "2 0 7:1 / /a rw - ext4 /dev/loop1 rw\n"
                                                                         "3 2 0:6 /loop2 /b rw - devtmpfs udev rw\n")}};
  LoopFacts held = Loop(4, "/state/volumes/d.img");
  held.held = true;
  LoopFacts mounted = Loop(6, "/state/volumes/e.img");
  mounted.mounted = true;
  const std::vector<LoopFacts> loops{Loop(1, "/state/volumes/a.img"),
                                     Loop(2, "/state/volumes/b.img"),
                                     Loop(3, "/state/volumes/c.img"),
                                     held,
                                     Loop(5, "/loop3"),
                                     mounted};
  EXPECT_THAT(FindLeakedLoops(loops, graph, "/state/volumes"), IsEmpty());
  EXPECT_THAT(PathsOf(loops[1], graph.views[1]), ElementsAre("/b"));
}

TEST(LeakedLoopTest, IgnoresSourcesOfMounts) {
  const MountGraph graph{{View(1, 10, "init", "1 0 0:40 / /b rw - btrfs /dev/loop2 rw\n")}};
  EXPECT_THAT(FindLeakedLoops({Loop(2, "/s/v.img")}, graph, "/s"), IsEmpty());
}

LoopFacts Encrypted(unsigned number, const std::string& file) {
  LoopFacts loop = Loop(number, file);
  loop.mapping = "mooring-vol-1";
  loop.mapping_device = "/dev/dm-3";
  loop.mapping_number = makedev(254, 3);
  return loop;
}

TEST(LeakedLoopTest, FollowsTheMappingOfAnEncryptedVolume) {
  const MountGraph graph{{View(1, 10, "init",
                               "1 0 254:3 / /fs rw - ext4 /dev/mapper/mooring-vol-1 rw\n"
                               "2 0 0:6 /dm-3 /raw rw - devtmpfs udev rw\n"
                               "3 0 0:6 /mapper/mooring-vol-1 /named rw - devtmpfs udev rw\n"
                               "4 0 0:6 /dm-30 /other rw - devtmpfs udev rw\n"
                               "5 0 7:1 / /of-loop rw - ext4 /dev/loop1 rw\n")}};
  const LoopFacts loop = Encrypted(1, "/s/v.img");
  EXPECT_THAT(PathsOf(loop, graph.views[0]), ElementsAre("/fs", "/raw", "/named"));
  EXPECT_THAT(FindLeakedLoops({loop}, graph, "/s"), IsEmpty());
}

TEST(LeakedLoopTest, IgnoresAnEncryptedBtrfs) {
  const LoopFacts loop = Encrypted(1, "/s/v.img");
  for (const char* source : {"/dev/mapper/mooring-vol-1", "/dev/dm-3"}) {
    const MountGraph graph{{View(1, 10, "init", "1 0 0:40 / /b rw - btrfs " + std::string(source) + " rw\n")}};
    EXPECT_THAT(FindLeakedLoops({loop}, graph, "/s"), IsEmpty()) << source;
  }
}

TEST(LeakedLoopTest, FindsAMappingThatNobodyUses) {
  LoopFacts loop = Encrypted(1, "/s/v.img");
  loop.label = "mooring:vol-1";
  EXPECT_EQ(FindLeakedLoops({loop}, MountGraph(), "/s").at(0).severity, Severity::kNote) << "it may be staged";
  loop.deleted = true;
  EXPECT_THAT(FindLeakedLoops({loop}, MountGraph(), "/s").at(0).commands,
              ElementsAre("cryptsetup close mooring-vol-1", "losetup -d /dev/loop1"));
}

HostFacts Complete() {
  HostFacts facts;
  facts.capabilities = ~std::uint64_t{0};
  facts.filesystems = {"ext4", "xfs"};
  return facts;
}

TEST(HostFactsTest, CompleteHostHasNoFindings) { EXPECT_THAT(FindMissing(Complete()), IsEmpty()); }

TEST(HostFactsTest, MissingMountCallsLoopDevicesAndExt4AreProblems) {
  HostFacts facts = Complete();
  facts.missing_calls = {"mount_setattr"};
  EXPECT_EQ(FindMissing(facts).at(0).severity, Severity::kProblem);
  facts.missing_calls = {};
  facts.loop_control = false;
  facts.filesystems = {};
  const Findings findings = FindMissing(facts);
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].severity, Severity::kProblem);
  EXPECT_THAT(findings[0].commands, ElementsAre("modprobe loop"));
  EXPECT_EQ(findings[1].severity, Severity::kProblem);
  EXPECT_THAT(findings[1].commands, ElementsAre("modprobe ext4"));
  EXPECT_EQ(findings[2].severity, Severity::kNote);
}

constexpr char kId[] = "5f2a90c1b7de00112233445566778899aabbccddeeff00112233445566778899";

ProcessFacts Process(pid_t pid, pid_t parent, std::uint64_t mount_namespace, const std::string& cgroup,
                     const std::string& command = "") {
  return {.pid = pid, .parent = parent, .mount_namespace = mount_namespace, .cgroup = cgroup, .command = command};
}

TEST(ContainerTest, FoundByItsCgroup) {
  for (const char* format :
       {"0::/system.slice/docker-{}.scope\n", "12:memory:/docker/{}\n0::/\n",
        "0::/machine.slice/libpod-{}.scope/container\n", "0::/kubepods/cri-containerd-{}.scope\n"}) {
    std::string cgroup = format;
    cgroup.replace(cgroup.find("{}"), 2, kId);
    const std::vector<ProcessFacts> processes{Process(1, 0, 1, "0::/init.scope\n"), Process(90, 300, 2, cgroup),
                                              Process(300, 7, 2, cgroup)};
    EXPECT_EQ(*FindContainer(processes, kId, 1), 300) << format << "the one the others descend from";
    EXPECT_EQ(*FindContainer(processes, std::string(kId).substr(0, 12), 1), 300);
  }
}

TEST(ContainerTest, MonitorIsNotTheContainer) {
  const std::vector<ProcessFacts> processes{
      Process(50, 1, 1, std::string("0::/libpod-conmon-") + kId + ".scope", std::string("/usr/bin/conmon -c ") + kId),
      Process(51, 50, 2, "0::/elsewhere")};
  EXPECT_EQ(*FindContainer(processes, kId, 1), 51);
}

TEST(ContainerTest, WrongIdsAreErrors) {
  EXPECT_THAT(FindContainer({}, "5f2a", 1), FailsWith(absl::StatusCode::kInvalidArgument, "not the ID"));
  EXPECT_THAT(FindContainer({}, "web", 1), FailsWith(absl::StatusCode::kInvalidArgument, "not the ID"));
  EXPECT_THAT(FindContainer({}, kId, 1), FailsWith(absl::StatusCode::kNotFound, "no process"));
  const std::vector<ProcessFacts> two{Process(5, 1, 2, "/docker/5f2a90c1b7de00"),
                                      Process(6, 1, 3, "/docker/5f2a90c1b7de11")};
  EXPECT_THAT(FindContainer(two, "5f2a90c1b7de", 1), FailsWith(absl::StatusCode::kFailedPrecondition, "several"));
}

TEST(DrawTest, ShowsGroupsPeersAndSlaves) {
  const MountGraph graph{{View(1, 10, "init", "2 0 8:2 / /srv rw shared:1 - ext4 /dev/sda2 rw\n"),
                          View(2, 20, "plugin",
                               "12 0 8:2 / /srv rw shared:1 - ext4 /dev/sda2 rw\n"
                               "13 12 8:2 / /out rw shared:5 master:1 - ext4 /dev/sda2 rw\n"),
                          View(3, 30, "ta\nsk", "22 0 8:2 / /data rw master:1 - ext4 /dev/sda2 rw\n")}};
  const PropagationGroup tree = PropagationTree(graph, {&graph.views[0], &graph.views[0].mounts[0]});
  EXPECT_EQ(DrawTree(tree, graph.views[0], Lines::kUnicode),
            "peer group 1\n"
            "├─ /srv in this namespace\n"
            "├─ /srv in pid 20 (plugin)\n"
            "├▶ /data in pid 30 (ta\\nsk), receives\n"
            "└▶ peer group 5, receives\n"
            "   └─ /out in pid 20 (plugin)\n");
  EXPECT_EQ(DrawTree(tree, graph.views[0], Lines::kAscii),
            "peer group 1\n"
            "|- /srv in this namespace\n"
            "|- /srv in pid 20 (plugin)\n"
            "|> /data in pid 30 (ta\\nsk), receives\n"
            "`> peer group 5, receives\n"
            "   `- /out in pid 20 (plugin)\n");
}

TEST(DrawTest, LimitsTheMountsOfAGroup) {
  PropagationGroup group{.id = 1, .peers = {}, .slaves = {}, .below = {}};
  const NamespaceView view = View(1, 10, "init", "2 0 8:2 / /srv rw shared:1 - ext4 /dev/sda2 rw\n");
  group.peers.assign(100, {&view, &view.mounts[0]});
  EXPECT_THAT(DrawTree(group, view, Lines::kAscii), HasSubstr("`- 76 more\n"));
}

TEST(DoctorInUse, KubeletPathsHaveCommands) {
  const std::string pods = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/pvc-1/mount";
  const std::string csi = "/var/lib/kubelet/plugins/kubernetes.io/csi/";
  EXPECT_THAT(InUse("v", {csi + "mooring.csi/1f/globalmount", pods}).commands,
              ElementsAre(HasSubstr("unpublish v --target-path"), HasSubstr("unstage v --staging-path")));
  EXPECT_THAT(InUse("v", {csi + "volumeDevices/publish/pvc-1/u", csi + "volumeDevices/staging/pvc-1"}).commands,
              ElementsAre(HasSubstr("volumeDevices/publish/pvc-1/u"), HasSubstr("unstage v --staging-path")));
}

// `unpublish` of a staging path would unmount it below a target that is in use.
TEST(DoctorInUse, UnknownPathsHaveNoCommands) {
  const std::string staging = "/local/csi/staging/default/web/rw-file-system-single-node-writer";
  for (const char* const path : {"/mnt/stage", "/mnt/staging/v", "/srv/globalmount", "/staging/a/b/rwx",
                                 "/pods/u/volumes/kubernetes.io~csi/v/mount/sub"}) {
    const Finding finding = InUse("vol-1", {staging, path});
    EXPECT_THAT(finding.commands, IsEmpty()) << path;
    EXPECT_THAT(finding.what, HasSubstr("'" + std::string(path) + "'"));
    EXPECT_THAT(finding.what, HasSubstr("`mooring csi unpublish` for each target first, then `mooring csi unstage`"));
  }
}

}  // namespace
}  // namespace mooring::cli::doctor_area

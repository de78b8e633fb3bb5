// The findings of `mooring doctor` about mounts that a task does not see, from mountinfo texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/doctor/visibility.h"
#include "tests/support/mount_graph.h"

namespace mooring::cli::doctor_area {
namespace {

using mooring::testing::View;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> KindsOf(const Findings& findings) {
  std::vector<std::string> kinds;
  for (const Finding& finding : findings) kinds.push_back(finding.kind);
  return kinds;
}

// A host that has a volume (8:9) mounted in its directory /srv (a mount of 8:2), and a task that has that directory.
MountGraph Graph(const std::string& carrier, const std::string& task) {
  return {{View(1, 10, "init",
                "1 0 8:1 / / rw,relatime shared:9 - ext4 /dev/sda1 rw\n"
                "2 1 8:2 /d /srv rw,relatime " +
                    carrier +
                    "- ext4 /dev/sda2 rw\n"
                    "3 2 8:9 / /srv/v rw,relatime - ext4 /dev/sdb rw\n"),
           View(2, 20, "task", "11 0 8:3 / / rw,relatime - ext4 /dev/sda3 rw\n" + task)}};
}

Visibility Explain(const MountGraph& graph, const std::string& path, bool to_task = true) {
  return ExplainVisibility(graph, {path, to_task ? &graph.views[1] : nullptr});
}

// Checks all kinds, and text and commands of the first finding.
void ExpectFinding(const MountGraph& graph, const std::string& path, const std::vector<std::string>& kinds,
                   const std::string& what, const std::vector<std::string>& commands, bool to_task = true) {
  const Findings findings = Explain(graph, path, to_task).findings;
  ASSERT_EQ(KindsOf(findings), kinds);
  EXPECT_THAT(findings[0].what, HasSubstr(what));
  EXPECT_EQ(findings[0].commands, commands);
  EXPECT_EQ(findings[0].severity, Severity::kProblem);
}

// The directory of the host in the task.
std::string CopyAt(const std::string& place, const std::string& options, const std::string& propagation = "") {
  return "12 11 8:2 /d " + place + " " + options + " " + propagation + "- ext4 /dev/sda2 rw\n";
}

const std::string kPrivateCopy = CopyAt("/data", "rw,relatime");
const std::string kBind = "mooring mount bind /srv/v /data/v --pid 20 --propagation rslave";
const std::string kShare = "mooring propagation /srv shared";
const std::string kUnmountData = "mooring umount /data --pid 20";
const std::string kBindData = "mooring mount bind /srv /data --pid 20 --propagation rslave";

TEST(VisibilityTest, CarrierThatIsNotSharedIsFound) {
  ExpectFinding(Graph("", kPrivateCopy), "/srv/v", {"not-shared", "private-copy"}, "'/srv' is not a shared mount",
                {kShare});
  ExpectFinding(Graph("master:4 ", ""), "/srv/v", {"not-shared"}, "only receives from peer group 4", {kShare}, false);
  ExpectFinding(Graph("", ""), "/srv", {"not-shared"}, "", {kShare}, false);
}

TEST(VisibilityTest, SharedCarrierHasNoFindings) {
  for (const char* path : {"/srv/v", "/srv/new", "/srv"}) {
    EXPECT_THAT(Explain(Graph("shared:1 ", ""), path, false).findings, IsEmpty()) << path;
  }
}

TEST(VisibilityTest, PrivateCopyNeedsRslave) {
  ExpectFinding(Graph("shared:1 ", kPrivateCopy), "/srv/v", {"private-copy"}, "rslave", {kBind});
  ExpectFinding(Graph("shared:1 ", CopyAt("/data", "rw,relatime", "master:7 ")), "/srv/v", {"private-copy"},
                "another peer group (7)", {kBind});
  ExpectFinding(Graph("shared:1 ", "12 11 8:2 /d/v /vol rw,relatime - ext4 /dev/sda2 rw\n"), "/srv/v", {"private-copy"},
                "", {"mooring mount bind /srv/v /vol --pid 20 --propagation rslave"});
  ExpectFinding(Graph("shared:1 ", kPrivateCopy), "/srv", {"private-copy"}, "",
                {kUnmountData, kBindData + " --recursive"});
}

TEST(VisibilityTest, MountOnlyInAnotherNamespaceKeepsItsFlags) {
  const std::string copy = CopyAt("/srv", "rw,relatime", "master:1 ");
  const std::string command = "mooring mount bind /srv/w /srv/w --source-pid 20 --propagation rslave";
  for (const bool to_task : {false, true}) {
    ExpectFinding(Graph("shared:1 ", copy + "13 12 8:10 / /srv/w rw,relatime - ext4 /dev/sdc rw\n"), "/srv/w",
                  {"only-elsewhere"}, "slave of 1", {command}, to_task);
  }
  ExpectFinding(Graph("shared:1 ", copy + "13 12 8:10 / /srv/w ro,nodiratime,relatime - ext4 /dev/sdc rw\n"), "/srv/w",
                {"only-elsewhere"}, "", {command + " --read-only --option nodiratime"});
}

TEST(VisibilityTest, CommandKeepsTheTasksFlags) {
  ExpectFinding(Graph("shared:1 ", CopyAt("/data", "ro,nosuid,nodev,noexec,noatime")), "/srv", {"private-copy"}, "",
                {kUnmountData, kBindData + " --read-only --nosuid --nodev --noexec --noatime --recursive"});
  ExpectFinding(Graph("shared:1 ", CopyAt("/data", "ro,nosuid,relatime")), "/srv/v", {"private-copy"}, "",
                {kBind + " --read-only --nosuid"});
}

TEST(VisibilityTest, PlaceInTheTaskIsReported) {
  EXPECT_EQ(Explain(Graph("shared:1 ", kPrivateCopy), "/srv/v").seen_at, "");
  EXPECT_EQ(Explain(Graph("shared:1 ", kPrivateCopy), "/srv").seen_at, "/data");
  const MountGraph two =
      Graph("shared:1 ", kPrivateCopy + "13 11 8:2 /d /second rw,relatime master:1 - ext4 /dev/sda2 rw\n");
  const Visibility visibility = Explain(two, "/srv/new");
  EXPECT_THAT(visibility.findings, IsEmpty());
  EXPECT_EQ(visibility.seen_at, "/second/new") << "the copy that receives mounts is preferred";
}

TEST(VisibilityTest, PathsInCommandsAreQuotedForTheShell) {
  MountGraph graph = Graph("", "");
  for (const auto& [path, quoted] :
       {std::pair("/it's a", R"('/it'\''s a')"), std::pair("/a\n\xff", R"($'/a\n\xff')")}) {
    graph.views[0].mounts[1].target = path;
    EXPECT_THAT(Explain(graph, std::string(path) + "/x", false).findings.at(0).commands,
                ElementsAre(std::string("mooring propagation ") + quoted + " shared"));
  }
}

// In a container, about the host: a new mount on the host would remove the source of the container's mounts.
TEST(VisibilityTest, UpstreamNamespaceHasNoCommand) {
  for (const char* carrier : {"master:4 ", "shared:1 master:4 "}) {
    const MountGraph graph = Graph(carrier, "12 11 8:2 /d /srv rw,relatime shared:4 - ext4 /dev/sda2 rw\n");
    for (const char* path : {"/srv/v", "/srv/new", "/srv"}) {
      const Findings findings = Explain(graph, path).findings;
      const bool nothing_to_say = path == std::string("/srv") && carrier == std::string("master:4 ");
      ASSERT_EQ(findings.size(), nothing_to_say ? 0U : 1U) << carrier << path;
      if (nothing_to_say) continue;
      EXPECT_EQ(findings[0].kind, "receives-only");
      EXPECT_THAT(findings[0].what, HasSubstr("rshared"));
      EXPECT_THAT(findings[0].commands, IsEmpty());
    }
  }
}

TEST(VisibilityTest, RootOfATaskIsNotRemounted) {
  const MountGraph graph{{View(1, 10, "init", "1 0 8:1 / / rw,relatime shared:9 - ext4 /dev/sda1 rw\n"),
                          View(2, 20, "task", "11 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n")}};
  const Findings full = Explain(graph, "/srv").findings;
  ASSERT_THAT(KindsOf(full), ElementsAre("private-copy"));
  EXPECT_THAT(full[0].what, HasSubstr("cannot be repaired from outside"));
  EXPECT_THAT(full[0].commands, IsEmpty());
  EXPECT_THAT(ExplainVisibility(graph, {"/srv", &graph.views[1], true}).findings.at(0).commands,
              ElementsAre("mooring mount bind /srv /srv --pid 20 --propagation rslave"));
}

TEST(VisibilityTest, MountsBelowAreUnmountedFirst) {
  MountGraph graph = Graph("shared:1 ",
                           "12 11 8:2 /d /data rw,relatime - ext4 /dev/sda2 rw\n"
                           "13 12 8:9 / /data/v rw,relatime - ext4 /dev/sdb rw\n");
  const Findings findings = Explain(graph, "/srv").findings;
  EXPECT_THAT(findings.at(0).what, HasSubstr("while nothing in it uses the directory"));
  EXPECT_THAT(findings.at(0).commands,
              ElementsAre("mooring umount /data/v --pid 20", "mooring umount /data --pid 20",
                          "mooring mount bind /srv /data --pid 20 --propagation rslave --recursive"));
  graph.views[1].mounts[2].device = makedev(8, 77);  // the task's own: it would not come back
  EXPECT_THAT(Explain(graph, "/srv").findings.at(0).commands, IsEmpty());
}

}  // namespace
}  // namespace mooring::cli::doctor_area

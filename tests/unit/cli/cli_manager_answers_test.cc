// The answers of the manager, for people and for scripts, and its errors. No answer shows a secret.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cli/doctor/unfinished_work.h"
#include "cli/manager/parse/value_text.h"
#include "cli/manager/parse/volume_file.h"
#include "manager.pb.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/run_mooring.h"

namespace mooring::cli {
namespace {

namespace v1 = manager::v1;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ManagerAnswersTest : public ::testing::Test {
 protected:
  Result Run(const std::string& line) { return RunLine("mooring " + line + " --manager " + manager_.socket()); }

  template <typename Reply>
  void Answer(const std::string& text) {
    manager_.script().Reply<Reply>(text);
  }

  FakeServer manager_;
};

constexpr char kSickPlugin[] = R"(plugins {
  name: "p" nodes { healthy: 0 expected: 1 } controllers { healthy: 1 expected: 1 } controller_required: true
  supervision: "runs as process 4711" declared_by: "cli"
  instances { instance { type: CSI_NODE name: "p" socket_path: "/run/p/csi.sock" instance_id: "i1" } front: true
    words: "Probe: \x1b[31mUNAVAILABLE" driver_name: "d" vendor_version: "1.2" node_id: "n1"
    capabilities: "STAGE_UNSTAGE_VOLUME" } })";

TEST_F(ManagerAnswersTest, UnhealthyPluginShowsItsMessage) {
  Answer<v1::ListPluginsResponse>(kSickPlugin);
  const Result table = Run("plugin status");
  EXPECT_EQ(table.status, kExitOk);
  EXPECT_EQ(table.out,
            "NAME  NODES  CONTROLLERS  STATE      WHAT IT SAYS\n"
            "p     0/1    1/1          unhealthy  Probe: \\x1b[31mUNAVAILABLE\n");
  const Result one = Run("plugin status p");
  EXPECT_EQ(one.status, kExitFailed);
  EXPECT_THAT(one.out, AllOf(HasSubstr("runs         runs as process 4711\n"), HasSubstr("node id       n1\n"),
                             HasSubstr("capabilities  STAGE_UNSTAGE_VOLUME\n"), HasSubstr("/run/p/csi.sock")));
  EXPECT_EQ(Run("plugin status --quiet").out, "p\n");
}

TEST_F(ManagerAnswersTest, PluginShowsItsBinds) {
  Answer<v1::ListPluginsResponse>(R"(plugins { name: "p" binds { source: "/a" target: "/b" }
    binds { source: "/c" target: "/d" read_only: true propagation: PROPAGATION_SLAVE } })");
  EXPECT_THAT(Run("plugin status p").out, AllOf(HasSubstr(" /a:/b\n"), HasSubstr(" /c:/d:ro,rslave\n")));
  EXPECT_THAT(Run("plugin status --json").out, HasSubstr(R"("source":"/a")"));
}

TEST_F(ManagerAnswersTest, UnknownPluginIsAnError) {
  const Result result = Run("plugin status p");
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_THAT(result.err, HasSubstr("there is no plugin 'p'"));
}

TEST_F(ManagerAnswersTest, ManagerSaysWhatItHasNotDoneYet) {
  Answer<v1::GetManagerInfoResponse>(R"(version: "1" host: "h" root: "/r" owed {
    kind: "claim" what: "write claim of 'web-1' on db" plugin: "p" since_ms: 1700000000000 tries: 3
    problem: "owed to plugin 'p': \x1b[31maway" next_try_ms: 4400 })");
  const Result result = Run("manager");
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_THAT(result.out, AllOf(HasSubstr("version"), HasSubstr("\nNOT DONE YET  RECORD "),
                                HasSubstr("claim         write claim of 'web-1' on db  p "),
                                HasSubstr(" 3      in 4 s "), HasSubstr("owed to plugin 'p': \\x1b[31maway\n")));
}

TEST_F(ManagerAnswersTest, DoctorShowsWhatTheManagerHasNotDoneYet) {
  using doctor_area::Severity;
  Answer<v1::GetManagerInfoResponse>(R"(owed {
    kind: "claim" what: "write claim of 'web-1' on db" plugin: "p" since_ms: 1700000000000 tries: 3 problem: "away"
    next_try_ms: 4400 } owed { kind: "volume" what: "db" since_ms: 1700000000000 } owed { kind: "claim" what: "x"
    since_ms: 1700000000000 problem: "no" next_try_ms: 290000 })");
  const auto findings = doctor_area::FindUnfinishedWork(manager_.socket());
  ASSERT_TRUE(findings.ok() && findings->size() == 3);
  EXPECT_EQ(findings->at(0).severity, Severity::kProblem);
  EXPECT_EQ(findings->at(0).what,
            "the manager has not finished this claim since 2023-11-14T22:13:20Z: write claim of 'web-1' on db (p). "
            "The next try: in 4 s. Tries that failed: 3. It has failed: away");
  EXPECT_EQ(findings->at(1).severity, Severity::kNote);
  EXPECT_THAT(findings->at(1).what, HasSubstr(": db. The next try: now"));
  EXPECT_EQ(findings->at(2).severity, Severity::kProblem) << "a call has failed before it became work";
  EXPECT_THAT(findings->at(2).what, HasSubstr("The next try: in 290 s. It has failed: no"));
}

TEST_F(ManagerAnswersTest, DoctorFindsAManagerThatDoesNotAnswer) {
  manager_.Stop();
  const auto findings = doctor_area::FindUnfinishedWork(manager_.socket());
  ASSERT_TRUE(findings.ok() && findings->size() == 1);
  EXPECT_EQ(findings->at(0).kind, "unanswered-manager");
  EXPECT_THAT(findings->at(0).what, HasSubstr("systemctl start mooring-manager"));
}

TEST_F(ManagerAnswersTest, ManagerThatHasDoneAllShowsNoTable) {
  EXPECT_THAT(Run("manager").out, Not(HasSubstr("NOT DONE YET")));
}

constexpr char kVolume[] = R"(
  volume { key { namespace: "default" id: "db" } plugin: "p" external_id: "v" capacity_bytes: 1073741824
    capabilities { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } has_secrets: true
    mount_options { fs_type: "ext4" flags: "noatime" flags: "password=hunter22" }
    in_use { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } }
  claims { volume { id: "db" } allocation: "web-1" node: "h" mode: WRITE state: NODE_DETACHED past: true
    problem: "ControllerUnpublishVolume: UNAVAILABLE" taken_at_ms: 1700000000000
    capability { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } }
  attachments { volume { id: "db" } allocation: "web-1" request: "db" attach_path: "/srv/db" phase: MOUNTED mode: WRITE
    propagation: PROPAGATION_SLAVE }
  unschedulable: "no healthy node instance of 'p'")";

TEST_F(ManagerAnswersTest, StatusShowsClaimsAndSchedulability) {
  Answer<v1::GetVolumeResponse>(kVolume);
  const Result result = Run("volume status db");
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("schedulable    no: no healthy node instance of 'p'\n"), HasSubstr("1.0 GiB (1073741824)"),
            HasSubstr("past, node-detached  2023-11-14T22:13:20Z  ControllerUnpublishVolume: UNAVAILABLE\n"),
            HasSubstr("/srv/db  write  rslave       mounted  -\n"), HasSubstr("ext4, 2 flags\n")));
}

TEST_F(ManagerAnswersTest, MountFlagsAreRedacted) {
  Answer<v1::GetVolumeResponse>(kVolume);
  for (const char* format : {"--json", "--verbose"}) {
    const Result result = Run(std::string("volume status db ") + format);
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("hunter22")));
  }
  EXPECT_THAT(Run("volume status db --json").out, HasSubstr("password=***"));
}

TEST_F(ManagerAnswersTest, ClaimsShowSchedulability) {
  Answer<v1::GetVolumeResponse>(kVolume);
  Answer<v1::ListClaimsResponse>(R"(claims { volume { namespace: "x" id: "db" } allocation: "a" mode: READ })");
  EXPECT_THAT(Run("claims db").out, AllOf(HasSubstr("x/db"), HasSubstr("schedulable  no: no healthy node")));
  EXPECT_THAT(Run("claims").out, Not(HasSubstr("schedulable")));
}

TEST_F(ManagerAnswersTest, ErrorOfTheManagerIsPrinted) {
  manager_.script().Fail<v1::ClaimVolumeResponse>(grpc::StatusCode::FAILED_PRECONDITION,
                                                  "the volume 'db' is held by 'web-1' as single-node-writer");
  const Result result = Run("claim db --for web-2 --mode write --json");
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_EQ(result.err,
            "mooring: ClaimVolume: FAILED_PRECONDITION (9): the volume 'db' is held by 'web-1' as "
            "single-node-writer\n");
  EXPECT_THAT(result.out, HasSubstr(R"("code_name":"FAILED_PRECONDITION")"));
}

TEST_F(ManagerAnswersTest, PendingReleaseShowsTheProblem) {
  Answer<v1::ReleaseVolumeResponse>(
      R"(owed { volume { id: "db" } allocation: "a" mode: READ state: NODE_DETACHED problem: "the plugin is away" })");
  EXPECT_THAT(Run("release db --for a").out,
              AllOf(HasSubstr("db is released as soon as the plugin has undone these claims:\n"),
                    HasSubstr("the plugin is away")));
}

TEST_F(ManagerAnswersTest, VerbosePrintsSteps) {
  Answer<v1::AttachReply>("step { text: 'stage' }");
  Answer<v1::AttachReply>("step { text: 'publish' }");
  Answer<v1::AttachReply>("done { volume { id: 'db' } allocation: 'a' source: '/m/db' }");
  EXPECT_EQ(Run("attach db --for a").err, "");
  const Result verbose = Run("attach db --for a --verbose");
  EXPECT_THAT(verbose.err, HasSubstr("mooring: stage\nmooring: publish\n"));
  EXPECT_THAT(verbose.out, HasSubstr("attached db at /m/db for a"));
}

TEST_F(ManagerAnswersTest, StreamWithoutAnAnswerIsAnError) {
  Answer<v1::AttachReply>("step { text: 'stage' }");
  const Result result = Run("attach db --for a");
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_THAT(result.err, HasSubstr("without an answer"));
}

TEST_F(ManagerAnswersTest, EventsPrintALineEach) {
  Answer<v1::Event>(R"(number: 1 time_ms: 1700000000000 kind: "Mount volume" volume { id: "db" } allocation: "a")");
  Answer<v1::Event>(R"(number: 2 time_ms: 1700000001000 kind: "Plugin" plugin: "p" bad: true text: "is\ngone")");
  EXPECT_EQ(Run("events").out,
            "2023-11-14T22:13:20Z  1  Mount volume  volume db, allocation a\n"
            "2023-11-14T22:13:21Z  2  FAILED: Plugin  plugin p: is\\ngone\n");
}

TEST_F(ManagerAnswersTest, ChangesPrintALineEach) {
  Answer<v1::WatchReply>("revision: 40");
  Answer<v1::WatchReply>(R"(revision: 41
      changes { volume { key { id: "db" } plugin: "p" capacity_bytes: 1073741824
                         in_use { access: SINGLE_NODE_WRITER } } }
      changes { claim { volume { id: "db" } allocation: "web-1" mode: WRITE node: "h" problem: "no\nway" } })");
  Answer<v1::WatchReply>(R"(revision: 43
      changes { deleted: true claim { volume { namespace: "prod" id: "db" } allocation: "web-1" mode: READ } })");
  Answer<v1::WatchReply>(R"(revision: 44 changes { deleted: true volume { key { id: "db" } } })");
  const std::string volume = "41  volume db: ready, in use as single-node-writer, 1.0 GiB (1073741824), plugin p\n";
  const std::string claims =
      "41  claim of volume db to write for web-1: taken on h: no\\nway\n"
      "43  claim of volume prod/db to read for web-1: freed\n";
  const std::string deleted = "44  volume db: deleted\n";
  EXPECT_EQ(Run("watch").out, volume + claims + deleted);
  EXPECT_EQ(Run("watch --volumes --claims").out, volume + claims + deleted);
  EXPECT_EQ(Run("watch --volumes").out, volume + deleted);
  EXPECT_EQ(Run("watch --claims").out, claims);
  const std::string json = Run("watch --claims --json").out;
  EXPECT_THAT(json, AllOf(HasSubstr("\"revision\":\"40\""), Not(HasSubstr("capacity_bytes")), HasSubstr("web-1")));
  EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), 3) << "one that is of nobody who asked is not shown";
}

TEST_F(ManagerAnswersTest, NoOutputShowsASecret) {
  manager_.script().Fail<v1::CreateVolumeResponse>(grpc::StatusCode::INTERNAL, "the plugin said 'open sesame'");
  const Result result = Run("volume create db --secret 'k=open sesame' --verbose --json");
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_THAT(result.out + result.err, AllOf(Not(HasSubstr("sesame")), HasSubstr("***")));
}

TEST_F(ManagerAnswersTest, MissingManagerErrorSaysWhatToDo) {
  const Result result = RunLine("mooring volume list --manager " + manager_.directory() + "/none");
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("systemctl start mooring-manager"), HasSubstr("--manager")));
}

TEST(SplitWordsTest, SplitsAsAShellDoes) {
  EXPECT_THAT(*manager_area::SplitWords("  a 'b c'\t\"d \\\"e\\\" \\f\" g\\ h '' i'j'k "),
              ElementsAre("a", "b c", "d \"e\" \\f", "g h", "", "ijk"));
  for (const char* wrong : {"", "  ", "'a", "\"a", "a\\"}) EXPECT_FALSE(manager_area::SplitWords(wrong).ok()) << wrong;
}

TEST(VolumeFileTest, ErrorsShowNoSecret) {
  for (const char* text :
       {"", "[]", "{", R"({"nonsense": 1})", R"({"id": 7})", R"({"size": "many"})", R"({"size": -1})",
        R"({"capabilities": [{"access": "rwo"}]})", R"({"capabilities": "x"})", R"({"secrets": ["hunter22"]})",
        R"({"secrets": {"a": 1}})", R"({"mount_options": {"flags": ["password=***"]}})",
        R"({"required_topologies": ["a"]})", R"({"secrets": {"a": "hunter22"}, "id": hunter22})"}) {
    Secrets secrets;
    const auto volume = manager_area::ParseVolume(text, secrets);
    EXPECT_FALSE(volume.ok()) << text;
    EXPECT_EQ(volume.status().ToString().find("hunter22"), std::string::npos) << volume.status();
  }
}

TEST_F(ManagerAnswersTest, ClaimsOfOneHost) {
  Answer<v1::ListClaimsResponse>(R"(
    claims { volume { id: "db" } allocation: "a" mode: READ node: "h1" }
    claims { volume { id: "web" } allocation: "b" mode: READ node: "h2" })");
  EXPECT_THAT(Run("claims").out, AllOf(HasSubstr("db"), HasSubstr("web")));
  EXPECT_THAT(Run("claims --host h2").out, AllOf(Not(HasSubstr("db")), HasSubstr("web")));
  EXPECT_THAT(Run("claims --host h2 --json").out, AllOf(Not(HasSubstr("db")), HasSubstr("web")));
}

TEST_F(ManagerAnswersTest, VolumesOfOneHostAreClaimedOrReachableOnlyThere) {
  Answer<v1::ListClaimsResponse>(R"(claims { volume { id: "claimed" } allocation: "a" mode: READ node: "h1" })");
  Answer<v1::ListVolumesResponse>(R"(
    volumes { key { id: "claimed" } }
    volumes { key { id: "free" } }
    volumes { key { id: "local" } topologies { segments { key: "topology.mooring.csi/node" value: "h1" } } }
    volumes { key { id: "other" } topologies { segments { key: "topology.mooring.csi/node" value: "h2" } } }
    volumes { key { id: "both" } topologies { segments { key: "node" value: "h1" } }
                                 topologies { segments { key: "node" value: "h2" } } })");
  EXPECT_EQ(Run("volume list --host h1 --quiet").out, "claimed\nlocal\n");
  EXPECT_EQ(Run("volume list --host h2 --quiet").out, "other\n");
  EXPECT_EQ(Run("volume list --quiet").out, "claimed\nfree\nlocal\nother\nboth\n");
}

TEST_F(ManagerAnswersTest, EventsOfOneHost) {
  Answer<v1::Event>(R"(number: 1 time_ms: 1700000000000 kind: "Plugin" plugin: "p" host: "h1")");
  Answer<v1::Event>(R"(number: 2 time_ms: 1700000001000 kind: "Plugin" plugin: "p" host: "h2")");
  const std::string first = "2023-11-14T22:13:20Z  1  Plugin  host h1, plugin p\n";
  EXPECT_EQ(Run("events").out, first + "2023-11-14T22:13:21Z  2  Plugin  host h2, plugin p\n");
  EXPECT_EQ(Run("events --host h1").out, first);
}

// A claim and its volume change together; when the claim is freed, the volume is shown once more.
TEST_F(ManagerAnswersTest, ChangesOfOneHost) {
  Answer<v1::ListClaimsResponse>("");
  Answer<v1::WatchReply>("revision: 1");
  Answer<v1::WatchReply>(R"(revision: 2
    changes { volume { key { id: "db" } plugin: "p" in_use { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } } }
    changes { claim { volume { id: "db" } allocation: "a" mode: WRITE node: "h1" } })");
  Answer<v1::WatchReply>(R"(revision: 3
    changes { volume { key { id: "web" } plugin: "p" } }
    changes { claim { volume { id: "web" } allocation: "b" mode: WRITE node: "h2" } })");
  Answer<v1::WatchReply>(R"(revision: 4
    changes { volume { key { id: "db" } plugin: "p" } }
    changes { deleted: true claim { volume { id: "db" } allocation: "a" mode: WRITE node: "h1" } })");
  Answer<v1::WatchReply>(R"(revision: 5 changes { volume { key { id: "db" } plugin: "p" state: DELETING } })");
  Answer<v1::WatchReply>(R"(revision: 6 changes { deleted: true volume { key { id: "db" } } })");
  const std::string out = Run("watch --host h1").out;
  EXPECT_THAT(out, AllOf(HasSubstr("2  volume db: "), HasSubstr("2  claim of volume db to write for a"),
                         HasSubstr("4  volume db: "), HasSubstr("4  claim of volume db to write for a: freed"),
                         Not(HasSubstr("web")), Not(HasSubstr("5  ")), HasSubstr("6  volume db: deleted")));
  EXPECT_THAT(Run("watch --host h1 --claims").out, AllOf(HasSubstr("2  claim"), Not(HasSubstr("volume db: "))));
}

TEST_F(ManagerAnswersTest, HostsAreListed) {
  Answer<v1::ListHostsResponse>(R"(
    hosts { host { name: "h1" version: "1" } alive: true state: "alive" self: true claims: 2 }
    hosts { host { name: "h2" away_since_ms: 1700000000000 } state: "unreachable" })");
  EXPECT_EQ(Run("host list --quiet").out, "h1\nh2\n");
  EXPECT_THAT(Run("host list").out, AllOf(HasSubstr("this host"), HasSubstr("2023-11-14T22:13:20Z")));
}

}  // namespace
}  // namespace mooring::cli

// The requests of every command for the manager, field by field, as a fake manager receives them.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cli/run.h"
#include "manager.pb.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/run_mooring.h"

namespace mooring::cli {
namespace {

namespace v1 = manager::v1;
using ::testing::HasSubstr;

template <typename Message>
Message Text(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

class ManagerRequestsTest : public ::testing::Test {
 protected:
  ManagerRequestsTest() {
    ::setenv("MOORING_MANAGER_SOCKET", manager_.socket().c_str(), 1);
    Answer<v1::AttachReply>("done { allocation: 'web-1' }");
    Answer<v1::DetachReply>("done: true");
  }
  ~ManagerRequestsTest() override { ::unsetenv("MOORING_MANAGER_SOCKET"); }

  static Result Run(const std::vector<std::string>& arguments) { return Mooring(arguments); }

  // `mooring <arguments>` must succeed, silently on stderr.
  void Do(const std::vector<std::string>& arguments) {
    const Result result = Run(arguments);
    EXPECT_EQ(result.status, kExitOk) << result.err;
    EXPECT_EQ(result.err, "");
  }

  // The last request of its type is exactly `text`.
  template <typename Request>
  void ExpectSent(const std::string& text) {
    const std::vector<Request> sent = manager_.script().Requests<Request>();
    ASSERT_FALSE(sent.empty());
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(sent.back(), Text<Request>(text)))
        << sent.back().DebugString();
  }

  void ExpectUsage(const std::vector<std::string>& arguments, const std::string& message) {
    const std::size_t before = manager_.script().RequestCount();
    const Result result = Mooring(arguments);
    EXPECT_EQ(result.status, kExitUsage) << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(manager_.script().RequestCount(), before);
  }

  template <typename Reply>
  void Answer(const std::string& text) {
    manager_.script().Reply(Text<Reply>(text));
  }

  std::string File(const std::string& text) {
    const std::string path = manager_.directory() + "/file";
    std::ofstream(path) << text;
    return path;
  }

  FakeServer manager_;
};

TEST_F(ManagerRequestsTest, RunsAProgram) {
  Answer<v1::RunPluginReply>("done { name: 'p' nodes { healthy: 1 expected: 1 } }");
  Do({"plugin", "run", "p", "--exec", R"(mooring-plugin --state-dir '/var/lib/a b' "\"q\"" c\ d)", "--start-timeout",
      "7", "--", "--more"});
  ExpectSent<v1::RunPluginRequest>(
      R"(name: "p" declared_by: "cli" wait: true run { kind: EXEC start_deadline_s: 7 command: "mooring-plugin"
         command: "--state-dir" command: "/var/lib/a b" command: "\"q\"" command: "c d" command: "--more" })");
}

TEST_F(ManagerRequestsTest, RunsAnImage) {
  Answer<v1::RunPluginReply>("done { name: 'p' nodes { healthy: 1 expected: 1 } }");
  Do({"plugin", "run", "p", "--image", "csi:1", "--engine", "/run/podman.sock", "--env", "A=b", "--env-file",
      File("TOKEN=x=y\n"), "--declared-by", "unit", "--no-wait", "--", "--nodeid", "n"});
  ExpectSent<v1::RunPluginRequest>(
      R"(name: "p" declared_by: "unit" run { kind: CONTAINER image: "csi:1" engine: "/run/podman.sock"
         command: "--nodeid" command: "n" environment { key: "A" value: "b" }
         environment { key: "TOKEN" value: "x=y" } })");
}

TEST_F(ManagerRequestsTest, BindsPathsOfTheHostIntoAContainer) {
  Answer<v1::RunPluginReply>("done { name: 'p' nodes { healthy: 1 expected: 1 } }");
  Do({"plugin", "run", "p", "--image", "csi:1", "--bind", "/srv/a b:/state", "--bind", "/etc/ceph:/etc/ceph:ro",
      "--bind", "/:/host:rw,rslave", "--bind", "/a:/b:ro,rslave"});
  ExpectSent<v1::RunPluginRequest>(
      R"(name: "p" declared_by: "cli" wait: true run { kind: CONTAINER image: "csi:1"
         binds { source: "/srv/a b" target: "/state" } binds { source: "/etc/ceph" target: "/etc/ceph" read_only: true }
         binds { source: "/" target: "/host" propagation: PROPAGATION_SLAVE }
         binds { source: "/a" target: "/b" read_only: true propagation: PROPAGATION_SLAVE } })");
  for (const char* wrong : {"/a", "/a:", ":/b", "a:/b", "/a:b", "/a:/b:ro:x", "/a:/b:", "/a:/b:ro,", "/a:/b:no",
                            "/a:/b:ro,rw", "/a:/b:rslave,ro,rshared"}) {
    ExpectUsage({"plugin", "run", "p", "--image", "csi:1", "--bind", wrong}, std::string("--bind '") + wrong + "'");
  }
  ExpectUsage({"plugin", "run", "p", "--image", "csi:1", "--bind", "/a:/b:no"}, "none of ro, rw, private (rprivate");
  ExpectUsage({"plugin", "run", "p", "--exec", "x", "--bind", "/a:/b"}, "--bind is only for containers (--image)");
}

TEST_F(ManagerRequestsTest, RunNeedsAProgramOrAnImage) {
  ExpectUsage({"plugin", "run", "p"}, "--exec COMMAND or --image IMAGE");
  ExpectUsage({"plugin", "run", "p", "--exec", "x", "--image", "y"}, "--exec COMMAND or --image IMAGE");
  ExpectUsage({"plugin", "run", "p", "--exec", "a 'b"}, "--exec: a ' is not closed");
}

TEST_F(ManagerRequestsTest, RunSetsTheExitStatus) {
  Answer<v1::RunPluginReply>("done { name: 'p' nodes { expected: 1 } }");
  Answer<v1::RegisterPluginResponse>(
      "plugin { name: 'p' nodes { healthy: 1 expected: 1 } controllers { expected: 1 } }");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"plugin", "run", "p", "--exec", "x"},
                                                {"plugin", "register", "--endpoint", "/run/s"}}) {
    const Result waited = Run(words);
    EXPECT_EQ(waited.status, kExitFailed) << waited.err;
    EXPECT_THAT(waited.out, HasSubstr("unhealthy"));
    std::vector<std::string> hasty = words;
    hasty.emplace_back("--no-wait");
    EXPECT_EQ(Run(hasty).status, kExitOk);
  }
}

TEST_F(ManagerRequestsTest, RegistersStopsAndListsPlugins) {
  Answer<v1::RegisterPluginResponse>("plugin { name: 'p' nodes { healthy: 1 expected: 1 } }");
  Do({"plugin", "register", "--endpoint", "/run/csi.sock"});
  ExpectSent<v1::RegisterPluginRequest>(R"(endpoint: "unix:///run/csi.sock" declared_by: "cli" wait: true)");
  Do({"plugin", "register", "p", "--endpoint", "unix:///run/csi.sock", "--no-wait"});
  ExpectSent<v1::RegisterPluginRequest>(R"(name: "p" endpoint: "unix:///run/csi.sock" declared_by: "cli")");
  Do({"plugin", "stop", "p"});
  ExpectSent<v1::StopPluginRequest>(R"(name: "p")");
  Do({"plugin", "stop", "p", "--declared-by", "unit"});
  ExpectSent<v1::StopPluginRequest>(R"(name: "p" declared_by: "unit")");
  Do({"plugin", "status"});
  ExpectSent<v1::ListPluginsRequest>("");
}

TEST_F(ManagerRequestsTest, CreatesWithDefaults) {
  Do({"volume", "create", "db", "--plugin", "p"});
  ExpectSent<v1::CreateVolumeRequest>(
      R"(volume { key { id: "db" } plugin: "p" capabilities { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } })");
}

TEST_F(ManagerRequestsTest, CreatesWithEverything) {
  Do({"volume",
      "create",
      "db",
      "-n",
      "prod",
      "--plugin",
      "p",
      "--name",
      "n",
      "--size",
      "1GiB",
      "--limit",
      "2GiB",
      "--access",
      "multi-node-multi-writer",
      "--access",
      "single-node-reader-only",
      "--fs-type",
      "xfs",
      "--mount-flag",
      "noatime",
      "--param",
      "k=v",
      "--topology",
      "z=a",
      "--preferred-topology",
      "z=b",
      "--secret",
      "s=t",
      "--from-snapshot",
      "snap"});
  ExpectSent<v1::CreateVolumeRequest>(
      R"(volume { key { namespace: "prod" id: "db" } plugin: "p" name: "n" min_bytes: 1073741824 max_bytes: 2147483648
           capabilities { access: MULTI_NODE_MULTI_WRITER attachment: FILE_SYSTEM }
           capabilities { access: SINGLE_NODE_READER_ONLY attachment: FILE_SYSTEM }
           mount_options { fs_type: "xfs" flags: "noatime" } parameters { key: "k" value: "v" }
           required_topologies { segments { key: "z" value: "a" } }
           preferred_topologies { segments { key: "z" value: "b" } } snapshot_id: "snap" }
         secrets { key: "s" value: "t" })");
}

TEST_F(ManagerRequestsTest, FlagsOverrideTheFile) {
  const std::string file =
      File(R"({"id": "db", "namespace": "prod", "plugin": "p", "size": "10GiB", "limit": 20000000000,
      "capabilities": [{"access": "single-node-writer", "attachment": "block-device"}], "parameters": {"a": "b"},
      "required_topologies": [{"zone": "a"}], "secrets": {"key": "open sesame"}, "snapshot_id": "s"})");
  Do({"volume", "create", "--file", file, "--size", "1GiB", "--param", "c=d"});
  ExpectSent<v1::CreateVolumeRequest>(
      R"(volume { key { namespace: "prod" id: "db" } plugin: "p" min_bytes: 1073741824 max_bytes: 20000000000
           capabilities { access: SINGLE_NODE_WRITER attachment: BLOCK_DEVICE } parameters { key: "c" value: "d" }
           required_topologies { segments { key: "zone" value: "a" } } snapshot_id: "s" }
         secrets { key: "key" value: "open sesame" })");
}

TEST_F(ManagerRequestsTest, StatusOutputIsAnUpdateFile) {
  Answer<v1::GetVolumeResponse>(
      R"(volume { key { namespace: "default" id: "db" } plugin: "p" external_id: "v" modify_revision: 7
           capabilities { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } required_topologies { segments { key: "z"
           value: "a" } } min_bytes: 5 in_use { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } })");
  const std::string shown = Run({"volume", "status", "db", "--json"}).out;
  const std::string volume = shown.substr(shown.find("\"volume\":") + 9, shown.find(",\"claims\"") - 10);
  Do({"volume", "update", "--file", File(volume), "--mount-flag", "noatime"});
  ExpectSent<v1::UpdateVolumeRequest>(
      R"(volume { key { namespace: "default" id: "db" } plugin: "p" external_id: "v" modify_revision: 7
           capabilities { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } required_topologies { segments { key: "z"
           value: "a" } } min_bytes: 5 in_use { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM }
           mount_options { flags: "noatime" } } keep_secrets: true)");
}

TEST_F(ManagerRequestsTest, UpdateNamesTheRevisionItHasRead) {
  Answer<v1::GetVolumeResponse>(
      R"(volume { key { id: "db" } mount_options { fs_type: "ext4" flags: "a" } modify_revision: 41 })");
  Do({"volume", "update", "db", "--mount-flag", "b", "--secret", "k=v"});
  ExpectSent<v1::UpdateVolumeRequest>(
      R"(volume { key { id: "db" } mount_options { fs_type: "ext4" flags: "b" } modify_revision: 41 }
         secrets { key: "k" value: "v" })");
}

TEST_F(ManagerRequestsTest, RegistersExpandsAndDeletes) {
  Do({"volume", "register", "db", "--plugin", "p", "--external-id", "v", "--context", "a=b"});
  ExpectSent<v1::RegisterVolumeRequest>(
      R"(volume { key { id: "db" } plugin: "p" external_id: "v" context { key: "a" value: "b" }
           capabilities { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } })");
  Do({"volume", "expand", "db", "--size", "2GiB", "--limit", "3GiB"});
  ExpectSent<v1::ExpandVolumeRequest>(R"(key { id: "db" } min_bytes: 2147483648 max_bytes: 3221225472)");
  Do({"volume", "delete", "db"});
  ExpectSent<v1::DeleteVolumeRequest>(R"(key { id: "db" })");
  Do({"volume", "deregister", "db", "-n", "x"});
  ExpectSent<v1::DeleteVolumeRequest>(R"(key { namespace: "x" id: "db" } deregister: true)");
  Do({"volume", "list", "--all-namespaces", "--plugin", "p"});
  ExpectSent<v1::ListVolumesRequest>(R"(namespace: "*" plugin: "p")");
  ExpectUsage({"volume", "register", "db"}, "--external-id");
  ExpectUsage({"volume", "create", "--plugin", "p"}, "no volume is named");
}

TEST_F(ManagerRequestsTest, CloneHasTheSettingsOfItsSource) {
  Answer<v1::GetVolumeResponse>(
      R"(volume { key { namespace: "n" id: "db" } plugin: "p" external_id: "v" capacity_bytes: 9 modify_revision: 3
           capabilities { access: SINGLE_NODE_WRITER attachment: BLOCK_DEVICE } parameters { key: "a" value: "b" } })");
  Do({"volume", "clone", "db", "copy", "-n", "n"});
  ExpectSent<v1::CreateVolumeRequest>(
      R"(volume { key { namespace: "n" id: "copy" } plugin: "p" clone_id: "v" min_bytes: 9
           capabilities { access: SINGLE_NODE_WRITER attachment: BLOCK_DEVICE } parameters { key: "a" value: "b" } })");
  Do({"volume", "create", "other", "--plugin", "p", "--from-volume", "db"});
  EXPECT_EQ(manager_.script().Requests<v1::CreateVolumeRequest>().back().volume().clone_id(), "v");
}

TEST_F(ManagerRequestsTest, Snapshots) {
  Do({"volume", "snapshot", "create", "db", "before", "--param", "a=b"});
  ExpectSent<v1::CreateSnapshotRequest>(R"(volume { id: "db" } name: "before" parameters { key: "a" value: "b" })");
  Do({"volume", "snapshot", "list", "--plugin", "p"});
  ExpectSent<v1::ListSnapshotsRequest>(R"(plugin: "p")");
  Do({"volume", "snapshot", "delete", "snap-1", "--plugin", "p", "--secret", "a=b"});
  ExpectSent<v1::DeleteSnapshotRequest>(R"(plugin: "p" id: "snap-1" secrets { key: "a" value: "b" })");
}

TEST_F(ManagerRequestsTest, AClaimIsByIdsOnly) {
  Do({"claim", "db", "--for", "web-1", "--mode", "write", "--access", "single-node-writer", "--external-node", "n1"});
  ExpectSent<v1::ClaimVolumeRequest>(
      R"(volume { id: "db" } allocation: "web-1" mode: WRITE external_node_id: "n1"
         capability { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM })");
  Do({"claim", "db", "--for", "web-1", "--mode", "read"});
  ExpectSent<v1::ClaimVolumeRequest>(R"(volume { id: "db" } allocation: "web-1" mode: READ)");
  ExpectUsage({"claim", "db", "--for", "a", "--mode", "append"}, "the claim mode 'append' is none of read, write");
  ExpectUsage({"claim", "db", "--for", "a", "--mode", "read", "--block"}, "--block needs an access mode");
}

TEST_F(ManagerRequestsTest, PerAllocNamesTheVolumeOfTheTaskAndSaysSo) {
  Do({"claim", "db", "--for", "web-3", "--mode", "write", "--per-alloc", "3", "--tasks", "4", "--system-job"});
  ExpectSent<v1::ClaimVolumeRequest>(
      R"(volume { id: "db[3]" } allocation: "web-3" mode: WRITE job { per_alloc: true tasks: 4 system: true })");
  Do({"attach", "db", "--for", "web-0", "--per-alloc", "0"});
  ExpectSent<v1::AttachRequest>(R"(volume { id: "db[0]" } allocation: "web-0" job { per_alloc: true } steps: true)");
  ExpectUsage({"attach", "db", "--for", "a", "--per-alloc", "-1"}, "per-alloc");
}

TEST_F(ManagerRequestsTest, ReleasesAndReportsGoneAllocations) {
  Do({"release", "db", "--for", "web-1"});
  ExpectSent<v1::ReleaseVolumeRequest>(R"(volume { id: "db" } allocation: "web-1")");
  Do({"release", "db", "--force"});
  ExpectSent<v1::ReleaseVolumeRequest>(R"(volume { id: "db" } force: true)");
  Do({"claims"});
  ExpectSent<v1::ListClaimsRequest>("");
  Do({"claims", "db", "--for", "web-1"});
  ExpectSent<v1::ListClaimsRequest>(R"(volume { id: "db" } allocation: "web-1")");
  Do({"gone", "web-1"});
  ExpectSent<v1::AllocationGoneRequest>(R"(allocation: "web-1")");
  ExpectUsage({"release", "db"}, "--for ALLOCATION");
}

TEST_F(ManagerRequestsTest, AttachesAndDetaches) {
  Do({"attach", "db", manager_.directory() + "/t/", "--for", "web-1", "--propagation", "host-to-task", "--read-only",
      "--request", "data", "--fs-type", "xfs"});
  const std::string path = manager_.directory() + "/t";
  ExpectSent<v1::AttachRequest>(
      R"(volume { id: "db" } allocation: "web-1" request: "data" read_only: true propagation: PROPAGATION_SLAVE
         options { fs_type: "xfs" } attach_path: ")" +
      path + "\" steps: true");
  Do({"detach", path});
  ExpectSent<v1::DetachRequest>("attach_path: \"" + path + "\" steps: true");
  Do({"detach", "data", "--for", "web-1"});
  ExpectSent<v1::DetachRequest>(R"(allocation: "web-1" request: "data" steps: true)");
  Do({"attachments", "db"});
  ExpectSent<v1::ListAttachmentsRequest>(R"(volume { id: "db" })");
}

TEST_F(ManagerRequestsTest, EventsFromTheOldestOrFollowing) {
  Do({"events"});
  ExpectSent<v1::StreamEventsRequest>("from: 1");
  Do({"events", "--follow"});
  ExpectSent<v1::StreamEventsRequest>("follow: true");
  Do({"events", "--follow", "--from", "9"});
  ExpectSent<v1::StreamEventsRequest>("from: 9 follow: true");
}

TEST_F(ManagerRequestsTest, WatchFromNowOrFromARevision) {
  Do({"watch"});
  ExpectSent<v1::WatchRequest>("");
  Do({"watch", "--claims", "--from", "5000000000"});
  ExpectSent<v1::WatchRequest>("from_revision: 5000000000");
}

}  // namespace
}  // namespace mooring::cli

// The requests of every command for the manager, field by field, as a fake manager receives them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "manager.pb.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/run_mooring.h"

namespace mooring::cli {
namespace {

namespace v1 = manager::v1;
using ::testing::HasSubstr;

class ManagerRequestsTest : public ::testing::Test {
 protected:
  ManagerRequestsTest() {
    ::setenv("MOORING_MANAGER_SOCKET", manager_.socket().c_str(), 1);
    manager_.script().Reply<v1::AttachReply>("done { allocation: 'web-1' }");
    manager_.script().Reply<v1::DetachReply>("done: true");
    manager_.script().Reply<v1::RunPluginReply>("done { name: 'p' nodes { healthy: 1 expected: 1 } }");
    manager_.script().Reply<v1::RegisterPluginResponse>("plugin { name: 'p' nodes { healthy: 1 expected: 1 } }");
  }
  ~ManagerRequestsTest() override { ::unsetenv("MOORING_MANAGER_SOCKET"); }

  void ExpectSent(const std::string& line, const std::string& request, const std::string& text) {
    manager_.ExpectRequests({{line, request, text}});
  }

  std::string File(const std::string& text) {
    const std::string path = manager_.directory() + "/file";
    std::ofstream(path) << text;
    return path;
  }

  FakeServer manager_;
};

TEST_F(ManagerRequestsTest, WrongCommandLineSendsNothing) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"plugin run p", "--exec COMMAND or --image IMAGE"},
      {"plugin run p --exec x --image y", "--exec COMMAND or --image IMAGE"},
      {R"(plugin run p --exec "a 'b")", "--exec: a ' is not closed"},
      {"plugin run p --image csi:1 --bind /a:/b:no", "none of ro, rw, private (rprivate"},
      {"plugin run p --exec x --bind /a:/b", "--bind is only for containers (--image)"},
      {"volume register db", "--external-id"},
      {"volume create --plugin p", "no volume is named"},
      {"claim db --for a --mode append", "the claim mode 'append' is none of read, write"},
      {"claim db --for a --mode read --block", "--block needs an access mode"},
      {"attach db --for a --per-alloc -1", "per-alloc"},
      {"release db", "--for ALLOCATION"},
  };
  for (const auto& [line, message] : rows) {
    const Result result = RunLine("mooring " + line);
    EXPECT_EQ(result.status, kExitUsage) << line;
    EXPECT_THAT(result.err, HasSubstr(message)) << line;
  }
  for (const char* bind : {"/a", "/a:", ":/b", "a:/b", "/a:b", "/a:/b:ro:x", "/a:/b:", "/a:/b:ro,", "/a:/b:no",
                           "/a:/b:ro,rw", "/a:/b:rslave,ro,rshared"}) {
    const Result result = RunLine(std::string("mooring plugin run p --image csi:1 --bind ") + bind);
    EXPECT_EQ(result.status, kExitUsage) << bind;
    EXPECT_THAT(result.err, HasSubstr(std::string("--bind '") + bind + "'"));
  }
  EXPECT_EQ(manager_.script().RequestCount(), 0U);
}

const std::vector<RequestRow> kPlugins = {
    {R"(plugin run p --exec 'mooring-plugin --state-dir "/var/lib/a b" "\"q\"" c\ d' --start-timeout 7 -- --more)",
     "RunPluginRequest",
     R"(name: "p" declared_by: "cli" wait: true run { kind: EXEC start_deadline_s: 7 command: "mooring-plugin"
        command: "--state-dir" command: "/var/lib/a b" command: "\"q\"" command: "c d" command: "--more" })"},
    {"plugin run p --image csi:1 --bind '/srv/a b:/state' --bind /etc/ceph:/etc/ceph:ro --bind /:/host:rw,rslave "
     "--bind "
     "/a:/b:ro,rslave",
     "RunPluginRequest",
     R"(name: "p" declared_by: "cli" wait: true run { kind: CONTAINER image: "csi:1"
        binds { source: "/srv/a b" target: "/state" } binds { source: "/etc/ceph" target: "/etc/ceph" read_only: true }
        binds { source: "/" target: "/host" propagation: PROPAGATION_SLAVE }
        binds { source: "/a" target: "/b" read_only: true propagation: PROPAGATION_SLAVE } })"},
    {"plugin register --endpoint /run/csi.sock", "RegisterPluginRequest",
     "endpoint: 'unix:///run/csi.sock' declared_by: 'cli' wait: true"},
    {"plugin register p --endpoint unix:///run/csi.sock --no-wait", "RegisterPluginRequest",
     "name: 'p' endpoint: 'unix:///run/csi.sock' declared_by: 'cli'"},
    {"plugin stop p", "StopPluginRequest", "name: 'p'"},
    {"plugin stop p --declared-by unit", "StopPluginRequest", "name: 'p' declared_by: 'unit'"},
    {"plugin status", "ListPluginsRequest", ""},
};

const std::vector<RequestRow> kVolumes = {
    {"volume create db --plugin p", "CreateVolumeRequest",
     R"(volume { key { id: "db" } plugin: "p" capabilities { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } })"},
    {"volume create db -n prod --plugin p --name n --size 1GiB --limit 2GiB --access multi-node-multi-writer --access "
     "single-node-reader-only --fs-type xfs --mount-flag noatime --param k=v --topology z=a --preferred-topology z=b "
     "--secret s=t --from-snapshot snap",
     "CreateVolumeRequest",
     R"(volume { key { namespace: "prod" id: "db" } plugin: "p" name: "n" min_bytes: 1073741824 max_bytes: 2147483648
          capabilities { access: MULTI_NODE_MULTI_WRITER attachment: FILE_SYSTEM }
          capabilities { access: SINGLE_NODE_READER_ONLY attachment: FILE_SYSTEM }
          mount_options { fs_type: "xfs" flags: "noatime" } parameters { key: "k" value: "v" }
          required_topologies { segments { key: "z" value: "a" } }
          preferred_topologies { segments { key: "z" value: "b" } } snapshot_id: "snap" }
        secrets { key: "s" value: "t" })"},
    {"volume register db --plugin p --external-id v --context a=b", "RegisterVolumeRequest",
     R"(volume { key { id: "db" } plugin: "p" external_id: "v" context { key: "a" value: "b" }
          capabilities { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } })"},
    {"volume expand db --size 2GiB --limit 3GiB", "ExpandVolumeRequest",
     "key { id: 'db' } min_bytes: 2147483648 max_bytes: 3221225472"},
    {"volume delete db", "DeleteVolumeRequest", "key { id: 'db' } must_exist: true"},
    {"volume delete db --if-exists", "DeleteVolumeRequest", "key { id: 'db' }"},
    {"volume deregister db -n x", "DeleteVolumeRequest",
     "key { namespace: 'x' id: 'db' } deregister: true must_exist: true"},
    {"volume list --all-namespaces --plugin p", "ListVolumesRequest", "namespace: '*' plugin: 'p'"},
    {"volume snapshot create db before --param a=b", "CreateSnapshotRequest",
     "volume { id: 'db' } name: 'before' parameters { key: 'a' value: 'b' }"},
    {"volume snapshot list --plugin p", "ListSnapshotsRequest", "plugin: 'p'"},
    {"volume snapshot delete snap-1 --plugin p --secret a=b", "DeleteSnapshotRequest",
     "plugin: 'p' id: 'snap-1' secrets { key: 'a' value: 'b' } must_exist: true"},
};

const std::vector<RequestRow> kClaims = {
    {"claim db --for web-1 --mode write --access single-node-writer --external-node n1", "ClaimVolumeRequest",
     R"(volume { id: "db" } allocation: "web-1" mode: WRITE external_node_id: "n1"
        capability { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM })"},
    {"claim db --for web-1 --mode read", "ClaimVolumeRequest", "volume { id: 'db' } allocation: 'web-1' mode: READ"},
    {"claim db --for web-3 --mode write --per-alloc 3 --tasks 4 --system-job", "ClaimVolumeRequest",
     "volume { id: 'db[3]' } allocation: 'web-3' mode: WRITE job { per_alloc: true tasks: 4 system: true }"},
    {"attach db --for web-0 --per-alloc 0", "AttachRequest",
     "volume { id: 'db[0]' } allocation: 'web-0' job { per_alloc: true } steps: true"},
    {"release db --for web-1", "ReleaseVolumeRequest", "volume { id: 'db' } allocation: 'web-1' must_exist: true"},
    {"release db --force", "ReleaseVolumeRequest", "volume { id: 'db' } force: true must_exist: true"},
    {"claims", "ListClaimsRequest", ""},
    {"claims db --for web-1", "ListClaimsRequest", "volume { id: 'db' } allocation: 'web-1'"},
    {"gone web-1", "AllocationGoneRequest", "allocation: 'web-1' must_exist: true"},
    {"detach data --for web-1", "DetachRequest", "allocation: 'web-1' request: 'data' steps: true must_exist: true"},
    {"attachments db", "ListAttachmentsRequest", "volume { id: 'db' }"},
    {"manager", "GetManagerInfoRequest", ""},
    {"events", "StreamEventsRequest", "from: 1"},
    {"events --follow", "StreamEventsRequest", "follow: true"},
    {"events --follow --from 9", "StreamEventsRequest", "from: 9 follow: true"},
    {"watch", "WatchRequest", ""},
    {"watch --claims --from 5000000000", "WatchRequest", "from_revision: 5000000000"},
};

TEST_F(ManagerRequestsTest, HaveTheFieldsOfTheFlags) {
  for (const auto& rows : {kPlugins, kVolumes, kClaims}) manager_.ExpectRequests(rows);
}

TEST_F(ManagerRequestsTest, RunReadsTheEnvironmentFile) {
  ExpectSent("plugin run p --image csi:1 --engine /run/podman.sock --env A=b --env-file " + File("TOKEN=x=y\n") +
                 " --declared-by unit --no-wait -- --nodeid n",
             "RunPluginRequest",
             R"(name: "p" declared_by: "unit" run { kind: CONTAINER image: "csi:1" engine: "/run/podman.sock"
                command: "--nodeid" command: "n" environment { key: "A" value: "b" }
                environment { key: "TOKEN" value: "x=y" } })");
}

TEST_F(ManagerRequestsTest, RunSetsTheExitStatus) {
  FakeServer sick;
  sick.script().Reply<v1::RunPluginReply>("done { name: 'p' nodes { expected: 1 } }");
  sick.script().Reply<v1::RegisterPluginResponse>(
      "plugin { name: 'p' nodes { healthy: 1 expected: 1 } controllers { expected: 1 } }");
  for (const std::string line : {"mooring plugin run p --exec x", "mooring plugin register --endpoint /run/s"}) {
    const Result waited = RunLine(line + " --manager " + sick.socket());
    EXPECT_EQ(waited.status, kExitFailed) << waited.err;
    EXPECT_THAT(waited.out, HasSubstr("unhealthy"));
    EXPECT_EQ(RunLine(line + " --no-wait --manager " + sick.socket()).status, kExitOk);
  }
}

TEST_F(ManagerRequestsTest, FlagsOverrideTheFile) {
  const std::string file =
      File(R"({"id": "db", "namespace": "prod", "plugin": "p", "size": "10GiB", "limit": 20000000000,
      "capabilities": [{"access": "single-node-writer", "attachment": "block-device"}], "parameters": {"a": "b"},
      "required_topologies": [{"zone": "a"}], "secrets": {"key": "open sesame"}, "snapshot_id": "s"})");
  ExpectSent("volume create --size 1GiB --param c=d --file " + file, "CreateVolumeRequest",
             R"(volume { key { namespace: "prod" id: "db" } plugin: "p" min_bytes: 1073741824 max_bytes: 20000000000
                  capabilities { access: SINGLE_NODE_WRITER attachment: BLOCK_DEVICE }
                  parameters { key: "c" value: "d" }
                  required_topologies { segments { key: "zone" value: "a" } } snapshot_id: "s" }
                secrets { key: "key" value: "open sesame" })");
}

TEST_F(ManagerRequestsTest, StatusOutputIsAnUpdateFile) {
  const std::string fields =
      R"(key { namespace: "default" id: "db" } plugin: "p" external_id: "v" modify_revision: 7
         capabilities { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } min_bytes: 5
         required_topologies { segments { key: "z" value: "a" } }
         in_use { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM })";
  manager_.script().Reply<v1::GetVolumeResponse>("volume { " + fields + " }");
  const std::string shown = RunLine("mooring volume status db --json").out;
  const std::string volume = shown.substr(shown.find("\"volume\":") + 9, shown.find(",\"claims\"") - 10);
  ExpectSent("volume update --mount-flag noatime --file " + File(volume), "UpdateVolumeRequest",
             "volume { " + fields + " mount_options { flags: 'noatime' } } keep_secrets: true");
}

TEST_F(ManagerRequestsTest, UpdateNamesTheRevisionItHasRead) {
  manager_.script().Reply<v1::GetVolumeResponse>(
      "volume { key { id: 'db' } mount_options { fs_type: 'ext4' flags: 'a' } modify_revision: 41 }");
  ExpectSent("volume update db --mount-flag b --secret k=v", "UpdateVolumeRequest",
             R"(volume { key { id: "db" } mount_options { fs_type: "ext4" flags: "b" } modify_revision: 41 }
                secrets { key: "k" value: "v" })");
}

TEST_F(ManagerRequestsTest, CloneHasTheSettingsOfItsSource) {
  const std::string settings =
      "capabilities { access: SINGLE_NODE_WRITER attachment: BLOCK_DEVICE } parameters { key: 'a' value: 'b' }";
  manager_.script().Reply<v1::GetVolumeResponse>(
      "volume { key { namespace: 'n' id: 'db' } plugin: 'p' external_id: 'v' capacity_bytes: 9 modify_revision: 3 " +
      settings + " }");
  ExpectSent("volume clone db copy -n n", "CreateVolumeRequest",
             "volume { key { namespace: 'n' id: 'copy' } plugin: 'p' clone_id: 'v' min_bytes: 9 " + settings + " }");
  ExpectSent("volume create other --plugin p --from-volume db", "CreateVolumeRequest",
             R"(volume { key { id: "other" } plugin: "p" clone_id: "v"
                  capabilities { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } })");
}

TEST_F(ManagerRequestsTest, AttachResolvesThePath) {
  const std::string path = manager_.directory() + "/t";
  ExpectSent("attach db " + path + "/ --for web-1 --propagation host-to-task --read-only --request data --fs-type xfs",
             "AttachRequest",
             R"(volume { id: "db" } allocation: "web-1" request: "data" read_only: true propagation: PROPAGATION_SLAVE
                options { fs_type: "xfs" } steps: true attach_path: ")" +
                 path + "\"");
  ExpectSent("detach " + path, "DetachRequest", "attach_path: '" + path + "' steps: true must_exist: true");
}

}  // namespace
}  // namespace mooring::cli

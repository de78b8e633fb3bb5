// The requests of every command of `mooring csi`, field by field, as a fake driver receives them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "csi.pb.h"
#include "tests/unit/cli/fake_server.h"

namespace mooring::cli {
namespace {

class CsiRequestsTest : public ::testing::Test {
 protected:
  CsiRequestsTest() { ::setenv("CSI_ENDPOINT", driver_.endpoint().c_str(), 1); }
  ~CsiRequestsTest() override { ::unsetenv("CSI_ENDPOINT"); }

  FakeServer driver_;
};

const std::string kWriter = "access_mode { mode: SINGLE_NODE_WRITER }";
const std::string kDefault = "volume_capability { mount {} " + kWriter + " }";
const std::string kSecret = "secrets { key: 'k' value: 's' }";

const std::vector<RequestRow> kCreate = {
    {"csi create v", "CreateVolumeRequest", "name: 'v' volume_capabilities { mount {} " + kWriter + " }"},
    {"csi create --size 1GiB --limit=2GiB --fs-type xfs --access single-node-single-writer --access "
     "multi-node-reader-only --mount-flag noatime --mount-flag [a,b] --mount-group 1000 --param a=b=c --param d= "
     "--mutable-param iops=5 --secret k=s --topology zone=a,rack=1 --topology zone=b --preferred-topology zone=b "
     "--from-snapshot snap-1 v",
     "CreateVolumeRequest", R"(
      name: "v"
      capacity_range { required_bytes: 1073741824 limit_bytes: 2147483648 }
      volume_capabilities {
        mount { fs_type: "xfs" mount_flags: "noatime" mount_flags: "[a,b]" volume_mount_group: "1000" }
        access_mode { mode: SINGLE_NODE_SINGLE_WRITER }
      }
      volume_capabilities {
        mount { fs_type: "xfs" mount_flags: "noatime" mount_flags: "[a,b]" volume_mount_group: "1000" }
        access_mode { mode: MULTI_NODE_READER_ONLY }
      }
      parameters { key: "a" value: "b=c" }
      parameters { key: "d" value: "" }
      mutable_parameters { key: "iops" value: "5" }
      secrets { key: "k" value: "s" }
      volume_content_source { snapshot { snapshot_id: "snap-1" } }
      accessibility_requirements {
        requisite { segments { key: "rack" value: "1" } segments { key: "zone" value: "a" } }
        requisite { segments { key: "zone" value: "b" } }
        preferred { segments { key: "zone" value: "b" } }
      })"},
    {"csi create v --block --from-volume w --access SINGLE_NODE_WRITER", "CreateVolumeRequest",
     "name: 'v' volume_capabilities { block {} " + kWriter + " } volume_content_source { volume { volume_id: 'w' } }"},
};

const std::vector<RequestRow> kController = {
    {"csi delete v --secret k=s", "DeleteVolumeRequest", "volume_id: 'v' " + kSecret},
    {"csi get -- -v", "ControllerGetVolumeRequest", "volume_id: '-v'"},
    {"csi delete list", "DeleteVolumeRequest", "volume_id: 'list'"},
    {"csi list --max-entries 3 --token t", "ListVolumesRequest", "max_entries: 3 starting_token: 't'"},
    {"csi capacity", "GetCapacityRequest", ""},
    {"csi capacity --block --param a=b --topology zone=a,rack=1", "GetCapacityRequest",
     "volume_capabilities { block {} " + kWriter + R"( } parameters { key: "a" value: "b" }
      accessible_topology { segments { key: "zone" value: "a" } segments { key: "rack" value: "1" } })"},
    {"csi validate v --access multi-node-multi-writer --volume-context a=b --param c=d --mutable-param e=f --secret "
     "k=s",
     "ValidateVolumeCapabilitiesRequest",
     R"(
      volume_id: "v"
      volume_context { key: "a" value: "b" }
      volume_capabilities { mount {} access_mode { mode: MULTI_NODE_MULTI_WRITER } }
      parameters { key: "c" value: "d" }
      mutable_parameters { key: "e" value: "f" })" +
         kSecret},
    {"csi controller-publish v --node n --read-only --volume-context a=b --secret k=s",
     "ControllerPublishVolumeRequest",
     "volume_id: 'v' node_id: 'n' readonly: true volume_context { key: 'a' value: 'b' }" + kDefault + kSecret},
    {"csi controller-unpublish v --node n --secret k=s", "ControllerUnpublishVolumeRequest",
     "volume_id: 'v' node_id: 'n' " + kSecret},
    {"csi controller-unpublish v", "ControllerUnpublishVolumeRequest", "volume_id: 'v'"},
    {"csi expand v --size 2GiB", "ControllerExpandVolumeRequest",
     "volume_id: 'v' capacity_range { required_bytes: 2147483648 }"},
    {"csi expand v --size 1B --limit 2B --block --secret k=s", "ControllerExpandVolumeRequest",
     "volume_id: 'v' capacity_range { required_bytes: 1 limit_bytes: 2 } volume_capability { block {} " + kWriter +
         " }" + kSecret},
    {"csi modify v --mutable-param iops=5 --mutable-param x= --secret k=s", "ControllerModifyVolumeRequest",
     "volume_id: 'v' mutable_parameters { key: 'iops' value: '5' } mutable_parameters { key: 'x' value: '' }" +
         kSecret},
};

const std::vector<RequestRow> kNode = {
    {"csi stage v --staging-path /s --fs-type ext4 --mount-flag noatime --mount-group 7 --publish-context a=b "
     "--volume-context c=d --secret k=s",
     "NodeStageVolumeRequest",
     R"(
      volume_id: "v" staging_target_path: "/s"
      volume_capability {
        mount { fs_type: "ext4" mount_flags: "noatime" volume_mount_group: "7" }
        access_mode { mode: SINGLE_NODE_WRITER }
      }
      publish_context { key: "a" value: "b" }
      volume_context { key: "c" value: "d" })" +
         kSecret},
    {"csi unstage v --staging-path /s", "NodeUnstageVolumeRequest", "volume_id: 'v' staging_target_path: '/s'"},
    {"csi publish v --target-path /t --staging-path /s --read-only --block --access single-node-multi-writer "
     "--publish-context a=b --volume-context c=d --secret k=s",
     "NodePublishVolumeRequest",
     R"(
      volume_id: "v" target_path: "/t" staging_target_path: "/s" readonly: true
      volume_capability { block {} access_mode { mode: SINGLE_NODE_MULTI_WRITER } }
      publish_context { key: "a" value: "b" }
      volume_context { key: "c" value: "d" })" +
         kSecret},
    {"csi unpublish v --target-path rel/../x//y/", "NodeUnpublishVolumeRequest",
     "volume_id: 'v' target_path: 'rel/../x//y/'"},
    {"csi stats v --path /t --staging-path /s", "NodeGetVolumeStatsRequest",
     "volume_id: 'v' volume_path: '/t' staging_target_path: '/s'"},
    {"csi node-expand v --path /t", "NodeExpandVolumeRequest", "volume_id: 'v' volume_path: '/t'"},
    {"csi node-expand v --path /t --size 2KiB --staging-path /s --fs-type xfs --secret k=s", "NodeExpandVolumeRequest",
     "volume_id: 'v' volume_path: '/t' staging_target_path: '/s' capacity_range { required_bytes: 2048 }"
     "volume_capability { mount { fs_type: 'xfs' } " +
         kWriter + " }" + kSecret},
};

const std::vector<RequestRow> kSnapshots = {
    {"csi snapshot create s --volume v --param a=b --secret k=s", "CreateSnapshotRequest",
     "name: 's' source_volume_id: 'v' parameters { key: 'a' value: 'b' }" + kSecret},
    {"csi snapshot delete s --secret k=s", "DeleteSnapshotRequest", "snapshot_id: 's' " + kSecret},
    {"csi snapshot get s", "GetSnapshotRequest", "snapshot_id: 's'"},
    {"csi snapshot list --volume v --snapshot s --max-entries 1 --token t", "ListSnapshotsRequest",
     "max_entries: 1 starting_token: 't' source_volume_id: 'v' snapshot_id: 's'"},
    {"csi group-snapshot create g --volume v --volume w --param a=b", "CreateVolumeGroupSnapshotRequest",
     "name: 'g' source_volume_ids: 'v' source_volume_ids: 'w' parameters { key: 'a' value: 'b' }"},
    {"csi group-snapshot get g --snapshot s --secret k=s", "GetVolumeGroupSnapshotRequest",
     "group_snapshot_id: 'g' snapshot_ids: 's' " + kSecret},
    {"csi group-snapshot delete g --snapshot s --snapshot u", "DeleteVolumeGroupSnapshotRequest",
     "group_snapshot_id: 'g' snapshot_ids: 's' snapshot_ids: 'u'"},
    {"csi metadata-allocated s --offset 4KiB --max-results 7 --secret k=s", "GetMetadataAllocatedRequest",
     "snapshot_id: 's' starting_offset: 4096 max_results: 7 " + kSecret},
    {"csi metadata-delta s t", "GetMetadataDeltaRequest", "base_snapshot_id: 's' target_snapshot_id: 't'"},
};

TEST_F(CsiRequestsTest, HaveTheFieldsOfTheFlags) {
  driver_.script().Reply<csi::v1::ValidateVolumeCapabilitiesResponse>("confirmed {}");
  for (const auto& rows : {kCreate, kController, kNode, kSnapshots}) driver_.ExpectRequests(rows);
}

TEST_F(CsiRequestsTest, SecretsOfFileAndCommandLineAreMerged) {
  const std::string file = driver_.directory() + "/secrets";
  std::ofstream(file) << "user=admin\npassword=x y\n";
  driver_.ExpectRequests({{"csi delete v --secret k=s --secrets-file " + file, "DeleteVolumeRequest",
                           "volume_id: 'v' secrets { key: 'user' value: 'admin' }"
                           "secrets { key: 'password' value: 'x y' }" +
                               kSecret}});
}

}  // namespace
}  // namespace mooring::cli

// The Identity service, and the answers about capabilities and the node.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class ErrorsIdentity : public RpcTest {};

TEST_F(ErrorsIdentity, RepeatedQuestionsGetTheSameAnswer) {
  const auto info = driver().Send(NodeGetInfoRequest());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(driver().Send(NodeGetInfoRequest())->SerializeAsString().size(), info->SerializeAsString().size());
    EXPECT_OK(driver().Send(ProbeRequest()));
    EXPECT_OK(driver().Send(GetPluginInfoRequest()));
    EXPECT_OK(driver().Send(csi::v1::GetPluginCapabilitiesRequest()));
    EXPECT_OK(driver().Send(NodeGetCapabilitiesRequest()));
    EXPECT_OK(driver().Send(csi::v1::ControllerGetCapabilitiesRequest()));
  }
}

TEST_F(ErrorsIdentity, AdvertisedCapabilitiesAreComplete) {
  using Rpc = csi::v1::ControllerServiceCapability::RPC;
  std::vector<int> types;
  const auto controller = driver().Send(csi::v1::ControllerGetCapabilitiesRequest());
  for (const auto& capability : controller->capabilities()) types.push_back(capability.rpc().type());
  EXPECT_THAT(types, IsSupersetOf({static_cast<int>(Rpc::CREATE_DELETE_VOLUME), static_cast<int>(Rpc::LIST_VOLUMES),
                                   static_cast<int>(Rpc::EXPAND_VOLUME), static_cast<int>(Rpc::GET_CAPACITY),
                                   static_cast<int>(Rpc::MODIFY_VOLUME), static_cast<int>(Rpc::VOLUME_CONDITION)}));
  EXPECT_THAT(types, IsSupersetOf({static_cast<int>(Rpc::CREATE_DELETE_SNAPSHOT), static_cast<int>(Rpc::LIST_SNAPSHOTS),
                                   static_cast<int>(Rpc::GET_SNAPSHOT), static_cast<int>(Rpc::CLONE_VOLUME)}));
  const auto group = driver().Send(csi::v1::GroupControllerGetCapabilitiesRequest());
  ASSERT_EQ(group->capabilities_size(), 1);
  EXPECT_EQ(group->capabilities(0).rpc().type(),
            csi::v1::GroupControllerServiceCapability::RPC::CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT);
}

TEST_F(ErrorsIdentity, AGroupOfTenThousandUnknownVolumesIsNotFound) {
  csi::v1::CreateVolumeGroupSnapshotRequest request;
  request.set_name("many");
  for (int i = 0; i < 10'000; ++i) request.add_source_volume_ids("vol-" + std::to_string(i));
  ExpectRefused(request, Code::kNotFound, "does not exist");
}

}  // namespace
}  // namespace mooring::testing

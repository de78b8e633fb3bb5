// The error table of CSI for the Controller service.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class ErrorsController : public RpcTest {};

TEST_F(ErrorsController, CreateChecksItsArguments) {
  const auto refused = [&](const std::function<void(CreateVolumeRequest&)>& spoil, const std::string& piece) {
    CreateVolumeRequest request = CreateRequest("v");
    spoil(request);
    ExpectRefused(request, Code::kInvalidArgument, piece);
  };
  refused([](auto& request) { request.clear_name(); }, "name is missing");
  refused([](auto& request) { request.clear_volume_capabilities(); }, "volume_capabilities is missing");
  refused([](auto& request) { request.mutable_volume_capabilities(0)->clear_access_type(); },
          "neither mount nor block");
  refused([](auto& request) { request.mutable_volume_capabilities(0)->clear_access_mode(); }, "access_mode");
  refused([](auto& request) { (*request.mutable_parameters())["colour"] = "blue"; }, "colour");
  refused([](auto& request) { request.mutable_volume_content_source()->mutable_volume(); }, "volume_content_source");
}

TEST_F(ErrorsController, CreateComparesTheVolumeBeforeTheCapacity) {
  const auto made = driver().Send(CreateRequest("v"));
  ASSERT_OK(made);
  CreateVolumeRequest larger = CreateRequest("v");
  larger.mutable_capacity_range()->set_required_bytes(std::int64_t{1} << 60);
  ExpectRefused(larger, Code::kAlreadyExists, "exists");
  CreateVolumeRequest smaller = CreateRequest("v");
  smaller.mutable_capacity_range()->set_required_bytes(kMiB);
  smaller.mutable_capacity_range()->set_limit_bytes(kMiB);
  ExpectRefused(smaller, Code::kAlreadyExists, "exists");
  ExpectRefused(CreateRequest("v", Mount("xfs")), Code::kAlreadyExists, "xfs");
  CreateVolumeRequest elsewhere = CreateRequest("v");
  (*elsewhere.mutable_accessibility_requirements()->add_requisite()->mutable_segments())["zone"] = "b";
  ExpectRefused(elsewhere, Code::kAlreadyExists, "topology");
  const auto again = driver().Send(CreateRequest("v"));
  ASSERT_OK(again);
  EXPECT_EQ(again->volume().volume_id(), made->volume().volume_id());
}

TEST_F(ErrorsController, CreateForAnotherNodeIsResourceExhausted) {
  CreateVolumeRequest request = CreateRequest("v");
  (*request.mutable_accessibility_requirements()->add_requisite()->mutable_segments())["topology.mooring.csi/node"] =
      "node-2";
  ExpectRefused(request, Code::kResourceExhausted, "accessibility_requirements");
  (*request.mutable_accessibility_requirements()->add_requisite()->mutable_segments())["topology.mooring.csi/node"] =
      kNode;
  EXPECT_OK(driver().Send(request));
}

TEST_F(ErrorsController, ImpossibleSizesAreOutOfRange) {
  const auto with = [&](const VolumeCapability& capability, std::int64_t required, std::int64_t limit) {
    CreateVolumeRequest request = CreateRequest("v", capability);
    request.mutable_capacity_range()->set_required_bytes(required);
    request.mutable_capacity_range()->set_limit_bytes(limit);
    return request;
  };
  ExpectRefused(with(Mount(), -1, 0), Code::kInvalidArgument, "negative");
  ExpectRefused(with(Mount(), 0, -1), Code::kInvalidArgument, "negative");
  ExpectRefused(with(Mount(), 2 * kVolumeBytes, kVolumeBytes), Code::kInvalidArgument, "limit_bytes");
  ExpectRefused(with(Mount(), std::int64_t{1} << 60, 0), Code::kOutOfRange, "largest");
  ExpectRefused(with(Mount(), INT64_MAX, 0), Code::kOutOfRange, "largest");
  ExpectRefused(with(Mount(), INT64_MAX, INT64_MAX), Code::kOutOfRange, "largest");
  ExpectRefused(with(Mount(), 0, 1), Code::kOutOfRange, "limit_bytes");
  ExpectRefused(with(Mount("xfs"), 64 * kMiB, 64 * kMiB), Code::kOutOfRange, "300 MiB");
  ExpectRefused(with(Mount(), 4097, 4098), Code::kOutOfRange, "limit_bytes");
}

TEST_F(ErrorsController, LimitEqualToRequiredGivesExactlyThat) {
  CreateVolumeRequest request = CreateRequest("v");
  request.mutable_capacity_range()->set_limit_bytes(kVolumeBytes);
  const auto made = driver().Send(request);
  ASSERT_OK(made);
  EXPECT_EQ(made->volume().capacity_bytes(), kVolumeBytes);
}

TEST_F(ErrorsController, UnknownIdsAreNotFound) {
  Created();
  for (const std::string& id : StrangeIds()) {
    SCOPED_TRACE(id.substr(0, 64));
    ExpectRefused([&] { return driver().Attach(id, kNode); }, Code::kNotFound, "does not exist");
    ExpectRefused([&] { return driver().Grow(id, kGiB); }, Code::kNotFound, "does not exist");
    ExpectRefused(ValidateRequest(id, Mount()), Code::kNotFound, "does not exist");
    ExpectRefused([&] { return driver().Get(id); }, Code::kNotFound, "does not exist");
    EXPECT_OK(driver().Delete(id));
    EXPECT_OK(driver().Detach(id, kNode));
    EXPECT_OK(driver().Detach(id, ""));
  }
}

TEST_F(ErrorsController, ArgumentsAreCheckedBeforeTheVolumeIsLookedUp) {
  for (const std::string& id : {Created(), std::string("unknown")}) {
    const auto invalid = [&](auto call, const std::string& piece) {
      ExpectRefused(call, Code::kInvalidArgument, piece);
    };
    invalid([&] { return driver().Delete(""); }, "volume_id is missing");
    invalid([&] { return driver().Attach("", kNode); }, "volume_id is missing");
    invalid([&] { return driver().Attach(id, ""); }, "node_id is missing");
    invalid([&] { return driver().Attach(id, kNode, VolumeCapability()); }, "volume capability");
    invalid([&] { return driver().Detach("", kNode); }, "volume_id is missing");
    invalid([&] { return driver().Grow("", kGiB); }, "volume_id is missing");
    invalid([&] { return driver().Grow(id, 0); }, "capacity_range");
    invalid([&] { return driver().Grow(id, -1); }, "negative");
    invalid(csi::v1::ControllerGetVolumeRequest(), "volume_id is missing");
    ControllerPublishVolumeRequest publish;
    publish.set_volume_id(id);
    publish.set_node_id(kNode);
    invalid(publish, "volume_capability is missing");
    ControllerExpandVolumeRequest expand;
    expand.set_volume_id(id);
    invalid(expand, "capacity_range is missing");
    ValidateVolumeCapabilitiesRequest validate;
    *validate.add_volume_capabilities() = Mount();
    invalid(validate, "volume_id is missing");
    validate.set_volume_id(id);
    validate.clear_volume_capabilities();
    invalid(validate, "volume_capabilities is missing");
  }
}

TEST_F(ErrorsController, ControllerPublishAcceptsASingleNodeAndCapability) {
  const std::string id = Created();
  ExpectRefused([&] { return driver().Attach(id, "node-2"); }, Code::kNotFound, "node-2");
  ASSERT_OK(driver().Attach(id, kNode));
  ExpectRefused([&] { return driver().Attach(id, kNode, Mount(), true); }, Code::kAlreadyExists, "read-only");
  ExpectRefused([&] { return driver().Attach(id, kNode, Block()); }, Code::kAlreadyExists, "block");
  for (int i = 0; i < 10; ++i) ASSERT_OK(driver().Attach(id, kNode));
  for (int i = 0; i < 10; ++i) ASSERT_OK(driver().Detach(id, i % 2 == 0 ? kNode : ""));
  EXPECT_OK(driver().Attach(id, kNode, Mount(), true));
}

TEST_F(ErrorsController, ReadOnlyOfControllerPublishReachesTheNode) {
  const std::string id = Created();
  const auto published = driver().Attach(id, kNode, Mount(), true);
  ASSERT_OK(published);
  NodeStageVolumeRequest stage = StageRequest(id, Staging(id));
  *stage.mutable_publish_context() = published->publish_context();
  ASSERT_OK(driver().Send(stage));
  EXPECT_EQ(TryWrite(Staging(id) + "/file", "data"), EROFS);
}

TEST_F(ErrorsController, NodeIdStaysWhileVolumesExist) {
  const std::string id = Created();
  plugin().options().flags = {};
  Restart(SIGTERM);
  EXPECT_EQ(driver().Send(NodeGetInfoRequest())->node_id(), kNode);
  EXPECT_OK(driver().Attach(id, kNode));
  plugin().Terminate();
  plugin().options().flags = {"--node-id", "node-2"};
  plugin().Launch();
  EXPECT_EQ(plugin().Wait(), 1);
  EXPECT_THAT(plugin().Log(), HasSubstr("give --node-id " + std::string(kNode)));
  plugin().options().flags = {};
  Start();
  ASSERT_OK(driver().Detach(id, kNode));
  ASSERT_OK(driver().Delete(id));
  plugin().options().flags = {"--node-id", "node-2"};
  Restart(SIGTERM);
  EXPECT_EQ(driver().Send(NodeGetInfoRequest())->node_id(), "node-2");
}

TEST_F(ErrorsController, MoreThanMaxVolumesIsResourceExhausted) {
  plugin().options().flags = {"--node-id", kNode, "--max-volumes", "2"};
  Restart(SIGTERM);
  EXPECT_EQ(driver().Send(NodeGetInfoRequest())->max_volumes_per_node(), 2);
  const std::string first = Created(), second = Created(), third = Created();
  ASSERT_OK(driver().Attach(first, kNode));
  ASSERT_OK(driver().Attach(second, kNode));
  ExpectRefused([&] { return driver().Attach(third, kNode); }, Code::kResourceExhausted, "2");
  EXPECT_OK(driver().Attach(second, kNode));  // it is counted already
  ASSERT_OK(driver().Detach(first, kNode));
  EXPECT_OK(driver().Attach(third, kNode));
}

TEST_F(ErrorsController, ValidateOfAnotherFilesystemIsOkWithoutConfirmation) {
  ValidateVolumeCapabilitiesRequest request = ValidateRequest(Created(Mount("ext4")), Mount("ext4"));
  EXPECT_TRUE(driver().Send(request)->has_confirmed());
  *request.mutable_volume_capabilities(0) = Mount("xfs");
  const auto other = driver().Send(request);
  EXPECT_OK(other);
  EXPECT_FALSE(other->has_confirmed());
  EXPECT_THAT(other->message(), HasSubstr("xfs"));
}

// A block volume may be smaller than the smallest filesystem.
TEST_F(ErrorsController, SmallBlockVolumeIsMountedOnlyAfterItHasGrown) {
  for (const auto& [fs_type, enough] : {std::pair("xfs", kXfsBytes), std::pair("ext4", kVolumeBytes)}) {
    SCOPED_TRACE(fs_type);
    const std::string name = std::string("small-") + fs_type;
    const auto request =
        CreateRequest(name, Block(), kMiB, {{"fsType", fs_type}, {"allowVolumeModeConversion", "true"}});
    const auto made = driver().Send(request);
    ASSERT_OK(made);
    const std::string id = made->volume().volume_id();
    EXPECT_EQ(made->volume().capacity_bytes(), kMiB);
    ExpectRefused(CreateRequest(name, Mount(fs_type), kMiB), Code::kAlreadyExists, "at least");
    const ValidateVolumeCapabilitiesRequest validate = ValidateRequest(id, Mount(fs_type));
    EXPECT_FALSE(driver().Send(validate)->has_confirmed());
    const std::string staging = Staging(id);
    ExpectRefused(StageRequest(id, staging, Mount(fs_type)), Code::kFailedPrecondition, "expand");
    ASSERT_OK(driver().Grow(id, enough));
    EXPECT_TRUE(driver().Send(validate)->has_confirmed());
    EXPECT_OK(driver().Stage(id, staging, Mount(fs_type)));
  }
}

TEST_F(ErrorsController, ListReturnsPagesAndChecksTokens) {
  const std::string a = Created(), b = Created(), c = Created();
  ASSERT_OK(driver().Attach(b, kNode));
  ListVolumesRequest request;
  request.set_max_entries(2);
  const auto first = driver().Send(request);
  ASSERT_EQ(first->entries_size(), 2);
  EXPECT_THAT(first->entries(0).status().published_node_ids(), IsEmpty());
  EXPECT_THAT(first->entries(1).status().published_node_ids(), ElementsAre(kNode));
  request.set_starting_token(first->next_token());
  const auto second = driver().Send(request);
  ASSERT_EQ(second->entries_size(), 1);
  EXPECT_EQ(second->entries(0).volume().volume_id(), c);
  EXPECT_EQ(second->next_token(), "");
  request.set_max_entries(-1);
  ExpectRefused(request, Code::kInvalidArgument, "max_entries");
  request.set_max_entries(0);
  for (const char* const token :
       {"0", "-1", "4294967295", "after-", "after-0", "after--1", "after-01", "x", "after-99999999999999999999"}) {
    request.set_starting_token(token);
    ExpectRefused(request, Code::kAborted, "starting_token");
  }
}

TEST_F(ErrorsController, ExpandNeverShrinksAndChecksLimits) {
  const std::string id = Created();
  ExpectRefused([&] { return driver().Grow(id, std::int64_t{1} << 60); }, Code::kOutOfRange, "largest");
  ControllerExpandVolumeRequest request;
  request.set_volume_id(id);
  request.mutable_capacity_range()->set_limit_bytes(kMiB);
  ExpectRefused(request, Code::kOutOfRange, "shrink");
  EXPECT_EQ(driver().Grow(id, kMiB)->capacity_bytes(), kVolumeBytes);
  const auto grown = driver().Grow(id, 2 * kVolumeBytes);
  EXPECT_EQ(grown->capacity_bytes(), 2 * kVolumeBytes);
  EXPECT_TRUE(grown->node_expansion_required());
  for (int i = 0; i < 10; ++i) EXPECT_OK(driver().Grow(id, 2 * kVolumeBytes));
}

TEST_F(ErrorsController, CapacityIsTheFreeSpaceOfTheStateDirectory) {
  const auto answer = driver().Send(GetCapacityRequest());
  ASSERT_OK(answer);
  EXPECT_GT(answer->available_capacity(), 0);
  GetCapacityRequest impossible;
  *impossible.add_volume_capabilities() = Mount("ntfs");
  EXPECT_EQ(driver().Send(impossible)->available_capacity(), 0);
}

}  // namespace
}  // namespace mooring::testing

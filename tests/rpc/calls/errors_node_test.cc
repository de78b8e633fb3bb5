// The error table of CSI for the Node service. A refused call changes nothing.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class ErrorsNode : public RpcTest {
 protected:
  void SetUp() override {
    RpcTest::SetUp();
    for (const char* name : {"v", "other"}) Staging(name);
    for (const char* name : {"a", "b"}) Target(name);
  }

  template <typename Request>
  void RefusedWithout(Request request, const std::string& field, const std::string& piece) {
    SCOPED_TRACE(field);
    request.GetReflection()->ClearField(&request, request.GetDescriptor()->FindFieldByName(field));
    ExpectRefused(request, Code::kInvalidArgument, piece);
  }
};

TEST_F(ErrorsNode, StageChecksArgumentsBeforeTheVolume) {
  for (const std::string& id : {Created(), std::string("unknown")}) {
    NodeStageVolumeRequest request = StageRequest(id, Staging("v"));
    RefusedWithout(request, "volume_id", "volume_id is missing");
    RefusedWithout(request, "staging_target_path", "staging_target_path is missing");
    RefusedWithout(request, "volume_capability", "volume_capability is missing");
    request.mutable_volume_capability()->clear_access_mode();
    ExpectRefused(request, Code::kInvalidArgument, "access_mode");
    *request.mutable_volume_capability() = Mount();
    request.mutable_volume_capability()->clear_access_type();
    ExpectRefused(request, Code::kInvalidArgument, "neither mount nor block");
    request = StageRequest(id, Staging("v"));
    request.mutable_volume_capability()->mutable_access_mode()->set_mode(static_cast<AccessMode::Mode>(99));
    ExpectRefused(request, Code::kInvalidArgument, "access_mode");
  }
}

TEST_F(ErrorsNode, PublishChecksArgumentsBeforeTheVolume) {
  for (const std::string& id : {Created(), std::string("unknown")}) {
    NodePublishVolumeRequest request = PublishRequest(id, Staging("v"), Target("a"));
    RefusedWithout(request, "volume_id", "volume_id is missing");
    RefusedWithout(request, "target_path", "target_path is missing");
    RefusedWithout(request, "volume_capability", "volume_capability is missing");
    request.mutable_volume_capability()->clear_access_mode();
    ExpectRefused(request, Code::kInvalidArgument, "access_mode");
  }
}

TEST_F(ErrorsNode, OtherCallsCheckArgumentsFirst) {
  for (const std::string& id : {Created(), std::string("unknown")}) {
    const auto invalid = [&](auto call, const std::string& piece) {
      ExpectRefused(call, Code::kInvalidArgument, piece);
    };
    invalid([&] { return driver().Unstage("", Staging("v")); }, "volume_id is missing");
    invalid([&] { return driver().Unstage(id, ""); }, "staging_target_path is missing");
    invalid([&] { return driver().Unpublish("", Target("a")); }, "volume_id is missing");
    invalid([&] { return driver().Unpublish(id, ""); }, "target_path is missing");
    invalid([&] { return driver().Stats("", Target("a")); }, "volume_id is missing");
    invalid([&] { return driver().Stats(id, ""); }, "volume_path is missing");
    invalid([&] { return driver().NodeExpand("", Target("a")); }, "volume_id is missing");
    invalid([&] { return driver().NodeExpand(id, ""); }, "volume_path is missing");
  }
}

TEST_F(ErrorsNode, UnknownIdsAreNotFound) {
  Created();
  for (const std::string& id : StrangeIds()) {
    SCOPED_TRACE(id.substr(0, 64));
    ExpectRefused(StageRequest(id, Staging("v")), Code::kNotFound, "does not exist");
    ExpectRefused(PublishRequest(id, Staging("v"), Target("a")), Code::kNotFound, "does not exist");
    ExpectRefused([&] { return driver().Stats(id, Target("a")); }, Code::kNotFound, "is not at");
    ExpectRefused([&] { return driver().NodeExpand(id, Target("a")); }, Code::kNotFound, "");
    EXPECT_OK(driver().Unpublish(id, Target("a")));
    EXPECT_OK(driver().Unstage(id, Staging("v")));
  }
}

TEST_F(ErrorsNode, StageWithAnotherCapabilityIsAlreadyExists) {
  const std::string id = Created();
  const std::string path = Staging(id);
  ASSERT_OK(driver().Stage(id, path, Mount("ext4")));
  for (const VolumeCapability& other :
       {Mount("ext4", AccessMode::MULTI_NODE_MULTI_WRITER), Mount("ext4", AccessMode::SINGLE_NODE_READER_ONLY),
        Mount("ext4", AccessMode::SINGLE_NODE_WRITER, {"noexec"}),
        Mount("ext4", AccessMode::SINGLE_NODE_WRITER, {"commit=30"}), Mount("xfs"), WithGroup(Mount("ext4"), "4711"),
        Block()}) {
    SCOPED_TRACE(other.ShortDebugString());
    ExpectRefused(StageRequest(id, path, other), Code::kAlreadyExists, "another capability");
  }
  EXPECT_OK(driver().Stage(id, path, Mount("ext4")));
}

TEST_F(ErrorsNode, BlockStageWithAnotherCapabilityIsAlreadyExists) {
  const std::string id = Created();
  const std::string path = Staging(id);
  ASSERT_OK(driver().Stage(id, path, Block()));
  for (const VolumeCapability& other : {Block(AccessMode::MULTI_NODE_MULTI_WRITER), Mount(), Mount("xfs")}) {
    SCOPED_TRACE(other.ShortDebugString());
    ExpectRefused(StageRequest(id, path, other), Code::kAlreadyExists, "another capability");
  }
}

TEST_F(ErrorsNode, CapabilityTheVolumeLacksIsFailedPrecondition) {
  const std::string id = Created(Mount("ext4"));
  const std::string path = Staging(id);
  ExpectRefused(StageRequest(id, path, Mount("xfs")), Code::kFailedPrecondition, "was made for ext4");
  ASSERT_OK(driver().Stage(id, Staging(id)));
  ExpectRefused(StageRequest(id, Staging("other"), Mount("xfs")), Code::kFailedPrecondition, "xfs");
  ExpectRefused(StageRequest(id, Staging("other"), Block()), Code::kFailedPrecondition, "in use as a filesystem");
  ExpectRefused(PublishRequest(id, Staging(id), Target("a"), Mount("xfs")), Code::kFailedPrecondition,
                "xfs is asked for");
  ExpectRefused(PublishRequest(id, Staging(id), Target("a"), Block()), Code::kFailedPrecondition,
                "in use as a filesystem");
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  ExpectRefused(StageRequest(id, Staging(id), Mount("xfs")), Code::kFailedPrecondition, "not formatted again");
}

TEST_F(ErrorsNode, VolumeInUseAsABlockDeviceIsNotMounted) {
  const std::string id = Created();
  ASSERT_OK(driver().Stage(id, Staging(id), Block()));
  ExpectRefused(StageRequest(id, Staging("other")), Code::kFailedPrecondition, "in use as a block device");
  ExpectRefused(PublishRequest(id, Staging(id), Target("a"), Mount()), Code::kFailedPrecondition,
                "NodeStageVolume comes first");
}

TEST_F(ErrorsNode, PublishWithoutStageIsFailedPrecondition) {
  const std::string id = Created();
  const std::string other = Staged();
  Staging(id);
  for (const VolumeCapability& capability : {Mount(), Block()}) {
    const auto publish = [&](const std::string& staging) {
      return [&, staging] { return driver().Publish(id, staging, Target("a"), capability); };
    };
    ExpectRefused(publish(""), Code::kFailedPrecondition, "staging_target_path is missing");
    ExpectRefused(publish(Staging(id)), Code::kFailedPrecondition, "NodeStageVolume comes first");
    ExpectRefused(publish(dir() / "missing"), Code::kFailedPrecondition, "NodeStageVolume comes first");
    ExpectRefused(publish(Staging(other)), Code::kFailedPrecondition, "NodeStageVolume comes first");
  }
}

TEST_F(ErrorsNode, PublishBelowAMissingDirectoryIsNotAnUnknownVolume) {
  const std::string id = Staged();
  ExpectRefused(PublishRequest(id, Staging(id), dir() / "missing/target"), Code::kFailedPrecondition, "missing");
}

TEST_F(ErrorsNode, StatsAndExpandOfOtherPathsAreNotFound) {
  const std::string id = Created();
  const std::string other = Created();
  StageAndPublish(id, Target("a"));
  fs::create_directory(Target("a") + "/below");
  for (const std::string& path : {Target("b"), dir() / "missing/x", dir().path(), state_dir(), std::string("relative"),
                                  std::string("/proc"), Target("a") + "/below"}) {
    SCOPED_TRACE(path);
    ExpectRefused([&] { return driver().Stats(id, path); }, Code::kNotFound, id);
    ExpectRefused([&] { return driver().NodeExpand(id, path); }, Code::kNotFound, id);
  }
  ExpectRefused([&] { return driver().Stats(other, Target("a")); }, Code::kNotFound, other);
  ExpectRefused([&] { return driver().NodeExpand(other, Target("a")); }, Code::kNotFound, other);
}

TEST_F(ErrorsNode, NodeExpandChecksLimits) {
  const std::string id = Created(Mount("xfs"), kXfsBytes);
  ASSERT_OK(driver().Stage(id, Staging(id)));
  NodeExpandVolumeRequest request;
  request.set_volume_id(id);
  request.set_volume_path(Staging(id));
  const auto refused = [&](std::int64_t required, std::int64_t limit, Code code, const std::string& piece) {
    request.mutable_capacity_range()->set_required_bytes(required);
    request.mutable_capacity_range()->set_limit_bytes(limit);
    ExpectRefused(request, code, piece);
  };
  refused(-1, 0, Code::kInvalidArgument, "negative");
  refused(0, -1, Code::kInvalidArgument, "negative");
  refused(kXfsBytes, kMiB, Code::kInvalidArgument, "limit");
  refused(kXfsBytes + 1, 0, Code::kOutOfRange, "ControllerExpandVolume comes first");
  refused(INT64_MAX, 0, Code::kOutOfRange, "ControllerExpandVolume comes first");
  refused(0, kMiB, Code::kOutOfRange, "limit");
  request.clear_capacity_range();
  const auto answer = driver().Send(request);
  EXPECT_OK(answer);
  EXPECT_EQ(answer->capacity_bytes(), kXfsBytes);
  EXPECT_OK(driver().NodeExpand(id, Staging(id), kMiB));  // large enough already
}

TEST_F(ErrorsNode, RepeatedCallsAreOkAndChangeNothing) {
  for (const VolumeCapability& capability : {Mount(), Block()}) {
    const std::string id = Created(capability);
    std::string mounts;
    for (int i = 0; i < 10; ++i) ASSERT_OK(driver().Stage(id, Staging(id), capability));
    EXPECT_EQ(LoopsOver(Image(id)).size(), 1U);
    for (int i = 0; i < 10; ++i) {
      ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
      if (i == 0) mounts = RawMounts();
    }
    EXPECT_EQ(RawMounts(), mounts) << "a repeated call has touched a mount";
    EXPECT_EQ(MountsAt(Target("a")).size(), 1U);
    for (int i = 0; i < 10; ++i) EXPECT_OK(driver().Stats(id, Target("a")));
    for (int i = 0; i < 10; ++i) EXPECT_OK(driver().NodeExpand(id, Target("a")));
    for (int i = 0; i < 10; ++i) EXPECT_OK(driver().Unpublish(id, Target("a")));
    for (int i = 0; i < 10; ++i) EXPECT_OK(driver().Unstage(id, Staging(id)));
    for (int i = 0; i < 10; ++i) EXPECT_OK(driver().Delete(id));
  }
}

}  // namespace
}  // namespace mooring::testing

// NodePublishVolume of a published volume: the table of CSI 1.12 for each access mode, mount and block.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class PublishTable : public RpcTest, public ::testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(Volumes, PublishTable, ::testing::Values(false, true), MountOrBlock);

TEST_P(PublishTable, SecondPublish) {
  const struct {
    AccessMode::Mode mode;
    bool several;  // targets are allowed
  } rows[] = {{AccessMode::SINGLE_NODE_WRITER, false},     {AccessMode::SINGLE_NODE_READER_ONLY, false},
              {AccessMode::MULTI_NODE_READER_ONLY, true},  {AccessMode::MULTI_NODE_SINGLE_WRITER, true},
              {AccessMode::MULTI_NODE_MULTI_WRITER, true}, {AccessMode::SINGLE_NODE_SINGLE_WRITER, false},
              {AccessMode::SINGLE_NODE_MULTI_WRITER, true}};
  for (const auto& [mode, several] : rows) {
    SCOPED_TRACE(AccessMode::Mode_Name(mode));
    const VolumeCapability capability = GetParam() ? Block(mode) : Mount("", mode);
    const std::string id = Created(capability), target = Target("a", id);
    StageAndPublish(id, target, capability);
    const std::string mounts = RawMounts();
    EXPECT_OK(driver().Publish(id, Staging(id), target, capability)) << "the same arguments";
    EXPECT_EQ(RawMounts(), mounts);
    ExpectRefused(PublishRequest(id, Staging(id), target, capability, true), Code::kAlreadyExists, target);
    for (const bool read_only : {false, true}) {
      const std::string other = Target(read_only ? "ro" : "rw", id);
      const NodePublishVolumeRequest request = PublishRequest(id, Staging(id), other, capability, read_only);
      const bool writes = mode != AccessMode::SINGLE_NODE_READER_ONLY && mode != AccessMode::MULTI_NODE_READER_ONLY;
      if (several && GetParam() && writes && read_only) {  // the table says OK, but the reader would see old data
        ExpectRefused(request, Code::kFailedPrecondition, "would see old data");
      } else if (several) {
        EXPECT_OK(driver().Send(request));
        EXPECT_EQ(MountsAt(other).size(), 1U);
      } else {
        ExpectRefused(request, Code::kFailedPrecondition, "one target");
      }
    }
  }
}

class PublishAgain : public RpcTest {};

// These differences are also other arguments at the same target.
TEST_F(PublishAgain, AnotherCapabilityAtTheSameTargetIsAlreadyExists) {
  const auto mode = kMultiWriter;
  const std::string id = Created();
  StageAndPublish(id, Target("a"), Mount("", mode));
  for (const VolumeCapability& other : {Mount("", AccessMode::MULTI_NODE_MULTI_WRITER), Mount("", mode, {"noexec"}),
                                        Mount("", mode, {"commit=30"}), Mount("ext4", mode), Mount("xfs", mode),
                                        Mount("btrfs", mode), WithGroup(Mount("", mode), "4711"), Block(mode)}) {
    SCOPED_TRACE(other.ShortDebugString());
    ExpectRefused(PublishRequest(id, Staging(id), Target("a"), other), Code::kAlreadyExists, Target("a"));
  }
}

TEST_F(PublishAgain, RefusedReadOnlyBlockPublishLeavesNoDevice) {
  const std::string id = Published(Target("a"), Block());
  ExpectRefused(PublishRequest(id, Staging(id), Target("a"), Block(), true), Code::kAlreadyExists, "another way");
  EXPECT_EQ(LoopsHere().size(), 1U);
}

// Nomad unstages a volume while tasks run. The targets stay, and a repeated publish changes nothing.
TEST_F(PublishAgain, TargetWithoutStagingPathIsOk) {
  for (const VolumeCapability& capability : {Mount(), Block()}) {
    const std::string id = Created(capability);
    const std::string target = Target("a", id);
    StageAndPublish(id, target, capability);
    ASSERT_OK(driver().Unstage(id, Staging(id)));
    EXPECT_OK(driver().Publish(id, Staging(id), target, capability));
    ExpectRefused(PublishRequest(id, Staging(id), target, capability, true), Code::kAlreadyExists, target);
  }
}

}  // namespace
}  // namespace mooring::testing

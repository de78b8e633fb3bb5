// NodePublishVolume of a published volume: the table of CSI 1.12 for each access mode, mount and block.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

enum class Second { kSameTargetSame, kSameTargetOther, kOtherTargetSame, kOtherTargetOther };

struct Row {
  AccessMode::Mode mode;
  bool block;
  Second second;
};

bool AllowsSecondTarget(AccessMode::Mode mode) {
  return mode != AccessMode::SINGLE_NODE_WRITER && mode != AccessMode::SINGLE_NODE_READER_ONLY &&
         mode != AccessMode::SINGLE_NODE_SINGLE_WRITER;
}

Code Expected(const Row& row) {
  switch (row.second) {
    case Second::kSameTargetSame:
      return Code::kOk;
    case Second::kSameTargetOther:
      return Code::kAlreadyExists;
    case Second::kOtherTargetSame:
    case Second::kOtherTargetOther:
      return AllowsSecondTarget(row.mode) ? Code::kOk : Code::kFailedPrecondition;
  }
  return Code::kUnknown;
}

std::string Name(const ::testing::TestParamInfo<Row>& info) {
  constexpr const char* kSecond[] = {"SameTargetSameArguments", "SameTargetOtherArguments", "OtherTargetSameArguments",
                                     "OtherTargetOtherArguments"};
  return (info.param.block ? "Block_" : "Mount_") + AccessMode::Mode_Name(info.param.mode) + "_" +
         kSecond[static_cast<int>(info.param.second)];
}

std::vector<Row> AllRows() {
  std::vector<Row> rows;
  for (const AccessMode::Mode mode :
       {AccessMode::SINGLE_NODE_WRITER, AccessMode::SINGLE_NODE_READER_ONLY, AccessMode::MULTI_NODE_READER_ONLY,
        AccessMode::MULTI_NODE_SINGLE_WRITER, AccessMode::MULTI_NODE_MULTI_WRITER,
        AccessMode::SINGLE_NODE_SINGLE_WRITER, AccessMode::SINGLE_NODE_MULTI_WRITER}) {
    for (const bool block : {false, true}) {
      for (const Second second :
           {Second::kSameTargetSame, Second::kSameTargetOther, Second::kOtherTargetSame, Second::kOtherTargetOther}) {
        rows.push_back({mode, block, second});
      }
    }
  }
  return rows;
}

class PublishTable : public RpcTest, public ::testing::WithParamInterface<Row> {};

TEST_P(PublishTable, SecondPublish) {
  const Row row = GetParam();
  const VolumeCapability capability = row.block ? Block(row.mode) : Mount("", row.mode);
  const std::string id = Published(Target("a"), capability);
  const std::string mounts = RawMounts();
  const bool same_target = row.second == Second::kSameTargetSame || row.second == Second::kSameTargetOther;
  const bool other = row.second == Second::kSameTargetOther || row.second == Second::kOtherTargetOther;
  const std::string target = Target(same_target ? "a" : "b");
  const auto publish = [&] { return driver().Publish(id, Staging(id), target, capability, other); };
  if (Expected(row) == Code::kOk) {
    EXPECT_OK(publish());
    EXPECT_EQ(MountsAt(target).size(), 1U);
  } else {
    ExpectRefused(publish, Expected(row), same_target ? Target("a") : "one target");
  }
  if (same_target || Expected(row) != Code::kOk) {
    EXPECT_EQ(RawMounts(), mounts);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryRow, PublishTable, ::testing::ValuesIn(AllRows()), Name);

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
    ExpectRefused([&] { return driver().Publish(id, Staging(id), Target("a"), other); }, Code::kAlreadyExists,
                  Target("a"));
  }
}

TEST_F(PublishAgain, RefusedReadOnlyBlockPublishLeavesNoDevice) {
  const std::string id = Published(Target("a"), Block());
  ExpectRefused([&] { return driver().Publish(id, Staging(id), Target("a"), Block(), true); }, Code::kAlreadyExists,
                "another way");
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
    ExpectRefused([&] { return driver().Publish(id, Staging(id), target, capability, true); }, Code::kAlreadyExists,
                  target);
  }
}

}  // namespace
}  // namespace mooring::testing

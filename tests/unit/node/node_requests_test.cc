#include "plugin/api/node_requests.h"

#include <google/protobuf/text_format.h>

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

template <typename Request>
Request Parse(const std::string& text) {
  Request request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
  return request;
}

constexpr char kCapability[] = " volume_capability { mount {} access_mode { mode: SINGLE_NODE_WRITER } }";

auto Stage(const std::string& text) { return ParseStage(Parse<csi::v1::NodeStageVolumeRequest>(text)); }
auto Unstage(const std::string& text) { return ParseUnstage(Parse<csi::v1::NodeUnstageVolumeRequest>(text)); }
auto Publish(const std::string& text) { return ParsePublish(Parse<csi::v1::NodePublishVolumeRequest>(text)); }
auto Unpublish(const std::string& text) { return ParseUnpublish(Parse<csi::v1::NodeUnpublishVolumeRequest>(text)); }
auto Stats(const std::string& text) { return ParseStats(Parse<csi::v1::NodeGetVolumeStatsRequest>(text)); }
auto Expand(const std::string& text) { return ParseNodeExpand(Parse<csi::v1::NodeExpandVolumeRequest>(text)); }

TEST(NodeRequestsTest, MessageNamesMissingField) {
  const std::string capability = kCapability;
  const auto missing = [](const auto& field) { return FailsWith(StatusCode::kInvalidArgument, field); };
  EXPECT_THAT(Stage("staging_target_path: '/s'" + capability), missing("volume_id is missing"));
  EXPECT_THAT(Stage("volume_id: 'v'" + capability), missing("staging_target_path is missing"));
  EXPECT_THAT(Stage("volume_id: 'v' staging_target_path: '/s'"), missing("volume_capability is missing"));
  EXPECT_THAT(Unstage("staging_target_path: '/s'"), missing("volume_id is missing"));
  EXPECT_THAT(Unstage("volume_id: 'v'"), missing("staging_target_path is missing"));
  EXPECT_THAT(Publish("target_path: '/t'" + capability), missing("volume_id is missing"));
  EXPECT_THAT(Publish("volume_id: 'v' staging_target_path: '/s'" + capability), missing("target_path is missing"));
  EXPECT_THAT(Publish("volume_id: 'v' target_path: '/t' staging_target_path: '/s'"), missing("volume_capability"));
  EXPECT_THAT(Unpublish("target_path: '/t'"), missing("volume_id is missing"));
  EXPECT_THAT(Unpublish("volume_id: 'v'"), missing("target_path is missing"));
  EXPECT_THAT(Stats("volume_path: '/t'"), missing("volume_id is missing"));
  EXPECT_THAT(Stats("volume_id: 'v'"), missing("volume_path is missing"));
  EXPECT_THAT(Expand("volume_path: '/t'"), missing("volume_id is missing"));
  EXPECT_THAT(Expand("volume_id: 'v'"), missing("volume_path is missing"));
}

TEST(NodeRequestsTest, IdOfAnyFormIsAccepted) {
  const std::string huge(100000, 'x');
  for (const std::string& id : {std::string("no-such"), std::string("../../etc"), std::string("a b"), huge}) {
    EXPECT_EQ(Unstage("volume_id: '" + id + "' staging_target_path: '/s'")->volume_id, id);
  }
}

TEST(NodeRequestsTest, RelativeAndUnusualPathsAreRefused) {
  for (const char* path : {"s", "./s", "/a/../b", "/a/./b", "/", "//", "/a\\nb", "/a\\000b", "/a\\033b"}) {
    const std::string quoted = std::string("'") + path + "'";
    EXPECT_THAT(Stage("volume_id: 'v' staging_target_path: " + quoted + kCapability),
                FailsWith(StatusCode::kInvalidArgument, "staging_target_path"))
        << path;
    EXPECT_THAT(Unpublish("volume_id: 'v' target_path: " + quoted),
                FailsWith(StatusCode::kInvalidArgument, "target_path"))
        << path;
    EXPECT_THAT(Publish("volume_id: 'v' target_path: '/t' staging_target_path: " + quoted + kCapability),
                FailsWith(StatusCode::kInvalidArgument, "staging_target_path"))
        << path;
    EXPECT_THAT(Stats("volume_id: 'v' volume_path: " + quoted), FailsWith(StatusCode::kNotFound, "volume_path"))
        << path;
    EXPECT_THAT(Expand("volume_id: 'v' volume_path: " + quoted), FailsWith(StatusCode::kNotFound, "volume_path"))
        << path;
  }
}

TEST(NodeRequestsTest, PathsAreNormalised) {
  EXPECT_EQ(Stage(std::string("volume_id: 'v' staging_target_path: '//s///a/'") + kCapability)->staging_path, "/s/a");
  EXPECT_EQ(Unpublish("volume_id: 'v' target_path: '/t/'")->path, "/t");
}

TEST(NodeRequestsTest, PublishWithoutStagingPathIsParsed) {
  const auto spec = Publish(std::string("volume_id: 'v' target_path: '/t'") + kCapability);
  ASSERT_OK(spec);
  EXPECT_EQ(spec->staging_path, "") << "NodeVolumes answers FAILED_PRECONDITION";
}

TEST(NodeRequestsTest, TargetEqualToStagingPathIsRefused) {
  EXPECT_THAT(Publish(std::string("volume_id: 'v' target_path: '/s/' staging_target_path: '/s'") + kCapability),
              FailsWith(StatusCode::kInvalidArgument, "both '/s'"));
}

TEST(NodeRequestsTest, ReadOnlyComesFromFieldOrPublishContext) {
  const std::string request = std::string("volume_id: 'v' target_path: '/t' staging_target_path: '/s'") + kCapability;
  EXPECT_FALSE(Publish(request)->read_only);
  EXPECT_TRUE(Publish(request + " readonly: true")->read_only);
  EXPECT_TRUE(Publish(request + " publish_context { key: 'readonly' value: 'true' }")->read_only);
  EXPECT_FALSE(Publish(request + " publish_context { key: 'readonly' value: 'false' }")->read_only);
  EXPECT_TRUE(Stage(std::string("volume_id: 'v' staging_target_path: '/s' publish_context { key: 'readonly' value: "
                                "'true' }") +
                    kCapability)
                  ->read_only);
}

TEST(NodeRequestsTest, PropagationComesFromVolumeContext) {
  const std::string at = std::string("volume_id: 'v' staging_target_path: '/s' target_path: '/t'") + kCapability;
  const auto with = [&](const std::string& word) {
    return at + " volume_context { key: 'propagation' value: '" + word + "' }";
  };
  EXPECT_EQ(Publish(at)->propagation, std::nullopt);
  EXPECT_EQ(Publish(with(""))->propagation, std::nullopt);
  EXPECT_EQ(Publish(with("bidirectional"))->propagation, Propagation::kShared);
  EXPECT_EQ(Publish(with("host-to-task"))->propagation, Propagation::kSlave);
  const auto unknown = FailsWith(StatusCode::kInvalidArgument, "volume_context: propagation 'x' is unknown");
  EXPECT_THAT(Publish(with("x")), unknown);
  EXPECT_THAT(Stage(std::string("volume_id: 'v' staging_target_path: '/s' volume_context { key: 'propagation' value: "
                                "'x' }") +
                    kCapability),
              unknown);
  EXPECT_THAT(Publish(with("rshared") + " readonly: true"),
              FailsWith(StatusCode::kInvalidArgument, "rshared needs write access, and readonly has none"));
  EXPECT_OK(Publish(with("rslave") + " readonly: true"));
}

TEST(NodeRequestsTest, MountFlagsAreParsedForFilesystemOfVolume) {
  const std::string request =
      "volume_id: 'v' staging_target_path: '/s' volume_capability { mount { mount_flags: "
      "'inode64' } access_mode { mode: SINGLE_NODE_WRITER } }";
  EXPECT_THAT(Stage(request + " volume_context { key: 'fsType' value: 'ext4' }"),
              FailsWith(StatusCode::kInvalidArgument, "not allowed for ext4"));
  EXPECT_OK(Stage(request + " volume_context { key: 'fsType' value: 'xfs' }"));
}

// Then they are checked when the volume is known: FlagsOfAnotherFilesystemAreTheCallersMistake.
TEST(NodeRequestsTest, MountFlagsOfAnyFilesystemAreTakenWithoutOne) {
  const auto request = [](const std::string& flag) {
    return "volume_id: 'v' staging_target_path: '/s' volume_capability { mount { mount_flags: '" + flag +
           "' } access_mode { mode: SINGLE_NODE_WRITER } }";
  };
  for (const char* flag : {"commit=5", "inode64", "compress=zstd"}) EXPECT_OK(Stage(request(flag))) << flag;
  EXPECT_OK(Stage(request("inode64") + " volume_context { key: 'fsType' value: 'ntfs' }"));
  for (const char* flag : {"nope", "inode64,compress"}) {
    EXPECT_THAT(Stage(request(flag)), FailsWith(StatusCode::kInvalidArgument, "not allowed")) << flag;
  }
}

TEST(NodeRequestsTest, WrongCapabilityIsInvalid) {
  const std::string request = "volume_id: 'v' staging_target_path: '/s' volume_capability ";
  EXPECT_THAT(Stage(request + "{ access_mode { mode: SINGLE_NODE_WRITER } }"),
              FailsWith(StatusCode::kInvalidArgument, "neither mount nor block"));
  EXPECT_THAT(Stage(request + "{ mount {} }"), FailsWith(StatusCode::kInvalidArgument, "access_mode"));
  EXPECT_THAT(Stage(request + "{ mount { fs_type: 'ntfs' } access_mode { mode: SINGLE_NODE_WRITER } }"),
              FailsWith(StatusCode::kInvalidArgument, "ext4, xfs"));
}

TEST(NodeRequestsTest, WrongCapacityRangeIsInvalid) {
  const std::string request = "volume_id: 'v' volume_path: '/t' ";
  const auto whole = Expand(request + "capacity_range { required_bytes: 5 limit_bytes: 9 }");
  ASSERT_OK(whole);
  EXPECT_EQ(whole->range.required, 5U);
  EXPECT_EQ(whole->range.limit, 9U);
  EXPECT_EQ(Expand(request)->range.required, 0U);
  for (const char* range : {"required_bytes: -1", "limit_bytes: -1", "required_bytes: 2 limit_bytes: 1",
                            "required_bytes: -9223372036854775808"}) {
    EXPECT_THAT(Expand(request + "capacity_range { " + range + " }"),
                FailsWith(StatusCode::kInvalidArgument, "capacity_range"))
        << range;
  }
}

}  // namespace
}  // namespace mooring::testing

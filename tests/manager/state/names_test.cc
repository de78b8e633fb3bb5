#include "manager/records/names.h"

#include "manager/volumes/volume_paths.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

constexpr AccessMode kModes[] = {AccessMode::kSingleNodeReaderOnly,   AccessMode::kSingleNodeWriter,
                                 AccessMode::kSingleNodeSingleWriter, AccessMode::kSingleNodeMultiWriter,
                                 AccessMode::kMultiNodeReaderOnly,    AccessMode::kMultiNodeSingleWriter,
                                 AccessMode::kMultiNodeMultiWriter};

TEST(NamesTest, ParsesEveryName) {
  for (const AccessMode mode : kModes) EXPECT_EQ(*ParseAccessMode(ToString(mode)), mode);
}

TEST(NamesTest, ErrorListsTheAllowedNames) {
  EXPECT_THAT(ParseAccessMode("rwo"), FailsWith(Code::kInvalidArgument, "'rwo' is not a valid access mode"));
  EXPECT_THAT(ParseAccessMode(""), FailsWith(Code::kInvalidArgument, "multi-node-multi-writer"));
}

TEST(NamesTest, ReadersAndSingleNodes) {
  for (const AccessMode mode : kModes) {
    EXPECT_EQ(IsReader(mode), ToString(mode).find("reader") != std::string_view::npos) << ToString(mode);
    EXPECT_EQ(IsSingleNode(mode), ToString(mode).find("single-node") == 0) << ToString(mode);
  }
}

TEST(NamesTest, NamesAVolumeWithItsNamespace) {
  EXPECT_EQ(ToString(VolumeKey{.ns = "default", .id = "db"}), "'db'");
  EXPECT_EQ(ToString(VolumeKey{.ns = "prod", .id = "db"}), "'db' in namespace 'prod'");
}

TEST(NamesTest, ParsesPropagation) {
  EXPECT_EQ(*ParsePropagationFor("", false), Propagation::kPrivate);
  for (const char* word : {"private", "rprivate", "None"}) {
    EXPECT_EQ(*ParsePropagationFor(word, false), Propagation::kPrivate) << word;
  }
  for (const char* word : {"host-to-task", "rslave", "HostToContainer"}) {
    EXPECT_EQ(*ParsePropagationFor(word, true), Propagation::kSlave) << word;
  }
  for (const char* word : {"bidirectional", "rshared", "Bidirectional"}) {
    EXPECT_EQ(*ParsePropagationFor(word, false), Propagation::kShared) << word;
    EXPECT_THAT(ParsePropagationFor(word, true), FailsWith(Code::kInvalidArgument, "needs write access"));
  }
  EXPECT_THAT(ParsePropagationFor("rslaev", false), FailsWith(Code::kInvalidArgument, "rslaev"));
  EXPECT_THAT(ParsePropagationFor("inherit", false), FailsWith(Code::kInvalidArgument, "is not allowed here"));
}

TEST(NamesTest, UsageNameHasAccessAttachmentAndMode) {
  EXPECT_EQ(UsageName(true, {AccessMode::kMultiNodeReaderOnly, AttachmentMode::kFileSystem}),
            "ro-file-system-multi-node-reader-only");
  EXPECT_EQ(UsageName(false, {AccessMode::kSingleNodeWriter, AttachmentMode::kBlockDevice}),
            "rw-block-device-single-node-writer");
}

TEST(NamesTest, OtherMountOptionsHaveAnotherUsage) {
  const VolumeKey key = {.ns = "prod", .id = "../db"};
  const auto path = [&](const MountOptions& options, AttachmentMode attachment = AttachmentMode::kFileSystem) {
    return StagingPath("/root", "p", key, "", attachment, options);
  };
  EXPECT_EQ(path({}), "/root/staging/p/prod/%2E.%2Fdb/file-system");
  EXPECT_EQ(path({}, AttachmentMode::kBlockDevice), "/root/staging/p/prod/%2E.%2Fdb/block-device");
  EXPECT_NE(path({}), path({"ext4", {}}));
  EXPECT_NE(path({"ext4", {}}), path({"ext4", {"noatime"}}));
  EXPECT_EQ(path({"ext4", {}}), path({"ext4", {}}));
  EXPECT_EQ(path({"", {"noatime", "nodev"}}), path({"", {"nodev", "noatime"}}));
}

TEST(NamesTest, ReadOnlyRequestsShareTheStaging) {
  EXPECT_EQ(StagedOptions({}, {"ext4", {"ro"}}), (MountOptions{"ext4", {}}));
  EXPECT_EQ(StagedOptions({"", {"noatime"}}, {"", {"ro", "noatime"}}), (MountOptions{"", {"noatime"}}));
  EXPECT_EQ(StagedOptions({"", {"noatime"}}, {"", {"ro"}}), (MountOptions{"", {"noatime"}})) << "as a writer's";
  EXPECT_EQ(StagedOptions({"", {"ro"}}, {"", {"ro"}}), (MountOptions{"", {"ro"}})) << "the volume's own stays";
}

TEST(NamesTest, RequestOverridesMountOptionsByField) {
  const MountOptions of_volume = {.fs_type = "ext4", .flags = {"noatime", "nodev"}};
  EXPECT_EQ(Override(of_volume, {}), of_volume);
  EXPECT_EQ(Override(of_volume, {.fs_type = "xfs", .flags = {}}), (MountOptions{"xfs", {"noatime", "nodev"}}));
  EXPECT_EQ(Override(of_volume, {.fs_type = "", .flags = {"sync"}}), (MountOptions{"ext4", {"sync"}}));
}

}  // namespace
}  // namespace mooring::manager

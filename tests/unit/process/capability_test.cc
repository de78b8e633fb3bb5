#include "plugin/model/capability.h"

#include <set>

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

using CsiMode = csi::v1::VolumeCapability::AccessMode;

csi::v1::VolumeCapability Mount(CsiMode::Mode mode = CsiMode::SINGLE_NODE_WRITER, const std::string& fs_type = "",
                                const std::vector<std::string>& flags = {}) {
  csi::v1::VolumeCapability capability;
  capability.mutable_access_mode()->set_mode(mode);
  capability.mutable_mount()->set_fs_type(fs_type);
  for (const std::string& flag : flags) capability.mutable_mount()->add_mount_flags(flag);
  return capability;
}

csi::v1::VolumeCapability Block(CsiMode::Mode mode = CsiMode::SINGLE_NODE_WRITER) {
  csi::v1::VolumeCapability capability;
  capability.mutable_access_mode()->set_mode(mode);
  capability.mutable_block();
  return capability;
}

struct ModeRow {
  CsiMode::Mode csi;
  AccessMode ours;
  bool reader_only;
  bool second_target;
  bool multi_node;
};

// CSI 1.12, and its table of the second NodePublishVolume.
constexpr ModeRow kModes[] = {
    {CsiMode::SINGLE_NODE_WRITER, AccessMode::kSingleNodeWriter, false, false, false},
    {CsiMode::SINGLE_NODE_READER_ONLY, AccessMode::kSingleNodeReaderOnly, true, false, false},
    {CsiMode::MULTI_NODE_READER_ONLY, AccessMode::kMultiNodeReaderOnly, true, true, true},
    {CsiMode::MULTI_NODE_SINGLE_WRITER, AccessMode::kMultiNodeSingleWriter, false, true, true},
    {CsiMode::MULTI_NODE_MULTI_WRITER, AccessMode::kMultiNodeMultiWriter, false, true, true},
    {CsiMode::SINGLE_NODE_SINGLE_WRITER, AccessMode::kSingleNodeSingleWriter, false, false, false},
    {CsiMode::SINGLE_NODE_MULTI_WRITER, AccessMode::kSingleNodeMultiWriter, false, true, false},
};

TEST(CapabilityTest, EveryAccessModeIsKnown) {
  for (const ModeRow& row : kModes) {
    for (const auto& csi : {Mount(row.csi), Block(row.csi)}) {
      const absl::StatusOr<Capability> parsed = ParseCapability(csi);
      ASSERT_OK(parsed);
      EXPECT_EQ(parsed->mode, row.ours);
      EXPECT_EQ(ToString(parsed->mode), CsiMode::Mode_Name(row.csi));
    }
    EXPECT_EQ(IsReaderOnly(row.ours), row.reader_only) << ToString(row.ours);
    EXPECT_EQ(AllowsSecondTarget(row.ours), row.second_target) << ToString(row.ours);
    EXPECT_EQ(IsMultiNode(row.ours), row.multi_node) << ToString(row.ours);
  }
}

TEST(CapabilityTest, MissingAndUnknownFieldsAreInvalid) {
  EXPECT_TRUE(absl::IsInvalidArgument(ParseCapability({}).status()));
  csi::v1::VolumeCapability no_type;
  no_type.mutable_access_mode()->set_mode(CsiMode::SINGLE_NODE_WRITER);
  EXPECT_TRUE(absl::IsInvalidArgument(ParseCapability(no_type).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseCapability(Mount(CsiMode::UNKNOWN)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseCapability(Mount(static_cast<CsiMode::Mode>(99))).status()));
  for (const char* fs_type : {"zfs", "EXT4", "ext4 ", "../ext4", "nfs"}) {
    const absl::Status status = ParseCapability(Mount(CsiMode::SINGLE_NODE_WRITER, fs_type)).status();
    ASSERT_TRUE(absl::IsInvalidArgument(status)) << fs_type;
    EXPECT_THAT(Message(status), AllOf(HasSubstr(fs_type), HasSubstr("ext4, xfs, btrfs")));
  }
}

TEST(CapabilityTest, HostileMountFlagsAreRefused) {
  for (const char* flag : {"bind", "rbind", "remount", "loop=/dev/loop0", "context=a b", "move", "noatime,bind",
                           "offset=4096", "", "rw\nro", "X-mount.subdir=x", "X-mount.owner=0"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseCapability(Mount(CsiMode::SINGLE_NODE_WRITER, "", {flag})).status()) ||
                std::string(flag).empty())
        << flag;
  }
}

TEST(CapabilityTest, ARefusedFlagDoesNotRepeatItsValue) {
  const absl::Status status = ParseCapability(Mount(CsiMode::SINGLE_NODE_WRITER, "", {"password=hunter2"})).status();
  ASSERT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(Message(status), Not(HasSubstr("hunter2")));
}

TEST(CapabilityTest, FlagsAreReadForTheFilesystemOfTheVolumeWhereTheCapabilityNamesNone) {
  const auto xfs_only = Mount(CsiMode::SINGLE_NODE_WRITER, "", {"inode64"});
  EXPECT_OK(ParseCapability(xfs_only, "xfs"));
  EXPECT_FALSE(ParseCapability(xfs_only, "ext4").ok());
  EXPECT_FALSE(ParseCapability(Mount(CsiMode::SINGLE_NODE_WRITER, "ext4", {"inode64"}), "xfs").ok());
}

TEST(CapabilityTest, TheMountGroupIsAGroupId) {
  auto csi = Mount();
  csi.mutable_mount()->set_volume_mount_group("2000");
  ASSERT_OK(ParseCapability(csi));
  EXPECT_EQ(ParseCapability(csi)->mount_group, gid_t{2000});
  for (const char* group : {"-1", "4294967295", "4294967296", "wheel", "1 ", "0x10", "1.5"}) {
    csi.mutable_mount()->set_volume_mount_group(group);
    EXPECT_TRUE(absl::IsInvalidArgument(ParseCapability(csi).status())) << group;
  }
}

TEST(CapabilityTest, ARepeatedCallThatNamesNoGroupAcceptsAny) {
  auto csi = Mount(CsiMode::SINGLE_NODE_WRITER, "ext4", {"noatime"});
  const std::string without = ToString(*ParseCapability(csi));
  csi.mutable_mount()->set_volume_mount_group("5");
  const std::string five = ToString(*ParseCapability(csi));
  csi.mutable_mount()->set_volume_mount_group("6");
  const std::string six = ToString(*ParseCapability(csi));
  EXPECT_TRUE(IsAskedAgain(five, five));
  EXPECT_TRUE(IsAskedAgain(five, without));
  EXPECT_TRUE(IsAskedAgain("readonly " + five, "readonly " + without));
  EXPECT_FALSE(IsAskedAgain(five, six));
  EXPECT_FALSE(IsAskedAgain(without, five));
  EXPECT_FALSE(IsAskedAgain("readonly " + five, without));
  EXPECT_FALSE(IsAskedAgain(five, ToString(*ParseCapability(Mount(CsiMode::SINGLE_NODE_WRITER, "ext4")))));
}

TEST(CapabilityTest, TheTextIsEqualExactlyWhereTheCapabilityIs) {
  std::vector<csi::v1::VolumeCapability> all = {Block(),
                                                Mount(CsiMode::SINGLE_NODE_WRITER, "ext4"),
                                                Mount(CsiMode::SINGLE_NODE_WRITER, "xfs"),
                                                Mount(CsiMode::SINGLE_NODE_WRITER, "", {"noatime"}),
                                                Mount(CsiMode::SINGLE_NODE_WRITER, "", {"noatime", "discard"}),
                                                Mount(CsiMode::SINGLE_NODE_WRITER, "", {"noatime,dev"}),
                                                Mount(CsiMode::SINGLE_NODE_WRITER, "", {"dev", "nodev"})};
  for (const ModeRow& row : kModes) all.push_back(Mount(row.csi));
  all.push_back(Mount());
  all.back().mutable_mount()->set_volume_mount_group("5");
  std::set<std::string> texts;
  std::set<Capability> values;
  for (const auto& csi : all) {
    const Capability parsed = *ParseCapability(csi);
    texts.insert(ToString(parsed));
    values.insert(parsed);
  }
  EXPECT_EQ(texts.size(), all.size());
  EXPECT_EQ(values.size(), all.size());
  const auto one = Mount(CsiMode::SINGLE_NODE_WRITER, "", {"noatime", "discard"});
  const auto other = Mount(CsiMode::SINGLE_NODE_WRITER, "", {"discard,noatime"});
  EXPECT_EQ(ToString(*ParseCapability(one)), ToString(*ParseCapability(other)));
}

TEST(CapabilityTest, ANewMountIsNodevUnlessDevIsNamedLast) {
  const auto is_nodev = [](const std::vector<std::string>& flags) {
    const Capability parsed = *ParseCapability(Mount(CsiMode::SINGLE_NODE_WRITER, "", flags));
    return FlagsOfNewMount(parsed.options.flags, parsed).nodev;
  };
  EXPECT_TRUE(is_nodev({}));
  EXPECT_TRUE(is_nodev({"suid", "exec"}));
  EXPECT_TRUE(is_nodev({"dev", "nodev"}));
  EXPECT_FALSE(is_nodev({"dev"}));
  EXPECT_FALSE(is_nodev({"noatime,dev,nosuid"}));
  EXPECT_FALSE(is_nodev({"nodev", "dev"}));
}

TEST(CapabilityTest, ItsTextHasTheRequestedAccessTimes) {
  Capability capability;
  for (const Atime atime : {Atime::kRelatime, Atime::kNoatime, Atime::kStrictatime}) {
    capability.options.flags.atime = atime;
    capability.options.flags.nodiratime = true;
    EXPECT_EQ(AtimeIn(ToString(capability)), atime) << ToString(capability);
    EXPECT_EQ(AtimeIn("readonly " + ToString(capability)), atime);
  }
  capability.access_type = AccessType::kBlock;
  EXPECT_EQ(AtimeIn(ToString(capability)), Atime::kRelatime);
  EXPECT_EQ(AtimeIn(""), Atime::kRelatime);
}

}  // namespace
}  // namespace mooring::testing

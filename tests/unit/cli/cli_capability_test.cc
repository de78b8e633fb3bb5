#include <gtest/gtest.h>

#include <sstream>

#include "base/status.h"
#include "cli/csi/capability.h"
#include "cli/output/redact.h"

namespace mooring::cli::csi_area {
namespace {

using csi::v1::VolumeCapability;

TEST(AccessModeTest, NamesRoundTrip) {
  const google::protobuf::EnumDescriptor& modes = *VolumeCapability::AccessMode::Mode_descriptor();
  ASSERT_EQ(modes.value_count(), 8);
  for (int number = 1; number < modes.value_count(); ++number) {
    const auto mode = static_cast<AccessMode>(number);
    EXPECT_EQ(*ParseAccessMode(AccessModeName(mode)), mode);
    EXPECT_EQ(*ParseAccessMode(modes.FindValueByNumber(number)->name()), mode);
  }
  EXPECT_EQ(AccessModeName(VolumeCapability::AccessMode::SINGLE_NODE_MULTI_WRITER), "single-node-multi-writer");
}

TEST(AccessModeTest, UnknownNameListsTheChoices) {
  for (const char* name : {"", "unknown", "UNKNOWN", "single-node", "rwo", "single node writer"}) {
    const auto mode = ParseAccessMode(name);
    ASSERT_FALSE(mode.ok()) << name;
    EXPECT_NE(Message(mode.status()).find("single-node-writer, single-node-reader-only, multi-node"), std::string::npos)
        << mode.status();
    EXPECT_EQ(Message(mode.status()).find("unknown,"), std::string::npos) << mode.status();
  }
}

TEST(AccessModeTest, UnknownModeHasANumber) { EXPECT_EQ(AccessModeName(static_cast<AccessMode>(17)), "mode-17"); }

TEST(CapabilityTest, DefaultsToAFilesystemForOneWriter) {
  const VolumeCapability capability = *CapabilityOf(Arguments());
  EXPECT_TRUE(capability.has_mount());
  EXPECT_EQ(capability.access_mode().mode(), VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
  EXPECT_FALSE(NamesCapability(Arguments()));
}

TEST(CapabilityTest, RefusesABlockDeviceWithAFilesystem) {
  Arguments arguments;
  arguments.block = true;
  EXPECT_TRUE(CapabilityOf(arguments)->has_block());
  arguments.fs_type = "xfs";
  EXPECT_TRUE(absl::IsInvalidArgument(CapabilityOf(arguments).status()));
}

TEST(CapabilityTest, OneOrSeveralModes) {
  Arguments arguments;
  arguments.access = {"single-node-writer", "multi-node-reader-only"};
  EXPECT_TRUE(absl::IsInvalidArgument(CapabilityOf(arguments).status()));
  const Capabilities capabilities = *CapabilitiesOf(arguments);
  ASSERT_EQ(capabilities.size(), 2);
  EXPECT_EQ(capabilities[1].access_mode().mode(), VolumeCapability::AccessMode::MULTI_NODE_READER_ONLY);
}

TEST(CapabilityTest, IsOneLineOfText) {
  Arguments arguments;
  arguments.fs_type = "ext4";
  EXPECT_EQ(ToString(*CapabilityOf(arguments)), "mount ext4 single-node-writer");
  arguments.fs_type.clear();
  EXPECT_EQ(ToString(*CapabilityOf(arguments)), "mount single-node-writer");
  arguments.block = true;
  EXPECT_EQ(ToString(*CapabilityOf(arguments)), "block single-node-writer");
}

TEST(RedactTest, RedactsSecretsAndMountFlags) {
  csi::v1::CreateVolumeRequest request;
  request.set_name("v");
  (*request.mutable_secrets())["password"] = "hunter22";
  (*request.mutable_parameters())["password"] = "shown";
  auto& mount = *request.add_volume_capabilities()->mutable_mount();
  mount.add_mount_flags("noatime");
  mount.add_mount_flags("key=hunter22");

  const auto redacted = Redacted(request, ClassifyCsi);
  const auto& shown = dynamic_cast<const csi::v1::CreateVolumeRequest&>(*redacted);
  EXPECT_EQ(shown.secrets().at("password"), "***");
  EXPECT_EQ(shown.parameters().at("password"), "shown");
  EXPECT_EQ(shown.volume_capabilities(0).mount().mount_flags(0), "noatime");
  EXPECT_EQ(shown.volume_capabilities(0).mount().mount_flags(1), "key=***");
  EXPECT_EQ(redacted->ShortDebugString().find("hunter22"), std::string::npos);
  EXPECT_EQ(request.secrets().at("password"), "hunter22") << "the request itself must stay";
}

}  // namespace
}  // namespace mooring::cli::csi_area

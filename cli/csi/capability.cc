#include "cli/csi/capability.h"

#include <fmt/format.h>

#include "base/status.h"
#include "cli/flags/enum_words.h"

namespace mooring::cli::csi_area {
namespace {

using csi::v1::VolumeCapability;

constexpr std::string_view kDefaultAccess = "single-node-writer";

absl::Status CheckBlock(const Arguments& arguments) {
  if (!arguments.block) return absl::OkStatus();
  const bool of_filesystem =
      !arguments.fs_type.empty() || !arguments.mount_flags.empty() || !arguments.mount_group.empty();
  if (!of_filesystem) return absl::OkStatus();
  return InvalidArgument("--block is a raw device: leave out --fs-type, --mount-flag and --mount-group");
}

VolumeCapability Make(const Arguments& arguments, AccessMode mode) {
  VolumeCapability capability;
  capability.mutable_access_mode()->set_mode(mode);
  if (arguments.block) {
    capability.mutable_block();
    return capability;
  }
  VolumeCapability::MountVolume& mount = *capability.mutable_mount();
  mount.set_fs_type(arguments.fs_type);
  mount.mutable_mount_flags()->Assign(arguments.mount_flags.begin(), arguments.mount_flags.end());
  mount.set_volume_mount_group(arguments.mount_group);
  return capability;
}

}  // namespace

absl::StatusOr<AccessMode> ParseAccessMode(std::string_view name) {
  MOORING_ASSIGN_OR_RETURN(const int mode,
                           ParseEnumWord(*VolumeCapability::AccessMode::Mode_descriptor(), name, "access mode"));
  return static_cast<AccessMode>(mode);
}

std::string AccessModeName(AccessMode mode) {
  return EnumWord(*VolumeCapability::AccessMode::Mode_descriptor(), mode, "mode");
}

absl::StatusOr<Capabilities> CapabilitiesOf(const Arguments& arguments) {
  MOORING_RETURN_IF_ERROR(CheckBlock(arguments));
  Capabilities capabilities;
  for (const std::string& name : arguments.access) {
    MOORING_ASSIGN_OR_RETURN(const AccessMode mode, ParseAccessMode(name));
    *capabilities.Add() = Make(arguments, mode);
  }
  if (capabilities.empty()) *capabilities.Add() = Make(arguments, *ParseAccessMode(kDefaultAccess));
  return capabilities;
}

absl::StatusOr<VolumeCapability> CapabilityOf(const Arguments& arguments) {
  MOORING_ASSIGN_OR_RETURN(const Capabilities capabilities, CapabilitiesOf(arguments));
  if (capabilities.size() == 1) return capabilities[0];
  return InvalidArgument("--access is given more than once: this command takes one mode");
}

bool NamesCapability(const Arguments& arguments) {
  return !arguments.access.empty() || arguments.block || !arguments.fs_type.empty() || !arguments.mount_flags.empty() ||
         !arguments.mount_group.empty();
}

std::string ToString(const VolumeCapability& capability) {
  const std::string mode = AccessModeName(capability.access_mode().mode());
  switch (capability.access_type_case()) {
    case VolumeCapability::kBlock:
      return "block " + mode;
    case VolumeCapability::kMount: {
      const std::string& fs_type = capability.mount().fs_type();
      return fmt::format("mount {}{}{}", fs_type, fs_type.empty() ? "" : " ", mode);
    }
    case VolumeCapability::ACCESS_TYPE_NOT_SET:
      return mode;
  }
  return mode;
}

}  // namespace mooring::cli::csi_area

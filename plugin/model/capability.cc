#include "plugin/model/capability.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"
#include "plugin/model/fs_types.h"

namespace mooring {
namespace {

using CsiMode = csi::v1::VolumeCapability::AccessMode;

constexpr char kFlags[] = " flags=";  // starts the last part of a capability's text
constexpr char kGroup[] = " group=";

struct AccessModeRow {
  AccessMode mode;
  CsiMode::Mode csi;
  bool multi_node, reader_only;
};

constexpr AccessModeRow kAccessModes[] = {
    {AccessMode::kSingleNodeWriter, CsiMode::SINGLE_NODE_WRITER, false, false},
    {AccessMode::kSingleNodeReaderOnly, CsiMode::SINGLE_NODE_READER_ONLY, false, true},
    {AccessMode::kMultiNodeReaderOnly, CsiMode::MULTI_NODE_READER_ONLY, true, true},
    {AccessMode::kMultiNodeSingleWriter, CsiMode::MULTI_NODE_SINGLE_WRITER, true, false},
    {AccessMode::kMultiNodeMultiWriter, CsiMode::MULTI_NODE_MULTI_WRITER, true, false},
    {AccessMode::kSingleNodeSingleWriter, CsiMode::SINGLE_NODE_SINGLE_WRITER, false, false},
    {AccessMode::kSingleNodeMultiWriter, CsiMode::SINGLE_NODE_MULTI_WRITER, false, false},
};

static_assert(std::size(kAccessModes) == static_cast<std::size_t>(AccessMode::kSingleNodeMultiWriter) + 1);

// A number that is no mode, which only a damaged record has, gets the strictest row.
const AccessModeRow& RowOf(AccessMode mode) {
  const auto* const row = std::find_if(std::begin(kAccessModes), std::end(kAccessModes),
                                       [mode](const AccessModeRow& known) { return known.mode == mode; });
  return row == std::end(kAccessModes) ? kAccessModes[0] : *row;
}

absl::StatusOr<AccessMode> ParseMode(const csi::v1::VolumeCapability& capability) {
  for (const AccessModeRow& row : kAccessModes) {
    if (row.csi == capability.access_mode().mode()) return row.mode;
  }
  return InvalidArgument("volume capability: access_mode is missing or unknown");
}

absl::StatusOr<std::optional<gid_t>> ParseGroup(const std::string& text) {
  if (text.empty()) return std::optional<gid_t>();
  const std::optional<gid_t> group = ParseWhole<gid_t>(text);
  if (group && *group != static_cast<gid_t>(-1)) return group;
  return InvalidArgument("volume_mount_group {} is not a numeric group id", Quote(text));
}

// An element is a single flag, or several with commas between them.
bool NamesDev(const std::vector<std::string>& flags) {
  return std::any_of(flags.begin(), flags.end(), [](const std::string& element) {
    return ("," + element + ",").find(",dev,") != std::string::npos;
  });
}

// Without a filesystem the flags may be those of any: CheckSuits asks again when the volume is known.
absl::StatusOr<MountOptions> ParseFlags(std::string_view fs_type, const std::vector<std::string>& flags) {
  if (!fs_type.empty()) return ParseMountFlags(fs_type, flags);
  absl::StatusOr<MountOptions> parsed = ParseMountFlags("ext4", flags);
  for (const std::string_view other : {"xfs", "btrfs"}) {
    if (parsed.ok()) break;
    if (absl::StatusOr<MountOptions> options = ParseMountFlags(other, flags); options.ok()) return options;
  }
  return parsed;
}

absl::Status ParseMount(const csi::v1::VolumeCapability::MountVolume& mount, std::string_view volume_fs_type,
                        Capability& parsed) {
  if (!mount.fs_type().empty() && !IsSupportedFsType(mount.fs_type())) {
    return InvalidArgument("fs_type {} is not one of {}", Quote(mount.fs_type()), SupportedFsTypes());
  }
  parsed.fs_type = mount.fs_type();
  const std::string_view fs_type = parsed.fs_type.empty() ? volume_fs_type : std::string_view(parsed.fs_type);
  const std::vector<std::string> flags(mount.mount_flags().begin(), mount.mount_flags().end());
  MOORING_ASSIGN_OR_RETURN(parsed.options, ParseFlags(fs_type, flags));
  parsed.names_dev = NamesDev(flags) && !parsed.options.flags.nodev;
  MOORING_ASSIGN_OR_RETURN(parsed.mount_group, ParseGroup(mount.volume_mount_group()));
  return absl::OkStatus();
}

}  // namespace

MountFlags FlagsOfNewMount(MountFlags asked, const Capability& capability) {
  asked.nodev = asked.nodev || !capability.names_dev;
  return asked;
}

absl::StatusOr<Capability> ParseCapability(const csi::v1::VolumeCapability& capability,
                                           std::string_view volume_fs_type) {
  Capability parsed;
  MOORING_ASSIGN_OR_RETURN(parsed.mode, ParseMode(capability));
  switch (capability.access_type_case()) {
    case csi::v1::VolumeCapability::kBlock:
      parsed.access_type = AccessType::kBlock;
      return parsed;
    case csi::v1::VolumeCapability::kMount:
      MOORING_RETURN_IF_ERROR(ParseMount(capability.mount(), volume_fs_type, parsed));
      return parsed;
    case csi::v1::VolumeCapability::ACCESS_TYPE_NOT_SET:
      break;
  }
  return InvalidArgument("volume capability: neither mount nor block is set");
}

std::string ToString(AccessType type) { return type == AccessType::kMount ? "mount" : "block"; }

std::string ToString(AccessMode mode) { return CsiMode::Mode_Name(RowOf(mode).csi); }

std::string ToString(const Capability& capability) {
  std::string text = ToString(capability.access_type) + " " + ToString(capability.mode);
  if (capability.access_type == AccessType::kBlock) return text;
  text += " fs=" + (capability.fs_type.empty() ? "any" : capability.fs_type);
  if (capability.mount_group) text += fmt::format("{}{}", kGroup, *capability.mount_group);
  return text + fmt::format("{}{}{} options={}", kFlags, ToString(capability.options.flags),
                            capability.names_dev ? ",dev" : "", ToString(capability.options.options));
}

std::string WithoutMountFlags(const std::string& capability) {
  const std::size_t flags = capability.find(kFlags);
  return flags == std::string::npos ? capability : capability.substr(0, flags) + ", mount flags not shown";
}

bool IsAskedAgain(const std::string& known, const std::string& asked) {
  if (known == asked) return true;
  const std::size_t group = known.find(kGroup), flags = known.find(kFlags);
  if (group == std::string::npos || flags == std::string::npos || group > flags) return false;
  return known.substr(0, group) + known.substr(flags) == asked;
}

Atime AtimeIn(const std::string& capability) {
  const std::size_t flags = capability.find(kFlags);
  if (flags == std::string::npos) return Atime::kRelatime;
  const std::string words = capability.substr(flags + sizeof(kFlags) - 1);
  return FlagsOfMountInfo(std::string_view(words).substr(0, words.find(' '))).atime;
}

bool IsReadOnly(const Capability& capability, bool read_only) {
  return read_only || capability.options.flags.read_only || IsReaderOnly(capability.mode);
}

bool IsReaderOnly(AccessMode mode) { return RowOf(mode).reader_only; }

bool AllowsSecondTarget(AccessMode mode) { return mode == AccessMode::kSingleNodeMultiWriter || IsMultiNode(mode); }

bool IsMultiNode(AccessMode mode) { return RowOf(mode).multi_node; }

}  // namespace mooring

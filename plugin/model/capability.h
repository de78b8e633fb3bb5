// Volume capabilities and access modes as plain values, and the tables that say which go together (CSI 1.12,
// "VolumeCapability" and "NodePublishVolume").
#pragma once

#include <sys/types.h>

#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "csi.pb.h"
#include "mounter/mount_options.h"

namespace mooring {

enum class AccessType { kMount, kBlock };

enum class AccessMode {
  kSingleNodeWriter,
  kSingleNodeReaderOnly,
  kMultiNodeReaderOnly,
  kMultiNodeSingleWriter,
  kMultiNodeMultiWriter,
  kSingleNodeSingleWriter,
  kSingleNodeMultiWriter,
};

inline constexpr std::string_view kDefaultFsType = "ext4";

// The key of a publish_context; its value is "true" if ControllerPublishVolume was called with readonly.
inline constexpr std::string_view kReadOnlyContext = "readonly";

struct Capability {
  AccessType access_type = AccessType::kMount;
  AccessMode mode = AccessMode::kSingleNodeWriter;
  std::string fs_type;               // of fs_types.h; empty: the volume's own
  MountOptions options;              // of mount_flags
  bool names_dev = false;            // the mount flag dev: without it a new mount is nodev
  std::optional<gid_t> mount_group;  // volume_mount_group

  auto operator<=>(const Capability&) const = default;
};

// The flags of a new mount: `asked`, and nodev unless the capability names dev. A tenant can create device nodes on its
// volume, so these must not work.
MountFlags FlagsOfNewMount(MountFlags asked, const Capability& capability);

// INVALID_ARGUMENT: the access type is missing, or the mode, filesystem, a mount flag or the group is wrong.
// `volume_fs_type` decides about the flags if the capability names no filesystem.
absl::StatusOr<Capability> ParseCapability(const csi::v1::VolumeCapability& capability,
                                           std::string_view volume_fs_type = kDefaultFsType);

std::string ToString(AccessType type);  // "mount", "block"
std::string ToString(AccessMode mode);  // "SINGLE_NODE_WRITER"

// A line with all fields: equal texts mean equal capabilities.
std::string ToString(const Capability& capability);

// The same text without mount flags, which may be sensitive: for messages, which reach logs.
std::string WithoutMountFlags(const std::string& capability);

// Whether a repeated call with the capability `asked` agrees with the recorded `known`. A call without a group agrees
// with any group: kubelet names none when VOLUME_MOUNT_GROUP is no longer offered, also for running pods.
bool IsAskedAgain(const std::string& known, const std::string& asked);

Atime AtimeIn(const std::string& capability);  // of its mount flags; kRelatime: there is none

// Whether a mount with the capability is read-only. `read_only`: the request says so apart from the capability.
bool IsReadOnly(const Capability& capability, bool read_only);
bool IsReaderOnly(AccessMode mode);  // targets in this mode are read-only

// Whether a volume may be published on one node at a second target in this mode.
bool AllowsSecondTarget(AccessMode mode);

// Whether several nodes may publish the volume. A local volume has one node, so here several tasks may.
bool IsMultiNode(AccessMode mode);

}  // namespace mooring

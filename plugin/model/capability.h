// Volume capabilities and access modes as plain values, and the tables that say which go together (CSI 1.12,
// "VolumeCapability" and "NodePublishVolume").
#ifndef MOORING_PLUGIN_MODEL_CAPABILITY_H_
#define MOORING_PLUGIN_MODEL_CAPABILITY_H_

#include <sys/types.h>

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// The key of a publish_context that says "true" where ControllerPublishVolume was asked for read-only.
inline constexpr std::string_view kReadOnlyContext = "readonly";

struct Capability {
  AccessType access_type = AccessType::kMount;
  AccessMode mode = AccessMode::kSingleNodeWriter;
  std::string fs_type;               // "ext4", "xfs" or "btrfs"; empty: the volume's own
  MountOptions options;              // of mount_flags
  bool names_dev = false;            // the mount flag dev: without it a new mount is nodev
  std::optional<gid_t> mount_group;  // volume_mount_group

  auto operator<=>(const Capability&) const = default;
};

// Of a new mount: `asked`, and nodev unless the capability names dev. A tenant can create device nodes on its volume,
// so they must not work.
MountFlags FlagsOfNewMount(MountFlags asked, const Capability& capability);

bool IsSupportedFsType(std::string_view fs_type);
std::string SupportedFsTypes();  // "ext4, xfs, btrfs"

// INVALID_ARGUMENT: no access type, no or an unknown mode, an unknown filesystem, mount flags that are not allowed, a
// group that is no number. `volume_fs_type` decides which flags are allowed where the capability names no filesystem.
absl::StatusOr<Capability> ParseCapability(const csi::v1::VolumeCapability& capability,
                                           std::string_view volume_fs_type = kDefaultFsType);

std::string ToString(AccessType type);  // "mount", "block"
std::string ToString(AccessMode mode);  // "SINGLE_NODE_WRITER"
std::string ToString(
    const Capability& capability);  // one line that names all of it; equal exactly where they are equal

// The same text for messages, which reach logs: mount flags may be sensitive.
std::string WithoutMountFlags(const std::string& capability);

// Whether a repeated call, whose capability is the text `asked`, asks for what `known` has. A call that names no group
// accepts any: kubelet names none as soon as VOLUME_MOUNT_GROUP is no longer offered, also for pods that run.
bool IsAskedAgain(const std::string& known, const std::string& asked);

Atime AtimeIn(const std::string& capability);  // of its mount flags; kRelatime where none is there

bool IsReaderOnly(AccessMode mode);  // nothing published in this mode may write

// Whether a volume may be published on one node at a second target in this mode.
bool AllowsSecondTarget(AccessMode mode);

// Whether the mode lets several nodes publish the volume. A local volume has one node, so here it is several tasks.
bool IsMultiNode(AccessMode mode);

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_CAPABILITY_H_

// Parses the requests of the controller into structs, without side effects. It checks all that needs no lookup. Errors
// are INVALID_ARGUMENT with the name of the field. A malformed id passes, because it is an unknown id.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "csi.pb.h"
#include "mounter/mounter.h"
#include "plugin/backends/pools.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/model/volume_specs.h"

namespace mooring {

// The key of the filesystem of a volume in `parameters` and in `volume_context`.
inline constexpr std::string_view kFsTypeKey = "fsType";

// The key of the propagation of a volume's targets in the same two maps. The `volume_context` of a NodePublishVolume
// may have another value, for that target.
inline constexpr std::string_view kPropagationKey = "propagation";

// The key of the pool in the same two maps, if it is not the default pool.
inline constexpr std::string_view kPoolKey = "pool";
inline constexpr std::string_view kDeviceKey = "device";
inline constexpr std::string_view kIdMapKey = "idmap";
inline constexpr std::string_view kEncryptedKey = "encrypted";

// The propagation in a map of parameters or a context. Empty if the map has none. INVALID_ARGUMENT, with `where` in
// front: an unknown value.
absl::StatusOr<std::optional<Propagation>> FindPropagation(const google::protobuf::Map<std::string, std::string>& map,
                                                           std::string_view where);

// The passphrase in the secrets of a request (plugin/model/secrets.h). Empty: there is none. INVALID_ARGUMENT: it is
// empty or too long.
absl::StatusOr<std::string> FindPassphrase(const google::protobuf::Map<std::string, std::string>& secrets);

// INVALID_ARGUMENT: the target is read-only, and tasks need write access to make the mounts that rshared shares.
absl::Status CheckMayShare(std::optional<Propagation> propagation, const Capability& capability,
                           bool read_only = false);

// The source of a copy, unchecked: the caller looks it up.
ContentSource ContentSourceOf(const csi::v1::CreateVolumeRequest& request);

// Facts about the source that the request depends on. Empty without a source, or if it is not found.
struct SourceFacts {
  std::string fs_type = {};  // for the mount flags of capabilities, if the request names no filesystem
  std::string pool = {};     // of the new volume, if the request names none
};

// INVALID_ARGUMENT: the pool cannot make such a volume.
absl::StatusOr<CreateVolumeSpec> ParseCreateVolume(const csi::v1::CreateVolumeRequest& request,
                                                   const Pools& pools = DefaultPoolOnly(),
                                                   const SourceFacts& source = {});

absl::StatusOr<SizeRange> ParseRange(const csi::v1::CapacityRange& range);

// `fs_type` is the filesystem of the volume. It decides which mount flags are valid if the capability names no
// filesystem.
absl::StatusOr<ControllerPublishSpec> ParseControllerPublish(const csi::v1::ControllerPublishVolumeRequest& request,
                                                             std::string_view fs_type);
absl::StatusOr<ControllerUnpublishSpec> ParseControllerUnpublish(
    const csi::v1::ControllerUnpublishVolumeRequest& request);
absl::StatusOr<ControllerExpandSpec> ParseControllerExpand(const csi::v1::ControllerExpandVolumeRequest& request);

// INVALID_ARGUMENT: also if there is nothing to change.
absl::StatusOr<ModifySpec> ParseModify(const csi::v1::ControllerModifyVolumeRequest& request);

// The id of the volume. CheckConfirmed checks the capabilities.
absl::StatusOr<std::string> ParseValidate(const csi::v1::ValidateVolumeCapabilitiesRequest& request);

// INVALID_ARGUMENT: the volume does not have all capabilities of the request.
absl::Status CheckConfirmed(const VolumeInfo& volume, const csi::v1::ValidateVolumeCapabilitiesRequest& request,
                            const Pools& pools = DefaultPoolOnly());

// ABORTED: the starting_token is unknown (CSI 1.12, ListVolumes Errors).
absl::StatusOr<PageSpec> ParseListVolumes(const csi::v1::ListVolumesRequest& request);

// Never an error: for impossible volumes the capacity is 0.
CapacitySpec ParseGetCapacity(const csi::v1::GetCapacityRequest& request, const Pools& pools = DefaultPoolOnly());

}  // namespace mooring

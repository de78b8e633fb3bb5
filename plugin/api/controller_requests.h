// The controller's requests as plain specs. Pure: everything that can be said without looking anything up is checked
// here, and is INVALID_ARGUMENT with the field's name. An id that is there but malformed passes: it is an unknown one.
#ifndef MOORING_PLUGIN_API_CONTROLLER_REQUESTS_H_
#define MOORING_PLUGIN_API_CONTROLLER_REQUESTS_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "csi.pb.h"
#include "mounter/mounter.h"
#include "plugin/backends/pools.h"
#include "plugin/model/volume_specs.h"

namespace mooring {

// The key of a volume's filesystem in `parameters` and in `volume_context`.
inline constexpr std::string_view kFsTypeKey = "fsType";

// The key of the propagation of a volume's targets, there and there. In the `volume_context` of a NodePublishVolume it
// may be another one, for that target.
inline constexpr std::string_view kPropagationKey = "propagation";

// The key of the pool, there and there (where it is not the default one).
inline constexpr std::string_view kPoolKey = "pool";
inline constexpr std::string_view kDeviceKey = "device";

// The propagation that a map of parameters or a context names; none where it names none, or an empty one.
// INVALID_ARGUMENT, beginning with `where`: an unknown word.
absl::StatusOr<std::optional<Propagation>> FindPropagation(const google::protobuf::Map<std::string, std::string>& map,
                                                           std::string_view where);

// Mounts below a volume that are to be seen elsewhere have to be made, so sharing them both ways needs write access.
// INVALID_ARGUMENT.
absl::Status CheckMayShare(std::optional<Propagation> propagation, const Capability& capability,
                           bool read_only = false);

// What a volume is to be a copy of, before anything is checked: for that to be looked up.
ContentSource ContentSourceOf(const csi::v1::CreateVolumeRequest& request);

// Of that, what the request's meaning depends on; empty where there is no source, or none is found.
struct SourceFacts {
  std::string fs_type = {};  // decides about the mount flags of capabilities where the request names no filesystem
  std::string pool = {};     // the volume's, where the request names none
};

// What the pool that is asked for cannot is INVALID_ARGUMENT, with the reason.
absl::StatusOr<CreateVolumeSpec> ParseCreateVolume(const csi::v1::CreateVolumeRequest& request,
                                                   const Pools& pools = DefaultPoolOnly(),
                                                   const SourceFacts& source = {});

// The volume's id, for the requests that carry no more than that.
absl::StatusOr<std::string> ParseVolumeId(const std::string& volume_id);

// `fs_type` is the volume's, which decides about the mount flags of a capability that names none.
absl::StatusOr<ControllerPublishSpec> ParseControllerPublish(const csi::v1::ControllerPublishVolumeRequest& request,
                                                             std::string_view fs_type);
absl::StatusOr<ControllerUnpublishSpec> ParseControllerUnpublish(
    const csi::v1::ControllerUnpublishVolumeRequest& request);
absl::StatusOr<ControllerExpandSpec> ParseControllerExpand(const csi::v1::ControllerExpandVolumeRequest& request);

// Nothing to change is INVALID_ARGUMENT, too.
absl::StatusOr<ModifySpec> ParseModify(const csi::v1::ControllerModifyVolumeRequest& request);

// The volume's id; the capabilities are looked at by WhyNotConfirmed, which knows the volume.
absl::StatusOr<std::string> ParseValidate(const csi::v1::ValidateVolumeCapabilitiesRequest& request);

// Empty where the volume suits all that is asked, else a sentence.
std::string WhyNotConfirmed(const VolumeInfo& volume, const csi::v1::ValidateVolumeCapabilitiesRequest& request,
                            const Pools& pools = DefaultPoolOnly());

// ABORTED: a starting_token that was never given out (CSI).
absl::StatusOr<ListVolumesSpec> ParseListVolumes(const csi::v1::ListVolumesRequest& request);

// Never an error: of volumes that cannot be there is nothing available.
CapacitySpec ParseGetCapacity(const csi::v1::GetCapacityRequest& request, const Pools& pools = DefaultPoolOnly());

}  // namespace mooring

#endif  // MOORING_PLUGIN_API_CONTROLLER_REQUESTS_H_

// The controller's requests as plain specs. Pure: everything that can be said without looking anything up is checked
// here, and is INVALID_ARGUMENT with the field's name. An id that is there but malformed passes: it is an unknown one.
#ifndef MOORING_PLUGIN_CONTROLLER_REQUESTS_H_
#define MOORING_PLUGIN_CONTROLLER_REQUESTS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "csi.pb.h"
#include "plugin/volume_specs.h"

namespace mooring {

// The key of a volume's filesystem in `parameters` and in `volume_context`.
inline constexpr std::string_view kFsTypeKey = "fsType";

absl::StatusOr<CreateVolumeSpec> ParseCreateVolume(const csi::v1::CreateVolumeRequest& request);

// The volume's id, for the requests that carry no more than that.
absl::StatusOr<std::string> ParseVolumeId(const std::string& volume_id);

// `fs_type` is the volume's, which decides about the mount flags of a capability that names none.
absl::StatusOr<ControllerPublishSpec> ParseControllerPublish(const csi::v1::ControllerPublishVolumeRequest& request,
                                                             std::string_view fs_type);
absl::StatusOr<ControllerUnpublishSpec> ParseControllerUnpublish(
    const csi::v1::ControllerUnpublishVolumeRequest& request);
absl::StatusOr<ControllerExpandSpec> ParseControllerExpand(const csi::v1::ControllerExpandVolumeRequest& request);

// The volume's id; the capabilities are looked at by WhyNotConfirmed, which knows the volume.
absl::StatusOr<std::string> ParseValidate(const csi::v1::ValidateVolumeCapabilitiesRequest& request);

// Empty where the volume suits all that is asked, else a sentence.
std::string WhyNotConfirmed(const VolumeInfo& volume, const csi::v1::ValidateVolumeCapabilitiesRequest& request);

// ABORTED: a starting_token that was never given out (CSI). The token is opaque to callers, "after-<seq>" to us.
absl::StatusOr<ListVolumesSpec> ParseListVolumes(const csi::v1::ListVolumesRequest& request);
std::string ListToken(std::int64_t after);

// Never an error: of volumes that cannot be there is nothing available.
CapacitySpec ParseGetCapacity(const csi::v1::GetCapacityRequest& request);

}  // namespace mooring

#endif  // MOORING_PLUGIN_CONTROLLER_REQUESTS_H_

// What each call of the API does: unpacks the request, asks one of the parts, packs its answer. Without gRPC, but for
// the messages. A stream's answers go to a function; it gives false when nobody takes them any more.
#ifndef MOORING_MANAGER_API_HANDLERS_H_
#define MOORING_MANAGER_API_HANDLERS_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager.pb.h"
#include "manager/api/calls.h"
#include "manager/manager.h"

namespace mooring::manager {

template <typename Reply>
using Send = std::function<bool(const Reply&)>;

// plugin_handlers.cc
absl::Status RunPlugin(Parts& parts, const v1::RunPluginRequest& request, const ApiCall& call,
                       const Send<v1::RunPluginReply>& send);
absl::StatusOr<v1::RegisterPluginResponse> RegisterPlugin(Parts& parts, const v1::RegisterPluginRequest& request,
                                                          const ApiCall& call);
absl::StatusOr<v1::StopPluginResponse> StopPlugin(Parts& parts, const v1::StopPluginRequest& request,
                                                  const ApiCall& call);
absl::StatusOr<v1::ListPluginsResponse> ListPlugins(Parts& parts, const v1::ListPluginsRequest& request);

// volume_handlers.cc
absl::StatusOr<v1::CreateVolumeResponse> CreateVolume(Parts& parts, const v1::CreateVolumeRequest& request,
                                                      const ApiCall& call);
absl::StatusOr<v1::RegisterVolumeResponse> RegisterVolume(Parts& parts, const v1::RegisterVolumeRequest& request,
                                                          const ApiCall& call);
absl::StatusOr<v1::UpdateVolumeResponse> UpdateVolume(Parts& parts, const v1::UpdateVolumeRequest& request);
absl::StatusOr<v1::DeleteVolumeResponse> DeleteVolume(Parts& parts, const v1::DeleteVolumeRequest& request,
                                                      const ApiCall& call);
absl::StatusOr<v1::ExpandVolumeResponse> ExpandVolume(Parts& parts, const v1::ExpandVolumeRequest& request,
                                                      const ApiCall& call);
absl::StatusOr<v1::GetVolumeResponse> GetVolume(Parts& parts, const v1::GetVolumeRequest& request);
absl::StatusOr<v1::ListVolumesResponse> ListVolumes(Parts& parts, const v1::ListVolumesRequest& request);
absl::StatusOr<v1::CreateSnapshotResponse> CreateSnapshot(Parts& parts, const v1::CreateSnapshotRequest& request,
                                                          const ApiCall& call);
absl::StatusOr<v1::DeleteSnapshotResponse> DeleteSnapshot(Parts& parts, const v1::DeleteSnapshotRequest& request,
                                                          const ApiCall& call);
absl::StatusOr<v1::ListSnapshotsResponse> ListSnapshots(Parts& parts, const v1::ListSnapshotsRequest& request,
                                                        const ApiCall& call);

// claim_handlers.cc
absl::StatusOr<v1::ClaimVolumeResponse> ClaimVolume(Parts& parts, const v1::ClaimVolumeRequest& request,
                                                    const ApiCall& call);
absl::StatusOr<v1::ReleaseVolumeResponse> ReleaseVolume(Parts& parts, const v1::ReleaseVolumeRequest& request,
                                                        const ApiCall& call);
absl::StatusOr<v1::ListClaimsResponse> ListClaims(Parts& parts, const v1::ListClaimsRequest& request);
absl::StatusOr<v1::AllocationGoneResponse> AllocationGone(Parts& parts, const v1::AllocationGoneRequest& request);

// attach_handlers.cc
absl::Status Attach(Parts& parts, const v1::AttachRequest& request, const ApiCall& call,
                    const Send<v1::AttachReply>& send);
absl::Status Detach(Parts& parts, const v1::DetachRequest& request, const ApiCall& call,
                    const Send<v1::DetachReply>& send);
absl::StatusOr<v1::ListAttachmentsResponse> ListAttachments(Parts& parts, const v1::ListAttachmentsRequest& request);

// stream_handlers.cc
absl::Status StreamEvents(Parts& parts, const v1::StreamEventsRequest& request, const ApiCall& call,
                          const Send<v1::Event>& send);
absl::Status WatchRecords(Parts& parts, const v1::WatchRequest& request, const ApiCall& call,
                          const Send<v1::WatchReply>& send);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_API_HANDLERS_H_

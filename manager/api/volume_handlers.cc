#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "manager/api/existence.h"
#include "manager/api/handlers.h"
#include "manager/api/messages.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

template <typename Map>
StringMap MapOf(const Map& map) {
  return StringMap(map.begin(), map.end());
}

template <typename Response>
absl::StatusOr<Response> WithVolume(const absl::StatusOr<Volume>& volume) {
  if (!volume.ok()) return volume.status();
  Response response;
  *response.mutable_volume() = Shown(*volume);
  return response;
}

}  // namespace

absl::StatusOr<v1::CreateVolumeResponse> VolumeHandlers::CreateVolume(const v1::CreateVolumeRequest& request,
                                                                      const ApiCall& call) {
  MOORING_ASSIGN_OR_RETURN(Volume volume, AskedVolume(request.volume(), MapOf(request.secrets())));
  return WithVolume<v1::CreateVolumeResponse>(volumes.Create(std::move(volume), call.until));
}

absl::StatusOr<v1::RegisterVolumeResponse> VolumeHandlers::RegisterVolume(const v1::RegisterVolumeRequest& request,
                                                                          const ApiCall& call) {
  MOORING_ASSIGN_OR_RETURN(Volume volume, AskedVolume(request.volume(), MapOf(request.secrets())));
  return WithVolume<v1::RegisterVolumeResponse>(volumes.Register(std::move(volume), call.until));
}

absl::StatusOr<v1::UpdateVolumeResponse> VolumeHandlers::UpdateVolume(const v1::UpdateVolumeRequest& request) {
  MOORING_ASSIGN_OR_RETURN(Volume volume, AskedVolume(request.volume(), MapOf(request.secrets())));
  if (request.keep_secrets() || request.keep_mount_flags()) {
    MOORING_ASSIGN_OR_RETURN(const Volume now, volumes.Get(volume.key));
    if (request.keep_secrets()) {
      volume.secrets = now.secrets;
      volume.has_secrets = now.has_secrets;  // also if they cannot be read
    }
    if (request.keep_mount_flags()) {
      volume.mount_options.flags = now.mount_options.flags;
      volume.flags_left_out = now.flags_left_out;
    }
    if (volume.revisions.modify == 0) volume.revisions.modify = now.revisions.modify;  // the kept values
  }
  return WithVolume<v1::UpdateVolumeResponse>(volumes.Update(volume));
}

absl::StatusOr<v1::DeleteVolumeResponse> VolumeHandlers::DeleteVolume(const v1::DeleteVolumeRequest& request,
                                                                      const ApiCall& call) {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.key()));
  if (request.must_exist()) MOORING_RETURN_IF_ERROR(CheckVolumeExists(store, key));
  MOORING_RETURN_IF_ERROR(request.deregister() ? volumes.Deregister(key, call.until) : volumes.Delete(key, call.until));
  return v1::DeleteVolumeResponse();
}

absl::StatusOr<v1::ExpandVolumeResponse> VolumeHandlers::ExpandVolume(const v1::ExpandVolumeRequest& request,
                                                                      const ApiCall& call) {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.key()));
  const auto expanded = volumes.Expand(key, request.min_bytes(), request.max_bytes(), call.until);
  MOORING_RETURN_IF_ERROR(WithSimilarVolume(store, key, expanded.status()));
  return WithVolume<v1::ExpandVolumeResponse>(expanded);
}

absl::StatusOr<v1::GetVolumeResponse> VolumeHandlers::GetVolume(const v1::GetVolumeRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.key()));
  const absl::StatusOr<Volume> volume = volumes.Get(key);
  MOORING_RETURN_IF_ERROR(WithSimilarVolume(store, key, volume.status()));
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> held, store.ListClaims(key));
  v1::GetVolumeResponse response;
  *response.mutable_volume() = Shown(*volume);
  for (const Claim& claim : held) *response.add_claims() = ToProto(claim);
  for (const AttachmentRecord& mount : journal.Of(key)) *response.add_attachments() = Shown(mount);
  const absl::Status schedulable = claims.CheckSchedulable(*volume);
  response.set_schedulable(schedulable.ok());
  if (!schedulable.ok()) response.set_unschedulable(Message(schedulable));
  return response;
}

absl::StatusOr<v1::ListVolumesResponse> VolumeHandlers::ListVolumes(const v1::ListVolumesRequest& request) {
  const std::string ns = request.namespace_().empty() ? VolumeKey().ns : request.namespace_();
  v1::ListVolumesResponse response;
  // The revision is read first: a client that watches from it may see a change twice, but misses none.
  MOORING_ASSIGN_OR_RETURN(const Listing now, state.List(RegistryStateKey(host)));
  MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> listed, volumes.List(ns == "*" ? "" : ns));
  response.set_revision(now.revision);
  for (const Volume& volume : listed) {
    if (request.plugin().empty() || volume.plugin == request.plugin()) *response.add_volumes() = Shown(volume);
  }
  return response;
}

absl::StatusOr<v1::CreateSnapshotResponse> SnapshotHandlers::CreateSnapshot(const v1::CreateSnapshotRequest& request,
                                                                            const ApiCall& call) {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.volume()));
  MOORING_RETURN_IF_ERROR(CheckName("the snapshot's name", request.name()));
  MOORING_ASSIGN_OR_RETURN(const Snapshot snapshot,
                           snapshots.Create(key, request.name(), MapOf(request.parameters()), call.until));
  v1::CreateSnapshotResponse response;
  *response.mutable_snapshot() = ToProto(snapshot);
  return response;
}

absl::StatusOr<v1::DeleteSnapshotResponse> SnapshotHandlers::DeleteSnapshot(const v1::DeleteSnapshotRequest& request,
                                                                            const ApiCall& call) {
  MOORING_RETURN_IF_ERROR(CheckName("the plugin's name", request.plugin()));
  const Secrets secrets(MapOf(request.secrets()));
  if (request.forget()) {
    MOORING_RETURN_IF_ERROR(snapshots.DropRecord(request.plugin(), request.id()));
    return v1::DeleteSnapshotResponse();
  }
  if (request.must_exist()) {
    MOORING_RETURN_IF_ERROR(snapshots.CheckExists(request.plugin(), request.id(), secrets, call.until));
  }
  MOORING_RETURN_IF_ERROR(snapshots.Delete(request.plugin(), request.id(), secrets, call.until));
  return v1::DeleteSnapshotResponse();
}

absl::StatusOr<v1::ListSnapshotsResponse> SnapshotHandlers::ListSnapshots(const v1::ListSnapshotsRequest& request,
                                                                          const ApiCall& call) {
  MOORING_RETURN_IF_ERROR(CheckName("the plugin's name", request.plugin()));
  MOORING_ASSIGN_OR_RETURN(const SnapshotList all, snapshots.List(request.plugin(), call.until));
  v1::ListSnapshotsResponse response;
  response.set_problem(all.problem);
  for (const Snapshot& snapshot : all.snapshots) *response.add_snapshots() = ToProto(snapshot);
  return response;
}

}  // namespace mooring::manager

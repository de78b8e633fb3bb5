// The calls of the API without gRPC: each handler unpacks the request, asks its collaborators and packs the answer.
//
// A group of handlers names only the collaborators that it uses; all of them outlive it. Safe from several threads.
// A streaming handler sends its answers through a function, which returns false once the client is gone.
#pragma once

#include <functional>
#include <future>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager.pb.h"
#include "manager/api/calls.h"
#include "manager/attach/attachments.h"
#include "manager/claims/claims.h"
#include "manager/hosts/host_directory.h"
#include "manager/plugins/plugin_set.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"
#include "manager/state/state.h"
#include "manager/supervisor/supervisor.h"
#include "manager/volumes/attachment_journal.h"
#include "manager/volumes/volumes.h"

namespace mooring::manager {

template <typename Reply>
using Send = std::function<bool(const Reply&)>;

struct PluginHandlers {
  PluginSet& plugins;
  Supervisor& supervisor;
  Events& events;

  absl::Status RunPlugin(const v1::RunPluginRequest& request, const ApiCall& call,
                         const Send<v1::RunPluginReply>& send);
  absl::StatusOr<v1::RegisterPluginResponse> RegisterPlugin(const v1::RegisterPluginRequest& request,
                                                            const ApiCall& call);
  absl::StatusOr<v1::StopPluginResponse> StopPlugin(const v1::StopPluginRequest& request, const ApiCall& call);
  absl::StatusOr<v1::ListPluginsResponse> ListPlugins(const v1::ListPluginsRequest& request);

 private:
  v1::PluginStatus Described(const PluginStatus& status, const std::vector<PluginRecord>& declared);
  v1::PluginStatus StatusOf(const std::string& name);
  absl::StatusOr<v1::PluginStatus> StatusAfter(bool wait, const std::string& name, Clock::time_point until);
  void SendEventsUntilStarted(const std::string& name, std::uint64_t from, std::future<absl::Status>& start,
                              const Send<v1::RunPluginReply>& send);
};

struct VolumeHandlers {
  Volumes& volumes;
  Claims& claims;
  const AttachmentJournal& journal;
  RecordsStore& store;
  State& state;
  std::string host;

  absl::StatusOr<v1::CreateVolumeResponse> CreateVolume(const v1::CreateVolumeRequest& request, const ApiCall& call);
  absl::StatusOr<v1::RegisterVolumeResponse> RegisterVolume(const v1::RegisterVolumeRequest& request,
                                                            const ApiCall& call);
  absl::StatusOr<v1::UpdateVolumeResponse> UpdateVolume(const v1::UpdateVolumeRequest& request);
  absl::StatusOr<v1::DeleteVolumeResponse> DeleteVolume(const v1::DeleteVolumeRequest& request, const ApiCall& call);
  absl::StatusOr<v1::ExpandVolumeResponse> ExpandVolume(const v1::ExpandVolumeRequest& request, const ApiCall& call);
  absl::StatusOr<v1::GetVolumeResponse> GetVolume(const v1::GetVolumeRequest& request);
  absl::StatusOr<v1::ListVolumesResponse> ListVolumes(const v1::ListVolumesRequest& request);
};

struct SnapshotHandlers {
  Snapshots& snapshots;

  absl::StatusOr<v1::CreateSnapshotResponse> CreateSnapshot(const v1::CreateSnapshotRequest& request,
                                                            const ApiCall& call);
  absl::StatusOr<v1::DeleteSnapshotResponse> DeleteSnapshot(const v1::DeleteSnapshotRequest& request,
                                                            const ApiCall& call);
  absl::StatusOr<v1::ListSnapshotsResponse> ListSnapshots(const v1::ListSnapshotsRequest& request, const ApiCall& call);
};

struct ClaimHandlers {
  Claims& claims;
  Attachments& attachments;
  const AttachmentJournal& journal;
  RecordsStore& store;
  State& state;
  std::string host;

  absl::StatusOr<v1::ClaimVolumeResponse> ClaimVolume(const v1::ClaimVolumeRequest& request, const ApiCall& call);
  absl::StatusOr<v1::ReleaseVolumeResponse> ReleaseVolume(const v1::ReleaseVolumeRequest& request, const ApiCall& call);
  absl::StatusOr<v1::ListClaimsResponse> ListClaims(const v1::ListClaimsRequest& request);
  absl::StatusOr<v1::AllocationGoneResponse> AllocationGone(const v1::AllocationGoneRequest& request);

 private:
  absl::Status Force(const VolumeKey& key, const ApiCall& call);
  absl::Status ReleaseAll(const VolumeKey& key, const v1::ReleaseVolumeRequest& request, const ApiCall& call);
};

struct HostHandlers {
  HostDirectory& hosts;
  RecordsStore& store;
  std::function<absl::Status(const std::string& host, Clock::time_point until)> recover;  // Recovery::RecoverNow

  absl::StatusOr<v1::ListHostsResponse> ListHosts(const v1::ListHostsRequest& request);
  absl::StatusOr<v1::DrainHostResponse> DrainHost(const v1::DrainHostRequest& request);
  absl::StatusOr<v1::DeclareHostLostResponse> DeclareHostLost(const v1::DeclareHostLostRequest& request,
                                                              const ApiCall& call);
};

struct AttachHandlers {
  Attachments& attachments;
  const AttachmentJournal& journal;
  RecordsStore& store;

  absl::Status Attach(const v1::AttachRequest& request, const ApiCall& call, const Send<v1::AttachReply>& send);
  absl::Status Detach(const v1::DetachRequest& request, const ApiCall& call, const Send<v1::DetachReply>& send);
  absl::StatusOr<v1::ListAttachmentsResponse> ListAttachments(const v1::ListAttachmentsRequest& request);
};

struct StreamHandlers {
  Events& events;
  State& state;
  std::string host;

  absl::Status StreamEvents(const v1::StreamEventsRequest& request, const ApiCall& call, const Send<v1::Event>& send);
  absl::Status Watch(const v1::WatchRequest& request, const ApiCall& call, const Send<v1::WatchReply>& send);
};

struct InfoHandlers {
  const Attachments& attachments;
  const WorkQueue& work;
  std::string host;
  std::string root;
  Time started_at = std::chrono::system_clock::now();

  absl::StatusOr<v1::GetManagerInfoResponse> GetManagerInfo(const v1::GetManagerInfoRequest& request) const;
};

struct ApiHandlers {
  PluginHandlers plugins;
  VolumeHandlers volumes;
  SnapshotHandlers snapshots;
  ClaimHandlers claims;
  AttachHandlers attachments;
  HostHandlers hosts;
  StreamHandlers streams;
  InfoHandlers info;
};

}  // namespace mooring::manager

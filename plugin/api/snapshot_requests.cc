#include "plugin/api/snapshot_requests.h"

#include <google/protobuf/timestamp.pb.h>

#include <set>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/api/request_fields.h"

namespace mooring {
namespace {

google::protobuf::Timestamp ToTimestamp(std::int64_t nanoseconds) {
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  google::protobuf::Timestamp time;
  time.set_seconds(nanoseconds / kPerSecond);
  time.set_nanos(static_cast<std::int32_t>(nanoseconds % kPerSecond));
  return time;
}

absl::Status CheckSourceIds(const std::vector<std::string>& ids) {
  if (ids.empty()) return InvalidArgument("source_volume_ids is missing: name the volumes of the group");
  std::set<std::string> seen;
  for (const std::string& id : ids) {
    if (id.empty()) return InvalidArgument("source_volume_ids: one of them is empty");
    if (!seen.insert(id).second) return InvalidArgument("source_volume_ids: {} is named twice", Quote(id));
  }
  return absl::OkStatus();
}

// A VolumeGroupSnapshotClass may have its deletionPolicy among the parameters, as in Kubernetes' test suite. Only
// Kubernetes uses it.
absl::Status CheckGroupParameters(google::protobuf::Map<std::string, std::string> parameters) {
  parameters.erase("deletionPolicy");
  return CheckNoParameters(parameters, "group snapshot");
}

template <typename Request>
absl::StatusOr<GroupSpec> ParseGroup(const Request& request) {
  MOORING_ASSIGN_OR_RETURN(std::string id, Required("group_snapshot_id", request.group_snapshot_id()));
  return GroupSpec{.id = std::move(id), .snapshot_ids = {request.snapshot_ids().begin(), request.snapshot_ids().end()}};
}

}  // namespace

absl::StatusOr<CreateSnapshotSpec> ParseCreateSnapshot(const csi::v1::CreateSnapshotRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckName(request.name(), "snapshot"));
  MOORING_ASSIGN_OR_RETURN(std::string volume_id, Required("source_volume_id", request.source_volume_id()));
  MOORING_RETURN_IF_ERROR(CheckNoParameters(request.parameters(), "snapshot"));
  return CreateSnapshotSpec{.name = request.name(), .source_volume_id = std::move(volume_id)};
}

absl::StatusOr<ListSnapshotsSpec> ParseListSnapshots(const csi::v1::ListSnapshotsRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const PageSpec page,
                           ParsePage(request.max_entries(), request.starting_token(), kListSnapshots));
  return ListSnapshotsSpec{.after = page.after,
                           .max_entries = page.max_entries,
                           .snapshot_id = request.snapshot_id(),
                           .source_volume_id = request.source_volume_id()};
}

absl::StatusOr<CreateGroupSpec> ParseCreateGroup(const csi::v1::CreateVolumeGroupSnapshotRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckName(request.name(), "group snapshot"));
  CreateGroupSpec spec = {
      .name = request.name(),
      .source_volume_ids = {request.source_volume_ids().begin(), request.source_volume_ids().end()}};
  MOORING_RETURN_IF_ERROR(CheckSourceIds(spec.source_volume_ids));
  MOORING_RETURN_IF_ERROR(CheckGroupParameters(request.parameters()));
  return spec;
}

absl::StatusOr<GroupSpec> ParseGetGroup(const csi::v1::GetVolumeGroupSnapshotRequest& request) {
  return ParseGroup(request);
}

absl::StatusOr<GroupSpec> ParseDeleteGroup(const csi::v1::DeleteVolumeGroupSnapshotRequest& request) {
  return ParseGroup(request);
}

void Pack(const SnapshotRecord& info, csi::v1::Snapshot& snapshot) {
  snapshot.set_snapshot_id(info.id);
  snapshot.set_source_volume_id(info.source_volume_id);
  snapshot.set_group_snapshot_id(info.group_id);
  snapshot.set_size_bytes(static_cast<std::int64_t>(info.restore_bytes != 0 ? info.restore_bytes : info.bytes));
  *snapshot.mutable_creation_time() = ToTimestamp(info.created_at);
  snapshot.set_ready_to_use(true);  // the plugin returns only complete snapshots
}

void Pack(const SnapshotSet& info, csi::v1::VolumeGroupSnapshot& group) {
  group.set_group_snapshot_id(info.id);
  *group.mutable_creation_time() = ToTimestamp(info.snapshots.front().created_at);
  group.set_ready_to_use(true);
  for (const SnapshotRecord& snapshot : info.snapshots) Pack(snapshot, *group.add_snapshots());
}

}  // namespace mooring

#include "plugin/api/node_requests.h"

#include <algorithm>
#include <iterator>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/size.h"
#include "plugin/api/controller_requests.h"
#include "plugin/api/request_fields.h"
#include "plugin/backends/registry.h"
#include "plugin/model/fs_types.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

constexpr char kEphemeral[] = "csi.storage.k8s.io/ephemeral";
constexpr char kSize[] = "size";  // of an ephemeral volume, whose request has no capacity_range

using ContextMap = google::protobuf::Map<std::string, std::string>;

// The filesystem of the volume from its context. Mount flags depend on it if the capability names none. Empty: unknown.
std::string FsTypeOf(const ContextMap& volume_context) {
  const auto found = volume_context.find(std::string(kFsTypeKey));
  const bool known = found != volume_context.end() &&
                     (IsSupportedFsType(found->second) ||
                      std::any_of(std::begin(kBackendKinds), std::end(kBackendKinds),
                                  [&](BackendKind kind) { return found->second == DefaultFsTypeOf(kind); }));
  return known ? found->second : std::string();
}

// The publish_context of ControllerPublishVolume. It may be missing, because orchestrators may lose it.
bool PublishedReadOnly(const ContextMap& publish_context) {
  const auto found = publish_context.find(std::string(kReadOnlyContext));
  return found != publish_context.end() && found->second == "true";
}

template <typename Request>
absl::StatusOr<Capability> RequireCapability(const Request& request) {
  if (!request.has_volume_capability()) return InvalidArgument("volume_capability is missing");
  return ParseCapability(request.volume_capability(), FsTypeOf(request.volume_context()));
}

absl::StatusOr<VolumePath> ParsePlace(const std::string& id, std::string_view field, const std::string& path) {
  VolumePath place;
  MOORING_ASSIGN_OR_RETURN(place.volume_id, Required("volume_id", id));
  MOORING_ASSIGN_OR_RETURN(place.path, NormalisePath(field, path));
  return place;
}

absl::StatusOr<VolumePath> ParseVolumePath(const std::string& id, const std::string& path) {
  MOORING_RETURN_IF_ERROR(Required("volume_id", id).status());
  MOORING_RETURN_IF_ERROR(Required("volume_path", path).status());
  const absl::StatusOr<VolumePath> place = ParsePlace(id, "volume_path", path);
  return place.ok() ? place : NotFound("volume {} is not there: {}", Quote(id), Message(place.status()));
}

// A read-only or raw ephemeral volume would stay empty for ever.
absl::Status CheckEphemeralUse(const PublishSpec& publish) {
  const Capability& capability = publish.capability;
  if (capability.access_type == AccessType::kBlock) {
    return InvalidArgument("an ephemeral volume is a filesystem: for block access take one that lasts");
  }
  if (IsReadOnly(capability, publish.read_only)) {
    return InvalidArgument("an ephemeral volume begins empty, and read-only it would stay so: leave that out");
  }
  if (IsEphemeralId(publish.volume_id)) return absl::OkStatus();
  if (!IsVolumeId(publish.volume_id)) {
    return InvalidArgument("volume_id {} is no id of an ephemeral volume: those begin with {}",
                           Quote(publish.volume_id), kEphemeralIdPrefix);
  }
  return InvalidArgument("volume_id {} is one of this driver's own: an ephemeral volume has another",
                         Quote(publish.volume_id));
}

}  // namespace

absl::StatusOr<StageSpec> ParseStage(const csi::v1::NodeStageVolumeRequest& request) {
  StageSpec spec;
  MOORING_ASSIGN_OR_RETURN(spec.volume_id, Required("volume_id", request.volume_id()));
  MOORING_ASSIGN_OR_RETURN(spec.staging_path, NormalisePath("staging_target_path", request.staging_target_path()));
  MOORING_ASSIGN_OR_RETURN(spec.capability, RequireCapability(request));
  spec.read_only = PublishedReadOnly(request.publish_context());
  MOORING_ASSIGN_OR_RETURN(spec.passphrase, FindPassphrase(request.secrets()));
  // The propagation is for targets. A wrong value is refused here already, before the volume is staged.
  MOORING_RETURN_IF_ERROR(FindPropagation(request.volume_context(), "volume_context").status());
  return spec;
}

absl::StatusOr<VolumePath> ParseUnstage(const csi::v1::NodeUnstageVolumeRequest& request) {
  return ParsePlace(request.volume_id(), "staging_target_path", request.staging_target_path());
}

absl::StatusOr<PublishSpec> ParsePublish(const csi::v1::NodePublishVolumeRequest& request) {
  PublishSpec spec;
  MOORING_ASSIGN_OR_RETURN(spec.volume_id, Required("volume_id", request.volume_id()));
  MOORING_ASSIGN_OR_RETURN(spec.target_path, NormalisePath("target_path", request.target_path()));
  if (!request.staging_target_path().empty()) {
    MOORING_ASSIGN_OR_RETURN(spec.staging_path, NormalisePath("staging_target_path", request.staging_target_path()));
  }
  MOORING_ASSIGN_OR_RETURN(spec.capability, RequireCapability(request));
  if (spec.target_path == spec.staging_path) {
    return InvalidArgument("target_path and staging_target_path are both {}", Quote(spec.target_path));
  }
  spec.read_only = request.readonly() || PublishedReadOnly(request.publish_context());
  MOORING_ASSIGN_OR_RETURN(spec.propagation, FindPropagation(request.volume_context(), "volume_context"));
  MOORING_RETURN_IF_ERROR(CheckMayShare(spec.propagation, spec.capability, spec.read_only));
  MOORING_ASSIGN_OR_RETURN(spec.passphrase, FindPassphrase(request.secrets()));
  return spec;
}

bool AsksForEphemeral(const csi::v1::NodePublishVolumeRequest& request) {
  const auto found = request.volume_context().find(kEphemeral);
  return found != request.volume_context().end() && found->second == "true";
}

absl::StatusOr<EphemeralSpec> ParseEphemeral(const csi::v1::NodePublishVolumeRequest& request, const Pools& pools) {
  EphemeralSpec spec;
  MOORING_ASSIGN_OR_RETURN(spec.publish, ParsePublish(request));
  MOORING_RETURN_IF_ERROR(CheckEphemeralUse(spec.publish));
  spec.publish.staging_path.clear();
  csi::v1::CreateVolumeRequest create;
  create.set_name(request.volume_id());
  *create.add_volume_capabilities() = request.volume_capability();
  *create.mutable_parameters() = request.volume_context();
  *create.mutable_secrets() = request.secrets();
  if (const auto size = request.volume_context().find(kSize); size != request.volume_context().end()) {
    const absl::StatusOr<std::int64_t> bytes = ParseSize(size->second);
    if (!bytes.ok()) return Annotate(bytes.status(), "volume_context size");
    create.mutable_capacity_range()->set_required_bytes(*bytes);
    create.mutable_parameters()->erase(kSize);
  }
  absl::StatusOr<CreateVolumeSpec> volume = ParseCreateVolume(create, pools);
  if (!volume.ok()) return Annotate(volume.status(), "ephemeral volume");
  spec.volume = *std::move(volume);
  spec.volume.ephemeral = request.volume_id();
  return spec;
}

absl::StatusOr<VolumePath> ParseUnpublish(const csi::v1::NodeUnpublishVolumeRequest& request) {
  return ParsePlace(request.volume_id(), "target_path", request.target_path());
}

absl::StatusOr<VolumePath> ParseStats(const csi::v1::NodeGetVolumeStatsRequest& request) {
  return ParseVolumePath(request.volume_id(), request.volume_path());
}

absl::StatusOr<ExpandSpec> ParseNodeExpand(const csi::v1::NodeExpandVolumeRequest& request) {
  ExpandSpec spec;
  MOORING_ASSIGN_OR_RETURN(const VolumePath volume, ParseVolumePath(request.volume_id(), request.volume_path()));
  spec.volume_id = volume.volume_id;
  spec.volume_path = volume.path;
  MOORING_ASSIGN_OR_RETURN(spec.range, ParseRange(request.capacity_range()));
  return spec;
}

}  // namespace mooring

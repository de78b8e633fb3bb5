#include "manager/records/record_codec.h"

#include <optional>

#include "base/status.h"
#include "base/text/clean_text.h"
#include "manager/records/record_fields.h"

namespace mooring::manager {
namespace {

constexpr Table<AccessMode, v1::AccessMode, 7> kProtoAccessModes = {{
    {AccessMode::kSingleNodeReaderOnly, v1::SINGLE_NODE_READER_ONLY},
    {AccessMode::kSingleNodeWriter, v1::SINGLE_NODE_WRITER},
    {AccessMode::kSingleNodeSingleWriter, v1::SINGLE_NODE_SINGLE_WRITER},
    {AccessMode::kSingleNodeMultiWriter, v1::SINGLE_NODE_MULTI_WRITER},
    {AccessMode::kMultiNodeReaderOnly, v1::MULTI_NODE_READER_ONLY},
    {AccessMode::kMultiNodeSingleWriter, v1::MULTI_NODE_SINGLE_WRITER},
    {AccessMode::kMultiNodeMultiWriter, v1::MULTI_NODE_MULTI_WRITER},
}};
constexpr Table<AttachmentMode, v1::AttachmentMode, 3> kProtoAttachments = {{
    {AttachmentMode::kFileSystem, v1::FILE_SYSTEM},
    {AttachmentMode::kBlockDevice, v1::BLOCK_DEVICE},
    {AttachmentMode::kFileSystem, v1::ATTACHMENT_MODE_UNSPECIFIED},
}};
constexpr Table<ClaimMode, v1::ClaimMode, 2> kProtoClaimModes = {{
    {ClaimMode::kRead, v1::READ},
    {ClaimMode::kWrite, v1::WRITE},
}};
constexpr Table<Propagation, v1::Propagation, 4> kPropagations = {{
    {Propagation::kPrivate, v1::PROPAGATION_PRIVATE},
    {Propagation::kSlave, v1::PROPAGATION_SLAVE},
    {Propagation::kShared, v1::PROPAGATION_SHARED},
    {Propagation::kInherit, v1::PROPAGATION_PRIVATE},  // the manager does not mount with it
}};
constexpr Table<Volume::State, v1::Volume::State, 3> kProtoVolumeStates = {{
    {Volume::State::kReady, v1::Volume::READY},
    {Volume::State::kCreating, v1::Volume::CREATING},
    {Volume::State::kDeleting, v1::Volume::DELETING},
}};
constexpr Table<Claim::State, v1::Claim::State, 4> kProtoClaimStates = {{
    {Claim::State::kTaken, v1::Claim::TAKEN},
    {Claim::State::kUnpublishing, v1::Claim::UNPUBLISHING},
    {Claim::State::kNodeDetached, v1::Claim::NODE_DETACHED},
    {Claim::State::kControllerDetached, v1::Claim::CONTROLLER_DETACHED},
}};
constexpr Table<Claim::Publish, v1::Claim::Publish, 3> kPublishes = {{
    {Claim::Publish::kNone, v1::Claim::PUBLISH_NONE},
    {Claim::Publish::kSent, v1::Claim::PUBLISH_SENT},
    {Claim::Publish::kDone, v1::Claim::PUBLISH_DONE},
}};
constexpr Table<AttachmentRecord::Phase, v1::Attachment::Phase, 3> kPhases = {{
    {AttachmentRecord::Phase::kIntent, v1::Attachment::INTENT},
    {AttachmentRecord::Phase::kMounted, v1::Attachment::MOUNTED},
    {AttachmentRecord::Phase::kUnmounting, v1::Attachment::UNMOUNTING},
}};
// 0 means no time: the claim is not past, the volume is not exhausted.
std::int64_t ToMs(const std::optional<Time>& time) { return time ? manager::ToMs(*time) : 0; }
std::optional<Time> TimeIn(std::int64_t ms) { return ms == 0 ? std::nullopt : std::optional<Time>(FromMs(ms)); }

}  // namespace

std::int64_t ToMs(Time time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}
Time FromMs(std::int64_t ms) { return Time(std::chrono::milliseconds(ms)); }

absl::StatusOr<AccessMode> FromProto(v1::AccessMode mode) { return Get(kProtoAccessModes, "access mode", mode); }
absl::StatusOr<AttachmentMode> FromProto(v1::AttachmentMode mode) {
  return Get(kProtoAttachments, "attachment mode", mode);
}
absl::StatusOr<ClaimMode> FromProto(v1::ClaimMode mode) { return Get(kProtoClaimModes, "claim mode", mode); }
absl::StatusOr<Propagation> FromProto(v1::Propagation propagation) {
  return Get(kPropagations, "propagation", propagation);
}

v1::AccessMode ToProto(AccessMode mode) { return Put(kProtoAccessModes, mode); }
v1::AttachmentMode ToProto(AttachmentMode attachment) { return Put(kProtoAttachments, attachment); }
v1::ClaimMode ToProto(ClaimMode mode) { return Put(kProtoClaimModes, mode); }
v1::Propagation ToProto(Propagation propagation) { return Put(kPropagations, propagation); }

v1::VolumeKey ToProto(const VolumeKey& key) {
  v1::VolumeKey message;
  message.set_namespace_(key.ns);
  message.set_id(key.id);
  return message;
}

VolumeKey FromProto(const v1::VolumeKey& message) {
  VolumeKey key;
  if (!message.namespace_().empty()) key.ns = message.namespace_();
  key.id = message.id();
  return key;
}

v1::Capability ToProto(const Capability& capability) {
  v1::Capability message;
  message.set_access(ToProto(capability.access));
  message.set_attachment(ToProto(capability.attachment));
  return message;
}

absl::StatusOr<Capability> FromProto(const v1::Capability& message) {
  Capability capability;
  MOORING_ASSIGN_OR_RETURN(capability.access, FromProto(message.access()));
  MOORING_ASSIGN_OR_RETURN(capability.attachment, FromProto(message.attachment()));
  return capability;
}

v1::MountOptions ToProto(const MountOptions& options) {
  v1::MountOptions message;
  message.set_fs_type(options.fs_type);
  message.mutable_flags()->Assign(options.flags.begin(), options.flags.end());
  return message;
}

MountOptions FromProto(const v1::MountOptions& message) {
  return {.fs_type = message.fs_type(), .flags = Strings(message.flags())};
}

v1::Volume ToProto(const Volume& volume) {
  v1::Volume message;
  *message.mutable_key() = ToProto(volume.key);
  message.set_name(volume.name);
  message.set_external_id(volume.external_id);
  message.set_plugin(volume.plugin);
  for (const Capability& capability : volume.capabilities) *message.add_capabilities() = ToProto(capability);
  *message.mutable_mount_options() = ToProto(volume.mount_options);
  CopyTo(volume.parameters, *message.mutable_parameters());
  CopyTo(volume.context, *message.mutable_context());
  CopyTo(volume.required_topologies, *message.mutable_required_topologies());
  CopyTo(volume.preferred_topologies, *message.mutable_preferred_topologies());
  CopyTo(volume.topologies, *message.mutable_topologies());
  message.set_min_bytes(volume.min_bytes);
  message.set_max_bytes(volume.max_bytes);
  message.set_capacity_bytes(volume.capacity_bytes);
  message.set_snapshot_id(volume.snapshot_id);
  message.set_clone_id(volume.clone_id);
  message.set_state(Put(kProtoVolumeStates, volume.state));
  message.set_created_here(volume.created_here);
  if (volume.in_use) *message.mutable_in_use() = ToProto(*volume.in_use);
  message.set_exhausted_at_ms(ToMs(volume.exhausted_at));
  message.set_exhausted_words(CleanText(volume.exhausted_words));
  message.set_node_expansion_owed(volume.node_expansion_owed);
  message.set_has_secrets(volume.has_secrets || !volume.secrets.empty());
  SetRevisions(volume.revisions, message);
  return message;
}

absl::StatusOr<Volume> FromProto(const v1::Volume& message) {
  Volume volume;
  volume.key = FromProto(message.key());
  volume.name = message.name();
  volume.external_id = message.external_id();
  volume.plugin = message.plugin();
  for (const v1::Capability& each : message.capabilities()) {
    MOORING_ASSIGN_OR_RETURN(volume.capabilities.emplace_back(), FromProto(each));
  }
  volume.mount_options = FromProto(message.mount_options());
  volume.parameters = Copied(message.parameters());
  volume.context = Copied(message.context());
  volume.required_topologies = Topologies(message.required_topologies());
  volume.preferred_topologies = Topologies(message.preferred_topologies());
  volume.topologies = Topologies(message.topologies());
  volume.min_bytes = message.min_bytes();
  volume.max_bytes = message.max_bytes();
  volume.capacity_bytes = message.capacity_bytes();
  volume.snapshot_id = message.snapshot_id();
  volume.clone_id = message.clone_id();
  MOORING_ASSIGN_OR_RETURN(volume.state, Get(kProtoVolumeStates, "state", message.state()));
  volume.created_here = message.created_here();
  if (message.has_in_use()) {
    MOORING_ASSIGN_OR_RETURN(volume.in_use, FromProto(message.in_use()));
  }
  volume.exhausted_at = TimeIn(message.exhausted_at_ms());
  volume.exhausted_words = message.exhausted_words();
  volume.node_expansion_owed = message.node_expansion_owed();
  volume.revisions = RevisionsIn(message);
  return volume;
}

v1::Claim ToProto(const Claim& claim) {
  v1::Claim message;
  *message.mutable_volume() = ToProto(claim.volume);
  message.set_allocation(claim.allocation);
  message.set_node(claim.node);
  message.set_mode(ToProto(claim.mode));
  *message.mutable_capability() = ToProto(claim.capability);
  message.set_external_node_id(claim.external_node_id);
  message.set_state(Put(kProtoClaimStates, claim.state));
  message.set_kept(claim.kept);
  message.set_past(claim.past);
  message.set_past_since_ms(ToMs(claim.past_since));
  message.set_publish(Put(kPublishes, claim.publish));
  CopyTo(claim.publish_context, *message.mutable_publish_context());
  message.set_problem(CleanText(claim.problem));
  message.set_taken_at_ms(ToMs(claim.taken_at));
  SetRevisions(claim.revisions, message);
  return message;
}

absl::StatusOr<Claim> FromProto(const v1::Claim& message) {
  Claim claim;
  claim.volume = FromProto(message.volume());
  claim.allocation = message.allocation();
  claim.node = message.node();
  MOORING_ASSIGN_OR_RETURN(claim.mode, FromProto(message.mode()));
  MOORING_ASSIGN_OR_RETURN(claim.capability, FromProto(message.capability()));
  claim.external_node_id = message.external_node_id();
  MOORING_ASSIGN_OR_RETURN(claim.state, Get(kProtoClaimStates, "state", message.state()));
  claim.kept = message.kept();
  claim.past = message.past();
  claim.past_since = TimeIn(message.past_since_ms());
  MOORING_ASSIGN_OR_RETURN(claim.publish, Get(kPublishes, "publish", message.publish()));
  claim.publish_context = Copied(message.publish_context());
  claim.problem = message.problem();
  claim.taken_at = FromMs(message.taken_at_ms());
  claim.revisions = RevisionsIn(message);
  return claim;
}

v1::Attachment ToProto(const AttachmentRecord& mount) {
  v1::Attachment message;
  message.set_allocation(mount.allocation);
  message.set_request(mount.request);
  *message.mutable_volume() = ToProto(mount.volume);
  message.set_external_id(mount.external_id);
  message.set_plugin(mount.plugin);
  message.set_external_node_id(mount.external_node_id);
  message.set_mode(ToProto(mount.mode));
  *message.mutable_capability() = ToProto(mount.capability);
  *message.mutable_options() = ToProto(mount.options);
  message.set_read_only(mount.read_only);
  message.set_propagation(ToProto(mount.propagation));
  if (mount.staged_as) {
    *message.mutable_staged_capability() =
        ToProto(Capability{.access = mount.staged_as->access, .attachment = mount.capability.attachment});
    *message.mutable_staged_options() = ToProto(mount.staged_as->options);
  }
  message.set_usage(mount.usage);
  message.set_staging_path(mount.staging_path);
  message.set_target_path(mount.target_path);
  message.set_attach_path(mount.attach_path);
  message.set_made_attach_path(mount.made_attach_path);
  message.set_attach_mount_id(mount.attach_mount_id);
  message.set_boot(mount.boot);
  message.set_phase(Put(kPhases, mount.phase));
  message.set_problem(CleanText(mount.problem));
  message.set_source(mount.source);
  message.set_is_device(mount.is_device);
  SetRevisions(mount.revisions, message);
  return message;
}

absl::StatusOr<AttachmentRecord> FromProto(const v1::Attachment& message) {
  AttachmentRecord mount;
  mount.allocation = message.allocation();
  mount.request = message.request();
  mount.volume = FromProto(message.volume());
  mount.external_id = message.external_id();
  mount.plugin = message.plugin();
  mount.external_node_id = message.external_node_id();
  MOORING_ASSIGN_OR_RETURN(mount.mode, FromProto(message.mode()));
  MOORING_ASSIGN_OR_RETURN(mount.capability, FromProto(message.capability()));
  mount.options = FromProto(message.options());
  mount.read_only = message.read_only();
  MOORING_ASSIGN_OR_RETURN(mount.propagation, FromProto(message.propagation()));
  if (message.has_staged_capability()) {
    MOORING_ASSIGN_OR_RETURN(const Capability staged, FromProto(message.staged_capability()));
    mount.staged_as = {.access = staged.access, .options = FromProto(message.staged_options())};
  }
  mount.usage = message.usage();
  mount.staging_path = message.staging_path();
  mount.target_path = message.target_path();
  mount.attach_path = message.attach_path();
  mount.made_attach_path = message.made_attach_path();
  mount.attach_mount_id = message.attach_mount_id();
  mount.boot = message.boot();
  MOORING_ASSIGN_OR_RETURN(mount.phase, Get(kPhases, "phase", message.phase()));
  mount.problem = message.problem();
  mount.source = message.source();
  mount.is_device = message.is_device();
  mount.revisions = RevisionsIn(message);
  return mount;
}

}  // namespace mooring::manager

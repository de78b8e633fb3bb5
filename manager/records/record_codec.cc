#include "manager/records/record_codec.h"

#include "base/status.h"
#include "base/text/clean_text.h"
#include "manager/records/field_copier.h"

namespace mooring::manager {

static void CopyFields(FieldCopier& copy, VolumeKey& key) {
  if (copy.HasValue("namespace")) copy("namespace", key.ns);
  copy("id", key.id);
}

static void CopyFields(FieldCopier& copy, Capability& capability) {
  copy("access", capability.access);
  if (copy.HasValue("attachment")) copy("attachment", capability.attachment);
}

static void CopyFields(FieldCopier& copy, MountOptions& options) {
  copy("fs_type", options.fs_type);
  copy("flags", options.flags);
}

static void CopyFields(FieldCopier& copy, Topology& topology) { copy("segments", topology.segments); }

static void CopyFields(FieldCopier& copy, StagedAs& staged_as) {
  copy("access", staged_as.access);
  copy("options", staged_as.options);
}

static void CopyRevisions(FieldCopier& copy, Revisions& revisions) {
  copy("create_revision", revisions.create);
  copy("modify_revision", revisions.modify);
}

// An error of a plugin may contain any bytes; the parser of messages accepts only UTF-8.
static void CopyText(FieldCopier& copy, const char* name, std::string& text) {
  text = CleanText(text);
  copy(name, text);
}

// Not the secrets themselves.
static void CopyFields(FieldCopier& copy, Volume& volume) {
  copy("key", volume.key);
  copy("name", volume.name);
  copy("external_id", volume.external_id);
  copy("plugin", volume.plugin);
  copy("capabilities", volume.capabilities);
  copy("mount_options", volume.mount_options);
  volume.has_secrets = volume.has_secrets || !volume.secrets.empty();
  copy("has_secrets", volume.has_secrets);
  copy("parameters", volume.parameters);
  copy("context", volume.context);
  copy("required_topologies", volume.required_topologies);
  copy("preferred_topologies", volume.preferred_topologies);
  copy("topologies", volume.topologies);
  copy("min_bytes", volume.min_bytes);
  copy("max_bytes", volume.max_bytes);
  copy("capacity_bytes", volume.capacity_bytes);
  copy("snapshot_id", volume.snapshot_id);
  copy("clone_id", volume.clone_id);
  copy("state", volume.state);
  copy("worker", volume.worker);
  copy("created_here", volume.created_here);
  copy("node_expansion_owed", volume.node_expansion_owed);
  copy("in_use", volume.in_use);
  copy("exhausted_at_ms", volume.exhausted_at);
  copy("exhausted_host", volume.exhausted_host);
  CopyText(copy, "exhausted_words", volume.exhausted_words);
  copy("created_at_ms", volume.created_at);
  CopyRevisions(copy, volume.revisions);
}

static void CopyFields(FieldCopier& copy, Snapshot& snapshot) {
  copy("plugin", snapshot.plugin);
  copy("name", snapshot.name);
  copy("id", snapshot.id);
  copy("source", snapshot.source);
  copy("source_volume_id", snapshot.source_volume_id);
  copy("parameters", snapshot.parameters);
  copy("topologies", snapshot.topologies);
  copy("bytes", snapshot.bytes);
  copy("made_at_ms", snapshot.made_at);
  copy("ready", snapshot.ready);
  copy("unlisted", snapshot.is_unlisted);
  copy("worker", snapshot.worker);
  CopyRevisions(copy, snapshot.revisions);
}

static void CopyFields(FieldCopier& copy, Claim& claim) {
  copy("volume", claim.volume);
  copy("allocation", claim.allocation);
  copy("node", claim.node);
  copy("mode", claim.mode);
  copy("capability", claim.capability);
  copy("external_node_id", claim.external_node_id);
  copy("state", claim.state);
  copy("kept", claim.kept);
  copy("past", claim.past);
  copy("past_since_ms", claim.past_since);
  copy("lost", claim.lost);
  copy("publish", claim.publish);
  copy("publish_context", claim.publish_context);
  CopyText(copy, "problem", claim.problem);
  copy("taken_at_ms", claim.taken_at);
  CopyRevisions(copy, claim.revisions);
}

static void CopyFields(FieldCopier& copy, Host& host) {
  copy("name", host.name);
  copy("version", host.version);
  copy("draining", host.draining);
  copy("lost", host.lost);
  copy("gave_up_claims", host.gave_up_claims);
  copy("joined_at_ms", host.joined_at);
  copy("away_since_ms", host.away_since);
  CopyRevisions(copy, host.revisions);
}

static void CopyFields(FieldCopier& copy, AttachmentRecord& mount) {
  copy("allocation", mount.allocation);
  copy("request", mount.request);
  copy("volume", mount.volume);
  copy("external_id", mount.external_id);
  copy("plugin", mount.plugin);
  copy("external_node_id", mount.external_node_id);
  copy("mode", mount.mode);
  copy("capability", mount.capability);
  copy("options", mount.options);
  copy("read_only", mount.read_only);
  copy("propagation", mount.propagation);
  copy("staged_as", mount.staged_as);
  copy("usage", mount.usage);
  copy("staging_path", mount.staging_path);
  copy("target_path", mount.target_path);
  copy("attach_path", mount.attach_path);
  copy("made_attach_path", mount.made_attach_path);
  copy("attach_mount_id", mount.attach_mount_id);
  copy("until_reboot", mount.until_reboot);
  copy("refusable", mount.refusable);
  copy("boot", mount.boot);
  copy("phase", mount.phase);
  CopyText(copy, "problem", mount.problem);
  copy("source", mount.source);
  copy("is_device", mount.is_device);
  copy("mounted_by", mount.mounted_by);
  copy("repeats", mount.repeats);
  CopyRevisions(copy, mount.revisions);
}

static void CopyFields(FieldCopier& copy, InstanceInfo& instance) {
  copy("type", instance.type);
  copy("name", instance.name);
  copy("version", instance.version);
  copy("socket_path", instance.socket_path);
  copy("instance_id", instance.instance_id);
  copy("provider", instance.provider);
  copy("mount_point", instance.mount_point);
  copy("container_mount_point", instance.container_mount_point);
}

static void CopyFields(FieldCopier& copy, PluginRecord::Bind& bind) {
  copy("source", bind.source);
  copy("target", bind.target);
  copy("read_only", bind.read_only);
  copy("propagation", bind.propagation);
}

static void CopyFields(FieldCopier& copy, PluginRecord::Run& run) {
  copy("kind", run.kind);
  copy("command", run.command);
  copy("image", run.image);
  copy("environment", run.environment);
  copy("engine", run.engine);
  copy("binds", run.binds);
  std::int64_t start_deadline_s = run.start_deadline.count();
  if (copy.HasValue("start_deadline_s")) copy("start_deadline_s", start_deadline_s);
  run.start_deadline = std::chrono::seconds(start_deadline_s);
  if (copy.HasValue("generation")) copy("generation", run.generation);
}

static void CopyFields(FieldCopier& copy, PluginRecord& plugin) {
  copy("name", plugin.name);
  copy("declared_by", plugin.declared_by);
  copy("run", plugin.run);
  copy("endpoint", plugin.endpoint);
  copy("types", plugin.types);
  CopyRevisions(copy, plugin.revisions);
}

namespace {

template <typename Enum>
absl::StatusOr<Enum> ReadEnum(const google::protobuf::EnumDescriptor& type, int number) {
  MOORING_RETURN_IF_ERROR(CheckEnum(type, number));
  return static_cast<Enum>(number);
}

}  // namespace

static void CopyFields(FieldCopier& copy, Event& event) {
  copy("number", event.number);
  copy("time_ms", event.time);
  copy("bad", event.bad);
  copy("kind", event.kind);
  copy("plugin", event.plugin);
  copy("instance", event.instance);
  copy("volume", event.volume);
  copy("allocation", event.allocation);
  CopyText(copy, "text", event.text);
  copy("host", event.host);
}

v1::Volume ToProto(const Volume& volume) { return ToMessage<v1::Volume>(volume); }
v1::Snapshot ToProto(const Snapshot& snapshot) { return ToMessage<v1::Snapshot>(snapshot); }
v1::Claim ToProto(const Claim& claim) { return ToMessage<v1::Claim>(claim); }
v1::Host ToProto(const Host& host) { return ToMessage<v1::Host>(host); }
v1::Attachment ToProto(const AttachmentRecord& mount) { return ToMessage<v1::Attachment>(mount); }
v1::PluginRecord ToProto(const PluginRecord& plugin) { return ToMessage<v1::PluginRecord>(plugin); }
v1::PluginBind ToProto(const PluginRecord::Bind& bind) { return ToMessage<v1::PluginBind>(bind); }
v1::Instance ToProto(const InstanceInfo& instance) { return ToMessage<v1::Instance>(instance); }
v1::VolumeKey ToProto(const VolumeKey& key) { return ToMessage<v1::VolumeKey>(key); }
v1::Event ToProto(const Event& event) { return ToMessage<v1::Event>(event); }

absl::StatusOr<Volume> FromProto(const v1::Volume& message) {
  MOORING_ASSIGN_OR_RETURN(Volume volume, FromMessage<Volume>(message));
  if (volume.mount_options.flags.empty()) volume.flags_left_out = message.mount_flags();
  return volume;
}
absl::StatusOr<Snapshot> FromProto(const v1::Snapshot& message) { return FromMessage<Snapshot>(message); }
absl::StatusOr<Claim> FromProto(const v1::Claim& message) { return FromMessage<Claim>(message); }
absl::StatusOr<Host> FromProto(const v1::Host& message) { return FromMessage<Host>(message); }
absl::StatusOr<AttachmentRecord> FromProto(const v1::Attachment& message) {
  return FromMessage<AttachmentRecord>(message);
}
absl::StatusOr<PluginRecord> FromProto(const v1::PluginRecord& message) { return FromMessage<PluginRecord>(message); }
absl::StatusOr<PluginRecord::Run> FromProto(const v1::PluginRun& message) {
  return FromMessage<PluginRecord::Run>(message);
}
absl::StatusOr<InstanceInfo> FromProto(const v1::Instance& message) { return FromMessage<InstanceInfo>(message); }
absl::StatusOr<Capability> FromProto(const v1::Capability& message) { return FromMessage<Capability>(message); }
absl::StatusOr<VolumeKey> FromProto(const v1::VolumeKey& message) { return FromMessage<VolumeKey>(message); }
absl::StatusOr<Event> FromProto(const v1::Event& message) { return FromMessage<Event>(message); }
absl::StatusOr<MountOptions> FromProto(const v1::MountOptions& message) { return FromMessage<MountOptions>(message); }

absl::StatusOr<AccessMode> FromProto(v1::AccessMode mode) {
  return ReadEnum<AccessMode>(*v1::AccessMode_descriptor(), mode);
}
absl::StatusOr<AttachmentMode> FromProto(v1::AttachmentMode attachment) {
  return ReadEnum<AttachmentMode>(*v1::AttachmentMode_descriptor(), attachment);
}
absl::StatusOr<ClaimMode> FromProto(v1::ClaimMode mode) {
  return ReadEnum<ClaimMode>(*v1::ClaimMode_descriptor(), mode);
}
absl::StatusOr<Propagation> FromProto(v1::Propagation propagation) {
  MOORING_RETURN_IF_ERROR(CheckEnum(*v1::Propagation_descriptor(), propagation));
  return static_cast<Propagation>(propagation + 1);  // v1::Propagation has no kInherit
}

}  // namespace mooring::manager

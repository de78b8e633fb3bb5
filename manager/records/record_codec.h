// Converts records to and from the messages of proto/manager.proto, in which they are stored and sent to callers. The
// messages have no secrets; those of a volume are stored in a message of their own, StoredSecrets.
#pragma once

#include "absl/status/statusor.h"
#include "manager.pb.h"
#include "manager/records/events.h"
#include "manager/records/records.h"

namespace mooring::manager {

v1::Volume ToProto(const Volume& volume);  // with has_secrets, without the secrets
v1::Snapshot ToProto(const Snapshot& snapshot);
v1::Claim ToProto(const Claim& claim);
v1::Host ToProto(const Host& host);
v1::Attachment ToProto(const AttachmentRecord& mount);
v1::PluginRecord ToProto(const PluginRecord& plugin);
v1::PluginBind ToProto(const PluginRecord::Bind& bind);
v1::Instance ToProto(const InstanceInfo& instance);
v1::VolumeKey ToProto(const VolumeKey& key);
v1::Event ToProto(const Event& event);

// INVALID_ARGUMENT: a field is not a value of its enum, or a time that does not fit; nothing else is checked. The
// default attachment mode is file-system, the default namespace "default".
absl::StatusOr<Volume> FromProto(const v1::Volume& message);
absl::StatusOr<Snapshot> FromProto(const v1::Snapshot& message);
absl::StatusOr<Claim> FromProto(const v1::Claim& message);
absl::StatusOr<Host> FromProto(const v1::Host& message);
absl::StatusOr<AttachmentRecord> FromProto(const v1::Attachment& message);
absl::StatusOr<PluginRecord> FromProto(const v1::PluginRecord& message);
absl::StatusOr<PluginRecord::Run> FromProto(const v1::PluginRun& message);
absl::StatusOr<InstanceInfo> FromProto(const v1::Instance& message);
absl::StatusOr<Capability> FromProto(const v1::Capability& message);
absl::StatusOr<VolumeKey> FromProto(const v1::VolumeKey& message);
absl::StatusOr<Event> FromProto(const v1::Event& message);
absl::StatusOr<MountOptions> FromProto(const v1::MountOptions& message);
absl::StatusOr<AccessMode> FromProto(v1::AccessMode mode);
absl::StatusOr<AttachmentMode> FromProto(v1::AttachmentMode attachment);
absl::StatusOr<ClaimMode> FromProto(v1::ClaimMode mode);
absl::StatusOr<Propagation> FromProto(v1::Propagation propagation);

}  // namespace mooring::manager

// Converts records to and from the messages of proto/manager.proto, in which they are stored and sent to callers. The
// messages have no secrets; those of a volume are stored in a message of their own, StoredSecrets.
#ifndef MOORING_MANAGER_RECORDS_RECORD_CODEC_H_
#define MOORING_MANAGER_RECORDS_RECORD_CODEC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "manager.pb.h"
#include "manager/records/records.h"

namespace mooring::manager {

v1::Volume ToProto(const Volume& volume);  // with has_secrets, without the secrets
v1::Claim ToProto(const Claim& claim);
v1::Attachment ToProto(const AttachmentRecord& mount);
v1::PluginRecord ToProto(const PluginRecord& plugin);
v1::Instance ToProto(const InstanceInfo& instance);

// INVALID_ARGUMENT: a field is not a value of its enum; nothing else is checked. Revisions are read, has_secrets is
// not: RecordsStore sets it.
absl::StatusOr<Volume> FromProto(const v1::Volume& message);
absl::StatusOr<Claim> FromProto(const v1::Claim& message);
absl::StatusOr<AttachmentRecord> FromProto(const v1::Attachment& message);
absl::StatusOr<PluginRecord> FromProto(const v1::PluginRecord& message);
absl::StatusOr<InstanceInfo> FromProto(const v1::Instance& message);

// Single values, for requests. The default attachment mode is file-system, the default namespace "default".
absl::StatusOr<AccessMode> FromProto(v1::AccessMode mode);
absl::StatusOr<AttachmentMode> FromProto(v1::AttachmentMode mode);
absl::StatusOr<ClaimMode> FromProto(v1::ClaimMode mode);
absl::StatusOr<PluginType> FromProto(v1::PluginType type);
absl::StatusOr<Propagation> FromProto(v1::Propagation propagation);
absl::StatusOr<Capability> FromProto(const v1::Capability& message);
absl::StatusOr<PluginRecord::Run> FromProto(const v1::PluginRun& message);
absl::StatusOr<PluginRecord::Bind> FromProto(const v1::PluginBind& message);
VolumeKey FromProto(const v1::VolumeKey& message);
MountOptions FromProto(const v1::MountOptions& message);
v1::AccessMode ToProto(AccessMode mode);
v1::AttachmentMode ToProto(AttachmentMode attachment);
v1::ClaimMode ToProto(ClaimMode mode);
v1::PluginType ToProto(PluginType type);
v1::Propagation ToProto(Propagation propagation);
v1::Capability ToProto(const Capability& capability);
v1::PluginRun ToProto(const PluginRecord::Run& run);
v1::PluginBind ToProto(const PluginRecord::Bind& bind);
v1::VolumeKey ToProto(const VolumeKey& key);
v1::MountOptions ToProto(const MountOptions& options);

// Unix time in milliseconds.
std::int64_t ToMs(Time time);
Time FromMs(std::int64_t ms);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_RECORDS_RECORD_CODEC_H_

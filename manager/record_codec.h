// Records as messages of proto/manager.proto: the form in which they are stored and in which callers see them. Of
// secrets a caller never sees anything: only the stored form of a volume's secrets, a message of its own, has them.
#ifndef MOORING_MANAGER_RECORD_CODEC_H_
#define MOORING_MANAGER_RECORD_CODEC_H_

#include "absl/status/statusor.h"
#include "manager.pb.h"
#include "manager/records.h"

namespace mooring::manager {

v1::Volume ToProto(const Volume& volume);  // without secrets
v1::Claim ToProto(const Claim& claim);
v1::Attachment ToProto(const MountRecord& mount);
v1::PluginRecord ToProto(const PluginRecord& plugin);
v1::Instance ToProto(const InstanceInfo& instance);

// INVALID_ARGUMENT names the field that is no value of its enum; nothing else is checked here. Revisions are the
// message's.
absl::StatusOr<Volume> FromProto(const v1::Volume& message);
absl::StatusOr<Claim> FromProto(const v1::Claim& message);
absl::StatusOr<MountRecord> FromProto(const v1::Attachment& message);
absl::StatusOr<PluginRecord> FromProto(const v1::PluginRecord& message);
absl::StatusOr<InstanceInfo> FromProto(const v1::Instance& message);

// Single values, for requests.
absl::StatusOr<AccessMode> FromProto(v1::AccessMode mode);
absl::StatusOr<Attachment> FromProto(v1::AttachmentMode mode);
absl::StatusOr<ClaimMode> FromProto(v1::ClaimMode mode);
absl::StatusOr<PluginType> FromProto(v1::PluginType type);
v1::AccessMode ToProto(AccessMode mode);
v1::AttachmentMode ToProto(Attachment attachment);
v1::ClaimMode ToProto(ClaimMode mode);
v1::PluginType ToProto(PluginType type);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_RECORD_CODEC_H_

// The messages of the API. Parses requests: checks names, and fields of one request that contradict each other. Checks
// against stored records belong to the collaborators.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "manager.pb.h"
#include "manager/attach/attachments.h"
#include "manager/claims/claim_rules.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/records.h"
#include "manager/volumes/volumes.h"

namespace mooring::manager {

absl::StatusOr<VolumeKey> KeyOf(const v1::VolumeKey& key);  // an empty namespace means "default"

// The volume that a request describes. Fields that only the manager sets (state, claims, revisions) are ignored.
absl::StatusOr<Volume> AskedVolume(const v1::Volume& message, const StringMap& secrets);

// The capability that the request names. Without an access mode: the volume's first capability that fits and allows
// `mode`. INVALID_ARGUMENT: the volume has none.
absl::StatusOr<Capability> ChooseCapability(const Volume& volume, const v1::Capability* asked, ClaimMode mode);

// `volume` is the volume that the request names.
absl::StatusOr<ClaimRequest> ParseClaim(const v1::ClaimVolumeRequest& message, const Volume& volume,
                                        const std::string& host);
absl::StatusOr<AttachRequest> ParseAttach(const v1::AttachRequest& message, const Volume& volume);

// How to run a plugin. The engine has the form of DOCKER_HOST, "unix:///run/podman/podman.sock", or is a path.
absl::StatusOr<PluginRecord::Run> ParseRun(const v1::PluginRun& message);

// Records as callers of the API see them: without secrets and mount flags, which may be sensitive.
v1::Volume Shown(const Volume& volume);
v1::Attachment Shown(const AttachmentRecord& mount);
v1::PluginStatus Shown(const PluginStatus& status);

}  // namespace mooring::manager

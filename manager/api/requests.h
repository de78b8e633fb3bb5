// Requests of the API as values of the manager. Names are checked here, at the edge, and so are the words of a request
// that contradict each other; what depends on what is stored is not.
#ifndef MOORING_MANAGER_API_REQUESTS_H_
#define MOORING_MANAGER_API_REQUESTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "manager.pb.h"
#include "manager/attach/attachments.h"
#include "manager/claims/claim_rules.h"
#include "manager/records/records.h"

namespace mooring::manager {

absl::StatusOr<VolumeKey> KeyOf(const v1::VolumeKey& key);  // no namespace is "default"

// A volume as somebody asks for it: what only the manager says (state, claims, revisions) is not taken from them.
absl::StatusOr<Volume> AskedVolume(const v1::Volume& message, const StringMap& secrets);

// The capability asked for. What the request leaves open is that of the volume's first capability which fits and allows
// the mode. INVALID_ARGUMENT: it has none.
absl::StatusOr<Capability> ChooseCapability(const Volume& volume, const v1::Capability* asked, ClaimMode mode);

// `volume` is the one that the request names.
absl::StatusOr<ClaimRequest> ParseClaim(const v1::ClaimVolumeRequest& message, const Volume& volume,
                                        const std::string& host);
absl::StatusOr<AttachRequest> ParseAttach(const v1::AttachRequest& message, const Volume& volume);

// How a plugin is to be run. Its engine is written as DOCKER_HOST is, "unix:///run/podman/podman.sock", or as a path.
absl::StatusOr<PluginRecord::Run> ParseRun(const v1::PluginRun& message);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_API_REQUESTS_H_

// Where each record is in the state. What belongs to all hosts (volumes, claims, snapshots) and what belongs to one
// (its mounts, its plugins) are spaces of their own:
//
//   shared/volumes/<namespace>/<volume>                        Volume, without its secrets
//   shared/secrets/<namespace>/<volume>                        its secrets
//   shared/claims/<namespace>/<volume>/<mode>/<allocation>     Claim
//   hosts/<host>/mounts/<allocation>/<request>                 MountRecord
//   hosts/<host>/plugins/<name>                                PluginRecord
//   hosts/<host>/registry                                      the registry, in its order
//   hosts/<host>/docker/<volume>                               DockerRecord of docker/
//   hosts/<host>/boot                                          the boot that the manager served in last
//
// Names from outside are escaped into one component each (Escape): two different names never meet in one key or path.
#ifndef MOORING_MANAGER_STATE_KEYS_H_
#define MOORING_MANAGER_STATE_KEYS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "manager/records/records.h"

namespace mooring::manager {

// A name of 1 to 255 bytes, valid UTF-8, without control characters: INVALID_ARGUMENT names `field`. Everything else is
// allowed, "../x", spaces and "[0]" too.
absl::Status CheckName(std::string_view field, std::string_view name);

// A name as one component of a path or key, never empty, "." or "..": letters, digits, '-', '_' and '.' that is not
// first stand for themselves, other bytes as %XX. What would be longer than 180 bytes is cut there, and '~' and the
// SHA-256 of the name follow in hex, below NAME_MAX (255): '~' is never the outcome of an escape. Different names,
// different results.
std::string Escape(std::string_view name);

std::string SharedPrefix();                        // of what belongs to all hosts
std::string VolumesPrefix();                       // of all namespaces
std::string VolumesPrefix(const std::string& ns);  // of one
std::string VolumeStateKey(const VolumeKey& volume);
std::string SecretsPrefix();
std::string SecretsStateKey(const VolumeKey& volume);
std::string ClaimsPrefix();
std::string ClaimsPrefix(const VolumeKey& volume);
std::string ClaimStateKey(const VolumeKey& volume, ClaimMode mode, const std::string& allocation);
std::string MountsPrefix(const std::string& host);
std::string MountStateKey(const std::string& host, const std::string& allocation, const std::string& request);
std::string PluginsPrefix(const std::string& host);
std::string PluginStateKey(const std::string& host, const std::string& name);
std::string RegistryStateKey(const std::string& host);
std::string DockerStateKey(const std::string& host, const std::string& volume);
std::string BootStateKey(const std::string& host);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_STATE_KEYS_H_

// The key of each record in the state. Records of all hosts (volumes, snapshots, claims) and records of one host (its
// mounts and plugins) have separate prefixes:
//
//   shared/volumes/<namespace>/<volume>                        Volume, without its secrets
//   shared/secrets/<namespace>/<volume>                        its secrets
//   shared/snapshots/<plugin>/<volume's id>/<name>             Snapshot
//   shared/cluster                                             the id of the shared state
//   shared/new-volumes                                         changes with each volume that gets its external id
//   shared/claims/<namespace>/<volume>/<mode>/<allocation>     Claim
//   shared/hosts/<host>                                        Host
//   shared/moves/<host>                                        progress of a move (MoveNote)
//   live/<host>                                                exists while the lease of that host lasts (Lease)
//
// Under the lease of a host, so only in a store of many hosts:
//
//   shared/controllers/<plugin>/<host>      ControllerOffer: the host can call a controller of the plugin
//   shared/requests/<id>                    ControllerRequest, of the host that waits for its answer
//   shared/request-secrets/<id>             the CSI request, if it has secrets
//   shared/request-workers/<id>             the host that makes the call
//   shared/recoveries/<host>                the host that frees what <host>, which is away, has held
//   shared/events/<host>/<slot>             the newest events of a host
//
//   hosts/<host>/mounts/<allocation>/<request>                 AttachmentRecord
//   hosts/<host>/plugins/<name>                                PluginRecord
//   hosts/<host>/registry                                      the plugin registry, in its order
//   hosts/<host>/docker/<volume>                               DockerRecord of docker/
//   hosts/<host>/cluster                                       the shared state that this host belongs to
//   hosts/<host>/move                                          MoveNote
//   hosts/<host>/boot                                          the last boot in which the manager served
//
// The key of a volume, claim or Docker record contains the volume's name. A commit changes records of one space only:
// shared, or those of one host (records_store.h).
//
// Escape turns each name into one component, so that two different names never share a key or path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "manager/records/records.h"

namespace mooring::manager {

// Checks that a name has 1 to 255 bytes of valid UTF-8 without control characters. Everything else is allowed, also
// "../x", spaces and "[0]". INVALID_ARGUMENT names `field`.
absl::Status CheckName(std::string_view field, std::string_view name);

// Gives a name as one component of a path or key, never empty, "." or "..". Letters, digits, '-', '_' and a '.' that is
// not first stay; other bytes become %XX. A result of more than 180 bytes is cut there, and '~' and the SHA-256 of the
// name in hex follow. So it stays below NAME_MAX (255). Different names give different results, because '~' itself is
// always escaped.
std::string Escape(std::string_view name);

std::string SharedPrefix();  // of the records of all hosts
// The prefixes of the records that `mooring manager migrate` moves; the volumes are last. A host does not join a shared
// state while its local one has such records.
std::vector<std::string> MovedPrefixes();
std::string VolumesPrefix();                       // of all namespaces
std::string VolumesPrefix(const std::string& ns);  // of one namespace
std::string VolumeStateKey(const VolumeKey& volume);
std::string SecretsPrefix();
std::string SecretsStateKey(const VolumeKey& volume);
std::string MountFlagsStateKey(const VolumeKey& volume);  // a secret, too: CSI 1.12, MountVolume.mount_flags
bool IsSecret(std::string_view key);  // a store of many hosts encrypts its value; watches do not show it
std::string NewVolumesKey();
std::string SnapshotsPrefix();
std::string SnapshotsPrefix(const std::string& plugin);
std::string SnapshotStateKey(const std::string& plugin, const std::string& source_volume_id, const std::string& name);
std::string ClusterKey();
std::string ClaimsPrefix();
std::string ClaimsPrefix(const VolumeKey& volume);
std::string ClaimStateKey(const VolumeKey& volume, ClaimMode mode, const std::string& allocation);
std::string HostsPrefix();
std::string HostStateKey(const std::string& host);
std::string MoveProgressKey(const std::string& host);
std::string LivePrefix();
std::string LiveKey(const std::string& host);
std::string ControllersPrefix();
std::string ControllerStateKey(const std::string& plugin, const std::string& host);
std::string RequestsPrefix();
std::string RequestStateKey(const std::string& id);
std::string RequestSecretsKey(const std::string& id);
std::string RequestWorkersPrefix();
std::string RequestWorkerKey(const std::string& id);
std::string RecoveryKey(const std::string& host);
std::string EventsPrefix();
std::string EventsPrefix(const std::string& host);
bool IsOfOneHost(std::string_view key);  // below hosts/: kept on that host, in every kind of store
std::string MountsPrefix(const std::string& host);
std::string MountsPrefix(const std::string& host, const std::string& allocation);
std::string MountStateKey(const std::string& host, const std::string& allocation, const std::string& request);
std::string PluginsPrefix(const std::string& host);
std::string PluginStateKey(const std::string& host, const std::string& name);
std::string RegistryStateKey(const std::string& host);
std::string DockerPrefix(const std::string& host);
std::string DockerStateKey(const std::string& host, const std::string& volume);
std::string JoinedClusterKey(const std::string& host);
std::string MoveNoteKey(const std::string& host);
std::string BootStateKey(const std::string& host);

}  // namespace mooring::manager

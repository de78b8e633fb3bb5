// Parses the options of `docker volume create -d mooring -o KEY=VALUE`. Pure, except that it reads secrets-file.
//
//   size, max-size        as 1GiB; default: the plugin decides
//   plugin                the CSI plugin; default: the manager's --docker-plugin
//   fs-type, mount-flags  ext4; noatime,nosuid
//   access                an access mode; default: single-node-multi-writer if the plugin has it, else
//                         single-node-writer
//   propagation           private, rslave, rshared: whether containers see later mounts below the volume
//   ro                    containers cannot write; "true", "false", or nothing for true
//   from-snapshot         the plugin's id of a snapshot        from-volume   the name of another Docker volume
//   uid, gid, mode        of the root directory: the parameters of these names
//   param.KEY             a parameter of CreateVolume          secret.KEY    a secret
//   secrets-file          a file of KEY=VALUE lines; Docker sees only its name
//
// Case, hyphens and underscores of keys are ignored: fsType, fs_type and fs-type are the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "manager/records/records.h"

namespace mooring::manager {

struct DockerCreateOptions {
  std::uint64_t min_bytes = 0, max_bytes = 0;
  std::string plugin;
  MountOptions mount_options;
  std::optional<AccessMode> access;
  Propagation propagation = Propagation::kPrivate;
  bool read_only = false;
  std::string from_snapshot, from_volume;
  StringMap parameters;
  Secrets secrets;
};

// INVALID_ARGUMENT: each fault, without values of secrets and mount-flags.
absl::StatusOr<DockerCreateOptions> ParseDockerOptions(const StringMap& options);

}  // namespace mooring::manager

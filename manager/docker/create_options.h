// The options of `docker volume create -d mooring -o KEY=VALUE`. Pure, but for the file that secrets-file names.
//
//   size, max-size        1GiB; without: the plugin decides
//   plugin                the CSI plugin; without: the manager's default for Docker
//   fs-type, mount-flags  ext4; noatime,nosuid
//   access                an access mode; without: single-node-multi-writer where the plugin has it, else
//                         single-node-writer
//   propagation           private, rslave, rshared: what is mounted below the volume later, into its containers
//   ro                    containers cannot write; "true", "false", or nothing for true
//   from-snapshot         the plugin's id of a snapshot        from-volume   the name of another Docker volume
//   param.KEY             a parameter of CreateVolume          secret.KEY    a secret
//   secrets-file          a file of KEY=VALUE lines, of which Docker sees only the name
//
// Keys are known whatever their case and however they are hyphenated: fsType, fs_type and fs-type are one.
#ifndef MOORING_MANAGER_DOCKER_CREATE_OPTIONS_H_
#define MOORING_MANAGER_DOCKER_CREATE_OPTIONS_H_

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

// INVALID_ARGUMENT: all that is wrong at once, a line each; never with the value of a secret or of mount-flags.
absl::StatusOr<DockerCreateOptions> ParseDockerOptions(const StringMap& options);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_DOCKER_CREATE_OPTIONS_H_

// A volume as a JSON file (--file volume.json).
//
//   {"id": "db", "namespace": "default", "plugin": "mooring.csi", "size": "10GiB", "limit": "20GiB",
//    "capabilities": [{"access": "single-node-writer", "attachment": "file-system"}],
//    "mount_options": {"fs_type": "ext4", "flags": ["noatime"]}, "parameters": {"pool": "fast"},
//    "required_topologies": [{"zone": "a"}], "secrets": {"key": "…"}, "external_id": "vol-1", "snapshot_id": "snap-1"}
//
// The names are those of Volume in proto/manager.proto. The output of `volume status --json` is valid, too, with its
// constants instead of words.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/flags/secrets.h"
#include "manager.pb.h"

namespace mooring::cli::manager_area {

// Adds the secrets of the file to `secrets`. "-" is the standard input. INVALID_ARGUMENT: a wrong file, or a redacted
// mount flag ("password=***"). No error shows a secret.
absl::StatusOr<manager::v1::Volume> ReadVolumeFile(const std::string& path, Secrets& secrets);

// The same for the text of a file.
absl::StatusOr<manager::v1::Volume> ParseVolume(const std::string& json, Secrets& secrets);

}  // namespace mooring::cli::manager_area

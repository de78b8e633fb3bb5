// The options of a Docker volume that CSI has no field for. Stored under hosts/<host>/docker/<volume>; only the volume
// driver writes them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/records/records.h"
#include "manager/state/state.h"

namespace mooring::manager {

struct DockerRecord {
  bool read_only = false;
  Propagation propagation = Propagation::kPrivate;
  std::int64_t volume_create_revision = 0;  // StoreDockerRecord sets it
};

// The defaults if nothing is stored for this volume. A record of an earlier volume with the same name is ignored.
absl::StatusOr<DockerRecord> LoadDockerRecord(State& state, const std::string& host, const Volume& volume);
absl::Status StoreDockerRecord(State& state, const std::string& host, const Volume& volume, DockerRecord record);
absl::Status RemoveDockerRecord(State& state, const std::string& host, const Volume& volume);

}  // namespace mooring::manager

// What Docker's user asked of a volume that CSI has no place for. Under hosts/<host>/docker/<volume>; written by the
// volume driver alone.
#ifndef MOORING_MANAGER_DOCKER_DOCKER_RECORD_H_
#define MOORING_MANAGER_DOCKER_DOCKER_RECORD_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/records/records.h"
#include "manager/state/state.h"

namespace mooring::manager {

struct DockerRecord {
  bool read_only = false;
  Propagation propagation = Propagation::kPrivate;
};

// Of this very volume: what was kept for one that had its name before is not it. None was kept: the defaults.
absl::StatusOr<DockerRecord> LoadDockerRecord(State& state, const std::string& host, const Volume& volume);
absl::Status StoreDockerRecord(State& state, const std::string& host, const Volume& volume, const DockerRecord& record);
absl::Status RemoveDockerRecord(State& state, const std::string& host, const Volume& volume);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_DOCKER_DOCKER_RECORD_H_

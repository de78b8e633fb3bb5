// Steps of a move that both directions have.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/migrate/migration.h"
#include "manager/migrate/moved_records.h"

namespace mooring::manager {

// FAILED_PRECONDITION lists the records that `there` has with another value. `where`: "etcd".
absl::Status RefuseConflicts(const MovedRecords& records, const std::map<std::string, KeyValue>& there,
                             std::string_view where);

// FAILED_PRECONDITION: lists `problems`, if there are any.
absl::Status RefuseAll(std::string_view why, const std::vector<std::string>& problems, std::string_view what_to_do);

// The id of the shared state.
absl::StatusOr<std::string> ClusterOf(State& shared);

// The puts that keep the options of Docker volumes with their volumes. `after`: the create revision of the copy.
absl::StatusOr<std::vector<Transaction::Put>> DockerPuts(
    const MoveEnds& ends, const MovedRecords& before, const std::function<std::int64_t(const std::string& key)>& after);

// Repeats `move` while another host changes the shared state between its reads and commits.
absl::StatusOr<MovedCounts> Repeat(const std::function<absl::StatusOr<MovedCounts>()>& move);

}  // namespace mooring::manager

// The records that are moved between two states: volumes, their secrets, claims, and snapshots. Values are copied as
// they are. And the steps of a move that both directions have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/state/state.h"

namespace mooring::manager {

// The records of each volume, by "<namespace>/<volume>" as in the keys: its claims, its secrets, and last the volume.
// Beside them the snapshots, by "<plugin>/<volume's id>".
using MovedRecords = std::map<std::string, std::vector<KeyValue>>;

absl::StatusOr<MovedRecords> ReadMovedRecords(State& state);

std::map<std::string, KeyValue> ByKey(const MovedRecords& records);

// The records that one transaction copies or deletes. The records of a volume are in one batch if they fit. Otherwise
// its claims are in earlier batches: so no host sees a volume without its claims.
struct Batch {
  std::vector<KeyValue> values;
  std::string complete;  // the last volume that has no records in later batches; empty: none yet
};
inline constexpr std::size_t kMostKeysOfBatch = 100;           // etcd takes 125 in a transaction
inline constexpr std::size_t kMostBytesOfBatch = 1024 * 1024;  // etcd takes 1.5 MB
std::vector<Batch> InBatches(const MovedRecords& records);

struct MoveEnds {
  State& local;   // the lock of the state is held, so no manager runs on this host
  State& shared;  // with the lease of this host
  std::string host;
};

struct MovedCounts {
  std::size_t volumes = 0, claims = 0;
};
MovedCounts CountsOf(const MovedRecords& records);

// "volume 'db'", "the secrets of volume 'db'", "the claim of volume 'db' to write for 'web-1'", "snapshot 's' of …"
std::string Describe(const KeyValue& record);

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

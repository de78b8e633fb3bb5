// The records that are moved between two states: volumes, their secrets, and claims. Values are copied as they are.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "manager/state/state.h"

namespace mooring::manager {

// The records of each volume, by "<namespace>/<volume>" as in the keys: its claims, its secrets, and last the volume.
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

struct MovedCounts {
  std::size_t volumes = 0, claims = 0;
};
MovedCounts CountsOf(const MovedRecords& records);

// "volume 'db'", "the secrets of volume 'db'", "the claim of volume 'db' to write for 'web-1'"
std::string Describe(const KeyValue& record);

}  // namespace mooring::manager

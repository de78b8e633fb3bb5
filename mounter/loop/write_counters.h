// The kernel's statistics of a block device tell whether it was written to between two moments.
#ifndef MOORING_MOUNTER_LOOP_WRITE_COUNTERS_H_
#define MOORING_MOUNTER_LOOP_WRITE_COUNTERS_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace mooring {

struct WriteCounters {
  std::uint64_t in_flight = 0;                  // writes and discards under way
  std::array<std::uint64_t, 6> completed = {};  // requests, merged requests, sectors: of writes, then of discards
};

// `device` is its name in /sys/block. FAILED_PRECONDITION: the statistics are switched off.
absl::StatusOr<WriteCounters> ReadWriteCounters(const std::string& device);

// True: no write took effect between the two moments.
bool NothingWritten(const WriteCounters& before, const WriteCounters& after);

}  // namespace mooring

#endif  // MOORING_MOUNTER_LOOP_WRITE_COUNTERS_H_

// Whether a block device was written to between two moments, by the statistics that the kernel keeps of it.
#ifndef MOORING_MOUNTER_LOOP_WRITE_COUNTERS_H_
#define MOORING_MOUNTER_LOOP_WRITE_COUNTERS_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace mooring {

struct WriteCounters {
  std::uint64_t in_flight = 0;                  // writes and discards that have begun and not ended
  std::array<std::uint64_t, 6> completed = {};  // of writes and discards: requests, merged ones, sectors
};

// `device` is its name in /sys/block. FAILED_PRECONDITION: the statistics are switched off.
absl::StatusOr<WriteCounters> ReadWriteCounters(const std::string& device);

// No write took effect between the two.
bool NothingWritten(const WriteCounters& before, const WriteCounters& after);

}  // namespace mooring

#endif  // MOORING_MOUNTER_LOOP_WRITE_COUNTERS_H_

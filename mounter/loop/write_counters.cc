#include "mounter/loop/write_counters.h"

#include <fmt/format.h>

#include <cstddef>
#include <fstream>
#include <vector>

#include "base/status.h"

namespace mooring {
namespace {

absl::StatusOr<std::vector<std::uint64_t>> NumbersIn(const std::string& path, std::size_t least) {
  std::ifstream file(path);
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 0; file >> number;) numbers.push_back(number);
  if (numbers.size() >= least) return numbers;
  return FailedPrecondition(fmt::format("{} has no statistics of the device", path));
}

}  // namespace

// The writes under way are read first: a write that ends between the two reads is counted, and one that begins between
// them came later.
absl::StatusOr<WriteCounters> ReadWriteCounters(const std::string& device) {
  const std::string directory = "/sys/block/" + device;
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> kept, NumbersIn(directory + "/queue/iostats", 1));
  if (kept[0] == 0) {
    return FailedPrecondition(
        fmt::format("the statistics of {} are switched off: write 1 to {}/queue/iostats", device, directory));
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> in_flight, NumbersIn(directory + "/inflight", 2));
  constexpr std::size_t kFields = 14;  // Documentation/block/stat.rst, with discards: Linux 4.18
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> stat, NumbersIn(directory + "/stat", kFields));
  return WriteCounters{in_flight[1], {stat[4], stat[5], stat[6], stat[11], stat[12], stat[13]}};
}

bool NothingWritten(const WriteCounters& before, const WriteCounters& after) {
  return after.in_flight == 0 && before.completed == after.completed;
}

}  // namespace mooring

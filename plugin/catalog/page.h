// Reads one page of a list of volumes or snapshots.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/status/statusor.h"
#include "base/status.h"

namespace mooring {

inline constexpr std::size_t kListChunk = 500;  // other reads can run between the chunks of a long list

// `list(after, most)` returns the first `most` records behind the sequence number `after`. `add(record)` takes one
// record and returns its sequence number. `max_entries` 0: all records. Returns `after` of the next page; none: this is
// the last page.
template <typename List, typename Add>
absl::StatusOr<std::optional<std::int64_t>> ReadPage(std::int64_t after, std::size_t max_entries, List list, Add add) {
  std::size_t left = max_entries == 0 ? std::numeric_limits<std::size_t>::max() : max_entries;
  for (;;) {
    const std::size_t wanted = std::min(kListChunk, left);
    MOORING_ASSIGN_OR_RETURN(auto chunk, list(after, wanted + 1));  // one more shows whether there is a next page
    const bool more = chunk.size() > wanted;
    if (more) chunk.pop_back();
    for (auto& record : chunk) after = add(record);
    left -= chunk.size();
    if (!more) return std::optional<std::int64_t>();
    if (left == 0) return std::optional<std::int64_t>(after);
  }
}

}  // namespace mooring

#include "mounter/id_mappings.h"

#include <algorithm>
#include <limits>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"

namespace mooring {
namespace {

constexpr std::size_t kMostRanges = 100;  // the kernel takes a map in one write of less than a page

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool AddMapping(const std::string& text, IdMappings& mappings) {
  std::vector<std::string> parts = Split(text, ':');
  if (parts.size() == 3) parts.insert(parts.begin(), "b");
  if (parts.size() != 4 || (parts[0] != "u" && parts[0] != "g" && parts[0] != "b")) return false;
  const auto disk = ParseWhole<std::uint32_t>(parts[1]), mount = ParseWhole<std::uint32_t>(parts[2]),
             count = ParseWhole<std::uint32_t>(parts[3]);
  if (!disk || !mount || !count || *count == 0) return false;
  if (parts[0] != "g") mappings.users.push_back({*disk, *mount, *count});
  if (parts[0] != "u") mappings.groups.push_back({*disk, *mount, *count});
  return true;
}

// The largest number is no id.
bool Fits(std::uint32_t first, std::uint32_t count) {
  return count <= std::numeric_limits<std::uint32_t>::max() - first;
}

bool Overlap(std::uint32_t one, std::uint32_t ones, std::uint32_t other, std::uint32_t others) {
  return one < other ? other - one < ones : one - other < others;
}

bool IsPossible(const std::vector<IdRange>& ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const IdRange& range = ranges[i];
    if (!Fits(range.disk, range.count) || !Fits(range.mount, range.count)) return false;
    const bool overlaps =
        std::any_of(ranges.begin(), ranges.begin() + static_cast<std::ptrdiff_t>(i), [&range](const IdRange& other) {
          return Overlap(range.disk, range.count, other.disk, other.count) ||
                 Overlap(range.mount, range.count, other.mount, other.count);
        });
    if (overlaps) return false;
  }
  return ranges.size() <= kMostRanges;
}

}  // namespace

absl::StatusOr<IdMappings> ParseIdMappings(const std::string& text) {
  IdMappings mappings;
  for (const std::string& mapping : Split(text, ' ')) {
    if (AddMapping(mapping, mappings)) continue;
    return InvalidArgument("idmap {}: write [u|g|b:]DISK:MOUNT:COUNT, as b:0:100000:65536, with spaces between several",
                           Quote(text));
  }
  if (mappings.users.empty() || mappings.groups.empty()) {
    return InvalidArgument("idmap {}: it maps {} alone, and a mount needs a map of users and one of groups: b: is both",
                           Quote(text), mappings.users.empty() ? "groups" : "users");
  }
  if (IsPossible(mappings.users) && IsPossible(mappings.groups)) return mappings;
  return InvalidArgument("idmap {}: mappings overlap, go beyond the largest id 4294967294, or are more than {}",
                         Quote(text), kMostRanges);
}

absl::Status CheckIdMapOfTasks(const std::string& text) {
  MOORING_ASSIGN_OR_RETURN(const IdMappings mappings, ParseIdMappings(text));
  const auto is_of_host = [](const IdRange& range) { return range.mount < kFirstIdOfTasks; };
  if (std::none_of(mappings.users.begin(), mappings.users.end(), is_of_host) &&
      std::none_of(mappings.groups.begin(), mappings.groups.end(), is_of_host)) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "idmap {}: the ids in the mount are those of a user namespace, from {} on: lower ones are users of the host",
      Quote(text), kFirstIdOfTasks);
}

}  // namespace mooring

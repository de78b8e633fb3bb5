#include "manager/migrate/move_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "base/status.h"
#include "manager/docker/docker_record.h"
#include "manager/state/keys.h"

namespace mooring::manager {

absl::Status RefuseAll(std::string_view why, const std::vector<std::string>& problems, std::string_view what_to_do) {
  if (problems.empty()) return absl::OkStatus();
  return FailedPrecondition("{}: {}: {}", why, fmt::join(problems, "; "), what_to_do);
}

absl::Status RefuseConflicts(const MovedRecords& records, const std::map<std::string, KeyValue>& there,
                             std::string_view where) {
  std::vector<std::string> conflicts;
  for (const auto& [key, record] : ByKey(records)) {
    const auto found = there.find(key);
    if (found != there.end() && found->second.value != record.value) conflicts.push_back(Describe(record));
  }
  return RefuseAll(fmt::format("{} has other records with the same names", where), conflicts,
                   "delete or deregister one of the two, and repeat the command");
}

absl::StatusOr<std::string> ClusterOf(State& shared) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> cluster, shared.Get(ClusterKey()));
  if (!cluster) return Unavailable("the shared state has no id yet: try again when it answers");
  return cluster->value;
}

absl::StatusOr<std::vector<Transaction::Put>> DockerPuts(
    const MoveEnds& ends, const MovedRecords& before,
    const std::function<std::int64_t(const std::string& key)>& after) {
  std::map<std::string, RenumberedVolume> volumes;
  for (const auto& [key, record] : ByKey(before)) {
    if (!key.starts_with(VolumesPrefix(kDockerNamespace))) continue;
    volumes[key] = {.before = record.create_revision, .after = after(key)};
  }
  return RenumberDockerRecords(ends.local, ends.host, volumes);
}

absl::StatusOr<MovedCounts> Repeat(const std::function<absl::StatusOr<MovedCounts>()>& move) {
  constexpr int kTries = 10;
  absl::StatusOr<MovedCounts> moved = move();
  for (int tries = 1; tries < kTries && absl::IsAborted(moved.status()); ++tries) moved = move();
  return moved;
}

}  // namespace mooring::manager

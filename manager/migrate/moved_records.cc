#include "manager/migrate/moved_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager.pb.h"
#include "manager/docker/docker_record.h"
#include "manager/records/names.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

// "<namespace>/<volume>" of a key of a volume, its secrets, or one of its claims; "<plugin>/<volume's id>" of that of a
// snapshot.
std::string VolumeOf(const std::string& key, const std::string& prefix) {
  const std::size_t volume = key.find('/', prefix.size()) + 1;
  return key.substr(prefix.size(), key.find('/', volume) - prefix.size());
}

std::size_t BytesOf(const KeyValue& value) { return value.key.size() + value.value.size(); }

class Packer {
 public:
  void Add(const std::string& volume, const std::vector<KeyValue>& values) {
    std::size_t bytes = 0;
    for (const KeyValue& value : values) bytes += BytesOf(value);
    if (!Fits(values.size(), bytes)) Flush();
    for (const KeyValue& value : values) {
      if (!Fits(1, BytesOf(value))) Flush();
      batch_.values.push_back(value);
      bytes_ += BytesOf(value);
    }
    batch_.complete = volume;
  }

  std::vector<Batch> Finish() {
    Flush();
    return std::move(batches_);
  }

 private:
  bool Fits(std::size_t keys, std::size_t bytes) const {
    return batch_.values.size() + keys <= kMostKeysOfBatch && bytes_ + bytes <= kMostBytesOfBatch;
  }

  void Flush() {
    if (batch_.values.empty()) return;
    batches_.push_back(std::move(batch_));
    batch_ = {.values = {}, .complete = batches_.back().complete};
    bytes_ = 0;
  }

  std::vector<Batch> batches_;
  Batch batch_;
  std::size_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<MovedRecords> ReadMovedRecords(State& state) {
  MovedRecords records;
  for (const std::string& prefix : MovedPrefixes()) {
    MOORING_ASSIGN_OR_RETURN(Listing listing, state.List(prefix));
    for (KeyValue& value : listing.values) {
      if (!value.problem.empty()) return FailedPrecondition(value.problem);
      std::vector<KeyValue>& of_volume = records[VolumeOf(value.key, prefix)];
      of_volume.push_back(std::move(value));
    }
  }
  return records;
}

std::map<std::string, KeyValue> ByKey(const MovedRecords& records) {
  std::map<std::string, KeyValue> by_key;
  for (const auto& [volume, values] : records) {
    for (const KeyValue& value : values) by_key.emplace(value.key, value);
  }
  return by_key;
}

std::vector<Batch> InBatches(const MovedRecords& records) {
  Packer packer;
  for (const auto& [volume, values] : records) packer.Add(volume, values);
  return packer.Finish();
}

MovedCounts CountsOf(const MovedRecords& records) {
  MovedCounts counts;
  for (const auto& [volume, values] : records) {
    for (const KeyValue& value : values) {
      if (value.key.starts_with(VolumesPrefix())) ++counts.volumes;
      if (value.key.starts_with(ClaimsPrefix())) ++counts.claims;
    }
  }
  return counts;
}

std::string Describe(const KeyValue& record) {
  v1::Volume volume;
  if (record.key.starts_with(VolumesPrefix()) && volume.ParseFromString(record.value)) {
    if (const auto key = FromProto(volume.key()); key.ok()) return "volume " + ToString(*key);
  }
  v1::Claim message;
  if (record.key.starts_with(ClaimsPrefix()) && message.ParseFromString(record.value)) {
    if (const auto claim = FromProto(message); claim.ok()) {
      return fmt::format("the claim of volume {} to {} for {}", ToString(claim->volume), ToString(claim->mode),
                         Quote(claim->allocation));
    }
  }
  v1::Snapshot snapshot;
  if (record.key.starts_with(SnapshotsPrefix()) && snapshot.ParseFromString(record.value)) {
    return fmt::format("snapshot {} of plugin {}", Quote(snapshot.name()), Quote(snapshot.plugin()));
  }
  if (record.key.starts_with(SecretsPrefix())) {
    return "the secrets of volume " + Quote(record.key.substr(SecretsPrefix().size()));
  }
  return "the record " + Quote(record.key);
}

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

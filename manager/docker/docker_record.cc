#include "manager/docker/docker_record.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/status.h"
#include "manager/state/keys.h"
#include "mounter/propagation.h"

namespace mooring::manager {
namespace {

using Json = nlohmann::json;

// No message of proto/manager.proto: only Docker's front end reads it.
constexpr char kReadOnly[] = "read_only";
constexpr char kPropagation[] = "propagation";
constexpr char kVolume[] = "volume_create_revision";

}  // namespace

absl::StatusOr<DockerRecord> LoadDockerRecord(State& state, const std::string& host, const Volume& volume) {
  const std::string key = DockerStateKey(host, volume.key.id);
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, state.Get(key));
  if (!stored) return DockerRecord();
  const Json json = Json::parse(stored->value, nullptr, false);
  if (!json.is_object()) return Internal(fmt::format("the record {} is damaged", key));
  if (json.value(kVolume, std::int64_t{0}) != volume.revisions.create) return DockerRecord();
  MOORING_ASSIGN_OR_RETURN(const Propagation propagation, ParsePropagation(json.value(kPropagation, "")));
  return DockerRecord{.read_only = json.value(kReadOnly, false), .propagation = propagation};
}

absl::Status StoreDockerRecord(State& state, const std::string& host, const Volume& volume,
                               const DockerRecord& record) {
  const Json json = {
      {kReadOnly, record.read_only}, {kPropagation, ToString(record.propagation)}, {kVolume, volume.revisions.create}};
  Transaction transaction;
  transaction.puts.push_back({DockerStateKey(host, volume.key.id), json.dump()});
  return state.Commit(transaction).status();
}

absl::Status RemoveDockerRecord(State& state, const std::string& host, const Volume& volume) {
  Transaction transaction;
  transaction.deletes.push_back(DockerStateKey(host, volume.key.id));
  return state.Commit(transaction).status();
}

}  // namespace mooring::manager

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

// JSON, not a message of proto/manager.proto: only the volume driver reads it.
constexpr char kReadOnly[] = "read_only";
constexpr char kPropagation[] = "propagation";
constexpr char kVolume[] = "volume_create_revision";

// Unlike Json::value(), does not throw if the value has another type.
template <typename Value>
std::optional<Value> FindField(const Json& json, const char* name, bool (Json::*is)() const noexcept) {
  const auto found = json.find(name);
  if (found == json.end() || !((*found).*is)()) return std::nullopt;
  return found->get<Value>();
}

}  // namespace

absl::StatusOr<DockerRecord> LoadDockerRecord(State& state, const std::string& host, const Volume& volume) {
  const std::string key = DockerStateKey(host, volume.key.id);
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, state.Get(key));
  if (!stored) return DockerRecord();
  const Json json = Json::parse(stored->value, nullptr, false);
  if (!json.is_object()) return Internal(fmt::format("the record {} is damaged", key));
  const auto of_volume = FindField<std::int64_t>(json, kVolume, &Json::is_number_integer);
  const auto read_only = FindField<bool>(json, kReadOnly, &Json::is_boolean);
  const auto word = FindField<std::string>(json, kPropagation, &Json::is_string);
  if (!of_volume || !read_only || !word) return Internal(fmt::format("the record {} is damaged", key));
  if (*of_volume != volume.revisions.create) return DockerRecord();
  MOORING_ASSIGN_OR_RETURN(const Propagation propagation, ParsePropagation(*word));
  return DockerRecord{.read_only = *read_only, .propagation = propagation};
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

#include "manager/docker/docker_record.h"

#include <optional>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager.pb.h"
#include "manager/records/field_copier.h"
#include "manager/state/keys.h"

namespace mooring::manager {

static void CopyFields(FieldCopier& copy, DockerRecord& record) {
  copy("read_only", record.read_only);
  copy("propagation", record.propagation);
  copy("volume_create_revision", record.volume_create_revision);
}

absl::StatusOr<DockerRecord> LoadDockerRecord(State& state, const std::string& host, const Volume& volume) {
  const std::string key = DockerStateKey(host, volume.key.id);
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, state.Get(key));
  if (!stored) return DockerRecord();
  v1::StoredDockerOptions message;
  if (!message.ParseFromString(stored->value)) {
    return Internal("the record {} of the manager's state is damaged", Quote(key));
  }
  if (message.volume_create_revision() != volume.revisions.create) return DockerRecord();
  return FromMessage<DockerRecord>(message);
}

absl::Status StoreDockerRecord(State& state, const std::string& host, const Volume& volume, DockerRecord record) {
  record.volume_create_revision = volume.revisions.create;
  const auto message = ToMessage<v1::StoredDockerOptions>(record);
  Transaction transaction;
  transaction.puts.push_back({DockerStateKey(host, volume.key.id), message.SerializeAsString()});
  return state.Commit(transaction).status();
}

absl::StatusOr<std::vector<Transaction::Put>> RenumberDockerRecords(
    State& local, const std::string& host, const std::map<std::string, RenumberedVolume>& volumes) {
  MOORING_ASSIGN_OR_RETURN(const Listing records, local.List(DockerPrefix(host)));
  std::vector<Transaction::Put> puts;
  for (const KeyValue& stored : records.values) {
    const std::string name = stored.key.substr(DockerPrefix(host).size());
    const auto volume = volumes.find(VolumesPrefix(kDockerNamespace) + name);
    v1::StoredDockerOptions message;
    if (!message.ParseFromString(stored.value)) {
      return Internal("the record {} of the manager's state is damaged", Quote(stored.key));
    }
    if (volume == volumes.end() || message.volume_create_revision() != volume->second.before) continue;
    message.set_volume_create_revision(volume->second.after);
    puts.push_back({.key = stored.key, .value = message.SerializeAsString()});
  }
  return puts;
}

absl::Status RemoveDockerRecord(State& state, const std::string& host, const Volume& volume) {
  Transaction transaction;
  transaction.deletes.push_back(DockerStateKey(host, volume.key.id));
  return state.Commit(transaction).status();
}

}  // namespace mooring::manager

#include "manager/docker/docker_record.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager.pb.h"
#include "manager/records/field_copier.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"
#include "mounter/propagation.h"

namespace mooring::manager {
namespace {

using Json = nlohmann::json;

std::string_view WordOf(AttachmentRecord::Phase phase) {
  switch (phase) {
    case AttachmentRecord::Phase::kIntent:
      return "attaching";
    case AttachmentRecord::Phase::kMounted:
      return "attached";
    case AttachmentRecord::Phase::kUnmounting:
      return "detaching";
  }
  return "";
}

void PutWord(Json& into, const char* key, const std::string& word) {
  if (!word.empty()) into[key] = word;
}

Json AccessModes(const Volume& volume) {
  Json modes = Json::array();
  for (const Capability& capability : volume.capabilities) modes.push_back(std::string(ToString(capability.access)));
  return modes;
}

// For example "nodes 1/1, controllers 0/1; plugin-1: Probe: out of paper".
Json Health(const std::optional<PluginStatus>& plugin) {
  if (!plugin) return "not registered: see mooring plugin status";
  std::string text = fmt::format("nodes {}/{}", plugin->nodes.healthy, plugin->nodes.expected);
  if (plugin->controllers.expected > 0) {
    text += fmt::format(", controllers {}/{}", plugin->controllers.healthy, plugin->controllers.expected);
  }
  for (const InstanceStatus& instance : plugin->instances) {
    if (!instance.fingerprint.problem.empty()) {
      text += fmt::format("; {}: {}", instance.instance.instance_id, instance.fingerprint.problem);
    }
  }
  return text;
}

Json ClaimStatus(const Claim& claim) {
  Json status = {{"For", claim.allocation}, {"Mode", ToString(claim.mode)}, {"State", ToString(claim.state)}};
  PutWord(status, "Node", claim.node);
  PutWord(status, "Problem", claim.problem);
  if (claim.past) status["Past"] = true;
  return status;
}

Json AttachmentStatus(const AttachmentRecord& mount) {
  Json status = {{"For", mount.allocation}, {"State", WordOf(mount.phase)}, {"ReadOnly", mount.read_only}};
  PutWord(status, "Path", mount.attach_path.empty() ? mount.source : mount.attach_path);
  PutWord(status, "Problem", mount.problem);
  return status;
}

}  // namespace

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

Json DockerStatusOf(const DockerVolumeFacts& facts) {
  const Volume& volume = facts.volume;
  Json status = {{"Plugin", volume.plugin},
                 {"PluginHealth", Health(facts.plugin)},
                 {"State", ToString(volume.state)},
                 {"Access", AccessModes(volume)},
                 {"ReadOnly", facts.record.read_only},
                 {"Propagation", ToString(facts.record.propagation)},
                 {"Claims", Json::array()},
                 {"Attachments", Json::array()}};
  PutWord(status, "ExternalID", volume.external_id);
  PutWord(status, "FsType", volume.mount_options.fs_type);
  PutWord(status, "FromSnapshot", volume.snapshot_id);
  PutWord(status, "FromVolume", volume.clone_id);
  if (volume.capacity_bytes > 0) status["CapacityBytes"] = volume.capacity_bytes;
  if (volume.exhausted_at) status["Exhausted"] = volume.exhausted_words;
  for (const Claim& claim : facts.claims) status["Claims"].push_back(ClaimStatus(claim));
  for (const AttachmentRecord& mount : facts.attachments) status["Attachments"].push_back(AttachmentStatus(mount));
  return status;
}

}  // namespace mooring::manager

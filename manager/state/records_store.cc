#include "manager/state/records_store.h"

#include <fmt/format.h>
#include <google/protobuf/message_lite.h>

#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/records/names.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

absl::Status Unreadable(const std::string& key, std::string_view why) {
  return Internal(fmt::format("the record {} of the manager's state cannot be read: {}", Quote(key), why));
}

template <typename Message>
absl::StatusOr<Message> Parse(const KeyValue& stored) {
  Message message;
  if (!message.ParseFromString(stored.value)) return Unreadable(stored.key, "it is not a message of the expected type");
  return message;
}

// The revisions come from the key, because the message was written before they were known.
template <typename Message>
auto Decode(const KeyValue& stored, const Message& message) -> decltype(FromProto(message)) {
  auto record = FromProto(message);
  if (!record.ok()) return Unreadable(stored.key, mooring::Message(record.status()));
  record->revisions = {.create = stored.create_revision, .modify = stored.modify_revision};
  return record;
}

template <typename Message>
auto Decode(const KeyValue& stored) -> decltype(FromProto(Message())) {
  MOORING_ASSIGN_OR_RETURN(const Message message, Parse<Message>(stored));
  return Decode(stored, message);
}

template <typename Record>
absl::StatusOr<std::vector<Record>> DecodeAll(const absl::StatusOr<Listing>& listing,
                                              absl::StatusOr<Record> (*decode)(const KeyValue&)) {
  MOORING_RETURN_IF_ERROR(listing.status());
  std::vector<Record> records;
  records.reserve(listing->values.size());
  for (const KeyValue& stored : listing->values) {
    MOORING_ASSIGN_OR_RETURN(Record record, decode(stored));
    records.push_back(std::move(record));
  }
  return records;
}

bool IsShared(const std::string& key) { return key.rfind("shared/", 0) == 0; }

bool IsOfOneSpace(const Transaction& transaction) {
  bool shared = false, of_host = false;
  for (const auto& put : transaction.puts) (IsShared(put.key) ? shared : of_host) = true;
  for (const auto& key : transaction.deletes) (IsShared(key) ? shared : of_host) = true;
  for (const auto& compare : transaction.compares) (IsShared(compare.key) ? shared : of_host) = true;
  return !(shared && of_host);
}

}  // namespace

void Changes::PutAt(const std::string& key, std::int64_t read_at, const google::protobuf::MessageLite& message) {
  transaction_.compares.push_back({.key = key, .modify_revision = read_at});
  transaction_.puts.push_back({.key = key, .value = message.SerializeAsString()});
}

void Changes::DeleteAt(const std::string& key, std::int64_t read_at) {
  transaction_.compares.push_back({.key = key, .modify_revision = read_at});
  transaction_.deletes.push_back(key);
}

// The secrets need no compare of their own, because they change only together with their volume.
Changes& Changes::Put(const Volume& volume) {
  PutAt(VolumeStateKey(volume.key), volume.revisions.modify, ToProto(volume));
  if (!volume.secrets.empty()) {
    v1::StoredSecrets secrets;
    volume.secrets.CopyTo(*secrets.mutable_secrets());
    transaction_.puts.push_back({.key = SecretsStateKey(volume.key), .value = secrets.SerializeAsString()});
  } else if (!volume.has_secrets) {
    transaction_.deletes.push_back(SecretsStateKey(volume.key));
  }
  return *this;
}

Changes& Changes::Put(const Claim& claim) {
  PutAt(ClaimStateKey(claim.volume, claim.mode, claim.allocation), claim.revisions.modify, ToProto(claim));
  return *this;
}

Changes& Changes::Put(const std::string& host, const AttachmentRecord& mount) {
  PutAt(MountStateKey(host, mount.allocation, mount.request), mount.revisions.modify, ToProto(mount));
  return *this;
}

Changes& Changes::Put(const std::string& host, const PluginRecord& plugin) {
  PutAt(PluginStateKey(host, plugin.name), plugin.revisions.modify, ToProto(plugin));
  return *this;
}

Changes& Changes::Delete(const Volume& volume) {
  DeleteAt(VolumeStateKey(volume.key), volume.revisions.modify);
  transaction_.deletes.push_back(SecretsStateKey(volume.key));
  return *this;
}

Changes& Changes::Delete(const Claim& claim) {
  DeleteAt(ClaimStateKey(claim.volume, claim.mode, claim.allocation), claim.revisions.modify);
  return *this;
}

Changes& Changes::Delete(const std::string& host, const AttachmentRecord& mount) {
  DeleteAt(MountStateKey(host, mount.allocation, mount.request), mount.revisions.modify);
  return *this;
}

Changes& Changes::Delete(const std::string& host, const PluginRecord& plugin) {
  DeleteAt(PluginStateKey(host, plugin.name), plugin.revisions.modify);
  return *this;
}

Changes& Changes::With(Durability durability) {
  transaction_.durability = durability;
  return *this;
}

absl::StatusOr<Volume> RecordsStore::VolumeIn(const KeyValue& stored) {
  MOORING_ASSIGN_OR_RETURN(const v1::Volume message, Parse<v1::Volume>(stored));
  MOORING_ASSIGN_OR_RETURN(Volume volume, Decode(stored, message));
  volume.has_secrets = message.has_secrets();
  return volume;
}

absl::StatusOr<Claim> RecordsStore::ClaimIn(const KeyValue& stored) { return Decode<v1::Claim>(stored); }

// Reads twice. If the volume changes in between, a later Put of it is refused.
absl::StatusOr<Volume> RecordsStore::GetVolume(const VolumeKey& key) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, state_.Get(VolumeStateKey(key)));
  if (!stored) return NotFound(fmt::format("there is no volume {}", ToString(key)));
  MOORING_ASSIGN_OR_RETURN(Volume volume, VolumeIn(*stored));
  if (!volume.has_secrets) return volume;
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> secrets, state_.Get(SecretsStateKey(key)));
  if (!secrets) return volume;
  MOORING_ASSIGN_OR_RETURN(const v1::StoredSecrets message, Parse<v1::StoredSecrets>(*secrets));
  volume.secrets = Secrets({message.secrets().begin(), message.secrets().end()});
  return volume;
}

absl::StatusOr<PluginRecord> RecordsStore::GetPlugin(const std::string& host, const std::string& name) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, state_.Get(PluginStateKey(host, name)));
  if (!stored) return NotFound(fmt::format("there is no plugin {}", Quote(name)));
  return Decode<v1::PluginRecord>(*stored);
}

absl::StatusOr<std::vector<Volume>> RecordsStore::ListVolumes(const std::string& ns) {
  return DecodeAll<Volume>(state_.List(ns.empty() ? VolumesPrefix() : VolumesPrefix(ns)), VolumeIn);
}

absl::StatusOr<std::vector<Claim>> RecordsStore::ListClaims() {
  return DecodeAll<Claim>(state_.List(ClaimsPrefix()), ClaimIn);
}

absl::StatusOr<std::vector<Claim>> RecordsStore::ListClaims(const VolumeKey& volume) {
  return DecodeAll<Claim>(state_.List(ClaimsPrefix(volume)), ClaimIn);
}

absl::StatusOr<std::vector<AttachmentRecord>> RecordsStore::ListMounts(const std::string& host) {
  return DecodeAll<AttachmentRecord>(state_.List(MountsPrefix(host)), Decode<v1::Attachment>);
}

absl::StatusOr<std::vector<PluginRecord>> RecordsStore::ListPlugins(const std::string& host) {
  return DecodeAll<PluginRecord>(state_.List(PluginsPrefix(host)), Decode<v1::PluginRecord>);
}

absl::StatusOr<std::int64_t> RecordsStore::Commit(const Changes& changes) {
  if (!IsOfOneSpace(changes.transaction())) {
    return Internal("records of all hosts and records of one host cannot be changed in one transaction");
  }
  return state_.Commit(changes.transaction());
}

}  // namespace mooring::manager

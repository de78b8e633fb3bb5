#include "manager/state/records_store.h"

#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/records/names.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

absl::Status Unreadable(const std::string& key, std::string_view why) {
  return Internal("the record {} of the manager's state cannot be read: {}", Quote(key), why);
}

template <typename Message>
absl::StatusOr<Message> Parse(const KeyValue& stored) {
  Message message;
  if (!message.ParseFromString(stored.value)) return Unreadable(stored.key, "it is not a message of the expected type");
  return message;
}

// The revisions come from the key, because the message was written before they were known.
template <typename Message>
auto Decode(const KeyValue& stored) -> decltype(FromProto(Message())) {
  MOORING_ASSIGN_OR_RETURN(const Message message, Parse<Message>(stored));
  auto record = FromProto(message);
  if (!record.ok()) return Unreadable(stored.key, mooring::Message(record.status()));
  record->revisions = {.create = stored.create_revision, .modify = stored.modify_revision};
  return record;
}

template <typename Message, typename Record>
absl::StatusOr<std::vector<Record>> DecodeAll(const absl::StatusOr<Listing>& listing) {
  MOORING_RETURN_IF_ERROR(listing.status());
  std::vector<Record> records;
  records.reserve(listing->values.size());
  for (const KeyValue& stored : listing->values) {
    MOORING_ASSIGN_OR_RETURN(records.emplace_back(), Decode<Message>(stored));
  }
  return records;
}

absl::StatusOr<Secrets> DecodeSecrets(const KeyValue& stored) {
  MOORING_ASSIGN_OR_RETURN(const v1::StoredSecrets message, Parse<v1::StoredSecrets>(stored));
  return Secrets({message.secrets().begin(), message.secrets().end()});
}

// From the values of the volume, its secrets and its claims, as far as they were read.
absl::StatusOr<VolumeUse> ToVolumeUse(const VolumeKey& key, const Listing& found) {
  VolumeUse use;
  const KeyValue* secrets = nullptr;
  for (const KeyValue& value : found.values) {
    if (value.key == VolumeStateKey(key)) {
      MOORING_ASSIGN_OR_RETURN(use.volume, Decode<v1::Volume>(value));
    } else if (value.key == SecretsStateKey(key)) {
      secrets = &value;
    } else {
      MOORING_ASSIGN_OR_RETURN(use.claims.emplace_back(), Decode<v1::Claim>(value));
    }
  }
  if (!use.volume || !use.volume->has_secrets || secrets == nullptr) return use;
  MOORING_ASSIGN_OR_RETURN(use.volume->secrets, DecodeSecrets(*secrets));
  return use;
}

std::string KeyOf(const Claim& claim) { return ClaimStateKey(claim.volume, claim.mode, claim.allocation); }
std::string KeyOf(const std::string& host, const AttachmentRecord& mount) {
  return MountStateKey(host, mount.allocation, mount.request);
}
std::string KeyOf(const std::string& host, const PluginRecord& plugin) { return PluginStateKey(host, plugin.name); }

std::string KeyOf(const Host& host) { return HostStateKey(host.name); }

enum class Space { kShared, kLocal, kBoth };

Space SpaceOf(const Transaction& transaction) {
  bool shared = false, local = false;
  const auto note = [&](const std::string& key) { (IsOfOneHost(key) ? local : shared) = true; };
  for (const auto& put : transaction.puts) note(put.key);
  for (const auto& key : transaction.deletes) note(key);
  for (const auto& compare : transaction.compares) note(compare.key);
  if (shared && local) return Space::kBoth;
  return local ? Space::kLocal : Space::kShared;
}

}  // namespace

template <typename Record>
Changes& Changes::PutAt(const std::string& key, const Record& record) {
  transaction_.compares.push_back({.key = key, .modify_revision = record.revisions.modify});
  transaction_.puts.push_back({.key = key, .value = ToProto(record).SerializeAsString()});
  return *this;
}

template <typename Record>
Changes& Changes::DeleteAt(const std::string& key, const Record& record) {
  transaction_.compares.push_back({.key = key, .modify_revision = record.revisions.modify});
  transaction_.deletes.push_back(key);
  return *this;
}

// The secrets need no compare of their own, because they change only together with their volume.
Changes& Changes::Put(const Volume& volume) {
  PutAt(VolumeStateKey(volume.key), volume);
  if (!volume.secrets.empty()) {
    v1::StoredSecrets secrets;
    volume.secrets.CopyTo(*secrets.mutable_secrets());
    transaction_.puts.push_back({.key = SecretsStateKey(volume.key), .value = secrets.SerializeAsString()});
  } else if (!volume.has_secrets) {
    transaction_.deletes.push_back(SecretsStateKey(volume.key));
  }
  return *this;
}

Changes& Changes::Delete(const Volume& volume) {
  transaction_.deletes.push_back(SecretsStateKey(volume.key));
  return DeleteAt(VolumeStateKey(volume.key), volume);
}

Changes& Changes::Put(const Host& host) { return PutAt(KeyOf(host), host); }
Changes& Changes::Put(const Claim& claim) { return PutAt(KeyOf(claim), claim); }
Changes& Changes::Put(const std::string& host, const AttachmentRecord& mount) {
  return PutAt(KeyOf(host, mount), mount);
}
Changes& Changes::Put(const std::string& host, const PluginRecord& plugin) {
  return PutAt(KeyOf(host, plugin), plugin);
}
Changes& Changes::Delete(const Host& host) { return DeleteAt(KeyOf(host), host); }
Changes& Changes::Delete(const Claim& claim) { return DeleteAt(KeyOf(claim), claim); }
Changes& Changes::Delete(const std::string& host, const AttachmentRecord& mount) {
  return DeleteAt(KeyOf(host, mount), mount);
}
Changes& Changes::Delete(const std::string& host, const PluginRecord& plugin) {
  return DeleteAt(KeyOf(host, plugin), plugin);
}

Changes& Changes::If(const std::string& key, std::int64_t modify_revision) {
  transaction_.compares.push_back({.key = key, .modify_revision = modify_revision});
  return *this;
}

Changes& Changes::IfAndTouch(const std::string& key, std::int64_t modify_revision) {
  transaction_.puts.push_back({.key = key, .value = ""});
  return If(key, modify_revision);
}

Changes& Changes::With(Durability durability) {
  transaction_.durability = durability;
  return *this;
}

// Reads twice if there are secrets. If the volume changes in between, a later Put of it is refused.
absl::StatusOr<Volume> RecordsStore::GetVolume(const VolumeKey& key) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, shared_.Get(VolumeStateKey(key)));
  if (!stored) return NotFound("there is no volume {}", ToString(key));
  MOORING_ASSIGN_OR_RETURN(Volume volume, Decode<v1::Volume>(*stored));
  if (!volume.has_secrets) return volume;
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> secrets, shared_.Get(SecretsStateKey(key)));
  if (!secrets) return volume;
  MOORING_ASSIGN_OR_RETURN(volume.secrets, DecodeSecrets(*secrets));
  return volume;
}

absl::StatusOr<VolumeUse> RecordsStore::GetVolumeUse(const VolumeKey& key, Freshness freshness) {
  MOORING_ASSIGN_OR_RETURN(const Listing found,
                           shared_.Read({VolumeStateKey(key), SecretsStateKey(key)}, ClaimsPrefix(key), freshness));
  return ToVolumeUse(key, found);
}

absl::StatusOr<PluginRecord> RecordsStore::GetPlugin(const std::string& host, const std::string& name) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, local_.Get(PluginStateKey(host, name)));
  if (!stored) return NotFound("there is no plugin {}", Quote(name));
  return Decode<v1::PluginRecord>(*stored);
}

absl::StatusOr<std::vector<Volume>> RecordsStore::ListVolumes(const std::string& ns) {
  return DecodeAll<v1::Volume, Volume>(shared_.List(ns.empty() ? VolumesPrefix() : VolumesPrefix(ns)));
}

absl::StatusOr<std::vector<Claim>> RecordsStore::ListClaims() {
  return DecodeAll<v1::Claim, Claim>(shared_.List(ClaimsPrefix()));
}

absl::StatusOr<std::vector<Claim>> RecordsStore::ListClaims(const std::function<bool(const Claim&)>& wanted) {
  constexpr int kTries = 3;
  std::vector<Claim> claims;
  const auto add = [&](const KeyValue& stored) {
    MOORING_ASSIGN_OR_RETURN(Claim claim, Decode<v1::Claim>(stored));
    if (wanted(claim)) claims.push_back(std::move(claim));
    return absl::OkStatus();
  };
  absl::Status status = shared_.Visit(ClaimsPrefix(), add);
  for (int tries = 1; tries < kTries && absl::IsOutOfRange(status); ++tries) {
    claims.clear();
    status = shared_.Visit(ClaimsPrefix(), add);
  }
  if (absl::IsOutOfRange(status)) return WithCode(absl::StatusCode::kUnavailable, status);
  MOORING_RETURN_IF_ERROR(status);
  return claims;
}

absl::StatusOr<std::vector<Claim>> RecordsStore::ListClaims(const VolumeKey& volume) {
  return DecodeAll<v1::Claim, Claim>(shared_.List(ClaimsPrefix(volume)));
}

absl::StatusOr<Host> RecordsStore::GetHost(const std::string& name) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, shared_.Get(HostStateKey(name)));
  if (!stored) return NotFound("there is no host {}", Quote(name));
  return Decode<v1::Host>(*stored);
}

absl::StatusOr<std::vector<Host>> RecordsStore::ListHosts() {
  return DecodeAll<v1::Host, Host>(shared_.List(HostsPrefix()));
}

absl::StatusOr<std::vector<AttachmentRecord>> RecordsStore::ListMounts(const std::string& host) {
  return DecodeAll<v1::Attachment, AttachmentRecord>(local_.List(MountsPrefix(host)));
}

absl::StatusOr<std::vector<PluginRecord>> RecordsStore::ListPlugins(const std::string& host) {
  return DecodeAll<v1::PluginRecord, PluginRecord>(local_.List(PluginsPrefix(host)));
}

absl::StatusOr<std::int64_t> RecordsStore::Commit(const Changes& changes) {
  switch (SpaceOf(changes.transaction())) {
    case Space::kShared:
      return shared_.Commit(changes.transaction());
    case Space::kLocal:
      return local_.Commit(changes.transaction());
    case Space::kBoth:
      break;
  }
  return Internal("records of all hosts and records of one host cannot be changed in one transaction");
}

absl::StatusOr<Volume> RecordsStore::PutVolume(Volume volume) {
  MOORING_ASSIGN_OR_RETURN(const std::int64_t revision, Commit(Changes().Put(volume)));
  volume.revisions.SetStored(revision);
  volume.has_secrets = volume.has_secrets || !volume.secrets.empty();
  return volume;
}

absl::StatusOr<Volume> RecordsStore::ChangeVolume(const VolumeKey& key,
                                                  const std::function<absl::StatusOr<bool>(Volume&)>& change) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(Volume volume, GetVolume(key));
    MOORING_ASSIGN_OR_RETURN(const bool is_changed, change(volume));
    if (!is_changed) return volume;
    auto stored = PutVolume(std::move(volume));
    if (!absl::IsAborted(stored.status())) return stored;
  }
}

absl::StatusOr<Host> RecordsStore::ChangeHost(const std::string& name,
                                              const std::function<absl::StatusOr<bool>(Host&)>& change) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(Host host, GetHost(name));
    MOORING_ASSIGN_OR_RETURN(const bool is_changed, change(host));
    if (!is_changed) return host;
    const auto revision = Commit(Changes().Put(host));
    if (absl::IsAborted(revision.status())) continue;
    MOORING_RETURN_IF_ERROR(revision.status());
    host.revisions.SetStored(*revision);
    return host;
  }
}

}  // namespace mooring::manager

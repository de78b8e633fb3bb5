#include "manager/state/records_store.h"

#include <set>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/records/names.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

absl::Status Unreadable(const std::string& key, std::string_view why) {
  return Internal(
      "the record {} of the manager's state cannot be read: {}; restore a copy of the state (docs/backup.md), or "
      "delete this record",
      Quote(key), why);
}

template <typename Message>
absl::StatusOr<Message> Parse(const KeyValue& stored) {
  Message message;
  if (!message.ParseFromString(stored.value)) return Unreadable(stored.key, "it is not a message of the expected type");
  return message;
}

std::string KeyOf(const Claim& claim) { return ClaimStateKey(claim.volume, claim.mode, claim.allocation); }
std::string KeyOf(const std::string& host, const AttachmentRecord& mount) {
  return MountStateKey(host, mount.allocation, mount.request);
}
std::string KeyOf(const std::string& host, const PluginRecord& plugin) { return PluginStateKey(host, plugin.name); }

std::string KeyOf(const Host& host) { return HostStateKey(host.name); }
std::string KeyOf(const Snapshot& snapshot) {
  return SnapshotStateKey(snapshot.plugin, snapshot.source_volume_id, snapshot.name);
}

// The record of a copied or renamed key would be believed to be another one. The key of a record of one host has its
// host's name, which the record has not.
absl::Status CheckKey(const KeyValue& stored, const std::string& key) {
  if (stored.key == key) return absl::OkStatus();
  return Unreadable(stored.key, "it is the record of the key " + Quote(key));
}
absl::Status CheckIsOf(const KeyValue& stored, const Volume& volume) {
  return CheckKey(stored, VolumeStateKey(volume.key));
}
absl::Status CheckIsOf(const KeyValue& stored, const Claim& claim) { return CheckKey(stored, KeyOf(claim)); }
absl::Status CheckIsOf(const KeyValue& stored, const Snapshot& snapshot) { return CheckKey(stored, KeyOf(snapshot)); }
absl::Status CheckIsOf(const KeyValue& stored, const Host& host) { return CheckKey(stored, KeyOf(host)); }
absl::Status CheckIsOf(const KeyValue& /*stored*/, const AttachmentRecord& /*mount*/) { return absl::OkStatus(); }
absl::Status CheckIsOf(const KeyValue& /*stored*/, const PluginRecord& /*plugin*/) { return absl::OkStatus(); }

// The revisions come from the key, because the message was written before they were known.
template <typename Message>
auto Decode(const KeyValue& stored, UnreadableRecords& unreadable) -> decltype(FromProto(Message())) {
  const absl::StatusOr<Message> message = Parse<Message>(stored);
  auto record = message.ok() ? FromProto(*message) : message.status();
  if (message.ok() && !record.ok()) record = Unreadable(stored.key, mooring::Message(record.status()));
  if (record.ok()) {
    if (absl::Status is_other = CheckIsOf(stored, *record); !is_other.ok()) record = std::move(is_other);
  }
  if (!record.ok()) {
    unreadable.Note(stored.key, mooring::Message(record.status()));
    return record;
  }
  unreadable.NoteReadable(stored.key);
  record->revisions = {.create = stored.create_revision, .modify = stored.modify_revision};
  return record;
}

template <typename Message, typename Record>
absl::StatusOr<std::vector<Record>> ListAll(State& state, const std::string& prefix, UnreadableRecords& unreadable) {
  MOORING_ASSIGN_OR_RETURN(const Listing listing, state.List(prefix));
  std::vector<Record> records;
  std::set<std::string> left_out;
  records.reserve(listing.values.size());
  for (const KeyValue& stored : listing.values) {
    auto record = Decode<Message>(stored, unreadable);
    if (record.ok()) {
      records.push_back(*std::move(record));
    } else {
      left_out.insert(stored.key);
    }
  }
  unreadable.KeepOnly(prefix, left_out);
  return records;
}

absl::StatusOr<Secrets> DecodeSecrets(const KeyValue& stored) {
  MOORING_ASSIGN_OR_RETURN(const v1::StoredSecrets message, Parse<v1::StoredSecrets>(stored));
  return Secrets({message.secrets().begin(), message.secrets().end()});
}

void AddProblem(const std::string& problem, Volume& volume) {
  if (volume.secrets_problem.empty()) volume.secrets_problem = problem;
}

// A damaged secret is a problem of the volume, as one that cannot be decrypted is.
void AddSecrets(const KeyValue& stored, Volume& volume) {
  if (!stored.problem.empty()) return AddProblem(stored.problem, volume);
  absl::StatusOr<Secrets> secrets = DecodeSecrets(stored);
  if (!secrets.ok()) return AddProblem(mooring::Message(secrets.status()), volume);
  volume.secrets = *std::move(secrets);
}

void AddMountFlags(const KeyValue& stored, Volume& volume) {
  if (!stored.problem.empty()) return AddProblem(stored.problem, volume);
  const auto message = Parse<v1::StoredMountFlags>(stored);
  if (!message.ok()) return AddProblem(mooring::Message(message.status()), volume);
  volume.mount_options.flags.assign(message->flags().begin(), message->flags().end());
  volume.flags_left_out = 0;
}

// From the values of the volume, its secrets, its mount flags and its claims, as far as they were read.
absl::StatusOr<VolumeUse> ToVolumeUse(const VolumeKey& key, const Listing& found, UnreadableRecords& unreadable) {
  VolumeUse use;
  const KeyValue* secrets = nullptr;
  const KeyValue* flags = nullptr;
  for (const KeyValue& value : found.values) {
    if (value.key == VolumeStateKey(key)) {
      MOORING_ASSIGN_OR_RETURN(use.volume, Decode<v1::Volume>(value, unreadable));
    } else if (value.key == SecretsStateKey(key)) {
      secrets = &value;
    } else if (value.key == MountFlagsStateKey(key)) {
      flags = &value;
    } else {
      MOORING_ASSIGN_OR_RETURN(use.claims.emplace_back(), Decode<v1::Claim>(value, unreadable));
    }
  }
  if (!use.volume) return use;
  if (use.volume->has_secrets && secrets != nullptr) AddSecrets(*secrets, *use.volume);
  if (use.volume->flags_left_out > 0 && flags != nullptr) AddMountFlags(*flags, *use.volume);
  return use;
}

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

// The secrets and mount flags need no compares of their own, because they change only together with their volume.
Changes& Changes::Put(const Volume& volume) {
  const std::vector<std::string>& flags = volume.mount_options.flags;
  v1::Volume stored = ToProto(volume);
  stored.mutable_mount_options()->clear_flags();
  stored.set_mount_flags(flags.empty() ? volume.flags_left_out : static_cast<int>(flags.size()));
  transaction_.compares.push_back({.key = VolumeStateKey(volume.key), .modify_revision = volume.revisions.modify});
  transaction_.puts.push_back({.key = VolumeStateKey(volume.key), .value = stored.SerializeAsString()});
  if (!volume.secrets.empty()) {
    v1::StoredSecrets secrets;
    volume.secrets.CopyTo(*secrets.mutable_secrets());
    transaction_.puts.push_back({.key = SecretsStateKey(volume.key), .value = secrets.SerializeAsString()});
  } else if (!volume.has_secrets) {
    transaction_.deletes.push_back(SecretsStateKey(volume.key));
  }
  if (!flags.empty()) {
    v1::StoredMountFlags message;
    message.mutable_flags()->Add(flags.begin(), flags.end());
    transaction_.puts.push_back({.key = MountFlagsStateKey(volume.key), .value = message.SerializeAsString()});
  } else if (volume.flags_left_out == 0) {
    transaction_.deletes.push_back(MountFlagsStateKey(volume.key));
  }
  return *this;
}

Changes& Changes::Delete(const Volume& volume) {
  transaction_.deletes.push_back(SecretsStateKey(volume.key));
  transaction_.deletes.push_back(MountFlagsStateKey(volume.key));
  return DeleteAt(VolumeStateKey(volume.key), volume);
}

Changes& Changes::Put(const Host& host) { return PutAt(KeyOf(host), host); }
Changes& Changes::Put(const Snapshot& snapshot) { return PutAt(KeyOf(snapshot), snapshot); }
Changes& Changes::Put(const Claim& claim) { return PutAt(KeyOf(claim), claim); }
Changes& Changes::Put(const std::string& host, const AttachmentRecord& mount) {
  return PutAt(KeyOf(host, mount), mount);
}
Changes& Changes::Put(const std::string& host, const PluginRecord& plugin) {
  return PutAt(KeyOf(host, plugin), plugin);
}
Changes& Changes::Delete(const Snapshot& snapshot) { return DeleteAt(KeyOf(snapshot), snapshot); }
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

// Without claims.
absl::StatusOr<Volume> RecordsStore::GetVolume(const VolumeKey& key) {
  const std::vector<std::string> keys = {VolumeStateKey(key), SecretsStateKey(key), MountFlagsStateKey(key)};
  MOORING_ASSIGN_OR_RETURN(const Listing found, shared_.Read(keys, std::nullopt, Freshness::kNow));
  MOORING_ASSIGN_OR_RETURN(VolumeUse use, ToVolumeUse(key, found, unreadable_));
  if (!use.volume) return NotFound("there is no volume {}", ToString(key));
  return *std::move(use.volume);
}

absl::StatusOr<VolumeUse> RecordsStore::GetVolumeUse(const VolumeKey& key, Freshness freshness) {
  const std::vector<std::string> keys = {VolumeStateKey(key), SecretsStateKey(key), MountFlagsStateKey(key)};
  MOORING_ASSIGN_OR_RETURN(const Listing found, shared_.Read(keys, ClaimsPrefix(key), freshness));
  return ToVolumeUse(key, found, unreadable_);
}

absl::StatusOr<Snapshot> RecordsStore::GetSnapshot(const Snapshot& with_key) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, shared_.Get(KeyOf(with_key)));
  if (!stored) {
    return NotFound("there is no record of a snapshot {} of plugin {}", Quote(with_key.name), Quote(with_key.plugin));
  }
  return Decode<v1::Snapshot>(*stored, unreadable_);
}

absl::StatusOr<std::vector<Volume>> RecordsStore::ListVolumes(const std::string& ns) {
  return ListAll<v1::Volume, Volume>(shared_, ns.empty() ? VolumesPrefix() : VolumesPrefix(ns), unreadable_);
}

absl::StatusOr<std::vector<Snapshot>> RecordsStore::ListSnapshots(const std::string& plugin) {
  return ListAll<v1::Snapshot, Snapshot>(shared_, plugin.empty() ? SnapshotsPrefix() : SnapshotsPrefix(plugin),
                                         unreadable_);
}

absl::StatusOr<std::vector<Claim>> RecordsStore::ListClaims() {
  return ListAll<v1::Claim, Claim>(shared_, ClaimsPrefix(), unreadable_);
}

absl::StatusOr<std::vector<Claim>> RecordsStore::ListClaims(const std::function<bool(const Claim&)>& wanted) {
  constexpr int kTries = 3;
  std::vector<Claim> claims;
  std::set<std::string> left_out;
  const auto add = [&](const KeyValue& stored) {
    absl::StatusOr<Claim> claim = Decode<v1::Claim>(stored, unreadable_);
    if (!claim.ok()) left_out.insert(stored.key);
    if (claim.ok() && wanted(*claim)) claims.push_back(*std::move(claim));
    return absl::OkStatus();
  };
  absl::Status status = shared_.Visit(ClaimsPrefix(), add);
  for (int tries = 1; tries < kTries && absl::IsOutOfRange(status); ++tries) {
    claims.clear();
    status = shared_.Visit(ClaimsPrefix(), add);
  }
  if (absl::IsOutOfRange(status)) return WithCode(absl::StatusCode::kUnavailable, status);
  MOORING_RETURN_IF_ERROR(status);
  unreadable_.KeepOnly(ClaimsPrefix(), left_out);
  return claims;
}

absl::StatusOr<std::vector<Claim>> RecordsStore::ListClaims(const VolumeKey& volume) {
  MOORING_ASSIGN_OR_RETURN(const Listing found, shared_.List(ClaimsPrefix(volume)));
  std::vector<Claim> claims;
  for (const KeyValue& stored : found.values) {
    MOORING_ASSIGN_OR_RETURN(claims.emplace_back(), Decode<v1::Claim>(stored, unreadable_));
  }
  return claims;
}

absl::StatusOr<Host> RecordsStore::GetHost(const std::string& name) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, shared_.Get(HostStateKey(name)));
  if (!stored) return NotFound("there is no host {}", Quote(name));
  return Decode<v1::Host>(*stored, unreadable_);
}

absl::StatusOr<std::vector<Host>> RecordsStore::ListHosts() {
  return ListAll<v1::Host, Host>(shared_, HostsPrefix(), unreadable_);
}

absl::StatusOr<std::vector<AttachmentRecord>> RecordsStore::ListMounts(const std::string& host) {
  return ListAll<v1::Attachment, AttachmentRecord>(local_, MountsPrefix(host), unreadable_);
}

absl::StatusOr<std::vector<PluginRecord>> RecordsStore::ListPlugins(const std::string& host) {
  return ListAll<v1::PluginRecord, PluginRecord>(local_, PluginsPrefix(host), unreadable_);
}

absl::Status RecordsStore::CheckReadable(const std::string& prefix) const {
  const std::optional<std::string> why = unreadable_.WhyAt(prefix);
  return why ? Internal("{}", *why) : absl::OkStatus();
}

// A damaged record has a revision that nobody has read, so it would look like a change by another writer for ever.
absl::Status RecordsStore::ExplainAbort(const Transaction& transaction, const absl::Status& status) {
  if (!absl::IsAborted(status)) return status;
  for (const Transaction::Compare& compare : transaction.compares) {
    if (unreadable_.Has(compare.key)) return Unreadable(compare.key, "a list has left it out");
  }
  return status;
}

absl::StatusOr<std::int64_t> RecordsStore::Commit(const Changes& changes) {
  const Space space = SpaceOf(changes.transaction());
  if (space == Space::kBoth) {
    return Internal("records of all hosts and records of one host cannot be changed in one transaction");
  }
  auto revision = (space == Space::kShared ? shared_ : local_).Commit(changes.transaction());
  if (!revision.ok()) return ExplainAbort(changes.transaction(), revision.status());
  return revision;
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

// Reads and writes records (records.h) in the state. Changes of several records are made together, or none is made.
#ifndef MOORING_MANAGER_STATE_RECORDS_STORE_H_
#define MOORING_MANAGER_STATE_RECORDS_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/records/records.h"
#include "manager/state/state.h"

namespace google::protobuf {
class MessageLite;
}

namespace mooring::manager {

// A set of changes to commit. The stored revision of each record must be the one that it was read with (0: it must not
// exist yet). Otherwise the commit is ABORTED, and nothing is changed.
class Changes {
 public:
  // Stores the volume with its secrets. If it has no secrets here, the stored ones are kept with `has_secrets`, because
  // ListVolumes does not read them, and deleted without it.
  Changes& Put(const Volume& volume);
  Changes& Put(const Claim& claim);
  Changes& Put(const std::string& host, const AttachmentRecord& mount);
  Changes& Put(const std::string& host, const PluginRecord& plugin);
  Changes& Delete(const Volume& volume);  // and its secrets
  Changes& Delete(const Claim& claim);
  Changes& Delete(const std::string& host, const AttachmentRecord& mount);
  Changes& Delete(const std::string& host, const PluginRecord& plugin);

  Changes& With(Durability durability);  // the default is kSynced

  const Transaction& transaction() const { return transaction_; }

 private:
  void PutAt(const std::string& key, std::int64_t read_at, const google::protobuf::MessageLite& message);
  void DeleteAt(const std::string& key, std::int64_t read_at);

  Transaction transaction_;
};

class RecordsStore {
 public:
  explicit RecordsStore(State& state) : state_(state) {}  // `state` outlives this object

  // NOT_FOUND names the record.
  absl::StatusOr<Volume> GetVolume(const VolumeKey& key);  // with its secrets
  absl::StatusOr<PluginRecord> GetPlugin(const std::string& host, const std::string& name);

  // Lists do not read secrets. An empty namespace means all.
  absl::StatusOr<std::vector<Volume>> ListVolumes(const std::string& ns = "");
  absl::StatusOr<std::vector<Claim>> ListClaims();
  absl::StatusOr<std::vector<Claim>> ListClaims(const VolumeKey& volume);
  absl::StatusOr<std::vector<AttachmentRecord>> ListMounts(const std::string& host);
  absl::StatusOr<std::vector<PluginRecord>> ListPlugins(const std::string& host);

  // Gives the new revision, which is now the modify revision of every record put. INTERNAL: the changes mix records of
  // all hosts with those of one host, which may be in separate stores.
  absl::StatusOr<std::int64_t> Commit(const Changes& changes);

  State& state() { return state_; }

  // Decode the value of a key, for watches of VolumesPrefix and ClaimsPrefix.
  static absl::StatusOr<Volume> VolumeIn(const KeyValue& stored);
  static absl::StatusOr<Claim> ClaimIn(const KeyValue& stored);

 private:
  State& state_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_STATE_RECORDS_STORE_H_

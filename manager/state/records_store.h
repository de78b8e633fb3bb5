// The records (records.h) in the state: typed reads, and changes of several records that are made together or not at
// all.
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

// What is to change. Each record is compared with the revision it was read at (0: it must not be there yet); a conflict
// is ABORTED at the commit, and nothing is changed.
class Changes {
 public:
  // With its secrets. Where it has none, those there are stay if `has_secrets` says that there are some (ListVolumes
  // reads none), and go if it does not.
  Changes& Put(const Volume& volume);
  Changes& Put(const Claim& claim);
  Changes& Put(const std::string& host, const MountRecord& mount);
  Changes& Put(const std::string& host, const PluginRecord& plugin);
  Changes& Delete(const Volume& volume);  // its secrets go with it
  Changes& Delete(const Claim& claim);
  Changes& Delete(const std::string& host, const MountRecord& mount);
  Changes& Delete(const std::string& host, const PluginRecord& plugin);

  Changes& With(Durability durability);  // kSynced where it is not said

  const Transaction& transaction() const { return transaction_; }

 private:
  void PutAt(const std::string& key, std::int64_t read_at, const google::protobuf::MessageLite& message);
  void DeleteAt(const std::string& key, std::int64_t read_at);

  Transaction transaction_;
};

class RecordsStore {
 public:
  explicit RecordsStore(State& state) : state_(state) {}  // outlives this

  // Single ones: NOT_FOUND names what was looked for.
  absl::StatusOr<Volume> GetVolume(const VolumeKey& key);  // with its secrets
  absl::StatusOr<PluginRecord> GetPlugin(const std::string& host, const std::string& name);

  // Without secrets. An empty namespace: of all.
  absl::StatusOr<std::vector<Volume>> ListVolumes(const std::string& ns = "");
  absl::StatusOr<std::vector<Claim>> ListClaims();
  absl::StatusOr<std::vector<Claim>> ListClaims(const VolumeKey& volume);
  absl::StatusOr<std::vector<MountRecord>> ListMounts(const std::string& host);
  absl::StatusOr<std::vector<PluginRecord>> ListPlugins(const std::string& host);

  // The revision, which every record put has as its modify_revision now. INTERNAL: what belongs to all hosts and what
  // belongs to one are not changed together, for they may be in stores of their own.
  absl::StatusOr<std::int64_t> Commit(const Changes& changes);

  State& state() { return state_; }

  // What a key of a volume or claim holds, for watches of VolumesPrefix and ClaimsPrefix.
  static absl::StatusOr<Volume> VolumeIn(const KeyValue& stored);
  static absl::StatusOr<Claim> ClaimIn(const KeyValue& stored);

 private:
  State& state_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_STATE_RECORDS_STORE_H_

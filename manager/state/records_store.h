// Reads and writes records (records.h) in the state. Changes of several records are made together, or none is made.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/records/records.h"
#include "manager/state/state.h"

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
  template <typename Record>
  Changes& PutAt(const std::string& key, const Record& record);
  template <typename Record>
  Changes& DeleteAt(const std::string& key, const Record& record);

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

  // Commits the volume and returns it with its new revisions.
  absl::StatusOr<Volume> PutVolume(Volume volume);

  // Reads the volume, changes it and stores it. Starts over if another writer was faster. `change` may return false, to
  // leave the volume as it is, or an error, which is then the result.
  absl::StatusOr<Volume> ChangeVolume(const VolumeKey& key, const std::function<absl::StatusOr<bool>(Volume&)>& change);

  State& state() { return state_; }

 private:
  State& state_;
};

}  // namespace mooring::manager

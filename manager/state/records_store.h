// Reads and writes records (records.h) in the state. Changes of several records are made together, or none is made.
//
// Records of one host are in its local state, so that it can work with its mounts and plugins while the shared state is
// away. If no other host shares the state, both are the same.
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
#include "manager/state/unreadable_records.h"

namespace mooring::manager {

// A set of changes to commit. The stored revision of each record must be the one that it was read with (0: it must not
// exist yet). Otherwise the commit is ABORTED, and nothing is changed.
class Changes {
 public:
  // Stores the volume with its secrets and mount flags. If it has no secrets here, the stored ones are kept with
  // `has_secrets`, because ListVolumes does not read them, and deleted without it. The same holds for the mount flags
  // and `flags_left_out`.
  Changes& Put(const Volume& volume);
  Changes& Put(const Snapshot& snapshot);
  Changes& Put(const Claim& claim);
  Changes& Put(const Host& host);
  Changes& Put(const std::string& host, const AttachmentRecord& mount);
  Changes& Put(const std::string& host, const PluginRecord& plugin);
  Changes& Delete(const Volume& volume);  // and its secrets and mount flags
  Changes& Delete(const Snapshot& snapshot);
  Changes& Delete(const Claim& claim);
  Changes& Delete(const std::string& host, const AttachmentRecord& mount);
  Changes& Delete(const std::string& host, const PluginRecord& plugin);

  Changes& If(const std::string& key, std::int64_t modify_revision);  // only if it has this revision; 0: is missing
  Changes& IfAndTouch(const std::string& key, std::int64_t modify_revision);  // and gives it a new revision
  Changes& With(Durability durability);                                       // the default is kSynced

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
  // The states outlive this object.
  explicit RecordsStore(State& state) : RecordsStore(state, state) {}
  RecordsStore(State& shared, State& local) : shared_(shared), local_(local) {}

  // NOT_FOUND names the record. INTERNAL: it is damaged, or, for a volume, one of its claims is.
  absl::StatusOr<Volume> GetVolume(const VolumeKey& key);  // with its secrets, or Volume::secrets_problem
  absl::StatusOr<VolumeUse> GetVolumeUse(const VolumeKey& key, Freshness freshness = Freshness::kNow);
  absl::StatusOr<Snapshot> GetSnapshot(const Snapshot& with_key);  // of the same plugin, source_volume_id and name
  absl::StatusOr<Host> GetHost(const std::string& name);

  // Lists leave out secrets, mount flags and damaged records (WhyUnreadable). An empty namespace means all. But a
  // damaged claim gives INTERNAL in the list of its volume, because it may be that of a writer.
  absl::StatusOr<std::vector<Volume>> ListVolumes(const std::string& ns = "");
  absl::StatusOr<std::vector<Snapshot>> ListSnapshots(const std::string& plugin = "");  // empty: of all plugins
  absl::StatusOr<std::vector<Claim>> ListClaims();
  absl::StatusOr<std::vector<Claim>> ListClaims(const std::function<bool(const Claim&)>& wanted);  // State::Visit
  absl::StatusOr<std::vector<Claim>> ListClaims(const VolumeKey& volume);
  absl::StatusOr<std::vector<Host>> ListHosts();
  absl::StatusOr<std::vector<AttachmentRecord>> ListMounts(const std::string& host);
  absl::StatusOr<std::vector<PluginRecord>> ListPlugins(const std::string& host);

  // Gives the new revision, which is now the modify revision of every record put. INTERNAL: the changes mix records of
  // all hosts with those of one host.
  absl::StatusOr<std::int64_t> Commit(const Changes& changes);

  // Commits the volume and returns it with its new revisions.
  absl::StatusOr<Volume> PutVolume(Volume volume);

  // Reads the volume, changes it and stores it. Starts over if another writer was faster. `change` may return false, to
  // leave the volume as it is, or an error, which is then the result.
  absl::StatusOr<Volume> ChangeVolume(const VolumeKey& key, const std::function<absl::StatusOr<bool>(Volume&)>& change);

  // Reads the record of a host, changes it and stores it, as ChangeVolume.
  absl::StatusOr<Host> ChangeHost(const std::string& name, const std::function<absl::StatusOr<bool>(Host&)>& change);

  // Why the records that lists have left out cannot be read. IsUnreadable: whether this key is one of them.
  std::vector<std::string> WhyUnreadable() const { return unreadable_.Messages(); }
  bool IsUnreadable(const std::string& key) const { return unreadable_.Has(key); }
  // INTERNAL names a record with this prefix that the last list has left out.
  absl::Status CheckReadable(const std::string& prefix) const;

  State& shared() { return shared_; }
  State& local() { return local_; }

 private:
  absl::Status ExplainAbort(const Transaction& transaction, const absl::Status& status);

  State& shared_;
  State& local_;
  UnreadableRecords unreadable_;
};

}  // namespace mooring::manager

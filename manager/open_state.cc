#include "manager/open_state.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/host.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/etcd/etcd_state.h"
#include "manager/host_setup.h"
#include "manager/state/keys.h"
#include "manager/state/move_note.h"
#include "manager/state/sqlite_state.h"

namespace mooring::manager {
namespace {

absl::StatusOr<std::size_t> CountRecords(State& local) {
  MOORING_ASSIGN_OR_RETURN(const Listing volumes, local.List(VolumesPrefix()));
  MOORING_ASSIGN_OR_RETURN(const Listing claims, local.List(ClaimsPrefix()));
  MOORING_ASSIGN_OR_RETURN(const Listing snapshots, local.List(SnapshotsPrefix()));
  return volumes.values.size() + claims.values.size() + snapshots.values.size();
}

// During a move, the volumes and claims may be in both states.
absl::Status CheckNotMoving(State& local, const std::string& host) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<MoveNote> note, ReadMoveNote(local, host));
  if (!note) return absl::OkStatus();
  return FailedPrecondition(
      "a move of the volumes and claims {} the shared state {} was interrupted: complete it by repeating 'mooring "
      "manager migrate --to {}' (docs/hosts.md)",
      note->to == MoveNote::To::kShared ? "to" : "from", note->cluster,
      note->to == MoveNote::To::kShared ? "etcd://..." : "sqlite");
}

}  // namespace

absl::StatusOr<std::unique_ptr<State>> OpenLocalState(const std::string& state_dir) {
  return OpenSqliteState(state_dir + "/state.db", [&] { return CheckBeginsEmpty(state_dir); });
}

absl::StatusOr<std::unique_ptr<State>> OpenSharedState(const Config& config, State& local) {
  MOORING_RETURN_IF_ERROR(CheckNotMoving(local, config.host));
  MOORING_ASSIGN_OR_RETURN(const std::string joined, JoinedCluster(local, config.host));
  if (!config.etcd) {
    if (joined.empty()) return nullptr;
    return FailedPrecondition(
        "the volumes and claims of this host are in the shared state {} (etcd), and --state is sqlite: give the "
        "--state "
        "of before, or move them back with 'mooring manager migrate --to sqlite' (docs/hosts.md)",
        joined);
  }
  MOORING_ASSIGN_OR_RETURN(const std::size_t records, CountRecords(local));
  if (records != 0) {
    return FailedPrecondition(
        "{} still has {} volumes and claims, which --state {} would hide: move them with 'mooring manager migrate --to "
        "{}' (docs/hosts.md)",
        Quote(config.state_dir + "/state.db"), records, config.etcd->connection.endpoints,
        config.etcd->connection.endpoints);
  }
  EtcdSettings settings = *config.etcd;
  settings.host = config.host;
  settings.cluster = joined;
  MOORING_ASSIGN_OR_RETURN(settings.id, LeaseHolder(config.state_dir));
  return OpenEtcdState(settings);
}

absl::StatusOr<std::string> LeaseHolder(const std::string& state_dir) {
  MOORING_ASSIGN_OR_RETURN(const std::string id, KeepManagerId(state_dir));
  MOORING_ASSIGN_OR_RETURN(const std::string boot, BootId());
  return fmt::format("{}@{}", id, boot);
}

absl::StatusOr<std::string> JoinedCluster(State& local, const std::string& host) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, local.Get(JoinedClusterKey(host)));
  return stored ? stored->value : "";
}

absl::Status KeepCluster(State& shared, State& local, const std::string& host) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> cluster, shared.Get(ClusterKey()));
  MOORING_ASSIGN_OR_RETURN(const std::string joined, JoinedCluster(local, host));
  if (!cluster || cluster->value == joined) return absl::OkStatus();
  Transaction transaction;
  transaction.puts = {{.key = JoinedClusterKey(host), .value = cluster->value}};
  return local.Commit(transaction).status();
}

}  // namespace mooring::manager

#include "manager/migrate/program.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/log.h"
#include "base/server_start.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/etcd/etcd_state.h"
#include "manager/host_setup.h"
#include "manager/migrate/migration.h"
#include "manager/state/host_notes.h"
#include "manager/state/keys.h"
#include "manager/state/sqlite_state.h"

namespace mooring::manager {
namespace {

constexpr char kProgram[] = "mooring-manager migrate";

// A wrong --state-dir makes no new state.
absl::StatusOr<std::unique_ptr<State>> OpenExisting(const std::string& state_dir) {
  return OpenSqliteState(state_dir + "/state.db", [&] {
    return FailedPrecondition(
        "there is no state of a manager in {}: correct --state-dir; a new manager needs no move, but --state "
        "etcd://...",
        Quote(state_dir));
  });
}

// The store refuses secrets without a key, but only when the first of them is written.
absl::Status CheckSecrets(State& local, const EtcdSettings& etcd) {
  MOORING_ASSIGN_OR_RETURN(const Listing secrets, local.List(SecretsPrefix()));
  if (secrets.values.empty() || !etcd.secrets_key_file.empty()) return absl::OkStatus();
  return FailedPrecondition(
      "there are secrets or mount flags of volumes ({}), which etcd must not see in clear text: give a file with a key "
      "for them, the same on all hosts, with --etcd-secrets-key",
      secrets.values.size());
}

std::string Done(const MigrateConfig& config, const MovedCounts& moved) {
  if (config.json) return fmt::format("{{\"volumes\":{},\"claims\":{}}}", moved.volumes, moved.claims);
  return fmt::format(
      "moved {} volumes and {} claims to {}", moved.volumes, moved.claims,
      config.to_shared ? config.manager.etcd->connection.endpoints : config.manager.state_dir + "/state.db");
}

}  // namespace

absl::StatusOr<std::string> Migrate(const MigrateConfig& config) {
  const std::string& state_dir = config.manager.state_dir;
  MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<State> local, OpenExisting(state_dir));
  EtcdSettings etcd = *config.manager.etcd;
  MOORING_ASSIGN_OR_RETURN(etcd.host, KeepHostName(state_dir, config.manager.host));
  MOORING_ASSIGN_OR_RETURN(etcd.id, LeaseHolder(state_dir));  // so that the manager takes the lease over at once
  MOORING_ASSIGN_OR_RETURN(etcd.cluster, JoinedCluster(*local, etcd.host));
  if (config.to_shared) MOORING_RETURN_IF_ERROR(CheckSecrets(*local, etcd));
  if (!config.to_shared && etcd.cluster.empty()) {
    return config.json ? Done(config, {}) : "this host shares no state: its volumes and claims are in SQLite already";
  }
  MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<State> shared, OpenEtcdState(etcd));
  const MoveEnds ends{.local = *local, .shared = *shared, .host = etcd.host};
  MOORING_ASSIGN_OR_RETURN(const MovedCounts moved, config.to_shared ? MoveToShared(ends) : MoveToLocal(ends));
  return Done(config, moved);
}

int RunMigrate(int argc, const char* const* argv) {
  PrepareProcess();
  const absl::StatusOr<MigrateConfig> config = ParseMigrateConfig(argc, argv);
  if (!config.ok()) return EndWithoutConfig(kProgram, config.status());
  const absl::Status logs = log::Setup("warning", "text");
  if (!logs.ok()) return FailProgram(kProgram, logs);
  const absl::StatusOr<std::string> done = Migrate(*config);
  if (!done.ok()) return FailProgram(kProgram, done.status());
  fmt::print("{}\n", *done);
  return 0;
}

}  // namespace mooring::manager

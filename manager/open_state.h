// Opens the states of the manager: the local one, and the one that it shares with other hosts.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/config.h"
#include "manager/state/state.h"

namespace mooring::manager {

// state.db in the state directory.
absl::StatusOr<std::unique_ptr<State>> OpenLocalState(const std::string& state_dir);

// The state of config.etcd; null: there is none, and the local state has all records. FAILED_PRECONDITION: volumes or
// claims are in the other kind of state, so they would be forgotten: they have to be moved first. Or a move was
// interrupted.
absl::StatusOr<std::unique_ptr<State>> OpenSharedState(const Config& config, State& local);

// How this host names itself as the holder of its lease: by its state directory and this boot.
absl::StatusOr<std::string> LeaseHolder(const std::string& state_dir);

// Notes in the local state which shared state this host belongs to, so that it refuses another one later.
absl::Status KeepCluster(State& shared, State& local, const std::string& host);

// The id noted by KeepCluster; empty: this host has not joined a shared state.
absl::StatusOr<std::string> JoinedCluster(State& local, const std::string& host);

}  // namespace mooring::manager

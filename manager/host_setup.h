// Prepares the host before the manager starts: its directories, its name, and a shared mount as root of the mounts.
// Opens its states: the local one, and the one that it shares with other hosts.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/config.h"
#include "manager/state/state.h"
#include "mounter/mounter.h"

namespace mooring::manager {

// Makes missing directories of `config`, and returns it with their real paths, because mounts never follow symbolic
// links. FAILED_PRECONDITION: another user may write in one of them.
absl::StatusOr<Config> MakeDirectories(const Config& config);

// The name of this host in the state: `asked`, else the name recorded in the state directory, else the host name.
// Records it, because the host name may change and the records do not. FAILED_PRECONDITION: another name is recorded.
// The caller holds the lock of the state.
absl::StatusOr<std::string> KeepHostName(const std::string& state_dir, const std::string& asked);

// Called when state.db is missing or empty. FAILED_PRECONDITION: the directory had a state before.
absl::Status CheckBeginsEmpty(const std::string& state_dir);

// A random id of this state directory, in hexadecimal digits, made at the first start. It labels containers.
absl::StatusOr<std::string> KeepManagerId(const std::string& state_dir);

// Makes `root` part of a shared mount, if necessary by a bind on itself. So mounts of plugins in other namespaces
// arrive here, and ours there. It stays after a stop, because running plugins need it. Files and directories that an
// earlier boot left below `root` do not matter.
absl::Status ShareRoot(const std::string& root, Mounts& kernel);

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

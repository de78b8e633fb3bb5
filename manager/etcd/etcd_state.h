// State in an etcd cluster (version 3.4 or later), which the managers of many hosts share.
//
// Each host has a lease of etcd, and below it the key live/<host>. A commit is one transaction of etcd, which also
// compares that live/<host> is still the one of this lease. So a manager that stood still for longer than its lease
// changes nothing any more. Secrets (IsSecret in state/keys.h) are encrypted before they are sent (sealed_values.h).
// Durability::kOrdered is the same as kSynced: etcd answers when most members have synced the commit.
//
// A transaction has at most 125 keys, and 1.5 MB: etcd refuses more (INVALID_ARGUMENT).
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "manager/etcd/etcd_client.h"
#include "manager/state/state.h"

namespace mooring::manager {

struct EtcdSettings {
  EtcdConnection connection;
  std::string prefix = "/mooring/";  // of all keys in etcd; managers with another prefix have a state of their own
  std::string host;                  // unique among the managers of the prefix
  // The installation of this manager and, after an '@', the boot. At a restart the lease of the same id is taken over.
  // The lease of another boot has to end first: it may belong to a copy of the state directory on another machine.
  std::string id;
  std::string cluster;  // the id of the shared state (ClusterKey) that it must be; empty: any
  std::chrono::milliseconds lease_ttl = std::chrono::seconds(20);  // at least 1 s, whole seconds
  std::string secrets_key_file;  // 32 bytes in base64 or hex, mode 0600; empty: secrets cannot be kept
};

// Takes the lease before it returns, or, while etcd does not answer, in the background: until then the state gives
// UNAVAILABLE. INVALID_ARGUMENT: a setting is wrong. FAILED_PRECONDITION: another manager with
// this host's name is alive, or the key file or certificate cannot be used. UNAUTHENTICATED, PERMISSION_DENIED: etcd
// refuses the user. Each error names the endpoints.
//
// The lease is kept after the state is closed, until it ends by itself. So other hosts do not see a short restart.
absl::StatusOr<std::unique_ptr<State>> OpenEtcdState(const EtcdSettings& settings);

}  // namespace mooring::manager

// The rules about hosts, as pure functions of their states.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "manager/records/records.h"

namespace mooring::manager {

// The host with this name in `hosts`; null: there is none.
const HostStatus* FindHost(const std::vector<HostStatus>& hosts, const std::string& name);

// Whether `node` may take a new claim. INVALID_ARGUMENT: it is none of the hosts. UNAVAILABLE: it is unreachable.
// FAILED_PRECONDITION: it is being drained.
absl::Status CheckTakesClaims(const std::vector<HostStatus>& hosts, const std::string& node);

// "alive", "draining", "unreachable" or "lost".
std::string StateWord(const HostStatus& status);

// "unreachable since 2026-11-24T01:02:03Z"; empty: the host is alive, or unknown.
std::string Absence(const std::vector<HostStatus>& hosts, const std::string& node);

}  // namespace mooring::manager

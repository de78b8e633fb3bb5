// Narrows lists and changes to one host, for --host, and checks that the object exists to which a list is narrowed.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "cli/manager/command.h"

namespace mooring::cli::manager_area {

// Whether every topology of the volume names the host, so that no other host can reach it.
bool IsReachableOnlyFrom(const v1::Volume& volume, const std::string& host);

// The claims of a host, and the volumes that it has claimed or that can be reached from there alone.
class HostFilter {
 public:
  // An empty name lets everything through.
  explicit HostFilter(std::string host) : host_(std::move(host)) {}

  // Asks the manager for the claims first: needed for volumes.
  static absl::StatusOr<HostFilter> Make(const Session& session, const std::string& host);

  bool Has(const v1::Claim& claim) const { return host_.empty() || claim.node() == host_; }
  bool Has(const v1::Volume& volume) const;

  // The changes of the host. Follows its claims, so call it for each reply, in order.
  v1::WatchReply Narrowed(const v1::WatchReply& reply);

  template <typename Records>
  void Narrow(Records& records) const {
    const auto end = std::remove_if(records.begin(), records.end(), [&](const auto& record) { return !Has(record); });
    records.erase(end, records.end());
  }

 private:
  void Note(const v1::Claim& claim);
  void Forget(const v1::Claim& claim);
  bool Passes(const v1::WatchReply::Changed& change);

  const std::string host_;
  std::map<std::string, std::set<std::string>> claims_;  // of the host, by volume
  std::set<std::string> shown_;                          // volumes whose changes were let through
};

// A list narrowed to something that does not exist is an error: an empty list would hide a typing error. An empty name
// narrows nothing, and is OK.
absl::Status CheckVolume(const Session& session, const v1::VolumeKey& key);
absl::Status CheckPlugin(const Session& session, const std::string& name);
absl::Status CheckHost(const Session& session, const std::string& name);

}  // namespace mooring::cli::manager_area

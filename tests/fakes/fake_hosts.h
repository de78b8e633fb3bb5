// A directory of hosts that a test sets: a host is alive if its key LiveKey is in the state.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "manager/hosts/host_directory.h"
#include "manager/state/keys.h"
#include "manager/state/records_store.h"

namespace mooring::testing {

class FakeHosts final : public manager::HostDirectory {
 public:
  FakeHosts(manager::RecordsStore& store, std::string self) : store_(store), self_(std::move(self)) {}

  const std::string& self() const override { return self_; }
  bool is_shared() const override { return true; }
  std::vector<manager::HostStatus> List() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return seen_;
  }
  std::optional<manager::HostStatus> Find(const std::string& name) override {
    for (manager::HostStatus& status : List()) {
      if (status.host.name == name) return std::move(status);
    }
    return std::nullopt;
  }
  absl::Status Refresh() override {
    MOORING_ASSIGN_OR_RETURN(const std::vector<manager::Host> hosts, store_.ListHosts());
    std::vector<manager::HostStatus> seen;
    for (const manager::Host& host : hosts) {
      MOORING_ASSIGN_OR_RETURN(const auto live, store_.shared().Get(manager::LiveKey(host.name)));
      seen.push_back({.host = host, .alive = live.has_value(), .live_revision = live ? live->modify_revision : 0});
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    seen_ = std::move(seen);
    return absl::OkStatus();
  }
  absl::StatusOr<manager::HostStatus> Drain(const std::string& name, bool draining) override {
    return Change(name, [&](manager::Host& host) { return std::exchange(host.draining, draining) != draining; });
  }
  absl::StatusOr<manager::HostStatus> DeclareLost(const std::string& name) override {
    return Change(name, [](manager::Host& host) { return !std::exchange(host.lost, true); });
  }

 private:
  absl::StatusOr<manager::HostStatus> Change(const std::string& name,
                                             const std::function<absl::StatusOr<bool>(manager::Host&)>& change) {
    MOORING_RETURN_IF_ERROR(store_.ChangeHost(name, change).status());
    MOORING_RETURN_IF_ERROR(Refresh());
    return *Find(name);
  }

  manager::RecordsStore& store_;
  const std::string self_;
  std::mutex mutex_;
  std::vector<manager::HostStatus> seen_;  // under mutex_
};

// A manager joins the state, or ends without a word.
inline void Join(manager::RecordsStore& store, const std::string& name) {
  manager::Host host;
  host.name = name;
  const auto known = store.GetHost(name);
  if (!known.ok()) (void)store.Commit(manager::Changes().Put(host));
  (void)store.shared().Commit({.compares = {}, .puts = {{manager::LiveKey(name), "id"}}, .deletes = {}});
}
inline void Vanish(manager::RecordsStore& store, const std::string& name) {
  (void)store.shared().Commit({.compares = {}, .puts = {}, .deletes = {manager::LiveKey(name)}});
}

}  // namespace mooring::testing

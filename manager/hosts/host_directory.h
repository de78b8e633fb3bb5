// The hosts that share the state. A state of one host has SingleHost, a shared one has Hosts (hosts.h).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "manager/records/records.h"

namespace mooring::manager {

// Safe from several threads.
class HostDirectory {
 public:
  virtual ~HostDirectory() = default;

  virtual const std::string& self() const = 0;

  // Whether other hosts may share the state. If not, this host does all work for every claim, whatever its node is.
  virtual bool is_shared() const = 0;

  // As seen at the last look, a second ago at most while the state answers. They wait for nothing.
  virtual std::vector<HostStatus> List() = 0;
  virtual std::optional<HostStatus> Find(const std::string& name) = 0;  // nullopt: also if its record is damaged

  // Looks now.
  virtual absl::Status Refresh() = 0;

  // Begins or ends the draining of a host: it takes no new claims. NOT_FOUND: there is no such host.
  virtual absl::StatusOr<HostStatus> Drain(const std::string& name, bool draining) = 0;

  // Notes that nothing runs on the host any more, so that its claims can be freed. FAILED_PRECONDITION: it is alive.
  virtual absl::StatusOr<HostStatus> DeclareLost(const std::string& name) = 0;

  // Whether this host does the work for a claim on `node`: its release, and its calls to the controller.
  bool IsOurs(const std::string& node) const { return !is_shared() || node == self(); }
};

// The only host of its state.
class SingleHost final : public HostDirectory {
 public:
  explicit SingleHost(std::string name) : name_(std::move(name)) {}

  const std::string& self() const override { return name_; }
  bool is_shared() const override { return false; }
  std::vector<HostStatus> List() override { return {Self()}; }
  std::optional<HostStatus> Find(const std::string& name) override {
    return name == name_ ? std::optional(Self()) : std::nullopt;
  }
  absl::Status Refresh() override { return absl::OkStatus(); }
  absl::StatusOr<HostStatus> Drain(const std::string& /*name*/, bool /*draining*/) override { return NoOthers(); }
  absl::StatusOr<HostStatus> DeclareLost(const std::string& /*name*/) override { return NoOthers(); }

 private:
  HostStatus Self() const {
    HostStatus status;
    status.host.name = name_;
    status.alive = true;
    return status;
  }
  static absl::Status NoOthers() {
    return FailedPrecondition(
        "the state of this manager belongs to this host alone, so there are no hosts to manage: share it with "
        "--state etcd://... (docs/hosts.md)");
  }

  const std::string name_;
};

// The rules about hosts, as pure functions of their states.

// The host with this name in `hosts`; null: there is none.
const HostStatus* FindHost(const std::vector<HostStatus>& hosts, const std::string& name);

// Whether `node` may take a new claim. INVALID_ARGUMENT: it is none of the hosts. UNAVAILABLE: it is unreachable, or
// back and has not looked yet for mounts of claims that others have freed. FAILED_PRECONDITION: it is being drained.
absl::Status CheckTakesClaims(const std::vector<HostStatus>& hosts, const std::string& node);

// "alive", "draining", "unreachable" or "lost".
std::string StateWord(const HostStatus& status);

// "unreachable since 2026-11-24T01:02:03Z"; empty: the host is alive, or unknown.
std::string Absence(const std::vector<HostStatus>& hosts, const std::string& node);

}  // namespace mooring::manager

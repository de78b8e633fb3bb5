// The hosts of a shared state. Looks at their records and leases every second, keeps the record of this host, and notes
// which hosts have gone.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/hosts/host_directory.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

class Hosts final : public HostDirectory {
 public:
  struct Settings {
    std::string self;
    std::string version;  // of this manager
    Clock::duration look_every = std::chrono::seconds(1);
    // A host is noted as unreachable when it has been away for so long. After etcd was away, all hosts need a moment.
    Clock::duration note_after = std::chrono::seconds(3);
  };

  // All outlive it. Starts at once.
  Hosts(RecordsStore& store, Events& events, WorkQueue& queue, Settings settings);

  const std::string& self() const override { return settings_.self; }
  bool is_shared() const override { return true; }
  std::vector<HostStatus> List() override;
  std::optional<HostStatus> Find(const std::string& name) override;
  absl::Status Refresh() override;
  absl::StatusOr<HostStatus> Drain(const std::string& name, bool draining) override;
  absl::StatusOr<HostStatus> DeclareLost(const std::string& name) override;

  // How long this process has seen the host without a lease, without a break, while the state answered. Zero: it is
  // alive.
  Clock::duration AwayFor(const std::string& name);

  void LeaseChanged();  // this host has a new lease: its record is brought up to date

 private:
  void LookNow();
  absl::Status Look();
  absl::Status Join();
  void NoteAbsences();
  void Report(const std::string& host, bool bad, const std::string& text);

  RecordsStore& store_;
  Events& events_;
  const Settings settings_;

  std::mutex mutex_;     // guards the next three
  bool joined_ = false;  // the record of this host is up to date
  std::map<std::string, HostStatus> hosts_;
  std::map<std::string, Clock::time_point> away_since_;  // as seen here
  WorkKind work_;                                        // last: its attempts use all of the above
};

}  // namespace mooring::manager

// ReadFully: the state of a pool, after repairs.
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "mounter/lvm/volume_steps.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

// The activation of a thin pool checks its metadata, which may take minutes before it fails.
constexpr std::chrono::seconds kBetweenActivations{60};

class PoolActivations {
 public:
  // Activates the pool `path`, "GROUP/THINPOOL", or repeats a failure that is younger than a minute.
  absl::Status Activate(const Lvm& lvm, const std::string& path) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto failed = failures_.find(path);
      if (failed != failures_.end() && Clock::now() < failed->second.again) return failed->second.status;
    }
    const absl::Status activated =
        lvm.Change(fmt::format("activate the thin pool {}", path), {"lvchange", "-y", "-ay", path});
    const std::lock_guard<std::mutex> lock(mutex_);
    failures_[path] = {.status = activated,
                       .again = activated.ok() ? Clock::time_point() : Clock::now() + kBetweenActivations};
    return activated;
  }

 private:
  struct Failure {
    absl::Status status;
    Clock::time_point again;
  };
  std::mutex mutex_;
  std::map<std::string, Failure> failures_;
};

PoolActivations& Activations() {
  static PoolActivations activations;
  return activations;
}

// lvm keeps the lock of the group while it has devices suspended, and a report waits for that lock. So the lvm that
// suspended these was killed.
absl::StatusOr<LvmState> ReadResumed(const Lvm& lvm, const LvmPool& pool) {
  MOORING_ASSIGN_OR_RETURN(LvmState state, ReadLvmState(lvm, pool));
  const std::vector<std::string> suspended = SuspendedIn(state, pool);
  if (suspended.empty()) return state;
  log::Once(log::Level::kWarning, "a logical volume is suspended, because somebody killed an lvm: it is resumed",
            {{"volume", suspended.front()}});
  absl::Status resumed;
  for (const std::string& path : suspended) resumed.Update(Refresh(lvm, path));
  MOORING_ASSIGN_OR_RETURN(state, ReadLvmState(lvm, pool));
  if (!resumed.ok()) state.report.problem = Message(resumed);
  return state;
}

// After a boot the pool has no device if the host activates none by itself.
absl::StatusOr<LvmState> ReadActivated(const Lvm& lvm, const LvmPool& pool, LvmState state) {
  const std::string path = fmt::format("{}/{}", pool.group, pool.thin_pool);
  const absl::Status activated = Activations().Activate(lvm, path);
  if (activated.ok()) {
    MOORING_ASSIGN_OR_RETURN(state, ReadResumed(lvm, pool));
  }
  if (state.is_thin_pool_active || !state.report.problem.empty()) return state;
  state.report.problem = activated.ok() ? fmt::format(
                                              "lvm does not activate the thin pool {}: see lvm.conf(5), "
                                              "activation/volume_list",
                                              path)
                                        : Message(activated);
  return state;
}

}  // namespace

absl::StatusOr<LvmState> ReadFully(const Lvm& lvm, const LvmPool& pool) {
  MOORING_ASSIGN_OR_RETURN(LvmState state, ReadResumed(lvm, pool));
  if (!pool.is_thin() || state.is_thin_pool_active) return state;
  if (state.report.problem.empty()) {
    MOORING_ASSIGN_OR_RETURN(state, ReadActivated(lvm, pool, std::move(state)));
  }
  if (!state.is_thin_pool_active) state.report.free_bytes = 0;
  return state;
}

}  // namespace mooring

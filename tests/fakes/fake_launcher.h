// Plugin processes in memory. Each serves a FakeCsiPlugin at the socket of its launch. They outlive the manager that
// launched them, as real processes do.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "manager/launch/launcher.h"
#include "tests/fakes/fake_csi_plugin.h"

namespace mooring::testing {

class FakeLauncher final : public manager::Launcher {
 public:
  using Clock = manager::Clock;

  struct Process {
    manager::LaunchSpec spec;
    std::shared_ptr<FakeCsiPlugin> plugin;
    Clock::time_point launched_at;
    bool alive = true;
  };

  explicit FakeLauncher(FakeSockets& sockets) : sockets_(sockets) {}

  absl::StatusOr<std::unique_ptr<manager::Launched>> Launch(const manager::LaunchSpec& spec,
                                                            Clock::time_point until) override;
  absl::StatusOr<std::unique_ptr<manager::Launched>> Adopt(const manager::LaunchSpec& spec) override;
  absl::Status EndStrays(const std::string& engine, Clock::time_point until, std::stop_token stop) override;

  // `make` gives the plugin of each process that is launched from now on.
  void OnLaunch(std::function<std::shared_ptr<FakeCsiPlugin>()> make);
  void FailLaunches(absl::Status status);                    // OK: launches succeed again
  void FailAdopts(absl::Status status);                      // OK: adoptions succeed again
  void FailEnds(absl::Status status);                        // also EndStrays; OK: ends succeed again
  void HangLaunches();                                       // from now on a launch lasts until it is cancelled
  bool WaitForLaunches(int count);                           // that have begun
  void HangEnds(bool hang = true);                           // from now on an end lasts until its deadline
  int WaitForEnds(int count);                                // that have begun; gives their number
  void OnEnd(std::function<void(const Process&)> callback);  // called before a process is ended

  std::vector<Process> Processes();  // in the order of their launch, including those that have ended
  int Alive();
  bool WaitForSweep(const std::string& engine);  // waits until EndStrays was called
  void Kill(const std::string& instance_id);

 private:
  friend class FakeLaunched;
  bool IsAlive(const std::string& instance_id);
  absl::Status End(const std::string& instance_id, Clock::time_point until, const std::stop_token& stop);
  absl::Status WaitUntil(Clock::time_point until, const std::stop_token& stop);

  FakeSockets& sockets_;
  std::mutex mutex_;
  std::function<std::shared_ptr<FakeCsiPlugin>()> make_ = [] { return std::make_shared<FakeCsiPlugin>(); };
  std::function<void(const Process&)> on_end_;
  absl::Status launch_status_;
  absl::Status adopt_status_;
  absl::Status end_status_;
  bool launches_hang_ = false;
  int launches_begun_ = 0;
  bool ends_hang_ = false;
  int ends_begun_ = 0;
  std::condition_variable_any changed_;
  std::vector<std::string> swept_;
  std::vector<Process> processes_;
};

}  // namespace mooring::testing

// Plugins' processes in memory: each serves a FakeCsiPlugin at the socket it is told to. They outlive the managers that
// launched them, as real ones do.
#ifndef MOORING_TESTS_FAKES_FAKE_LAUNCHER_H_
#define MOORING_TESTS_FAKES_FAKE_LAUNCHER_H_

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

  // What the plugin of the next process is; each launch takes a new one.
  void OnLaunch(std::function<std::shared_ptr<FakeCsiPlugin>()> make);
  void FailLaunches(absl::Status status);                // OK: no more
  void FailAdopts(absl::Status status);                  // nobody can say whether they run; OK: they can again
  void FailEnds(absl::Status status);                    // processes cannot be ended; OK: they can again
  void HangLaunches();                                   // from now on they are only given up
  bool WaitForLaunches(int count);                       // that were begun
  void HangEnds();                                       // from now on processes end when they are killed
  int WaitForEnds(int count);                            // that were begun; how many there were
  void OnEnd(std::function<void(const Process&)> look);  // called before a process is ended

  std::vector<Process> Processes();  // in order of their launch, those that have ended, too
  int Alive();
  bool WaitForSweep(const std::string& engine);  // of its strays
  void Kill(const std::string& instance_id);

 private:
  friend class FakeLaunched;
  bool IsAlive(const std::string& instance_id);
  absl::Status End(const std::string& instance_id, const manager::EndDeadline& deadline);
  absl::Status AwaitDeadline(const manager::EndDeadline& deadline);

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

#endif  // MOORING_TESTS_FAKES_FAKE_LAUNCHER_H_

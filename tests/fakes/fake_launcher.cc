#include "tests/fakes/fake_launcher.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace mooring::testing {

class FakeLaunched final : public manager::Launched {
 public:
  using Clock = manager::Clock;

  FakeLaunched(FakeLauncher& launcher, std::string id) : launcher_(launcher), id_(std::move(id)) {}

  bool IsAlive() override { return launcher_.IsAlive(id_); }
  std::string Describe() override { return IsAlive() ? "it runs" : "it ended; its last output: out of luck"; }
  absl::Status End(Clock::time_point until, const std::stop_token& stop) override {
    return launcher_.End(id_, until, stop);
  }
  std::string Handle() const override { return "fake " + id_; }

 private:
  FakeLauncher& launcher_;
  const std::string id_;
};

absl::StatusOr<std::unique_ptr<manager::Launched>> FakeLauncher::Launch(const manager::LaunchSpec& spec,
                                                                        Clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  ++launches_begun_;
  changed_.notify_all();
  if (launches_hang_) {
    changed_.wait_until(lock, spec.stop, until, [] { return false; });
    return absl::CancelledError("the launch was cancelled");
  }
  if (!launch_status_.ok()) return launch_status_;
  processes_.push_back({spec, make_(), Clock::now(), true});
  sockets_.Serve(spec.socket_directory + "/csi.sock", processes_.back().plugin);
  return std::make_unique<FakeLaunched>(*this, spec.instance_id);
}

absl::StatusOr<std::unique_ptr<manager::Launched>> FakeLauncher::Adopt(const manager::LaunchSpec& spec) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!adopt_status_.ok()) return adopt_status_;
  }
  if (!IsAlive(spec.instance_id)) return NotFound("it is gone");
  return std::make_unique<FakeLaunched>(*this, spec.instance_id);
}

void FakeLauncher::OnLaunch(std::function<std::shared_ptr<FakeCsiPlugin>()> make) {
  const std::lock_guard<std::mutex> lock(mutex_);
  make_ = std::move(make);
}

void FakeLauncher::FailLaunches(absl::Status status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  launch_status_ = std::move(status);
}

absl::Status FakeLauncher::EndStrays(const std::string& engine, Clock::time_point /*until*/, std::stop_token /*stop*/) {
  const std::lock_guard<std::mutex> lock(mutex_);
  swept_.push_back(engine);
  changed_.notify_all();
  return end_status_;
}

bool FakeLauncher::WaitForSweep(const std::string& engine) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20),
                           [&] { return std::find(swept_.begin(), swept_.end(), engine) != swept_.end(); });
}

void FakeLauncher::FailAdopts(absl::Status status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  adopt_status_ = std::move(status);
}

void FakeLauncher::FailEnds(absl::Status status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  end_status_ = std::move(status);
}

void FakeLauncher::HangLaunches() {
  const std::lock_guard<std::mutex> lock(mutex_);
  launches_hang_ = true;
}

bool FakeLauncher::WaitForLaunches(int count) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return launches_begun_ >= count; });
}

void FakeLauncher::HangEnds(bool hang) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ends_hang_ = hang;
}

int FakeLauncher::WaitForEnds(int count) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(20), [&] { return ends_begun_ >= count; });
  return ends_begun_;
}

void FakeLauncher::OnEnd(std::function<void(const Process&)> callback) {
  const std::lock_guard<std::mutex> lock(mutex_);
  on_end_ = std::move(callback);
}

std::vector<FakeLauncher::Process> FakeLauncher::Processes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return processes_;
}

int FakeLauncher::Alive() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(std::count_if(processes_.begin(), processes_.end(), [](const auto& p) { return p.alive; }));
}

void FakeLauncher::Kill(const std::string& instance_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Process& process : processes_) {
    if (process.spec.instance_id != instance_id) continue;
    process.alive = false;
    process.plugin->Die();
  }
}

bool FakeLauncher::IsAlive(const std::string& instance_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(processes_.begin(), processes_.end(),
                     [&](const Process& p) { return p.alive && p.spec.instance_id == instance_id; });
}

absl::Status FakeLauncher::WaitUntil(Clock::time_point until, const std::stop_token& stop) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_until(lock, stop, until, [] { return false; });
  return stop.stop_requested() ? absl::CancelledError("the wait was cancelled") : absl::OkStatus();
}

absl::Status FakeLauncher::End(const std::string& instance_id, Clock::time_point until, const std::stop_token& stop) {
  std::function<void(const Process&)> callback;
  Process process;
  bool hangs = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++ends_begun_;
    hangs = ends_hang_;
    changed_.notify_all();
  }
  if (hangs) MOORING_RETURN_IF_ERROR(WaitUntil(until, stop));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!end_status_.ok()) return end_status_;
    callback = on_end_;
    for (const Process& candidate : processes_) {
      if (candidate.spec.instance_id == instance_id) process = candidate;
    }
  }
  if (callback) callback(process);
  Kill(instance_id);
  return absl::OkStatus();
}

}  // namespace mooring::testing

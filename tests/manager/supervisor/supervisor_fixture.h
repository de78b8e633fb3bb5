// A supervisor with plugins in memory. It can be destroyed and made again, as at a restart of the manager.
#pragma once

#include <functional>
#include <optional>

#include "manager/plugins/plugin_set.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"
#include "manager/state/sqlite_state.h"
#include "manager/supervisor/supervisor.h"
#include "manager/work/work_queue.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/fakes/fake_launcher.h"
#include "tests/manager/prelude.h"

namespace mooring::testing {

class SupervisorFixture : public ::testing::Test {
 protected:
  using Clock = manager::Clock;
  using PluginType = manager::PluginType;

  SupervisorFixture() { StartManager(); }
  ~SupervisorFixture() override { StopManager(); }

  void StartManager() {
    state_ = *manager::OpenSqliteState(directory_ / "state.db");
    store_ = std::make_unique<manager::RecordsStore>(*state_);
    events_ = std::make_unique<manager::Events>();
    work_ = std::make_unique<manager::WorkQueue>();
    plugins_ = *manager::PluginSet::Open(*state_, "host", *events_, sockets_.connector(), *work_, milliseconds(50));
    supervisor_ = std::make_unique<manager::Supervisor>(*store_, *plugins_, *events_, sockets_.connector(), *work_,
                                                        exec_, container_, settings_);
    ASSERT_OK(supervisor_->Start());
  }

  void StopManager() {
    supervisor_.reset();
    plugins_.reset();
    work_.reset();
    events_.reset();
    store_.reset();
    state_.reset();
  }

  void RestartManager() {
    StopManager();
    StartManager();
  }

  static manager::PluginRecord::Run Program(const std::string& name) {
    manager::PluginRecord::Run run;
    run.command = {name};
    return run;
  }

  static manager::PluginRecord::Run Image(const std::string& name) {
    manager::PluginRecord::Run run;
    run.kind = manager::PluginRecord::Run::Kind::kContainer;
    run.image = name;
    return run;
  }

  absl::Status RunPlugin(const std::string& name, const std::string& program = "plugin",
                         const std::string& declared_by = "people") {
    return supervisor_->RunPlugin(name, Program(program), declared_by, /*wait=*/true, Soon());
  }

  absl::Status StartPlugin(const std::string& name, const std::string& program) {  // without waiting
    return supervisor_->RunPlugin(name, Program(program), "people", /*wait=*/false, Soon());
  }

  // The plugin that every launch from now on serves.
  std::shared_ptr<FakeCsiPlugin> NextPlugin(bool ready = true) {
    auto plugin = std::make_shared<FakeCsiPlugin>();
    plugin->SetReady(ready);
    exec_.OnLaunch([plugin] { return plugin; });
    return plugin;
  }

  void LaunchOnlyPluginsThatAreNotReady() {
    exec_.OnLaunch([] {
      auto plugin = std::make_shared<FakeCsiPlugin>();
      plugin->SetReady(false);
      return plugin;
    });
  }

  // Returns while a Probe hangs: no other begins for many intervals.
  static void HangInProbe(FakeCsiPlugin& plugin) {
    plugin.Hang("Probe");
    for (int seen = -1; seen != plugin.Count("Probe");) {
      seen = plugin.Count("Probe");
      std::this_thread::sleep_for(milliseconds(100));
    }
  }

  std::vector<manager::InstanceInfo> Instances(const std::string& name, PluginType type = PluginType::kNode) {
    std::vector<manager::InstanceInfo> instances;
    const auto status = plugins_->Find(name);
    if (!status.ok()) return instances;
    for (const manager::InstanceStatus& each : status->instances) {
      if (each.instance.type == type) instances.push_back(each.instance);
    }
    return instances;
  }

  std::optional<manager::InstanceInfo> Front(const std::string& name, PluginType type = PluginType::kNode) {
    const auto instances = Instances(name, type);
    return instances.empty() ? std::nullopt : std::optional(instances.front());
  }

  // Waits for the first event that matches, and counts earlier events too.
  std::optional<manager::Event> WaitForEvent(const std::function<bool(const manager::Event&)>& fits) {
    std::uint64_t from = 1;
    const auto until = Soon();
    while (Clock::now() < until) {
      const auto events = events_->Next(from, until);
      if (!events.ok()) return std::nullopt;
      for (const manager::Event& event : *events) {
        if (fits(event)) return event;
        from = event.number + 1;
      }
    }
    return std::nullopt;
  }

  std::optional<manager::Event> WaitForEvent(const std::string& kind, const std::string& piece = "") {
    return WaitForEvent(
        [&](const manager::Event& event) { return event.kind == kind && event.text.find(piece) != std::string::npos; });
  }

  // Waits until an instance other than `before` is the front.
  std::string WaitForOther(const std::string& name, const std::string& before) {
    std::string other;
    const auto is_other = [&] {
      const auto front = Front(name);
      if (front && front->instance_id != before) other = front->instance_id;
      return !other.empty();
    };
    if (!is_other()) WaitForEvent([&](const manager::Event&) { return is_other(); });
    return other;
  }

  TempDir directory_;
  FakeSockets sockets_;
  FakeLauncher exec_{sockets_};
  FakeLauncher container_{sockets_};
  manager::Supervisor::Settings settings_ = {
      .host = "host",
      .socket_root = directory_ / "plugins",
      .root = directory_ / "mounts",
      .probe_interval = milliseconds(10),
      .report_interval = milliseconds(30),
      .watch = {.probe_interval = milliseconds(10), .describe_interval = milliseconds(10), .retry = milliseconds(10)},
      .sick_for = milliseconds(100),
      .first_backoff = milliseconds(20),
      .longest_backoff = milliseconds(80),
      .end_time = seconds(5),
      .end_again = milliseconds(20),
  };
  std::unique_ptr<manager::State> state_;
  std::unique_ptr<manager::RecordsStore> store_;
  std::unique_ptr<manager::Events> events_;
  std::unique_ptr<manager::WorkQueue> work_;
  std::unique_ptr<manager::PluginSet> plugins_;
  std::unique_ptr<manager::Supervisor> supervisor_;
};

}  // namespace mooring::testing

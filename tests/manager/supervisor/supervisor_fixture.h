// A supervisor with plugins in memory. It can be destroyed and made again, as at a restart of the manager.
#pragma once

#include <functional>
#include <optional>

#include "manager/plugins/plugin_loop.h"
#include "manager/plugins/registry.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"
#include "manager/state/sqlite_state.h"
#include "manager/supervisor/supervisor.h"
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
    registry_ = *manager::Registry::Open(*state_, "host");
    events_ = std::make_unique<manager::Events>();
    plugins_ = std::make_unique<manager::PluginLoop>(
        *registry_, *events_, sockets_.connector(), [] { return std::vector<manager::PluginLoop::Expected>(); },
        manager::PluginLoop::Settings{.last_inspection = milliseconds(50)});
    supervisor_ = std::make_unique<manager::Supervisor>(*store_, *registry_, *plugins_, *events_, sockets_.connector(),
                                                        exec_, container_, settings_);
    ASSERT_OK(supervisor_->Start());
  }

  void StopManager() {
    supervisor_.reset();
    plugins_.reset();
    if (registry_) registry_->Close();
    registry_.reset();
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

  std::optional<manager::InstanceInfo> Front(const std::string& name, PluginType type = PluginType::kNode) {
    return registry_->Get(type, name);
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
    manager::Registry::Subscription changes(*registry_, PluginType::kNode);
    const auto until = Soon();
    while (Clock::now() < until) {
      if (const auto front = Front(name); front && front->instance_id != before) return front->instance_id;
      if (!changes.Next(until).ok()) break;
    }
    return "";
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
  std::unique_ptr<manager::Registry> registry_;
  std::unique_ptr<manager::Events> events_;
  std::unique_ptr<manager::PluginLoop> plugins_;
  std::unique_ptr<manager::Supervisor> supervisor_;
};

}  // namespace mooring::testing

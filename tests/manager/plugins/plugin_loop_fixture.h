// A plugin loop over a registry, with plugins in memory.
#pragma once

#include <atomic>

#include "manager/plugins/plugin_loop.h"
#include "manager/state/sqlite_state.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/manager/plugins/watch_threads.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {

class PluginLoopFixture : public ::testing::Test {
 protected:
  static constexpr PluginType kNode = PluginType::kNode;
  static constexpr PluginType kController = PluginType::kController;

  PluginLoopFixture() {
    state_ = OpenSqliteState(dir_ / "state").value();
    registry_ = Registry::Open(*state_, "host-1").value();
  }

  // The loop resyncs on request, or often.
  void StartLoop(Clock::duration interval = hours(1), Clock::duration resync = hours(1),
                 Clock::duration last_inspection = milliseconds(50)) {
    const PluginLoop::Settings settings = {.resync = resync, .last_inspection = last_inspection};
    loop_ = std::make_unique<PluginLoop>(
        *registry_, events_,
        [this](const std::string& path, const std::string& plugin) {
          ++connected_;
          return sockets_.connector()(path, plugin);
        },
        [this] { return expected_; }, settings);
    watching_.probe_interval = watching_.describe_interval = interval;
    watches_ = std::make_unique<testing::WatchThreads>(*registry_, *loop_, sockets_.connector(), watching_);
  }

  static std::string Socket(const std::string& id) { return "/run/" + id + "/csi.sock"; }
  static InstanceInfo Instance(const std::string& name, const std::string& id, PluginType type) {
    InstanceInfo instance;
    instance.type = type;
    instance.name = name;
    instance.instance_id = id;
    instance.socket_path = Socket(id);
    return instance;
  }

  std::shared_ptr<testing::FakeCsiPlugin> Serve(const std::string& id, testing::FakeCsiFeatures features = {}) {
    auto plugin = std::make_shared<testing::FakeCsiPlugin>(std::move(features));
    sockets_.Serve(Socket(id), plugin);
    return plugin;
  }
  std::shared_ptr<testing::FakeCsiPlugin> Run(const std::string& name, const std::string& id,
                                              std::vector<PluginType> types = {kNode}) {
    auto plugin = Serve(id);
    for (const PluginType type : types) EXPECT_OK(registry_->Register(Instance(name, id, type)));
    return plugin;
  }

  // The id of the instance that node calls go to, or the error.
  std::string Front(const std::string& name, Clock::time_point until = Soon()) {
    const auto ready = loop_->WaitForNode(name, until);
    return ready.ok() ? ready->instance.instance_id : "none: " + Message(ready.status());
  }

  // Waits for the event instead of polling.
  bool WaitForEvent(const std::string& kind, const std::string& instance, const std::string& piece = "",
                    Clock::time_point until = Soon()) {
    std::uint64_t from = 1;
    while (Clock::now() < until) {
      const auto events = events_.Next(from, until);
      if (!events.ok()) return false;
      for (const Event& event : *events) {
        from = event.number + 1;
        if (event.kind == kind && event.instance == instance && event.text.find(piece) != std::string::npos)
          return true;
      }
    }
    return false;
  }

  TempDir dir_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Registry> registry_;
  testing::FakeSockets sockets_;
  Events events_;
  std::vector<PluginLoop::Expected> expected_;
  std::atomic<int> connected_ = 0;
  PluginWatch::Settings watching_ = testing::WatchOnce();
  std::unique_ptr<PluginLoop> loop_;
  std::unique_ptr<testing::WatchThreads> watches_;
};

}  // namespace mooring::manager

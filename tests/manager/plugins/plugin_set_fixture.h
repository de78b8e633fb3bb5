// A set of plugins in memory, with their watches.
#pragma once

#include <atomic>

#include "manager/plugins/plugin_set.h"
#include "manager/state/sqlite_state.h"
#include "manager/work/work_queue.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/manager/plugins/watch_threads.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {

class PluginSetFixture : public ::testing::Test {
 protected:
  static constexpr PluginType kNode = PluginType::kNode;
  static constexpr PluginType kController = PluginType::kController;

  PluginSetFixture() {
    state_ = OpenSqliteState(dir_ / "state").value();
    OpenSet();
  }

  void OpenSet() {
    plugins_.reset();
    plugins_ = PluginSet::Open(
                   *state_, "host-1", events_,
                   [this](const std::string& path, const std::string& plugin) {
                     ++connected_;
                     return sockets_.connector()(path, plugin);
                   },
                   work_, last_inspection_)
                   .value();
  }

  void StartWatches(Clock::duration interval = hours(1)) {
    watching_.probe_interval = watching_.describe_interval = interval;
    watches_ = std::make_unique<testing::WatchThreads>(*plugins_, sockets_.connector(), work_, watching_);
  }

  static std::string Socket(const std::string& id) { return "/run/" + id + "/csi.sock"; }
  static InstanceInfo Instance(const std::string& name, const std::string& id) {
    InstanceInfo instance;
    instance.name = name;
    instance.instance_id = id;
    instance.socket_path = Socket(id);
    return instance;
  }
  void Register(const std::string& name, const std::string& id, const std::vector<PluginType>& types = {kNode}) {
    EXPECT_OK(plugins_->Serve(Instance(name, id), types, kOwner));
  }
  void Deregister(const std::string& name, const std::string& id) { EXPECT_OK(plugins_->Retire(name, id, kOwner)); }

  std::shared_ptr<testing::FakeCsiPlugin> Serve(const std::string& id, testing::FakeCsiFeatures features = {}) {
    auto plugin = std::make_shared<testing::FakeCsiPlugin>(std::move(features));
    sockets_.Serve(Socket(id), plugin);
    return plugin;
  }
  std::shared_ptr<testing::FakeCsiPlugin> Run(const std::string& name, const std::string& id,
                                              const std::vector<PluginType>& types = {kNode}) {
    auto plugin = Serve(id);
    Register(name, id, types);
    return plugin;
  }

  // The id of the instance that node calls go to, or the error.
  std::string Front(const std::string& name, Clock::time_point until = Soon()) {
    const auto ready = plugins_->WaitForNode(name, until);
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

  static constexpr InstanceOwner kOwner = 1;

  TempDir dir_;
  std::unique_ptr<State> state_;
  testing::FakeSockets sockets_;
  Events events_;
  WorkQueue work_;
  Clock::duration last_inspection_ = milliseconds(50);
  std::atomic<int> connected_ = 0;
  PluginWatch::Settings watching_ = testing::WatchOnce();
  std::unique_ptr<PluginSet> plugins_;
  std::unique_ptr<testing::WatchThreads> watches_;
};

}  // namespace mooring::manager

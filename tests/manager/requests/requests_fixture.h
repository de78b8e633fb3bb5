// Hosts that share a state in memory. Each has a plugin directory of its own; their plugins may have the same volumes.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "manager/requests/controller_sharing.h"
#include "manager/state/keys.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/fakes/fake_plugin_directory.h"
#include "tests/fakes/memory_host.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {

using ::mooring::testing::FakeCsiFeatures;
using ::mooring::testing::FakeCsiPlugin;
using ::mooring::testing::FakeCsiVolumes;
using ::mooring::testing::MemoryHost;
using ::mooring::testing::MemoryState;

constexpr char kPlugin[] = "fake.csi";

inline bool WaitUntil(const std::function<bool()>& holds, Clock::time_point until = Soon()) {
  while (!holds()) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

inline bool Puts(const Transaction& transaction, const std::string& prefix) {
  return std::any_of(transaction.puts.begin(), transaction.puts.end(),
                     [&](const auto& put) { return put.key.starts_with(prefix); });
}
inline bool TakesRequest(const Transaction& transaction) { return Puts(transaction, RequestWorkersPrefix()); }
inline bool AnswersRequest(const Transaction& transaction) {
  return Puts(transaction, RequestsPrefix()) && !transaction.deletes.empty();
}
inline bool MakesRequest(const Transaction& transaction) {
  return Puts(transaction, RequestsPrefix()) && transaction.deletes.empty();
}

inline ControllerSharing::Settings QuickSettings() {
  ControllerSharing::Settings settings;
  settings.offers.look = milliseconds(20);
  settings.offers.follower.list_again = milliseconds(300);
  settings.offers.follower.first_pause = milliseconds(5);
  settings.offers.follower.longest_pause = milliseconds(50);
  settings.sender.patience = milliseconds(200);
  settings.worker.width = 2;
  settings.worker.head_start = milliseconds(100);
  settings.worker.spread = milliseconds(10);
  return settings;
}

class SharingHost {
 public:
  SharingHost(State& shared, const std::string& host)
      : sharing(std::make_unique<ControllerSharing>(shared, plugins, events, queue, host, QuickSettings())) {}
  SharingHost(const SharingHost&) = delete;
  SharingHost& operator=(const SharingHost&) = delete;
  ~SharingHost() {
    sharing->BeginStop();
    for (const auto& [name, plugin] : all) plugin->Release();
  }

  std::shared_ptr<FakeCsiPlugin> AddPlugin(const std::shared_ptr<FakeCsiVolumes>& volumes, bool controller = true,
                                           const std::string& name = kPlugin) {
    FakeCsiFeatures features;
    features.name = name;
    features.controller = controller;
    all[name] = std::make_shared<FakeCsiPlugin>(features, volumes);
    plugins.Add(all[name]);
    sharing->PluginsChanged();
    return all[name];
  }

  bool Sees(int offers, const std::string& name = kPlugin) {
    return WaitUntil([&] {
      const auto status = sharing->plugins().Find(name);
      return (status.ok() ? status->controllers.healthy : 0) == offers;
    });
  }

  template <typename Request>
  auto Call(const Request& request, Clock::time_point until = Soon(), const std::string& name = kPlugin)
      -> absl::StatusOr<typename CsiCall<Request>::Response> {
    MOORING_ASSIGN_OR_RETURN(const ReadyPlugin controller, sharing->plugins().PickController(name, until));
    return manager::Call(*controller.channel, request, until);
  }

  ::mooring::testing::FakePluginDirectory plugins;
  Events events;
  WorkQueue queue;
  std::map<std::string, std::shared_ptr<FakeCsiPlugin>> all;
  std::unique_ptr<ControllerSharing> sharing;
};

// A host whose state is in memory.
class TestHost {
 public:
  TestHost(MemoryState& store, const std::string& name) : state(store), sharing_host(state, name) {
    state.lease().OnChange([this] { sharing_host.sharing->LeaseChanged(); });
  }
  ~TestHost() {
    state.lease().OnChange(nullptr);
    state.EndWatches();
  }
  TestHost(const TestHost&) = delete;
  TestHost& operator=(const TestHost&) = delete;

  // As when its machine loses power.
  void Die() {
    state.SetAway(true);
    state.EndLease();
  }

  SharingHost* operator->() { return &sharing_host; }

  MemoryHost state;
  SharingHost sharing_host;
};

inline csi::v1::CreateVolumeRequest Create(const std::string& name) {
  csi::v1::CreateVolumeRequest request;
  request.set_name(name);
  request.add_volume_capabilities()->mutable_mount();
  return request;
}

// Host "c" has only the node service of the plugin. Hosts "a" and "b" have controllers of it, with the same volumes.
class RequestsFixture : public ::testing::Test {
 protected:
  RequestsFixture() { c_->AddPlugin(volumes_, false); }

  void StartBoth() {
    plugin_a_ = a_->AddPlugin(volumes_);
    ASSERT_TRUE(c_->Sees(1));
    plugin_b_ = b_->AddPlugin(volumes_);
    ASSERT_TRUE(c_->Sees(2));
    ASSERT_TRUE(a_->Sees(2));
    ASSERT_TRUE(b_->Sees(2));
  }

  std::vector<std::string> Keys(const std::string& prefix) {
    std::vector<std::string> keys;
    const Listing listing = *store_.List(prefix);
    for (const KeyValue& value : listing.values) keys.push_back(value.key);
    return keys;
  }
  bool NothingIsLeft() {
    return WaitUntil([&] { return Keys("shared/request").empty(); });
  }

  const std::shared_ptr<FakeCsiVolumes> volumes_ = std::make_shared<FakeCsiVolumes>();
  MemoryState store_;
  TestHost a_{store_, "a"}, b_{store_, "b"}, c_{store_, "c"};
  std::shared_ptr<FakeCsiPlugin> plugin_a_, plugin_b_;
};

}  // namespace mooring::manager

// A CSI plugin in memory that is called through a CsiChannel. It uses FakeCsiVolumes, logs its calls, and has the
// errors, delays, hangs and deaths that a test injects. Safe from several threads.
//
//   FakeSockets sockets;
//   auto plugin = std::make_shared<FakeCsiPlugin>();
//   sockets.Serve("/run/a/csi.sock", plugin);
//   auto plugins = PluginSet::Open(state, "host-1", events, sockets.connector(), work);
//   plugin->Hang("NodeStageVolume");  ...  plugin->WaitForCalls("NodeStageVolume", 1);  ...  plugin->Release();
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "manager/csi/csi_channel.h"
#include "tests/fakes/fake_csi_volumes.h"

namespace mooring::testing {

class FakeCsiPlugin {
 public:
  using Clock = manager::Clock;
  static constexpr std::string_view kAnyCall = "";

  explicit FakeCsiPlugin(FakeCsiFeatures features = {},
                         std::shared_ptr<FakeCsiVolumes> volumes = std::make_shared<FakeCsiVolumes>());

  FakeCsiVolumes& volumes() { return *volumes_; }
  FakeCsiFeatures features();
  void SetFeatures(const FakeCsiFeatures& features);
  void SetReady(bool ready);  // the answer of Probe

  // `method` is the call's bare name, "NodeStageVolume", or kAnyCall.

  // The nth call from now (1: the next) and the `times` - 1 after it fail. With kBefore the call does nothing. With
  // kAfter it is done, and its answer is lost.
  enum class When { kBefore, kAfter };
  void Fail(std::string_view method, const absl::Status& status, int nth = 1, int times = 1, When when = When::kBefore);
  void FailAlways(std::string_view method, const absl::Status& status);
  void ClearFaults();  // also delays

  void Delay(std::string_view method, std::chrono::milliseconds time);  // each call takes that long

  // Calls of `method` for `volume_id` (empty: any) wait before they do anything, until Release, their deadline, the
  // close of their channel, or the plugin's death.
  void Hang(std::string_view method, const std::string& volume_id = "");
  void Release();  // ends all hangs, now and later

  // Every call gives UNAVAILABLE, also those under way. Volumes and mounts stay, because they outlive a process.
  void Die();
  void Revive();

  // The calls in order of arrival, as "NodeStageVolume vol-1". Calls of Identity, for capabilities and NodeGetInfo are
  // left out unless a test names them, because the manager makes them periodically.
  std::vector<std::string> Calls(std::string_view method = kAnyCall);
  int Count(std::string_view method);
  void ClearLog();
  bool WaitForCalls(std::string_view method, int count, std::chrono::seconds patience = std::chrono::seconds(20));

  // The requests of a type, in order: Requests<csi::v1::NodeStageVolumeRequest>().
  template <typename Request>
  std::vector<Request> Requests() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Request> found;
    for (const Entry& entry : log_) {
      if (const auto* request = dynamic_cast<const Request*>(entry.request.get())) found.push_back(*request);
    }
    return found;
  }

  // Violations of CSI: two calls at the same time for one volume on one service.
  std::vector<std::string> Violations();

  // Called by a channel. `closed` is the channel's; call Wake after setting it.
  absl::Status Call(const std::string& method, const google::protobuf::Message& request,
                    google::protobuf::Message& response, Clock::time_point until, const std::atomic<bool>& closed);
  void Wake();

 private:
  struct Entry {
    std::string service, method, volume_id;
    std::shared_ptr<const google::protobuf::Message> request;
    std::string Text() const { return volume_id.empty() ? method : method + " " + volume_id; }
  };
  struct Fault {
    std::string method;
    int skip = 0;
    int times = 1;  // -1: always
    When when = When::kBefore;
    absl::Status status;
  };
  struct Hung {
    std::string method, volume_id;
  };

  void Arrive(const Entry& entry);  // this and the next ones are called under mutex_
  void Leave(const Entry& entry);
  absl::Status TakeFault(const std::string& method, When when);
  absl::Status WaitUntilServed(const Entry& entry, Clock::time_point until, const std::atomic<bool>& closed,
                               std::unique_lock<std::mutex>& lock);
  bool Hangs(const Entry& entry) const;

  const std::shared_ptr<FakeCsiVolumes> volumes_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  FakeCsiFeatures features_;
  std::vector<Entry> log_;
  std::vector<Fault> faults_;
  std::map<std::string, std::chrono::milliseconds> delays_;
  std::vector<Hung> hung_;
  std::map<std::string, int> in_flight_;  // by service and volume
  std::vector<std::string> violations_;
  bool dead_ = false;
};

// A channel to `plugin`, without a socket.
std::shared_ptr<manager::CsiChannel> ChannelTo(std::shared_ptr<FakeCsiPlugin> plugin);

// Maps sockets to plugins. A channel looks its socket up in each call, as if it connected again; UNAVAILABLE: nobody
// serves it. Channels may outlive this object.
class FakeSockets {
 public:
  void Serve(const std::string& socket_path, std::shared_ptr<FakeCsiPlugin> plugin);  // replaces another plugin
  void Remove(const std::string& socket_path);
  manager::CsiConnector connector() const;

  // Finds a plugin by its path, for channels.
  struct Table {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<FakeCsiPlugin>> plugins;
  };

 private:
  const std::shared_ptr<Table> table_ = std::make_shared<Table>();
};

}  // namespace mooring::testing

// A CSI plugin in memory, for whoever calls plugins through a CsiChannel: FakeCsiVolumes behind it, a log of its calls,
// and errors, delays, hangs and deaths that a test injects. Safe from several threads.
//
//   FakeSockets sockets;
//   auto plugin = std::make_shared<FakeCsiPlugin>();
//   sockets.Serve("/run/a/csi.sock", plugin);
//   PluginLoop loop(registry, events, sockets.connector(), ...);
//   plugin->Hang("NodeStageVolume");  ...  plugin->WaitForCalls("NodeStageVolume", 1);  ...  plugin->Release();
#ifndef MOORING_TESTS_FAKES_FAKE_CSI_PLUGIN_H_
#define MOORING_TESTS_FAKES_FAKE_CSI_PLUGIN_H_

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
  std::shared_ptr<FakeCsiVolumes> shared_volumes() { return volumes_; }
  FakeCsiFeatures features();
  void SetFeatures(const FakeCsiFeatures& features);
  void SetReady(bool ready);  // what Probe says

  // `method` is the call's bare name, "NodeStageVolume", or kAnyCall.

  // The nth call from now (1: the next) and the `times` - 1 after it fail. kBefore: nothing is done; kAfter: it is
  // done, and the answer gets lost.
  enum class When { kBefore, kAfter };
  void Fail(std::string_view method, const absl::Status& status, int nth = 1, int times = 1, When when = When::kBefore);
  void FailAlways(std::string_view method, const absl::Status& status);
  void ClearFaults();  // delays, too

  void Delay(std::string_view method, std::chrono::milliseconds time);  // each call takes that long

  // Calls of `method` for `volume_id` (empty: any) stop before they do anything, until Release, their deadline, the end
  // of their channel, or the plugin's death.
  void Hang(std::string_view method, const std::string& volume_id = "");
  void Release();  // all that hang go on, and nothing hangs any more

  // Every call is UNAVAILABLE, those under way, too. What it has done stays: mounts and volumes outlive a process.
  void Die();
  void Revive();

  // The log: calls that reached it, in order of arrival, "NodeStageVolume vol-1". Those of Identity, of capabilities
  // and NodeGetInfo are left out unless asked for by name: they come by themselves, every so often.
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

  // What an orchestrator must never do, and did: two calls for one volume at a time on one service.
  std::vector<std::string> Violations();

  // What a channel to it does. `closed`: of the channel; Wake after it was set.
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

  void Arrive(const Entry& entry);  // all under mutex_
  void Leave(const Entry& entry);
  absl::Status TakeFault(const std::string& method, When when);
  absl::Status WaitUntilServed(const Entry& entry, Clock::time_point until, const std::atomic<bool>& closed,
                               std::unique_lock<std::mutex>& lock);
  bool Hangs(const Entry& entry) const;

  const std::shared_ptr<FakeCsiVolumes> volumes_;
  std::mutex mutex_;  // of all below
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

// A channel to that plugin, whatever its socket.
std::shared_ptr<manager::CsiChannel> ChannelTo(std::shared_ptr<FakeCsiPlugin> plugin);

// Which plugin serves which socket. Channels look it up with each call, as if they connected anew: where nobody serves
// it they are UNAVAILABLE. What it gave may outlive it.
class FakeSockets {
 public:
  void Serve(const std::string& socket_path, std::shared_ptr<FakeCsiPlugin> plugin);  // in the place of another
  void Remove(const std::string& socket_path);
  manager::CsiConnector connector() const;

  // By path; for channels.
  struct Table {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<FakeCsiPlugin>> plugins;
  };

 private:
  const std::shared_ptr<Table> table_ = std::make_shared<Table>();
};

}  // namespace mooring::testing

#endif  // MOORING_TESTS_FAKES_FAKE_CSI_PLUGIN_H_

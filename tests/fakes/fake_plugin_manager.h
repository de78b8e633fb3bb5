// Kubelet's plugin manager, written after its sources: pkg/kubelet/pluginmanager, and pkg/volume/csi for CSI plugins.
//
//   watcher     watches the registration directory with inotify(7), and reads it at the start. A socket that is created
//               there or renamed into it is wanted from then on, unless its name begins with a dot. A removed socket is
//               not wanted any more. A socket that is renamed away is not noticed.
//   reconciler  in rounds: forgets known sockets that are not wanted, or are wanted since a later time. Then registers
//               the wanted sockets that are not known.
//   register    dials, calls GetInfo with 1 s, and checks type and versions. A failure so far is tried again. From then
//               on the socket is known. Calls NodeGetInfo at the endpoint; the plugin is told of a failure, and there
//               is no other attempt.
//
// It runs in a thread of its own. Kubelet waits a second between two rounds, and this fake 10 ms.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file/unique_fd.h"

namespace mooring::testing {

class FakePluginManager {
 public:
  // A registered CSI driver.
  struct Driver {
    std::string endpoint, node_id;
    std::map<std::string, std::string> topology;
    std::int64_t max_volumes = 0;
  };

  explicit FakePluginManager(std::string directory);
  ~FakePluginManager();  // stops

  void Start();
  void Stop();  // forgets all drivers, as a kubelet that ends

  std::optional<Driver> Find(const std::string& driver) const;
  // Its actions, in order: "registered mooring.csi", "refused mooring.csi: why", "forgot mooring.csi", "GetInfo: why".
  std::vector<std::string> History() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Known {
    int as_of = 0;
    std::string driver;
  };

  void Run();
  void ReadEvents();
  void Want(const std::string& name);
  void Reconcile();
  void Register(const std::string& path, int as_of);
  void Forget(const std::string& path);
  void Note(std::string what);

  const std::string directory_;
  UniqueFd events_, end_;
  std::thread thread_;
  // Used only by the thread.
  int now_ = 0;
  std::map<std::string, int> wanted_;
  std::map<std::string, Known> known_;
  std::map<std::string, Clock::time_point> not_before_;

  mutable std::mutex mutex_;
  std::map<std::string, Driver> drivers_;
  std::vector<std::string> history_;
};

}  // namespace mooring::testing

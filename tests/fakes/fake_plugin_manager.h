// Kubelet's plugin manager, told by what its sources do: pkg/kubelet/pluginmanager, and pkg/volume/csi for CSI plugins.
//
//   watcher     inotify(7) on the registration directory; a socket that is created or renamed to there, under a name
//               without a dot in front, is wanted, as of now; one that is removed is not. What is renamed away is not
//               noticed. When it starts, it takes what is there.
//   reconciler  every so often: what is known and not wanted, or wanted as of later, is forgotten; then what is
//               wanted and not known is registered:
//   register    dial, GetInfo within 1 s; type and versions are checked: failing there it is tried again by and by.
//               From then on it is known. NodeGetInfo at the endpoint; what fails there is told to the plugin, and
//               that is all: it is known, and not tried again.
//
// In a thread of its own. Kubelet's second between two rounds is 10 ms here.
#ifndef MOORING_TESTS_FAKES_FAKE_PLUGIN_MANAGER_H_
#define MOORING_TESTS_FAKES_FAKE_PLUGIN_MANAGER_H_

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
  // What kubelet keeps of a CSI driver.
  struct Driver {
    std::string endpoint, node_id;
    std::map<std::string, std::string> topology;
    std::int64_t max_volumes = 0;
  };

  explicit FakePluginManager(std::string directory);
  ~FakePluginManager();  // stops

  void Start();
  void Stop();  // and forgets, as a kubelet that ends; the next Start is another kubelet

  std::optional<Driver> Find(const std::string& driver) const;
  // All it did, in order: "registered mooring.csi", "refused mooring.csi: why", "forgot mooring.csi", "GetInfo: why".
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
  // Of the thread.
  int now_ = 0;
  std::map<std::string, int> wanted_;
  std::map<std::string, Known> known_;
  std::map<std::string, Clock::time_point> not_before_;

  mutable std::mutex mutex_;
  std::map<std::string, Driver> drivers_;
  std::vector<std::string> history_;
};

}  // namespace mooring::testing

#endif  // MOORING_TESTS_FAKES_FAKE_PLUGIN_MANAGER_H_

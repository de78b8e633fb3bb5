// The kubelet of a node, as a CSI plugin sees it. It makes the same directories and sends the same calls in the same
// order. It keeps the same state after each answer, and restarts in the same way. The numbers K1 to K28 are explained
// in tests/kubernetes/README.md.
//
//   pod comes     device  none ──Stage──▶ done        each call on a connection of its own, three times
//                 mount   none ──Publish──▶ done      NodeGetCapabilities before it (K3)
//   call fails    a final code: none, and kubelet removes its directory; any other code: uncertain (K19)
//   pod goes      mount not none: Unpublish, rmdir; the last of a volume: device not none: Unstage, rmdir
//   kubelet ends  done becomes uncertain: running pods are set up again, other pods are torn down (K26)
#ifndef MOORING_TESTS_RPC_ORCHESTRATORS_FAKE_KUBELET_H_
#define MOORING_TESTS_RPC_ORCHESTRATORS_FAKE_KUBELET_H_

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tests/fakes/fake_plugin_manager.h"
#include "tests/rpc/orchestrators/fs_group.h"
#include "tests/rpc/support/driver.h"

namespace mooring::testing {

// A volume of a pod: a PersistentVolume, or an inline one.
struct PodVolume {
  std::string pod, name;  // the pod's uid; the PersistentVolume's name, or the volume's in the pod
  std::string id;
  VolumeCapability capability;
  bool read_only = false;
  bool is_inline = false;
  std::map<std::string, std::string> context = {};  // volume_context of CreateVolume, or attributes of an inline volume
  std::map<std::string, std::string> secrets = {};
  std::optional<FsGroup> fs_group = std::nullopt;  // in the pod's securityContext
};

class FakeKubelet {
 public:
  FakeKubelet(std::string root, std::string driver);

  const std::string& registry() const { return registry_; }
  FakePluginManager& plugins() { return plugins_; }
  bool AwaitRegistered();  // waits 10 s at most

  void Start() { plugins_.Start(); }
  void Stop();

  // A single try each, as in kubelet's sync of a pod. UNAVAILABLE: the driver is not registered.
  absl::Status SetUp(const PodVolume& volume);
  absl::Status TearDown(const PodVolume& volume);
  // Repeats `sync` until it succeeds, for 10 s at most. The pauses double (K18). Returns the number of tries.
  static int Repeat(const std::function<absl::Status()>& sync);

  std::string StagingPath(const PodVolume& volume) const;
  std::string TargetPath(const PodVolume& volume) const;
  bool pod_info_on_mount = true;

  // Kubelet's directories that it could not remove: "Orphaned pod found" (K7).
  std::vector<std::string> Orphans() const;

 private:
  enum class State { kNone, kUncertain, kDone };
  using Key = std::pair<std::string, std::string>;  // pod and volume id; "" and volume id for a device

  absl::StatusOr<std::string> Endpoint();
  absl::Status MountDevice(const PodVolume& volume, const std::string& endpoint);
  absl::Status Mount(const PodVolume& volume, const std::string& endpoint);
  absl::Status UnmountDevice(const PodVolume& volume, const std::string& endpoint);
  absl::Status Unmount(const PodVolume& volume, const std::string& endpoint);
  csi::v1::NodePublishVolumeRequest PublishRequest(const PodVolume& volume, const std::string& endpoint) const;

  State Get(const Key& key);
  bool IsMountedForAnyPod(const std::string& id);
  absl::Status Keep(const Key& key, const absl::Status& outcome, const std::string& path);
  void RemoveOwn(const std::string& path);

  const std::string root_, driver_, registry_;
  FakePluginManager plugins_;
  mutable std::mutex mutex_;
  std::map<Key, State> states_;
  std::vector<std::string> orphans_;
};

}  // namespace mooring::testing

#endif  // MOORING_TESTS_RPC_ORCHESTRATORS_FAKE_KUBELET_H_

#include "tests/rpc/orchestrators/fake_kubelet.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/support/wait_until.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kFirstPause{5}, kLongestPause{200};
constexpr std::chrono::seconds kPatience{10};
constexpr int kCapabilityCalls = 3;

// After any other code, kubelet does not know whether the step was done.
bool IsFinal(const absl::Status& status) {
  constexpr std::array kOpen = {Code::kCancelled, Code::kDeadlineExceeded, Code::kUnavailable, Code::kResourceExhausted,
                                Code::kAborted};
  return std::find(kOpen.begin(), kOpen.end(), status.code()) == kOpen.end();
}

std::string Directory(const std::string& path) {
  if (!fs::exists(path)) {
    fs::create_directories(path);
    ::chmod(path.c_str(), 0750);
  }
  return path;
}

// Kubelet asks before each step whether the plugin can do it. Each call has a connection of its own.
absl::Status AskCapabilities(const std::string& endpoint, int times) {
  for (int i = 0; i < times; ++i) {
    const auto answer = Driver(endpoint).Send(csi::v1::NodeGetCapabilitiesRequest());
    if (!answer.status.ok()) return answer.status;
  }
  return absl::OkStatus();
}

template <typename Request>
absl::Status Send(const std::string& endpoint, const Request& request, int capability_calls) {
  if (absl::Status asked = AskCapabilities(endpoint, capability_calls); !asked.ok()) return asked;
  Driver plugin(endpoint);
  plugin.set_deadline(std::chrono::seconds(120));
  return plugin.Send(request).status;
}

// With VOLUME_MOUNT_GROUP, kubelet passes the pod's fsGroup to the plugin, and changes no file itself.
bool OffersMountGroup(const std::string& endpoint) {
  const auto answer = Driver(endpoint).Send(csi::v1::NodeGetCapabilitiesRequest());
  const auto& offered = answer->capabilities();
  return std::any_of(offered.begin(), offered.end(), [](const csi::v1::NodeServiceCapability& capability) {
    return capability.rpc().type() == csi::v1::NodeServiceCapability::RPC::VOLUME_MOUNT_GROUP;
  });
}

VolumeCapability CapabilityFor(const PodVolume& volume, const std::string& endpoint) {
  if (!volume.fs_group || !volume.capability.has_mount() || !OffersMountGroup(endpoint)) return volume.capability;
  return WithGroup(volume.capability, std::to_string(volume.fs_group->group));
}

}  // namespace

FakeKubelet::FakeKubelet(std::string root, std::string driver)
    : root_(std::move(root)),
      driver_(std::move(driver)),
      registry_(Directory(root_ + "/plugins_registry")),
      plugins_(registry_) {}

bool FakeKubelet::AwaitRegistered() {
  return WaitUntil([this] { return plugins_.Find(driver_).has_value(); }, kPatience);
}

void FakeKubelet::Stop() {
  plugins_.Stop();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [key, state] : states_) state = State::kUncertain;
}

absl::StatusOr<std::string> FakeKubelet::Endpoint() {
  const auto driver = plugins_.Find(driver_);
  if (driver.has_value()) return driver->endpoint;
  return absl::UnavailableError("driver name " + driver_ + " not found in the list of registered CSI drivers");
}

int FakeKubelet::Repeat(const std::function<absl::Status()>& sync) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  auto pause = kFirstPause;
  for (int tries = 1;; ++tries) {
    const absl::Status status = sync();
    if (status.ok()) return tries;
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "kubelet would repeat this call for ever: " << status;
      return tries;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

// Kubelet names the directory of a mount volume after the SHA-256 of the id. Here any unique name is enough.
std::string FakeKubelet::StagingPath(const PodVolume& volume) const {
  const std::string csi = root_ + "/plugins/kubernetes.io/csi/";
  if (volume.capability.has_block()) return csi + "volumeDevices/staging/" + volume.name;
  return csi + driver_ + "/" + std::to_string(std::hash<std::string>()(volume.id)) + "/globalmount";
}

std::string FakeKubelet::TargetPath(const PodVolume& volume) const {
  if (volume.capability.has_block()) {
    return root_ + "/plugins/kubernetes.io/csi/volumeDevices/publish/" + volume.name + "/" + volume.pod;
  }
  return root_ + "/pods/" + volume.pod + "/volumes/kubernetes.io~csi/" + volume.name + "/mount";
}

absl::Status FakeKubelet::SetUp(const PodVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::string endpoint, Endpoint());
  if (!volume.is_inline && Get({"", volume.id}) != State::kDone) {
    MOORING_RETURN_IF_ERROR(MountDevice(volume, endpoint));
  }
  return Get({volume.pod, volume.id}) == State::kDone ? absl::OkStatus() : Mount(volume, endpoint);
}

absl::Status FakeKubelet::TearDown(const PodVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::string endpoint, Endpoint());
  if (Get({volume.pod, volume.id}) != State::kNone) MOORING_RETURN_IF_ERROR(Unmount(volume, endpoint));
  if (Get({"", volume.id}) == State::kNone || IsMountedForAnyPod(volume.id)) return absl::OkStatus();
  return UnmountDevice(volume, endpoint);
}

absl::Status FakeKubelet::MountDevice(const PodVolume& volume, const std::string& endpoint) {
  csi::v1::NodeStageVolumeRequest request =
      StageRequest(volume.id, Directory(StagingPath(volume)), CapabilityFor(volume, endpoint));
  request.mutable_volume_context()->insert(volume.context.begin(), volume.context.end());
  request.mutable_secrets()->insert(volume.secrets.begin(), volume.secrets.end());
  (*request.mutable_volume_context())["storage.kubernetes.io/csiProvisionerIdentity"] = "1700000000000-4711-" + driver_;
  return Keep({"", volume.id}, Send(endpoint, request, kCapabilityCalls), StagingPath(volume));
}

csi::v1::NodePublishVolumeRequest FakeKubelet::PublishRequest(const PodVolume& volume,
                                                              const std::string& endpoint) const {
  csi::v1::NodePublishVolumeRequest request =
      mooring::testing::PublishRequest(volume.id, volume.is_inline ? "" : StagingPath(volume), TargetPath(volume),
                                       CapabilityFor(volume, endpoint), volume.read_only);
  request.mutable_secrets()->insert(volume.secrets.begin(), volume.secrets.end());
  auto& context = *request.mutable_volume_context();
  context.insert(volume.context.begin(), volume.context.end());
  if (!volume.is_inline) context["storage.kubernetes.io/csiProvisionerIdentity"] = "1700000000000-4711-" + driver_;
  if (!pod_info_on_mount) return request;
  context["csi.storage.k8s.io/pod.name"] = "web-0";
  context["csi.storage.k8s.io/pod.namespace"] = "default";
  context["csi.storage.k8s.io/pod.uid"] = volume.pod;
  context["csi.storage.k8s.io/serviceAccount.name"] = "default";
  context["csi.storage.k8s.io/ephemeral"] = volume.is_inline ? "true" : "false";
  return request;
}

absl::Status FakeKubelet::Mount(const PodVolume& volume, const std::string& endpoint) {
  const std::string parent = Directory(fs::path(TargetPath(volume)).parent_path());
  if (!volume.capability.has_block()) std::ofstream(parent + "/vol_data.json") << "{}";
  const absl::Status published = Send(endpoint, PublishRequest(volume, endpoint), kCapabilityCalls);
  if (published.ok() && volume.fs_group && volume.capability.has_mount() && !OffersMountGroup(endpoint)) {
    GiveToGroup(TargetPath(volume), *volume.fs_group);
  }
  return Keep({volume.pod, volume.id}, published, TargetPath(volume));
}

absl::Status FakeKubelet::Unmount(const PodVolume& volume, const std::string& endpoint) {
  csi::v1::NodeUnpublishVolumeRequest request;
  request.set_volume_id(volume.id);
  request.set_target_path(TargetPath(volume));
  MOORING_RETURN_IF_ERROR(Send(endpoint, request, 0));
  const fs::path target = TargetPath(volume);
  RemoveOwn(target);
  fs::remove(target.parent_path() / "vol_data.json");
  if (!volume.capability.has_block()) RemoveOwn(target.parent_path());
  const std::lock_guard<std::mutex> lock(mutex_);
  states_.erase({volume.pod, volume.id});
  return absl::OkStatus();
}

absl::Status FakeKubelet::UnmountDevice(const PodVolume& volume, const std::string& endpoint) {
  csi::v1::NodeUnstageVolumeRequest request;
  request.set_volume_id(volume.id);
  request.set_staging_target_path(StagingPath(volume));
  MOORING_RETURN_IF_ERROR(Send(endpoint, request, 1));
  RemoveOwn(StagingPath(volume));
  const std::lock_guard<std::mutex> lock(mutex_);
  states_.erase({"", volume.id});
  return absl::OkStatus();
}

FakeKubelet::State FakeKubelet::Get(const Key& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = states_.find(key);
  return found == states_.end() ? State::kNone : found->second;
}

bool FakeKubelet::IsMountedForAnyPod(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(states_.begin(), states_.end(),
                     [&](const auto& entry) { return entry.first.second == id && !entry.first.first.empty(); });
}

absl::Status FakeKubelet::Keep(const Key& key, const absl::Status& outcome, const std::string& path) {
  if (!outcome.ok() && IsFinal(outcome)) RemoveOwn(path);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (outcome.ok()) {
    states_[key] = State::kDone;
  } else if (IsFinal(outcome)) {
    states_.erase(key);
  } else {
    states_[key] = State::kUncertain;
  }
  return outcome;
}

// Uses rmdir(2) only, because files or mounts in the directory are somebody's data.
void FakeKubelet::RemoveOwn(const std::string& path) {
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  orphans_.push_back(path);
}

std::vector<std::string> FakeKubelet::Orphans() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return orphans_;
}

}  // namespace mooring::testing

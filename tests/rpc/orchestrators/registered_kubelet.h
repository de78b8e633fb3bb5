// A plugin that registers itself with a fake kubelet. At the end of a test the kubelet tears its pods down.
#ifndef MOORING_TESTS_RPC_ORCHESTRATORS_REGISTERED_KUBELET_H_
#define MOORING_TESTS_RPC_ORCHESTRATORS_REGISTERED_KUBELET_H_

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/rpc/orchestrators/fake_kubelet.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {

constexpr auto kReadWriteOnce = AccessMode::SINGLE_NODE_MULTI_WRITER;  // because the plugin advertises this mode (K8)

class RegisteredKubelet : public RpcTest {
 protected:
  RegisteredKubelet() { AddFlags({"--kubelet-registration-dir", kubelet_.registry()}); }

  void SetUp() override {
    kubelet_.Start();
    RpcTest::SetUp();
    ASSERT_TRUE(kubelet_.AwaitRegistered());
  }

  void TearDown() override {
    for (const PodVolume& volume : std::vector<PodVolume>(pods_)) End(volume);
    EXPECT_THAT(kubelet_.Orphans(), ::testing::IsEmpty());
    RpcTest::TearDown();
  }

  // Starts and ends a pod.
  void Begin(const PodVolume& volume) {
    ASSERT_OK(kubelet_.SetUp(volume));
    pods_.push_back(volume);
  }
  void End(const PodVolume& volume) {
    FakeKubelet::Repeat([&] { return kubelet_.TearDown(volume); });
    EXPECT_FALSE(std::filesystem::exists(kubelet_.TargetPath(volume))) << kubelet_.TargetPath(volume);
    std::erase_if(pods_, [&](const PodVolume& pod) { return pod.pod == volume.pod && pod.id == volume.id; });
  }

  PodVolume PodOf(const std::string& pod, const std::string& id, const VolumeCapability& capability) {
    return {.pod = pod, .name = "pvc-" + id, .id = id, .capability = capability};
  }

  // The number of calls of a method in the plugin's log after the offset `from`.
  int Calls(const std::string& method, std::size_t from = 0) {
    const std::string log = plugin().Log(), wanted = "call method=" + method + " ";
    int calls = 0;
    for (std::size_t at = log.find(wanted, from); at != std::string::npos; at = log.find(wanted, at + 1)) ++calls;
    return calls;
  }

  FakeKubelet& kubelet() { return kubelet_; }

 private:
  FakeKubelet kubelet_{dir() / "kubelet", "mooring.csi"};
  std::vector<PodVolume> pods_;
};

}  // namespace mooring::testing

#endif  // MOORING_TESTS_RPC_ORCHESTRATORS_REGISTERED_KUBELET_H_

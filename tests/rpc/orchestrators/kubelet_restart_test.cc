// K25 to K27: kubelet, the plugin, or both are stopped for a while.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "base/file/unique_fd.h"
#include "tests/rpc/orchestrators/registered_kubelet.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

class KubeletRestart : public RegisteredKubelet {
 protected:
  // A pod with a volume of each kind.
  std::vector<PodVolume> Pods(const std::string& pod) {
    std::vector<PodVolume> volumes;
    for (const VolumeCapability& capability : {Mount("", kReadWriteOnce), Block(kReadWriteOnce)}) {
      volumes.push_back(PodOf(pod, Created(capability), capability));
      Begin(volumes.back());
    }
    return volumes;
  }
  void Stop(int signal) {
    driver().Disconnect();
    plugin().End(signal);
  }
};

TEST_F(KubeletRestart, K25_PodsContinueWithoutThePlugin) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    const std::vector<PodVolume> pod = Pods("uid-" + std::to_string(signal));
    UniqueFd file(::open((kubelet().TargetPath(pod[0]) + "/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    const std::string mounts = RawMounts();
    Stop(signal);
    EXPECT_EQ(::write(file.get(), "still writing", 13), 13);
    file.reset();
    for (const PodVolume& volume : pod) {
      EXPECT_EQ(StatusOf(kubelet().TearDown(volume)).code(), Code::kUnavailable) << "a pending call";
    }
    EXPECT_EQ(RawMounts(), mounts);
    const std::size_t from = plugin().Log().size();
    Start();
    ASSERT_TRUE(Eventually([&] { return Calls("NodeGetInfo", from) == 1; })) << "registered again";
    // This checks the fake kubelet.
    for (const char* method : {"NodeStageVolume", "NodePublishVolume"}) EXPECT_EQ(Calls(method, from), 0);
    for (const PodVolume& volume : pod) End(volume);
    ExpectNoLoops();
  }
}

// Kubelet calls NodeGetInfo, then stages and publishes for running pods. It unpublishes for pods that were deleted.
TEST_F(KubeletRestart, K26_StartedKubeletSetsUpRunningPods) {
  const std::vector<PodVolume> stays = Pods("uid-1");
  PodVolume goes = stays[0];
  goes.pod = "uid-2";
  Begin(goes);
  const std::string before = RawMounts();
  kubelet().Stop();
  const std::size_t from = plugin().Log().size();
  kubelet().Start();
  ASSERT_TRUE(kubelet().AwaitRegistered());
  End(goes);
  for (const PodVolume& volume : stays) EXPECT_OK(kubelet().SetUp(volume));
  EXPECT_TRUE(Eventually([&] { return Calls("NodePublishVolume", from) == 2; }));
  EXPECT_EQ(Calls("NodeGetInfo", from), 1);
  EXPECT_EQ(Calls("NodeStageVolume", from), 2);
  EXPECT_EQ(LoopsHere().size(), 2U);
  Begin(goes);
  End(goes);
  for (const PodVolume& volume : stays) EXPECT_TRUE(MountAt(kubelet().TargetPath(volume)));
  EXPECT_NE(before.find(kubelet().TargetPath(stays[0])), std::string::npos);
}

TEST_F(KubeletRestart, K26_StartedKubeletAcceptsARestartedPlugin) {
  const std::vector<PodVolume> pod = Pods("uid-1");
  for (const int signal : {SIGTERM, SIGKILL}) {
    const std::string mounts = RawMounts();
    kubelet().Stop();
    Restart(signal);
    kubelet().Start();
    ASSERT_TRUE(kubelet().AwaitRegistered());
    for (const PodVolume& volume : pod) EXPECT_OK(kubelet().SetUp(volume));
    EXPECT_EQ(RawMounts(), mounts);
  }
}

TEST_F(KubeletRestart, K27_PodIsTornDownAfterBothWereDown) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    const std::vector<PodVolume> pod = Pods("uid-" + std::to_string(signal));
    kubelet().Stop();
    Stop(signal);
    EXPECT_TRUE(MountAt(kubelet().TargetPath(pod[0]))) << "nobody unmounts meanwhile";
    kubelet().Start();
    EXPECT_EQ(StatusOf(kubelet().TearDown(pod[0])).code(), Code::kUnavailable) << "no driver is registered";
    Start();
    ASSERT_TRUE(kubelet().AwaitRegistered());
    for (const PodVolume& volume : pod) End(volume);
    EXPECT_THAT(MountsBelow(dir() / "kubelet"), IsEmpty());
    ExpectNoLoops();
    for (const PodVolume& volume : pod) EXPECT_FALSE(fs::exists(kubelet().StagingPath(volume)));
  }
}

}  // namespace
}  // namespace mooring::testing

// Eight threads make random calls on four volumes. An image never has two devices, and a path never has two mounts. At
// the end all volumes can be unpublished, unstaged and deleted.
#include <random>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

constexpr std::size_t kVolumes = 4;

class RandomCalls : public RpcTest {
 protected:
  struct Volume {
    std::string id;
    VolumeCapability use;
    std::vector<std::string> stagings, targets;
  };

  void SetUp() override {
    RpcTest::SetUp();
    for (std::size_t i = 0; i < kVolumes; ++i) {
      Volume volume;
      volume.use = i % 2 == 0 ? kSharedMount : kSharedBlock;
      volume.id = Created(volume.use);
      for (const char* usage : {"one", "two"}) volume.stagings.push_back(Staging(volume.id, usage));
      for (const char* name : {"a", "b", "c"}) volume.targets.push_back(Target(name, volume.id));
      volumes_.push_back(volume);
    }
  }

  // Makes a random call. Concurrent calls can cause only the codes below.
  void Act(Driver& client, std::mt19937& random) {
    const Volume& volume = volumes_[random() % kVolumes];
    const std::string& staging = volume.stagings[random() % volume.stagings.size()];
    const std::string& target = volume.targets[random() % volume.targets.size()];
    absl::Status status;
    switch (random() % 8) {
      case 0:
      case 1:
        status = client.Stage(volume.id, staging, volume.use).status;
        break;
      case 2:
        status = client.Unstage(volume.id, staging).status;
        break;
      case 3:
      case 4:
        status = client.Publish(volume.id, staging, target, volume.use, random() % 2 == 0).status;
        break;
      case 5:
        status = client.Unpublish(volume.id, target).status;
        break;
      case 6:
        status = client.Stats(volume.id, target).status;
        break;
      default:
        status = client.NodeExpand(volume.id, target).status;
        break;
    }
    ++calls_;
    if (status.ok()) ++successes_;
    EXPECT_THAT(status.code(), AnyOf(Code::kOk, Code::kNotFound, Code::kFailedPrecondition, Code::kAlreadyExists))
        << status;
  }

  void CheckInvariants() {
    for (const Volume& volume : volumes_) {
      EXPECT_LE(LoopsOver(Image(volume.id)).size(), 1U) << "two devices over one file";
      for (const std::string& path : volume.targets) EXPECT_FALSE(IsStacked(path)) << path;
      for (const std::string& path : volume.stagings) EXPECT_FALSE(IsStacked(path)) << path;
    }
  }

  std::vector<Volume> volumes_;
  std::atomic<int> calls_{0}, successes_{0};
};

TEST_F(RandomCalls, LeaveNoSecondDeviceAndNoStackedMount) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    threads.emplace_back([&, seed] {
      Driver client(dir() / "csi.sock");
      std::mt19937 random(seed);
      while (!over) Act(client, random);
    });
  }
  const auto is_enough = [&] { return calls_ > 100 && successes_ > 50; };
  const auto end = Clock::now() + milliseconds(1500), latest = end + std::chrono::minutes(1);
  while (Clock::now() < end || (!is_enough() && Clock::now() < latest)) CheckInvariants();
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(calls_, 100);
  EXPECT_GT(successes_, 50);
  for (const Volume& volume : volumes_) {
    for (const std::string& path : volume.targets) EXPECT_OK(driver().Unpublish(volume.id, path));
    for (const std::string& path : volume.stagings) EXPECT_OK(driver().Unstage(volume.id, path));
    EXPECT_OK(driver().Delete(volume.id));
  }
  ExpectNoLoops();
}

}  // namespace
}  // namespace mooring::testing

// Plugins that die, hang and are replaced while volumes are attached, with real processes and mounts.
#include <signal.h>

#include <algorithm>

#include "tests/manager/system/manager_test.h"

namespace mooring::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kVolumes = 10;

std::string VolumeId(int number) { return "v" + std::to_string(number); }

class PluginTrouble : public ManagerTest {
 protected:
  // Attaches volumes of the strict driver and writes a file to each.
  void AttachAll() {
    RunPlugin(kStrictPlugin);
    for (int i = 0; i < kVolumes; ++i) {
      Create(VolumeId(i), kStrictPlugin);
      ASSERT_EQ(TryWrite(Attached(VolumeId(i)) + "/f", VolumeId(i)), 0);
    }
    mounts_ = MountIds();
    ASSERT_GE(mounts_.size(), static_cast<std::size_t>(kVolumes));
  }

  // The same mounts with the same files.
  void ExpectUntouched() {
    EXPECT_EQ(MountIds(), mounts_);
    for (int i = 0; i < kVolumes; ++i) EXPECT_EQ(ReadFile(dir() / (VolumeId(i) + "/f")), VolumeId(i));
  }

  void DetachAll() {
    for (int i = 0; i < kVolumes; ++i) EXPECT_OK(client().Detach("web-1", VolumeId(i)));
    EXPECT_THAT(MountsHere(), IsEmpty());
    EXPECT_THAT(client().Claims(), IsEmpty());
  }

  // The version of the healthy node instance in use.
  std::string ServingVersion() {
    const auto status = client().Plugin(kStrictPlugin);
    if (!status.ok()) return "";
    for (const auto& one : status->instances()) {
      if (one.front() && one.healthy() && one.instance().type() == v1::CSI_NODE) return one.vendor_version();
    }
    return "";
  }

 private:
  std::vector<std::string> mounts_;
};

TEST_F(PluginTrouble, NewVersionReplacesHangingOneAtOnce) {
  AttachAll();
  Create("busy", kStrictPlugin);
  Attached("busy");
  const pid_t hung = PluginPid(kStrictPlugin);
  ASSERT_EQ(::kill(hung, SIGSTOP), 0);
  auto detach = std::async(std::launch::async,
                           [this] { return ManagerClient(process().options().socket).Detach("web-1", "busy"); });
  EXPECT_TRUE(Eventually([&] {
    const auto all = client().Attachments();
    return std::any_of(all.begin(), all.end(),
                       [](const auto& each) { return each.phase() == v1::Attachment::UNMOUNTING; });
  }));
  RunPlugin(kStrictPlugin, {"--version", "2"});
  EXPECT_OK(detach.get()) << "the new version gets the call that hangs at the old one";
  EXPECT_TRUE(Eventually([&] { return ServingVersion() == "2"; })) << "the old one need not be gone";
  ExpectUntouched();
  DetachAll();
  ::kill(hung, SIGKILL);  // so that the test need not wait for its end
}

TEST_F(PluginTrouble, HangingPluginDoesNotSlowOthers) {
  RunPlugin(kStrictPlugin);
  RunPlugin(kOurPlugin);
  for (int i = 0; i < 4; ++i) Create("hung" + std::to_string(i), kStrictPlugin);
  Create("well", kOurPlugin);
  const auto median = [&] {
    std::vector<Clock::duration> times;
    for (int i = 0; i < 9; ++i) {
      const Clock::time_point before = Clock::now();
      Attached("well");
      times.push_back(Clock::now() - before);
      EXPECT_OK(client().Detach("web-1", "well"));
    }
    std::nth_element(times.begin(), times.begin() + 4, times.end());
    return times[4];
  };
  median();  // warms the caches
  const Clock::duration before = median();

  const pid_t hung = PluginPid(kStrictPlugin);
  ASSERT_EQ(::kill(hung, SIGSTOP), 0);
  std::vector<std::future<absl::Status>> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(std::async(std::launch::async, [this, i] {
      ManagerClient other(process().options().socket);
      const std::string id = "hung" + std::to_string(i);
      return other.Attach(id, "web-1", dir() / id).status();
    }));
  }
  const Clock::duration meanwhile = median();
  EXPECT_LT(meanwhile, 2 * before + milliseconds(20))
      << std::chrono::duration_cast<std::chrono::microseconds>(before).count() << " us before";
  RecordProperty("before_us", static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(before).count()));
  RecordProperty("meanwhile_us",
                 static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(meanwhile).count()));
  for (const auto& each : waiting) EXPECT_EQ(each.wait_for(seconds(0)), std::future_status::timeout);
  ::kill(hung, SIGCONT);
  for (auto& each : waiting) EXPECT_OK(each.get());
}

}  // namespace
}  // namespace mooring::testing

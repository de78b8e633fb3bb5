// The helper's client while a filesystem hangs. Each call ends at the thread's deadline, and few later calls are let
// in. Nothing is changed behind a call that may still change something.
#include <signal.h>

#include <fstream>

#include "base/deadline.h"
#include "tests/kernel/helper/helper_test.h"
#include "tests/support/fuse_server.h"

namespace mooring::testing {
namespace {

constexpr milliseconds kDeadline{200};
constexpr milliseconds kLong{30000};  // of calls that are refused early

class HungMountTest : public KernelTest {
 protected:
  void SetUp() override {
    fuse_ = std::make_unique<FuseServer>(Dir("roots/fuse"));
    Dir("roots/fuse/pods");
    Dir("sources");
    helper_ = StartHelper({{Path("roots")}, {Path("sources")}, "mooring-kernel-test"});
    ASSERT_OK(helper_->Mount(MountOf(Ext4Image("sources/vol.img"), Path("roots/staging"))));
  }
  void TearDown() override {
    fuse_->Resume();
    helper_.reset();
    KernelTest::TearDown();
  }

  // Deadline and all: what it took in `took_`.
  absl::Status InTime(const std::function<absl::Status()>& call) {
    const auto start = Clock::now();
    const DeadlineScope deadline(start + deadline_);
    absl::Status status = call();
    took_ = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    return status;
  }
  absl::Status Bind() {
    return InTime([&] { return helper_->Bind(BindOf(Path("roots/staging"), target_)); });
  }
  absl::Status Unmount() {
    return InTime([&] { return helper_->Unmount(UnmountOf(target_, true)); });
  }
  absl::Status Find() {
    return InTime([&] { return helper_->Find(target_).status(); });
  }

  // A volume whose file hangs when the server does.
  std::string ImageOnFuse() {
    std::string image = File("sources/hung.img");
    EXPECT_EQ(Tool(fmt::format("cp {} {}", Path("sources/vol.img"), Path("roots/fuse/image"))), 0);
    EXPECT_EQ(::mount(Path("roots/fuse/image").c_str(), image.c_str(), nullptr, MS_BIND, nullptr), 0);
    return image;
  }

  const std::string target_ = Path("roots/fuse/pods/target");
  std::unique_ptr<FuseServer> fuse_;
  std::unique_ptr<HelperMounter> helper_;
  milliseconds took_{}, deadline_ = kDeadline;
};

TEST_F(HungMountTest, EveryCallEndsAtItsDeadlineAndOthersGoOn) {
  ASSERT_OK(Bind());
  fuse_->Hang();
  for (const bool looks : {true, false}) {
    EXPECT_THAT(looks ? Find() : Unmount(), FailsWith(StatusCode::kDeadlineExceeded, target_));
    EXPECT_GE(took_, kDeadline);
    EXPECT_OK(InTime([&] { return helper_->Find(Path("roots/staging")).status(); }));
    EXPECT_OK(InTime([&] { return helper_->Bind(BindOf(Path("roots/staging"), Path("roots/other"))); }));
    EXPECT_OK(InTime([&] { return helper_->Unmount(UnmountOf(Path("roots/other"), true)); }));
  }
  fuse_->Resume();
  EXPECT_TRUE(Eventually([&] { return Find().ok(); }));
}

TEST_F(HungMountTest, AFewMayHangAtAPathAndMoreAreNotTried) {
  fuse_->Hang();
  for (int i = 0; i < 4; ++i) EXPECT_THAT(Find(), FailsWith(StatusCode::kDeadlineExceeded, "no answer"));
  deadline_ = kLong;
  EXPECT_THAT(Find(), FailsWith(StatusCode::kDeadlineExceeded, "not tried"));
  EXPECT_LT(took_, kLong / 2);
  EXPECT_EQ(helper_->hanging(), 4U);
  fuse_->Resume();
  EXPECT_TRUE(Eventually([&] { return helper_->hanging() == 0; })) << "without a call that asks";
  EXPECT_TRUE(Eventually([&] { return Find().ok(); }));
}

TEST_F(HungMountTest, ASourceThatHangsIsNotAsked) {
  fuse_->Hang();
  EXPECT_EQ(AskInChild([&] { return mounter_.Bind(BindOf(Path("roots/fuse"), Path("roots/other"))).ToString(); }),
            "OK");
  EXPECT_EQ(MountsAt(Path("roots/other")).size(), 1U);
  EXPECT_EQ(::umount2(Path("roots/other").c_str(), MNT_DETACH), 0);
}

// Its sockets stay open for as long as the thread that hangs: the kernel lets it go when the server answers.
TEST_F(HungMountTest, AHelperThatIsKilledWhileACallHangsIsReplaced) {
  const std::string image = ImageOnFuse();
  const std::string sick = Path("roots/sick");
  ASSERT_OK(helper_->Mount(MountOf(image, sick)));
  std::ofstream(sick + "/file") << "to be written at the end";
  const pid_t killed = helper_->pid();
  fuse_->HangOnData();
  absl::Status waiting;
  std::thread call([&] {
    const DeadlineScope deadline(Clock::now() + std::chrono::seconds(15));
    waiting = helper_->Unmount(UnmountOf(sick, true));
  });
  std::this_thread::sleep_for(milliseconds(300));
  const auto start = Clock::now();
  ASSERT_EQ(::kill(killed, SIGKILL), 0);
  call.join();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(4));
  EXPECT_THAT(waiting, FailsWith(StatusCode::kUnavailable, "ended during the call"));
  EXPECT_TRUE(Eventually([&] { return helper_->pid() > 0 && helper_->pid() != killed && helper_->Health().ok(); }));
  EXPECT_TRUE(std::filesystem::exists(fmt::format("/proc/{}/stat", killed))) << "then this test shows nothing";
  EXPECT_OK(helper_->Find(Path("roots/staging")));
  EXPECT_OK(helper_->Bind(BindOf(Path("roots/staging"), Path("roots/other"))));
  EXPECT_OK(helper_->Unmount(UnmountOf(Path("roots/other"), true)));
  fuse_->Resume();
  EXPECT_TRUE(Eventually([&] { return helper_->Unmount(UnmountOf(sick, true)).ok(); }));
  EXPECT_TRUE(Eventually([&] { return LoopsOver(image).empty() && ::umount(image.c_str()) == 0; }));
}

TEST_F(HungMountTest, CallPastItsDeadlineIsNotTried) {
  const DeadlineScope over(Clock::now() - milliseconds(1));
  const std::string beside = Path("roots/beside");
  EXPECT_THAT(helper_->Find(beside), FailsWith(StatusCode::kDeadlineExceeded, "the deadline of the call has passed"));
  EXPECT_THAT(helper_->Bind(BindOf(Path("roots/staging"), beside)),
              FailsWith(StatusCode::kDeadlineExceeded, "the deadline of the call has passed"));
  const DeadlineScope fresh = DeadlineScope::Fresh(std::chrono::seconds(10));
  EXPECT_OK(helper_->Find(beside));
}

// Probe reads the image, and so hangs with it.
TEST_F(HungMountTest, AnImageThatHangsIsADeadline) {
  const std::string image = ImageOnFuse();
  fuse_->Hang();
  EXPECT_THAT(InTime([&] { return helper_->Probe(image).status(); }),
              FailsWith(StatusCode::kDeadlineExceeded, "no answer"));
  EXPECT_THAT(
      InTime([&] { return helper_->AttachLoop({.backing_file = image, .label = "mooring-kernel-test"}).status(); }),
      FailsWith(StatusCode::kDeadlineExceeded, "no answer"));
  fuse_->Resume();
  EXPECT_TRUE(Eventually([&] { return helper_->Probe(image).ok(); }));
  EXPECT_TRUE(Eventually([&] { return !LoopsOver(image).empty(); })) << "it comes about after all";
  EXPECT_TRUE(Eventually([&] {  // the late call may still hold it
    const auto loops = helper_->FindLoops(image);
    EXPECT_OK(loops);
    for (const LoopInfo& loop : *loops) EXPECT_OK(helper_->DetachLoop(loop));
    return ::umount(image.c_str()) == 0;
  }));
}

// The late unmount would take away a mount that was made after it was given up.
TEST_F(HungMountTest, NothingIsMountedBehindAnUnmountThatHangs) {
  fuse_->Hang();
  EXPECT_THAT(Unmount(), FailsWith(StatusCode::kDeadlineExceeded, "no answer"));
  deadline_ = kLong;
  EXPECT_THAT(Bind(), FailsWith(StatusCode::kDeadlineExceeded, "an earlier call"));
  EXPECT_LT(took_, kLong / 2);
  deadline_ = kDeadline;
  EXPECT_THAT(Find(), FailsWith(StatusCode::kDeadlineExceeded, "no answer")) << "looking does no harm";
  fuse_->Resume();
  EXPECT_TRUE(Eventually([&] { return Bind().ok(); }));
  EXPECT_EQ(MountsAt(target_).size(), 1U);
  EXPECT_OK(Unmount());
}

TEST_F(HungMountTest, NothingIsUnmountedBehindAMountThatHangs) {
  fuse_->Hang();
  EXPECT_THAT(Bind(), FailsWith(StatusCode::kDeadlineExceeded, "no answer"));
  deadline_ = kLong;
  EXPECT_THAT(Unmount(), FailsWith(StatusCode::kDeadlineExceeded, "an earlier call"));
  EXPECT_LT(took_, kLong / 2);
  fuse_->Resume();
  EXPECT_TRUE(Eventually([&] { return !MountsAt(target_).empty(); })) << "it comes about after all";
  EXPECT_TRUE(Eventually([&] { return Unmount().ok(); }));
  EXPECT_TRUE(MountsAt(target_).empty());
}

// The file of the device lies on the mount that hangs, and the kernel asks its filesystem for the device's status.
TEST_F(HungMountTest, ALoopDeviceThatHangsIsLeftOutOfTheList) {
  const std::string image = Path("roots/fuse/foreign.img");
  ASSERT_EQ(Tool(fmt::format("cp {} {}", Path("sources/vol.img"), image)), 0);
  const std::string device = Losetup(image);
  fuse_->Hang();
  const auto first = Clock::now();
  const auto loops = mounter_.FindLoops("");
  const auto waited = Clock::now() - first;
  ASSERT_OK(loops);
  const auto hangs = [&](const LoopInfo& loop) { return loop.device == device && loop.hangs(); };
  const auto hung = std::find_if(loops->begin(), loops->end(), hangs);
  ASSERT_NE(hung, loops->end());
  EXPECT_EQ(hung->label, image);
  const auto start = Clock::now();
  for (int i = 0; i < 10; ++i) EXPECT_OK(mounter_.FindLoops(Path("sources/vol.img")));
  EXPECT_LT(Clock::now() - start, 5 * waited) << "only the first call waits";
  EXPECT_THAT(mounter_.AttachLoop({.backing_file = File("foreign.img", std::string(8192, 'x')), .label = "mooring-x"}),
              FailsWith(StatusCode::kDeadlineExceeded, device))
      << "by its name it may be this file's";
  fuse_->Resume();
  EXPECT_TRUE(Eventually([&] {
    const auto now = mounter_.FindLoops("");
    return now.ok() && std::none_of(now->begin(), now->end(), hangs);
  }));
  EXPECT_EQ(Tool("losetup -d " + device), 0);
}

}  // namespace
}  // namespace mooring::testing

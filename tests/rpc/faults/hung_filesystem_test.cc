// A filesystem that stops answering (tests/support/fuse_server.h) holds a target, a staging path or an image. Calls for
// that volume end at the deadline of the caller, and other calls are not delayed. When the filesystem answers again, or
// dies, the volume can be unpublished without a restart.
#include "tests/rpc/support/helper_processes.h"
#include "tests/rpc/support/rpc_test.h"
#include "tests/support/fuse_server.h"

namespace mooring::testing {
namespace {

constexpr milliseconds kDeadline{500};         // of calls that hang
constexpr std::chrono::seconds kPatience{20};  // for calls that have nothing to wait for
constexpr std::chrono::seconds kLong{60};      // of calls that hang until the filesystem answers
constexpr std::chrono::seconds kFarBelow{15};  // what many calls take together, if not each of them waits

milliseconds Since(Clock::time_point start) { return std::chrono::duration_cast<milliseconds>(Clock::now() - start); }

int CountThreads(pid_t pid) {
  std::error_code error;
  int count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/task", pid), error)) ++count;
  return count;
}

class HungFilesystem : public RpcTest {
 protected:
  void SetUp() override {
    RpcTest::SetUp();
    fuse_ = std::make_unique<FuseServer>(MakeDirectories("csi/fuse"));
    AllowMount(fuse_path_);
    healthy_ = StagedAndPublished("healthy");
  }

  void TearDown() override {
    Resume();
    RpcTest::TearDown();
    fuse_.reset();
  }

  struct Use {
    std::string id, staging, target;
  };
  Use StagedAndPublished(const std::string& name) {
    const std::string id = Created();
    return Published({id, Staging(id), Target(name)});
  }
  Use Published(const Use& use) {
    EXPECT_OK(driver().Stage(use.id, use.staging));
    EXPECT_OK(driver().Publish(use.id, use.staging, use.target));
    return use;
  }

  std::string OnFuse(const std::string& below) {
    fs::create_directories(fs::path(fuse_path_ + "/" + below).parent_path());
    return fuse_path_ + "/" + below;
  }

  Use PublishedOnFuse(const std::string& target) {
    const std::string id = Created();
    return Published({id, Staging(id), OnFuse(target)});
  }

  void Hang() {
    fuse_->Hang();
    driver().set_deadline(kDeadline);
  }

  void Resume() {
    fuse_->Resume();
    driver().set_deadline(kPatience);
  }

  // The plugin itself answers before the deadline of the caller, and names the path that hangs.
  template <typename Call>
  void ExpectHangs(Call call, const std::string& piece) {
    absl::Status status = StatusOf(call());
    // On a busy machine gRPC may end the call first, without the text of the plugin. Then the call is repeated.
    for (int attempt = 1; attempt < 5 && status.message() == "Deadline Exceeded"; ++attempt) status = StatusOf(call());
    EXPECT_THAT(status, FailsWith(Code::kDeadlineExceeded, piece));
  }

  // The filesystem hangs meanwhile. So a call that is answered has not waited for it.
  void ExpectOthersServed(int times = 5) {
    driver().set_deadline(kPatience);
    for (int i = 0; i < times; ++i) {
      EXPECT_OK(driver().Send(ProbeRequest()));
      EXPECT_OK(driver().Stats(healthy_.id, healthy_.target));
      EXPECT_OK(driver().Unpublish(healthy_.id, healthy_.target));
      EXPECT_OK(driver().Publish(healthy_.id, healthy_.staging, healthy_.target));
      EXPECT_OK(driver().List());
      EXPECT_OK(driver().Send(GetCapacityRequest()));
    }
    driver().set_deadline(kDeadline);
  }

  pid_t Helper() { return HelperOf(plugin().pid()); }

  const std::string fuse_path_ = dir() / "csi/fuse";
  std::unique_ptr<FuseServer> fuse_;
  Use healthy_;
};

TEST_F(HungFilesystem, ListNamesTheHungVolume) {
  const std::string id = Created();
  const Use hung = {id, OnFuse("staging"), ""};
  fs::create_directory(hung.staging);
  ASSERT_OK(driver().Stage(hung.id, hung.staging));
  Hang();
  driver().set_deadline(kLong);
  const auto start = Clock::now();
  const auto page = driver().List();
  EXPECT_LT(Since(start), kFarBelow) << "it waits for each volume for a moment only";
  ASSERT_OK(page);
  EXPECT_EQ(page->entries_size(), 2);
  for (const auto& entry : page->entries()) {
    const auto& condition = entry.status().volume_condition();
    EXPECT_EQ(condition.abnormal(), entry.volume().volume_id() == hung.id) << condition.message();
    EXPECT_THAT(condition.message(), HasSubstr(condition.abnormal() ? hung.staging : "healthy"));
  }
}

TEST_F(HungFilesystem, CallsOnAHungTargetTimeOut) {
  const Use hung = PublishedOnFuse("alloc/target");
  Hang();
  ExpectHangs([&] { return driver().Stats(hung.id, hung.target); }, hung.target);
  ExpectHangs([&] { return driver().Unpublish(hung.id, hung.target); }, "hangs");
  ExpectHangs([&] { return driver().Publish(hung.id, hung.staging, hung.target); }, hung.target);
  ExpectOthersServed();
  Resume();
  EXPECT_OK(driver().Stats(hung.id, hung.target));
  EXPECT_OK(driver().Unpublish(hung.id, hung.target));
  EXPECT_FALSE(fs::exists(hung.target));
}

TEST_F(HungFilesystem, CallsOnAHungStagingPathTimeOut) {
  const std::string id = Created();
  const Use hung = {id, OnFuse("staging/globalmount"), Target("hung")};
  fs::create_directory(hung.staging);
  Hang();
  ExpectHangs([&] { return driver().Stage(hung.id, hung.staging); }, hung.staging);
  ExpectHangs([&] { return driver().Publish(hung.id, hung.staging, hung.target); }, hung.staging);
  ExpectHangs([&] { return driver().Unstage(hung.id, hung.staging); }, hung.staging);
  ExpectOthersServed();
  Resume();
  Published(hung);
}

TEST_F(HungFilesystem, OthersAreServedWhileManyCallsHang) {
  const Use hung = PublishedOnFuse("alloc/target");
  const int before = CountThreads(Helper());
  fuse_->Hang();
  std::vector<std::future<absl::Status>> calls;
  for (int i = 0; i < 50; ++i) {
    calls.push_back(std::async(std::launch::async, [&] {
      Driver other(dir() / "csi.sock");
      other.set_deadline(kLong);
      return other.Stats(hung.id, hung.target).status;
    }));
  }
  std::this_thread::sleep_for(milliseconds(200));
  ExpectOthersServed(3);
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(driver().Stats(hung.id, hung.target).status.ok());
  ExpectOthersServed(1);
  const auto hangs = [](const auto& call) { return call.wait_for(milliseconds(0)) == std::future_status::timeout; };
  EXPECT_GT(std::count_if(calls.begin(), calls.end(), hangs), 0) << "then this test shows nothing";
  Resume();
  for (auto& call : calls) call.wait();
  EXPECT_TRUE(Eventually([&] { return driver().Stats(hung.id, hung.target).status.ok(); }));
  EXPECT_TRUE(Eventually([&] { return CountThreads(Helper()) <= before + 8; })) << CountThreads(Helper());
}

// Each call on its own would hold a thread of the helper.
TEST_F(HungFilesystem, RepeatedCallsDoNotAddThreads) {
  const Use hung = PublishedOnFuse("alloc/target");
  const int before = CountThreads(Helper());
  fuse_->Hang();
  driver().set_deadline(milliseconds(250));
  const auto start = Clock::now();
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT(driver().Stats(hung.id, hung.target), FailsWith(Code::kDeadlineExceeded, hung.target));
  }
  EXPECT_LT(Since(start), std::chrono::seconds(5)) << "each waited";
  EXPECT_LE(CountThreads(Helper()), before + 8);
  Resume();
  EXPECT_TRUE(Eventually([&] { return driver().Stats(hung.id, hung.target).status.ok(); }));
}

// Paths below a dead filesystem cannot be reached. The error names the command that unmounts it.
TEST_F(HungFilesystem, VolumeIsUnpublishedAfterAHungFilesystemDies) {
  const Use hung = PublishedOnFuse("alloc/target");
  Hang();
  ExpectHangs([&] { return driver().Unpublish(hung.id, hung.target); }, hung.target);
  fuse_->Die();
  driver().set_deadline(kPatience);
  EXPECT_THAT(driver().Unpublish(hung.id, hung.target),
              FailsWith(Code::kFailedPrecondition, fmt::format("umount -l {}", fuse_path_)));
  EXPECT_THAT(driver().Stats(hung.id, hung.target), FailsWith(Code::kFailedPrecondition, "does not answer any more"));
  ExpectOthersServed(1);
  ASSERT_EQ(::umount2(fuse_path_.c_str(), MNT_DETACH), 0);
  driver().set_deadline(kPatience);
  EXPECT_OK(driver().Unpublish(hung.id, hung.target));
  EXPECT_OK(driver().Unstage(hung.id, hung.staging));
}

// A pool lies on what hangs.
class HungPool : public HungFilesystem {
 protected:
  void SetUp() override {
    HungFilesystem::SetUp();
    plugin().Terminate();
    pool_ = OnFuse("pool");
    AddFlags({"--pool", "name=served,backend=image,path=" + pool_});
    Start();
    in_pool_ = Created(CreateRequest("in-pool", kSharedMount, kVolumeBytes, {{"pool", "served"}}));
  }
  std::string pool_;
  std::string in_pool_;
};

TEST_F(HungPool, AListIsCompleteAndInTime) {
  Hang();
  driver().set_deadline(kLong);
  const auto start = Clock::now();
  for (int i = 0; i < 100; ++i) {
    const auto page = driver().List();
    ASSERT_OK(page);
    ASSERT_EQ(page->entries_size(), 2);
    for (const auto& entry : page->entries()) {
      const auto& condition = entry.status().volume_condition();
      EXPECT_EQ(condition.abnormal(), entry.volume().volume_id() == in_pool_) << condition.message();
      EXPECT_THAT(condition.message(), HasSubstr(condition.abnormal() ? "gives no answer" : "healthy"));
    }
  }
  EXPECT_LT(Since(start), kFarBelow) << "only the first waits";
  GetCapacityRequest room;
  (*room.mutable_parameters())["pool"] = "served";
  EXPECT_THAT(driver().Send(room), FailsWith(Code::kUnavailable, pool_));
  ExpectOthersServed(1);
  Resume();
  EXPECT_TRUE(Eventually([&] { return driver().Send(room).status.ok(); }));
  EXPECT_OK(driver().Delete(in_pool_));
}

// The paths of the volume answer, but the filesystem of its image does not.
class HungImage : public HungFilesystem {
 protected:
  void SetUp() override {
    HungFilesystem::SetUp();
    const std::string id = Created();
    hung_ = {id, Staging(id), Target("hung")};
    EXPECT_OK(driver().Stage(id, hung_.staging));  // formats it
    EXPECT_OK(driver().Unstage(id, hung_.staging));
    fs::copy_file(Image(id), OnFuse("image"));
    ASSERT_EQ(::mount(OnFuse("image").c_str(), Image(id).c_str(), nullptr, MS_BIND, nullptr), 0);
    Published(hung_);
  }
  void TearDown() override {
    Resume();
    EXPECT_OK(driver().Unpublish(hung_.id, hung_.target));
    EXPECT_OK(driver().Unstage(hung_.id, hung_.staging));
    EXPECT_TRUE(Eventually([&] { return ::umount(Image(hung_.id).c_str()) == 0; }));
    HungFilesystem::TearDown();
  }
  Use hung_;
};

TEST_F(HungImage, OtherVolumesAreServed) {
  const Use other = StagedAndPublished("other");
  EXPECT_OK(driver().Unpublish(other.id, other.target));
  EXPECT_OK(driver().Unstage(other.id, other.staging));
  Hang();
  ExpectHangs([&] { return driver().Stats(hung_.id, hung_.target); }, hung_.target);
  ExpectHangs([&] { return driver().Unpublish(hung_.id, hung_.target); }, hung_.target);
  ExpectOthersServed(1);
  driver().set_deadline(kPatience);
  const std::string block = Staged(Block());
  const auto start = Clock::now();
  for (int i = 0; i < 40; ++i) {
    EXPECT_OK(driver().Publish(block, Staging(block), Target("block"), Block()));
    EXPECT_OK(driver().Unpublish(block, Target("block")));
  }
  EXPECT_LT(Since(start), kFarBelow) << "only the first waits for the loop device that hangs";
  EXPECT_OK(driver().Unstage(block, Staging(block)));
  EXPECT_OK(driver().Delete(block));
  EXPECT_OK(driver().Stage(other.id, other.staging));
  EXPECT_OK(driver().Publish(other.id, other.staging, other.target));
  const Use formatted = StagedAndPublished("fresh");
  EXPECT_OK(driver().Stats(formatted.id, formatted.target));
  Resume();
  EXPECT_TRUE(Eventually([&] { return driver().Stats(hung_.id, hung_.target).status.ok(); }));
}

TEST_F(HungImage, StartIsNotDelayed) {
  fuse_->Hang();
  plugin().Kill();
  const auto start = Clock::now();
  Start();
  EXPECT_LT(Since(start), std::chrono::seconds(3));
  ExpectOthersServed(1);
  Resume();
  EXPECT_OK(driver().Stats(hung_.id, hung_.target));
}

// Reads and writes hang in the kernel, and no signal ends them. So the helper's thread that unmounts hangs, too.
TEST_F(HungImage, HelperHeldByTheKernelIsReportedAtTheEnd) {
  EXPECT_EQ(TryWrite(hung_.target + "/file", "data"), 0);
  ASSERT_OK(driver().Unpublish(hung_.id, hung_.target));
  const pid_t helper = Helper();
  fuse_->HangOnData();
  driver().set_deadline(kDeadline);
  ExpectHangs([&] { return driver().Unstage(hung_.id, hung_.staging); }, hung_.staging);
  ExpectOthersServed(1);
  const auto start = Clock::now();
  plugin().Terminate();
  EXPECT_LT(Since(start), std::chrono::seconds(4));
  EXPECT_GT(CountThreads(helper), 0) << "the helper has ended, so the test proves nothing";
  EXPECT_THAT(plugin().Log(), HasSubstr("the mount helper has not ended"));
  Start();
  ExpectOthersServed(1);
  Resume();
  EXPECT_TRUE(Eventually([&] { return CountThreads(helper) == 0; }));
  EXPECT_OK(driver().Unstage(hung_.id, hung_.staging));
}

TEST_F(HungFilesystem, StartIsNotDelayed) {
  const Use hung = PublishedOnFuse("alloc/target");
  const Use stale = PublishedOnFuse("gone/target");
  plugin().Kill();
  ASSERT_EQ(::umount(stale.target.c_str()), 0);  // a record without a mount, and its path hangs
  fuse_->Hang();
  const auto start = Clock::now();
  Start();
  EXPECT_LT(Since(start), std::chrono::seconds(5));
  ExpectOthersServed(1);
  ExpectHangs([&] { return driver().Stats(hung.id, hung.target); }, hung.target);
  Resume();
  EXPECT_OK(driver().Stats(hung.id, hung.target));
  EXPECT_OK(driver().Unpublish(stale.id, stale.target));
}

TEST_F(HungFilesystem, EndIsNotDelayedByAHungCall) {
  plugin().Terminate();
  AddFlags({"--stop-timeout", "1"});
  Start();
  const Use hung = PublishedOnFuse("alloc/target");
  const pid_t spawner = SpawnerOf(plugin().pid()), helper = Helper();
  ASSERT_GT(helper, 0);
  fuse_->Hang();
  std::thread call([&] {
    Driver other(dir() / "csi.sock");
    other.set_deadline(std::chrono::seconds(20));
    EXPECT_FALSE(other.Stats(hung.id, hung.target).status.ok());
  });
  std::this_thread::sleep_for(milliseconds(200));
  const auto start = Clock::now();
  EXPECT_EQ(plugin().Terminate(), 1);
  EXPECT_LT(Since(start), std::chrono::seconds(3));
  EXPECT_TRUE(Eventually([&] { return !Runs(helper) && !Runs(spawner); }));
  EXPECT_THAT(plugin().Log(), HasSubstr("still under way after 1 s: NodeGetVolumeStats"));
  call.join();
  Resume();
  Start();
}

// The second call waits for the first, but not longer than its caller.
TEST_F(HungFilesystem, SecondCallForTheVolumeIsAborted) {
  const Use hung = PublishedOnFuse("alloc/target");
  fuse_->Hang();
  auto first = std::async(std::launch::async, [&] {
    Driver other(dir() / "csi.sock");
    other.set_deadline(kLong);
    return other.Unpublish(hung.id, hung.target).status;
  });
  std::this_thread::sleep_for(milliseconds(200));
  driver().set_deadline(kDeadline);
  EXPECT_THAT(driver().Unpublish(hung.id, hung.target), FailsWith(Code::kAborted, "another operation"));
  ExpectOthersServed(1);
  EXPECT_EQ(first.wait_for(milliseconds(0)), std::future_status::timeout) << "then this test shows nothing";
  Resume();
  EXPECT_OK(first.get());
}

}  // namespace
}  // namespace mooring::testing

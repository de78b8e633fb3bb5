// A filesystem that stops answering, tests/support/fuse_server.h: below it a target, a staging path, or the image of a
// volume. The calls for that volume end at the caller's deadline; nobody else is held up; and when it answers again, or
// dies, everything can be taken down without a restart.
#include <fmt/format.h>
#include <signal.h>
#include <sys/mount.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <sstream>
#include <thread>

#include "tests/rpc/support/rpc_test.h"
#include "tests/support/fuse_server.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kDeadline{1000};  // of calls that hang
constexpr milliseconds kPromptly{400};   // for a call that does not, on a busy machine

milliseconds Since(Clock::time_point start) { return std::chrono::duration_cast<milliseconds>(Clock::now() - start); }

pid_t ChildOf(pid_t pid) {
  std::istringstream children(ReadFile(fmt::format("/proc/{0}/task/{0}/children", pid)));
  pid_t child = -1;
  children >> child;
  return child;
}

int ThreadsOf(pid_t pid) {
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
    Forgive(fuse_path_);
    well_ = StagedAndPublished("well");
  }

  void TearDown() override {
    fuse_->Resume();
    driver().set_deadline(std::chrono::seconds(30));
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

  void Hang() {
    fuse_->Hang();
    driver().set_deadline(kDeadline);
  }

  // The answer comes from the plugin, within the caller's deadline, and names what hangs.
  template <typename Call>
  void ExpectHangs(Call call, const std::string& piece) {
    auto start = Clock::now();
    absl::Status status = StatusOf(call());
    // On a busy machine the caller's own clock may win, without the plugin's words: then once more.
    for (int attempt = 1; attempt < 5 && status.message() == "Deadline Exceeded"; ++attempt) {
      start = Clock::now();
      status = StatusOf(call());
    }
    EXPECT_THAT(status, FailsWith(Code::kDeadlineExceeded, piece));
    EXPECT_LT(Since(start), kDeadline + kPromptly);
  }

  template <typename Call>
  void ExpectPrompt(const char* what, Call call) {
    const auto start = Clock::now();
    EXPECT_OK(call()) << what;
    EXPECT_LT(Since(start), kPromptly) << what;
  }

  void ExpectOthersServed(int times = 5) {
    for (int i = 0; i < times; ++i) {
      ExpectPrompt("Probe", [&] { return driver().Send(csi::v1::ProbeRequest()); });
      ExpectPrompt("Stats", [&] { return driver().Stats(well_.id, well_.target); });
      ExpectPrompt("Unpublish", [&] { return driver().Unpublish(well_.id, well_.target); });
      ExpectPrompt("Publish", [&] { return driver().Publish(well_.id, well_.staging, well_.target); });
      ExpectPrompt("ListVolumes", [&] { return driver().List(); });
      ExpectPrompt("GetCapacity", [&] { return driver().Send(csi::v1::GetCapacityRequest()); });
    }
  }

  pid_t Spawner() { return ChildOf(plugin().pid()); }
  pid_t Helper() { return ChildOf(Spawner()); }

  const std::string fuse_path_ = dir() / "csi/fuse";
  std::unique_ptr<FuseServer> fuse_;
  Use well_;
};

// A list is made of what answers, and says which does not.
TEST_F(HungFilesystem, AListOfAllVolumesTellsWhichDoesNotAnswer) {
  const std::string id = Created();
  const Use sick = {id, OnFuse("staging"), ""};
  fs::create_directory(sick.staging);
  ASSERT_OK(driver().Stage(sick.id, sick.staging));
  Hang();
  driver().set_deadline(std::chrono::seconds(10));
  const auto start = Clock::now();
  const auto page = driver().List();
  EXPECT_LT(Since(start), milliseconds(250) + kPromptly);
  ASSERT_OK(page);
  EXPECT_EQ(page->entries_size(), 2);
  for (const auto& entry : page->entries()) {
    const auto& condition = entry.status().volume_condition();
    EXPECT_EQ(condition.abnormal(), entry.volume().volume_id() == sick.id) << condition.message();
    EXPECT_THAT(condition.message(), ::testing::HasSubstr(condition.abnormal() ? sick.staging : "healthy"));
  }
}

TEST_F(HungFilesystem, ATargetBelowIt) {
  const std::string id = Created();
  const Use sick = Published({id, Staging(id), OnFuse("alloc/target")});
  Hang();
  ExpectHangs([&] { return driver().Stats(sick.id, sick.target); }, sick.target);
  ExpectHangs([&] { return driver().Unpublish(sick.id, sick.target); }, "hangs");
  ExpectHangs([&] { return driver().Publish(sick.id, sick.staging, sick.target); }, sick.target);
  ExpectOthersServed();
  fuse_->Resume();
  EXPECT_OK(driver().Stats(sick.id, sick.target));
  EXPECT_OK(driver().Unpublish(sick.id, sick.target));
  EXPECT_FALSE(fs::exists(sick.target));
}

TEST_F(HungFilesystem, AStagingPathBelowIt) {
  const std::string id = Created();
  const Use sick = {id, OnFuse("staging/globalmount"), Target("sick")};
  fs::create_directory(sick.staging);
  Hang();
  ExpectHangs([&] { return driver().Stage(sick.id, sick.staging); }, sick.staging);
  ExpectHangs([&] { return driver().Publish(sick.id, sick.staging, sick.target); }, sick.staging);
  ExpectHangs([&] { return driver().Unstage(sick.id, sick.staging); }, sick.staging);
  ExpectOthersServed();
  fuse_->Resume();
  Published(sick);
}

TEST_F(HungFilesystem, OthersAreServedWhileManyCallsHang) {
  const std::string id = Created();
  const Use sick = Published({id, Staging(id), OnFuse("alloc/target")});
  const int before = ThreadsOf(Helper());
  fuse_->Hang();
  driver().set_deadline(std::chrono::seconds(10));
  std::vector<std::thread> calls;
  for (int i = 0; i < 50; ++i) {
    calls.emplace_back([&] {
      Driver other(dir() / "csi.sock");
      other.set_deadline(milliseconds(2500));
      EXPECT_THAT(other.Stats(sick.id, sick.target), FailsWith(Code::kDeadlineExceeded, sick.target));
    });
  }
  std::this_thread::sleep_for(milliseconds(200));
  ExpectOthersServed(3);
  for (std::thread& call : calls) call.join();
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(driver().Stats(sick.id, sick.target).status.ok());
  driver().set_deadline(kDeadline);
  ExpectOthersServed(1);
  fuse_->Resume();
  EXPECT_TRUE(Eventually([&] { return driver().Stats(sick.id, sick.target).status.ok(); }));
  EXPECT_TRUE(Eventually([&] { return ThreadsOf(Helper()) <= before + 8; })) << ThreadsOf(Helper());
}

// One after the other, every call with a thread of the helper that hangs: not more than a few.
TEST_F(HungFilesystem, RepeatedCallsDoNotPileUp) {
  const std::string id = Created();
  const Use sick = Published({id, Staging(id), OnFuse("alloc/target")});
  const int before = ThreadsOf(Helper());
  fuse_->Hang();
  driver().set_deadline(milliseconds(250));
  const auto start = Clock::now();
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT(driver().Stats(sick.id, sick.target), FailsWith(Code::kDeadlineExceeded, sick.target));
  }
  EXPECT_LT(Since(start), std::chrono::seconds(5)) << "each waited";
  EXPECT_LE(ThreadsOf(Helper()), before + 8);
  fuse_->Resume();
  driver().set_deadline(kDeadline);
  EXPECT_TRUE(Eventually([&] { return driver().Stats(sick.id, sick.target).status.ok(); }));
}

// Nothing below a dead filesystem can be reached: the error says so, and how to go on.
TEST_F(HungFilesystem, ItDiesAndIsTakenAway) {
  const std::string id = Created();
  const Use sick = Published({id, Staging(id), OnFuse("alloc/target")});
  Hang();
  ExpectHangs([&] { return driver().Unpublish(sick.id, sick.target); }, sick.target);
  fuse_->Die();
  EXPECT_THAT(driver().Unpublish(sick.id, sick.target),
              FailsWith(Code::kFailedPrecondition, fmt::format("umount -l {}", fuse_path_)));
  EXPECT_THAT(driver().Stats(sick.id, sick.target), FailsWith(Code::kFailedPrecondition, "does not answer any more"));
  ExpectOthersServed(1);
  ASSERT_EQ(::umount2(fuse_path_.c_str(), MNT_DETACH), 0);
  EXPECT_OK(driver().Unpublish(sick.id, sick.target));
  EXPECT_OK(driver().Unstage(sick.id, sick.staging));
}

// The volume is mounted somewhere that answers; what it lies on does not.
class HungImage : public HungFilesystem {
 protected:
  void SetUp() override {
    HungFilesystem::SetUp();
    const std::string id = Created();
    sick_ = {id, Staging(id), Target("sick")};
    EXPECT_OK(driver().Stage(id, sick_.staging));  // formats it
    EXPECT_OK(driver().Unstage(id, sick_.staging));
    fs::copy_file(Image(id), OnFuse("image"));
    ASSERT_EQ(::mount(OnFuse("image").c_str(), Image(id).c_str(), nullptr, MS_BIND, nullptr), 0);
    Published(sick_);
  }
  void TearDown() override {
    fuse_->Resume();
    EXPECT_OK(driver().Unpublish(sick_.id, sick_.target));
    EXPECT_OK(driver().Unstage(sick_.id, sick_.staging));
    EXPECT_TRUE(Eventually([&] { return ::umount(Image(sick_.id).c_str()) == 0; }));
    HungFilesystem::TearDown();
  }
  Use sick_;
};

TEST_F(HungImage, OthersAreStagedMadeAndDeleted) {
  const Use other = StagedAndPublished("other");
  EXPECT_OK(driver().Unpublish(other.id, other.target));
  EXPECT_OK(driver().Unstage(other.id, other.staging));
  Hang();
  ExpectHangs([&] { return driver().Stats(sick_.id, sick_.target); }, sick_.target);
  ExpectHangs([&] { return driver().Unpublish(sick_.id, sick_.target); }, sick_.target);
  ExpectOthersServed(1);
  driver().set_deadline(std::chrono::seconds(5));
  const std::string block = Created(Block());
  EXPECT_OK(driver().Stage(block, Staging(block), Block()));  // finds out, in half a second, that a loop device hangs
  ExpectPrompt("Publish", [&] { return driver().Publish(block, Staging(block), Target("block"), Block()); });
  ExpectPrompt("Unpublish", [&] { return driver().Unpublish(block, Target("block")); });
  ExpectPrompt("Unstage", [&] { return driver().Unstage(block, Staging(block)); });
  ExpectPrompt("Delete", [&] { return driver().Delete(block); });
  ExpectPrompt("Stage", [&] { return driver().Stage(other.id, other.staging); });
  ExpectPrompt("Publish", [&] { return driver().Publish(other.id, other.staging, other.target); });
  const Use formatted = StagedAndPublished("fresh");
  ExpectPrompt("Stats", [&] { return driver().Stats(formatted.id, formatted.target); });
  fuse_->Resume();
  EXPECT_TRUE(Eventually([&] { return driver().Stats(sick_.id, sick_.target).status.ok(); }));
}

TEST_F(HungImage, AStartIsNotHeldUp) {
  fuse_->Hang();
  plugin().Kill();
  const auto start = Clock::now();
  Start();
  EXPECT_LT(Since(start), std::chrono::seconds(3));
  driver().set_deadline(kDeadline);
  ExpectOthersServed(1);
  fuse_->Resume();
  driver().set_deadline(std::chrono::seconds(10));
  EXPECT_OK(driver().Stats(sick_.id, sick_.target));
}

// What reads and writes hangs in the kernel where no signal reaches it: the helper's thread that unmounts is held.
TEST_F(HungImage, WhatTheKernelHoldsIsReportedAtTheEnd) {
  EXPECT_EQ(TryWrite(sick_.target + "/file", "data"), 0);
  ASSERT_OK(driver().Unpublish(sick_.id, sick_.target));
  const pid_t helper = Helper();
  fuse_->HangOnData();
  driver().set_deadline(kDeadline);
  ExpectHangs([&] { return driver().Unstage(sick_.id, sick_.staging); }, sick_.staging);
  ExpectOthersServed(1);
  const auto start = Clock::now();
  plugin().Terminate();
  EXPECT_LT(Since(start), std::chrono::seconds(4));
  EXPECT_GT(ThreadsOf(helper), 0) << "then this test shows nothing";
  EXPECT_THAT(plugin().Log(), ::testing::HasSubstr("the mount helper has not ended"));
  Start();
  ExpectOthersServed(1);
  fuse_->Resume();
  EXPECT_TRUE(Eventually([&] { return ThreadsOf(helper) == 0; }));
  driver().set_deadline(std::chrono::seconds(10));
  EXPECT_OK(driver().Unstage(sick_.id, sick_.staging));
}

TEST_F(HungFilesystem, AStartIsNotHeldUp) {
  const std::string id = Created();
  const Use sick = Published({id, Staging(id), OnFuse("alloc/target")});
  const std::string gone = Created();
  const Use stale = Published({gone, Staging(gone), OnFuse("gone/target")});
  plugin().Kill();
  ASSERT_EQ(::umount(stale.target.c_str()), 0);  // a record without a mount, where looking hangs
  fuse_->Hang();
  const auto start = Clock::now();
  Start();
  EXPECT_LT(Since(start), std::chrono::seconds(5));
  driver().set_deadline(kDeadline);
  ExpectOthersServed(1);
  ExpectHangs([&] { return driver().Stats(sick.id, sick.target); }, sick.target);
  fuse_->Resume();
  EXPECT_OK(driver().Stats(sick.id, sick.target));
  EXPECT_OK(driver().Unpublish(stale.id, stale.target));
}

TEST_F(HungFilesystem, TheEndIsNotHeldUpByACallThatHangs) {
  plugin().Terminate();
  plugin().options().flags.insert(plugin().options().flags.end(), {"--stop-timeout", "1"});
  Start();
  const std::string id = Created();
  const Use sick = Published({id, Staging(id), OnFuse("alloc/target")});
  const pid_t spawner = Spawner(), helper = Helper();
  ASSERT_GT(helper, 0);
  fuse_->Hang();
  std::thread call([&] {
    Driver other(dir() / "csi.sock");
    other.set_deadline(std::chrono::seconds(20));
    EXPECT_FALSE(other.Stats(sick.id, sick.target).status.ok());
  });
  std::this_thread::sleep_for(milliseconds(200));
  const auto start = Clock::now();
  EXPECT_EQ(plugin().Terminate(), 1);
  EXPECT_LT(Since(start), std::chrono::seconds(3));
  EXPECT_TRUE(Eventually([&] { return !Runs(helper) && !Runs(spawner); }));
  EXPECT_THAT(plugin().Log(), ::testing::HasSubstr("still under way after 1 s: NodeGetVolumeStats"));
  call.join();
  fuse_->Resume();
  Start();
}

// A second call for the volume waits for the first, and not longer than its caller.
TEST_F(HungFilesystem, ASecondCallForTheVolumeIsAbortedOrTimedOut) {
  const std::string id = Created();
  const Use sick = Published({id, Staging(id), OnFuse("alloc/target")});
  fuse_->Hang();
  std::thread first([&] {
    Driver other(dir() / "csi.sock");
    other.set_deadline(milliseconds(2500));
    EXPECT_THAT(other.Unpublish(sick.id, sick.target), FailsWith(Code::kDeadlineExceeded, sick.target));
  });
  std::this_thread::sleep_for(milliseconds(200));
  driver().set_deadline(kDeadline);
  EXPECT_THAT(driver().Unpublish(sick.id, sick.target), FailsWith(Code::kAborted, "another operation"));
  ExpectOthersServed(1);
  first.join();
  fuse_->Resume();
  EXPECT_OK(driver().Unpublish(sick.id, sick.target));
}

}  // namespace
}  // namespace mooring::testing

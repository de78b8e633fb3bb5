// Concurrent calls. Calls for the same volume wait for each other, and calls for different volumes do not.
#include "tests/rpc/support/held_tool.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

// Makes `count` calls at the same time and returns all results.
template <typename Call>
std::vector<absl::Status> AtOnce(int count, Call call) {
  std::promise<void> start;
  const std::shared_future<void> started = start.get_future().share();
  std::vector<std::future<absl::Status>> calls;
  for (int i = 0; i < count; ++i) {
    calls.push_back(std::async(std::launch::async, [&, i] {
      started.wait();
      return StatusOf(call(i));
    }));
  }
  start.set_value();
  std::vector<absl::Status> outcomes;
  for (auto& one : calls) outcomes.push_back(one.get());
  return outcomes;
}

void ExpectAllOk(const std::vector<absl::Status>& outcomes) {
  for (const absl::Status& outcome : outcomes) EXPECT_OK(outcome);
}

class Concurrency : public RpcTest {};

TEST_F(Concurrency, HundredSlowStagesDoNotDelayAPublish) {
  const std::string ready = Staged();
  std::future<std::vector<absl::Status>> stages;
  HeldTool mkfs(*this, "mkfs.ext4");
  RestartWithPath(mkfs.path());
  constexpr int kCount = 100;
  std::vector<std::string> ids(kCount), stagings(kCount);
  ExpectAllOk(AtOnce(kCount, [&](int i) {
    const auto made = driver().Create("many-" + std::to_string(i), Mount(), 16 * kMiB);
    ids[static_cast<std::size_t>(i)] = made->volume().volume_id();
    return made.status;
  }));
  for (std::size_t i = 0; i < kCount; ++i) stagings[i] = Staging(ids[i]);
  stages = std::async(std::launch::async, [&] {
    return AtOnce(kCount, [&](int i) {
      const auto at = static_cast<std::size_t>(i);
      return driver().Stage(ids[at], stagings[at]);
    });
  });
  ASSERT_TRUE(Eventually([&] { return MkfsRuns() == kCount; })) << MkfsRuns() << " at the same time";
  for (int i = 0; i < 5; ++i) {
    EXPECT_OK(driver().Publish(ready, Staging(ready), Target("a")));
    EXPECT_OK(driver().Unpublish(ready, Target("a")));
  }
  EXPECT_EQ(stages.wait_for(milliseconds(0)), std::future_status::timeout) << "the stages ended too early";
  mkfs.Release();
  ExpectAllOk(stages.get());
  EXPECT_EQ(LoopsHere().size(), kCount + 1U);
  ExpectAllOk(AtOnce(kCount, [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    return driver().Unstage(ids[at], stagings[at]);
  }));
}

// The kernel returns the same free loop device to concurrent callers.
TEST_F(Concurrency, HundredBlockVolumesHaveADeviceEach) {
  constexpr int kCount = 100;
  std::vector<std::string> ids, stagings;
  for (int i = 0; i < kCount; ++i) ids.push_back(Created(Block(), kMiB));
  for (const std::string& id : ids) stagings.push_back(Staging(id));
  ExpectAllOk(AtOnce(kCount, [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    return driver().Stage(ids[at], stagings[at], Block());
  }));
  std::set<std::string> files;
  for (const LoopLine& loop : LoopsHere()) files.insert(loop.backing_file);
  EXPECT_EQ(LoopsHere().size(), static_cast<std::size_t>(kCount));
  EXPECT_EQ(files.size(), static_cast<std::size_t>(kCount));
}

TEST_F(Concurrency, CallsForOneVolumeWaitForEachOther) {
  std::future<absl::Status> first, second, grow, deletion;
  HeldTool mkfs(*this, "mkfs.ext4");
  RestartWithPath(mkfs.path());
  const std::string id = Created(kSharedMount);
  const std::string a = Staging("a"), b = Staging("b");
  first = std::async(std::launch::async, [&] { return driver().Stage(id, a, kSharedMount).status; });
  ASSERT_TRUE(Eventually([&] { return MkfsRuns() == 1; }));
  second = std::async(std::launch::async, [&] { return driver().Stage(id, b, kSharedMount).status; });
  grow = std::async(std::launch::async, [&] { return driver().Grow(id, kVolumeBytes + kMiB).status; });
  deletion = std::async(std::launch::async, [&] { return driver().Delete(id).status; });
  EXPECT_EQ(deletion.wait_for(milliseconds(100)), std::future_status::timeout);
  mkfs.Release();
  EXPECT_THAT(deletion.get(), FailsWith(Code::kFailedPrecondition, "in use")) << "it waited for the stage";
  EXPECT_OK(first.get());
  EXPECT_OK(second.get());
  EXPECT_OK(grow.get());
  EXPECT_EQ(MkfsRuns(), 1);
  EXPECT_EQ(LoopsHere().size(), 1U);
}

// "An operation is pending": the answer comes before the deadline of the caller.
TEST_F(Concurrency, CallWithAShortDeadlineIsAborted) {
  std::future<absl::Status> stage;
  HeldTool mkfs(*this, "mkfs.ext4");
  RestartWithPath(mkfs.path());
  const std::string id = Created();
  stage = std::async(std::launch::async, [&] { return driver().Stage(id, Staging("a")).status; });
  ASSERT_TRUE(Eventually([&] { return MkfsRuns() == 1; }));
  Driver impatient(dir() / "csi.sock");
  impatient.set_deadline(milliseconds(400));
  EXPECT_THAT(impatient.Unstage(id, Staging("a")), FailsWith(Code::kAborted, "under way"));
  EXPECT_THAT(impatient.Delete(id), FailsWith(Code::kAborted, "under way"));
  mkfs.Release();
  EXPECT_OK(stage.get());
}

TEST_F(Concurrency, TwentyIdenticalCreatesMakeASingleVolume) {
  std::set<std::string> ids;
  std::mutex mutex;
  ExpectAllOk(AtOnce(20, [&](int) {
    const auto made = driver().Create("same");
    const std::lock_guard<std::mutex> lock(mutex);
    ids.insert(made->volume().volume_id());
    return made.status;
  }));
  EXPECT_EQ(ids.size(), 1U);
  EXPECT_EQ(driver().List()->entries_size(), 1);
}

TEST_F(Concurrency, TwentyIdenticalCallsSucceed) {
  for (const VolumeCapability& use : {kSharedMount, kSharedBlock}) {
    const std::string id = Created(use);
    const std::string staging = Staging(id), rw = Target("rw", id), ro = Target("ro", id);
    ExpectAllOk(AtOnce(20, [&](int) { return driver().Attach(id, kNode, use); }));
    ExpectAllOk(AtOnce(20, [&](int) { return driver().Stage(id, staging, use); }));
    EXPECT_EQ(LoopsOver(Image(id)).size(), 1U);
    EXPECT_LE(MountsAt(staging).size(), 1U);
    ExpectAllOk(AtOnce(20, [&](int i) {
      const bool read_only = i % 2 != 0 && !use.has_block();  // a block volume has readers or writers
      return driver().Publish(id, staging, i % 2 == 0 ? rw : ro, use, read_only);
    }));
    EXPECT_EQ(MountsAt(rw).size(), 1U);
    EXPECT_EQ(MountsAt(ro).size(), 1U);
    ExpectAllOk(AtOnce(20, [&](int) { return driver().Stats(id, rw); }));
    ExpectAllOk(AtOnce(20, [&](int) { return driver().NodeExpand(id, rw); }));
    ExpectAllOk(AtOnce(20, [&](int i) { return driver().Unpublish(id, i % 2 == 0 ? rw : ro); }));
    ExpectAllOk(AtOnce(20, [&](int) { return driver().Unstage(id, staging); }));
    ExpectAllOk(AtOnce(20, [&](int) { return driver().Detach(id, kNode); }));
    ExpectAllOk(AtOnce(2, [&](int) { return driver().Delete(id); }));
    ExpectNoLoops();
  }
}

TEST_F(Concurrency, OnlyOneOfTwentySingleWritersIsPublished) {
  for (const VolumeCapability& use : {Mount(), Block()}) {
    const std::string id = Staged(use);
    std::vector<std::string> targets;
    for (int i = 0; i < 20; ++i) targets.push_back(Target(std::to_string(i), id));
    const auto outcomes =
        AtOnce(20, [&](int i) { return driver().Publish(id, Staging(id), targets[static_cast<std::size_t>(i)], use); });
    EXPECT_EQ(std::count_if(outcomes.begin(), outcomes.end(), [](const absl::Status& s) { return s.ok(); }), 1);
    for (const absl::Status& outcome : outcomes) {
      if (!outcome.ok()) {
        EXPECT_THAT(outcome, FailsWith(Code::kFailedPrecondition, "one target"));
      }
    }
  }
}

TEST_F(Concurrency, OnlyOneOfTwoVolumesGetsATarget) {
  const std::string a = Created(), b = Created();
  const std::string target = Target("a");
  ASSERT_OK(driver().Stage(a, Staging(a)));
  ASSERT_OK(driver().Stage(b, Staging(b)));
  const std::string stagings[] = {Staging(a), Staging(b)};
  for (int round = 0; round < 10; ++round) {
    const auto outcomes = AtOnce(2, [&](int i) { return driver().Publish(i == 0 ? a : b, stagings[i], target); });
    EXPECT_NE(outcomes[0].ok(), outcomes[1].ok());
    EXPECT_EQ(MountsAt(target).size(), 1U);
    EXPECT_OK(driver().Unpublish(outcomes[0].ok() ? a : b, target));
  }
}

TEST_F(Concurrency, ConcurrentCreateAndDeleteSucceed) {
  for (int round = 0; round < 10; ++round) {
    const std::string id = driver().Create("same")->volume().volume_id();
    const auto outcomes =
        AtOnce(8, [&](int i) { return i % 2 == 0 ? driver().Create("same").status : driver().Delete(id).status; });
    ExpectAllOk(outcomes);
    const auto listed = driver().List();
    EXPECT_LE(listed->entries_size(), 1);
    for (const auto& entry : listed->entries()) EXPECT_OK(driver().Delete(entry.volume().volume_id()));
  }
}

}  // namespace
}  // namespace mooring::testing

// SIGTERM and SIGKILL between any two calls of a volume's life. The next process continues, also without node.db.
#include <signal.h>

#include <array>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

enum class End { kTerm, kKill, kKillAndLoseRecords };

struct Interruption {
  End end;
  std::size_t after;  // the number of steps before it
  bool block;
};

// A volume's life in steps.
class Life : public RpcTest, public ::testing::WithParamInterface<Interruption> {
 public:
  static constexpr std::size_t kSteps = 11;

 protected:
  VolumeCapability Use() const {
    return GetParam().block ? kSharedBlock : Mount("", kMultiWriter, {"noatime", "commit=30"});
  }
  std::string File(const std::string& target) const { return GetParam().block ? target : target + "/file"; }

  void Create() { id_ = Created(Use()); }
  void Attach() { EXPECT_OK(driver().Attach(id_, kNode, Use())); }
  void Stage() { EXPECT_OK(driver().Stage(id_, Staging("v"), Use())); }
  void PublishWritable() {
    EXPECT_OK(driver().Publish(id_, Staging("v"), Target("rw"), Use()));
    EXPECT_EQ(TryWrite(File(Target("rw")), "data"), 0);
  }
  void PublishReadOnly() {
    EXPECT_OK(driver().Publish(id_, Staging("v"), Target("ro"), Use(), true));
    EXPECT_EQ(ReadFile(File(Target("ro"))).substr(0, 4), "data");
    EXPECT_EQ(TryWrite(File(Target("ro")), "x"), GetParam().block ? EPERM : EROFS);
  }
  void LookAtFigures() {
    EXPECT_OK(driver().Stats(id_, Target("rw")));
    EXPECT_OK(driver().NodeExpand(id_, Target("ro")));
    EXPECT_EQ(LoopsOver(Image(id_)).size(), 1U);
  }
  void UnpublishReadOnly() { EXPECT_OK(driver().Unpublish(id_, Target("ro"))); }
  void UnpublishWritable() { EXPECT_OK(driver().Unpublish(id_, Target("rw"))); }
  void Unstage() {
    EXPECT_OK(driver().Unstage(id_, Staging("v")));
    ExpectNoLoops();
  }
  void Detach() { EXPECT_OK(driver().Detach(id_, kNode)); }
  void Delete() { EXPECT_OK(driver().Delete(id_)); }

  void Step(std::size_t number) {
    constexpr std::array<void (Life::*)(), kSteps> kAll = {&Life::Create,
                                                           &Life::Attach,
                                                           &Life::Stage,
                                                           &Life::PublishWritable,
                                                           &Life::PublishReadOnly,
                                                           &Life::LookAtFigures,
                                                           &Life::UnpublishReadOnly,
                                                           &Life::UnpublishWritable,
                                                           &Life::Unstage,
                                                           &Life::Detach,
                                                           &Life::Delete};
    SCOPED_TRACE("step " + std::to_string(number));
    (this->*kAll.at(number))();
  }

  void Interrupt() {
    const std::string mounts = RawMounts();
    const std::size_t loops = LoopsHere().size();
    if (GetParam().end == End::kKillAndLoseRecords) {
      KillAndForget();
    } else {
      Restart(GetParam().end == End::kTerm ? SIGTERM : SIGKILL);
    }
    EXPECT_EQ(RawMounts(), mounts);
    // Only its record says that a device is staged.
    if (GetParam().end != End::kKillAndLoseRecords) {
      EXPECT_EQ(LoopsHere().size(), loops);
    }
  }

  std::string id_;
};

std::vector<Interruption> Interruptions(std::size_t last) {
  std::vector<Interruption> all;
  for (const bool block : {false, true}) {
    for (const End end : {End::kTerm, End::kKill, End::kKillAndLoseRecords}) {
      for (std::size_t after = 1; after <= last; ++after) all.push_back({end, after, block});
    }
  }
  return all;
}

std::string Name(const ::testing::TestParamInfo<Interruption>& info) {
  constexpr std::array kEnd = {"Term", "Kill", "KillAndLoseRecords"};
  return std::string(info.param.block ? "Block" : "Mount") + "_" + kEnd.at(static_cast<std::size_t>(info.param.end)) +
         "_After" + std::to_string(info.param.after);
}

INSTANTIATE_TEST_SUITE_P(Interrupted, Life, ::testing::ValuesIn(Interruptions(Life::kSteps - 1)), Name);

TEST_P(Life, ContinuesAfterARestart) {
  for (std::size_t step = 0; step < kSteps; ++step) {
    if (step == GetParam().after) Interrupt();
    // The start detaches a block device without a record and without a target. So it is staged again.
    const bool staged_only = step == 3 && GetParam().after == 3;
    if (GetParam().end == End::kKillAndLoseRecords && GetParam().block && staged_only) Stage();
    Step(step);
  }
}

// After the interruption, all is undone.
class LifeUndone : public Life {};

constexpr std::size_t kStepsUp = 6;

INSTANTIATE_TEST_SUITE_P(Interrupted, LifeUndone, ::testing::ValuesIn(Interruptions(kStepsUp)), Name);

TEST_P(LifeUndone, IsUndoneAfterARestart) {
  for (std::size_t step = 0; step < GetParam().after; ++step) Step(step);
  Interrupt();
  UnpublishReadOnly();
  UnpublishWritable();
  Unstage();
  Detach();
  Delete();
}

class LostRecords : public RpcTest {};

// The mounts show which volume has which target.
TEST_F(LostRecords, SingleWriterKeepsItsOnlyTarget) {
  for (const VolumeCapability& use : {Mount(), Block()}) {
    const std::string id = Created(use);
    const std::string first = Target("a", id), second = Target("b", id);
    StageAndPublish(id, first, use);
    KillAndForget();
    ASSERT_OK(driver().Stage(id, Staging(id), use));
    ExpectRefused([&] { return driver().Publish(id, Staging(id), second, use); }, Code::kFailedPrecondition, first);
    EXPECT_OK(driver().Publish(id, Staging(id), first, use));
    EXPECT_THAT(driver().Publish(id, Staging(id), first, use, true), FailsWith(Code::kAlreadyExists, first));
  }
}

}  // namespace
}  // namespace mooring::testing

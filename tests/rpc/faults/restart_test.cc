// SIGTERM and SIGKILL between all calls of a volume's life. The next process continues, also without node.db.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

enum class End { kTerm, kKill, kKillAndLoseRecords };

// How each process ends, and whether the volume is for block access.
class Life : public RpcTest, public ::testing::WithParamInterface<std::tuple<End, bool>> {
 protected:
  End end() const { return std::get<0>(GetParam()); }
  bool is_block() const { return std::get<1>(GetParam()); }
  VolumeCapability Use() const { return is_block() ? kSharedBlock : Mount("", kMultiWriter, {"noatime", "commit=30"}); }
  std::string File(const std::string& target) const { return is_block() ? target : target + "/file"; }

  void Create() { id_ = Created(Use()); }
  void Attach() { EXPECT_OK(driver().Attach(id_, kNode, Use())); }
  void Stage() { EXPECT_OK(driver().Stage(id_, Staging("v"), Use())); }
  void PublishWritable() {
    EXPECT_OK(driver().Publish(id_, Staging("v"), Target("rw"), Use()));
    EXPECT_EQ(TryWrite(File(Target("rw")), "data"), 0);
  }
  void PublishReadOnly() {
    if (is_block()) UnpublishWritable();  // a block volume has readers or writers
    if (is_block() && end() == End::kKillAndLoseRecords) Stage();
    EXPECT_OK(driver().Publish(id_, Staging("v"), Target("ro"), Use(), true));
    EXPECT_EQ(ReadFile(File(Target("ro"))).substr(0, 4), "data");
    EXPECT_EQ(TryWrite(File(Target("ro")), "x"), is_block() ? EPERM : EROFS);
  }
  void LookAtFigures() {
    EXPECT_OK(driver().Stats(id_, Target(is_block() ? "ro" : "rw")));
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

  void Interrupt() {
    const std::string mounts = RawMounts();
    const std::size_t loops = LoopsHere().size();
    if (end() == End::kKillAndLoseRecords) {
      KillAndForget();
    } else {
      Restart(end() == End::kTerm ? SIGTERM : SIGKILL);
      EXPECT_EQ(LoopsHere().size(), loops);
    }
    EXPECT_EQ(RawMounts(), mounts);
  }

  std::string id_;
};

std::string NameOfLife(const ::testing::TestParamInfo<std::tuple<End, bool>>& row) {
  constexpr std::array kEnd = {"Term", "Kill", "KillAndLoseRecords"};
  const auto& [end, is_block] = row.param;
  return std::string(is_block ? "Block_" : "Mount_") + kEnd.at(static_cast<std::size_t>(end));
}

INSTANTIATE_TEST_SUITE_P(Interrupted, Life,
                         ::testing::Combine(::testing::Values(End::kTerm, End::kKill, End::kKillAndLoseRecords),
                                            ::testing::Bool()),
                         NameOfLife);

TEST_P(Life, EachCallHasAProcessOfItsOwn) {
  const std::pair<std::string, std::function<void()>> steps[] = {
      {"Create", [this] { Create(); }},
      {"Attach", [this] { Attach(); }},
      {"Stage", [this] { Stage(); }},
      {"PublishWritable", [this] { PublishWritable(); }},
      {"PublishReadOnly", [this] { PublishReadOnly(); }},
      {"LookAtFigures", [this] { LookAtFigures(); }},
      {"UnpublishReadOnly", [this] { UnpublishReadOnly(); }},
      {"UnpublishWritable", [this] { UnpublishWritable(); }},
      {"Unstage", [this] { Unstage(); }},
      {"Detach", [this] { Detach(); }},
      {"Delete", [this] { Delete(); }},
  };
  for (const auto& [name, make] : steps) {
    SCOPED_TRACE(name);
    make();
    Interrupt();
    // Only its record says that a device is staged, so the start has detached it.
    if (end() == End::kKillAndLoseRecords && is_block() && name == "Stage") Stage();
  }
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
    ExpectRefused(PublishRequest(id, Staging(id), second, use), Code::kFailedPrecondition, first);
    EXPECT_OK(driver().Publish(id, Staging(id), first, use));
    EXPECT_THAT(driver().Publish(id, Staging(id), first, use, true), FailsWith(Code::kAlreadyExists, first));
  }
}

}  // namespace
}  // namespace mooring::testing

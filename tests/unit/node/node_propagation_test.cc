// A repeated NodePublishVolume compares its propagation with the record and the kernel. A restart keeps the
// propagation.
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

class NodePropagationTest : public NodeVolumesTest {
 protected:
  NodePropagationTest() {
    mounter_.With([](FakeKernel& kernel) { kernel.AddForeignMount("/pods", "ext4", 1); });
    EXPECT_OK(Stage(StageAt("/staging/a", Many())));
  }
  static Capability Many() { return MountCapability(AccessMode::kSingleNodeMultiWriter); }
  static PublishSpec With(std::optional<Propagation> propagation, const std::string& target = "/pods/t") {
    PublishSpec spec = PublishAt(target, Many());
    spec.propagation = propagation;
    return spec;
  }
  void RestartWith(Propagation propagation) {
    default_propagation_ = propagation;
    Restart();
    ASSERT_OK(volumes_->Reconcile());
  }
  // As in a restarted container.
  void ReplaceByACopyOfTheHosts(const std::string& path) {
    ListedMount copy = At(path);
    copy.peer_group = 77;
    copy.master = 0;
    mounter_.With([&](FakeKernel& kernel) {
      kernel.DropMounts(path);
      kernel.AddMount(copy);
    });
  }
  ListedMount At(const std::string& path) { return MountsAt(path).at(0).info; }
  void ExpectAsBefore(const PublishSpec& spec, StatusCode code, const std::string& piece) {
    const std::string before = World();
    EXPECT_THAT(Publish(spec), FailsWith(code, piece));
    EXPECT_EQ(World(), before);
  }
};

TEST_F(NodePropagationTest, SharedTargetOfReadOnlyStagingIsRefused) {
  AddVolume("vol-b");
  ASSERT_OK(Stage(ReadOnly(StageAt("/staging/b", MountCapability(), "vol-b"))));
  PublishSpec spec = PublishAt("/pods/b", MountCapability(), "/staging/b", "vol-b");
  spec.propagation = Propagation::kShared;
  ExpectAsBefore(spec, StatusCode::kFailedPrecondition, "as the volume is staged");
}

TEST_F(NodePropagationTest, NamingTheDefaultEqualsNamingNone) {
  ASSERT_OK(Publish(With(std::nullopt, "/pods/a")));
  EXPECT_OK(Publish(With(Propagation::kInherit, "/pods/a")));
  ASSERT_OK(Publish(With(Propagation::kInherit, "/pods/b")));
  EXPECT_OK(Publish(With(std::nullopt, "/pods/b")));
}

TEST_F(NodePropagationTest, RestartWithAnotherDefaultKeepsTargets) {
  ASSERT_OK(Publish(With(std::nullopt)));
  const PublishSpec reader = ReadOnly(With(std::nullopt, "/pods/ro"));
  ASSERT_OK(Publish(reader));
  RestartWith(Propagation::kShared);
  EXPECT_OK(Publish(With(std::nullopt))) << "kubelet publishes again after its own restart";
  EXPECT_OK(Publish(reader));
  EXPECT_OK(Publish(With(Propagation::kInherit)));
  RestartWith(Propagation::kPrivate);
  EXPECT_OK(Publish(With(std::nullopt)));
}

TEST_F(NodePropagationTest, TargetOfAKilledPublishGetsItsPropagation) {
  ASSERT_OK(Publish(With(Propagation::kPrivate)));
  LoseOutcomes();
  ReplaceByACopyOfTheHosts("/pods/t");
  RestartWith(Propagation::kInherit);
  ASSERT_TRUE(At("/pods/t").shared());
  EXPECT_OK(Publish(With(Propagation::kPrivate)));
  EXPECT_FALSE(At("/pods/t").shared());
}

TEST_F(NodePropagationTest, NewNamespaceForgetsOldDefault) {
  RestartWith(Propagation::kPrivate);
  ASSERT_OK(Publish(With(std::nullopt)));
  ReplaceByACopyOfTheHosts("/pods/t");
  RestartWith(Propagation::kSlave);
  EXPECT_OK(Publish(With(std::nullopt)));
  EXPECT_EQ(store_->Get("/pods/t").value()->asked_propagation, std::nullopt);
  EXPECT_THAT(Publish(With(Propagation::kShared)), FailsWith(StatusCode::kAlreadyExists, "asked for: rshared"));
}

TEST_F(NodePropagationTest, RestartInSameNamespaceComparesWithKernel) {
  ASSERT_OK(Publish(With(Propagation::kShared)));
  Restart();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_OK(Publish(With(Propagation::kShared)));
  EXPECT_EQ(store_->Get("/pods/t").value()->propagation, Propagation::kShared);
}

TEST_F(NodePropagationTest, KernelDecidesWithoutRecord) {
  ASSERT_OK(Publish(With(Propagation::kPrivate)));
  LoseRecords();
  ExpectAsBefore(With(Propagation::kShared), StatusCode::kAlreadyExists, "not with propagation rshared");
  EXPECT_OK(Publish(With(Propagation::kPrivate)));
  LoseRecords();
  EXPECT_OK(Publish(With(std::nullopt)));
}

}  // namespace
}  // namespace mooring::testing

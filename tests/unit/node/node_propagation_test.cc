// The propagation of a target is that of the request, else of the volume, else of the plugin. A repeated call compares
// it with the record and the kernel. A restart keeps it.
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;

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
  void SetVolumes(std::optional<Propagation> propagation) {
    NodeVolume volume = source_.Find(kVolume).value();
    volume.propagation = propagation;
    source_.Put(volume);
  }
  void RestartWith(Propagation propagation) {
    default_propagation_ = propagation;
    Restart();
    ASSERT_OK(volumes_->Reconcile());
  }
  // As in a restarted container.
  void ReplaceByACopyOfTheHosts(const std::string& path) {
    MountInfo copy = At(path);
    copy.peer_group = 77;
    copy.master = 0;
    mounter_.With([&](FakeKernel& kernel) {
      kernel.DropMounts(path);
      kernel.AddMount(copy);
    });
  }
  MountInfo At(const std::string& path) { return MountsAt(path).at(0).info; }
  void ExpectAsBefore(const PublishSpec& spec, StatusCode code, const std::string& piece) {
    const std::string before = World();
    EXPECT_THAT(Publish(spec), FailsWith(code, piece));
    EXPECT_EQ(World(), before);
  }
};

TEST_F(NodePropagationTest, DefaultPropagationIsInherited) {
  ASSERT_OK(Publish(With(std::nullopt)));
  EXPECT_EQ(mounter_.last_bind().propagation, Propagation::kInherit);
  EXPECT_EQ(mounter_.last_mount().propagation, Propagation::kPrivate) << "a staged mount's is nobody's to choose";
}

TEST_F(NodePropagationTest, RequestOverridesVolumeAndVolumeOverridesDefault) {
  RestartWith(Propagation::kShared);
  ASSERT_OK(Publish(With(std::nullopt, "/pods/a")));
  EXPECT_EQ(mounter_.last_bind().propagation, Propagation::kShared);
  SetVolumes(Propagation::kSlave);
  ASSERT_OK(Publish(With(std::nullopt, "/pods/b")));
  EXPECT_EQ(mounter_.last_bind().propagation, Propagation::kSlave);
  ASSERT_OK(Publish(With(Propagation::kPrivate, "/pods/c")));
  EXPECT_EQ(mounter_.last_bind().propagation, Propagation::kPrivate);
  ASSERT_OK(Publish(With(Propagation::kInherit, "/pods/d")));
  EXPECT_EQ(mounter_.last_bind().propagation, Propagation::kInherit);
}

TEST_F(NodePropagationTest, BlockTargetsHavePropagation) {
  AddVolume("vol-b");
  const Capability block = BlockCapability();
  ASSERT_OK(Stage(StageAt("/staging/b", block, "vol-b")));
  PublishSpec spec = PublishAt("/pods/b", block, "/staging/b", "vol-b");
  spec.propagation = Propagation::kSlave;
  ASSERT_OK(Publish(spec));
  EXPECT_EQ(mounter_.last_bind().propagation, Propagation::kSlave);
  EXPECT_OK(Publish(spec));
  spec.propagation = Propagation::kShared;
  EXPECT_THAT(Publish(spec), FailsWith(StatusCode::kAlreadyExists, "propagation rslave; asked for: rshared"));
}

TEST_F(NodePropagationTest, SharedReadOnlyTargetIsInvalid) {
  PublishSpec spec = With(Propagation::kShared);
  spec.read_only = true;
  ExpectAsBefore(spec, StatusCode::kInvalidArgument, "propagation rshared needs write access, and '/pods/t'");
  spec = With(Propagation::kShared);
  spec.capability.options.flags.read_only = true;
  ExpectAsBefore(spec, StatusCode::kInvalidArgument, "needs write access");
  spec = With(Propagation::kShared);
  spec.capability.mode = AccessMode::kMultiNodeReaderOnly;
  ExpectAsBefore(spec, StatusCode::kInvalidArgument, "needs write access");
  SetVolumes(Propagation::kShared);
  spec.propagation.reset();
  ExpectAsBefore(spec, StatusCode::kInvalidArgument, "needs write access");
  SetVolumes(std::nullopt);
  RestartWith(Propagation::kShared);
  ExpectAsBefore(spec, StatusCode::kInvalidArgument, "--propagation");
  for (const Propagation other : {Propagation::kPrivate, Propagation::kSlave, Propagation::kInherit}) {
    spec.propagation = other;
    spec.target_path = "/pods/" + std::to_string(static_cast<int>(other));
    EXPECT_OK(Publish(spec));
  }
}

TEST_F(NodePropagationTest, SharedTargetOfReadOnlyStagingIsRefused) {
  AddVolume("vol-b");
  StageSpec staging = StageAt("/staging/b", MountCapability(), "vol-b");
  staging.read_only = true;
  ASSERT_OK(Stage(staging));
  PublishSpec spec = PublishAt("/pods/b", MountCapability(), "/staging/b", "vol-b");
  spec.propagation = Propagation::kShared;
  ExpectAsBefore(spec, StatusCode::kFailedPrecondition, "as the volume is staged");
}

TEST_F(NodePropagationTest, RepeatedPublishMustNameSamePropagation) {
  ASSERT_OK(Publish(With(Propagation::kSlave)));
  EXPECT_OK(Publish(With(Propagation::kSlave)));
  ExpectAsBefore(With(Propagation::kShared), StatusCode::kAlreadyExists, "propagation rslave; asked for: rshared");
  ExpectAsBefore(With(std::nullopt), StatusCode::kAlreadyExists, "propagation rslave; asked for: inherit");
  SetVolumes(Propagation::kSlave);
  EXPECT_OK(Publish(With(std::nullopt))) << "the volume's own, lost from the context";
}

TEST_F(NodePropagationTest, NamingTheDefaultEqualsNamingNone) {
  ASSERT_OK(Publish(With(std::nullopt, "/pods/a")));
  EXPECT_OK(Publish(With(Propagation::kInherit, "/pods/a")));
  ASSERT_OK(Publish(With(Propagation::kInherit, "/pods/b")));
  EXPECT_OK(Publish(With(std::nullopt, "/pods/b")));
}

TEST_F(NodePropagationTest, RestartWithAnotherDefaultKeepsTargets) {
  ASSERT_OK(Publish(With(std::nullopt)));
  PublishSpec reader = With(std::nullopt, "/pods/ro");
  reader.read_only = true;
  ASSERT_OK(Publish(reader));
  RestartWith(Propagation::kShared);
  EXPECT_OK(Publish(With(std::nullopt))) << "kubelet publishes again after its own restart";
  EXPECT_OK(Publish(reader));
  EXPECT_OK(Publish(With(Propagation::kInherit)));
  RestartWith(Propagation::kPrivate);
  EXPECT_OK(Publish(With(std::nullopt)));
}

TEST_F(NodePropagationTest, ChangedPropagationOfMountAlreadyExists) {
  ASSERT_OK(Publish(With(Propagation::kPrivate)));
  const MountInfo made = At("/pods/t");
  mounter_.With([&](FakeKernel& kernel) {
    MountInfo changed = made;
    changed.peer_group = 77;
    kernel.DropMounts("/pods/t");
    kernel.AddMount(changed);
  });
  ExpectAsBefore(With(Propagation::kPrivate), StatusCode::kAlreadyExists, "has been changed since");
}

TEST_F(NodePropagationTest, TargetStaysPublishedInNewNamespace) {
  for (const Propagation propagation : {Propagation::kPrivate, Propagation::kSlave}) {
    ASSERT_OK(Publish(With(propagation)));
    ReplaceByACopyOfTheHosts("/pods/t");
    RestartWith(Propagation::kInherit);
    EXPECT_OK(Publish(With(propagation)));
    EXPECT_THAT(Publish(With(Propagation::kShared)), FailsWith(StatusCode::kAlreadyExists, "asked for: rshared"));
    ASSERT_OK(Unpublish("/pods/t"));
  }
}

TEST_F(NodePropagationTest, TargetOfKilledPublishIsNotAcceptedWithAnotherPropagation) {
  ASSERT_OK(Publish(With(Propagation::kPrivate)));
  VolumeUse intent = *store_->Get("/pods/t").value();
  intent.done = false;
  ASSERT_OK(store_->Put(intent));
  ReplaceByACopyOfTheHosts("/pods/t");
  RestartWith(Propagation::kInherit);
  EXPECT_THAT(Publish(With(Propagation::kPrivate)), FailsWith(StatusCode::kAlreadyExists, "was cut short"));
  ASSERT_OK(Unpublish("/pods/t"));
  EXPECT_OK(Publish(With(Propagation::kPrivate)));
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

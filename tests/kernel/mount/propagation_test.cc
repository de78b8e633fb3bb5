// Propagation, mount_namespaces(7): the type that a mount gets, and where mounts become visible.
// propagation_table_test.cc looks at mounts below the target; here they are made below the source too.
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

class PropagationTest : public KernelTest {
 protected:
  std::string Bind(const std::string& source, const std::string& parent, Propagation propagation) {
    std::string target = parent + "/target";
    EXPECT_OK(mounter_.Bind(BindOf(source, target, {}, propagation)));
    return target;
  }
};

TEST_F(PropagationTest, InheritIsWhatAttachingGives) {
  EXPECT_EQ(PropagationAt(Bind(PrivateMount("source"), PrivateMount("a"), Propagation::kInherit)), "");
  EXPECT_NE(GroupAt(Bind(Path("source"), SharedMount("b"), Propagation::kInherit), "shared:"), "");
  const std::string source = SharedMount("shared");
  const std::string group = GroupAt(source, "shared:");
  EXPECT_EQ(GroupAt(Bind(source, PrivateMount("c"), Propagation::kInherit), "shared:"), group);
}

TEST_F(PropagationTest, PrivateIsPrivateWhateverSourceAndParentAre) {
  EXPECT_EQ(PropagationAt(Bind(Dir("source"), PrivateMount("a"), Propagation::kPrivate)), "");
  EXPECT_EQ(PropagationAt(Bind(Dir("source"), SharedMount("b"), Propagation::kPrivate)), "");
  EXPECT_EQ(PropagationAt(Bind(SharedMount("c"), PrivateMount("d"), Propagation::kPrivate)), "");
  EXPECT_EQ(PropagationAt(Bind(SharedMount("e"), SharedMount("f"), Propagation::kPrivate)), "");
}

TEST_F(PropagationTest, SharedJoinsThePeerGroupOfASharedSource) {
  EXPECT_NE(GroupAt(Bind(Dir("source"), PrivateMount("a"), Propagation::kShared), "shared:"), "");
  const std::string source = SharedMount("b");
  const std::string group = GroupAt(source, "shared:");
  EXPECT_EQ(GroupAt(Bind(source, PrivateMount("c"), Propagation::kShared), "shared:"), group);
  EXPECT_EQ(GroupAt(Bind(source, SharedMount("d"), Propagation::kShared), "shared:"), group);
}

TEST_F(PropagationTest, SlaveReceivesFromASharedSourceAndIsNoPeerOfIt) {
  const std::string source = SharedMount("a");
  const std::string group = GroupAt(source, "shared:");
  EXPECT_EQ(PropagationAt(Bind(source, PrivateMount("b"), Propagation::kSlave)), "master:" + group);
  const std::string below_shared = Bind(source, SharedMount("c"), Propagation::kSlave);
  EXPECT_EQ(GroupAt(below_shared, "master:"), group);
  EXPECT_NE(GroupAt(below_shared, "shared:"), group) << "its own copies in other namespaces are its peers, no more";
}

TEST_F(PropagationTest, SlaveOfAPrivateSourceHasNobodyToReceiveFrom) {
  EXPECT_EQ(PropagationAt(Bind(PrivateMount("source"), PrivateMount("a"), Propagation::kSlave)), "");
}

TEST_F(PropagationTest, RecursiveAppliesToSubmounts) {
  Dir("source");
  SharedMount("source/sub");
  BindRequest request = BindOf(Path("source"), SharedMount("parent") + "/target", {}, Propagation::kPrivate);
  request.recursive = true;
  ASSERT_OK(mounter_.Bind(request));
  EXPECT_EQ(PropagationAt(Path("parent/target")), "");
  EXPECT_EQ(PropagationAt(Path("parent/target/sub")), "");
  request = BindOf(Path("source"), PrivateMount("other") + "/target", {}, Propagation::kSlave);
  request.recursive = true;
  ASSERT_OK(mounter_.Bind(request));
  EXPECT_EQ(PropagationAt(Path("other/target/sub")), "master:" + GroupAt(Path("source/sub"), "shared:"));
}

// Nomad's private, host-to-task and bidirectional; Kubernetes' None, HostToContainer and Bidirectional.
struct DirectionCase {
  Propagation propagation;
  bool source_to_target, target_to_source;
};

// host: this process's namespace; plugin: a peer, where the mounter runs; task: receives the host's mounts.
class ThreeNamespacesTest : public PropagationTest, public ::testing::WithParamInterface<DirectionCase> {
 protected:
  void SetUp() override {
    source_ = SharedMount("source");
    Dir("source/sub");
    target_ = SharedMount("parent") + "/target";
  }
  std::string BindIn(const MountNamespace& plugin) {
    return plugin.Ask([&] { return mounter_.Bind(BindOf(source_, target_, {}, GetParam().propagation)).ToString(); });
  }
  static std::string MountTmpfs(const std::string& path) {
    return ::mount("none", path.c_str(), "tmpfs", 0, "size=64k") == 0 ? "mounted" : "failed";
  }
  static std::string Count(const std::string& path) { return fmt::format("{}", MountsAt(path).size()); }
  std::string source_, target_;
};

TEST_P(ThreeNamespacesTest, MountBelowTheSourceOnTheHost) {
  const MountNamespace plugin(MountNamespace::Kind::kPeer), task(MountNamespace::Kind::kSlave);
  ASSERT_EQ(BindIn(plugin), "OK");
  ASSERT_EQ(MountTmpfs(source_ + "/sub"), "mounted");
  const std::string wanted = GetParam().source_to_target ? "1" : "0";
  EXPECT_EQ(Count(target_ + "/sub"), wanted);
  EXPECT_EQ(plugin.Ask([&] { return Count(target_ + "/sub"); }), wanted);
  EXPECT_EQ(task.Ask([&] { return Count(target_ + "/sub"); }), wanted);
}

TEST_P(ThreeNamespacesTest, MountBelowTheTargetInThePluginsNamespace) {
  const MountNamespace plugin(MountNamespace::Kind::kPeer);
  ASSERT_EQ(BindIn(plugin), "OK");
  ASSERT_EQ(plugin.Ask([&] { return MountTmpfs(target_ + "/sub"); }), "mounted");
  EXPECT_EQ(Count(source_ + "/sub"), GetParam().target_to_source ? "1" : "0");
}

// Mounts that are left below a volume, docs/propagation.md.
class LeftBelowTest : public ThreeNamespacesTest {
 protected:
  void SetUp() override {
    source_ = Dir("source");  // as a staged volume: shared with nobody
    Dir("source/sub");
    target_ = SharedMount("parent") + "/target";
  }
  std::string UnmountIn(const MountNamespace& plugin, const std::string& path, bool remove = false) {
    return plugin.Ask([&] { return mounter_.Unmount(UnmountOf(path, remove)).ToString(); });
  }
};

// An unmount propagates like a mount: to the peers and slaves, not to a master. A mount that carries another mount is
// not unmounted by propagation. But the removal of a directory takes the mounts on it in other namespaces along.
TEST_P(LeftBelowTest, WhatTheHostLeftGoesWithTheVolumeOrWithItsDirectory) {
  const MountNamespace plugin(MountNamespace::Kind::kPeer);
  ASSERT_EQ(BindIn(plugin), "OK");
  ASSERT_EQ(MountTmpfs(target_ + "/sub"), "mounted");
  const bool receives = GetParam().propagation != Propagation::kPrivate, sends = GetParam().target_to_source;
  EXPECT_EQ(plugin.Ask([&] { return Count(target_ + "/sub"); }), receives ? "1" : "0");
  if (receives) {
    EXPECT_THAT(UnmountIn(plugin, target_), HasSubstr("busy"));
  }
  EXPECT_EQ(UnmountIn(plugin, target_ + "/sub"), "OK");
  EXPECT_EQ(Count(target_ + "/sub"), sends ? "0" : "1");
  EXPECT_EQ(UnmountIn(plugin, target_), "OK");
  EXPECT_EQ(Count(target_), sends ? "0" : "1");
  EXPECT_EQ(UnmountIn(plugin, target_, true), "OK");
  EXPECT_TRUE(MountsBelow(target_).empty());
  EXPECT_TRUE(Exists(source_ + "/sub")) << "the volume is as it was";
}

TEST_P(LeftBelowTest, ACopyThatIsBusyInAnotherNamespaceHoldsTheMountHere) {
  const MountNamespace plugin(MountNamespace::Kind::kPeer), task(MountNamespace::Kind::kSlave);
  ASSERT_EQ(BindIn(plugin), "OK");
  {
    const UniqueFd busy(::open(task.Seen(target_ + "/sub").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(busy.ok());
    EXPECT_THAT(UnmountIn(plugin, target_), HasSubstr("busy"));
    EXPECT_EQ(Count(target_), "1");
  }
  EXPECT_EQ(UnmountIn(plugin, target_), "OK");
  EXPECT_EQ(Count(target_), "0");
}

const auto kDirections =
    ::testing::Values(DirectionCase{Propagation::kPrivate, false, false},
                      DirectionCase{Propagation::kSlave, true, false}, DirectionCase{Propagation::kShared, true, true});
std::string NameOf(const ::testing::TestParamInfo<DirectionCase>& test) {
  if (test.param.target_to_source) return "Shared";
  return test.param.source_to_target ? "Slave" : "Private";
}

INSTANTIATE_TEST_SUITE_P(Directions, LeftBelowTest, kDirections, NameOf);
INSTANTIATE_TEST_SUITE_P(Directions, ThreeNamespacesTest, kDirections, NameOf);

}  // namespace
}  // namespace mooring::testing

// Which mount is visible in which of three mount namespaces: the table of docs/propagation.md, on the real kernel.
//
//   host     the orchestrator's directory D lies on a shared mount, peer group g
//   plugin   its container has D bound rshared: a peer in g. The mounter runs here and mounts at D/target, as `asked`
//   running  a container that was there before, with D bound as `tie` says (None, HostToContainer, Bidirectional): in
//            no group, a slave of g, a peer in g
//   task     a container that was started afterwards: its runtime has bound the host's D/target at a path of its own,
//            recursively, as `tie` says
//
// The expected values are derived from mount_namespaces(7) and were written down before the first run.
//
// [1] MS_SHARED: mounts and unmounts immediately under a mount propagate to the other members of its peer group, and
//     to their slaves. Attaching at D/target makes a copy at the same place of every peer and every slave of D: host:
//     always, running: unless private. Unmounting takes the same copies away.
// [2] "Bind (MS_BIND) semantics": below a shared mount the new one is shared. It and its copies at the peers are a new
//     peer group h, the copies at slaves of D are slaves of h.
// [3] MS_PRIVATE and MS_SLAVE change one mount, not its peers. So a change of the mounter's own mount after attaching
//     leaves the host's copy in h. With `asked` private it is in no group, with slave a slave of h, else in h.
// [4] The task's bind of the host's copy joins h. Then, by `tie`, it leaves h, becomes a slave of it, or stays.
//
// X makes a nested mount below the volume. Y sees it if X's mount of the volume is in h (sends), and Y's is in h or a
// slave of it (receives):
//
//                               sends    receives
//   host                        yes      yes
//   plugin or task, private     no       no
//   plugin or task, slave       no       yes
//   plugin or task, shared      yes      yes
//
// [5] Flags belong to one mount, but a copy begins with those of its original. So flags that are set before attaching
//     are on all copies. (A later remount would not propagate.)
// [6] Propagation does not unmount a mount that carries another one. Mounts below a mount that sends nothing have to be
//     unmounted in each namespace, such as the submounts of a recursive bind that is private or slave.
#include <array>
#include <cstring>

#include "mounter/propagation.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

enum class Kind { kBind, kRecursiveBind, kDevice, kBlock };

constexpr bool o = false, X = true;

struct Row {
  Propagation asked, tie;
  bool host, running;                   // the mount is seen there: [1]
  bool host_to_plugin, host_to_task;    // a nested mount that the host makes is seen by
  bool plugin_to_host, plugin_to_task;  // … that the plugin makes
  bool task_to_host, task_to_plugin;    // … that the task makes
};

constexpr Propagation kInherit = Propagation::kInherit, kPrivate = Propagation::kPrivate, kSlave = Propagation::kSlave,
                      kShared = Propagation::kShared;

// clang-format off
constexpr std::array<Row, 12> kTable = {{
    //                    the mount      nested by host    nested by plugin   nested by task
    // asked     tie      host running   plugin   task     host     task      host     plugin
    {kPrivate,  kPrivate,  X,   o,         o,      o,        o,      o,         o,      o},
    {kPrivate,  kSlave,    X,   X,         o,      X,        o,      o,         o,      o},
    {kPrivate,  kShared,   X,   X,         o,      X,        o,      o,         X,      o},
    {kSlave,    kPrivate,  X,   o,         X,      o,        o,      o,         o,      o},
    {kSlave,    kSlave,    X,   X,         X,      X,        o,      o,         o,      o},
    {kSlave,    kShared,   X,   X,         X,      X,        o,      o,         X,      X},
    {kShared,   kPrivate,  X,   o,         X,      o,        X,      o,         o,      o},
    {kShared,   kSlave,    X,   X,         X,      X,        X,      X,         o,      o},
    {kShared,   kShared,   X,   X,         X,      X,        X,      X,         X,      X},
    // Below a shared directory what attaching gives is shared [2].
    {kInherit,  kPrivate,  X,   o,         X,      o,        X,      o,         o,      o},
    {kInherit,  kSlave,    X,   X,         X,      X,        X,      X,         o,      o},
    {kInherit,  kShared,   X,   X,         X,      X,        X,      X,         X,      X},
    // Block: the same for the mount itself. Nested: n/a, nothing can be mounted below a target that is a device node,
    // for it is no directory (ENOTDIR).
}};
// clang-format on

MountNamespace::Kind NamespaceFor(Propagation tie) {
  switch (tie) {
    case Propagation::kPrivate:
      return MountNamespace::Kind::kPrivate;
    case Propagation::kSlave:
      return MountNamespace::Kind::kSlave;
    case Propagation::kShared:
    case Propagation::kInherit:
      return MountNamespace::Kind::kPeer;
  }
  return MountNamespace::Kind::kPeer;
}

unsigned long MountFlagOf(Propagation tie) {
  if (tie == Propagation::kPrivate) return MS_PRIVATE;
  return tie == Propagation::kSlave ? MS_SLAVE : MS_SHARED;
}

std::string Outcome(int result) { return result == 0 ? "OK" : std::strerror(errno); }
std::string Count(const std::string& path) { return fmt::format("{}", MountsAt(path).size()); }
std::string Expected(bool seen) { return seen ? "1" : "0"; }

class PropagationTable : public KernelTest, public ::testing::WithParamInterface<std::tuple<Kind, Row>> {
 protected:
  static Kind kind() { return std::get<0>(GetParam()); }
  static const Row& row() { return std::get<1>(GetParam()); }

  void SetUp() override {
    shared_ = SharedMount("csi");
    target_ = shared_ + "/target";
    data_ = kind() == Kind::kBlock ? File("data") : Dir("data");
    source_ = MakeSource();
    running_ = std::make_unique<MountNamespace>(NamespaceFor(row().tie));
    plugin_ = std::make_unique<MountNamespace>(MountNamespace::Kind::kPeer);
  }

  // The namespaces first: they hold mounts, and those hold loop devices.
  void TearDown() override {
    task_.reset();
    running_.reset();
    plugin_.reset();
    KernelTest::TearDown();
  }

  std::string MakeSource() {
    switch (kind()) {
      case Kind::kBind:
        Dir("source/nested");
        return Path("source");
      case Kind::kRecursiveBind: {
        Dir("source");
        PrivateMount("source/sub");
        Dir("source/sub/nested");
        return Path("source");
      }
      case Kind::kDevice:
        return Ext4Image("image");
      case Kind::kBlock:
        return Losetup(Sparse("image", kMiB));
    }
    return "";
  }

  std::string MountIt(const MountFlags& flags = {}) {
    return plugin_->Ask([&] {
      if (kind() == Kind::kDevice) {
        MountRequest request = MountOf(source_, target_);
        request.flags = flags;
        request.propagation = row().asked;
        return mounter_.Mount(request).ToString();
      }
      BindRequest request = BindOf(source_, target_, flags, row().asked);
      request.recursive = kind() == Kind::kRecursiveBind;
      request.target_kind = kind() == Kind::kBlock ? TargetKind::kFile : TargetKind::kDirectory;
      return mounter_.Bind(request).ToString();
    });
  }

  // Does in a new namespace what a container's runtime does with `-v target:/data:TIE`.
  void StartTask() {
    task_ = std::make_unique<MountNamespace>(MountNamespace::Kind::kPeer);
    EXPECT_EQ(task_->Ask([&] {
      if (::mount(target_.c_str(), data_.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return Outcome(-1);
      if (::mount(nullptr, data_.c_str(), nullptr, MS_REC | MountFlagOf(row().tie), nullptr) != 0) return Outcome(-1);
      return Outcome(::mount(nullptr, shared_.c_str(), nullptr, MS_REC | MS_PRIVATE, nullptr));
    }),
              "OK");
  }

  // [6], of the submount of a recursive bind.
  static bool StaysElsewhere() {
    const bool sends = row().asked == kShared || row().asked == kInherit;
    return kind() == Kind::kRecursiveBind && !sends;
  }

  std::string nested() const { return kind() == Kind::kRecursiveBind ? "/sub/nested" : "/nested"; }
  std::string InTask(const std::function<std::string()>& question) const { return task_->Ask(question); }
  std::string InPlugin(const std::function<std::string()>& question) const { return plugin_->Ask(question); }

  std::string shared_, target_, data_, source_;
  std::unique_ptr<MountNamespace> running_, plugin_, task_;
};

TEST_P(PropagationTable, TheMountAppearsAndDisappears) {
  ASSERT_EQ(MountIt(), "OK");
  EXPECT_EQ(InPlugin([&] { return Count(target_); }), "1");
  EXPECT_EQ(Count(target_), Expected(row().host));
  EXPECT_EQ(running_->Ask([&] { return Count(target_); }), Expected(row().running));
  StartTask();
  EXPECT_EQ(InTask([&] { return Count(data_); }), "1");
  if (kind() == Kind::kRecursiveBind) {
    ASSERT_EQ(InPlugin([&] { return mounter_.Unmount(UnmountOf(target_ + "/sub")).ToString(); }), "OK");
  }
  ASSERT_EQ(InPlugin([&] { return mounter_.Unmount(UnmountOf(target_)).ToString(); }), "OK");
  EXPECT_EQ(InPlugin([&] { return Count(target_); }), "0");
  EXPECT_EQ(Count(target_), Expected(row().host && StaysElsewhere()));
  EXPECT_EQ(running_->Ask([&] { return Count(target_); }), Expected(row().running && StaysElsewhere()));
  EXPECT_EQ(InTask([&] { return Count(data_); }), "1") << "a task's own bind is its own to end";
}

class NestedMountsTable : public PropagationTable {};

TEST_P(NestedMountsTable, ANestedMountIsSeenByThoseWhoReceiveItAndGoesAsItCame) {
  ASSERT_EQ(MountIt(), "OK");
  if (kind() == Kind::kDevice) {
    ASSERT_EQ(InPlugin([&] { return Outcome(::mkdir((target_ + nested()).c_str(), 0700)); }), "OK");
  }
  StartTask();
  const std::string at = target_ + nested(), in_task = data_ + nested();
  const auto mount = [](const std::string& path) {
    return Outcome(::mount("none", path.c_str(), "tmpfs", 0, nullptr));
  };
  const auto unmount = [](const std::string& path) { return Outcome(::umount2(path.c_str(), UMOUNT_NOFOLLOW)); };
  const auto expect_seen = [&](bool host, bool plugin, bool task) {
    EXPECT_EQ(Count(at), Expected(host)) << "host";
    EXPECT_EQ(InPlugin([&] { return Count(at); }), Expected(plugin)) << "plugin";
    EXPECT_EQ(InTask([&] { return Count(in_task); }), Expected(task)) << "task";
  };
  {
    SCOPED_TRACE("made by the host");
    EXPECT_EQ(mount(at), "OK");
    expect_seen(X, row().host_to_plugin, row().host_to_task);
    EXPECT_EQ(unmount(at), "OK");
    expect_seen(o, o, o);
  }
  {
    SCOPED_TRACE("made by the plugin");
    EXPECT_EQ(InPlugin([&] { return mount(at); }), "OK");
    expect_seen(row().plugin_to_host, X, row().plugin_to_task);
    EXPECT_EQ(InPlugin([&] { return unmount(at); }), "OK");
    expect_seen(o, o, o);
  }
  {
    SCOPED_TRACE("made by the task");
    EXPECT_EQ(InTask([&] { return mount(in_task); }), "OK");
    expect_seen(row().task_to_host, row().task_to_plugin, X);
    EXPECT_EQ(InTask([&] { return unmount(in_task); }), "OK");
    expect_seen(o, o, o);
  }
}

class BlockTable : public PropagationTable {};

TEST_P(BlockTable, NothingIsNestedBelowADeviceNode) {
  ASSERT_EQ(MountIt(), "OK");
  StartTask();
  const auto nest = [](const std::string& volume) {
    return Outcome(::mount("none", (volume + "/nested").c_str(), "tmpfs", 0, nullptr));
  };
  EXPECT_EQ(nest(target_), std::strerror(ENOTDIR));
  EXPECT_EQ(InPlugin([&] { return nest(target_); }), std::strerror(ENOTDIR));
  EXPECT_EQ(InTask([&] { return nest(data_); }), std::strerror(ENOTDIR));
}

TEST_P(PropagationTable, FlagsAreOnTheCopiesInTheOtherNamespaces) {
  constexpr char kShown[] = "ro,nosuid,nodev,noexec,noatime";
  const MountFlags flags = {
      .read_only = true, .nosuid = true, .nodev = true, .noexec = true, .nodiratime = false, .atime = Atime::kNoatime};
  ASSERT_EQ(MountIt(flags), "OK");
  StartTask();
  std::vector<std::string> places = {""};
  if (kind() == Kind::kRecursiveBind) places.emplace_back("/sub");
  for (const std::string& place : places) {
    SCOPED_TRACE("at target" + place);
    EXPECT_EQ(InPlugin([&] { return OptionsAt(target_ + place); }), kShown);
    EXPECT_EQ(OptionsAt(target_ + place), row().host ? kShown : "nothing");
    EXPECT_EQ(running_->Ask([&] { return OptionsAt(target_ + place); }), row().running ? kShown : "nothing");
    EXPECT_EQ(InTask([&] { return OptionsAt(data_ + place); }), kShown);
    if (kind() == Kind::kBlock) continue;  // nodev forbids the opening; what is read-only there is the loop device
    EXPECT_EQ(TryWrite(target_ + place + "/file", "x"), EROFS);
    EXPECT_EQ(InTask([&] { return fmt::format("{}", TryWrite(data_ + place + "/file", "x")); }),
              fmt::format("{}", EROFS));
    if (!row().running) continue;
    EXPECT_EQ(TryWrite(running_->Seen(target_ + place + "/file"), "x"), EROFS);
  }
}

std::string NameOf(const std::tuple<Kind, Row>& param) {
  constexpr std::array<const char*, 4> kKinds = {"Bind", "RecursiveBind", "Device", "Block"};
  const Row& row = std::get<1>(param);
  return fmt::format("{}_{}_task_{}", kKinds.at(static_cast<std::size_t>(std::get<0>(param))), ToString(row.asked),
                     ToString(row.tie));
}

const auto kName = [](const auto& test) { return NameOf(test.param); };
const auto kRows = ::testing::ValuesIn(kTable);

INSTANTIATE_TEST_SUITE_P(
    Rows, PropagationTable,
    ::testing::Combine(::testing::Values(Kind::kBind, Kind::kRecursiveBind, Kind::kDevice, Kind::kBlock), kRows),
    kName);
INSTANTIATE_TEST_SUITE_P(Rows, NestedMountsTable,
                         ::testing::Combine(::testing::Values(Kind::kBind, Kind::kRecursiveBind, Kind::kDevice), kRows),
                         kName);
INSTANTIATE_TEST_SUITE_P(Rows, BlockTable, ::testing::Combine(::testing::Values(Kind::kBlock), kRows), kName);

}  // namespace
}  // namespace mooring::testing

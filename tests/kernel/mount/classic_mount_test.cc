// The private place where mount(2) prepares what the new mount API makes detached: who sees what is in it, and what is
// left of it. That the mounts are the same as the others' is shown by all other tests, run again (KernelTestsWithout).
#include "mounter/mount/classic_mount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/kernel/kernel_test.h"
#include "tests/kernel/mount/namespaces.h"

namespace mooring::testing {
namespace {

constexpr char kBelowRun[] = "/run/mooring-mount.";

std::vector<MountLine> Workshops() {
  std::vector<MountLine> mounts = Mounts();
  std::erase_if(mounts, [](const MountLine& line) { return !line.target.starts_with(kBelowRun); });
  return mounts;
}

std::string Text(const std::vector<MountLine>& mounts) {
  std::string text;
  for (const MountLine& line : mounts) {
    text += line.fs_type + " " + line.target.substr(line.target.size() - 6) + (line.propagation.empty() ? "" : " ") +
            (line.propagation.empty() ? "" : line.propagation[0].substr(0, 6)) + "\n";
  }
  return text;
}

class ClassicMountTest : public KernelTest {
 protected:
  // /run is a mount, as on most hosts, and shared; and nobody else is in it.
  void SetUp() override {
    ASSERT_EQ(::mount("none", "/run", "tmpfs", 0, nullptr), 0);
    ASSERT_EQ(::mount(nullptr, "/run", nullptr, MS_SHARED, nullptr), 0);
    Dir("source");
  }
  void TearDown() override {
    ASSERT_EQ(::umount2("/run", 0), 0) << "something is left there";
    KernelTest::TearDown();
  }
  std::unique_ptr<NewMount> Clone(const std::string& path, bool recursive = false) {
    const UniqueFd source(::open(path.c_str(), O_PATH | O_CLOEXEC));
    auto mount = ClassicMount::Clone(source, path, recursive);
    EXPECT_OK(mount);
    return mount.ok() ? *std::move(mount) : nullptr;
  }
};

TEST_F(ClassicMountTest, IsSeenInNoOtherNamespaceBeforeItIsMoved) {
  const MountNamespace peer(MountNamespace::Kind::kPeer);
  const std::unique_ptr<NewMount> mount = Clone(Path("source"));
  ASSERT_EQ(Workshops().size(), 2U);
  EXPECT_THAT(Workshops()[0].propagation, ::testing::ElementsAre("unbindable"));
  EXPECT_THAT(Workshops()[1].target, ::testing::EndsWith("/mount"));
  EXPECT_EQ(peer.Ask([] { return std::to_string(Workshops().size()); }), "1") << "the empty place and nothing on it";
  EXPECT_EQ(StatOf(Workshops()[0].target).st_mode & 07777U, 0700U);
}

TEST_F(ClassicMountTest, LeavesNothingAnywhereWhetherItIsAttachedOrNot) {
  const MountNamespace peer(MountNamespace::Kind::kPeer);
  Clone(Path("source")).reset();
  std::unique_ptr<NewMount> mount = Clone(Path("source"));
  const UniqueFd place(::open(Dir("target").c_str(), O_PATH | O_CLOEXEC));
  ASSERT_OK(mount->MoveTo(place, Path("target")));
  mount.reset();
  EXPECT_EQ(OptionsAt(Path("target")), "rw,relatime");
  EXPECT_EQ(Text(Workshops()), "");
  EXPECT_EQ(peer.Ask([] { return Text(Workshops()); }), "");
  EXPECT_THAT(Entries("/run"), ::testing::IsEmpty());
}

TEST_F(ClassicMountTest, IsNotTakenAlongByARecursiveBindOfADirectoryAbove) {
  const std::unique_ptr<NewMount> mount = Clone(Path("source"));
  ASSERT_EQ(::mount("/run", Dir("copy").c_str(), nullptr, MS_BIND | MS_REC, nullptr), 0);
  EXPECT_EQ(MountsBelow(Path("copy")).size(), 1U);
}

TEST_F(ClassicMountTest, OfAKilledProcessIsTakenDownByTheNext) {
  EXPECT_EQ(AskInChild([&] {
              Clone(Path("source")).release();
              return std::to_string(Workshops().size());  // and it ends without a destructor
            }),
            "2");
  ASSERT_EQ(Workshops().size(), 2U);
  Workshop::TakeDownAbandoned();
  EXPECT_EQ(Text(Workshops()), "");
  EXPECT_THAT(Entries("/run"), ::testing::IsEmpty());
}

TEST_F(ClassicMountTest, OfALivingProcessIsLeftAlone) {
  const std::unique_ptr<NewMount> mount = Clone(Path("source"));
  EXPECT_EQ(AskInChild([] {
              Workshop::TakeDownAbandoned();
              return std::to_string(Workshops().size());
            }),
            "2");
}

// mount(2) reaches only what is on top: better no mount than one whose flags are wrong when that goes.
TEST_F(ClassicMountTest, MountHiddenBelowAnotherIsNeverLeftWithOtherFlags) {
  PrivateMount("source/sub");
  PrivateMount("source/sub");
  std::unique_ptr<NewMount> mount = Clone(Path("source"), true);
  EXPECT_THAT(mount->Set(ReadOnly(), Propagation::kPrivate, true),
              FailsWith(absl::StatusCode::kFailedPrecondition, "'/sub' cannot be given the flags ro,relatime"));
}

TEST_F(ClassicMountTest, MountHiddenBelowAnotherThatHasTheFlagsAlreadyIsNoHindrance) {
  PrivateMount("source/sub");
  ASSERT_EQ(::mount(nullptr, Path("source/sub").c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
  PrivateMount("source/sub");
  std::unique_ptr<NewMount> mount = Clone(Path("source"), true);
  EXPECT_OK(mount->Set(ReadOnly(), Propagation::kPrivate, true));
}

TEST_F(ClassicMountTest, KeepsNoSymFollowOfTheSourceAndOfWhatIsBelowIt) {
  constexpr unsigned long kNoSymFollow = 256;
  for (const char* name : {"source", "source/sub"}) {
    const std::string path = PrivateMount(name);
    ASSERT_EQ(::mount(nullptr, path.c_str(), nullptr, MS_REMOUNT | MS_BIND | kNoSymFollow, nullptr), 0);
  }
  std::unique_ptr<NewMount> mount = Clone(Path("source"), true);
  ASSERT_OK(mount->Set(ReadOnly(), Propagation::kPrivate, true));
  ASSERT_OK(mount->MoveTo(UniqueFd(::open(Dir("target").c_str(), O_PATH | O_CLOEXEC)), Path("target")));
  for (const char* name : {"target", "target/sub"}) {
    EXPECT_THAT(OptionsAt(Path(name)), ::testing::HasSubstr("nosymfollow")) << name;
  }
}

// A copy of a shared mount is its peer, and an unmount below a peer is one below all of them.
class SharedSourceTest : public ClassicMountTest {
 protected:
  void SetUp() override {
    ClassicMountTest::SetUp();
    SharedMount("shared");
    PrivateMount("shared/sub");
  }
  void TearDown() override {
    EXPECT_EQ(MountsBelow(Path("shared")).size(), 2U) << "something was taken off the source";
    EXPECT_EQ(Text(Workshops()), "");
    ClassicMountTest::TearDown();
  }
};

TEST_F(SharedSourceTest, KeepsItsMountsWhenTheCopyIsGivenUp) { Clone(Path("shared"), true).reset(); }

TEST_F(SharedSourceTest, KeepsItsMountsWhenTheCompleteCopyIsGivenUp) {
  for (const Propagation propagation : {Propagation::kInherit, Propagation::kShared, Propagation::kSlave}) {
    const std::unique_ptr<NewMount> mount = Clone(Path("shared"), true);
    EXPECT_OK(mount->Set(ReadOnly(), propagation, true));
  }
}

TEST_F(SharedSourceTest, KeepsItsMountsWhenAProcessWithACopyWasKilled) {
  EXPECT_EQ(AskInChild([&] {
              Clone(Path("shared"), true).release();
              return std::to_string(Workshops().size());
            }),
            "3");
  Workshop::TakeDownAbandoned();
}

// As for a growth: only of the mount itself.
TEST_F(SharedSourceTest, KeepsWhatWasMountedBelowItMeanwhile) {
  ASSERT_EQ(::umount2(Path("shared/sub").c_str(), 0), 0);
  const std::unique_ptr<NewMount> mount = Clone(Path("shared"));
  ASSERT_EQ(::mount("none", Path("shared/sub").c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_EQ(Workshops().size(), 3U) << "and so is the copy";
}

TEST_F(SharedSourceTest, WhatIsMountedBelowItMeanwhileIsNotBoundAlong) {
  for (const Propagation propagation : {Propagation::kPrivate, Propagation::kSlave}) {
    ASSERT_EQ(::umount2(Path("shared/sub").c_str(), 0), 0);
    const std::unique_ptr<NewMount> mount = Clone(Path("shared"));
    ASSERT_EQ(::mount("none", Path("shared/sub").c_str(), "tmpfs", 0, nullptr), 0);
    EXPECT_THAT(mount->Set({}, propagation, false), FailsWith(absl::StatusCode::kAborted, "'/sub' was mounted below"));
  }
}

TEST_F(ClassicMountTest, EmptyPlaceOfAKilledProcessIsTakenDownByTheNext) {
  EXPECT_EQ(AskInChild([&] {
              const auto* const workshop = new absl::StatusOr<Workshop>(Workshop::Open());
              return workshop->status().ToString();
            }),
            "OK");
  ASSERT_EQ(Workshops().size(), 1U);
  Workshop::TakeDownAbandoned();
  EXPECT_THAT(Entries("/run"), ::testing::IsEmpty());
}

TEST_F(ClassicMountTest, IsPreparedWhileOthersLookForAbandonedOnes) {
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) Workshop::TakeDownAbandoned();
  });
  for (int i = 0; i < 500 && !HasFailure(); ++i) {
    const absl::StatusOr<Workshop> workshop = Workshop::Open();
    EXPECT_OK(workshop);
    if (!workshop.ok()) break;
    EXPECT_OK(workshop->MakePlace(true));
  }
  stop = true;
  other.join();
  EXPECT_THAT(Entries("/run"), ::testing::IsEmpty());
}

TEST_F(ClassicMountTest, LockOfAnotherUserOrOfNoRegularFileSaysNothing) {
  Dir("source");
  ASSERT_EQ(::mkdir("/run/mooring-mount.theirs", 0700), 0);
  ASSERT_EQ(::mknod("/run/mooring-mount.theirs.lock", S_IFREG | 0600, 0), 0);
  ASSERT_EQ(::chown("/run/mooring-mount.theirs.lock", 4711, 4711), 0);
  ASSERT_EQ(::mkfifo("/run/mooring-mount.fifo.lock", 0600), 0);
  Workshop::TakeDownAbandoned();
  EXPECT_EQ(Entries("/run").size(), 3U);
}

// The table of mounts knows no links: /run is one to /var/run in some images.
TEST_F(ClassicMountTest, WorksWhereRunIsASymbolicLink) {
  for (const char* name : {"root/var/run", "root/proc", "root/tmp", "root/source/sub", "root/target"}) Dir(name);
  ASSERT_EQ(::symlink("var/run", Path("root/run").c_str()), 0);
  EXPECT_EQ(MountNamespace(MountNamespace::Kind::kPrivate).Ask([&] {
    if (::mount("/proc", Path("root/proc").c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0 ||
        ::mount("none", Path("root/source/sub").c_str(), "tmpfs", 0, nullptr) != 0 ||
        ::chroot(Path("root").c_str()) != 0 || ::chdir("/") != 0) {
      return std::string("no root");
    }
    const std::unique_ptr<NewMount> mount = Clone("/source", true);
    std::string text = mount->Set(ReadOnly(), Propagation::kPrivate, true).ToString();
    text += mount->MoveTo(UniqueFd(::open("/target", O_PATH | O_CLOEXEC)), "/target").ToString();
    return text + " " + OptionsAt("/target") + " " + OptionsAt("/target/sub");
  }),
            "OKOK ro,relatime ro,relatime");
}

}  // namespace
}  // namespace mooring::testing

// The private place where mount(2) prepares what the new mount API makes detached: who sees what is in it, and what is
// left of it. That the mounts are the same as the others' is shown by all other tests, run again (KernelTestsWithout).
#include "mounter/classic_mount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/kernel/kernel_test.h"
#include "tests/kernel/namespaces.h"

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

}  // namespace
}  // namespace mooring::testing

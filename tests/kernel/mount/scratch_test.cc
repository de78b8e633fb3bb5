// The private place where mounts are made: nothing stays there, and nothing goes wrong if others touch it.
#include "mounter/mount/scratch.h"

#include <signal.h>
#include <sys/wait.h>

#include "mounter/mount/new_mount.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

constexpr char kBase[] = "/run/mooring-scratch";

// Each test has its own /run, and a scratch there.
class ScratchTest : public KernelTest {
 protected:
  void SetUp() override {
    RemoveScratch();
    ASSERT_EQ(::mount("none", "/run", "tmpfs", 0, nullptr), 0);
    Dir("source");
    Dir("target");
  }
  void TearDown() override {
    RemoveScratch();
    EXPECT_FALSE(Exists(kBase));
    EXPECT_EQ(::umount2("/run", 0), 0);
    KernelTest::TearDown();
  }

  std::string Own() const { return fmt::format("{}/{}-0", kBase, ::getpid()); }
  absl::Status BindIt() { return mounter_.Bind(BindOf(Path("source"), Path("target"))); }

  // A process that is killed with a recursive bind of the source in its scratch.
  void LeaveAScratchBehind() {
    const pid_t pid = ::fork();
    if (pid == 0) {
      const UniqueFd source(::open(Path("source").c_str(), O_PATH | O_CLOEXEC));
      const absl::StatusOr<NewMount> mount = BindMount(source, Path("source"), {}, Propagation::kInherit, true);
      if (mount.ok()) ::kill(::getpid(), SIGKILL);
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status));
    ASSERT_THAT(MountsBelow(fmt::format("{}/{}-0", kBase, pid)), SizeIs(3));
  }
};

TEST_F(ScratchTest, NothingStaysInIt) {
  ASSERT_OK(BindIt());
  EXPECT_THAT(MountsBelow(Own()), SizeIs(1));
  const BindRequest refused = BindOf(Path("source"), File("file"));
  EXPECT_THAT(mounter_.Bind(refused), Refused());
  EXPECT_THAT(MountsBelow(Own()), SizeIs(1));
  RemoveScratch();
  EXPECT_THAT(MountsBelow(kBase), IsEmpty());
}

// Neither a recursive bind nor another mount namespace takes a mount along.
TEST_F(ScratchTest, ItIsUnbindable) {
  ASSERT_OK(PrepareScratch());
  EXPECT_EQ(PropagationAt(Own()), "unbindable");
}

// Its mounts are unmounted alone: the copies of a shared mount are its peers.
TEST_F(ScratchTest, TheNextStartRemovesThatOfAKilledProcess) {
  SharedMount("source");
  Dir("source/below");
  SharedMount("source/below");
  LeaveAScratchBehind();
  ASSERT_OK(PrepareScratch());
  EXPECT_THAT(MountsBelow(kBase), SizeIs(1));
  EXPECT_THAT(Entries(kBase), SizeIs(1));
  EXPECT_THAT(MountsBelow(Path("source")), SizeIs(2));
}

TEST_F(ScratchTest, ThatOfALivingProcessStays) {
  ASSERT_OK(PrepareScratch());
  EXPECT_EQ(AskInChild([&] {
              const std::string made = PrepareScratch().ToString();
              RemoveScratch();
              return made;
            }),
            "OK");
  EXPECT_THAT(MountsBelow(Own()), SizeIs(1));
  // Also where it is not mounted: there its directory looks empty.
  const MountNamespace other(MountNamespace::Kind::kPrivate);
  const std::string own = Own();
  EXPECT_EQ(other.Ask([&] {
    if (::umount2(own.c_str(), MNT_DETACH) != 0) return std::string("cannot unmount");
    const std::string made = PrepareScratch().ToString();
    RemoveScratch();
    return made;
  }),
            "OK");
  EXPECT_THAT(MountsBelow(own), SizeIs(1));
}

TEST_F(ScratchTest, OneThatWasUnmountedIsMadeAgain) {
  ASSERT_OK(PrepareScratch());
  ASSERT_EQ(::umount2(Own().c_str(), MNT_DETACH), 0);
  EXPECT_OK(BindIt());
  EXPECT_EQ(OptionsAt(Path("target")), "rw,relatime");
}

TEST_F(ScratchTest, ADirectoryOfSomebodyElseIsRefused) {
  ASSERT_EQ(::mkdir(kBase, 0755), 0);
  ASSERT_EQ(::mount("none", "/dev/shm", "tmpfs", MS_RDONLY, nullptr), 0);
  EXPECT_THAT(BindIt(), Refused("'/run/mooring-scratch' belongs to somebody else, or is open to others: remove it"));
  ASSERT_EQ(::umount2("/dev/shm", 0), 0);
  ASSERT_EQ(::rmdir(kBase), 0);
}

TEST_F(ScratchTest, ItLiesInSharedMemoryIfRunIsReadOnly) {
  ASSERT_EQ(::mount("none", "/dev/shm", "tmpfs", 0, nullptr), 0);
  ASSERT_EQ(::mount(nullptr, "/run", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
  EXPECT_OK(BindIt());
  EXPECT_THAT(MountsBelow("/dev/shm/mooring-scratch"), SizeIs(1));
  RemoveScratch();
  EXPECT_EQ(::umount2("/dev/shm", 0), 0);
}

// Work in it is not seen elsewhere, and outlives the place.
TEST_F(ScratchTest, AHiddenMountIsNowhere) {
  const std::string device = Losetup(Ext4Image("image"));
  const absl::StatusOr<NewMount> mount = MakeHiddenMount(MountOf(device, ""), device);
  ASSERT_OK(mount);
  EXPECT_THAT(MountsBelow(Own()), SizeIs(1));
  EXPECT_OK(mount->OpenRoot());
}

}  // namespace
}  // namespace mooring::testing

// Targets of mounts: existing files, symbolic links on the way, mount roots, and many callers at once. swap_test.cc
// exchanges them meanwhile.
#include "mounter/path/target.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <new>

#include "base/status.h"
#include "mounter/mount/new_mount.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

class TargetTest : public KernelTest {
 protected:
  absl::Status Bind(const std::string& target) { return mounter_.Bind(BindOf(Dir("source"), target)); }
  void ExpectRefused(const absl::Status& status, const std::string& piece) { EXPECT_THAT(status, Refused(piece)); }
};

TEST_F(TargetTest, IsCreatedIfMissing) {
  ASSERT_OK(Bind(Path("target")));
  EXPECT_EQ(OptionsAt(Path("target")), "rw,relatime");
  ASSERT_EQ(::umount2(Path("target").c_str(), 0), 0);
  EXPECT_EQ(StatOf(Path("target")).st_mode & 07007U, 01000U) << "others have no access; the bit marks it";
}

TEST_F(TargetTest, AFileIsCreatedForADeviceIfMissing) {
  ASSERT_OK(mounter_.Bind(NodeBindOf(Losetup(Sparse("image", kMiB)), Path("target"))));
  ASSERT_EQ(::umount2(Path("target").c_str(), 0), 0);
  EXPECT_EQ(StatOf(Path("target")).st_mode & (S_IFMT | 07007U), S_IFREG | 01000U);
}

TEST_F(TargetTest, OnlyTheLastComponentIsCreated) {
  EXPECT_THAT(Bind(Path("no/such/target")), Refused(Path("no/such")));
  EXPECT_FALSE(Exists(Path("no")));
}

TEST_F(TargetTest, FileForADirectoryIsRefusedAndKept) {
  ExpectRefused(Bind(File("target", "data")), "'" + Path("target") + "' is not a directory");
  EXPECT_EQ(ReadFile(Path("target")), "data");
}

TEST_F(TargetTest, NonEmptyDirectoryIsRefusedAndKept) {
  Dir("target");
  File("target/file", "data");
  ExpectRefused(Bind(Path("target")), "not empty");
  ExpectRefused(mounter_.Mount(MountOf(Ext4Image("image"), Path("target"))), "not empty");
  EXPECT_EQ(ReadFile(Path("target/file")), "data");
  EXPECT_TRUE(MountsBelow(dir_.path()).empty());
  EXPECT_TRUE(NoLoopOver(Path("image")));
}

TEST_F(TargetTest, NonEmptyFileForADeviceIsRefusedAndKept) {
  const std::string device = Losetup(Sparse("image", kMiB));
  ExpectRefused(mounter_.Bind(NodeBindOf(device, File("target", "data"))), "empty file");
  EXPECT_EQ(ReadFile(Path("target")), "data");
}

TEST_F(TargetTest, DirectoryForADeviceIsRefused) {
  const std::string device = Losetup(Sparse("image", kMiB));
  ExpectRefused(mounter_.Bind(NodeBindOf(device, Dir("target"))), "empty file");
}

TEST_F(TargetTest, SymlinkIsNeverFollowed) {
  Dir("elsewhere");
  ASSERT_EQ(::symlink(Path("elsewhere").c_str(), Path("target").c_str()), 0);
  ExpectRefused(Bind(Path("target")), Path("target"));
  ASSERT_EQ(::symlink(Path("nowhere").c_str(), Path("dangling").c_str()), 0);
  ExpectRefused(Bind(Path("dangling")), Path("dangling"));
  EXPECT_FALSE(Exists(Path("nowhere")));
  EXPECT_TRUE(MountsBelow(dir_.path()).empty());
}

TEST_F(TargetTest, SymlinkInThePathIsRefusedAndNamed) {
  Dir("elsewhere");
  ASSERT_EQ(::symlink(Path("elsewhere").c_str(), Path("link").c_str()), 0);
  ExpectRefused(Bind(Path("link/target")), "'" + Path("link") + "' is a symbolic link");
  EXPECT_THAT(Entries(Path("elsewhere")), IsEmpty());
}

TEST_F(TargetTest, AMountIsNeverStackedOnAMount) {
  ASSERT_OK(Bind(Path("target")));
  ExpectRefused(Bind(Path("target")), "mount already");
  ExpectRefused(mounter_.Mount(MountOf(Ext4Image("image"), Path("target"))), "mount already");
  EXPECT_EQ(MountsAt(Path("target")).size(), 1U);
  EXPECT_TRUE(NoLoopOver(Path("image")));
}

TEST_F(TargetTest, AMountIsNeverStackedOnABoundDeviceNode) {
  const std::string device = Losetup(Sparse("image", kMiB));
  ASSERT_OK(mounter_.Bind(NodeBindOf(device, Path("target"))));
  ExpectRefused(mounter_.Bind(NodeBindOf(device, Path("target"))), "mount already");
  EXPECT_EQ(MountsAt(Path("target")).size(), 1U);
}

TEST_F(TargetTest, IsMountedOnceByManyThreads) {
  constexpr int kThreads = 8;
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> waiting = kThreads, mounted = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        --waiting;
        while (waiting > 0) std::this_thread::yield();
        if (Bind(Path("target")).ok()) ++mounted;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(mounted, 1);
    ASSERT_EQ(MountsAt(Path("target")).size(), 1U) << "round " << round;
    ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"), true)));
  }
}

// A process that binds at the target each time `rounds` is raised, and counts its successes.
class Rival {
 public:
  Rival(KernelMounter& mounter, const BindRequest& request, std::atomic<int>* shared) : shared_(shared) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::alarm(60);
    for (int round = 1;; ++round) {
      while (shared_[0] < round) {
        if (shared_[0] < 0) ::_exit(0);
      }
      if (mounter.Bind(request).ok()) ++shared_[1];
      ++shared_[2];
    }
  }
  ~Rival() { ::waitpid(pid_, nullptr, 0); }

 private:
  std::atomic<int>* shared_;
  pid_t pid_ = -1;
};

TEST_F(TargetTest, IsMountedOnceByManyProcesses) {
  void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* const shared = new (page) std::atomic<int>[3]();  // the round, binds that worked, binds that ended
  constexpr int kRounds = 300;
  {
    const BindRequest request = BindOf(Dir("source"), Path("target"));
    const Rival one(mounter_, request, shared), other(mounter_, request, shared);
    for (int round = 1; round <= kRounds && !HasFailure(); ++round) {
      shared[1] = shared[2] = 0;
      shared[0] = round;
      while (shared[2] < 2) std::this_thread::sleep_for(std::chrono::microseconds(200));  // the cores are theirs
      EXPECT_EQ(shared[1], 1) << "round " << round;
      EXPECT_EQ(MountsAt(Path("target")).size(), 1U) << "round " << round;
      while (::umount2(Path("target").c_str(), UMOUNT_NOFOLLOW) == 0) {
      }
      if (round % 2 == 0) ::rmdir(Path("target").c_str());  // a race to make it, too
    }
    shared[0] = -1;
  }
  ::munmap(page, 4096);
}

TEST_F(TargetTest, ATargetLockedByAnotherProcessIsReportedSoon) {
  const UniqueFd held(::open(Dir("target").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  EXPECT_THAT(Bind(Path("target")), FailsWith(StatusCode::kAborted, "another process is mounting at"));
  EXPECT_TRUE(MountsBelow(dir_.path()).empty());
}

// Reading is allowed everywhere: a reconciliation reads all mounts and loop devices.
TEST_F(TargetTest, OutsideTheRootsNothingIsMountedOrUnmounted) {
  KernelMounter confined({Dir("a")});
  const std::string image = Ext4Image("image");
  for (const std::string& target : {Path("ab"), Path("b"), dir_.path()}) {
    ExpectRefused(confined.Mount(MountOf(image, target)), "below none of the directories");
    ExpectRefused(confined.Bind(BindOf(Dir("source"), target)), "below none of the directories");
    ExpectRefused(confined.Unmount(UnmountOf(target)), "below none of the directories");
    EXPECT_OK(confined.Find(target));
    EXPECT_OK(confined.List(target));
  }
  EXPECT_FALSE(Exists(Path("ab")));
  EXPECT_OK(confined.Bind(BindOf(Path("source"), Path("a/target"))));
  EXPECT_EQ(confined.List(Path("a"))->size(), 1U);
  EXPECT_OK(confined.Unmount(UnmountOf(Path("a/target"))));
}

// A device, an image and the mounts of the host lie outside the roots of targets.
TEST_F(TargetTest, ReadingIsAllowedOutsideTheRoots) {
  KernelMounter confined({Dir("a")});
  const std::string outside = PrivateMount("b");
  EXPECT_TRUE(confined.Find(outside)->mount.has_value());
  EXPECT_OK(confined.Stats(outside));
  EXPECT_EQ(confined.List(outside)->size(), 1U);
  EXPECT_OK(confined.HealthProblem(outside));
  const std::string device = Losetup(Ext4Image("image"));
  EXPECT_TRUE(confined.Find(device)->loop.has_value());
  EXPECT_EQ(Tool("losetup -d " + device), 0);
}

TEST_F(TargetTest, DotDotRelativeAndNulAreRefused) {
  KernelMounter confined({Dir("a")});
  for (const std::string& target : {Path("a/../b"), std::string("a/target"), Path("a/t") + '\0' + "x", Path("a/t\n")}) {
    EXPECT_THAT(confined.Bind(BindOf(Dir("source"), target)), FailsWith(StatusCode::kInvalidArgument, ""));
  }
  EXPECT_THAT(Entries(dir_.path()), UnorderedElementsAre("a", "source"));
}

TEST_F(TargetTest, ASwappedInDeviceNodeIsNotOpened) {
  ASSERT_EQ(::mkfifo(Path("target").c_str(), 0600), 0);
  const UniqueFd other_end(::open(Path("target").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  const auto target = Target::ResolveForMount(Path("target"), {"/"});
  ASSERT_OK(target);
  ExpectRefused(target->OpenToLock(TargetKind::kFile).status(), "has to be an empty file");
  EXPECT_FALSE(target->OpenToLock(TargetKind::kDirectory).ok());
  ASSERT_EQ(::unlink(Path("target").c_str()), 0);
  File("target");
  EXPECT_OK(target->OpenToLock(TargetKind::kFile));
}

// Mounts a copy of a shared mount at one place, and uses its descriptor at another one.
class ArrivalTest : public TargetTest {
 protected:
  void SetUp() override {
    SharedMount("shared");
    PrivateMount("shared/sub");
    Dir("target");
    Dir("elsewhere");
  }
  NewMount MountAt(const std::string& at) {
    const UniqueFd source(::open(Path("shared").c_str(), O_PATH | O_CLOEXEC));
    const UniqueFd place(::open(at.c_str(), O_PATH | O_CLOEXEC));
    NewMount mount = *CloneMount(source, Path("shared"), true);
    EXPECT_OK(mount.MoveTo(place, at));
    return mount;
  }
  Target At(const std::string& path) { return *Target::ResolveForMount(path, {"/"}); }
};

TEST_F(ArrivalTest, AMountThatArrivesElsewhereIsUnmountedAndItsSharedSourceKeepsItsMounts) {
  const NewMount mount = MountAt(Path("elsewhere"));
  ASSERT_EQ(MountsBelow(Path("elsewhere")).size(), 2U);
  ExpectRefused(At(Path("target")).CheckArrived(mount.fd()), "was moved to '" + Path("elsewhere") + "'");
  EXPECT_TRUE(MountsBelow(Path("elsewhere")).empty());
  EXPECT_EQ(MountsBelow(Path("shared")).size(), 2U);
}

TEST_F(ArrivalTest, AMountThatWasUnmountedAtOnceIsReported) {
  const NewMount mount = MountAt(Path("target"));
  ASSERT_EQ(::mount(nullptr, Path("target").c_str(), nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  ASSERT_EQ(::umount2(Path("target").c_str(), MNT_DETACH), 0);
  ExpectRefused(At(Path("target")).CheckArrived(mount.fd()), "'" + Path("target") + "' was unmounted again at once");
}

TEST_F(ArrivalTest, UndoAttachUnmountsByDescriptorNotByName) {
  const NewMount mount = MountAt(Path("elsewhere"));
  PrivateMount("target");
  EXPECT_OK(At(Path("target")).UndoAttach(mount.fd()));
  EXPECT_EQ(MountsBelow(Path("target")).size(), 1U);
  EXPECT_TRUE(MountsBelow(Path("elsewhere")).empty());
  EXPECT_EQ(MountsBelow(Path("shared")).size(), 2U);
  EXPECT_OK(At(Path("target")).UndoAttach(mount.fd())) << "it is not mounted any more";
}

TEST_F(ArrivalTest, ArrivalIsCheckedThroughAGivenPathToTheDescriptor) {
  const auto answer = MountNamespace(MountNamespace::Kind::kPrivate).Ask([&] {
    const NewMount mount = MountAt(Path("elsewhere"));
    const UniqueFd own_fds(::open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC));
    const Target target = *Target::ResolveForMount(Path("target"), {"/"}, [&](const UniqueFd& fd) {
      return absl::StatusOr<std::string>(::fchdir(own_fds.get()) == 0 ? std::to_string(fd.get()) : "");
    });
    if (::mount("none", "/proc", "tmpfs", 0, nullptr) != 0) return std::string("cannot mount over /proc");
    const std::string status = target.CheckArrived(mount.fd()).ToString();
    ::umount2("/proc", MNT_DETACH);
    return status + (MountsBelow(Path("elsewhere")).empty() ? " and taken away" : " and left");
  });
  EXPECT_THAT(answer, HasSubstr("was moved to '" + Path("elsewhere") + "'"));
  EXPECT_THAT(answer, ::testing::EndsWith("and taken away"));
}

}  // namespace
}  // namespace mooring::testing

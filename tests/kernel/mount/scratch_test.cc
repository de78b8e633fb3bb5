// The private place where mounts are made: nothing stays there, and nothing goes wrong if others touch it.
#include "mounter/mount/scratch.h"

#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <thread>

#include "mounter/mount/new_mount.h"
#include "mounter/table/mount_table.h"
#include "tests/kernel/kernel_test.h"
#include "tests/support/fuse_server.h"

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
    EXPECT_TRUE(Unmounts("/run"));
    KernelTest::TearDown();
  }

  static std::string ScratchOf(pid_t pid) { return fmt::format("{}/{}-0/tmpfs", kBase, pid); }
  std::string Own() const { return ScratchOf(::getpid()); }
  static absl::Status MakeScratch() { return ScratchPlace::Take(TargetKind::kDirectory).status(); }
  absl::Status BindIt() { return mounter_.Bind(BindOf(Path("source"), Path("target"))); }
  absl::StatusOr<NewMount> BindInScratch(bool recursive = false) {
    const UniqueFd source(::open(Path("source").c_str(), O_PATH | O_CLOEXEC));
    return BindMount(source, Path("source"), TargetKind::kDirectory, {}, Propagation::kInherit, recursive);
  }

  // A process that is killed when it has done `work`. Returns its scratch.
  std::string LeaveBehind(const std::function<bool()>& work) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (work()) ::kill(::getpid(), SIGKILL);
      ::_exit(1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status));
    return ScratchOf(pid);
  }
  std::string LeaveABindBehind() {
    return LeaveBehind([&] {
      const absl::StatusOr<NewMount> mount = BindInScratch(true);
      if (mount.ok()) ::kill(::getpid(), SIGKILL);
      return false;
    });
  }

  // The thread that removes dead scratches has a descriptor there for a moment longer.
  static bool Unmounts(const char* path) {
    return Eventually([path] { return ::umount2(path, 0) == 0; });
  }
  static bool NothingIsLeft() {
    return Eventually([] { return MountsBelow(kBase).empty() && (!Exists(kBase) || Entries(kBase).empty()); });
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

TEST_F(ScratchTest, ARecursiveBindLeavesItOut) {
  ASSERT_OK(MakeScratch());
  BindRequest request = BindOf("/run", Path("target"));
  request.recursive = true;
  ASSERT_OK(mounter_.Bind(request));
  EXPECT_THAT(MountsBelow(Path("target")), SizeIs(1));
  EXPECT_THAT(MountsBelow(Own()), SizeIs(1));
}

// A namespace that begins while a mount is in the scratch has a copy of it. That would keep the volume in use for ever.
TEST_F(ScratchTest, ANamespaceThatBeginsMeanwhileKeepsNoCopy) {
  const UniqueFd target(::open(Path("target").c_str(), O_PATH | O_CLOEXEC));
  const std::function<void(NewMount&)> ends[] = {[&](NewMount& mount) {
                                                   ASSERT_OK(mount.MoveTo(target, Path("target")));
                                                   EXPECT_EQ(::umount2(Path("target").c_str(), MNT_DETACH), 0);
                                                 },
                                                 [](NewMount& mount) { ASSERT_OK(mount.Hide()); },
                                                 [](NewMount& mount) { const NewMount gone = std::move(mount); }};
  for (const auto& end : ends) {
    absl::StatusOr<NewMount> mount = BindInScratch();
    ASSERT_OK(mount);
    const MountNamespace other(MountNamespace::Kind::kPrivate);
    const auto count = [&] { return other.Ask([] { return std::to_string(MountsBelow(kBase).size()); }); };
    EXPECT_EQ(count(), "2");
    end(*mount);
    EXPECT_EQ(count(), "1");
  }
}

// Each is killed in the middle of a mount. The mounts are unmounted alone: the copies of a shared mount are its peers.
TEST_F(ScratchTest, TheNextStartRemovesThoseOfKilledProcesses) {
  SharedMount("source");
  Dir("source/below");
  SharedMount("source/below");
  const std::string device = Losetup(Ext4Image("image"));
  EXPECT_THAT(MountsBelow(LeaveABindBehind()), SizeIs(3));
  LeaveBehind([&] {
    const absl::StatusOr<NewMount> mount = MakeMount(MountOf(device, ""), device);
    if (mount.ok()) ::kill(::getpid(), SIGKILL);
    return false;
  });
  LeaveBehind([&] {
    const absl::StatusOr<NewMount> mount = MakeHiddenMount(MountOf(device, ""), device);
    if (mount.ok()) ::kill(::getpid(), SIGKILL);
    return false;
  });
  // Before the tmpfs is unbindable, and before it is locked.
  const std::string half = LeaveBehind([&] { return true; });
  ASSERT_TRUE(std::filesystem::create_directories(half));
  ASSERT_EQ(::mount("mooring-scratch", half.c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_THAT(Entries(kBase), SizeIs(4));
  const MountNamespace other(MountNamespace::Kind::kPrivate);
  RemoveDeadScratches();
  EXPECT_TRUE(NothingIsLeft());
  EXPECT_EQ(other.Ask([] { return std::to_string(MountsBelow(kBase).size()); }), "0");
  EXPECT_THAT(MountsBelow(Path("source")), SizeIs(2));
}

// Nobody could unmount it, so a deletion does not name it, but removes it.
TEST_F(ScratchTest, AMountThatAKilledProcessLeftIsNotListed) {
  const std::string scratch = LeaveABindBehind();
  EXPECT_THAT(MountsBelow(scratch), SizeIs(2));
  const absl::StatusOr<std::vector<ListedMount>> listed = ListMounts("/");
  ASSERT_OK(listed);
  for (const ListedMount& mount : *listed) EXPECT_THAT(mount.target, Not(HasSubstr("scratch")));
  EXPECT_THAT(MountsBelow(scratch), SizeIs(2));
  EXPECT_OK(mounter_.List("/"));
  EXPECT_TRUE(NothingIsLeft());
  LeaveABindBehind();
  EXPECT_OK(mounter_.FindLoops(""));
  EXPECT_TRUE(NothingIsLeft());
}

// The last unmount of a filesystem writes to its device, which may not answer.
TEST_F(ScratchTest, OneWhoseDeviceHangsDelaysNobody) {
  FuseServer fuse(Dir("fuse"));
  const std::string image = Path("fuse/image");
  ASSERT_EQ(Tool(fmt::format("cp {} {}", Ext4Image("vol.img"), image)), 0);
  const std::string device = Losetup(image);
  const std::string scratch = LeaveBehind([&] {
    const absl::StatusOr<NewMount> mount = MakeMount(MountOf(device, ""), device);
    const absl::StatusOr<UniqueFd> root = mount->OpenRoot();
    const UniqueFd file(::openat(root->get(), "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (::write(file.get(), "x", 1) == 1) ::kill(::getpid(), SIGKILL);
    return false;
  });
  fuse.HangOnData();
  const auto start = Clock::now();
  RemoveDeadScratches();
  EXPECT_OK(BindIt());
  EXPECT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
  EXPECT_TRUE(Exists(scratch)) << "then this test shows nothing";
  fuse.Resume();
  EXPECT_TRUE(Eventually([&] { return !Exists(scratch); }));
  EXPECT_EQ(Tool("losetup -d " + device), 0);
  RemoveScratch();
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(ScratchTest, ThatOfALivingProcessStays) {
  ASSERT_OK(MakeScratch());
  const auto try_to_remove = [] {
    RemoveDeadScratches();
    std::this_thread::sleep_for(milliseconds(100));
    const std::string made = MakeScratch().ToString();
    RemoveScratch();
    return made;
  };
  EXPECT_EQ(AskInChild(try_to_remove), "OK");
  EXPECT_THAT(MountsBelow(Own()), SizeIs(1));
  // Also where it is not mounted: there its directory looks empty.
  const MountNamespace other(MountNamespace::Kind::kPrivate);
  const std::string own = Own();
  EXPECT_EQ(other.Ask([&] {
    return ::umount2(own.c_str(), MNT_DETACH) == 0 ? try_to_remove() : std::string("cannot unmount");
  }),
            "OK");
  EXPECT_THAT(MountsBelow(own), SizeIs(1));
}

// Each takes those for dead that others have not locked yet.
TEST_F(ScratchTest, ManyProcessesMakeTheirsAtOnce) {
  std::vector<std::thread> threads;
  std::array<std::string, 8> answers;
  for (std::string& answer : answers) {
    threads.emplace_back([&answer] {
      answer = AskInChild([] {
        for (int i = 0; i < 50; ++i) {
          RemoveDeadScratches();
          const absl::Status made = MakeScratch();
          if (!made.ok() || MountsBelow(ScratchOf(::getpid())).size() > 1) return made.ToString();
          RemoveScratch();
        }
        return std::string("OK");
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(answers, ::testing::Each("OK"));
  RemoveDeadScratches();
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(ScratchTest, OneThatWasUnmountedIsMadeAgain) {
  ASSERT_OK(MakeScratch());
  ASSERT_EQ(::umount2(Own().c_str(), MNT_DETACH), 0);
  EXPECT_OK(BindIt());
  EXPECT_EQ(OptionsAt(Path("target")), "rw,relatime");
}

// Although shared memory could be used: what is in it would not be found.
TEST_F(ScratchTest, ADirectoryOfSomebodyElseIsRefused) {
  ASSERT_EQ(::mkdir(kBase, 0755), 0);
  EXPECT_THAT(BindIt(), Refused("'/run/mooring-scratch' belongs to somebody else, or is open to others: remove it"));
  ASSERT_EQ(::rmdir(kBase), 0);
}

TEST_F(ScratchTest, ItLiesInSharedMemoryIfRunIsReadOnly) {
  ASSERT_EQ(::mount("none", "/dev/shm", "tmpfs", 0, nullptr), 0);
  ASSERT_EQ(::mount(nullptr, "/run", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
  EXPECT_OK(BindIt());
  EXPECT_THAT(MountsBelow("/dev/shm/mooring-scratch"), SizeIs(1));
  LeaveABindBehind();
  EXPECT_THAT(MountsBelow("/dev/shm/mooring-scratch"), SizeIs(3));
  ASSERT_EQ(::mount(nullptr, "/run", nullptr, MS_REMOUNT | MS_BIND, nullptr), 0);
  RemoveDeadScratches();
  EXPECT_TRUE(Eventually([] { return MountsBelow("/dev/shm/mooring-scratch").size() == 1; }));
  RemoveScratch();
  EXPECT_TRUE(Unmounts("/dev/shm"));
}

TEST_F(ScratchTest, BothPlacesAreNamedIfNeitherCanBeUsed) {
  ASSERT_EQ(::mount("none", "/dev/shm", "tmpfs", MS_RDONLY, nullptr), 0);
  ASSERT_EQ(::mount(nullptr, "/run", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
  EXPECT_THAT(BindIt(), Refused("'/run/mooring-scratch': Read-only file system; create the directory "
                                "'/dev/shm/mooring-scratch': Read-only file system"));
  EXPECT_TRUE(Unmounts("/dev/shm"));
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

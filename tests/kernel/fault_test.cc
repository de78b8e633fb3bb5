// Lets each system call of each operation fail in turn. The operation succeeds without it, or fails and changes
// nothing.
#include <libmount/libmount.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "mounter/mount/scratch.h"
#include "tests/kernel/kernel_test.h"
#include "tests/support/syscall_faults.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;

// A mount without its ids. The kernel numbers peer groups for the whole host, so other processes change those numbers.
std::string Text(const MountLine& line) {
  std::string text = fmt::format("{} {} {} ", line.target, line.root, line.fs_type);
  for (const std::string& option : line.options) text += option + ",";
  for (const std::string& field : line.propagation) text += " " + field.substr(0, field.find(':'));
  return text + "\n";
}

class FaultTest : public KernelTest {
 protected:
  // Targets lie in a shared mount, which another namespace sees. No other process writes to this /run.
  void SetUp() override {
    RemoveScratch();
    ASSERT_EQ(::mount("none", "/run", "tmpfs", 0, nullptr), 0);
    SharedMount("shared");
    peer_ = std::make_unique<MountNamespace>(MountNamespace::Kind::kPeer);
  }
  void TearDown() override {
    peer_.reset();
    RemoveScratch();
    EXPECT_EQ(::umount2("/run", 0), 0);
    KernelTest::TearDown();
  }

  // Describes the state that a failed operation has to keep.
  std::string State() const {
    std::string state;
    for (const MountLine& line : Mounts()) {
      if (IsOurs(line.target)) state += Text(line);
    }
    for (const LoopLine& line : LoopsOver(dir_.path())) {
      state += fmt::format("loop over {}{}{}\n", line.backing_file, line.read_only ? " ro" : "",
                           line.auto_clear ? " autoclear" : "");
    }
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path())) {
      const struct stat status = StatOf(entry.path());
      if (std::string_view(entry.path().native()).ends_with("lost+found")) continue;
      state += fmt::format("{} {:o} {}\n", entry.path().native(), status.st_mode,
                           S_ISREG(status.st_mode) ? status.st_size : 0);
    }
    for (const std::string& name : Entries("/run")) state += "/run/" + name + "\n";
    state += fmt::format("{} open files\n", OpenFiles());
    return state + "and in the other namespace:\n" + peer_->Ask([this] {
      std::string there;
      for (const MountLine& line : Mounts()) {
        if (IsOurs(line.target)) there += Text(line);
      }
      return there;
    });
  }

  struct Operation {
    std::function<absl::Status()> work;
    std::function<void()> undo;  // after a success
    std::function<void()> prepare = [] {};
    std::function<bool(const absl::Status&)> or_else = [](auto&) { return false; };  // allows another outcome
    int stride = 1;  // fails a call of so many: for operations that look at each process of the host
  };

  void FailEachCall(const Operation& operation) {
    operation.prepare();
    const std::size_t loops = LoopsOver(dir_.path()).size();
    ASSERT_OK(operation.work()) << "without a fault";  // also does what is done only once
    operation.undo();
    // Another process of the host may have the loop device open for a while. It must not count as the state before.
    ASSERT_TRUE(Eventually([&] { return LoopsOver(dir_.path()).size() == loops; }));
    for (const int error : {EIO, ENOMEM}) {
      int failed = 0;
      constexpr int kMost = 1000;
      int nth = 1;
      while (nth < kMost && !HasFailure() && FailCall(operation, {.nth = nth, .error = error}, failed)) {
        nth += operation.stride;
      }
      if (HasFailure()) return;
      EXPECT_TRUE(nth < kMost || operation.stride > 1) << nth;
      EXPECT_GT(failed, 2) << "the faults had no effect";
    }
  }

  // Fails each call of a mount.
  void FailEachCall(const MountRequest& request, bool existing_target = false) {
    FailEachCall({
        .work = [&] { return mounter_.Mount(request); },
        .undo = [&] { EXPECT_OK(mounter_.Unmount(UnmountOf(request.target, !existing_target))); },
    });
  }

  std::set<std::string> calls_;  // the names of the calls that failed

 private:
  bool IsOurs(const std::string& target) const { return target.starts_with(dir_.path()); }

  // Without loop devices of others. The file of such a device may hang, and with it the thread of the mounter that
  // looks at the device and has it open.
  std::ptrdiff_t OpenFiles() const {
    const std::vector<std::string> files = Entries("/proc/self/fd");
    return std::count_if(files.begin(), files.end(), [this](const std::string& file) {
      std::error_code error;
      const std::string path = fs::read_symlink("/proc/self/fd/" + file, error);
      if (!path.starts_with("/dev/loop")) return true;
      std::string backing;
      std::getline(std::ifstream("/sys/block/" + path.substr(5) + "/loop/backing_file"), backing);
      return backing.empty() || IsOurs(backing);
    });
  }

  // False: the operation has fewer calls.
  bool FailCall(const Operation& operation, const SyscallFault& fault, int& failed) {
    operation.prepare();
    const std::string before = State();
    const FaultOutcome outcome = RunWithFault(fault, operation.work);
    SCOPED_TRACE(fmt::format("call {}, {}, failed with errno {}: {}", fault.nth, outcome.failed, fault.error,
                             outcome.status.ToString()));
    if (outcome.status.ok()) {
      operation.undo();
    } else {
      ++failed;
      if (operation.or_else(outcome.status)) return true;
    }
    calls_.insert(outcome.failed);
    // The kernel detaches a loop device a moment after its last user.
    if (Eventually([&] { return State() == before; })) return !outcome.failed.empty();
    EXPECT_EQ(State(), before);
    operation.undo();
    return false;
  }

  std::unique_ptr<MountNamespace> peer_;
};

struct BindCase {
  std::string name;
  MountFlags flags = {};
  Propagation propagation = Propagation::kInherit;
  bool recursive = false;
  bool existing_target = false;
  bool group = false;
};

class BindFaultTest : public FaultTest, public ::testing::WithParamInterface<BindCase> {};

TEST_P(BindFaultTest, LeavesEverythingAsBefore) {
  Dir("source");
  PrivateMount("source/sub");
  ASSERT_EQ(::chown(Path("source").c_str(), 0, 4711), 0);
  ASSERT_EQ(::chmod(Path("source").c_str(), 02775), 0);  // what a group makes of it
  const std::string target = Path("shared/target");
  if (GetParam().existing_target) Dir("shared/target");
  BindRequest request = BindOf(Path("source"), target, GetParam().flags, GetParam().propagation);
  request.recursive = GetParam().recursive;
  if (GetParam().group) request.group = 4711;
  FailEachCall({
      .work = [&] { return mounter_.Bind(request); },
      .undo =
          [&] {
            if (request.recursive) ::umount2((target + "/sub").c_str(), 0);
            EXPECT_OK(mounter_.Unmount(UnmountOf(target, !GetParam().existing_target)));
          },
  });
  // libmount makes the bind, and not Mooring: libmount 2.38.1 by mount(2), and newer ones by open_tree(2).
  constexpr int kFirstWithNewCalls = 2390;
  const bool newer = mnt_get_library_version(nullptr) >= kFirstWithNewCalls;
  EXPECT_EQ(calls_.contains("mount"), !newer);
  EXPECT_EQ(calls_.contains("open_tree"), newer);
  EXPECT_TRUE(calls_.contains("move_mount"));
  EXPECT_TRUE(calls_.contains("openat2"));
  EXPECT_TRUE(calls_.contains("flock"));
}

INSTANTIATE_TEST_SUITE_P(Binds, BindFaultTest,
                         ::testing::Values(BindCase{.name = "Plain"}, BindCase{.name = "ReadOnly", .flags = ReadOnly()},
                                           BindCase{.name = "OnAnExistingTarget", .existing_target = true},
                                           BindCase{.name = "Private", .propagation = Propagation::kPrivate},
                                           BindCase{.name = "Slave", .propagation = Propagation::kSlave},
                                           BindCase{.name = "Shared", .propagation = Propagation::kShared},
                                           BindCase{.name = "RecursiveReadOnlyPrivate",
                                                    .flags = ReadOnly(),
                                                    .propagation = Propagation::kPrivate,
                                                    .recursive = true},
                                           BindCase{.name = "ReadOnlyWithAGroup", .flags = ReadOnly(), .group = true}),
                         [](const auto& test) { return test.param.name; });

TEST_F(FaultTest, BindOfADeviceNode) {
  const std::string device = Losetup(Sparse("image", kMiB));
  FailEachCall({
      .work = [&] { return mounter_.Bind(NodeBindOf(device, Path("shared/node"))); },
      .undo = [&] { EXPECT_OK(mounter_.Unmount(UnmountOf(Path("shared/node"), true))); },
  });
}

TEST_F(FaultTest, MountOfADevice) {
  MountRequest request = MountOf(Losetup(Ext4Image("image")), Path("shared/target"));
  request.propagation = Propagation::kPrivate;
  request.flags = ReadOnly();
  request.options = {{"commit", "30"}, {"lazytime", std::nullopt}};
  FailEachCall(request);
}

TEST_F(FaultTest, MountOfAnImage) {
  MountRequest request = MountOf(Ext4Image("image"), Path("shared/target"));
  request.group = 4711;
  FailEachCall(request);
}

TEST_F(FaultTest, MountOfAnImageOnAnExistingTarget) {
  FailEachCall(MountOf(Ext4Image("image"), Dir("shared/target")), true);
}

TEST_F(FaultTest, MountOfAnImageThatIsAttachedAlready) {
  const MountRequest request = MountOf(Ext4Image("image"), Path("shared/target"));
  FailEachCall({
      .work = [&] { return mounter_.Mount(request); },
      .undo =
          [&] {
            EXPECT_OK(mounter_.Unmount(UnmountOf(request.target, true)));
            EXPECT_TRUE(NoLoopOver(request.source));
            Losetup(request.source);
          },
      .prepare =
          [&] {
            if (LoopsOver(request.source).empty()) Losetup(request.source);
          },
  });
}

// If only the target could not be removed, the next call removes it.
TEST_F(FaultTest, UnmountIsFinishedByTheNextCall) {
  Dir("source");
  const std::string target = Path("shared/target");
  FailEachCall({
      .work = [&] { return mounter_.Unmount(UnmountOf(target, true)); },
      .undo = [&] { EXPECT_OK(mounter_.Bind(BindOf(Path("source"), target, ReadOnly()))); },
      .prepare =
          [&] {
            if (!MountsAt(target).empty()) return;
            EXPECT_OK(mounter_.Bind(BindOf(Path("source"), target, ReadOnly())));
          },
      .or_else =
          [&](const absl::Status&) {
            if (!MountsAt(target).empty()) return false;
            EXPECT_OK(mounter_.Unmount(UnmountOf(target, true)));
            EXPECT_FALSE(Exists(target));
            return true;
          },
  });
}

TEST_F(FaultTest, AttachLoop) {
  const AttachLoopRequest request = {.backing_file = Sparse("image", kMiB), .label = "fault", .read_only = false};
  FailEachCall({
      .work = [&] { return mounter_.AttachLoop(request).status(); },
      .undo =
          [&] {
            for (const LoopLine& loop : LoopsOver(request.backing_file)) testing::DetachLoop(loop);
            EXPECT_TRUE(NoLoopOver(request.backing_file)) << "another process may have it open for a moment";
          },
      .stride = 7,
  });
}

TEST_F(FaultTest, DetachLoop) {
  const AttachLoopRequest request = {.backing_file = Sparse("image", kMiB), .label = "fault", .read_only = false};
  LoopInfo loop;
  const auto attach = [&] {
    const auto attached = mounter_.AttachLoop(request);
    ASSERT_OK(attached);
    loop = *attached;
  };
  attach();
  FailEachCall({
      .work = [&] { return mounter_.DetachLoop(loop); },
      .undo =
          [&] {
            EXPECT_TRUE(NoLoopOver(request.backing_file));
            attach();
          },
      .stride = 7,
  });
}

// A read-only mount is grown through a writable copy of it.
TEST_F(FaultTest, GrowLeavesNoMountBehind) {
  MountRequest request = MountOf(XfsImage("image"), Path("shared/target"), "xfs");
  request.flags = ReadOnly();
  ASSERT_OK(mounter_.Mount(request));
  FailEachCall({
      .work = [&] { return mounter_.Grow(request.target, "xfs"); }, .undo = [] {},  // it has its size
  });
}

// The formatted file replaces the empty one in one step. If the directory cannot be synced after that, the call fails.
TEST_F(FaultTest, FormatLeavesAnEmptyOrAFormattedImage) {
  const std::string image = Path("image");
  FailEachCall({
      .work =
          [&] {
            return mounter_.Format({image, "ext4"});
          },
      .undo = [&] { Sparse("image", 16 * kMiB); },
      .prepare = [&] { Sparse("image", 16 * kMiB); },
      .or_else =
          [&](const absl::Status& status) {
            const auto found = mounter_.Probe(image);
            if (!found.ok() || found->content != FilesystemInfo::Content::kFilesystem) return false;
            EXPECT_THAT(status, FailsWith(status.code(), "sync the directory"));
            EXPECT_EQ(Tool("e2fsck -fn " + image + " >/dev/null 2>&1"), 0);
            EXPECT_THAT(Entries(dir_.path()), UnorderedElementsAre("image", "shared"));
            return true;
          },
  });
}

// Another process locks the target as soon as it was created.
TEST_F(FaultTest, TargetThatCannotBeLockedIsRemovedAgain) {
  const BindRequest request = BindOf(Dir("source"), Path("shared/target"));
  ASSERT_OK(mounter_.Bind(request));
  ASSERT_OK(mounter_.Unmount(UnmountOf(request.target, true)));
  const std::string before = State();
  const SyscallFault fault = {.error = EWOULDBLOCK, .only = "flock", .and_after = true};
  const FaultOutcome outcome = RunWithFault(fault, [&] { return mounter_.Bind(request); });
  EXPECT_THAT(outcome.status, FailsWith(StatusCode::kAborted, "another process is mounting at"));
  EXPECT_EQ(State(), before);
}

}  // namespace
}  // namespace mooring::testing

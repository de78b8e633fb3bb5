// An attacker with write access to the directories of targets exchanges files while a target is resolved, checked and
// mounted on. Nothing may be mounted outside the roots, only volumes may be bound, nothing outside may be removed, and
// no mount may be left.
//
//   roots/st/staging     the volume, mounted       outside/st/staging   a tmpfs, not a volume
//   roots/pods/target    published on              outside/pods/target  must stay as it is
#include <fmt/ranges.h>

#include <cstdio>

#include "mounter/helper/guarded_stack.h"
#include "tests/kernel/helper/helper_test.h"

namespace mooring::testing {
namespace {

// Repeats an action some ten thousand times a second, until it is destroyed.
class Swapper {
 public:
  explicit Swapper(std::function<bool()> swap)
      : thread_([this, swap = std::move(swap)] {
          while (!stop_) {
            done_ += swap() ? 1 : 0;
            ::usleep(20);  // or renames keep everybody else from the directory's lock
          }
        }) {}
  ~Swapper() { Stop(); }
  int Stop() {  // how often it did
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return done_;
  }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<int> done_ = 0;
  std::thread thread_;
};

bool Exchange(const std::string& a, const std::string& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

enum class Way { kInProcess, kHelper };

constexpr int kTimes = 1500;     // of each through the helper, 10,500 in all
constexpr int kInProcess = 500;  // of each without it

class SwapTest : public KernelTest, public ::testing::WithParamInterface<Way> {
 protected:
  void SetUp() override {
    for (const char* name : {"roots/st", "roots/pods", "sources", "outside/st/staging", "outside/pods/target"})
      Dir(name);
    File("outside/pods/target/keep", "precious");
    Dir("outside/pods/empty");
    ASSERT_EQ(::mount("tmpfs", Path("outside/st/staging").c_str(), "tmpfs", 0, "size=64k"), 0);
    MakeMounter();
    const MountRequest request = MountOf(Ext4Image("sources/vol.img"), Path("roots/st/staging"));
    ASSERT_OK(swapped_->Mount(request));
    volume_ = StatOf(Path("roots/st/staging")).st_dev;
    outside_ = Outside();
  }

  void TearDown() override {
    helper_.reset();
    KernelTest::TearDown();
  }

  void MakeMounter() {
    const HelperPolicy policy = {{Path("roots")}, {Path("sources")}, "mooring-kernel-test"};
    if (GetParam() == Way::kHelper) {
      helper_ = StartHelper(policy);
      swapped_ = helper_.get();
      return;
    }
    stack_ = std::make_unique<GuardedStack>(policy);
    swapped_ = &stack_->mounter;
  }

  // Describes the mounts and files outside.
  std::string Outside() const {
    std::string text;
    for (const MountLine& line : MountsBelow(Path("outside"))) text += line.target + " " + line.fs_type + "\n";
    return text + fmt::format("{} {}", fmt::join(Entries(Path("outside/pods/target")), " "),
                              Exists(Path("outside/pods/empty")));
  }

  // Publishes and unpublishes; after each publish `looks` reports violations. On a busy machine one side may run alone
  // for a while, so this repeats until publishes have succeeded and failed.
  void PublishOften(const std::function<std::string()>& looks = {}) {
    const int least = GetParam() == Way::kHelper ? kTimes : kInProcess;
    const auto end = Clock::now() + std::chrono::seconds(10);
    int published = 0, times = 0;
    const auto wants_more = [&] {
      const bool one_sided = published == 0 || published == times;
      return times < least || (one_sided && Clock::now() < end);
    };
    for (; wants_more() && !HasFailure(); ++times) {
      const absl::Status bound = swapped_->Bind(BindOf(Path("roots/st/staging"), target_));
      if (bound.ok()) ++published;
      if (looks) {
        EXPECT_EQ(looks(), "") << bound;
      }
      swapped_->Unmount(UnmountOf(target_, true)).IgnoreError();
    }
    EXPECT_GT(published, 0) << "no publish succeeded";
    EXPECT_LT(published, times) << "no publish was disturbed";
  }

  // A mount outside would stay, so an occasional check finds it.
  std::string SomethingOutside() {
    const bool look = ++looks_ % 25 == 0;
    return !look || Outside() == outside_ ? "" : Outside();
  }

  std::string NoVolumeAtTarget() const {
    const struct stat status = StatOf(target_);
    const bool bound = S_ISDIR(status.st_mode) && status.st_dev != StatOf(Path("roots")).st_dev;
    return bound && status.st_dev != volume_ ? "what was bound is no volume" : "";
  }

  void ExpectNothingLeft() {
    EXPECT_EQ(Outside(), outside_);
    for (const MountLine& line : MountsBelow(Path("roots"))) {
      EXPECT_EQ(line.target, Path("roots/st/staging")) << "left mounted";
    }
  }

  std::string target_ = Path("roots/pods/target");
  dev_t volume_ = 0;
  std::string outside_;
  int looks_ = 0;
  Mounter* swapped_ = nullptr;

 private:
  std::unique_ptr<GuardedStack> stack_;
  std::unique_ptr<HelperMounter> helper_;
};

// Before a rename within one directory, the kernel checks for mounts, but releases its lock before the rename
// (Linux 6.8). So a mount may move to the other name, which is still inside.
TEST_P(SwapTest, ATargetThatAlternatesWithALinkToOutside) {
  const std::string link = Path("roots/pods/link");
  ASSERT_EQ(::symlink(Path("outside/pods/empty").c_str(), link.c_str()), 0);
  Swapper swapper([&] { return Exchange(target_, link); });
  PublishOften([&] {
    EXPECT_OK(swapped_->Unmount(UnmountOf(link)));
    return SomethingOutside();
  });
  EXPECT_GT(swapper.Stop(), 0);
  EXPECT_OK(swapped_->Unmount(UnmountOf(link)));
  ExpectNothingLeft();
}

TEST_P(SwapTest, ATargetThatIsRemovedAndLinkedOutside) {
  Swapper swapper([this] {
    ::rmdir(target_.c_str());
    const bool linked = ::symlink(Path("outside/pods/empty").c_str(), target_.c_str()) == 0;
    if (linked) ::unlink(target_.c_str());
    return linked;
  });
  PublishOften([this] { return SomethingOutside(); });
  EXPECT_GT(swapper.Stop(), 0);
  ExpectNothingLeft();
}

TEST_P(SwapTest, AParentThatAlternatesWithALinkToOutside) {
  target_ = Path("roots/pods/empty");  // the link leads to one of that name
  ASSERT_EQ(::symlink(Path("outside/pods").c_str(), Path("roots/link").c_str()), 0);
  Swapper swapper([this] { return Exchange(Path("roots/pods"), Path("roots/link")); });
  PublishOften([this] { return SomethingOutside(); });
  EXPECT_GT(swapper.Stop(), 0);
  if (S_ISLNK(StatOf(Path("roots/pods")).st_mode)) Exchange(Path("roots/pods"), Path("roots/link"));
  EXPECT_OK(swapped_->Unmount(UnmountOf(target_, true)));
  ExpectNothingLeft();
}

// A mount point cannot be renamed, so a volume published inside stays inside.
TEST_P(SwapTest, ATargetThatIsExchangedWithADirectoryOutside) {
  Swapper swapper([this] { return Exchange(target_, Path("outside/pods/empty")); });
  PublishOften([this] { return SomethingOutside(); });
  EXPECT_GT(swapper.Stop(), 0);
  ExpectNothingLeft();
}

// A mount moves with the directory above it. Moving that directory brings the mount outside, even long after the
// publish. It does no harm there, and is unmounted when it is inside again.
TEST_P(SwapTest, AParentThatIsExchangedWithADirectoryOutside) {
  Swapper swapper([this] { return Exchange(Path("roots/pods"), Path("outside/pods")); });
  PublishOften();
  EXPECT_GT(swapper.Stop(), 0);
  if (Exists(Path("roots/pods/target/keep"))) Exchange(Path("roots/pods"), Path("outside/pods"));
  EXPECT_OK(swapped_->Unmount(UnmountOf(target_, true)));
  ExpectNothingLeft();
}

TEST_P(SwapTest, ASourceThatIsExchangedWithAnotherDirectory) {
  Swapper swapper([this] { return Exchange(Path("roots/st"), Path("outside/st")); });
  PublishOften([this] { return NoVolumeAtTarget(); });
  EXPECT_GT(swapper.Stop(), 0);
  if (StatOf(Path("roots/st/staging")).st_dev != volume_) Exchange(Path("roots/st"), Path("outside/st"));
  ExpectNothingLeft();
}

TEST_P(SwapTest, ASourceThatAlternatesWithALinkToAnotherDirectory) {
  ASSERT_EQ(::symlink(Path("outside/st").c_str(), Path("roots/link").c_str()), 0);
  Swapper swapper([this] { return Exchange(Path("roots/st"), Path("roots/link")); });
  PublishOften([this] { return NoVolumeAtTarget(); });
  EXPECT_GT(swapper.Stop(), 0);
  if (S_ISLNK(StatOf(Path("roots/st")).st_mode)) Exchange(Path("roots/st"), Path("roots/link"));
  ExpectNothingLeft();
}

INSTANTIATE_TEST_SUITE_P(Mounter, SwapTest, ::testing::Values(Way::kInProcess, Way::kHelper),
                         [](const auto& param) { return param.param == Way::kHelper ? "Helper" : "InProcess"; });

}  // namespace
}  // namespace mooring::testing
